package template

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// HopperOptions are what [FlashHopper] computes, and its schedule. Zero fields take
// the defaults.
type HopperOptions struct {
	// Elem, Head, Causal and Group are as in [FlashOptions].
	Elem   dtype.Type
	Head   int
	Causal bool
	Group  int

	// Consumers are the warpgroups that multiply, of 64 queries each: 3 by default
	// where Head is 64, else 2.
	Consumers int
	// Keys that a turn takes, a multiple of 16: by default 96 where Head is 64, what
	// registers hold without spills, else 128.
	Keys int
	// Stages is how many tiles of keys, and of values, shared memory holds, 2 by default.
	Stages int
	// Free lets the consumers go on without waiting for each other. Otherwise they
	// begin their products in turns, so that one has exponentials to do while another
	// multiplies: worth 12 % on an H200 where Head is 64; where it is 128, exponentials
	// are half as many, and it costs 3 %.
	Free bool
}

func (o *HopperOptions) defaults() error {
	if o.Elem == 0 {
		o.Elem = dtype.F16
	}
	if o.Elem != dtype.F16 && o.Elem != dtype.BF16 {
		return fmt.Errorf("template: attention over %s; f16 and bf16 have matrix instructions with f32 sums", o.Elem)
	}
	consumers, keys := 2, 128
	if o.Head == 64 {
		consumers, keys = 3, 96
	}
	err := fill([]field{
		{"head", &o.Head, 128, 64, 128, 64},
		{"group", &o.Group, 1, 1, 64, 1},
		{"consumers", &o.Consumers, consumers, 1, 3, 1},
		{"keys", &o.Keys, keys, 16, 256, 16},
		{"stages", &o.Stages, 2, 1, 4, 1},
	})
	if o.Consumers == 1 {
		o.Free = true
	}
	return err
}

// hopperFlash is a program in the making.
type hopperFlash struct {
	HopperOptions
	b          *build.Builder
	gy         build.Value
	sq, sk, sv build.Value
	there      build.Value // of the queries
	keys, vals build.Pipeline
	order      build.Value
	bb, h      build.Value
	first      build.Value
}

func (f *hopperFlash) tile(shape ...int) layout.Shared {
	l, err := layout.SharedRowMajorSwizzle(f.Elem.Bits(), shape...)
	if err != nil {
		panic(err) // options are checked
	}
	return l
}

func (f *hopperFlash) shared(shape ...int) build.Type { return build.Shared(f.Elem, f.tile(shape...)) }

// sums is a tile over a warpgroup as its products give it; the same layout holds a
// left factor.
func (f *hopperFlash) sums(t dtype.Type, columns int) build.Type {
	return build.Register(t, ir.WgmmaForm{N: columns, K: 16}.C())
}

