package template

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// DecodeOptions are what [Decode] computes, and its schedule. Zero fields take the
// defaults, the fastest on an H200 for 16 sequences of 8192 keys with 8 key heads.
type DecodeOptions struct {
	// Elem is the type of q, k, v and o: F16, the default, or BF16.
	Elem dtype.Type
	// Head is the extent of a head: 64 or 128, the default.
	Head int
	// Group is how many query heads share a key head, 1 to 16; 8 by default.
	Group int

	// Keys that a turn of the loop takes, a multiple of 16; 32 by default.
	Keys int
	// Stages is how many tiles of keys and values shared memory holds, 2, the default,
	// to 6.
	Stages int
	// Splits is how many blocks share a sequence, 4 by default: all blocks should run
	// at the same time, and few partial sums be stored.
	Splits int
}

func (o *DecodeOptions) defaults() error {
	if o.Elem == 0 {
		o.Elem = dtype.F16
	}
	if o.Elem != dtype.F16 && o.Elem != dtype.BF16 {
		return fmt.Errorf("template: attention over %s; f16 and bf16 have matrix instructions with f32 sums", o.Elem)
	}
	return fill([]field{
		{"head", &o.Head, 128, 64, 128, 64},
		{"group", &o.Group, 8, 1, 16, 1},
		{"keys", &o.Keys, 32, 16, 128, 16},
		{"stages", &o.Stages, 2, 2, 6, 1},
		{"splits", &o.Splits, 4, 1, 64, 1},
	})
}

