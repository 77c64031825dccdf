// Package template makes the programs of quantised matrix products: Go functions
// of a schedule that give programs of the tile machine. The default instance of
// each stands in vm/corpus, printed, with arguments and results.
//
// The programs for u4 weights share one order of the weights, which [PackU4]
// makes of row-major ones and [UnpackU4] undoes: for every 16 outputs and one
// group of k, 32 threads hold Group/4 bytes each, in pieces of 16 bytes that
// stand one thread beside the other.
package template

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Bounds of options: what the registers of a thread can hold, and the fewest
// groups that are worth a block.
const (
	MaxDepth  = 4
	MaxGroup  = 512
	MaxWarps  = 8
	MaxSplits = 64
	MaxParts  = 16
	// MaxCluster is how many blocks of a cluster may share k: as many as every GPU runs together.
	MaxCluster = ir.MaxClusterBlocks
)

// DecodeOptions are the schedule of [DecodeU4]. Zero fields take the defaults,
// the fastest on an H200 of those that TestGPUSchedules times. Deeper prefetch
// takes registers, so that fewer warps fit a multiprocessor.
type DecodeOptions struct {
	// Depth is how many groups' weights are under way while one is multiplied, 1
	// to MaxDepth; 2 by default. A loop turn multiplies that many.
	Depth int
	// Warps of a block, 1 by default; each makes 16 outputs.
	Warps int
	// Group is how many k share a scale, a multiple of 64; 128 by default.
	Group int
	// KeepL1 lets the weights take place in the L1 cache, which pays only where
	// they are read again.
	KeepL1 bool
	// Splits is how many blocks share the k of the same outputs, 1 by default; see
	// [Choose]. Block i takes groups i, i + Splits, …, and the last of them to come
	// adds their f32 sums up, in the order of i.
	Splits int
	// PDL lets the launch begin before the one in front of it has ended, which must
	// store neither weights nor scales: their first loads overlap with its end.
	PDL bool
}

// defaults fills zero fields in and checks the others.
func (o *DecodeOptions) defaults() error {
	for _, f := range []struct {
		name          string
		value         *int
		usual, lo, hi int
		step          int
	}{
		{"depth", &o.Depth, 2, 1, MaxDepth, 1},
		{"warps", &o.Warps, 1, 1, MaxWarps, 1},
		{"group", &o.Group, 128, 64, MaxGroup, 64},
		{"splits", &o.Splits, 1, 1, MaxSplits, 1},
	} {
		if *f.value == 0 {
			*f.value = f.usual
		}
		if n := *f.value; n < f.lo || n > f.hi || n%f.step != 0 {
			return fmt.Errorf("template: %s %d is not a multiple of %d from %d to %d", f.name, n, f.step, f.lo, f.hi)
		}
	}
	return nil
}

