package opt

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/ptx"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

func at(line int) diag.Pos { return diag.Pos{File: "t.tile", Line: line, Col: 1} }

// drawer writes a random function that reads and writes its own part of a
// buffer. It adds instructions without the builder's folding, so that the passes
// find something to do.
type drawer struct {
	r      *rand.Rand
	b      *code.Builder
	scope  []code.Value
	mem    code.Value   // address of the thread's 256 bytes
	p      code.Value   // the buffer
	first  code.Value   // index in it of the thread's first word
	guard  code.Value   // one that does not change
	loops  []code.Value // variables of the loops around, each below 7
	budget int
	line   int
}

const perThread = 256

func draw(seed int64) *code.Func {
	d := &drawer{r: rand.New(rand.NewSource(seed)), b: code.NewBuilder("random").At(at(1)), budget: 60, line: 1}
	p := d.b.Pointer("p", "u8")
	s := d.b.Scalar("s", code.B32, "i32")
	d.b.Func().Launch.Block = 64
	t := d.b.TidX()
	thread := d.b.Mad32(d.b.CtaidX(), d.b.Const32(64), t)
	d.mem = d.b.Add64(p, d.b.MulWideU(thread, d.b.Const32(perThread)))
	d.p, d.first = p, d.raw(code.OpMul32, nil, thread, d.b.Const32(perThread/4))
	d.scope = []code.Value{s, t, d.b.LaneID()}
	d.body(3)
	for k := range 16 {
		v := d.value(code.B32)
		d.b.StGlobal(4, d.mem, 4*k, 0, v)
	}
	f, err := d.b.Done()
	if err != nil {
		panic(err)
	}
	return f
}

// value is one of the type in scope or a constant, small ones more often.
func (d *drawer) value(t code.Type) code.Value {
	if d.r.Intn(4) > 0 {
		for range 8 {
			if v := d.scope[d.r.Intn(len(d.scope))]; d.b.Func().Type(v) == t {
				return v
			}
		}
	}
	c := []uint64{0, 1, 2, 3, 4, 8, 31, 64, 0xffffffff, ^uint64(0), 1 << 31, d.r.Uint64()}[d.r.Intn(12)]
	return d.b.Const(t, c)
}

func (d *drawer) body(depth int) {
	for n := 2 + d.r.Intn(8); n > 0 && d.budget > 0; n-- {
		d.budget--
		d.line++
		d.b.At(at(d.line))
		switch k := d.r.Intn(20); {
		case k < 12:
			d.pure()
		case k < 13: // bytes and halves put together
			c := d.b.Const32(int64(8 * d.r.Intn(4)))
			part := d.raw(code.OpBfeU32, []int64{int64(d.r.Intn(8)), int64(1 + d.r.Intn(24))}, d.value(code.B32))
			d.scope = append(d.scope, d.raw(code.OpOr32, nil, part, d.raw(code.OpShl32, nil, d.value(code.B32), c)))
		case k < 14 && len(d.loops) > 0:
			d.moving()
		case k < 15:
			off := 4 * d.r.Intn(perThread/4)
			addr := d.raw(code.OpAdd64, nil, d.mem, d.b.Const64(int64(off)))
			switch d.r.Intn(4) {
			case 0:
				d.scope = append(d.scope, d.b.LdGlobal(4, addr, 0, 0))
			case 1:
				d.b.StGlobal(4, addr, 0, 0, d.value(code.B32))
			case 2:
				d.scope = append(d.scope, d.b.Guarded(d.value(code.Pred), code.OpLdGlobalB32, []int64{0, 0}, []code.Value{addr}, d.value(code.B32))...)
			case 3:
				d.b.Guarded(d.value(code.Pred), code.OpStGlobalB32, []int64{0, 0}, []code.Value{addr, d.value(code.B32)})
			}
		case k < 17 && depth > 0:
			p := d.value(code.Pred)
			branch := func() []code.Value {
				mark := len(d.scope)
				d.body(depth - 1)
				y := []code.Value{d.value(code.B32), d.value(code.B64)}
				d.scope = d.scope[:mark]
				return y
			}
			d.scope = append(d.scope, d.b.If(p, branch, branch)...)
		case k < 19 && depth > 0:
			end := d.b.Const32(int64(d.r.Intn(8) - 1))
			if d.r.Intn(2) == 0 {
				end = d.raw(code.OpAnd32, nil, d.value(code.B32), d.b.Const32(7))
			}
			start := d.b.Const32(int64(d.r.Intn(3)))
			init := []code.Value{d.value(code.B32), d.value(code.B32)}
			d.scope = append(d.scope, d.b.For(start, end, d.b.Const32(int64(1+d.r.Intn(2))), 1+d.r.Intn(4), init, func(i code.Value, c []code.Value) []code.Value {
				mark := len(d.scope)
				d.scope = append(append(d.scope, i), c...)
				d.loops = append(d.loops, i)
				d.body(depth - 1)
				d.loops = d.loops[:len(d.loops)-1]
				y := []code.Value{d.value(code.B32), d.value(code.B32)}
				d.scope = d.scope[:mark]
				return y
			})...)
		case depth > 0:
			init := []code.Value{d.b.Const32(int64(d.r.Intn(4))), d.value(code.B32)}
			mark := len(d.scope)
			out := d.b.While(init, func(c []code.Value) code.Value {
				d.pure()
				return d.b.SetpS32(code.GT, c[0], d.b.Const32(0))
			}, func(c []code.Value) []code.Value {
				d.scope = append(d.scope, c...)
				d.body(depth - 1)
				return []code.Value{d.b.Sub32(c[0], d.b.Const32(1)), d.value(code.B32)}
			})
			d.scope = append(d.scope[:mark], out...)
		}
	}
}

