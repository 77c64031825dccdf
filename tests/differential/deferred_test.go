package differential

import (
	"context"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestDeferredDecodeIsDecode compares the two decode programs bit for bit on the
// same bytes, reals included: a power of two that goes from the weights to the
// scale rounds nothing.
func TestDeferredDecodeIsDecode(t *testing.T) {
	const m, n, k = 2, 32, 384
	args := make([]ir.Arg, 4, 7)
	for i, spec := range []string{"randcode:u8[2, 3, 1024]:seed=1", "rand:f16[3, 32]:lo=0.001:hi=0.02:seed=2", "randn:f16[2, 384]:seed=3"} {
		a, err := array.Generate(spec)
		if err != nil {
			t.Fatal(err)
		}
		args[i].Array = a
	}
	args[3].Array = array.New(dtype.F16, m, n)
	args = append(args, ir.Arg{Int: m}, ir.Arg{Int: n}, ir.Arg{Int: k})
	for _, device := range []string{"interp", "sim"} {
		d := open(t, device)
		var y []*array.Array
		for _, name := range []string{"decode_u4", "decode_u4_deferred"} {
			p, err := text.Parse(name, corpus.Program(name), nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := d.Run(context.Background(), p, args)
			if err != nil {
				t.Fatal(err)
			}
			y = append(y, res.Args[3].Array)
		}
		if r := array.Compare(y[1], y[0]); !r.Equal() || y[0].At(0, 0) == 0 {
			t.Errorf("%s: %v", device, r)
		}
	}
}
