package probe

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// This file keeps one difference apart from all others: two NaNs of different
// codes. PTX lets double precision carry the payload of a NaN from an operand to
// the result (single precision gives one NaN, which it does not fix), while the
// meanings, as all of vm/dtype, know one NaN for each type. So where f64 takes
// part, such results are counted as Row.NaNs and not as differences, and held
// against a rule that is not in the manual: the result is the first NaN among the
// operands, in some order, made quiet, its payload cut or extended at the low
// end; an operation that makes a NaN makes the negative one without payload. An
// H200 follows it, except where the driver rewrites the instruction: a - c with a
// constant c becomes a + (-c), which turns the sign of a NaN around. No meaning of
// a row could say that.
//
// Source: PTX ISA 9.7.3, Floating-Point Instructions.

// nanRow says of a row whose NaNs carry payloads what its formats are.
type nanRow struct {
	to   dtype.Type
	from []dtype.Type
}

func nanRowOf(op code.Op) (nanRow, bool) {
	f64 := func(n int) (nanRow, bool) {
		return nanRow{dtype.F64, []dtype.Type{dtype.F64, dtype.F64, dtype.F64}[:n]}, true
	}
	switch op {
	case code.OpF64ToF32:
		return nanRow{dtype.F32, []dtype.Type{dtype.F64}}, true
	case code.OpF64ToF16:
		return nanRow{dtype.F16, []dtype.Type{dtype.F64}}, true
	case code.OpF32ToF64:
		return nanRow{dtype.F64, []dtype.Type{dtype.F32}}, true
	case code.OpF16ToF64:
		return nanRow{dtype.F64, []dtype.Type{dtype.F16}}, true
	case code.OpSqrtF64, code.OpRoundF64, code.OpFloorF64, code.OpCeilF64, code.OpTruncF64:
		return f64(1)
	case code.OpAddF64, code.OpSubF64, code.OpMulF64, code.OpDivF64, code.OpMinF64, code.OpMaxF64:
		return f64(2)
	case code.OpFmaF64:
		return f64(3)
	}
	return nanRow{}, false
}

// orders are the orders in which operands may be looked at.
var orders = [...][3]int{{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// code is the NaN that the rule gives with an order of operands.
func (r nanRow) code(order [3]int, in []uint64) uint64 {
	n, man := r.to.Bits(), r.to.Row().Man
	quiet := r.to.Inf(false) | 1<<(man-1)
	for _, i := range order {
		if i >= len(in) || !r.from[i].IsNaN(in[i]) {
			continue
		}
		fn, fman := r.from[i].Bits(), r.from[i].Row().Man
		payload := in[i] & (1<<fman - 1) << (64 - fman) >> (64 - man)
		return quiet | payload | in[i]>>(fn-1)<<(n-1)
	}
	return quiet | 1<<(n-1)
}

// nanTally counts NaNs of other codes than the meaning's and how many of them
// each order explains.
type nanTally struct {
	n    int
	fits [len(orders)]int
}

func (t *nanTally) count(r nanRow, in []uint64, got uint64) {
	t.n++
	for i, o := range orders {
		if r.code(o, in) == got {
			t.fits[i]++
		}
	}
}

func (t *nanTally) String() string {
	best := 0
	for i := range orders {
		if t.fits[i] > t.fits[best] {
			best = i
		}
	}
	names := ""
	for _, i := range orders[best] {
		names += " " + string(rune('a'+i))
	}
	return fmt.Sprintf("%d NaNs have another code than the meaning's; %d of them are the first NaN among the operands in the order%s, made quiet, or the negative NaN without payload", t.n, t.fits[best], names)
}