// moving accesses a word of the thread at an index that loop variables move:
// below 5·6 + 4·6 + 8 words.
func (d *drawer) moving() {
	index, s := d.first, d.b.Func().Body.Args[1] // 5
	if d.r.Intn(2) == 0 {
		index = d.raw(code.OpAdd32, nil, d.b.Const32(int64(d.r.Intn(4))), index)
	}
	for n, i := range d.loops[max(0, len(d.loops)-2):] {
		switch k := d.r.Intn(4); {
		case k == 0 && n == 0:
			i = d.raw(code.OpMul32, nil, i, s)
		case k == 1:
			i = d.raw(code.OpShl32, nil, d.raw(code.OpSub32, nil, i, d.b.Const32(1)), d.b.Const32(1))
			i = d.raw(code.OpAdd32, nil, i, d.b.Const32(2))
		default:
			i = d.raw(code.OpMul32, nil, i, d.b.Const32(int64(d.r.Intn(5))))
		}
		index = d.raw(code.OpAdd32, nil, i, index)
	}
	for range 1 + d.r.Intn(2) {
		addr := d.raw(code.OpMadWideS32, nil, index, d.b.Const32(4), d.p)
		switch d.r.Intn(3) {
		case 0:
			d.scope = append(d.scope, d.b.LdGlobal(4, addr, 0, 0))
		case 1:
			d.b.StGlobal(4, addr, 4, 0, d.value(code.B32))
		case 2:
			d.b.Guarded(d.value(code.Pred), code.OpStGlobalB32, []int64{0, 0}, []code.Value{addr, d.value(code.B32)})
		}
		index = d.raw(code.OpAdd32, nil, index, d.b.Const32(int64(d.r.Intn(4))))
	}
}

// raw adds an instruction without folding.
func (d *drawer) raw(op code.Op, imm []int64, in ...code.Value) code.Value {
	v := d.b.Func().NewValue(op.Row().Out[0])
	d.b.Add(&code.Instr{Op: op, In: in, Imm: imm, Out: []code.Value{v}})
	return v
}

func (d *drawer) pure() {
	for {
		op := code.Rows()[d.r.Intn(len(code.Rows()))]
		row := op.Row()
		if row.Meaning == nil || len(row.In) == 0 {
			continue
		}
		var in []code.Value
		for _, t := range row.In {
			in = append(in, d.value(t))
		}
		if row.NonZero { // an odd divisor
			or, one := code.OpOr32, d.b.Const32(1)
			if row.In[1] == code.B64 {
				or, one = code.OpOr64, d.b.Const64(1)
			}
			in[1] = d.raw(or, nil, in[1], one)
		}
		var imm []int64
		for _, k := range row.Imm {
			imm = append(imm, map[code.ImmKind]int64{code.ImmLut: int64(d.r.Intn(256)), code.ImmBit: int64(d.r.Intn(16)), code.ImmWidth: int64(1 + d.r.Intn(16)), code.ImmCmp: int64(d.r.Intn(6))}[k])
		}
		d.scope = append(d.scope, d.raw(op, imm, in...))
		return
	}
}

