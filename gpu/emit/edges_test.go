package emit

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// TestEdges: starts that are known when the program runs, in loops whose last thread has no
// whole vector, and tensors without elements.
func TestEdges(t *testing.T) {
	const c = "c {\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT r = s32[] add(a, b)\n}\n"
	for _, x := range []struct{ name, text string }{
		{"slice at a parameter", "ENTRY e {\n x = s32[93] parameter(0)\n i = u8[] parameter(1)\n ROOT r = s32[16] dynamic-slice(x, i), dynamic_slice_sizes={16}\n}"},
		{"slice of a bitcast", "ENTRY e {\n x = s32[31,3] parameter(0)\n y = s32[93] bitcast(x)\n i = s64[] parameter(1)\n ROOT r = s32[36] dynamic-slice(y, i), dynamic_slice_sizes={36}\n}"},
		{"nibbles replaced at a parameter", "ENTRY e {\n x = s4[8] parameter(0)\n z = s4[] constant(1)\n y = s4[10] pad(x, z), padding=0_2_0\n u = s4[3] parameter(1)\n i = s64[] parameter(2)\n ROOT r = s4[10] dynamic-update-slice(y, u, i)\n}"},
		{"a start for each row", "ENTRY e {\n x = s32[9,40] parameter(0)\n i = s32[7] parameter(1)\n k = s32[] parameter(2)\n one = s32[1] dynamic-slice(i, k), dynamic_slice_sizes={1}\n j = s32[] reshape(one)\n z = s32[] constant(0)\n ROOT r = s32[9,20] dynamic-slice(x, z, j), dynamic_slice_sizes={9,20}\n}"},
		{"sums of nothing", c + "ENTRY e {\n x = s32[33,13,0] parameter(0)\n z = s32[] constant(5)\n ROOT r = s32[33,13] reduce(x, z), dimensions={2}, to_apply=c\n}"},
		{"a sum of nothing", c + "ENTRY e {\n x = s32[0] parameter(0)\n z = s32[] constant(5)\n ROOT r = s32[] reduce(x, z), dimensions={0}, to_apply=c\n}"},
		{"nothing beside something", c + "ENTRY e {\n x = s32[0,8] parameter(0)\n z = s32[] constant(5)\n n = s32[0,8] negate(x)\n r = s32[8] reduce(x, z), dimensions={0}, to_apply=c\n ROOT t = (s32[0,8], s32[8]) tuple(n, r)\n}"},
	} {
		t.Run(x.name, func(t *testing.T) {
			m, err := hlo.Parse("test", "HloModule m\n"+x.text)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(8) {
				if err := check(m, tiny, seed, 0); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
