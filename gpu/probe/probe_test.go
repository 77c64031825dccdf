package probe

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/ptx"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// effort is what the processor of a test machine can do.
func effort() Options {
	if testing.Short() {
		return Options{Cross: 512, Random: 512}
	}
	return Options{Cross: 8192, Random: 4096}
}

// TestSimulator runs every row on the simulator: what it does must be what this
// package says the row means.
func TestSimulator(t *testing.T) {
	rows, err := Run(context.Background(), Simulator{}, effort())
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(code.Rows()) {
		t.Errorf("%d rows of %d", len(rows), len(code.Rows()))
	}
	total := 0
	for _, r := range rows {
		if !r.Equal() {
			t.Errorf("%s: %d of %d differ, %d of %d functions failed\n\t%s", r.Name, r.Differ, r.Tried, r.Failed, r.Cases, strings.Join(r.First, "\n\t"))
		}
		for _, n := range r.Notes {
			t.Logf("%s: %s", r.Name, n)
		}
		total += r.Tried
	}
	t.Logf("%d results compared", total)
}

// wrong is a simulator that gets one bit of one buffer wrong: the lowest of a byte, or
// where rows are approximations one that counts, of an exponent.
type wrong struct{}

func (wrong) Run(ctx context.Context, f *code.Func, grid [3]int, bufs [][]byte) error {
	err := Simulator{}.Run(ctx, f, grid, bufs)
	last := bufs[len(bufs)-1]
	wrong := []int{len(last) / 2}
	bit := byte(1)
	f.Body.Walk(func(i *code.Instr) {
		if i.Op.Row().Bound != nil {
			wrong, bit = []int{3, len(last)/4 | 3, len(last)/2 | 3, len(last)*3/4 | 3}, 0x40 // some may lie where anything goes
		}
	})
	for _, at := range wrong {
		last[at] ^= bit
	}
	return err
}

// TestDifferencesAreSeen gives each row a machine that gets one bit wrong.
func TestDifferencesAreSeen(t *testing.T) {
	rows, err := Run(context.Background(), wrong{}, Options{Cross: 64, Random: 64})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Differ == 0 && r.NaNs == 0 && r.Failed == 0 {
			t.Errorf("%s: the wrong bit was not seen in %d results", r.Name, r.Tried)
		}
		if r.Differ > 0 && (len(r.First) == 0 || !strings.Contains(r.First[0], "got 0x")) {
			t.Errorf("%s: difference told as %q", r.Name, r.First)
		}
	}
}

// TestText prints every function as PTX and looks for the row's first word in it.
func TestText(t *testing.T) {
	for _, op := range code.Rows() {
		for _, c := range Cases(op, Options{Cross: 64, Random: 64}) {
			text, err := ptx.Print(c.Func, ptx.Options{Arch: "sm_90a", NoPos: true})
			if err != nil {
				t.Errorf("%s, %s: %v", op, c.Name, err)
				continue
			}
			word, _, _ := strings.Cut(op.Row().PTX, "{")
			if word, _, _ = strings.Cut(strings.TrimSpace(word), " "); !strings.Contains(text, word) {
				t.Errorf("%s, %s: no %q in\n%s", op, c.Name, word, text)
			}
		}
	}
}

