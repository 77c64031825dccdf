package ptx

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func at(line int) diag.Pos { return diag.Pos{File: "t.tile", Line: line, Col: 1} }

// axpy is y[i] = a·x[i] + y[i] with a guard, a loop over a grid stride and a
// branch.
func axpy() (*code.Func, error) {
	b := code.NewBuilder("axpy").At(at(1))
	x := b.Param(code.Param{Name: "x", Kind: code.Pointer, Type: code.B64, Elem: "f32", ReadOnly: true})
	y := b.Pointer("y", "f32")
	a, n := b.Scalar("a", code.B32, "f32"), b.Scalar("n", code.B32, "i32")
	b.Func().Launch = code.Launch{Grid: []affine.Expr{affine.Var("n").CeilDiv(affine.Const(256))}, Block: 128, MaxReg: 64, MinBlocks: 2}
	i := b.Mad32(b.CtaidX(), b.Const32(256), b.TidX())
	b.At(at(2)).For(i, n, b.Const32(128), 1, nil, func(i code.Value, _ []code.Value) []code.Value {
		off := b.At(at(3)).MulWideU(i, b.Const32(4))
		ok := b.SetpS32(code.LT, i, n)
		v := b.Guarded(ok, code.OpLdGlobalB32, []int64{0, int64(code.NC | code.NoAllocate | code.L2Prefetch128)}, []code.Value{b.Add64(x, off)}, b.Const32(0))
		py := b.Add64(y, off)
		b.At(at(4)).If(b.SetpF32(code.NE, v[0], b.Const32(0)), func() []code.Value {
			w := b.LdGlobal(4, py, 0, 0)
			b.StGlobal(4, py, 0, 0, b.Emit1(code.OpFmaF32, nil, a, v[0], w))
			return nil
		}, nil)
		return nil
	})
	return b.Done()
}

// mmaLoop is a tile product whose sums are carried around a loop, with operands
// loaded one turn ahead.
func mmaLoop() (*code.Func, error) {
	b := code.NewBuilder("mma").At(at(1))
	pa, pb, pd := b.Pointer("a", "f16"), b.Pointer("b", "f16"), b.Pointer("d", "f32")
	n := b.Scalar("n", code.B32, "i32")
	b.Func().Launch.Block = 32
	lane := b.LaneID()
	qa, qb := b.Add64(pa, b.MulWideU(lane, b.Const32(16))), b.Add64(pb, b.MulWideU(lane, b.Const32(8)))
	zero := b.Const32(0)
	init := []code.Value{zero, zero, zero, zero, qa, qb}
	init = append(init, b.LdGlobalV(4, qa, 0, 0)...)
	init = append(init, b.LdGlobalV(2, qb, 0, 0)...)
	out := b.At(at(2)).For(b.Const32(0), n, b.Const32(1), 1, init, func(_ code.Value, c []code.Value) []code.Value {
		qa, qb := b.At(at(3)).Add64(c[4], b.Const64(512)), b.Add64(c[5], b.Const64(256))
		acc := b.At(at(4)).Mma(code.OpMmaF16F32, c[6:10], c[10:12], c[:4])
		acc = b.At(at(5)).Mma(code.OpMmaF16F32, c[6:10], c[10:12], acc)
		next := append(append([]code.Value(nil), acc...), qa, qb)
		next = append(next, b.LdGlobalV(4, qa, 0, 0)...)
		return append(next, b.LdGlobalV(2, qb, 0, 0)...)
	})
	b.At(at(6)).StGlobalV(b.Add64(pd, b.MulWideU(lane, b.Const32(16))), 0, 0, out[:4]...)
	return b.Done()
}

// shared exchanges words through shared memory; the carried pair changes places,
// which needs copies.
func shared() (*code.Func, error) {
	b := code.NewBuilder("shared").At(at(1))
	y := b.Pointer("y", "u32")
	b.Func().Launch = code.Launch{Block: 64, SharedBytes: 512}
	i := b.TidX()
	slot := b.Mad32(i, b.Const32(4), b.SharedBase())
	b.StShared(4, slot, 256, i)
	b.BarSync()
	r := b.At(at(2)).While([]code.Value{b.LdShared(4, slot, 256), i}, func(c []code.Value) code.Value {
		return b.SetpU32(code.LT, c[0], b.Const32(1000))
	}, func(c []code.Value) []code.Value {
		r := b.If(b.SetpU32(code.EQ, c[0], c[1]), func() []code.Value {
			return []code.Value{b.Add32(c[0], b.Const32(7)), c[1]}
		}, func() []code.Value {
			return []code.Value{c[1], b.Add32(c[0], b.Const32(1))}
		})
		return []code.Value{r[0], r[1]}
	})
	b.At(at(3)).StGlobal(4, b.Add64(y, b.MulWideU(i, b.Const32(4))), 0, 0, r[0])
	return b.Done()
}

