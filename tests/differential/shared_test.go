package differential

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func log2(n int) (k int) {
	for n > 1 {
		n, k = n/2, k+1
	}
	return k
}

// anyLayout gives the bits of the index to threads and slots at random; now and
// then they lie as a matrix instruction wants them.
func anyLayout(r *rand.Rand, warps, rows, columns int) layout.Layout {
	atoms := []layout.Layout{
		layout.ColumnLocal(2, 2).Spatial(8, 4).Local(1, 2), layout.Local(2, 1).ColumnSpatial(4, 8).Local(2, 1),
		layout.Local(2, 1).Spatial(8, 4).Local(1, 2), layout.Spatial(8, 4).Local(1, 4), layout.Spatial(8, 4), layout.ColumnSpatial(4, 8),
	}
	if atom := atoms[r.IntN(len(atoms))]; r.IntN(2) == 0 && rows%atom.Shape()[0] == 0 && columns%atom.Shape()[1] == 0 {
		if outer, err := layout.AutoLocalSpatial(warps, rows/atom.Shape()[0], columns/atom.Shape()[1]); err == nil {
			return outer.Mul(atom)
		}
	}
	n := []int{log2(rows), log2(columns)}
	order := r.Perm(n[0] + n[1])
	threads := log2(32 * warps)
	var modes []int
	for range order {
		modes = append(modes, 2)
	}
	spatial := slices.Clone(order[:min(threads, len(order))])
	if more := threads - len(order); more > 0 {
		spatial = append(spatial, -(1 << more))
	}
	local := order[min(threads, len(order)):]
	if r.IntN(2) == 0 { // contiguous slots
		slices.Sort(local)
	}
	if r.IntN(2) == 0 {
		slices.Sort(spatial)
	}
	l, err := layout.New([]int{rows, columns}, modes, spatial, local)
	if err != nil {
		panic(err)
	}
	return l
}

// anyShared is a layout of shared memory of that shape.
func anyShared(r *rand.Rand, bits int, shape ...int) layout.Shared {
	rows, columns := shape[len(shape)-2], shape[len(shape)-1]
	switch r.IntN(6) {
	case 0:
		return layout.SharedColumnMajor(shape...)
	case 1:
		pad := []int{1, 2, 8, 16 * 8 / bits}[r.IntN(4)]
		l, err := layout.NewShared(shape, shape, []int{rows * (columns + pad), columns + pad, 1}, layout.Swizzle{})
		if err != nil {
			panic(err)
		}
		return l
	case 2, 3:
		if l, err := layout.SharedRowMajorSwizzle(bits, shape...); err == nil {
			return l
		}
	case 4: // panels, and any swizzle inside
		if columns >= 16 {
			panel := columns / 2
			w := layout.Swizzle{}
			if r.IntN(2) == 0 {
				w = layout.Swizzle{Bits: 1 + r.IntN(2), Base: r.IntN(4), Shift: 2 + r.IntN(3)}
				if r.IntN(4) == 0 {
					w.Shift = -w.Shift
				}
			}
			l, err := layout.NewShared(shape, []int{shape[0], rows, 2, panel}, []int{rows * columns, panel, rows * panel, 1}, w)
			if err != nil {
				panic(err)
			}
			return l
		}
	}
	return layout.SharedRowMajor(shape...)
}