// TestOperands holds the sources of operands to what the package comment says.
func TestOperands(t *testing.T) {
	has := func(col []uint64, want ...uint64) {
		t.Helper()
		for _, w := range want {
			if !slices.Contains(col, w) {
				t.Errorf("%#x is not among %d operands", w, len(col))
			}
		}
	}
	o := Options{}
	src := newSource(1)
	one := src.operands([]code.Type{code.B32}, o.cross(), o.random(), false)[0]
	has(one, 0, 1, 0xffffffff, 0x7fffffff, 0x80000000, 0x80000001, 0xffff, 0x10001, // integers
		0x80000000, 0x00000001, 0x007fffff, 0x00800000, 0x3f800001, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0x7fc00000, // f32
		0x477ff000, 0x477fefff, 0x33000000, 0x33000001, 0x3f802000) // f16 overflow, least half, halfway
	if b16 := src.operands([]code.Type{code.B16}, 1, 0, false)[0]; len(b16) != 1<<16 {
		t.Errorf("%d operands of 16 bits, must be all", len(b16))
	}
	two := src.operands([]code.Type{code.B32, code.B32}, o.cross(), o.random(), true)
	if slices.Contains(two[1], 0) {
		t.Error("a zero divisor")
	}
	if len(two[0]) < 4096+o.cross()/2 || len(two[0])%blockSize != 0 {
		t.Errorf("%d pairs", len(two[0]))
	}
	for _, e := range []dtype.Type{dtype.F16, dtype.BF16, dtype.F32, dtype.F64} {
		set := floatEdges(e)
		has(set, 0, e.NaN(), e.Inf(false), e.Inf(true), e.MaxCode(), 1, e.Encode(1, false)+1)
		for _, c := range set {
			if c&^e.Mask() != 0 {
				t.Errorf("%s has no code %#x", e, c)
			}
		}
	}
	if n := len(immediates(code.OpLop3.Row())); n != 256 {
		t.Errorf("%d truth tables", n)
	}
	if n := len(immediates(code.OpBfeU32.Row())); n != 528 {
		t.Errorf("%d bit fields", n)
	}
}

// TestHash holds the hash to what it must and must not depend on.
func TestHash(t *testing.T) {
	seen := map[string]string{}
	for _, op := range code.Rows() {
		h := Hash(op.Row())
		if other := seen[h]; other != "" {
			t.Errorf("%s and %s have one hash", op, other)
		}
		seen[h] = op.String()
	}
	row := *code.OpAdd32.Row()
	row.PTX = "add.u32 {o0}, {a0}, {a1#}"
	if Hash(&row) == Hash(code.OpAdd32.Row()) {
		t.Error("the hash does not see the template")
	}
	row = *code.OpAdd32.Row()
	row.Source = "elsewhere"
	if Hash(&row) != Hash(code.OpAdd32.Row()) {
		t.Error("the hash depends on the source")
	}
}

// carrying is a simulator whose f64 sums carry payloads, and which gets one sum
// of numbers wrong.
type carrying struct{}

func (carrying) Run(ctx context.Context, f *code.Func, grid [3]int, bufs [][]byte) error {
	err := Simulator{}.Run(ctx, f, grid, bufs)
	row, _ := nanRowOf(code.OpAddF64)
	out := bufs[2]
	spoiled := false
	n := len(bufs[0]) / 8
	for k := range n {
		switch v := element(out, 8, k); {
		case dtype.F64.IsNaN(v):
			put(out, 8, k, row.code(orders[1], []uint64{element(bufs[0], 8, k), element(bufs[1], 8, k)}))
		case !spoiled:
			put(out, 8, k, v^1)
			spoiled = true
		}
	}
	return err
}

// TestPayloads holds NaNs of another code apart from differences.
func TestPayloads(t *testing.T) {
	rows, err := Run(context.Background(), carrying{}, Options{Cross: 4096, Random: 512, Only: func(name string) bool { return name == "add.rn.f64" }})
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	r := rows[0]
	if r.Differ != 2 || r.Cases != 2 { // one number in the first variant of each case
		t.Errorf("%d differences in %d cases: %q", r.Differ, r.Cases, r.First)
	}
	if r.NaNs < 100 || r.nans.fits[1] < r.NaNs*9/10 || r.nans.fits[0] == r.NaNs {
		t.Errorf("%d NaNs, %s", r.NaNs, r.Notes)
	}
	to32, _ := nanRowOf(code.OpF64ToF32)
	to64, _ := nanRowOf(code.OpF16ToF64)
	if got := to32.code(orders[0], []uint64{0xfff0000000000001}); got != 0xffc00000 {
		t.Errorf("cut to %#x", got)
	}
	if got := to64.code(orders[0], []uint64{0x7c01}); got != 0x7ff8040000000000 {
		t.Errorf("extended to %#x", got)
	}
}