var samples = map[string]func() (*code.Func, error){"axpy": axpy, "mma": mmaLoop, "shared": shared}

func TestGolden(t *testing.T) {
	for name, build := range samples {
		f, err := build()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := Print(f, Options{Arch: "sm_80"})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name+".txtar")
		got := txtar.Format(&txtar.Archive{Files: []txtar.File{{Name: "code", Data: []byte(code.Format(f))}, {Name: "ptx", Data: []byte(text)}}})
		if *update {
			if err := os.MkdirAll("testdata", 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, got, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from %s (rewrite it with -update):\n%s", name, path, got)
		}
	}
}

// TestNoMovesInMmaLoop holds that a loop of matrix instructions copies nothing.
func TestNoMovesInMmaLoop(t *testing.T) {
	f, err := mmaLoop()
	if err != nil {
		t.Fatal(err)
	}
	text, err := Print(f, Options{Arch: "sm_90a"})
	if err != nil {
		t.Fatal(err)
	}
	_, body, ok := strings.Cut(text, "nounroll")
	body, _, ok2 := strings.Cut(body, "bra")
	if !ok || !ok2 || strings.Count(body, "mma.sync") != 2 {
		t.Fatalf("no loop in\n%s", text)
	}
	if strings.Contains(body, "mov") {
		t.Errorf("copies in the loop:\n%s", body)
	}
}

func TestPrintErrors(t *testing.T) {
	f, err := axpy()
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"", "sm_70", "sm_120", "gfx942"} {
		if _, err := Print(f, Options{Arch: arch}); err == nil {
			t.Errorf("no error for architecture %q", arch)
		}
	}
}

func TestCluster(t *testing.T) {
	f, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	f.Launch.Cluster = [3]int{2, 1, 1}
	if _, err := Print(f, Options{Arch: "sm_89"}); err == nil || !strings.Contains(err.Error(), "clusters need sm_90") {
		t.Error(err)
	}
	text, err := Print(f, Options{Arch: "sm_90a", NoPos: true})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "//") {
		t.Errorf("comments although none were asked for:\n%s", text)
	}
	assemble(t, "cluster", "sm_90a", text)
}