// Decode is attention of one query a sequence over a cache of keys and values: o[b,
// h] is the mean of the rows j < lengths[b] of v[b, h/Group], weighted by
// 2^(scale·q[b, h]·k[b, h/Group, j]). q and o are [B, H, Head], k and v [B, H/Group,
// N, Head], 1 ≤ lengths[b] ≤ N, scale as in [Flash]. What the cache holds behind a
// sequence's length is copied with its last tile, and not used.
//
// A block is one warp with the Group queries of a key head as rows of its matrix
// products, so that keys and values are read once for all of them. Splits blocks
// share a sequence: each stores its sums with its largest score, and the last of
// them to come puts all together, in their order. For that, sums is [Splits, B, H,
// Head], tops and weights are [Splits, B, H], and arrived [B, H/Group] is 0 before
// the first launch and after each.
func Decode(o DecodeOptions) (*ir.Program, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	const rows = 16
	keys, head, stages := o.Keys, o.Head, o.Stages
	sum := func(columns int) build.Type {
		return typ("register f32[%d, %d] local(1, %d).local(2, 1).spatial(8, 4).local(1, 2)", rows, columns, columns/8)
	}
	left := func(columns int) build.Type {
		return typ("register %s[%d, %d] local(1, %d).column_local(2, 2).spatial(8, 4).local(1, 2)", o.Elem, rows, columns, columns/16)
	}
	right := func(elem dtype.Type, k, n int) build.Type {
		return typ("register %s[%d, %d] local(%d, %d).local(2, 1).column_spatial(4, 8).local(2, 1)", elem, k, n, k/16, n/8)
	}
	row := typ("register f32[%d, 1] local(2, 1).spatial(8, 1).replicated(1, 1, num_workers=4)", rows)
	scores, out := sum(keys), sum(head)
	halves := typ("register %s[%d, %d] local(1, %d).local(2, 1).spatial(8, 4).local(1, 2)", o.Elem, rows, head, head/8)

	b := build.Program("decode_attention", build.Grid(o.Splits, fmt.Sprintf("H/%d", o.Group), "B"), build.Warps(1))
	q, k, v, lengths, y := b.Pointer("q", o.Elem), b.Pointer("k", o.Elem), b.Pointer("v", o.Elem), b.Pointer("lengths", dtype.I32), b.Pointer("o", o.Elem)
	var sums, tops, weights, arrived build.Value
	if o.Splits > 1 {
		sums, tops, weights, arrived = b.Pointer("sums", dtype.F32), b.Pointer("tops", dtype.F32), b.Pointer("weights", dtype.F32), b.Pointer("arrived", dtype.I32)
	}
	batch, heads, room := b.Scalar("B", dtype.I32), b.Scalar("H", dtype.I32), b.Scalar("N", dtype.I32)
	scale := b.Scalar("scale", dtype.F32)
	split, h, bb := b.BlockIndices3("split", "h", "b")
	groups := heads.Div(o.Group)
	gq := b.ViewGlobal("gq", q, build.Global(o.Elem, batch, groups, o.Group, head))
	gk := b.ViewGlobal("gk", k, build.Global(o.Elem, batch, groups, room, head))
	gv := b.ViewGlobal("gv", v, build.Global(o.Elem, batch, groups, room, head))
	gl := b.ViewGlobal("gl", lengths, build.Global(dtype.I32, batch))
	gy := b.ViewGlobal("gy", y, build.Global(o.Elem, batch, groups, o.Group, head))
	shape, lay := rowsOf(o.Elem, head, keys)
	several := typ("shared %s[%d, %d, %d] %s.prepend_dim(%d)", o.Elem, stages, keys, head, lay, stages)
	sk, sv := b.AllocateShared("sk", several), b.AllocateShared("sv", several)

	length := b.LoadScalar("length", gl, build.Offset(bb))
	// Whole tiles for each split, so that one of them at most has a part of one.
	share := b.Let("share", fmt.Sprintf("((%v + %d)/%d + %d)/%d*%d", length, keys-1, keys, o.Splits-1, o.Splits, keys))
	from := b.Let("from", split.Mul(share))
	count := b.Let("count", fmt.Sprintf("max(min(%v - %v, %v), 0)", length, from, share))
	whole := b.Let("whole", count.Div(keys))
	tiles := b.Let("tiles", count.Add(keys-1).Div(keys))
	// Behind the last tile nothing is copied: no key lies so far on.
	copyTile := func(suffix, j string) {
		at := build.Offset(bb, h, fmt.Sprintf("%v + (%s)*%d + max(%s + 1 - tiles, 0)*N", from, j, keys, j), 0)
		for _, x := range []struct {
			name string
			g, s build.Value
		}{{"k" + suffix, gk, sk}, {"v" + suffix, gv, sv}} {
			part := b.SliceShared(x.name, x.s, typ("%s %s", shape, lay), build.Offset(fmt.Sprintf("(%s) %% %d", j, stages), 0, 0))
			b.CopyAsync(x.g, part, at)
		}
		b.CopyAsyncCommitGroup()
	}
	for j := range stages - 1 {
		copyTile(fmt.Sprint(j), fmt.Sprint(j))
	}
	rq := b.LoadGlobal("rq", gq, left(head), build.Offset(bb, h, 0, 0))
	acc := b.AllocateRegister("acc", out, build.Init(0))
	top := b.AllocateRegister("top", row, build.Init(masked))
	weight := b.AllocateRegister("weight", row, build.Init(0))
	turn := func(j build.Value, mask bool) {
		b.CopyAsyncWaitGroup(build.N(stages - 2))
		b.Synchronize()
		copyTile("n", fmt.Sprintf("%v + %d", j, stages-1))
		s := b.AllocateRegister("s", scores, build.Init(0))
		for i := range head / 16 {
			qi := b.SliceRegister("qi", rq, left(16), build.Offset(0, 16*i))
			rk := b.LoadShared("rk", sk, right(o.Elem, 16, keys), build.Offset(j.Mod(stages), 0, 16*i), build.Dims(2, 1))
			s = b.Dot("s", qi, rk, s, scores)
		}
		if mask {
			column := b.Indices("column", typ("register i32[1, %d] local(1, %d).replicated(1, 1, num_workers=8).spatial(1, 4).local(1, 2)", keys, keys/8), build.Dim(1))
			inside := b.Less("inside", column, fmt.Sprintf("count - %v*%d", j, keys), typ("register bool[1, %d] local(1, %d).replicated(1, 1, num_workers=8).spatial(1, 4).local(1, 2)", keys, keys/8))
			s = b.Where("s", inside, s, masked, scores)
		}
		now := b.Max("now", top, b.Reduce("largest", s, row, build.Op("max"), build.Dim(1), build.Keepdims("true")), row)
		down := b.Neg("down", b.Mul("down", now, scale, row), row)
		shrink := b.Exp2("shrink", b.Fma("change", top, scale, down, row), row, build.Approx("true"))
		top = b.Assign("top", now, row)
		p := b.Exp2("p", b.Fma("e", s, scale, down, scores), scores, build.Approx("true"))
		weight = b.Fma("weight", weight, shrink, b.Reduce("more", p, row, build.Op("sum"), build.Dim(1), build.Keepdims("true")), row)
		ph := b.Cast("ph", p, left(keys))
		acc = b.Mul("acc", acc, shrink, out)
		for i := range keys / 16 {
			pi := b.SliceRegister("pi", ph, left(16), build.Offset(0, 16*i))
			rv := b.LoadShared("rv", sv, right(o.Elem, 16, head), build.Offset(j.Mod(stages), 16*i, 0), build.Dims(1, 2))
			if mask { // 0 · NaN is NaN
				line := b.Indices("line", right(dtype.I32, 16, head), build.Dim(0))
				valid := b.Less("valid", line, fmt.Sprintf("count - %v*%d - %d", j, keys, 16*i), right(dtype.Bool, 16, head))
				rv = b.Where("rv", valid, rv, 0.0, right(o.Elem, 16, head))
			}
			acc = b.Dot("acc", pi, rv, acc, out)
		}
	}
	b.For("j", 0, whole, func(j build.Value) { turn(j, false) }, build.Unroll(1))
	b.For("j", whole, tiles, func(j build.Value) { turn(j, true) }, build.Unroll(1))
	b.CopyAsyncWaitAll()
	store := func(acc, weight build.Value) {
		acc = b.Mul("result", acc, b.Div("inverse", 1.0, weight, row), out)
		b.StoreGlobal(gy, b.Cast("half", acc, halves), build.Offset(bb, h, 0, 0))
	}
	if o.Splits == 1 {
		store(acc, weight)
		return b.Build()
	}
	gs := b.ViewGlobal("gs", sums, build.Global(dtype.F32, o.Splits, batch, groups, o.Group, head))
	gt := b.ViewGlobal("gt", tops, build.Global(dtype.F32, o.Splits, batch, groups, o.Group, 1))
	gw := b.ViewGlobal("gw", weights, build.Global(dtype.F32, o.Splits, batch, groups, o.Group, 1))
	ga := b.ViewGlobal("ga", arrived, build.Global(dtype.I32, batch, groups))
	b.StoreGlobal(gs, acc, build.Offset(split, bb, h, 0, 0))
	b.StoreGlobal(gt, top, build.Offset(split, bb, h, 0, 0))
	b.StoreGlobal(gw, weight, build.Offset(split, bb, h, 0, 0))
	b.Synchronize()
	before := b.AtomicScalar("before", ga, o.Splits-1, nil, build.Offset(bb, h), build.Op("inc"), build.Order("acq_rel"))
	b.If(before.Equal(o.Splits-1), func() {
		b.Synchronize()
		all := b.AllocateRegister("all", out, build.Init(0))
		peak := b.AllocateRegister("peak", row, build.Init(masked))
		mass := b.AllocateRegister("mass", row, build.Init(0))
		b.For("i", 0, o.Splits, func(i build.Value) {
			peak = b.Max("peak", peak, b.LoadGlobal("ti", gt, row, build.Offset(i, bb, h, 0, 0)), row)
		}, build.Unroll(-1))
		b.For("i", 0, o.Splits, func(i build.Value) {
			ti := b.LoadGlobal("ti", gt, row, build.Offset(i, bb, h, 0, 0))
			wi := b.LoadGlobal("wi", gw, row, build.Offset(i, bb, h, 0, 0))
			si := b.LoadGlobal("si", gs, out, build.Offset(i, bb, h, 0, 0))
			part := b.Exp2("part", b.Mul("apart", b.Sub("apart", ti, peak, row), scale, row), row, build.Approx("true"))
			mass = b.Fma("mass", wi, part, mass, row)
			all = b.Fma("all", si, part, all, out)
		}, build.Unroll(-1))
		store(all, mass)
	})
	return b.Build()
}
