// Package template makes the programs of attention and of the row-wise kernels
// around it: Go functions of a schedule that give programs of the tile machine.
// The default instance of each stands in vm/corpus, printed, with arguments and
// results.
package template

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// masked is what stands for -∞ where a query does not see a key: the exponential
// of its distance to any real score is 0, and no step makes a NaN of it.
const masked = "-3e+38"

// FlashOptions are what [Flash] computes, and its schedule. Zero fields take the
// defaults.
type FlashOptions struct {
	// Elem is the type of q, k, v and o: F16, the default, or BF16.
	Elem dtype.Type
	// Head is the extent of a head: 64 or 128, the default.
	Head int
	// Causal lets a query see the keys up to its own place only, where the last
	// query has the place of the last key.
	Causal bool
	// Group is how many query heads share a key head, 1 by default.
	Group int

	// Warps of a block, 4 by default, and Rows of queries of each warp, 16 or 32, the
	// default. More rows read a tile of keys less often from shared memory.
	Warps, Rows int
	// Keys that a turn of the loop takes, a multiple of 16. 80 by default where Head is
	// 64, else 64: what registers hold without spills.
	Keys int
	// Stages is how many tiles of keys and of values shared memory holds, 1 or 2: 1 by
	// default where Head is 64, else 2. With one, the copies of a turn run beside half
	// of its products.
	Stages int
	// Steady makes each turn alike: copies from behind the last tile, which give
	// nothing, instead of a branch. It lets the assembler spread copies among products,
	// and takes more registers.
	Steady bool
	// Resident keeps the queries in registers from the first turn on.
	Resident bool
}

func (o *FlashOptions) defaults() error {
	if o.Elem == 0 {
		o.Elem = dtype.F16
	}
	if o.Elem != dtype.F16 && o.Elem != dtype.BF16 {
		return fmt.Errorf("template: attention over %s; f16 and bf16 have matrix instructions with f32 sums", o.Elem)
	}
	keys, stages := 64, 2
	if o.Head == 64 {
		keys, stages = 80, 1
	}
	return fill([]field{
		{"head", &o.Head, 128, 64, 128, 64},
		{"group", &o.Group, 1, 1, 64, 1},
		{"warps", &o.Warps, 4, 1, 16, 1},
		{"rows", &o.Rows, 32, 16, 32, 16},
		{"keys", &o.Keys, keys, 16, 256, 16},
		{"stages", &o.Stages, stages, 1, 2, 1},
	})
}

// field is an option: its value where it is 0, and its bounds.
type field struct {
	name                string
	value               *int
	usual, lo, hi, step int
}

func fill(fields []field) error {
	for _, f := range fields {
		if *f.value == 0 {
			*f.value = f.usual
		}
		if n := *f.value; n < f.lo || n > f.hi || n%f.step != 0 {
			return fmt.Errorf("template: %s %d is not a multiple of %d from %d to %d", f.name, n, f.step, f.lo, f.hi)
		}
	}
	return nil
}

// typ is the text of a type.
func typ(format string, a ...any) build.Type { return build.Type(fmt.Sprintf(format, a...)) }

// rowsOf is a shared tile of rows of head elements, whose 16-byte pieces are
// swizzled so that eight rows never meet in a bank.
func rowsOf(elem dtype.Type, head, rows int) (shape, lay string) {
	shift := 3
	if head == 128 {
		shift = 4
	}
	return fmt.Sprintf("shared %s[%d, %d]", elem, rows, head), fmt.Sprintf("shared_row_major(%d, %d).apply_swizzle(base=3, bits=3, shift=%d)", rows, head, shift)
}

