package theatre

import (
	"errors"
	"strconv"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/follow"
	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Gallery lists one of each picture, for judging by eye and for tests.
func Gallery() []layoutviz.Example {
	example := func(name, doc, mode string, draw func(r *volta.Run, o layoutviz.Options) (layoutviz.Picture, error)) layoutviz.Example {
		return layoutviz.Example{Name: name, Doc: doc, Draw: func(o layoutviz.Options) (layoutviz.Picture, error) {
			s, err := volta.ParseSetup(mode, "row.col", "")
			if err != nil {
				return layoutviz.Picture{}, err
			}
			a, b, c := volta.Integers()
			r, err := volta.New(s, volta.Measured, a, b, c)
			if err != nil {
				return layoutviz.Picture{}, err
			}
			return draw(r, o)
		}}
	}
	const small = 1.0 / (1 << 24)
	return []layoutviz.Example{
		example("volta-core", "what one of the 64 green boxes of a tensor core is", "mixed", func(r *volta.Run, o layoutviz.Options) (layoutviz.Picture, error) { return Core(r, 0, 1, 0, 21, o) }),
		example("volta-octets", "Volta's octets after 7 HMMA: buffers, multiplexer, sums, cycles", "mixed", func(r *volta.Run, o layoutviz.Options) (layoutviz.Picture, error) { return Octets(r, 7, o) }),
		example("volta-octets-f16", "the same with sums in f16", "fp16", func(r *volta.Run, o layoutviz.Options) (layoutviz.Picture, error) { return Octets(r, 3, o) }),
		example("volta-story", "all 16 HMMA of a product", "mixed", Storyboard),
		example("volta-follow", "one element from shared memory through registers into HMMA", "mixed", func(r *volta.Run, o layoutviz.Options) (layoutviz.Picture, error) {
			return Follow(r, "A", 5, 9, 0, o)
		}),
		example("volta-memory", "A in shared memory, with the lanes that load it", "mixed", func(r *volta.Run, o layoutviz.Options) (layoutviz.Picture, error) { return Memory(r, "A", 7, o) }),
		example("volta-rounding", "1 + 4·2⁻²⁴ as tensor cores add it", "mixed", func(_ *volta.Run, o layoutviz.Options) (layoutviz.Picture, error) {
			return Rounding(volta.F32, 1, []float64{small, small, small, small}, volta.AllNumerics(), o)
		}),
		{Name: "way", Doc: "one element of a product, from its address over shared memory and the matrix unit to the store", Draw: func(o layoutviz.Options) (layoutviz.Picture, error) {
			w, err := exampleWay()
			if err != nil {
				return layoutviz.Picture{}, err
			}
			return Way(w, o)
		}},
		{Name: "array", Doc: "a tensor of a notebook", Draw: func(o layoutviz.Options) (layoutviz.Picture, error) {
			return Array("f16[4, 8]", []int{4, 8}, exampleValues(), o)
		}},
	}
}

// exampleWay follows an element of a tiled product.
func exampleWay() (*follow.Way, error) {
	p, err := text.Parse("matmul_v3.tile", corpus.Program("matmul_v3"), nil)
	if err != nil {
		return nil, err
	}
	texts, ok := follow.Suppose(p)
	if !ok {
		return nil, errors.New("theatre: the example has no arguments")
	}
	args := make([]ir.Arg, len(texts))
	for i, v := range p.Params {
		if v.Type.Kind != ir.Pointer {
			if args[i].Int, err = strconv.ParseInt(texts[i], 10, 64); err != nil {
				return nil, err
			}
			continue
		}
		if args[i].Array, err = array.Generate(texts[i]); err != nil {
			return nil, err
		}
	}
	return follow.Trace(p, args, follow.Start{Name: "ra", Index: []int{9, 2}}, follow.Limits{Steps: 4000, Time: time.Minute})
}

func exampleValues() []float64 {
	var out []float64
	for i := range 32 {
		out = append(out, float64(i*7%13)-4.5)
	}
	return out
}