func run(t *testing.T, f *code.Func) ([]byte, sim.Stats) {
	t.Helper()
	mem := make([]byte, 2*64*perThread)
	rand.New(rand.NewSource(9)).Read(mem)
	st, err := sim.Run(context.Background(), f, sim.Launch{Grid: [3]int{2}, Args: []sim.Arg{{Buffer: mem}, {Bits: 5}}}, sim.Options{MaxSteps: 1 << 20, Workers: 1})
	if err != nil {
		t.Fatalf("%v\n%s", err, code.Format(f))
	}
	return mem, st
}

// TestPassesKeepMeaning compares the memory after f with that after each pass.
func TestPassesKeepMeaning(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 60
	}
	fewer := 0
	for seed := range int64(n) {
		f := draw(seed)
		before := code.Format(f)
		want, was := run(t, f)
		var now sim.Stats
		_, err := Run(f, func(p Pass, g *code.Func) {
			var got []byte
			if got, now = run(t, g); !bytes.Equal(got, want) {
				t.Fatalf("seed %d: %s changes the result\n%s\n%s", seed, p.Name, before, code.Format(g))
			}
			g.Body.Walk(func(in *code.Instr) {
				if !in.Pos.Known() {
					t.Fatalf("seed %d: %s loses a position", seed, p.Name)
				}
			})
		})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, before)
		}
		if code.Format(f) != before {
			t.Fatalf("seed %d: Run changed its argument", seed)
		}
		if now.Warp[code.Pure] < was.Warp[code.Pure] {
			fewer++
		}
		if now.GlobalStoreBytes != was.GlobalStoreBytes || now.GlobalLoadBytes != was.GlobalLoadBytes {
			t.Fatalf("seed %d: bytes accessed change", seed)
		}
	}
	if fewer < n*9/10 {
		t.Errorf("only %d of %d functions became shorter", fewer, n)
	}
}

// forLoop runs body for i = 0, 1, … below a number that is not known.
func (d *drawer) forLoop(body func(i code.Value)) {
	d.b.For(d.b.Const32(0), d.b.Func().Body.Args[1], d.b.Const32(1), 1, nil, func(i code.Value, _ []code.Value) []code.Value {
		body(i)
		return nil
	})
}

// at is the address of word i + x of the buffer.
func (d *drawer) at(i, x code.Value) code.Value {
	return d.raw(code.OpMadWideS32, nil, d.raw(code.OpAdd32, nil, i, x), d.b.Const32(4), d.b.Func().Body.Args[0])
}

