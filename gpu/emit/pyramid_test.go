package emit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// TestPyramid: sums of shifted sums, which take 2^24 reads when each is computed where it
// is read, compile at once. Sizes that no block divides leave constraints everywhere.
func TestPyramid(t *testing.T) {
	const depth = 24
	for _, c := range []struct {
		name string
		size int
		pads bool
	}{{"slices", 64, false}, {"pads", 64, true}, {"pads, odd", 41, true}, {"pads, many", 4099, true}} {
		var b strings.Builder
		n := c.size
		fmt.Fprintf(&b, "HloModule m\nENTRY e {\n x0 = f32[%d] parameter(0)\n zero = f32[] constant(0)\n", n)
		for i := range depth {
			root := ""
			if i == depth-1 {
				root = "ROOT "
			}
			if c.pads {
				fmt.Fprintf(&b, " a%d = f32[%d] pad(x%d, zero), padding=1_-1\n b%d = f32[%d] pad(x%d, zero), padding=-1_1\n", i, n, i, i, n, i)
			} else {
				n--
				fmt.Fprintf(&b, " a%d = f32[%d] slice(x%d), slice={[0:%d]}\n b%d = f32[%d] slice(x%d), slice={[1:%d]}\n", i, n, i, n, i, n, i, n+1)
			}
			fmt.Fprintf(&b, " %sx%d = f32[%d] add(a%d, b%d)\n", root, i+1, n, i, i)
		}
		b.WriteString("}\n")
		m, err := hlo.Parse("pyramid", b.String())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		p, err := Compile(m, Options{})
		if err != nil {
			t.Fatal(err)
		}
		took, values := time.Since(start), len(p.Kernels[0].Code.Types)
		t.Logf("%s: %v, %d values", c.name, took, values)
		if took > 500*time.Millisecond { // 15 ms on an idle machine
			t.Errorf("%s compiled in %v", c.name, took)
		}
		if values > 4000 {
			t.Errorf("%s: %d values", c.name, values)
		}
		if err := check(m, tiny, 1, 0); err != nil {
			t.Error(c.name, err)
		}
	}
}