// DecodeU4 multiplies a few rows with u4 weights: y[M, N] = x[M, K]·(w[N, K]·s)ᵀ
// for M ≤ 8, in f16 with f32 sums. w is in the order of [PackU4], s is [K/Group,
// N]. N must be a multiple of 16·Warps and K one of Group.
//
// With Splits > 1 two parameters stand after y: part is [Splits, M, N] and holds
// the sums of the blocks, and arrived is [N/(16·Warps)] and counts them. arrived
// is 0 before the first launch and after each; launches that overlap need their
// own.
func DecodeU4(o DecodeOptions) (*ir.Program, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	// With more than one warp, all hold x and each its own 16 outputs.
	var warps, copies, pieces string
	if o.Warps > 1 {
		warps = fmt.Sprintf("spatial(%d, 1).", o.Warps)
		copies = fmt.Sprintf("replicated(1, 1, num_workers=%d).", o.Warps)
	}
	if o.Warps == 1 {
		pieces = fmt.Sprintf("local(%d).spatial(32).local(16)", o.Group/64)
	} else {
		pieces = fmt.Sprintf("%slocal(1, %d).spatial(1, 32).local(1, 16)", warps, o.Group/64)
	}
	var err error
	register := func(elem dtype.Type, text string) build.Type {
		l, e := layout.Parse(text)
		if e != nil && err == nil {
			err = fmt.Errorf("template: %s: %w", text, e)
		}
		return build.Register(elem, l)
	}
	tile := register(dtype.U8, pieces)
	sums := register(dtype.F32, warps+"local(2, 1).spatial(8, 4).local(1, 2)")
	out := register(dtype.F16, warps+"local(2, 1).spatial(8, 4).local(1, 2)")
	scales := register(dtype.F16, warps+"local(2, 1).spatial(8, 1).replicated(1, 1, num_workers=4)")
	scales32 := register(dtype.F32, warps+"local(2, 1).spatial(8, 1).replicated(1, 1, num_workers=4)")
	loaded := register(dtype.F16, fmt.Sprintf("%slocal(%d, 1).column_spatial(4, 8).local(16, 1)", copies, o.Group/64))
	right := register(dtype.F16, fmt.Sprintf("%slocal(%d, 1).column_spatial(4, 8).local(2, 1)", copies, o.Group/8))
	left := register(dtype.F16, fmt.Sprintf("%scolumn_local(2, %d).spatial(8, 4).local(1, 2)", warps, o.Group/8))
	codes := register(dtype.U4, warps+fmt.Sprintf("register_layout([16, %d], [2, 8, %d, 2, 4, 2], [1, 4], [2, 5, 3, 0])", o.Group, o.Group/16))
	if err != nil {
		return nil, err
	}

	outputs := 16 * o.Warps
	title, grid := "decode_u4", []any{fmt.Sprintf("N/%d", outputs)}
	if o.Splits > 1 {
		title, grid = "decode_u4_splitk", append([]any{o.Splits}, grid...)
	}
	b := build.Program(title, build.Grid(grid...), build.Warps(o.Warps))
	w, s := b.Pointer("w", dtype.U8), b.Pointer("s", dtype.F16)
	x, y := b.Pointer("x", dtype.F16), b.Pointer("y", dtype.F16)
	var part, arrived build.Value
	if o.Splits > 1 {
		part, arrived = b.Pointer("part", dtype.F32), b.Pointer("arrived", dtype.I32)
	}
	m, n, k := b.Scalar("M", dtype.I32), b.Scalar("N", dtype.I32), b.Scalar("K", dtype.I32)
	var bk, bn build.Value
	if o.Splits > 1 {
		bk, bn = b.BlockIndices2("bk", "bn")
	} else {
		bn = b.BlockIndices("bn")
	}
	// A dimension of its own for the warps proves their loads by the grid alone.
	gwShape := []any{n.Div(outputs), k.Div(o.Group), 8 * o.Group}
	if o.Warps > 1 {
		gwShape = slices.Insert(gwShape, 1, any(o.Warps))
	}
	gw := b.ViewGlobal("gw", w, build.Global(dtype.U8, gwShape...))
	gs := b.ViewGlobal("gs", s, build.Global(dtype.F16, k.Div(o.Group), n))
	gx := b.ViewGlobal("gx", x, build.Global(dtype.F16, m, k))
	gy := b.ViewGlobal("gy", y, build.Global(dtype.F16, m, n))
	if o.PDL {
		b.GridDependencyLaunch()
	}
	last := b.Let("last", k.Div(o.Group).Sub(1))
	acc := b.AllocateRegister("acc", sums, build.Init(0))

	loadW := func(j int, g any) build.Value {
		attrs := []build.Attr{build.Offset(bn, g, 0), build.Dims(2)}
		if o.Warps > 1 {
			attrs = []build.Attr{build.Offset(bn, 0, g, 0), build.Dims(1, 3)}
		}
		if !o.KeepL1 {
			attrs = append(attrs, build.Cache("stream"))
		}
		return b.LoadGlobal(name("rb", j), gw, tile, attrs...)
	}
	loadS := func(j int, g any) build.Value {
		return b.LoadGlobal(name("rs", j), gs, scales, build.Offset(g, bn.Mul(outputs)), build.Dims(1, 0))
	}
	var rb, rs []build.Value
	var first any = 0 // group of the block
	for j := range o.Depth {
		g := first
		switch {
		case o.Splits > 1 && j == 0:
			first, g = bk, bk.Min(last)
		case o.Splits > 1:
			g = bk.Add(j * o.Splits).Min(last)
		case j > 0:
			g = fmt.Sprintf("min(%d, %s)", j, last)
		}
		rb, rs = append(rb, loadW(j, g)), append(rs, loadS(j, g))
	}
	if o.PDL {
		b.GridDependencyWait()
	}
	// turn multiplies what is loaded of groups g, g + Splits, … and loads what the
	// next turn needs, if there is one.
	stride := o.Depth * o.Splits
	turn := func(g build.Value, next func(j int) build.Value) {
		for j := range o.Depth {
			now := g
			if j > 0 {
				now = g.Add(j * o.Splits)
			}
			xk := b.LoadGlobal(name("xk", j), gx, loaded, build.Offset(0, now.Mul(o.Group)), build.Dims(1, 0))
			rx := b.View(name("rx", j), xk, right)
			rw := b.View(name("rw", j), rb[j], codes)
			rh := b.Cast(name("rh", j), rw, left)
			if next != nil {
				loadW(j, next(j))
			}
			sum := b.AllocateRegister(name("sum", j), sums, build.Init(0))
			b.Dot(name("sum", j), rh, rx, sum, sums)
			scale := b.Cast(name("scale", j), rs[j], scales32)
			if next != nil {
				loadS(j, next(j))
			}
			b.Fma("acc", sum, scale, acc, sums)
		}
	}
	var step []build.LoopOption
	if stride > 1 {
		step = append(step, build.Step(stride))
	}
	if o.Splits == 1 {
		b.For("g", first, last.Add(1), func(g build.Value) {
			turn(g, func(j int) build.Value { return g.Add(stride + j).Min(last) })
		}, step...)
	} else {
		// A block has few turns, so that loading in the last one would show.
		b.For("g", first, last.Sub(stride-1), func(g build.Value) {
			turn(g, func(j int) build.Value {
				if j == 0 {
					return g.Add(stride)
				}
				return g.Add(stride + j*o.Splits).Min(last)
			})
		}, step...)
		turn(b.Let("tail", bk.Add(last.Sub(bk).Div(stride).Max(0).Mul(stride))), nil)
	}
	store := func(acc build.Value) {
		half := b.Cast("out", acc, out)
		b.StoreGlobal(gy, half, build.Offset(0, bn.Mul(outputs)), build.Dims(1, 0))
	}
	if o.Splits == 1 {
		store(acc)
		return b.Build()
	}
	gp := b.ViewGlobal("gp", part, build.Global(dtype.F32, o.Splits, m, n))
	ga := b.ViewGlobal("ga", arrived, build.Global(dtype.I32, n.Div(outputs)))
	b.StoreGlobal(gp, acc, build.Offset(bk, 0, bn.Mul(outputs)), build.Dims(2, 1))
	b.Synchronize()
	before := b.AtomicScalar("before", ga, o.Splits-1, nil, build.Offset(bn), build.Op("inc"), build.Order("acq_rel"))
	b.If(before.Equal(o.Splits-1), func() {
		b.Synchronize()
		total := b.AllocateRegister("total", sums, build.Init(0))
		b.For("i", 0, o.Splits, func(i build.Value) {
			p := b.LoadGlobal("p", gp, sums, build.Offset(i, 0, bn.Mul(outputs)), build.Dims(2, 1))
			b.Add("total", total, p, sums)
		}, build.Unroll(-1))
		store(total)
	})
	return b.Build()
}