// FlashHopper computes what [Flash] does, by Hopper's means: a warpgroup brings the
// tiles by tensor copies (TMA), the others multiply, 64 queries each.
//
// The products of a turn are those of its queries and keys, and of the probabilities
// of the turn before and their values: the first are waited for, and exponentials are
// taken beside the second. Consumers begin their products in turns, so that one has
// exponentials to do while another multiplies.
//
// Source: Shah et al., "FlashAttention-3", 2024, sections 3.1 and 3.2.
func FlashHopper(o HopperOptions) (*ir.Program, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	f := &hopperFlash{HopperOptions: o}
	rows, keys := 64*o.Consumers, o.Keys
	title := "flash_hopper"
	if o.Causal {
		title += "_causal"
	}
	// The blocks that see most keys come first, so that the last ones are short.
	grid := []any{fmt.Sprintf("(M + %d)/%d", rows-1, rows), "H", "B"}
	if o.Causal {
		grid[0], grid[1] = grid[1], grid[0]
	}
	b := build.Program(title, build.Grid(grid...), build.Warps(4+4*o.Consumers))
	f.b = b
	q, k, v, y := b.Pointer("q", o.Elem), b.Pointer("k", o.Elem), b.Pointer("v", o.Elem), b.Pointer("o", o.Elem)
	batch, heads, queries, length := b.Scalar("B", dtype.I32), b.Scalar("H", dtype.I32), b.Scalar("M", dtype.I32), b.Scalar("N", dtype.I32)
	b.Scalar("scale", dtype.F32)
	var at build.Value
	if o.Causal {
		f.h, at, f.bb = b.BlockIndices3("h", "block", "b")
	} else {
		at, f.h, f.bb = b.BlockIndices3("block", "h", "b")
	}
	own := f.h
	if o.Group > 1 {
		own = b.Let("kh", f.h.Div(o.Group))
	}
	gq := b.ViewGlobal("gq", q, build.Global(o.Elem, batch, heads, queries, o.Head))
	gk := b.ViewGlobal("gk", k, build.Global(o.Elem, batch, heads.Div(o.Group), length, o.Head))
	gv := b.ViewGlobal("gv", v, build.Global(o.Elem, batch, heads.Div(o.Group), length, o.Head))
	f.gy = b.ViewGlobal("gy", y, build.Global(o.Elem, batch, heads, queries, o.Head))
	f.sq = b.AllocateShared("sq", f.shared(o.Consumers, 64, o.Head))
	f.sk = b.AllocateShared("sk", f.shared(o.Stages, keys, o.Head))
	f.sv = b.AllocateShared("sv", f.shared(o.Stages, keys, o.Head))
	f.there = b.AllocateBarrier("there", "shared u64[1] shared_row_major(1)", build.Count(1))
	f.keys, f.vals = b.Pipeline("k", o.Stages, 4*o.Consumers), b.Pipeline("v", o.Stages, 4*o.Consumers)
	if !o.Free {
		f.order = b.AllocateBarrier("order", typ("shared u64[%d] shared_row_major(%d)", o.Consumers, o.Consumers), build.Count(4))
	}
	b.Synchronize()

	f.first = b.Let("first", fmt.Sprintf("%s*%d", at, rows))
	if o.Causal {
		f.first = b.Let("first", fmt.Sprintf("(((M + %d)/%d) - 1 - %s)*%d", rows-1, rows, at, rows))
	}
	// Tiles of keys: those that all queries see whole, and all.
	b.Let("whole", length.Div(keys))
	tiles := b.Let("tiles", length.Add(keys-1).Div(keys))
	if o.Causal {
		reach := b.Let("reach", length.Sub(queries).Add(f.first))
		b.Let("whole", fmt.Sprintf("max(min(N, reach + 1), 0)/%d", keys))
		tiles = b.Let("tiles", fmt.Sprintf("(min(N, %s + %d) + %d)/%d", reach, rows, keys-1, keys))
	}
	few, many := 32, 160
	if o.Consumers < 3 {
		few, many = 40, 232
	}
	b.Group(0, 128, func() {
		b.SetMaxRegisters(build.N(few))
		b.Group(0, 1, func() {
			b.ArriveExpectTxBarrier(f.there, 0, build.Bytes(rows*o.Head*2))
			for c := range o.Consumers {
				part := b.SliceShared(name("nq", c), f.sq, f.shared(64, o.Head), build.Offset(c, 0, 0))
				b.CopyAsyncTensorGlobalToShared(gq, part, f.there, 0, build.Offset(f.bb, f.h, f.first.Add(64*c), 0))
			}
			b.For("j", 0, tiles, func(j build.Value) {
				for _, x := range []struct {
					name string
					p    build.Pipeline
					g, s build.Value
				}{{"nk", f.keys, gk, f.sk}, {"nv", f.vals, gv, f.sv}} {
					x.p.Acquire(j)
					x.p.Fill(j, keys*o.Head*2)
					part := x.p.Stage(x.name, x.s, j, f.shared(keys, o.Head))
					b.CopyAsyncTensorGlobalToShared(x.g, part, x.p.Full, j, build.Offset(f.bb, own, j.Mul(keys), 0))
				}
			})
		})
	})
	for c := range o.Consumers {
		b.Group(128+128*c, 128, func() {
			b.SetMaxRegisters(build.N(many))
			f.consume(c)
		})
	}
	return b.Build()
}

