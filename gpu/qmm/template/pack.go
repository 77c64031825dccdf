package template

import (
	"fmt"
	"math"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
)

// Pack rearranges row-major weights q[N, K] of a form for [Decode]. Elements outside
// q are stored like q's 0; x is 0 there.
func Pack(f Form) (*ir.Program, error) {
	return rearranged(f, "pack", func(p *Plan, b *build.Builder, gq, gw build.Value, q, w places) error {
		slots := p.Tiles * p.Sub / 2
		rq := b.LoadGlobal("rq", gq, q.tile, q.offset)
		if p.Stored != p.Weight {
			rq = p.store(b, rq, q.layout)
		}
		if t := p.codes(1); t.HasPlace {
			// As bits, each in the place where the plan has it.
			width := p.Stored.Bits()
			at := make([]int, slots*width)
			for i := range at {
				at[t.Place.At(i/width, i%width)] = i
			}
			place, err := bits.New(1, t.Place.Words(), at)
			if err != nil {
				return err
			}
			one := layout.Spatial(32).Local(len(at))
			from := ir.RegisterOf(dtype.U1, one)
			from.Place, from.HasPlace = place, true
			rq = b.Cast("moved", b.View("placed", rq, build.Type(from.String())), build.Register(dtype.U1, one))
		}
		b.StoreGlobal(gw, b.View("rb", rq, w.tile), w.offset, build.Dims(2))
		return nil
	})
}

// Unpack is the inverse of [Pack]. A float's −0 comes back as 0 where [Plan.Stored] is an
// integer.
func Unpack(f Form) (*ir.Program, error) {
	return rearranged(f, "unpack", func(p *Plan, b *build.Builder, gq, gw build.Value, q, w places) error {
		rb := b.LoadGlobal("rb", gw, w.tile, w.offset, build.Dims(2))
		t := p.codes(1)
		t.Layout = q.layout
		rq := b.View("rw", rb, build.Type(t.String()))
		if t.HasPlace {
			t.HasPlace, t.Place = false, bits.Placement{}
			rq = b.Cast("moved", rq, build.Type(ir.RegisterOf(p.Stored, q.layout).String()))
		}
		if p.Stored != p.Weight {
			rq = p.restore(b, rq, q.layout)
		}
		b.StoreGlobal(gq, rq, q.offset)
		return nil
	})
}

// store makes stored codes of those of the form.
func (p *Plan) store(b *build.Builder, rq build.Value, l layout.Layout) build.Value {
	stored, f32 := build.Register(p.Stored, l), build.Register(dtype.F32, l)
	if !p.Weight.IsFloat() {
		i16 := build.Register(dtype.I16, l)
		return b.Cast("rs", b.Add("ri", b.Cast("ri", rq, i16), p.Bias, i16), stored)
	}
	v := b.Mul("v", b.Cast("rf", rq, f32), math.Ldexp(1, -p.Power), f32)
	return b.Cast("rs", b.Add("v", v, float64(p.Bias), f32), stored)
}

// restore is the inverse of store.
func (p *Plan) restore(b *build.Builder, rs build.Value, l layout.Layout) build.Value {
	code, f32 := build.Register(p.Weight, l), build.Register(dtype.F32, l)
	if !p.Weight.IsFloat() {
		i16 := build.Register(dtype.I16, l)
		return b.Cast("rq", b.Sub("ri", b.Cast("ri", rs, i16), p.Bias, i16), code)
	}
	v := b.Sub("v", b.Cast("rf", rs, f32), float64(p.Bias), f32)
	return b.Cast("rq", b.Mul("v", v, math.Ldexp(1, p.Power), f32), code)
}

// places are the tile that a block holds and where it stands in its tensor.
type places struct {
	tile   build.Type
	layout layout.Layout
	offset build.Attr
}

// rearranged is a program whose blocks hold the weights that are cast together.
func rearranged(f Form, title string, body func(p *Plan, b *build.Builder, gq, gw build.Value, q, w places) error) (*ir.Program, error) {
	p, err := PlanOf(f)
	if err != nil {
		return nil, err
	}
	codes, err := p.natural()
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	subs, lane := Turn/p.Sub, p.bytesPerLane()
	pieces := layout.Local(lane / 16).Spatial(32).Local(16)
	shape := p.PackedShape(1, 1)
	b := build.Program(fmt.Sprintf("%s_%s_%s", title, p.Weight, p.Act), build.Grid(ceilText("N", p.Outputs()), ceilText("K", Turn)+fmt.Sprintf("*%d", subs)))
	q, w := b.Pointer("q", p.Weight), b.Pointer("w", dtype.U8)
	n, k := b.Scalar("N", dtype.I32), b.Scalar("K", dtype.I32)
	bn, bk := b.BlockIndices2("bn", "bk")
	gq := b.ViewGlobal("gq", q, build.Global(p.Weight, n, k))
	gw := b.ViewGlobal("gw", w, build.Global(dtype.U8, ceilText("N", p.Outputs()), ceilText("K", Turn), shape[2]))
	err = body(p, b, gq, gw,
		places{build.Register(p.Weight, codes), codes, build.Offset(bn.Mul(p.Outputs()), bk.Mul(p.Sub))},
		places{build.Register(dtype.U8, pieces), pieces, build.Offset(bn, bk.Div(subs), bk.Mod(subs).Mul(32*lane))})
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	return b.Build()
}

// natural is the layout of the operand's slots by the outputs and k that they stand
// for, [outputs, k].
func (p *Plan) natural() (layout.Layout, error) { return p.naturalOf(p.Sub) }

// naturalOf is the same for the first of k.
func (p *Plan) naturalOf(k int) (layout.Layout, error) {
	sizes := []int{p.Tiles, 2, 8, k / (4 * p.Run), 4, p.Run / 4, 2, 2}
	index, shape := make([]int, len(sizes)), []int(nil)
	for i, n := range sizes {
		index[i] = -1
		if n > 1 {
			index[i] = len(shape)
			shape = append(shape, n)
		}
	}
	var local []int
	for _, i := range []int{3, 5, 0, 6, 1, 7} {
		if index[i] >= 0 {
			local = append(local, index[i])
		}
	}
	return layout.New([]int{p.Outputs(), k}, shape, []int{index[2], index[4]}, local)
}