// sharedProgram stores a tile to shared memory, or copies it there, and loads one of
// another layout from there, through views or not.
func sharedProgram(r *rand.Rand) string {
	warps := 1 << r.IntN(3)
	elem := []dtype.Type{dtype.F16, dtype.BF16, dtype.U8, dtype.F32, dtype.F8E4M3, dtype.F16, dtype.F64, dtype.F16, dtype.I16, dtype.F16, dtype.U4, dtype.I6}[r.IntN(12)]
	rows, columns := 8<<r.IntN(4), 8<<r.IntN(4)
	stages, moreRows, moreColumns := 1+r.IntN(3), 1+r.IntN(2), 1+r.IntN(2)
	whole := []int{stages, rows * moreRows, columns * moreColumns}
	s := anyShared(r, max(elem.Bits()&-elem.Bits(), 1), whole...)
	offset := func(room, tile int) string { // an offset of up to room elements; p is 1
		var list []string
		for _, step := range []int{1, 2, 8, 16, tile} {
			if step <= room {
				list = append(list, fmt.Sprintf("p*%d", step), fmt.Sprint(step), fmt.Sprintf("p %% 2*%d", step), fmt.Sprintf("k*%d", step))
			}
			if 2*step <= room {
				list = append(list, fmt.Sprintf("p*%d + %d", step, step))
			}
		}
		for range len(list) + 1 {
			list = append(list, "0", "p - 1")
		}
		return list[r.IntN(len(list))]
	}
	at := []string{offset(stages-1, 1), offset(rows*(moreRows-1), rows), offset(columns*(moreColumns-1), columns)}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "\t\t"+format+"\n", args...) }
	reg := func(l layout.Layout) ir.Type { return ir.RegisterOf(elem, l) }
	fmt.Fprintf(&b, "program any<1>(a: *%s, c: *%s, p: i32, N: i32) warps=%d {\n", elem, elem, warps)
	fmt.Fprintf(&b, "\tga = ViewGlobal(a) : global %s[%d, N]\n\tgc = ViewGlobal(c) : global %s[2, %d, %d]\n\tfor k in 1..2 {\n", elem, rows+3, elem, rows, columns)
	line("s = AllocateShared() : %s", ir.SharedOf(elem, s))
	place, in := "s", fmt.Sprintf("offset=[%s]", strings.Join(at, ", "))
	if v, err := ir.PartOfShared(s, []int{1, 2}, []int{rows, columns}); err == nil && r.IntN(2) == 0 {
		line("part = SliceShared(s, %s) : %s", in, ir.SharedOf(elem, v))
		place, in = "part", "offset=[0, 0]"
		if r.IntN(3) == 0 {
			line("CopyAsync(ga, part, offset=[k + 1, 0])")
			line("CopyAsyncCommitGroup()")
			line("CopyAsyncWaitGroup(n=0)")
			line("Synchronize()")
			in = "copied"
		}
	}
	if in == "copied" {
		in = "offset=[0, 0]"
	} else {
		line("x = LoadGlobal(ga, offset=[2, 0]) : %s", reg(anyLayout(r, warps, rows, columns)))
		line("StoreShared(%s, x, %s)", place, in)
		line("Synchronize()")
	}
	line("y = LoadShared(%s, %s) : %s", place, in, reg(anyLayout(r, warps, rows, columns)))
	line("StoreGlobal(gc, y, offset=[0, 0, 0])")
	if place == "s" {
		line("z = LoadShared(s, %s, dims=[2, 1]) : %s", in, reg(anyLayout(r, warps, columns, rows)))
	} else {
		v, err := ir.PartOfShared(s, []int{1, 2}, []int{rows, columns})
		if err == nil {
			v, err = v.Permute(1, 0)
		}
		if err != nil {
			panic(err)
		}
		line("turned = PermuteShared(part) : %s", ir.SharedOf(elem, v))
		line("z = LoadShared(turned) : %s", reg(anyLayout(r, warps, columns, rows)))
	}
	line("StoreGlobal(gc, z, offset=[1, 0, 0], dims=[2, 1])")
	b.WriteString("\t}\n}\n")
	return b.String()
}

// refused reports that lowering may refuse the program.
func refused(err error) bool {
	var list diag.List
	return errors.As(err, &list) && slices.Contains([]string{"Lower.E7", "Lower.E8", "Lower.E9"}, list[0].Code)
}

