package template

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// What tiles came to: scaled where that is left, added up over blocks, and stored.

// end scales what the tile came to, where that is left, and stores it.
func (w *wide) end() {
	b := w.b
	if w.s.Parts > 1 && !w.s.Shares() { // others may still multiply the x that results take the place of
		b.ArriveBarrier(w.done, 0)
		b.WaitBarrier(w.done, 0)
	}
	w.each(func() {
		if w.summed() == 0 && !w.Less && !w.Folds {
			w.loadScale("", "0")
		}
		for w.half = range w.halves() {
			if w.summed() == 0 {
				w.scale("", build.Expr(w.at("acc")), build.Expr(w.rowsOf("sumx")), true)
			}
			plain := b.View(w.at("plain"), build.Expr(w.at("acc")), w.actual)
			switch {
			case w.s.Blocks > 0 || w.s.Joint:
			case w.Splits > 1:
				w.share(plain, build.Expr("bk"))
			default:
				w.store(plain)
			}
		}
		w.half = 0
	})
	switch {
	case w.s.Blocks > 0:
		whole := b.Let("stores", build.Expr("last").Equal(build.Expr("first")).Select(1, 0))
		b.If(whole.Equal(0), func() {
			// A block has two parts of tiles at most: that of the tile it begins with, and that
			// of the tile whose first turn it has.
			mine := b.Let("mine", build.Expr("bi*2 + 1").Sub(build.Expr("from").Min(1)))
			w.all(func() { w.share(build.Expr(w.at("plain")), mine) })
			w.last()
		})
		b.If(build.Expr("stores").Equal(1), func() { w.all(func() { w.store(build.Expr(w.at("plain"))) }) })
	case w.s.Joint:
		w.meet()
	case w.Splits > 1 && w.s.Parts == 1:
		w.last()
	}
}

// moved is how many elements of a tile that is stored each thread has, and how many of them
// it moves at once.
func (w *wide) moved() (each, once int) {
	threads, _ := w.threads()
	each = w.stored().Size() / threads
	return each, min(each, 4)
}

// linear is the type of a tile whose elements lie as threads have them.
func (w *wide) linear() build.Type {
	each, once := w.moved()
	threads, _ := w.threads()
	return build.Register(dtype.F32, layout.Local(each/once, 1, 1).Spatial(1, threads, 1).Local(1, 1, once))
}

// portion is where what split, or stretch, i came to of the tile that is stored lies.
func (w *wide) portion(i build.Value) (build.Value, []build.Attr) {
	each, once := w.moved()
	tiles := w.Sides * w.halves()
	at, threads := (w.side*w.halves()+w.half)*(each/once), 128*w.s.Consumers
	_, before := w.threads()
	if w.s.Blocks > 0 {
		gp := w.b.ViewGlobal("gp", w.portions, build.Global(dtype.F32, 2*w.s.Blocks, tiles*each/once, threads, once))
		return gp, []build.Attr{build.Offset(i, at, before, 0), build.Dims(1, 2, 3)}
	}
	down, across := w.blocksOfSplit()
	gp := w.b.ViewGlobal("gp", w.portions, build.Global(dtype.F32, w.Splits, down, across, tiles*each/once, threads, once))
	return gp, []build.Attr{build.Offset(i, w.bm, w.block, at, before, 0), build.Dims(3, 4, 5)}
}

// blocksOfSplit is how many blocks of a split there are along rows of x and along outputs.
func (w *wide) blocksOfSplit() (down, across build.Value) {
	across = w.blocks
	if n := w.s.passes(); n > 1 {
		across = across.Mul(n)
	}
	return build.Expr(ceilText("M", w.Rows)), across
}

// meet has the first block of a split's cluster add up what all came to, in order, and store it.
func (w *wide) meet() {
	b, bk := w.b, build.Expr("bk")
	each, once := w.moved()
	threads, before := w.threads()
	of := strided(dtype.F32, []int{each / once, threads, once}, 128*w.s.Consumers*once, once, 1)
	place := func(name string, i any) build.Value {
		at := (w.side*w.halves() + w.half) * (each / once)
		return b.SliceShared(w.at(name), w.slots, of, build.Offset(i, at, before, 0), build.Dims(1, 2, 3))
	}
	own := func() build.Value { return b.View(w.at("left"), build.Expr(w.at("plain")), w.linear()) }
	b.If(bk.Greater(0), func() {
		w.all(func() { b.StoreShared(place("own_part", bk.Sub(1)), own(), build.Rank(0)) })
		b.ArriveBarrier(w.came, 0, build.Rank(0))
	}).Else(func() {
		b.WaitBarrier(w.came, 0)
		w.all(func() {
			total := own()
			for j := range w.Splits - 1 {
				p := b.LoadShared(w.at("p"), place(fmt.Sprintf("part%d", j+1), j), w.linear())
				total = b.Add(w.at("total"), total, p, w.linear())
			}
			w.store(b.View(w.at("whole"), total, w.actual))
		})
	})
}

// share leaves a tile for the last block to come.
func (w *wide) share(plain, i build.Value) {
	gp, at := w.portion(i)
	w.b.StoreGlobal(gp, w.b.View(w.at("left"), plain, w.linear()), at...)
}

// from is the first row of the present half.
func (w *wide) from() build.Value {
	if w.half == 0 {
		return w.bm.Mul(w.Rows)
	}
	return w.bm.Mul(w.Rows).Add(w.half * w.rowsEach())
}

