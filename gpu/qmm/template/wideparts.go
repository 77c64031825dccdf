package template

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Warpgroups that share a plan's tiles: each is a program part of its own that slices its
// tiles out of what it casts, so that the cast of the others is never made. What they came
// to meets in shared memory, because outputs of a part are no neighbours. Blocks that share the
// tiles run the same program where a shift brings codes of any tile to where those of the first ones
// are, since drivers take as long as a program has instructions.

// pitch is how far apart rows of gathered sums are, in elements, so that the rows of a
// warp's tile lie in different banks.
func (w *wide) pitch() int { return w.s.Rows + 8 }

// gathered is how many bytes of shared memory sums of all parts take.
func (w *wide) gathered() int {
	if w.s.Parts <= 1 {
		return 0
	}
	return w.s.Outputs(w.Plan) * w.pitch() * 4
}

func (w *wide) allocateParts() {
	if w.s.Parts == 1 {
		return
	}
	w.gather = w.b.AllocateShared("sy", w.sums3(w.Warps*w.Sides, w.gathers(), w.Rows))
	each := 2 * w.Tiles
	w.ss3 = w.b.ReshapeShared("ss3", w.ss, rowMajor(w.Scale, w.s.Stages*w.scales()*w.Sides, w.outputs()/each, each))
	if w.Zero {
		w.sz3 = w.b.ReshapeShared("sz3", w.sz, rowMajor(w.ZeroType(), w.s.Stages*w.scales()*w.Sides, w.outputs()/each, each))
	}
}

// gathers is how many outputs of a warp's weights the block makes.
func (w *wide) gathers() int { return w.Outputs() / w.s.passes() }

// apart is how many tiles a side is stored as: outputs of other blocks may lie between those
// of warps.
func (w *wide) apart() int {
	if w.s.passes() == 1 {
		return 1
	}
	return w.Warps
}

// sums3 is the type of gathered sums, [warps, outputs of each, rows of x].
func (w *wide) sums3(warps, outputs, rows int) build.Type {
	return strided(dtype.F32, []int{warps, outputs, rows}, w.gathers()*w.pitch(), w.pitch(), 1)
}

// parts has the warpgroups multiply, each its part, and then store together.
func (w *wide) parts(bk, turns build.Value) {
	b := w.b
	b.Group(128, 128*w.s.Consumers, func() {
		w.registers(232)
		some := func(pass int) {
			for i := range w.s.Consumers {
				w.part = pass*w.s.Consumers + i
				b.Group(128*i, 128, func() { w.walk(bk, turns, w.begin, w.turn) })
			}
		}
		w.slide = w.apartBy()
		switch {
		case w.s.passes() == 1:
			w.slide = 0
			some(0)
		case w.slide > 0:
			w.firstTile = b.Let("first_tile", w.pass.Mul(w.s.Consumers*w.own(w.s)))
			some(0)
		default:
			for pass := range w.s.passes() {
				b.If(w.pass.Equal(pass), func() { some(pass) })
			}
		}
		b.Synchronize()
		w.end()
	})
}

// apartBy is how many bits further up in its word of 32 each code of a tile lies than that of the tile
// in front, if that is the same for all of them, else 0. Then blocks of all passes shift words, and cast
// what are the first tiles of a pass there.
func (p *Plan) apartBy() int {
	codes := p.codes(1)
	if p.Tiles == 1 || !codes.HasPlace {
		return 0
	}
	place := codes.Place
	each := place.At(8, 0) - place.At(0, 0) // a tile has 8 codes of 16 k
	for i := range p.Tiles * p.Sub / 2 {
		tile := i / 8 % p.Tiles
		for bit := range p.Stored.Bits() {
			if at := place.At(i, bit); at != place.At(i-8*tile, bit)+tile*each || at/32 != place.At(i-8*tile, bit)/32 {
				return 0
			}
		}
	}
	return max(each, 0)
}

// words are the bytes of a cast, with the codes of the warpgroup's tiles where those of the first
// tiles are if blocks differ in that only.
func (w *wide) words(name string, rb build.Value) build.Value {
	if w.slide == 0 {
		return rb
	}
	as := build.Register(dtype.I32, layout.Spatial(w.Warps, 1).Local(1, w.bytesPerLane()/16).Spatial(1, 32).Local(1, 4))
	return w.b.Shr(name, w.b.View(name, rb, as), w.tile0().Mul(w.slide), as)
}