// TestEachPass shows what each pass is for on one small function.
func TestEachPass(t *testing.T) {
	pass := func(name string) Pass {
		for _, p := range Passes() {
			if p.Name == name {
				return p
			}
		}
		t.Fatalf("no pass %s", name)
		return Pass{}
	}
	for _, c := range []struct {
		pass, has, hasNot string
		body              func(d *drawer, x, mem code.Value)
	}{
		{"fold", "shl.b32", "mul.lo", func(d *drawer, x, mem code.Value) {
			d.b.StGlobal(4, mem, 0, 0, d.raw(code.OpMul32, nil, x, d.b.Const32(8)))
		}},
		{"fold", "and.b32", "rem", func(d *drawer, x, mem code.Value) {
			d.b.StGlobal(4, mem, 0, 0, d.raw(code.OpRemU32, nil, x, d.b.Const32(8)))
		}},
		{"fold", "st.global.b32 %1, %2, offset=52", "", func(d *drawer, x, mem code.Value) {
			a := d.raw(code.OpAdd64, nil, d.raw(code.OpAdd64, nil, mem, d.b.Const64(16)), d.b.Const64(32))
			d.b.StGlobal(4, a, 4, 0, x)
		}},
		{"fold", "offset=-8", "", func(d *drawer, x, mem code.Value) {
			d.b.StGlobal(4, d.raw(code.OpSub64, nil, mem, d.b.Const64(8)), 0, 0, x)
		}},
		{"fold", "", "if", func(d *drawer, x, mem code.Value) {
			d.b.If(d.b.ConstPred(true), func() []code.Value { d.b.StGlobal(4, mem, 0, 0, x); return nil }, nil)
		}},
		{"fold", "st.global.b32 %1, %2", "ld.", func(d *drawer, x, mem code.Value) {
			off := d.b.ConstPred(false)
			d.b.Guarded(off, code.OpStGlobalB32, []int64{0, 0}, []code.Value{mem, x})
			d.b.StGlobal(4, mem, 0, 0, d.b.Guarded(off, code.OpLdGlobalB32, []int64{0, 0}, []code.Value{mem}, x)[0])
		}},
		{"fold", "not.pred", "r.pred", func(d *drawer, x, mem code.Value) { // neither or.pred nor xor.pred
			yes, no, p := d.b.ConstPred(true), d.b.ConstPred(false), d.b.SetpS32(code.LT, x, d.b.Const32(9))
			same := d.raw(code.OpOrPred, nil, no, d.raw(code.OpXorPred, nil, d.raw(code.OpAndPred, nil, yes, p), no))
			d.b.Guarded(d.raw(code.OpXorPred, nil, yes, same), code.OpStGlobalB32, []int64{0, 0}, []code.Value{mem, x})
			d.b.Guarded(d.raw(code.OpAndPred, nil, no, p), code.OpStGlobalB32, []int64{8, 0}, []code.Value{mem, x})
		}},
		{"cse", "st.global.v2.b32 %1, %3, %3", "", func(d *drawer, x, mem code.Value) {
			d.b.StGlobalV(mem, 0, 0, d.raw(code.OpXor32, nil, x, x), d.raw(code.OpXor32, nil, x, x))
		}},
		{"bump", "add.b64", "", func(d *drawer, x, mem code.Value) {
			d.forLoop(func(i code.Value) { d.b.StGlobal(4, d.at(d.raw(code.OpShl32, nil, i, d.b.Const32(2)), x), 0, 0, x) })
		}},
		{"bump", "offset=12", "", func(d *drawer, x, mem code.Value) { // two addresses, one pointer
			d.forLoop(func(i code.Value) {
				d.b.StGlobal(4, d.at(i, x), 0, 0, x)
				d.b.StGlobal(4, d.at(d.raw(code.OpAdd32, nil, i, d.b.Const32(3)), x), 0, 0, x)
			})
		}},
		{"dce", "", "xor", func(d *drawer, x, mem code.Value) { d.raw(code.OpXor32, nil, x, x) }},
		{"narrow", "", "and", func(d *drawer, x, mem code.Value) {
			d.b.StGlobal(4, mem, 0, 0, d.raw(code.OpAnd32, nil, d.raw(code.OpBfeU32, []int64{9, 4}, x), d.b.Const32(0x1f)))
		}},
		{"narrow", "prmt", "or.b32", func(d *drawer, x, mem code.Value) {
			lo := d.raw(code.OpShrU32, nil, x, d.b.Const32(24))
			d.b.StGlobal(4, mem, 0, 0, d.raw(code.OpOr32, nil, lo, d.raw(code.OpShl32, nil, x, d.b.Const32(8))))
		}},
		{"narrow", "pack.b16", "or.b32", func(d *drawer, x, mem code.Value) {
			lo, hi := d.raw(code.OpZext16, nil, d.b.LdGlobal(2, mem, 0, 0)), d.raw(code.OpZext16, nil, d.b.LdGlobal(2, mem, 2, 0))
			d.b.StGlobal(4, mem, 0, 0, d.raw(code.OpOr32, nil, d.raw(code.OpShl32, nil, hi, d.b.Const32(16)), lo))
		}},
		{"regroup", "add.b32 %9, %5\n", "", func(d *drawer, x, mem code.Value) {
			d.b.For(d.b.Const32(0), x, d.b.Const32(1), 1, nil, func(i code.Value, _ []code.Value) []code.Value {
				d.b.StGlobal(4, mem, 0, 0, d.raw(code.OpAdd32, nil, d.raw(code.OpAdd32, nil, i, x), d.b.Const32(9)))
				return nil
			})
		}},
		{"unroll", "", "for", func(d *drawer, x, mem code.Value) {
			d.b.For(d.b.Const32(3), d.b.Const32(9), d.b.Const32(2), 4, nil, func(i code.Value, _ []code.Value) []code.Value {
				d.b.StGlobal(4, mem, 0, 0, i)
				return nil
			})
		}},
		{"hoist", "xor.b32 %2, %2  // t.tile:1:1\n\t%8 = for", "", func(d *drawer, x, mem code.Value) {
			d.b.For(d.b.Const32(0), x, d.b.Const32(1), 1, []code.Value{x}, func(_ code.Value, c []code.Value) []code.Value {
				return []code.Value{d.raw(code.OpXor32, nil, x, x)}
			})
		}},
	} {
		d := &drawer{b: code.NewBuilder("p").At(at(1))}
		mem, x := d.b.Pointer("p", "u8"), d.b.Scalar("x", code.B32, "i32")
		d.b.Func().Launch.Block = 32
		c.body(d, x, mem)
		f, err := d.b.Done()
		if err != nil {
			t.Fatal(err)
		}
		before := code.Format(f)
		if !pass(c.pass).Run(f) {
			t.Errorf("%s changes nothing in\n%s", c.pass, before)
		}
		after := code.Format(f)
		_, text, _ := strings.Cut(after, "{\n")
		if !strings.Contains(strings.ReplaceAll(text, "  // t.tile:1:1", ""), strings.ReplaceAll(c.has, "  // t.tile:1:1", "")) || c.hasNot != "" && strings.Contains(text, c.hasNot) {
			t.Errorf("%s:\n%s", c.pass, after)
		}
		if err := code.Verify(f).Err(); err != nil {
			t.Errorf("%s: %v", c.pass, err)
		}
	}
}

