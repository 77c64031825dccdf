package hopper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// tensorProduct is one way to multiply in tensor memory.
type tensorProduct struct {
	a, b, d dtype.Type
	m, n, k int
	sparse  bool
	keep    bool
}

func (x tensorProduct) String() string {
	return fmt.Sprintf("%s·%s→%s %d×%d×%d sparse=%v keep=%v", x.a, x.b, x.d, x.m, x.n, x.k, x.sparse, x.keep)
}

func tensorProducts() []tensorProduct {
	const f16, bf16, tf32, f32 = dtype.F16, dtype.BF16, dtype.TF32, dtype.F32
	var all []tensorProduct
	for _, t := range [][3]dtype.Type{{f16, f16, f32}, {bf16, bf16, f32}, {tf32, tf32, f32}, {dtype.F8E4M3, dtype.F8E5M2, f32}, {dtype.I8, dtype.U8, dtype.I32}} {
		k := 1024 / t[0].Bits() // a row of 128 bytes
		x := tensorProduct{a: t[0], b: t[1], d: t[2], k: k}
		for _, size := range [][2]int{{128, 16}, {128, 64}, {64, 32}, {64, 128}} {
			x.m, x.n = size[0], size[1]
			all = append(all, x)
		}
		for _, m := range []int{32, 64, 128} {
			x.m, x.n, x.keep = m, 64, true
			all = append(all, x)
		}
		x.m, x.n, x.keep, x.sparse = 128, 32, false, true
		all = append(all, x)
	}
	return all
}

func (x tensorProduct) program() (*ir.Program, error) {
	shared := func(t dtype.Type, rows, columns int) (layout.Shared, string, error) {
		l, err := layout.SharedRowMajorSwizzle(t.Bits(), rows, columns)
		return l, ir.SharedOf(t, l).String(), err
	}
	kept := x.k
	if x.sparse {
		kept /= 2
	}
	_, sa, err := shared(x.a, x.m, kept)
	if err != nil {
		return nil, err
	}
	lb, sb, err := shared(x.b, x.n, x.k)
	if err != nil {
		return nil, err
	}
	tb, err := lb.Transpose(0, 1)
	if err != nil {
		return nil, err
	}
	rows, columns := x.m, x.n
	if x.keep {
		rows, columns = ir.TensorLanes, x.n*x.m/ir.TensorLanes
	}
	held, ok := ir.TensorRegisters(x.d, []int{rows, columns})
	if !ok {
		return nil, fmt.Errorf("no load brings %d rows of %d", rows, columns)
	}
	marks := x.k / 32
	if x.a.Bits() == 32 {
		marks = x.k / 16
	}
	bytes := (x.m*kept + x.n*x.k) * x.a.Bits() / 8
	var b strings.Builder
	fmt.Fprintf(&b, "program product<1>(a: *%s, b: *%s, c: *%s, e: *u32) warps=4 {\n", x.a, x.b, x.d)
	fmt.Fprintf(&b, "\tga = ViewGlobal(a) : global %s[%d, %d]\n\tgb = ViewGlobal(b) : global %s[%d, %d]\n\tgc = ViewGlobal(c) : global %s[%d, %d]\n\tge = ViewGlobal(e) : global u32[128, %d]\n", x.a, x.m, kept, x.b, x.n, x.k, x.d, rows, columns, marks)
	fmt.Fprintf(&b, "\tta = AllocateShared() : %s\n\ttb = AllocateShared() : %s\n\ttt = PermuteShared(tb) : %s\n", sa, sb, ir.SharedOf(x.b, tb))
	fmt.Fprintf(&b, "\tfull = AllocateBarrier(count=1) : shared u64[1] shared_row_major(1)\n\tdone = AllocateBarrier(count=1) : shared u64[1] shared_row_major(1)\n")
	fmt.Fprintf(&b, "\tt = Tcgen05Alloc() : tmem u32[128, 256]\n\tw = Tcgen05Slice(t, offset=[0, 0]) : tmem u32[%d, %d]\n\td = Tcgen05View(w) : tmem %s[%d, %d]\n", rows, columns, x.d, rows, columns)
	if x.sparse {
		fmt.Fprintf(&b, "\tmarks = Tcgen05Slice(t, offset=[0, 128]) : tmem u32[128, %d]\n\tx = LoadGlobal(ge, offset=[0, 0]) : register u32[128, %d] spatial(128, 1).local(1, %d)\n", marks, marks, marks)
	}
	fmt.Fprintf(&b, "\tSynchronize()\n\tgroup(0, 1) {\n\t\tArriveExpectTxBarrier(full, 0, bytes=%d)\n\t\tCopyAsyncTensorGlobalToShared(ga, ta, full, 0, offset=[0, 0])\n\t\tCopyAsyncTensorGlobalToShared(gb, tb, full, 0, offset=[0, 0])\n\t}\n", bytes)
	begin := "Tcgen05Mma(ta, tt, d"
	switch {
	case x.sparse:
		b.WriteString("\tTcgen05Store(marks, x)\n\tTcgen05Wait(for=store)\n")
		begin = "Tcgen05MmaSparse(ta, tt, d, marks"
	case x.keep:
		begin += ", keep=b"
	}
	fmt.Fprintf(&b, "\tSynchronize()\n\tgroup(0, 1) {\n\t\tWaitBarrier(full, 0)\n\t\t%s, sum=[0])\n\t\t%s)\n\t\tTcgen05Commit(done, 0)\n\t}\n\tWaitBarrier(done, 0)\n", begin, begin)
	fmt.Fprintf(&b, "\ty = Tcgen05Load(d) : %s\n\tTcgen05Wait(for=load)\n\tStoreGlobal(gc, y, offset=[0, 0])\n\tSynchronize()\n\tTcgen05Dealloc(t)\n}\n", ir.RegisterOf(x.d, held))
	p, err := text.Parse("product.tile", b.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, b.String())
	}
	return p, nil
}

