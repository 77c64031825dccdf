package template

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Warpgroups that share a plan's tiles: each is a program part of its own that slices its
// tiles out of what it casts, so that the cast of the others is never made. Results meet in
// shared memory, because outputs of a part are no neighbours: in place of the x of turns, which
// nobody needs by then, so that they take no room from stages. Blocks that share the tiles run the
// same program where a shift brings codes of any tile to where those of the first ones are, since
// drivers take as long as a program has instructions.

// leastStages is how many stages a schedule has at least: room for the results of parts.
func (s WideSchedule) leastStages(p *Plan) int {
	if s.Parts <= 1 {
		return 2
	}
	return max(2, ceil(s.Outputs(p), Turn))
}

func (w *wide) allocateParts() {
	if w.s.Parts == 1 {
		return
	}
	b, n, piece, each := w.b, w.s.Outputs(w.Plan), w.piece(), 2*w.Tiles
	if !w.s.Shares() {
		w.done = b.AllocateBarrier("done", build.Type("shared u64[1] shared_row_major(1)"), build.Count(4*w.s.Consumers))
	}
	l := swizzled(n/piece, w.Rows, piece)
	tiles := b.SliceShared("sr", w.sx, build.Shared(w.Act, l), build.Offset(0, 0, 0))
	l = sure(l.Transpose(1, 2))
	columns := b.PermuteShared("sc", tiles, build.Shared(w.Act, l), build.Dims(0, 2, 1))
	w.staged = b.ReshapeShared("st", columns, build.Shared(w.Act, sure(l.Reshape(n, w.Rows))))
	w.parted = sure(l.Reshape(w.Sides*w.Warps, w.gathers(), w.Rows))
	w.st3 = b.ReshapeShared("st3", columns, build.Shared(w.Act, w.parted))
	w.ss3 = b.ReshapeShared("ss3", w.ss, rowMajor(w.Scale, w.s.Stages*w.scales()*w.Sides, w.outputs()/each, each))
	if w.Zero {
		w.sz3 = b.ReshapeShared("sz3", w.sz, rowMajor(w.ZeroType(), w.s.Stages*w.scales()*w.Sides, w.outputs()/each, each))
	}
}

// sure is a layout that checked schedules have.
func sure[T any](l T, err error) T {
	if err != nil {
		panic(err)
	}
	return l
}

// gathers is how many outputs of a warp's weights the block makes.
func (w *wide) gathers() int { return w.Outputs() / w.s.passes() }

// among has sums of so many of the warpgroups that multiply make one tile from here on.
func (w *wide) among(groups int) {
	w.together = groups
	w.actual = build.Register(dtype.F32, w.stored())
}

// threads are those that have a tile of sums; before are those of warpgroups in front of them.
func (w *wide) threads() (n, before int) {
	if w.together == w.s.Consumers {
		return 128 * w.together, 0
	}
	return 128 * w.together, 128 * (w.part % w.s.Consumers)
}

// ofWarp is how many outputs of a warp's weights a tile of sums has, and how many lie in front of them in the block.
func (w *wide) ofWarp() (n, before int) {
	threads, first := w.threads()
	each := 16 * w.own(w.s)
	return threads / 128 * each, first / 128 * each
}

// parts has the warpgroups multiply, each its part, and then store together.
func (w *wide) parts(bk, turns build.Value) {
	b := w.b
	b.Group(128, 128*w.s.Consumers, func() {
		w.registers(232)
		w.among(1)
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
		w.among(w.s.Consumers)
		switch {
		case w.s.Joint:
			b.If(bk.Equal(0), w.leave)
		case w.Splits > 1:
			w.last()
		default:
			w.leave()
		}
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

// results is where the present side and half of the rows have a tile of sums in shared memory.
func (w *wide) results(of string) build.Value {
	n, before := w.ofWarp()
	l := sure(ir.PartOfShared(w.parted, []int{0, 1, 2}, []int{w.Warps, n, w.rowsEach()}))
	part := w.b.SliceShared(w.at("sp"+of), w.st3, build.Shared(w.Act, l), build.Offset(w.side*w.Warps, before, w.half*w.rowsEach()))
	return w.b.ReshapeShared(w.at("sq"+of), part, build.Shared(w.Act, sure(l.Reshape(w.Warps*n, w.rowsEach()))))
}

// brought is a part of a tensor like y where threads have the tile of sums. Beside parts it comes by rows, and lies where results do meanwhile.
func (w *wide) brought(name string, from build.Value) build.Value {
	b, typ := w.b, build.Register(w.Act, w.stored())
	if w.s.Parts <= 1 {
		return b.LoadGlobal(name, from, typ, build.Offset(w.from(), w.firstOutput()), build.Dims(1, 0))
	}
	n, before := w.ofWarp()
	b.Synchronize()
	for w.unit = range w.Warps {
		rows := b.LoadGlobal(w.at(name), from, build.Register(w.Act, w.byRows(n)), build.Offset(w.from(), w.firstOutput().Add(before)))
		b.StoreShared(w.staged, rows, build.Offset((w.side*w.Warps+w.unit)*w.gathers()+before, w.half*w.rowsEach()), build.Dims(1, 0))
	}
	w.unit = 0
	b.Synchronize()
	return b.LoadShared(w.at(name+"_tile"), w.results("_"+name), typ)
}

// leave stores results of parts by rows of y.
func (w *wide) leave() {
	b, units := w.b, 1
	if w.s.passes() > 1 { // outputs of other blocks lie between those of warps
		units = w.Warps
	}
	outputs := w.Warps * w.gathers() / units
	b.Synchronize()
	w.all(func() {
		for w.unit = range units {
			rows := b.LoadShared(w.at("ry"), w.staged, build.Register(w.Act, w.byRows(outputs)), build.Offset((w.side*units+w.unit)*outputs, w.half*w.rowsEach()), build.Dims(1, 0))
			b.StoreGlobal(w.gy, rows, build.Offset(w.from(), w.firstOutput()))
		}
		w.unit = 0
	})
}