// TestBumpLeaves lists accesses whose address must be computed anew in each turn,
// and one beside them that need not.
func TestBumpLeaves(t *testing.T) {
	for _, c := range []struct {
		what  string
		bumps bool
		body  func(d *drawer, i, x code.Value)
	}{
		{"every turn", true, func(d *drawer, i, x code.Value) { d.b.StGlobal(4, d.at(i, x), 0, 0, x) }},
		{"a guard that stays", true, func(d *drawer, i, x code.Value) {
			d.b.Guarded(d.guard, code.OpStGlobalB32, []int64{0, 0}, []code.Value{d.at(i, x), x})
		}},
		{"a guard that changes", false, func(d *drawer, i, x code.Value) {
			d.b.Guarded(d.b.SetpS32(code.LT, i, x), code.OpStGlobalB32, []int64{0, 0}, []code.Value{d.at(i, x), x})
		}},
		{"not in every turn", false, func(d *drawer, i, x code.Value) {
			a := d.at(i, x)
			d.b.If(d.b.SetpS32(code.LT, i, x), func() []code.Value { d.b.StGlobal(4, a, 0, 0, x); return nil }, nil)
		}},
		{"a square", false, func(d *drawer, i, x code.Value) {
			d.b.StGlobal(4, d.at(d.raw(code.OpMul32, nil, i, i), x), 0, 0, x)
		}},
		{"a minimum", false, func(d *drawer, i, x code.Value) {
			d.b.StGlobal(4, d.at(d.raw(code.OpMinS32, nil, i, x), x), 0, 0, x)
		}},
		{"used otherwise", false, func(d *drawer, i, x code.Value) {
			a := d.at(i, x)
			d.b.StGlobal(8, a, 0, 0, a)
		}},
		{"no parameter", false, func(d *drawer, i, x code.Value) {
			to := d.raw(code.OpAdd64, nil, d.b.Func().Body.Args[0], d.b.Const64(8))
			d.b.StGlobal(4, d.raw(code.OpMadWideS32, nil, i, d.b.Const32(4), to), 0, 0, x)
		}},
	} {
		d := &drawer{b: code.NewBuilder("p").At(at(1))}
		d.b.Pointer("p", "u8")
		x := d.b.Scalar("x", code.B32, "i32")
		d.guard = d.b.SetpS32(code.LT, x, d.b.Const32(9))
		d.b.Func().Launch.Block = 32
		d.forLoop(func(i code.Value) { c.body(d, i, x) })
		f, err := d.b.Done()
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if before := code.Format(f); Bump(f) != c.bumps {
			t.Errorf("%s: bumped %v in\n%s", c.what, !c.bumps, before)
		}
	}
}

