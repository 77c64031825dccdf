package differential

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// wgmmaCase is one way to multiply by WgmmaDot.
type wgmmaCase struct {
	a, b, c    dtype.Type
	m, n       int
	registers  bool // a in registers
	turnA      bool // a lies as [K, M]
	turnB      bool // b lies as [K, N], else [N, K]
	warpgroups int
	k          int // bytes
}

func (w wgmmaCase) String() string {
	return fmt.Sprintf("%s·%s→%s %d×%d×%dB registers=%v turned=%v,%v warpgroups=%d", w.a, w.b, w.c, w.m, w.n, w.k, w.registers, w.turnA, w.turnB, w.warpgroups)
}

// wgmmaCases are all types, both majors of both operands, operands in registers, and
// all widths; swizzles follow from the sizes.
func wgmmaCases() []wgmmaCase {
	const f16, bf16, tf32, f32, i32 = dtype.F16, dtype.BF16, dtype.TF32, dtype.F32, dtype.I32
	var all []wgmmaCase
	types := [][3]dtype.Type{{f16, f16, f32}, {f16, f16, f16}, {bf16, bf16, f32}, {tf32, tf32, f32},
		{dtype.F8E4M3, dtype.F8E5M2, f32}, {dtype.F8E5M2, dtype.F8E4M3, f16}, {dtype.I8, dtype.U8, i32}, {dtype.U8, dtype.I8, i32}}
	for _, t := range types {
		for _, regs := range []bool{false, true} {
			all = append(all, wgmmaCase{a: t[0], b: t[1], c: t[2], m: 64, n: 64, registers: regs, warpgroups: 1, k: 64})
		}
	}
	for i := range 32 {
		all = append(all, wgmmaCase{a: f16, b: f16, c: f32, m: 64, n: 8 + 8*i, warpgroups: 1, k: []int{32, 64, 128, 256}[i%4]})
	}
	for i := range 8 {
		all = append(all, wgmmaCase{a: bf16, b: bf16, c: f32, m: 128, n: 64, registers: i&4 != 0, turnA: i&1 != 0 && i&4 == 0, turnB: i&2 != 0, warpgroups: 1 + i&1, k: 128})
	}
	return append(all, wgmmaCase{a: f16, b: f16, c: f32, m: 64, n: 320, turnB: true, warpgroups: 1, k: 64}, wgmmaCase{a: f16, b: f16, c: f32, m: 256, n: 32, warpgroups: 2, k: 64, turnA: true})
}

// wgmmaProgram multiplies one tile.
func wgmmaProgram(w wgmmaCase) (*ir.Program, error) {
	k := w.k * 8 / w.a.Bits()
	wide := min(w.n, 256)
	for w.n%wide != 0 {
		wide -= 8
	}
	form := ir.WgmmaForm{N: wide}
	sums := ir.RegisterOf(w.c, layout.Spatial(w.warpgroups, 1).Local(w.m/64/w.warpgroups, w.n/wide).Mul(form.C()))
	tile := func(t dtype.Type, rows, columns int) (layout.Shared, ir.Type, error) {
		l, err := layout.SharedRowMajorSwizzle(t.Bits(), rows, columns)
		return l, ir.SharedOf(t, l), err
	}
	src, bytes := "", 0
	operand := func(name string, t dtype.Type, mn int, turned, first bool) error {
		rows, columns := mn, k
		if turned {
			rows, columns = k, mn
		}
		l, typ, err := tile(t, rows, columns)
		if err != nil {
			return err
		}
		bytes += rows * columns * t.Bits() / 8
		src += fmt.Sprintf("\tg%s = ViewGlobal(%s) : global %s[%d, %d]\n\tt%s = AllocateShared() : %s\n", name, name, t, rows, columns, name, typ)
		if turned == first { // a is wanted as [M, K], b as [K, N]
			p, err := l.Transpose(0, 1)
			if err != nil {
				return err
			}
			src += fmt.Sprintf("\ts%s = PermuteShared(t%s) : %s\n", name, name, ir.SharedOf(t, p))
		} else {
			src += fmt.Sprintf("\ts%s = ReshapeShared(t%s) : %s\n", name, name, typ)
		}
		return nil
	}
	left := "sa"
	if w.registers {
		left = "ra"
		atom := form.A(w.a)
		l := layout.Spatial(w.warpgroups, 1).Local(w.m/64/w.warpgroups, k/atom.Shape()[1]).Mul(atom)
		src += fmt.Sprintf("\tga = ViewGlobal(a) : global %s[%d, %d]\n\tra = LoadGlobal(ga, offset=[0, 0]) : %s\n", w.a, w.m, k, ir.RegisterOf(w.a, l))
	} else if err := operand("a", w.a, w.m, w.turnA, true); err != nil {
		return nil, err
	}
	if err := operand("b", w.b, w.n, w.turnB, false); err != nil {
		return nil, err
	}
	copies := fmt.Sprintf("\t\tArriveExpectTxBarrier(full, 0, bytes=%d)\n", bytes)
	if !w.registers {
		copies += "\t\tCopyAsyncTensorGlobalToShared(ga, ta, full, 0, offset=[0, 0])\n"
	}
	copies += "\t\tCopyAsyncTensorGlobalToShared(gb, tb, full, 0, offset=[0, 0])\n"
	src = fmt.Sprintf("program wgmma<1>(a: *%s, b: *%s, c: *%s) warps=%d {\n%s\tgc = ViewGlobal(c) : global %s[%d, %d]\n", w.a, w.b, w.c, 4*w.warpgroups, src, w.c, w.m, w.n) +
		"\tfull = AllocateBarrier(count=1) : shared u64[1] shared_row_major(1)\n\tacc = AllocateRegister(init=1) : " + sums.String() + "\n\tSynchronize()\n\tgroup(0, 1) {\n" + copies + "\t}\n" +
		"\tWaitBarrier(full, 0)\n\tWgmmaFence()\n\tacc = WgmmaDot(" + left + ", sb, acc) : " + sums.String() + "\n\tWgmmaCommitGroup()\n\tWgmmaWaitGroup(n=0)\n\tStoreGlobal(gc, acc, offset=[0, 0])\n}\n"
	return text.Parse("wgmma.tile", src, nil)
}