// assemble runs ptxas over one text.
func assemble(t *testing.T, name, arch, text string) {
	t.Helper()
	if _, err := need.Assemble(t, arch, text); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

var archs = []string{"sm_80", "sm_89", "sm_90a"}

func TestSamplesAssemble(t *testing.T) {
	for name, build := range samples {
		f, err := build()
		if err != nil {
			t.Fatal(err)
		}
		for _, arch := range archs {
			text, err := Print(f, Options{Arch: arch})
			if err != nil {
				t.Fatal(err)
			}
			assemble(t, name, arch, text)
		}
	}
}

// rowFuncs gives, for one row, a function with the row on registers, and one
// for each input that may be a constant; memory rows also come guarded and with
// each attribute.
func rowFuncs(op code.Op, name string) []*code.Func {
	row := op.Row()
	var out []*code.Func
	make1 := func(constant int, constBits uint64, guard bool, attr code.Attr, cmp code.Cmp) {
		b := code.NewBuilder(fmt.Sprintf("%s_%d", name, len(out))).At(at(1))
		p := b.Pointer("p", "u8")
		b.Func().Launch = code.Launch{Block: 32}
		byType := map[code.Type]code.Value{}
		value := func(t code.Type, k int) code.Value {
			var v code.Value
			switch t {
			case code.Pred:
				v = b.SetpU32(code.NE, b.LdGlobal(4, p, 64*k, 0), b.Const32(0))
			case code.B16:
				v = b.LdGlobal(2, p, 64*k, 0)
			case code.B32:
				v = b.LdGlobal(4, p, 64*k, 0)
			default:
				v = b.LdGlobal(8, p, 64*k, 0)
			}
			byType[t] = v
			return v
		}
		in := &code.Instr{Op: op}
		for k, t := range row.In {
			if k == constant {
				in.In = append(in.In, b.Const(t, constBits))
			} else {
				in.In = append(in.In, value(t, k))
			}
		}
		for _, k := range row.Imm {
			v := int64(1)
			switch k {
			case code.ImmAttr:
				v = int64(attr)
			case code.ImmCmp:
				v = int64(cmp)
			case code.ImmOffset:
				v = -16
			case code.ImmThreads:
				v = 64
			case code.ImmSelector:
				v = int64(row.Selectors) - 1
			case code.ImmRegisters:
				v = 40
			case code.ImmBits:
				v = int64(constBits & row.Out[0].Mask())
			}
			in.Imm = append(in.Imm, v)
		}
		if guard {
			in.Guard = value(code.Pred, 50)
			for k, t := range row.Out {
				in.In = append(in.In, value(t, 51+k))
			}
		}
		for _, t := range row.Out {
			in.Out = append(in.Out, b.Func().NewValue(t))
		}
		b.Add(in)
		for k, v := range in.Out {
			switch b.Func().Type(v) {
			case code.Pred:
				b.StGlobal(4, p, 4096+16*k, 0, b.Select(v, b.Const32(1), b.Const32(0)))
			case code.B16:
				b.StGlobal(2, p, 4096+16*k, 0, v)
			case code.B32:
				b.StGlobal(4, p, 4096+16*k, 0, v)
			default:
				b.StGlobal(8, p, 4096+16*k, 0, v)
			}
		}
		f, err := b.Done()
		if err != nil {
			panic(fmt.Sprintf("%s: %v", name, err))
		}
		out = append(out, f)
	}
	make1(-1, 5, false, 0, code.EQ)
	for k, ok := range row.ConstInputs() {
		if ok {
			all := []uint64{3, ^uint64(9), 0x8000000180000001}
			switch {
			case strings.Contains(row.Name, ".parity"):
				all = []uint64{0, 1}
			case strings.Contains(row.Name, "alloc"):
				all = []uint64{32}
			case row.Class == code.Proxy || row.Addr != nil: // numbers of bytes and arrivals
				all = []uint64{16}
			}
			for _, bits := range all {
				make1(k, bits, false, 0, code.LT)
			}
		}
	}
	for _, k := range row.Imm {
		switch k {
		case code.ImmBits:
			make1(-1, ^uint64(9), false, 0, 0)
		case code.ImmCmp:
			for c := code.EQ; c <= code.GE; c++ {
				make1(-1, 5, false, 0, c)
			}
		case code.ImmAttr:
			attrs := []code.Attr{code.NoAllocate, code.EvictFirst, code.EvictLast}
			switch row.Class {
			case code.Async:
				attrs = []code.Attr{code.L2Prefetch64, code.L2Prefetch128, code.L2Prefetch256}
			case code.Load:
				attrs = append(attrs, code.NC, code.NC|code.NoAllocate|code.L2Prefetch256, code.NC|code.EvictFirst|code.L2Prefetch128, code.L2Prefetch64)
			}
			for _, a := range attrs {
				make1(-1, 5, false, a, 0)
			}
		}
	}
	if row.Memory() && !row.Collective || row.Class == code.Async {
		make1(-1, 5, true, 0, 0)
	}
	return out
}

// TestEveryRowAssembles gives every row in every form to the real assembler.
func TestEveryRowAssembles(t *testing.T) {
	for _, arch := range archs {
		if testing.Short() && arch != "sm_80" {
			continue
		}
		level, err := Level(arch)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		forms, version := 0, Version
		for _, op := range code.Rows() {
			row := op.Row()
			if row.Class == code.Control || row.Since > level {
				continue
			}
			for _, f := range rowFuncs(op, "f_"+strings.NewReplacer(".", "_").Replace(row.Name)) {
				text, err := Print(f, Options{Arch: arch})
				if err != nil {
					t.Fatal(err)
				}
				version = max(version, op.Row().ISA)
				// One module for all: only the first keeps its header.
				if _, body, ok := strings.Cut(text, ".visible"); ok && forms > 0 {
					text = ".visible" + body
				}
				all.WriteString(text)
				forms++
			}
		}
		text := strings.Replace(all.String(), ".version "+Version, ".version "+version, 1)
		text = strings.Replace(text, ".address_size 64\n", ".address_size 64\n.extern .shared .align 1024 .b8 shared_memory[];\n", 1)
		t.Logf("%s: %d forms", arch, forms)
		assemble(t, "rows", arch, text)
	}
}

// TestStoresOfParts holds the rows that store less than a register, one byte of four, to a register without a type:
// where arithmetic of floats wrote the one that a store names, ptxas stores the number as an integer of that size.
func TestStoresOfParts(t *testing.T) {
	count := 0
	for _, op := range code.Rows() {
		row := op.Row()
		if row.Class != code.Store || row.In[len(row.In)-1].Bits() <= 8*row.Unit {
			continue
		}
		count++
		if !regexp.MustCompile(`mov\.b32 (\w+), \{a1\}; .*, (\w+); \}$`).MatchString(row.PTX) {
			t.Errorf("%s stores %d bytes of %s that may have a type: %s", row.Name, row.Unit, row.In[1], row.PTX)
		}
	}
	if count < 2 {
		t.Errorf("%d rows", count)
	}
}
