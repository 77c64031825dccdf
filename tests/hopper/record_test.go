package hopper

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/tests/record"
)

// TestJITRecord holds what was measured of each program's way to machine code: no spills,
// our share at most 15 ms, and all of it hardly longer than ptxas takes for the same PTX. It says
// which rows no longer hold for the program as it is now; those wait for a GPU.
func TestJITRecord(t *testing.T) {
	rows := map[string]Row{}
	for _, r := range record.Read[Row](t, "hopper_jit.json") {
		rows[r.Name] = r
	}
	if len(rows) < 20 {
		t.Errorf("%d rows", len(rows))
	}
	for _, s := range sources(t) {
		r, ok := rows[s.name]
		if !ok {
			t.Logf("%s was never measured; %s", s.name, howTo)
			continue
		}
		if r.Hash != s.hash() {
			t.Logf("%s is stale: it was measured with another text", s.name)
		}
		if r.What != "jit" || r.Commit == "" || r.Binary == "" || r.Rounds < 2 || r.JITMs <= 0 || r.PtxasMs <= 0 || r.Local != 0 {
			t.Errorf("%s is wrong or incomplete: %+v", s.name, r)
		}
		if r.CompileMs > 15 {
			t.Errorf("%s: %.1f ms from text to PTX; there may be 15", s.name, r.CompileMs)
		}
		if most := max(100, 1.3*r.PtxasMs); r.CompileMs+r.JITMs > most {
			t.Errorf("%s: %.0f ms until it is machine code; there may be %.0f", s.name, r.CompileMs+r.JITMs, most)
		}
	}
}