// TestAnySharedAccess runs random programs on shared memory on interpreter and
// simulator.
func TestAnySharedAccess(t *testing.T) {
	n := 250
	if testing.Short() {
		n = 60
	}
	ref := open(t, "interp")
	ran, no, used := 0, 0, map[string]int{}
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		src := sharedProgram(r)
		p, err := text.Parse(fmt.Sprintf("seed %d", seed), src, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, src)
		}
		ga := p.Body.Stmts[0].(*ir.Instr).Out[0].Type
		rows, _ := ir.ConstInt(ga.Shape[0])
		columns := []int{5, 16, 64, 128}[r.IntN(4)]
		l := Launch{Name: fmt.Sprint("seed ", seed), Program: p}
		a, err := array.Generate(fmt.Sprintf("randcode:%s[%d, %d]:seed=%d", ga.Elem, rows, columns, seed))
		if err != nil {
			t.Fatal(err)
		}
		out, _ := p.Body.Stmts[1].(*ir.Instr).Out[0].Type.Dims()
		l.Args = []ir.Arg{{Array: a}, {Array: array.New(ga.Elem, out...)}, {Int: 1}, {Int: int64(columns)}}
		want, err := ref.Run(context.Background(), p, l.Args)
		if err != nil { // a slice that goes round a panel
			if _, no := simulate(l, compile.Options{}); !strings.Contains(err.Error(), "Run.E10") || no == nil {
				t.Fatalf("%v\nsimulator: %v\n%s", err, no, src)
			}
			continue
		}
		for _, o := range []compile.Options{{Arch: "sm_80"}, {Arch: "sm_90a", NoOpt: true}, {Arch: "sm_90a", Divisible: compile.Divisors(p, l.Args)}} {
			c, err := compile.Program(p, o)
			if refused(err) {
				no++
				continue
			}
			if err == nil {
				seen := map[string]bool{}
				c.Func.Body.Walk(func(in *code.Instr) {
					if name := in.Op.String(); in.Row().Space == code.Shared {
						seen[strings.Split(name, ".")[0]] = true
					}
				})
				for name := range seen {
					used[name]++
				}
			}
			ran++
			got, err := simulate(l, o)
			if err != nil {
				t.Fatalf("%+v: %v\n%s", o, err, src)
			}
			if same(t, l, fmt.Sprint(o), got, want.Args); t.Failed() {
				t.Fatalf("%s", src)
			}
		}
	}
	t.Logf("%d compilations ran, %d were refused; they use %v", ran, no, used)
	if no*3 > ran || !testing.Short() && (used["ldmatrix"] == 0 || used["stmatrix"] == 0 || used["cp"] == 0) {
		t.Error("too much is refused, or not used")
	}
}

// TestSharedProducts holds the products through shared memory to a plain loop, as
// they are written and with all layouts left out, which are then found: swizzled
// tiles, loaded by ldmatrix.
func TestSharedProducts(t *testing.T) {
	const m, n, k = 80, 72, 40
	generate := func(spec string) *array.Array {
		a, err := array.Generate(spec)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a, b := generate("randint:f16[80, 40]:seed=1"), generate("randint:f16[40, 72]:seed=2")
	want := array.New(dtype.F16, m, n)
	for i := range m {
		for j := range n {
			sum := 0.0
			for x := range k {
				sum += a.At(i, x) * b.At(x, j)
			}
			want.Set(sum, i, j)
		}
	}
	for _, name := range []string{"matmul_shared", "matmul_swizzled", "matmul_pipelined"} {
		written, err := text.Parse(name, corpus.Program(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		bare := ir.Clone(written)
		bare.Body.Walk(func(s ir.Stmt) bool {
			if in, ok := s.(*ir.Instr); ok {
				for _, v := range in.Out {
					v.Type.HasLayout = false
				}
			}
			return true
		})
		found, err := compile.Parse(name, text.Format(bare), nil)
		if err != nil {
			t.Fatal(err)
		}
		for what, p := range map[string]*ir.Program{"written": written, "found": found} {
			args := []ir.Arg{{Array: a}, {Array: b}, {Array: array.New(dtype.F16, m, n)}, {Int: m}, {Int: n}, {Int: k}}
			for _, d := range []string{"interp", "sim"} {
				res, err := open(t, d).Run(context.Background(), p, args)
				if err != nil {
					t.Fatalf("%s, %s: %v", name, what, err)
				}
				if c := array.Compare(res.Args[2].Array, want); !c.Equal() {
					t.Errorf("%s, %s, %s: %v", name, what, d, c)
				}
				if conflicts := res.Counters["shared_bank_conflicts"]; name != "matmul_shared" && conflicts != 0 {
					t.Errorf("%s, %s, %s: %d bank conflicts", name, what, d, conflicts)
				}
			}
			c, err := compile.Program(p, compile.Options{Divisible: compile.Divisors(p, args)})
			if err != nil {
				t.Fatal(err)
			}
			loads := 0
			c.Func.Body.Walk(func(in *code.Instr) {
				if strings.HasPrefix(in.Op.String(), "ldmatrix.m8n8.x4") {
					loads++
				}
			})
			if loads < 8 {
				t.Errorf("%s, %s: %d ldmatrix.x4\n%s", name, what, loads, text.Format(p))
			}
		}
	}
}