func wgmmaArgs(t *testing.T, w wgmmaCase) []ir.Arg {
	k := w.k * 8 / w.a.Bits()
	gen := func(e dtype.Type, mn int, turned bool, seed int) ir.Arg {
		shape := fmt.Sprintf("%d, %d", mn, k)
		if turned {
			shape = fmt.Sprintf("%d, %d", k, mn)
		}
		lo := -2
		if !e.Signed() {
			lo = 0
		}
		a, err := array.Generate(fmt.Sprintf("randint:%s[%s]:seed=%d:lo=%d:hi=2", e, shape, seed, lo))
		if err != nil {
			t.Fatal(err)
		}
		return ir.Arg{Array: a}
	}
	return []ir.Arg{gen(w.a, w.m, w.turnA, 1), gen(w.b, w.n, w.turnB, 2), {Array: array.New(w.c, w.m, w.n)}}
}

// TestProductsOfWarpgroups holds the simulator, and a Hopper GPU where there is one, to
// the interpreter, and that to a float64 loop.
func TestProductsOfWarpgroups(t *testing.T) {
	machines := []string{"interp", "sim:sm_90a"}
	if d, err := device.Open("cuda"); err == nil {
		if d.Describe().Arch == "sm_90a" {
			machines = append(machines, "cuda")
		}
		d.Close()
	} else if !errors.Is(err, device.ErrNoGPU) {
		t.Fatal(err)
	}
	for _, name := range machines {
		d, err := device.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range wgmmaCases() {
			p, err := wgmmaProgram(w)
			if err != nil {
				t.Errorf("%v: %v", w, err)
				continue
			}
			args := wgmmaArgs(t, w)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			res, err := d.Run(ctx, p, args)
			cancel()
			if err != nil {
				t.Errorf("%s, %v: %v", name, w, err)
				continue
			}
			if r := array.Compare(res.Args[2].Array, wgmmaWant(w, args)); r.Differ > 0 {
				t.Errorf("%s, %v: %+v", name, w, r)
			}
		}
		d.Close()
	}
}

func wgmmaWant(w wgmmaCase, args []ir.Arg) *array.Array {
	k := w.k * 8 / w.a.Bits()
	a, b, out := args[0].Array, args[1].Array, array.New(w.c, w.m, w.n)
	at := func(x *array.Array, mn, e int, turned bool) float64 {
		if turned {
			return x.At(e, mn)
		}
		return x.At(mn, e)
	}
	for i := range w.m {
		for j := range w.n {
			sum := 1.0
			for e := range k {
				sum += at(a, i, e, w.turnA) * at(b, j, e, w.turnB)
			}
			out.Set(sum, i, j)
		}
	}
	return out
}
