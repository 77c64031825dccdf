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
	var b strings.Builder
	n := 64
	fmt.Fprintf(&b, "HloModule m\nENTRY e {\n x0 = f32[%d] parameter(0)\n", n)
	for i := range 24 {
		root := ""
		if i == 23 {
			root = "ROOT "
		}
		fmt.Fprintf(&b, " a%d = f32[%d] slice(x%d), slice={[0:%d]}\n b%d = f32[%d] slice(x%d), slice={[1:%d]}\n %sx%d = f32[%d] add(a%d, b%d)\n", i, n-1, i, n-1, i, n-1, i, n, root, i+1, n-1, i, i)
		n--
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
	if took := time.Since(start); took > time.Second {
		t.Errorf("compiled in %v", took)
	}
	if n := len(p.Kernels[0].Code.Types); n > 3000 {
		t.Errorf("%d values", n)
	}
	if err := check(m, tiny, 1, 0); err != nil {
		t.Error(err)
	}
}
