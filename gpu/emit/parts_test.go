package emit

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

func TestParts(t *testing.T) {
	for _, c := range []struct{ name, emitter, text string }{
		{"concatenate", plan.ConcatEmitter, `ENTRY e {
  a = f32[5,16] parameter(0)
  b = f32[7,16] parameter(1)
  x = f32[5,16] exponential(a)
  y = f32[7,16] tanh(b)
  k = f32[12,16] concatenate(x, y), dimensions={0}
  ROOT r = f32[12,16] negate(k)
}`},
		{"concatenate minor", plan.ConcatEmitter, `ENTRY e {
  a = bf16[6,8] parameter(0)
  b = bf16[6,24] parameter(1)
  x = bf16[6,8] exponential(a)
  y = bf16[6,24] tanh(b)
  ROOT k = bf16[6,32] concatenate(x, y), dimensions={1}
}`},
		{"slices", plan.SlicesEmitter, `ENTRY e {
  a = f32[10,12] parameter(0)
  n = f32[10,12] negate(a)
  x = f32[4,12] slice(n), slice={[0:4],[0:12]}
  y = f32[5,6] slice(n), slice={[5:10],[0:12:2]}
  ROOT t = (f32[4,12], f32[5,6]) tuple(x, y)
}`},
	} {
		m, err := hlo.Parse(c.name, "HloModule m\n"+c.text+"\n")
		if err != nil {
			t.Fatal(err)
		}
		p, err := Compile(m, Options{Device: tiny})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Kernels[0].Plan.Emitter; len(p.Kernels) != 1 || got != c.emitter || p.Kernels[0].plain {
			t.Errorf("%s: %d kernels, the first by %s", c.name, len(p.Kernels), got)
		}
		if err := check(m, tiny, 3, 0); err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, p.Kernels[0].Tensor)
		}
	}
}