// name is a variable of copy j of a loop's body.
func name(s string, j int) string { return fmt.Sprintf("%s%d", s, j) }

// PackU4 rearranges row-major weights q[N, K] for [DecodeU4]: w is [N/16, K/Group,
// 8·Group]. 0 is the default group of 128.
func PackU4(group int) (*ir.Program, error) {
	return rearrange("pack_u4", group, func(b *build.Builder, gq, gw build.Value, q, w spot) {
		rq := b.LoadGlobal("rq", gq, q.tile, q.offset)
		rb := b.View("rb", rq, w.tile)
		b.StoreGlobal(gw, rb, w.offset, build.Dims(2))
	})
}

// UnpackU4 is the inverse of [PackU4].
func UnpackU4(group int) (*ir.Program, error) {
	return rearrange("unpack_u4", group, func(b *build.Builder, gq, gw build.Value, q, w spot) {
		rb := b.LoadGlobal("rb", gw, w.tile, w.offset, build.Dims(2))
		rq := b.View("rq", rb, q.tile)
		b.StoreGlobal(gq, rq, q.offset)
	})
}

// spot is a tile that a block holds and where it stands in its tensor.
type spot struct {
	tile   build.Type
	offset build.Attr
}

func rearrange(program string, group int, body func(b *build.Builder, gq, gw build.Value, q, w spot)) (*ir.Program, error) {
	o := DecodeOptions{Group: group}
	if err := o.defaults(); err != nil {
		return nil, err
	}
	group = o.Group
	codes, err := layout.New([]int{16, group}, []int{2, 8, group / 64, 4, 4, 2, 2}, []int{1, 3}, []int{2, 4, 6, 5, 0})
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	pieces := layout.Local(group / 64).Spatial(32).Local(16)

	b := build.Program(program, build.Grid("N/16", fmt.Sprintf("K/%d", group)))
	q, w := b.Pointer("q", dtype.U4), b.Pointer("w", dtype.U8)
	n, k := b.Scalar("N", dtype.I32), b.Scalar("K", dtype.I32)
	bn, bk := b.BlockIndices2("bn", "bk")
	gq := b.ViewGlobal("gq", q, build.Global(dtype.U4, n, k))
	gw := b.ViewGlobal("gw", w, build.Global(dtype.U8, n.Div(16), k.Div(group), 8*group))
	body(b, gq, gw,
		spot{build.Register(dtype.U4, codes), build.Offset(bn.Mul(16), bk.Mul(group))},
		spot{build.Register(dtype.U8, pieces), build.Offset(bn, bk, 0)})
	return b.Build()
}