// tile0 is the first one of the warpgroup's tiles.
func (w *wide) tile0() build.Value {
	at := w.part * w.own(w.s)
	if w.slide > 0 {
		return w.firstTile.Add(at)
	}
	return build.Expr(fmt.Sprint(at))
}

// ownScales is the layout of the scales of the warpgroup's tiles, as they lie in a group.
func (w *wide) ownScales() layout.Layout {
	return layout.Spatial(w.Warps, 1).Spatial(8, 1).Mul(layout.Replicated(4, 1, 1)).Local(1, 2*w.own(w.s))
}

// loadOwn loads what a group has for each output of the warpgroup's tiles.
func (w *wide) loadOwn(to, from string, of, t build.Value, q int, typ dtype.Type, as build.Type) {
	own, each := 2*w.own(w.s), 2*w.Tiles
	n := w.outputs() / each
	tile := strided(typ, []int{n, own}, each, 1)
	w.b.LoadShared(to, w.stage(from, of, t, w.scales()*w.Sides, q*w.Sides+w.side, tile, 0, w.tile0().Mul(2)), as)
}

// castPart is castWide for the warpgroup's tiles.
func (w *wide) castPart(rh string, rw build.Value, to build.Type) build.Value {
	own, from := w.own(w.s), w.part*w.own(w.s)*16*w.Warps
	if w.slide > 0 { // they are the first ones
		from = 0
	}
	every := build.Register(dtype.F32, w.lay(w.Tiles, layout.Local(1, 1), layout.Local(2, 1).Spatial(8, 1).Mul(layout.Replicated(4, 1, 1))))
	all := w.operands(w.b, rh+"_all", "backs", rw, to, every)
	if w.Deferred() {
		w.b.SliceRegister("back", build.Expr("backs"), w.rowF32, build.Offset(from, 0))
	}
	return w.b.SliceRegister(rh, all, build.Register(w.Act, w.operand(own, w.Sub)), build.Offset(from, 0))
}

// endPart leaves what the warpgroup came to in shared memory.
func (w *wide) endPart() {
	b, outputs := w.b, 16*w.own(w.s)
	of := layout.Spatial(w.Warps, 1, 1).Local(1, w.own(w.s), 1).Mul(layout.ColumnLocal(1, 2, w.rowsEach()/8)).Spatial(1, 8, 4).Local(1, 1, 2)
	w.all(func() {
		if w.summed() == 0 { // by powers of two that folded scales leave
			w.scale("", build.Expr(w.at("acc")), build.Value{}, true)
		}
		plain := b.View(w.at("some"), build.Expr(w.at("acc")), build.Register(dtype.F32, of))
		to := b.SliceShared(w.at("um"), w.gather, w.sums3(w.Warps, outputs, w.rowsEach()), build.Offset(w.side*w.Warps, w.part%w.s.Consumers*outputs, w.half*w.rowsEach()))
		b.StoreShared(to, plain)
	})
}

// plain is what the present side came to, in the order of outputs.
func (w *wide) plain() build.Value {
	b := w.b
	if w.s.Parts == 1 {
		return b.View(w.at("plain"), build.Expr(w.at("acc")), w.actual)
	}
	var of layout.Layout
	units, l := w.Warps, layout.ColumnLocal(1, 2, w.rowsEach()/8).Spatial(1, 8, 4).Local(1, 1, 2)
	if w.s.passes() == 1 {
		of = layout.Spatial(w.Warps, 4*w.s.Consumers/w.Warps, 1).Local(1, w.own(w.s), 1).Mul(l)
	} else {
		units = 1
		var err error
		if of, err = w.stored().Unsqueeze(0); err != nil {
			panic(err) // any layout has room for a dimension of size 1
		}
	}
	from := b.SliceShared(w.at("ua"), w.gather, w.sums3(units, w.gathers(), w.rowsEach()), build.Offset(w.side*w.Warps+w.unit, 0, w.half*w.rowsEach()))
	return b.View(w.at("plain"), b.LoadShared(w.at("all"), from, build.Register(dtype.F32, of)), w.actual)
}