// last has the last block of a tile to come add the sums of all up, in order, and store them;
// where blocks share all turns, who has a whole tile stores as well, and that is there once.
func (w *wide) last() {
	b := w.b
	down, across := w.blocksOfSplit()
	ga := b.ViewGlobal("ga", w.arrived, build.Global(dtype.I32, down, across))
	others, from, to := build.Expr(fmt.Sprint(w.Splits-1)), build.Expr("0"), build.Expr(fmt.Sprint(w.Splits))
	if w.s.Blocks > 0 {
		others = b.Let("others", build.Expr("last - first"))
		from, to = build.Expr("first"), build.Expr("last + 1")
	}
	each := w.all
	b.Synchronize()
	before := b.AtomicScalar("before", ga, others, nil, build.Offset(w.bm, w.block), build.Op("inc"), build.Order("acq_rel"))
	b.If(before.Equal(others), func() {
		b.Synchronize()
		each(func() { b.AllocateRegister(w.at("total"), w.linear(), build.Init(0)) })
		b.For("j", from, to, func(i build.Value) {
			if w.s.Blocks > 0 { // the first one has the tile's first turn
				i = build.Expr(fmt.Sprintf("%s*2 + 1 - min(%[1]s - first, 1)", i)).Max(0).Min(2*w.s.Blocks - 1)
			}
			each(func() {
				gp, at := w.portion(i)
				b.LoadGlobal(w.at("p"), gp, w.linear(), at...)
			})
			each(func() { b.Add(w.at("total"), build.Expr(w.at("total")), build.Expr(w.at("p")), w.linear()) })
		}, build.Unroll(1))
		if w.s.Blocks > 0 {
			each(func() { b.View(w.at("plain"), build.Expr(w.at("total")), w.actual) })
			b.Let("stores", build.Expr("1"))
			return
		}
		each(func() { w.store(b.View(w.at("whole"), build.Expr(w.at("total")), w.actual)) })
		if w.s.Parts > 1 {
			w.leave()
		}
	})
}

// stored is the layout of a tile that is stored, [outputs, rows of x].
func (w *wide) stored() layout.Layout {
	if w.s.Parts <= 1 {
		return layout.Spatial(4*w.s.Consumers, 1).Local(w.own(w.s), 1).Mul(layout.ColumnLocal(2, w.rowsEach()/8).Spatial(8, 4).Local(1, 2))
	}
	n, _ := w.ofWarp()
	l := layout.ColumnSpatial(w.Warps, w.together, 1).Local(1, w.own(w.s), 1).Mul(layout.ColumnLocal(1, 2, w.rowsEach()/8)).Spatial(1, 8, 4).Local(1, 1, 2)
	return sure(l.Reshape(w.Warps*n, w.rowsEach()))
}

// firstOutput is the first output of the tile, or of those of the present unit in it.
func (w *wide) firstOutput() build.Value {
	first := w.tile().Mul(w.outputs())
	if w.unit > 0 {
		first = first.Add(w.unit * w.Outputs())
	}
	if w.s.passes() > 1 {
		first = first.Add(w.pass.Mul(w.gathers()))
	}
	return first
}

// store stores a tile of outputs, after what is added to it.
func (w *wide) store(acc build.Value) {
	b, columns := w.b, w.stored()
	rows := sure(columns.ReduceTo([]int{columns.Shape()[0], 1}))
	at := build.Offset(w.from(), w.firstOutput())
	if w.Factor {
		acc = b.Mul("scaled", acc, w.factor, w.actual)
	}
	parts := w.s.Parts > 1
	switch {
	case w.AddBias && parts:
		gb := b.ViewGlobal("gb", w.bias, build.Global(w.Act, w.m, w.n), build.Strides(0, 1))
		acc = b.Add("biased", acc, b.Cast("bias32", w.brought("rbias", gb), w.actual), w.actual)
	case w.AddBias:
		gb := b.ViewGlobal("gb", w.bias, build.Global(w.Act, w.n, 1))
		rb := b.LoadGlobal("rbias", gb, build.Register(w.Act, rows), build.Offset(w.firstOutput(), 0))
		acc = b.Add("biased", acc, b.Cast("bias32", rb, build.Register(dtype.F32, rows)), w.actual)
	}
	if w.AddResidual {
		gr := b.ViewGlobal("gr", w.residual, build.Global(w.Act, w.m, w.n))
		acc = b.Add("added", acc, b.Cast("more32", w.brought("more", gr), w.actual), w.actual)
	}
	out := b.Cast("out", acc, build.Register(w.Act, columns))
	switch {
	case parts:
		b.StoreShared(w.results(""), out)
		return
	case !w.s.Staged:
		b.StoreGlobal(w.gy, out, at, build.Dims(1, 0))
		return
	}
	across := sure(w.staging().Transpose(0, 1))
	b.Synchronize() // what was stored here before has left
	b.StoreShared(b.PermuteShared(w.at("st"), w.staged, build.Shared(w.Act, across)), out)
	b.Synchronize()
	b.StoreGlobal(w.gy, b.LoadShared(w.at("ry"), w.staged, build.Register(w.Act, w.byRows(columns.Shape()[0]))), at)
}

// staging is the layout of results in shared memory, [rows of x, outputs].
func (w *wide) staging() layout.Shared {
	shape := w.stored().Shape()
	return swizzled(0, shape[1], shape[0])
}

// byRows is the layout in which threads store rows of so many results.
func (w *wide) byRows(outputs int) layout.Layout {
	rows := w.rowsEach()
	threads, _ := w.threads()
	once := min(8, outputs*rows/threads)
	down := threads * once / outputs
	return layout.Local(rows/down, 1).Spatial(down, outputs/once).Local(1, once)
}