// consume is what a consumer does.
func (f *hopperFlash) consume(number int) {
	b := f.b
	scores, out := f.sums(dtype.F32, f.Keys), f.sums(dtype.F32, f.Head)
	row := build.Type("register f32[64, 1] spatial(4, 1).local(2, 1).spatial(8, 1).replicated(1, 1, num_workers=4)")
	four := build.Type("register f32[64, 4] spatial(4, 1).local(2, 1).spatial(8, 4)")
	queries := b.SliceShared("queries", f.sq, f.shared(64, f.Head), build.Offset(number, 0, 0))
	acc := b.AllocateRegister("acc", out, build.Init(0))
	top := b.AllocateRegister("top", row, build.Init(masked))
	part := b.AllocateRegister("part", four, build.Init(0))
	var s build.Value
	multiply := func(which string, j build.Value) {
		s = b.AllocateRegister("s", scores, build.Init(0))
		tile := f.keys.Stage(which, f.sk, j, f.shared(f.Keys, f.Head))
		turned, err := f.tile(f.Keys, f.Head).Transpose(0, 1)
		if err != nil {
			panic(err) // a layout of two dimensions has a transposed one
		}
		turn := b.PermuteShared(which+"t", tile, build.Shared(f.Elem, turned))
		f.keys.Wait(j)
		f.begin(j, number)
		b.WgmmaFence()
		s = b.WgmmaDot("s", queries, turn, s, scores)
		b.WgmmaCommitGroup()
	}
	var ph build.Value
	sum := func(which string, j build.Value) {
		tile := f.vals.Stage(which, f.sv, j, f.shared(f.Keys, f.Head))
		f.vals.Wait(j)
		b.WgmmaFence()
		acc = b.WgmmaDot("acc", ph, tile, acc, out)
		b.WgmmaCommitGroup()
	}
	// soften makes probabilities p of scores; acc is still to be multiplied by shrink.
	soften := func(j build.Value) (p, shrink build.Value) {
		f.mask(j, number, s)
		largest := b.Reduce("largest", s, row, build.Op("max"), build.Dim(1), build.Keepdims("true"))
		now := b.Max("now", top, largest, row)
		down := b.Neg("down", b.Mul("down", now, "scale", row), row)
		change := b.Fma("change", top, "scale", down, row)
		shrink = b.Exp2("shrink", change, row, build.Approx("true"))
		top = b.Assign("top", now, row)
		e := b.Fma("e", s, "scale", down, scores)
		p = b.Exp2("p", e, scores, build.Approx("true"))
		columns := b.SliceRegister("columns", p, f.sums(dtype.F32, 8), build.Offset(0, 0))
		for i := 1; i < f.Keys/8; i++ {
			next := b.SliceRegister("next", p, f.sums(dtype.F32, 8), build.Offset(0, 8*i))
			columns = b.Add("columns", columns, next, f.sums(dtype.F32, 8))
		}
		pairs := b.Reshape("pairs", columns, "register f32[64, 4, 2] spatial(4, 1, 1).local(2, 1, 1).spatial(8, 4, 1).local(1, 1, 2)")
		pair := b.Reduce("pair", pairs, four, build.Op("sum"), build.Dim(2))
		part = b.Fma("part", part, shrink, pair, four)
		return p, shrink
	}
	round := func(p build.Value) { ph = b.Cast("ph", p, f.sums(f.Elem, f.Keys)) }

	b.WaitBarrier(f.there, 0)
	begin := b.Let("begin", 0)
	multiply("k0", begin)
	f.end(begin, number)
	b.WgmmaWaitGroup(build.N(0))
	f.keys.Release(begin)
	p, _ := soften(begin)
	round(p)
	b.For("j", 1, "tiles", func(j build.Value) {
		multiply("kj", j)
		sum("vi", j.Sub(1))
		f.end(j, number)
		b.WgmmaWaitGroup(build.N(1))
		f.keys.Release(j)
		p, shrink := soften(j)
		b.WgmmaWaitGroup(build.N(0))
		f.vals.Release(j.Sub(1))
		acc = b.Mul("acc", acc, shrink, out)
		round(p)
	}, build.Unroll(1))
	last := b.Let("last", "tiles - 1")
	sum("vl", last)
	b.WgmmaWaitGroup(build.N(0))
	f.vals.Release(last)

	total := b.Reduce("total", part, row, build.Op("sum"), build.Dim(1), build.Keepdims("true"))
	inverse := b.Div("inverse", 1.0, total, row)
	acc = b.Mul("acc", acc, inverse, out)
	half := b.Cast("half", acc, f.sums(f.Elem, f.Head))
	b.Synchronize()
	b.StoreShared(queries, half) // which no product reads any more
	b.FenceProxyAsync()
	b.Synchronize()
	b.CopyAsyncTensorSharedToGlobal(f.gy, queries, build.Offset(f.bb, f.h, f.first.Add(64*number), 0))
	b.CopyAsyncTensorCommitGroup()
	b.CopyAsyncTensorWaitGroup(build.N(0))
}

// begin waits until it is a consumer's turn to begin products, end passes the turn on.
func (f *hopperFlash) begin(j build.Value, number int) {
	if !f.Free {
		f.b.WaitBarrier(f.order, j.Mul(f.Consumers).Add(number-1))
	}
}

func (f *hopperFlash) end(j build.Value, number int) {
	if !f.Free {
		f.b.ArriveBarrier(f.order, j.Mul(f.Consumers).Add(number))
	}
}

// mask takes away the scores of keys that a query does not see.
func (f *hopperFlash) mask(j build.Value, number int, s build.Value) {
	b := f.b
	scores := f.sums(dtype.F32, f.Keys)
	index := f.sums(dtype.I32, f.Keys)
	truth := f.sums(dtype.Bool, f.Keys)
	lines := build.Type("register i32[64, 1] spatial(4, 1).local(2, 1).spatial(8, 1).replicated(1, 1, num_workers=4)")
	b.If(j.GreaterEqual("whole"), func() {
		column := b.Indices("column", index, build.Dim(1))
		if f.Causal {
			line := b.Indices("line", lines, build.Dim(0))
			limit := b.Add("limit", line, fmt.Sprintf("reach + %d - %v*%d", 64*number, j, f.Keys), lines)
			limit = b.Min("limit", limit, fmt.Sprintf("N - 1 - %v*%d", j, f.Keys), lines)
			seen := b.LessEqual("seen", column, limit, truth)
			b.Where("s", seen, s, masked, scores)
		} else {
			seen := b.Less("seen", column, build.Expr("N").Sub(j.Mul(f.Keys)), truth)
			b.Where("s", seen, s, masked, scores)
		}
	})
}
