package sim

import (
	"fmt"
	"math"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// This file holds the products of tensor memory: which lanes and columns a size has,
// what an instruction descriptor says, and where scales and what is sparse lie. Not
// simulated are products of 128 rows of two blocks with half of A left out.

// instruction is the instruction descriptor of a product.
type instruction struct {
	m, n, k    int
	a, b, d    dtype.Type
	negA, negB bool
	mnA, mnB   bool
	sparse     bool // half of A is left out
	part       int  // which of two columns says where
	still      bool // .ws
	rows       int  // of a block
	// Of products with scales: their type, how many an instruction has in a row, and
	// which of four in a column is the first.
	scale  dtype.Type
	scales int
	ids    [2]int
}

// tensorTypes are the types of operands of a kind by their numbers.
var tensorTypes = map[string][]dtype.Type{
	"f16": {dtype.F16, dtype.BF16}, "tf32": {2: dtype.TF32}, "i8": {dtype.U8, dtype.I8},
	"f8f6f4":   {0: dtype.F8E4M3, 1: dtype.F8E5M2, 3: dtype.F6E2M3, 4: dtype.F6E3M2, 5: dtype.F4E2M1},
	"mxf8f6f4": {0: dtype.F8E4M3, 1: dtype.F8E5M2, 3: dtype.F6E2M3, 4: dtype.F6E3M2, 5: dtype.F4E2M1},
	"mxf4":     {1: dtype.F4E2M1}, "mxf4nvf4": {1: dtype.F4E2M1},
}

func (w *warp) instruction(l int, word uint64, form, kind string, blocks int) (x instruction, ok bool) {
	field := func(at, n int) int { return int(word >> at & (1<<n - 1)) }
	bad := func(format string, args ...any) (instruction, bool) {
		w.fail(l, errProduct, "", "the instruction descriptor %#x %s", word, fmt.Sprintf(format, args...))
		return x, false
	}
	kind, vec, _ := strings.Cut(kind, ".")
	types := tensorTypes[kind]
	sums := []dtype.Type{dtype.F16, dtype.F32, dtype.I32}
	a, b, d := field(7, 3), field(10, 3), field(4, 2)
	x.still, x.sparse = strings.HasPrefix(form, "ws."), field(2, 1) == 1
	if x.sparse != strings.HasSuffix(form, "sp.") {
		return bad("and the instruction differ in whether A is sparse")
	}
	if x.scales = map[string]int{"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}[kind]; x.scales > 0 {
		if vec == "2X" {
			x.scales = 2
		}
		d, x.ids = 1, [2]int{field(29, 2), field(4, 2)}
		if x.scale = dtype.F8E4M3; field(23, 1) == 1 {
			x.scale = dtype.F8E8M0
		}
		if (x.scale == dtype.F8E8M0) != (x.scales < 4) || x.ids[0]%x.scales != 0 || x.ids[1]%x.scales != 0 {
			return bad("names scales that kind::%s does not have", kind)
		}
	}
	if a < len(types) && b < len(types) && d < len(sums) {
		x.a, x.b, x.d = types[a], types[b], sums[d]
	}
	x.negA, x.negB, x.mnA, x.mnB = field(13, 1) == 1, field(14, 1) == 1, field(15, 1) == 1, field(16, 1) == 1
	x.n, x.m = field(17, 6)*8, field(24, 5)*16
	if !x.a.Valid() || !x.b.Valid() || !x.d.Valid() || (x.d == dtype.I32) != (kind == "i8") || x.d == dtype.F16 && (kind == "tf32" || x.a == dtype.BF16 || x.b == dtype.BF16) {
		return bad("names types that kind::%s does not have", kind)
	}
	if x.part = field(0, 2); x.sparse && (x.part > 1 || x.part == 1 && x.a.Bits() < 16) {
		return bad("selects column %d of what says where A is sparse; there are two of 16 bits and more", x.part)
	}
	if (x.mnA && padded(x.a)) || (x.mnB && padded(x.b)) {
		return bad("turns an operand of %d and %d bits", x.a.Bits(), x.b.Bits())
	}
	x.rows = x.m / blocks
	step := 16
	switch {
	case x.still && (x.m == 32 || x.m == 64 || x.m == 128):
		if x.n != 64 && x.n != 128 && x.n != 256 {
			return bad("asks for %d columns; products of .ws have 64, 128 or 256", x.n)
		}
	case !x.still && x.rows == 128:
		step = 16 * blocks
	case !x.still && x.rows == 64 && x.scales == 0 && !(blocks == 2 && x.sparse):
		if step = 8; blocks == 2 {
			step = 16
		}
	default:
		return bad("asks for a product of %d rows", x.m)
	}
	if kind == "i8" && x.n > 32 {
		step = 16 * blocks
	}
	if x.n < step || x.n > 256 || x.n%step != 0 || x.scales > 0 && x.n%32 != 0 {
		return bad("asks for %d columns; of %d rows there are multiples of %d up to 256", x.n, x.m, step)
	}
	x.k = 256 / max(x.a.Bits(), x.b.Bits())
	if kind == "f8f6f4" || kind == "mxf8f6f4" {
		x.k = 32
	}
	if x.sparse {
		x.k *= 2
	}
	return x, true
}

// padded reports whether elements of a type lie in 16 bytes for 16 of them, the rest
// unused.
func padded(t dtype.Type) bool { return t == dtype.F6E2M3 || t == dtype.F6E3M2 || t == dtype.F4E2M1 }

// lane and column are where element [r, c] of D lies, from its address on.
func (x instruction) place(pair bool, r, c int) (lane, column int) {
	parts := 1 // of the columns, below each other
	switch {
	case x.rows == 128:
	case !x.still && !pair: // the first halves of the quarters
		return r/16*lanes + r%16, c
	default:
		parts = 128 / x.rows
	}
	per := x.n / parts
	return r + c/per*x.rows, c % per
}

// tensorProduct begins a product of one thread: of the block, or of its pair.
func (w *warp) tensorProduct(i *inst, t *tensorMemory, l int, name string, pair bool) {
	words := strings.SplitAfter(strings.TrimPrefix(name, "mma."), ".")
	form := ""
	masked, scaled := words[0] == "lanes.", words[0] == "scaled."
	if masked || scaled {
		words = words[1:]
	}
	for words[0] == "ws." || words[0] == "sp." {
		form, words = form+words[0], words[1:]
	}
	where, kind := words[0], strings.Join(words[1:], "")
	blocks := []*block{w.b}
	if pair {
		if w.b.rank%2 != 0 || w.b.rank+1 >= len(w.b.cl.blocks) {
			w.fail(l, errProduct, "let the block with the even rank begin it", "block rank %d begins a product of two blocks", w.b.rank)
			return
		}
		other, _, ok := w.resolve(l, uint64(w.b.rank+2)<<windowShift|sharedBase)
		if !ok {
			return
		}
		blocks = append(blocks, other)
	}
	next := 3
	if strings.HasSuffix(form, "sp.") {
		next = 4
	}
	x, ok := w.instruction(l, w.in32(i, next, l), form, kind, len(blocks))
	if !ok {
		return
	}
	w.b.stats.Products++
	addr, add := w.in32(i, 0, l), w.regs[int(i.in[len(i.row.In)-1])+l] != 0
	if half := int(addr >> 16); half != 0 && (half != 16 || x.rows != 64 || x.still || pair) {
		w.fail(l, errProduct, "", "D begins at lane %d of tensor memory", half)
		return
	}
	packed := x.k // elements of a row of A as they are kept
	if x.sparse {
		packed /= 2
	}
	work := &tensorWork{}
	var a [2]func() []float64 // of the rows of each block, when their turn comes
	var b []float64           // [n][k]
	for r, in := range blocks {
		held := &flight{}
		if where == "ss." {
			v := w.tensorTile(in, l, "A", w.regs[int(i.in[1])+l], kind, x.mnA, x.a, x.rows, packed, x.negA, held)
			a[r] = func() []float64 { return v }
		} else if a[r], ok = w.tensorRows(in.tensorMemory(), l, w.in32(i, 1, l), addr, x, kind, packed, pair); !ok {
			return
		}
		b = append(b, w.tensorTile(in, l, "B", w.regs[int(i.in[2])+l], kind, x.mnB, x.b, x.n/len(blocks), x.k, x.negB, held)...)
		if w.b.err != nil {
			return
		}
		if x.sparse {
			if a[r], ok = w.sparseRows(in.tensorMemory(), l, w.in32(i, 3, l), x, a[r]); !ok {
				return
			}
		}
		work.parts = append(work.parts, tensorPart{b: in, t: in.tensorMemory(), bytes: held.bytes})
	}
	left := map[*tensorCell]bool{} // cells of lanes that are not written
	for p := range work.parts {
		part := &work.parts[p]
		for r := range x.rows {
			for c := range x.n {
				lane, column := x.place(pair, r, c)
				k := w.cell(part.t, int(addr>>16)+lane, int(addr&0xffff)+column)
				if k < 0 {
					return
				}
				cell := &part.t.cells[k]
				if cell.store != nil || add && !cell.set && cell.job == nil {
					w.fail(l, errAsync, "enable-d false in the first product, or store D and wait", "D in tensor memory, lane %d, column %d, is not there yet", int(addr>>16)+lane, int(addr&0xffff)+column)
					return
				}
				part.cells = append(part.cells, k)
				if masked && w.in32(i, 4+4*p+(k/tensorColumns)/32, l)>>(k/tensorColumns%32)&1 == 1 {
					left[cell] = true
				}
			}
		}
	}
	var scales [2][]int // cells, of rows of A and columns of B
	for side := range scales {
		if x.scales == 0 {
			break
		}
		if scales[side], ok = w.scaleCells(t, w.in32(i, next+1+side, l), []int{x.rows, x.n}[side]); !ok {
			return
		}
	}
	plan := &groupPlan{d: x.d, floats: x.d.IsFloat()}
	w.begin(i, t, work, func(j *job) *diag.Problem {
		bs := b
		for p, part := range work.parts {
			as := a[p]()
			if as == nil {
				return j.problem(errProduct, "two of four that are there, and the first before the second", "no such pair of elements of A is there")
			}
			if x.scales > 0 {
				var bad string
				if as, bad = x.scaled(t, as, x.rows, scales[0], x.ids[0]); bad == "" {
					bs, bad = x.scaled(t, b, x.n, scales[1], x.ids[1])
				}
				if bad != "" {
					return j.problem(errProduct, "copy scales with tcgen05.cp.warpx4, or store them in all four quarters of the lanes", "%s", bad)
				}
			}
			for at, k := range part.cells {
				cell := &part.t.cells[k]
				if left[cell] {
					continue
				}
				c := uint64(0)
				if add {
					c = uint64(cell.v) & x.d.Mask()
				}
				if scaled {
					c = x.d.Encode(math.Ldexp(x.d.Decode(c), -int(i.imm[0])), false)
				}
				cell.v, cell.set = uint32(plan.step(c, as[at/x.n*x.k:][:x.k], bs[at%x.n*x.k:][:x.k])), true
			}
		}
		return nil
	})
}

// tensorRows is A in tensor memory, as it is when its turn comes: rows in the lanes of
// those of D.
func (w *warp) tensorRows(t *tensorMemory, l int, addr, d uint64, x instruction, kind string, columns int, pair bool) (func() []float64, bool) {
	if kind = strings.TrimPrefix(kind, "mx"); x.rows != 128 && (x.still || pair) || padded(x.a) && kind == "f8f6f4" || addr>>16 != d>>16 {
		w.fail(l, errProduct, "", "A of %s in tensor memory at lane %d for a product of %d rows is not simulated", x.a, addr>>16, x.m)
		return nil, false
	}
	per := 32 / x.a.Bits()
	cells := make([]int, 0, x.rows*columns)
	for r := range x.rows {
		lane, _ := x.place(pair, r, 0)
		for c := range columns {
			k := w.cell(t, int(addr>>16)+lane, int(addr&0xffff)+c/per)
			if k < 0 {
				return nil, false
			}
			if cell := &t.cells[k]; !cell.set && cell.job == nil || cell.store != nil {
				w.fail(0, errAsync, "store A, then tcgen05.wait::st and a barrier", "A in tensor memory, lane %d, column %d, is not there yet", int(addr>>16)+lane, int(addr&0xffff)+c/per)
				return nil, false
			}
			cells = append(cells, k)
		}
	}
	return func() []float64 {
		a := make([]float64, len(cells))
		for at, k := range cells {
			if a[at] = x.a.Decode(uint64(t.cells[k].v) >> (at % columns % per * x.a.Bits()) & x.a.Mask()); x.negA {
				a[at] = -a[at]
			}
		}
		return a
	}, true
}

// sparseWord is where the four bits lie that say which elements of a row are kept of
// those from k on: lane, column and first bit. Of 16 bits and more, eight rows and the
// eight behind them share words, half of a row in each of two lanes.
// Source: CUTLASS, tmem_e_frg.
func (x instruction) sparseWord(row, k int) (lane, column, bit int) {
	switch bits := x.a.Bits(); {
	case bits >= 16:
		half := x.k / 2
		return row%8 + row/16*16 + k/half*8, x.part, row/8%2*16 + k%half*16/half
	default:
		at := k * 64 / x.k // of 64 bits of a row
		return row, at / 32, at % 32
	}
}

// sparseRows puts the elements of A that are kept to their places among zeros, when
// their turn comes; nil where nothing says so.
func (w *warp) sparseRows(t *tensorMemory, l int, addr uint64, x instruction, kept func() []float64) (func() []float64, bool) {
	if addr>>16 != 0 || addr%2 != 0 || x.rows != 128 {
		w.fail(l, errProduct, "", "what says where A is sparse, at lane %d, column %d for a product of %d rows; it begins in lane 0 at an even column, and 128 rows are simulated", addr>>16, addr&0xffff, x.m)
		return nil, false
	}
	chunk, unit := 4, 1 // elements that four bits speak of, and those that are kept together
	switch {
	case x.a == dtype.TF32:
		chunk = 2
	case x.a.Bits() == 4 && x.scales > 1:
		chunk, unit = 8, 2
	}
	var cells, shifts []int
	for r := range x.rows {
		for k := 0; k < x.k; k += chunk {
			lane, column, bit := x.sparseWord(r, k)
			at := w.cell(t, lane, int(addr&0xffff)+column)
			if at < 0 {
				return nil, false
			}
			if cell := &t.cells[at]; !cell.set && cell.job == nil || cell.store != nil {
				w.fail(l, errAsync, "copy or store it before, and wait for stores", "what says where A is sparse, lane %d, column %d, is not there yet", lane, int(addr&0xffff)+column)
				return nil, false
			}
			cells, shifts = append(cells, at), append(shifts, bit)
		}
	}
	return func() []float64 {
		a := kept()
		out := make([]float64, x.rows*x.k)
		for i, at := range cells {
			code := int(t.cells[at].v >> shifts[i] & 15)
			from, to := i*chunk/2, i*chunk
			if chunk == 2 {
				switch code {
				case 0b0100:
					out[to] = a[from]
				case 0b1110:
					out[to+1] = a[from]
				default:
					return nil
				}
				continue
			}
			if x, y := code&3, code>>2; x == y || x > y && code != 0b0110 {
				return nil
			}
			for part, place := range []int{code & 3, code >> 2} {
				for e := range unit {
					out[to+place*unit+e] = a[from+part*unit+e]
				}
			}
		}
		return out
	}, true
}

// scaleCells are the words of the scales of rows, lane by lane for all four quarters.
func (w *warp) scaleCells(t *tensorMemory, addr uint64, rows int) ([]int, bool) {
	var cells []int
	for lane := range tensorLanes {
		for c := range rows / lanes {
			k := w.cell(t, lane, int(addr&0xffff)+c)
			if k < 0 {
				return nil, false
			}
			if cell := &t.cells[k]; !cell.set && cell.job == nil || cell.store != nil {
				w.fail(0, errAsync, "copy or store scales before, and wait for stores", "a scale in tensor memory, lane %d, column %d, is not there yet", lane, int(addr&0xffff)+c)
				return nil, false
			}
			cells = append(cells, k)
		}
	}
	return cells, true
}

// scaled is an operand [rows][k] times its scales.
func (x instruction) scaled(t *tensorMemory, v []float64, rows int, cells []int, id int) ([]float64, string) {
	out := make([]float64, len(v))
	columns := rows / lanes
	for r := range rows {
		word := t.cells[cells[r%lanes*columns+r/lanes]].v
		for q := r % lanes; q < tensorLanes; q += lanes {
			if t.cells[cells[q*columns+r/lanes]].v != word {
				return nil, fmt.Sprintf("lanes %d and %d of tensor memory hold other scales of row %d", r%lanes, q, r)
			}
		}
		for k := range x.k {
			c := word >> (8 * (id + k*x.scales/x.k))
			if x.scale == dtype.F8E4M3 && c>>7&1 == 1 {
				return nil, fmt.Sprintf("the scale %#x of row %d has a sign", c&0xff, r)
			}
			out[r*x.k+k] = v[r*x.k+k] * x.scale.Decode(uint64(c&0xff))
		}
	}
	return out, ""
}
