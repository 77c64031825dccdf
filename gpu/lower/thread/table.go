package thread

import (
	"math/bits"
	"strconv"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Table is the value that a table, by thread number, has for this thread; ok is false
// unless the bits of the number each change some bits of it, or each add something.
func (t *Thread) Table(table []int) (v code.Value, ok bool) {
	t.key = append(t.key[:0], "table"...)
	for _, n := range table {
		t.key = strconv.AppendInt(append(t.key, ' '), int64(n), 10)
	}
	if v, ok := t.known[string(t.key)]; ok {
		return v[0], true
	}
	key := string(t.key)
	v, ok = t.xorTable(table)
	if !ok {
		v, ok = t.sumTable(table)
	}
	if ok {
		t.know(key, []code.Value{v})
	}
	return v, ok
}

// sumTable adds what fields of the thread number add.
func (t *Thread) sumTable(table []int) (code.Value, bool) {
	var each []int // what each bit adds
	for b := 1; b < len(table); b *= 2 {
		each = append(each, table[b]-table[0])
	}
	for id, n := range table {
		want := table[0]
		for b, x := range each {
			want += id >> b & 1 * x
		}
		if n != want {
			return 0, false
		}
	}
	v := t.Const32(int64(table[0]))
	for b := 0; b < len(each); {
		n := 1
		for b+n < len(each) && each[b+n] == each[b]<<n {
			n++
		}
		f := t.ID
		if b > 0 {
			f = t.Op(code.OpShrU32, nil, f, t.Const32(int64(b)))
		}
		if b+n < len(each) || len(table)&(len(table)-1) != 0 {
			f = t.Op(code.OpAnd32, nil, f, t.Const32(1<<n-1))
		}
		if each[b] != 0 {
			v = t.Add32(v, t.Mul32(f, t.Const32(int64(each[b]))))
		}
		b += n
	}
	return v, true
}

// xorTable joins what fields of the thread number change.
func (t *Thread) xorTable(table []int) (code.Value, bool) {
	first := table[0]
	each := []int{} // what each bit of the thread number changes
	for b := 1; b < len(table); b *= 2 {
		each = append(each, table[b]^first)
	}
	for id, n := range table {
		want := first
		for b, x := range each {
			if id>>b&1 != 0 {
				want ^= x
			}
		}
		if n != want {
			return 0, false
		}
	}
	// Bits of the thread number that move equally far go together.
	masks := map[int]int64{}
	var shifts []int
	for b, x := range each {
		for j := range bits.Len(uint(x)) {
			if x>>j&1 == 0 {
				continue
			}
			if masks[j-b] == 0 {
				shifts = append(shifts, j-b)
			}
			masks[j-b] |= 1 << b
		}
	}
	var v code.Value
	for _, s := range shifts {
		f, m := t.ID, masks[s]
		switch {
		case s > 0:
			f = t.Op(code.OpShl32, nil, f, t.Const32(int64(s)))
			m <<= s
		case s < 0:
			f = t.Op(code.OpShrU32, nil, f, t.Const32(int64(-s)))
			m >>= -s
		}
		if m != int64(len(table)-1) || s != 0 || len(table)&(len(table)-1) != 0 {
			f = t.Op(code.OpAnd32, nil, f, t.Const32(m))
		}
		if v != 0 {
			f = t.Op(code.OpXor32, nil, v, f)
		}
		v = f
	}
	if v == 0 {
		v = t.Const32(int64(first))
	} else if first != 0 {
		v = t.Op(code.OpXor32, nil, v, t.Const32(int64(first)))
	}
	return v, true
}
