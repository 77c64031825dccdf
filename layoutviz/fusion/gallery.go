package fusion

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/emit"
	"github.com/tilus-lab/tilus-lab/gpu/traffic"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/part"
)

const combiners = `max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

`

// Softmax is the fusion that lessons and the explorer begin with.
const Softmax = "HloModule softmax\n\n" + combiners + `ENTRY softmax {
  x = f32[256,1024] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  top = f32[256] reduce(x, low), dimensions={1}, to_apply=max
  tops = f32[256,1024] broadcast(top), dimensions={0}
  below = f32[256,1024] subtract(x, tops)
  e = f32[256,1024] exponential(below)
  total = f32[256] reduce(e, zero), dimensions={1}, to_apply=sum
  totals = f32[256,1024] broadcast(total), dimensions={0}
  ROOT y = f32[256,1024] divide(e, totals)
}
`

// Text is a fusion with a name.
type Text struct{ Name, Doc, HLO string }

// Texts are fusions, one for each emitter, for pictures, lessons and the explorer.
func Texts() []Text {
	return []Text{
		{"softmax", "rows reduced twice, kept in registers", Softmax},
		{"loop", "element by element, with a row that is used again", `ENTRY bias {
  x = f32[512,1024] parameter(0)
  b = f32[1024] parameter(1)
  bs = f32[512,1024] broadcast(b), dimensions={1}
  y = f32[512,1024] add(x, bs)
  zero = f32[] constant(0)
  zeros = f32[512,1024] broadcast(zero), dimensions={}
  ROOT r = f32[512,1024] maximum(y, zeros)
}
`},
		{"transpose", "through a tile in shared memory", `ENTRY turn {
  x = f32[300,200] parameter(0)
  t = f32[200,300] transpose(x), dimensions={1,0}
  ROOT y = f32[200,300] exponential(t)
}
`},
		{"packed", "a transpose of elements of 16 bits", `ENTRY packed {
  x = bf16[256,128] parameter(0)
  ROOT t = bf16[128,256] transpose(x), dimensions={1,0}
}
`},
		{"rows", "rows reduced by threads of a warp", "HloModule rows\n\n" + combiners + `ENTRY rows {
  x = f32[256,1024] parameter(0)
  zero = f32[] constant(0)
  sq = f32[256,1024] multiply(x, x)
  ROOT r = f32[256] reduce(sq, zero), dimensions={1}, to_apply=sum
}
`},
		{"short-rows", "rows shorter than a warp", "HloModule rows\n\n" + combiners + `ENTRY rows {
  x = f32[4096,8] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[4096] reduce(x, zero), dimensions={1}, to_apply=sum
}
`},
		{"columns", "few columns, shared by blocks", "HloModule columns\n\n" + combiners + `ENTRY columns {
  x = f32[2048,64] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[64] reduce(x, zero), dimensions={0}, to_apply=sum
}
`},
		{"concatenate", "operands side by side", `ENTRY beside {
  x = f32[64,96] parameter(0)
  y = f32[64,32] parameter(1)
  c = f32[64,128] concatenate(x, y), dimensions={1}
  ROOT n = f32[64,128] negate(c)
}
`},
		{"update", "a box replaced in place", `ENTRY update {
  x = f32[128,256] parameter(0)
  u = f32[4,256] parameter(1)
  i = s32[] parameter(2)
  zero = s32[] constant(0)
  n = f32[4,256] negate(u)
  ROOT d = f32[128,256] dynamic-update-slice(x, n, i, zero)
}
`},
		{"scatter", "rows added where indices say", "HloModule scatter\n\n" + combiners + `ENTRY scatter {
  x = f32[64,32] parameter(0)
  i = s32[40,1] parameter(1)
  u = f32[40,1,32] parameter(2)
  ROOT s = f32[64,32] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
}
`},
		{"pyramid", "values that are read at two places", `ENTRY pyramid {
  x = f32[40] parameter(0)
  a = f32[39] slice(x), slice={[0:39]}
  b = f32[39] slice(x), slice={[1:40]}
  c = f32[39] add(a, b)
  d = f32[38] slice(c), slice={[0:38]}
  e = f32[38] slice(c), slice={[1:39]}
  f = f32[38] add(d, e)
  g = f32[37] slice(f), slice={[0:37]}
  h = f32[37] slice(f), slice={[1:38]}
  ROOT i = f32[37] add(g, h)
}
`},
		{"two-kernels", "columns that are reduced and used again", "HloModule centre\n\n" + combiners + `ENTRY centre {
  x = f32[1024,2048] parameter(0)
  zero = f32[] constant(0)
  s = f32[2048] reduce(x, zero), dimensions={0}, to_apply=sum
  b = f32[1024,2048] broadcast(s), dimensions={1}
  ROOT r = f32[1024,2048] subtract(x, b)
}
`},
	}
}