func TestPassesHaveReasons(t *testing.T) {
	for _, p := range Passes() {
		if p.Name == "" || p.Why == "" {
			t.Error(fmt.Sprint(p.Name, ": no reason"))
		}
	}
}

// TestRandomFunctionsAssemble gives random functions, before and after the
// passes, to the real assembler: for the oldest target, or where their rows need
// it, for a newer one.
func TestRandomFunctionsAssemble(t *testing.T) {
	ptxas := need.Ptxas(t)
	n := 60
	if testing.Short() {
		n = 10
	}
	all := map[string]*strings.Builder{}
	for seed := range int64(n) {
		f := draw(5000 + seed)
		g, err := Run(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.Name, g.Name = fmt.Sprintf("before_%d", seed), fmt.Sprintf("after_%d", seed)
		for _, x := range []*code.Func{f, g} {
			target := "sm_80"
			x.Body.Walk(func(in *code.Instr) {
				if in.Op.Row().Since > 80 {
					target = "sm_90a"
				}
			})
			text, err := ptx.Print(x, ptx.Options{Arch: target})
			if err != nil {
				t.Fatal(err)
			}
			if all[target] == nil {
				all[target] = &strings.Builder{}
			} else if _, body, ok := strings.Cut(text, ".visible"); ok {
				text = ".visible" + body
			}
			all[target].WriteString(text)
		}
	}
	for target, text := range all {
		file := filepath.Join(t.TempDir(), target+".ptx")
		if err := os.WriteFile(file, []byte(text.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(ptxas, "-arch="+target, "-o", os.DevNull, file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", target, err, out)
		}
	}
}

// TestWordsOfOtherBlocks: loads of words that other blocks may store meanwhile stay where they stand and as many as they are, in and outside
// of loops, used or not, and so do stores of such words: each of them is one access, which says something of its own.
func TestWordsOfOtherBlocks(t *testing.T) {
	b := code.NewBuilder("words").At(at(1))
	p, q := b.Pointer("p", "u32"), b.Pointer("q", "u32")
	b.Func().Launch = code.Launch{Block: 32}
	mine := b.Emit1(code.OpMadWideS32, nil, b.Mul32(b.TidX(), b.Const32(4)), b.Const32(4), p)
	to := b.Emit1(code.OpMadWideS32, nil, b.TidX(), b.Const32(4), q)
	zero := b.Const32(0)
	load := func(offset int64) code.Value {
		return b.Emit1(code.OpLdRelaxedGlobalB32, []int64{offset}, mine)
	}
	store := func(offset int64, x code.Value) { b.Emit(code.OpStRelaxedGlobalB32, []int64{offset}, mine, x) }
	first := load(0)
	same := load(0)
	load(4)                                               // beside it, and not used
	b.Emit(code.OpLdRelaxedGlobalV4B32, []int64{0}, mine) // again, and not used
	found := b.While([]code.Value{first}, func(c []code.Value) code.Value { return b.SetpU32(code.EQ, c[0], zero) }, func(c []code.Value) []code.Value {
		return []code.Value{load(0)} // depends on nothing in the loop
	})
	store(0, found[0]) // what stands there
	store(0, zero)     // and is overwritten
	store(4, zero)     // beside it
	b.StGlobal(4, to, 0, 0, b.Add32(found[0], same))
	f, err := b.Done()
	if err != nil {
		t.Fatal(err)
	}
	list := func(f *code.Func) (out []string) {
		depth := 0
		var visit func(r *code.Region)
		visit = func(r *code.Region) {
			for _, in := range r.Instrs {
				if in.Row().Relaxed {
					out = append(out, fmt.Sprint(depth, in.Op, in.Imm[0]))
				}
				depth++
				for _, sub := range in.Regions {
					visit(sub)
				}
				depth--
			}
		}
		visit(f.Body)
		return out
	}
	want := list(f)
	g, err := Run(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := list(g); !slices.Equal(got, want) || len(want) != 8 {
		t.Errorf("%q were %q:\n%s", got, want, code.Format(g))
	}
}