// Flash is attention without its matrix of scores: row i of o is the mean of the
// rows of v, weighted by powers of two, 2^(scale·q[i]·k[j]). So scale is the usual
// 1/√Head times log2(e): powers of two are what machines have. q and o are [B, H, M,
// Head], k and v [B, H/Group, N, Head], scale > 0, N ≥ 1. With Causal, N ≥ M, and
// query i sees the keys up to i + N - M.
//
// A block takes Warps·Rows queries of a head and goes through the keys. Scores,
// sums and the output stay in f32 registers; a tile of probabilities is rounded to
// Elem where it lies, and is the left factor of the next product: accumulator and
// left factor of a matrix instruction have one layout. The copies of a tile of keys
// and values go on while those of the turn before are multiplied.
func Flash(o FlashOptions) (*ir.Program, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	rows, keys, head, stages := o.Warps*o.Rows, o.Keys, o.Head, o.Stages
	// Fragments: warps stand below each other, all with the same keys.
	over, same := fmt.Sprintf("spatial(%d, 1).", o.Warps), fmt.Sprintf("replicated(1, 1, num_workers=%d).", o.Warps)
	over3 := fmt.Sprintf("spatial(%d, 1, 1).", o.Warps)
	if o.Warps == 1 {
		over, over3, same = "", "", ""
	}
	m := o.Rows / 16
	sum := func(columns int) build.Type {
		return typ("register f32[%d, %d] %scolumn_local(%d, %d).local(2, 1).spatial(8, 4).local(1, 2)", rows, columns, over, m, columns/8)
	}
	left := func(columns int) build.Type {
		return typ("register %s[%d, %d] %slocal(%d, %d).column_local(2, 2).spatial(8, 4).local(1, 2)", o.Elem, rows, columns, over, m, columns/16)
	}
	right := func(k, n int) build.Type {
		return typ("register %s[%d, %d] %slocal(%d, %d).local(2, 1).column_spatial(4, 8).local(2, 1)", o.Elem, k, n, same, k/16, n/8)
	}
	row := typ("register f32[%d, 1] %slocal(%d, 1).local(2, 1).spatial(8, 1).replicated(1, 1, num_workers=4)", rows, over, m)
	four := typ("register f32[%d, 4] %slocal(%d, 1).local(2, 1).spatial(8, 4)", rows, over, m)
	scores, out := sum(keys), sum(head)
	index := typ("register i32[%d, %d] %scolumn_local(%d, %d).local(2, 1).spatial(8, 4).local(1, 2)", rows, keys, over, m, keys/8)
	lines := typ("register i32[%d, 1] %slocal(%d, 1).local(2, 1).spatial(8, 1).replicated(1, 1, num_workers=4)", rows, over, m)
	truth := typ("register bool[%d, %d] %scolumn_local(%d, %d).local(2, 1).spatial(8, 4).local(1, 2)", rows, keys, over, m, keys/8)

	title := "flash_attention"
	if o.Causal {
		title += "_causal"
	}
	// The blocks that see most keys come first, so that the last ones are short.
	grid := []any{fmt.Sprintf("(M + %d)/%d", rows-1, rows), "H", "B"}
	if o.Causal {
		grid[0], grid[1] = grid[1], grid[0]
	}
	b := build.Program(title, build.Grid(grid...), build.Warps(o.Warps))
	q, k, v, y := b.Pointer("q", o.Elem), b.Pointer("k", o.Elem), b.Pointer("v", o.Elem), b.Pointer("o", o.Elem)
	batch, heads, queries, length := b.Scalar("B", dtype.I32), b.Scalar("H", dtype.I32), b.Scalar("M", dtype.I32), b.Scalar("N", dtype.I32)
	scale := b.Scalar("scale", dtype.F32)
	var at, h, bb build.Value
	if o.Causal {
		h, at, bb = b.BlockIndices3("h", "block", "b")
	} else {
		at, h, bb = b.BlockIndices3("block", "h", "b")
	}
	own := h
	if o.Group > 1 {
		own = b.Let("kh", h.Div(o.Group))
	}
	gq := b.ViewGlobal("gq", q, build.Global(o.Elem, batch, heads, queries, head))
	gk := b.ViewGlobal("gk", k, build.Global(o.Elem, batch, heads.Div(o.Group), length, head))
	gv := b.ViewGlobal("gv", v, build.Global(o.Elem, batch, heads.Div(o.Group), length, head))
	gy := b.ViewGlobal("gy", y, build.Global(o.Elem, batch, heads, queries, head))
	qShape, qLay := rowsOf(o.Elem, head, rows)
	kShape, kLay := rowsOf(o.Elem, head, keys)
	several := typ("shared %s[%d, %d, %d] %s.prepend_dim(%d)", o.Elem, stages, keys, head, kLay, stages)
	sq := b.AllocateShared("sq", typ("%s %s", qShape, qLay))
	sk := b.AllocateShared("sk", several)
	sv := b.AllocateShared("sv", several)

	first := b.Let("first", fmt.Sprintf("block*%d", rows))
	if o.Causal {
		first = b.Let("first", fmt.Sprintf("(((M + %d)/%d) - 1 - %s)*%d", rows-1, rows, at, rows))
	}
	// Tiles of keys: those that all queries see whole, and all.
	whole, tiles := b.Let("whole", length.Div(keys)), b.Let("tiles", length.Add(keys-1).Div(keys))
	if o.Causal {
		reach := b.Let("reach", length.Sub(queries).Add(first))
		whole = b.Let("whole", fmt.Sprintf("max(min(N, reach + 1), 0)/%d", keys))
		tiles = b.Let("tiles", fmt.Sprintf("(min(N, %s + %d) + %d)/%d", reach, rows, keys-1, keys))
	}
	copyTile := func(name string, g, s build.Value, j any) {
		slot := "0"
		if stages > 1 {
			slot = fmt.Sprintf("(%v) %% %d", j, stages)
		}
		part := b.SliceShared(name, s, typ("%s %s", kShape, kLay), build.Offset(slot, 0, 0))
		b.CopyAsync(g, part, build.Offset(bb, own, fmt.Sprintf("(%v)*%d", j, keys), 0))
	}
	// Steady copies behind the last tile come from rows that no tensor has.
	copyNext := func(name string, g, s build.Value, j build.Value) {
		if !o.Steady {
			b.If(j.Add(1).Less("tiles"), func() { copyTile(name, g, s, j.Add(1)) })
			return
		}
		slot := "0"
		if stages > 1 {
			slot = fmt.Sprintf("(%v + 1) %% %d", j, stages)
		}
		part := b.SliceShared(name, s, typ("%s %s", kShape, kLay), build.Offset(slot, 0, 0))
		b.CopyAsync(g, part, build.Offset(bb, own, fmt.Sprintf("(%v + 1)*%d + max(%v + 2 - tiles, 0)*N", j, keys, j), 0))
	}
	b.CopyAsync(gq, sq, build.Offset(bb, h, first, 0))
	copyTile("k0", gk, sk, 0)
	b.CopyAsyncCommitGroup()
	if stages > 1 {
		copyTile("v0", gv, sv, 0)
		b.CopyAsyncCommitGroup()
	}
	acc := b.AllocateRegister("acc", out, build.Init(0))
	top := b.AllocateRegister("top", row, build.Init(masked))
	// Each lane adds up the columns of its own; they meet behind the loop.
	part := b.AllocateRegister("part", four, build.Init(0))
	var held []build.Value
	if o.Resident {
		b.CopyAsyncWaitGroup(build.N(stages - 1))
		b.Synchronize()
		for i := range head / 16 {
			held = append(held, b.LoadShared(name("q", i), sq, left(16), build.Offset(0, 16*i)))
		}
	}
	slotOf := func(j build.Value) any {
		if stages > 1 {
			return j.Mod(stages)
		}
		return 0
	}
	turn := func(j build.Value) {
		if stages > 1 {
			// Its place held the keys of the turn before, which all warps have left
			// behind at the barrier in front of the values.
			copyNext("kn", gk, sk, j)
			b.CopyAsyncCommitGroup()
			b.CopyAsyncWaitGroup(build.N(2))
			b.Synchronize()
		} else {
			b.CopyAsyncWaitAll()
			b.Synchronize()
			copyTile("vn", gv, sv, j)
			b.CopyAsyncCommitGroup()
		}
		s := b.AllocateRegister("s", scores, build.Init(0))
		for i := range head / 16 {
			var rq build.Value
			if o.Resident {
				rq = held[i]
			} else {
				rq = b.LoadShared("rq", sq, left(16), build.Offset(0, 16*i))
			}
			rk := b.LoadShared("rk", sk, right(16, keys), build.Offset(slotOf(j), 0, 16*i), build.Dims(2, 1))
			s = b.Dot("s", rq, rk, s, scores)
		}
		if stages == 1 {
			b.CopyAsyncWaitAll()
			b.Synchronize()
			copyNext("kn", gk, sk, j)
			b.CopyAsyncCommitGroup()
		}
		// Few tiles need a mask. One loop with a branch is half the code of two loops, and
		// leaves registers that two loops spill.
		b.If(j.GreaterEqual(whole), func() {
			column := b.Indices("column", index, build.Dim(1))
			if o.Causal {
				// Key column + j·keys is seen by query line + first, and by those behind.
				line := b.Indices("line", lines, build.Dim(0))
				limit := b.Add("limit", line, fmt.Sprintf("reach - %v*%d", j, keys), lines)
				limit = b.Min("limit", limit, fmt.Sprintf("N - 1 - %v*%d", j, keys), lines)
				seen := b.LessEqual("seen", column, limit, truth)
				b.Where("s", seen, s, masked, scores)
			} else {
				seen := b.Less("seen", column, length.Sub(j.Mul(keys)), truth)
				b.Where("s", seen, s, masked, scores)
			}
		})
		largest := b.Reduce("largest", s, row, build.Op("max"), build.Dim(1), build.Keepdims("true"))
		now := b.Max("now", top, largest, row)
		down := b.Neg("down", b.Mul("down", now, scale, row), row)
		change := b.Fma("change", top, scale, down, row)
		shrink := b.Exp2("shrink", change, row, build.Approx("true"))
		top = b.Assign("top", now, row)
		e := b.Fma("e", s, scale, down, scores)
		p := b.Exp2("p", e, scores, build.Approx("true"))
		columns := b.SliceRegister("columns", p, sum(8), build.Offset(0, 0))
		for i := 1; i < keys/8; i++ {
			next := b.SliceRegister("next", p, sum(8), build.Offset(0, 8*i))
			columns = b.Add("columns", columns, next, sum(8))
		}
		pairs := b.Reshape("pairs", columns, typ("register f32[%d, 4, 2] %slocal(%d, 1, 1).local(2, 1, 1).spatial(8, 4, 1).local(1, 1, 2)", rows, over3, m))
		pair := b.Reduce("pair", pairs, four, build.Op("sum"), build.Dim(2))
		part = b.Fma("part", part, shrink, pair, four)
		ph := b.Cast("ph", p, left(keys))
		acc = b.Mul("acc", acc, shrink, out)
		if stages > 1 {
			copyNext("vn", gv, sv, j)
			b.CopyAsyncCommitGroup()
			b.CopyAsyncWaitGroup(build.N(2))
			b.Synchronize()
		}
		for i := range keys / 16 {
			pi := b.SliceRegister("pi", ph, left(16), build.Offset(0, 16*i))
			rv := b.LoadShared("rv", sv, right(16, head), build.Offset(slotOf(j), 16*i, 0), build.Dims(1, 2))
			acc = b.Dot("acc", pi, rv, acc, out)
		}
	}
	b.For("j", 0, tiles, turn, build.Unroll(1))

	total := b.Reduce("total", part, row, build.Op("sum"), build.Dim(1), build.Keepdims("true"))
	inverse := b.Div("inverse", 1.0, total, row)
	acc = b.Mul("acc", acc, inverse, out)
	// Through the memory of q, so that rows go out in whole lines.
	half := b.Cast("half", acc, typ("register %s[%d, %d] %slocal(%d, %d).local(2, 1).spatial(8, 4).local(1, 2)", o.Elem, rows, head, over, m, head/8))
	b.CopyAsyncWaitAll()
	b.Synchronize()
	b.StoreShared(sq, half)
	b.Synchronize()
	lanes := head / 8
	high := o.Warps * 32 / lanes
	ry := b.LoadShared("ry", sq, typ("register %s[%d, %d] local(%d, 1).spatial(%d, %d).local(1, 8)", o.Elem, rows, head, rows/high, high, lanes))
	b.StoreGlobal(gy, ry, build.Offset(bb, h, first, 0))
	return b.Build()
}

// name is a variable of copy j.
func name(s string, j int) string { return fmt.Sprintf("%s%d", s, j) }
