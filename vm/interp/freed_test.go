package interp

import "testing"

// TestFreedTilesEnd holds that a block of statements ends well whichever of its
// tiles were freed before.
func TestFreedTilesEnd(t *testing.T) {
	for _, freed := range []string{"FreeShared(a)", "FreeShared(b)", "FreeShared(a)\n\tFreeShared(b)", "FreeShared(b)\n\tFreeShared(a)"} {
		if _, err := run(t, `program p<2>() warps=1 {
	a = AllocateShared() : shared i32[8] shared_row_major(8)
	b = AllocateShared() : shared i32[8] shared_row_major(8)
	`+freed+`
}
`); err != nil {
			t.Errorf("%s: %v", freed, err)
		}
	}
}