// problem is arguments and what c is afterwards: twice the product, of small integers.
func (x tensorProduct) problem() ([]ir.Arg, *array.Array) {
	r := rand.New(rand.NewPCG(1, uint64(x.m*x.n*x.k)))
	set := func(a *array.Array, k int, v float64) {
		if a.Type.IsFloat() {
			a.SetCode(k, a.Type.Encode(v, false))
		} else {
			a.SetCode(k, a.Type.EncodeInt(int64(v), false))
		}
	}
	number := func(t dtype.Type) float64 {
		if t.Signed() {
			return float64(r.IntN(7) - 3)
		}
		return float64(r.IntN(4))
	}
	kept, marks := x.k, x.k/32
	if x.sparse {
		kept /= 2
	}
	if x.a.Bits() == 32 {
		marks = x.k / 16
	}
	a, b, e := array.New(x.a, x.m, kept), array.New(x.b, x.n, x.k), array.New(dtype.U32, 128, marks)
	dense, full := make([]float64, x.m*x.k), make([]float64, x.n*x.k)
	for i := range full {
		full[i] = number(x.b)
		set(b, i, full[i])
	}
	group := 4
	if x.a == dtype.TF32 {
		group = 2
	}
	for row := range x.m {
		for k := 0; k < x.k; k += group {
			places := []int{0, 1, 2, 3}[:group]
			if x.sparse {
				mark := []uint64{0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110}[r.IntN(6)]
				if group == 2 {
					mark = []uint64{0b0100, 0b1110}[r.IntN(2)]
					places = []int{int(mark >> 3)}
				} else {
					places = []int{int(mark & 3), int(mark >> 2)}
				}
				lane, column, bit := ir.SparseMark(x.a, row, k)
				e.SetCode(lane*marks+column, e.Code(lane*marks+column)|mark<<bit)
			}
			for i, at := range places {
				v := number(x.a)
				dense[row*x.k+k+at] = v
				set(a, row*kept+k*len(places)/group+i, v)
			}
		}
	}
	rows, columns := x.m, x.n
	if x.keep {
		rows, columns = 128, x.n*x.m/128
	}
	want := array.New(x.d, rows, columns)
	for row := range x.m {
		for col := range x.n {
			sum := 0.0
			for k := range x.k {
				sum += dense[row*x.k+k] * full[col*x.k+k]
			}
			set(want, (row+col/columns*x.m)*columns+col%columns, 2*sum)
		}
	}
	return []ir.Arg{{Array: a}, {Array: b}, {Array: array.New(x.d, rows, columns)}, {Array: e}}, want
}

// TestTensorProducts holds interpreter and simulator to what products in tensor memory
// mean, and gives each to the assembler. No hardware has seen them.
func TestTensorProducts(t *testing.T) {
	ptxas := ""
	t.Run("assembler", func(t *testing.T) { ptxas = need.Ptxas(t) })
	for _, x := range tensorProducts() {
		p, err := x.program()
		if err != nil {
			t.Errorf("%s: %v", x, err)
			continue
		}
		args, want := x.problem()
		for _, name := range []string{"interp", "sim:sm_100a"} {
			d, err := device.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			res, err := d.Run(context.Background(), p, args)
			if err != nil {
				t.Errorf("%s: %s: %v\n%s", x, name, err, p.Source)
			} else if r := array.Compare(res.Args[2].Array, want); r.Differ > 0 {
				t.Errorf("%s: %s: %+v", x, name, r)
			}
			d.Close()
		}
		if ptxas != "" {
			assembles(t, "sm_100a", x, p)
		}
	}
}
