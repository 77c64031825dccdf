package shared

import (
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// rowForm is how ldmatrix and stmatrix lay an 8-row matrix of 16-byte rows over a
// warp: the tile's dimension that is contiguous in memory, the transposed form or
// not, and the registers.
type rowForm struct {
	along int
	trans bool
	atom  layout.Layout
}

// rowForms are the forms for elements of some bits, one 32-bit register a lane.
var rowForms = map[int][]rowForm{4: rowFormsOf(4), 8: rowFormsOf(8), 16: rowFormsOf(16), 32: rowFormsOf(32)}

func rowFormsOf(width int) []rowForm {
	n := 32 / width
	forms := []rowForm{
		{1, false, layout.Spatial(8, 4).Local(1, n)},
		{0, false, layout.ColumnSpatial(4, 8).Local(n, 1)},
	}
	if width == 16 {
		forms = append(forms,
			rowForm{1, true, layout.ColumnSpatial(4, 8).Local(2, 1)},
			rowForm{0, true, layout.Spatial(8, 4).Local(1, 2)})
	}
	return forms
}

// matrices is a register tile cut into matrices of 8 rows.
type matrices struct {
	*Places
	form   rowForm
	outer  layout.Layout
	rows   int      // elements of a row
	starts [][2]int // place in the outer layout, of each slot of each warp
}

// asMatrices cuts a tile whose layout divides by a form and whose rows lie whole and
// aligned in shared memory, or gives nil.
func asMatrices(x *Places, t ir.Type, warps int) *matrices {
	if x.at == nil || !x.hoisted || len(t.Shape) != 2 || x.threads != 32*warps {
		return nil
	}
	for _, form := range rowForms[t.Elem.Bits()] {
		outer, err := t.Layout.Div(form.atom)
		if err != nil || outer.Threads() != warps {
			continue
		}
		m := &matrices{Places: x, form: form, outer: outer, rows: 128 / t.Elem.Bits()}
		for warp := range outer.Threads() {
			for slot := range outer.Slots() {
				m.starts = append(m.starts, [2]int(outer.Index(warp, slot)))
			}
		}
		if m.aligned() {
			return m
		}
	}
	return nil
}

// row is the place of element k of row r of the matrix in a slot of a warp.
func (m *matrices) row(warp, slot, r, k int) int {
	return m.within(m.starts[warp*m.outer.Slots()+slot], r, k)
}

// within is the place of element k of row r of the matrix at a place of the outer layout.
func (m *matrices) within(at [2]int, r, k int) int {
	index := [2]int{8*at[0] + r, m.rows*at[1] + k}
	if m.form.along == 0 {
		index = [2]int{m.rows*at[0] + k, 8*at[1] + r}
	}
	return m.base + int(m.adds[0][index[0]]) + int(m.adds[1][index[1]])
}

// aligned reports that each row is 16 bytes one after the other at a multiple of 16.
func (m *matrices) aligned() bool {
	w := m.View.Swizzle
	if !w.Identity() && 1<<w.Base < m.rows {
		return false
	}
	for _, q := range m.terms {
		if q.Div%int64(m.rows) != 0 {
			return false
		}
	}
	for _, at := range m.starts {
		for r := range 8 {
			first := m.within(at, r, 0)
			if first%m.rows != 0 {
				return false
			}
			for k := 1; k < m.rows; k++ {
				if m.within(at, r, k) != first+k {
					return false
				}
			}
		}
	}
	return true
}

// addresses gives, for n matrices from a slot on, the row that each lane gives the
// address of: lane l that of row l mod 8 of matrix l/8.
func (m *matrices) addresses(slot, n int) (code.Value, int64, bool) {
	at := make([]int32, m.threads)
	for id := range at {
		at[id] = int32(m.row(id/32, slot+id%32/8%n, id%8, 0))
	}
	return m.address(m.table(at))
}

// pieces cuts the matrices into instructions of 4, 2 or 1; nil if the address of one
// cannot be made cheaply.
func (m *matrices) pieces(emit func(slot, n int, addr code.Value, offset int64)) bool {
	type piece struct {
		slot, n int
		addr    code.Value
		offset  int64
	}
	var all []piece
	for slot := 0; slot < m.outer.Slots(); {
		done := false
		for n := 4; n > 0 && !done; n /= 2 {
			if slot+n > m.outer.Slots() {
				continue
			}
			if addr, offset, ok := m.addresses(slot, n); ok {
				all = append(all, piece{slot, n, addr, offset})
				slot += n
				done = true
			}
		}
		if !done {
			return false
		}
	}
	for _, p := range all {
		emit(p.slot, p.n, p.addr, p.offset)
	}
	return true
}

var rowLoads = map[bool][5]code.Op{
	false: {1: code.OpLdMatrixX1, 2: code.OpLdMatrixX2, 4: code.OpLdMatrixX4},
	true:  {1: code.OpLdMatrixX1T, 2: code.OpLdMatrixX2T, 4: code.OpLdMatrixX4T},
}

var rowStores = map[bool][5]code.Op{
	false: {1: code.OpStMatrixX1, 2: code.OpStMatrixX2, 4: code.OpStMatrixX4},
	true:  {1: code.OpStMatrixX1T, 2: code.OpStMatrixX2T, 4: code.OpStMatrixX4T},
}

// LoadMatrices loads a tile, whose words the result has, by ldmatrix; or gives nil.
func (x *Places) LoadMatrices(t ir.Type, warps int) []code.Value {
	m := asMatrices(x, t, warps)
	if m == nil {
		return nil
	}
	words := make([]code.Value, (t.BitsPerThread()+31)/32)
	if !m.pieces(func(slot, n int, addr code.Value, offset int64) {
		copy(words[slot:], x.t.Emit(rowLoads[m.form.trans][n], []int64{offset}, addr))
	}) {
		return nil
	}
	return words
}

// StoreMatrices stores a tile by stmatrix, which targets have from sm_90 on; it reports
// whether it could.
func (x *Places) StoreMatrices(t ir.Type, warps int, words []code.Value) bool {
	if t.Elem.Bits() != 16 {
		return false
	}
	m := asMatrices(x, t, warps)
	return m != nil && m.pieces(func(slot, n int, addr code.Value, offset int64) {
		x.t.Op(rowStores[m.form.trans][n], []int64{offset}, append([]code.Value{addr}, words[slot:slot+n]...)...)
	})
}