// Gallery lists pictures for judging by eye and for tests.
func Gallery() []layoutviz.Example {
	type draw = func(p *emit.Program, o layoutviz.Options) (layoutviz.Picture, error)
	example := func(name, doc, text string, d draw) layoutviz.Example {
		return layoutviz.Example{Name: "fusion-" + name, Doc: doc, Draw: func(o layoutviz.Options) (layoutviz.Picture, error) {
			for _, t := range Texts() {
				if t.Name != text {
					continue
				}
				m, err := hlo.Parse(name, t.HLO)
				if err != nil {
					return layoutviz.Picture{}, err
				}
				p, err := emit.Compile(m, emit.Options{})
				if err != nil {
					return layoutviz.Picture{}, err
				}
				return d(p, o)
			}
			return layoutviz.Picture{}, fmt.Errorf("fusion: there is no text %s", text)
		}}
	}
	threads := func(tensor string, kind traffic.Kind) draw {
		return func(p *emit.Program, o layoutviz.Options) (layoutviz.Picture, error) {
			k, err := traffic.OfKernel(p.Kernels[0])
			if err != nil {
				return layoutviz.Picture{}, err
			}
			return Threads(k, tensor, kind, o)
		}
	}
	access := func(tensor string, kind traffic.Kind) draw {
		return func(p *emit.Program, o layoutviz.Options) (layoutviz.Picture, error) {
			k, err := traffic.OfKernel(p.Kernels[0])
			if err != nil {
				return layoutviz.Picture{}, err
			}
			for _, a := range k.Accesses {
				if a.Tensor == tensor && a.Kind == kind {
					return Access(a, o)
				}
			}
			return layoutviz.Picture{}, fmt.Errorf("fusion: no %s of %s", kind, tensor)
		}
	}
	partition := func(p *emit.Program, o layoutviz.Options) (layoutviz.Picture, error) {
		k := p.Plan.Kernels[0]
		return Partition(part.WithHeroes(k.Computation, k.Heroes...), o)
	}
	return []layoutviz.Example{
		example("loop-threads", "which thread writes which element of a loop", "loop", threads("out0", traffic.Write)),
		example("transpose-read", "which thread reads which element of a transpose", "transpose", threads("x", traffic.Read)),
		example("transpose-write", "which thread writes which element of it", "transpose", threads("out0", traffic.Write)),
		example("transpose-shared", "how a warp reads its tile", "transpose", access("tile1", traffic.SharedRead)),
		example("transpose-sectors", "the sectors that a warp writes", "transpose", access("out0", traffic.Write)),
		example("packed-write", "a transpose of 16 bits", "packed", threads("out0", traffic.Write)),
		example("rows-threads", "which thread reads which element of rows", "rows", threads("x", traffic.Read)),
		example("short-rows-threads", "rows that share a warp", "short-rows", threads("x", traffic.Read)),
		example("columns-threads", "columns of a reduction", "columns", threads("x", traffic.Read)),
		example("softmax-threads", "rows kept in registers", "softmax", threads("out0", traffic.Write)),
		example("concatenate-threads", "operands side by side", "concatenate", threads("out0", traffic.Write)),
		example("scatter-threads", "who reads the updates of a scatter", "scatter", threads("u", traffic.Read)),
		example("softmax-partition", "the functions of softmax", "softmax", partition),
		example("pyramid-partition", "functions that are called twice", "pyramid", func(p *emit.Program, o layoutviz.Options) (layoutviz.Picture, error) {
			return Partition(part.Split(p.Flat), o)
		}),
		example("softmax-kernels", "the kernel of softmax", "softmax", func(p *emit.Program, o layoutviz.Options) (layoutviz.Picture, error) { return Kernels(p.Plan, o) }),
		example("two-kernels", "two kernels with a temporary", "two-kernels", func(p *emit.Program, o layoutviz.Options) (layoutviz.Picture, error) { return Kernels(p.Plan, o) }),
		{Name: "fusion-steps", Doc: "an indexing map becomes simpler", Draw: func(o layoutviz.Options) (layoutviz.Picture, error) {
			m, err := affine.ParseMap(StartMap)
			if err != nil {
				return layoutviz.Picture{}, err
			}
			return Steps(m, o)
		}},
	}
}

// StartMap is the map of a vectorised loop over a tensor [100, 30, 40] as it is composed.
const StartMap = "(th, bl)[s] -> (((bl * 128 + th) * 4 + s) / 1200, (((bl * 128 + th) * 4 + s) / 40) mod 30, ((bl * 128 + th) * 4 + s) mod 40), domain: th in [0, 127], bl in [0, 234], s in [0, 3], (bl * 128 + th) * 4 + s in [0, 119999]"
