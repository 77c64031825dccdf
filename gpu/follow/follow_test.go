package follow_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/follow"
	"github.com/tilus-lab/tilus-lab/tests/differential"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

var generous = follow.Limits{Steps: 20_000, Time: time.Minute}

func launches(t *testing.T) map[string]differential.Launch {
	t.Helper()
	all, err := differential.Launches()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]differential.Launch{}
	for _, l := range all {
		out[l.Name] = l
	}
	return out
}

// ways are launches, an element that a launch reads, and the kinds of stations that it passes.
var ways = []struct {
	launch, from string
	kinds        string
}{
	{"vector_add", "x[300]", "G R R G"},
	{"matmul_v0", "a[48]", "G R O S R G"},
	{"matmul_v0", "b[77]", "G R O S R G"},
	{"matmul_v1", "a[45]", ""},
	{"matmul_v2", "a[45]", ""},
	{"matmul_v3", "a[77]", "G M R O S R G"},
	{"matmul_v4", "b[300]", ""},
	{"matmul_v5", "a[901]", ""},
	{"matmul_a16w", "w[70]", "G R R R O S R G"},
	{"matmul_a16w2", "a[70]", ""},
	{"matmul_f16_i6", "b[100]", "G R R R O S R G"},
	{"softmax", "x[1029]", "G R R R R R R G"},
	{"matmul_hopper_v0", "a[70]", ""},
	{"matmul_hopper_v5", "b[70]", ""},
	{"transpose_swizzled", "a[70]", "G R M R G"},
}

// TestTrace changes the element that is followed in memory, and looks whether the one
// that it ends at changes; and holds every station against what layouts say.
func TestTrace(t *testing.T) {
	all := launches(t)
	for _, c := range ways {
		t.Run(c.launch+" "+c.from, func(t *testing.T) {
			l, ok := all[c.launch]
			if !ok {
				t.Fatal("the corpus has no such launch")
			}
			from, err := follow.ParseStart(c.from, diag.Pos{Line: 1, Col: 1})
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			w, err := follow.Trace(l.Program, l.Args, from, generous)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s in %s\n%s", w.Element, time.Since(begin).Round(time.Millisecond), w)
			letters := map[follow.Kind]string{follow.Global: "G", follow.Shared: "M", follow.Register: "R", follow.Operand: "O", follow.Sum: "S"}
			var kinds []string
			for _, s := range w.Stations {
				kinds = append(kinds, letters[s.Kind])
			}
			if got := strings.Join(kinds, " "); c.kinds != "" && got != c.kinds {
				t.Errorf("it goes %s, not %s", got, c.kinds)
			}
			first, last := w.Stations[0], w.Stations[len(w.Stations)-1]
			if first.Kind != follow.Global || last.Kind != follow.Global || len(w.Stations) < 3 || w.Note != "" {
				t.Fatalf("it is not followed from memory to memory: %s", w.Note)
			}
			check(t, w)
			perturb(t, l, first, last)
		})
	}
}

// check holds stations against the layouts of their tensors.
func check(t *testing.T, w *follow.Way) {
	t.Helper()
	for _, s := range w.Stations {
		v := s.Var()
		switch {
		case s.Kind == follow.Operand && !v.Type.IsRegister():
		case s.Kind == follow.Register, s.Kind == follow.Sum, s.Kind == follow.Operand:
			// The lane of the instruction's fragment is the thread that holds the element.
			if !slices.ContainsFunc(v.Type.Layout.Holders(s.Index...), func(h layoutHolder) bool {
				return h.Thread == s.Thread && (s.Kind == follow.Operand || h.Slot == s.Slot)
			}) {
				t.Errorf("%s: thread %d does not hold %v", s, s.Thread, s.Index)
			}
		case s.Kind == follow.Shared && v.Type.IsShared():
			// A part of a tensor lies as the tensor does, somewhere in it.
			if bits := v.Type.Elem.Bits(); s.Byte*8 < 0 || s.Bank != s.Byte/4%32 || s.Byte*8%bits != 0 {
				t.Errorf("%s: byte %d", s, s.Byte)
			}
		}
	}
}

// perturb changes one element in front of the launch and one must change behind it.
func perturb(t *testing.T, l differential.Launch, first, last follow.Station) {
	t.Helper()
	result := func(change bool) uint64 {
		args := slices.Clone(l.Args)
		for i, v := range l.Program.Params {
			if a := args[i].Array; a != nil {
				args[i].Array = a.Clone()
				if v.Name == first.Name && change {
					bits := a.Type.Bits()
					args[i].Array.SetCode(first.Number(), a.Code(first.Number())^1<<(bits-1)^1<<max(0, bits-4))
				}
			}
		}
		m, err := interp.New(l.Program, args)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, v := range l.Program.Params {
			if v.Name == last.Name {
				return m.Args()[i].Array.Code(last.Number())
			}
		}
		t.Fatalf("no parameter %s", last.Name)
		return 0
	}
	if a, b := result(false), result(true); a == b {
		t.Errorf("element %d of %s does not change with element %d of %s", last.Number(), last.Name, first.Number(), first.Name)
	}
}

type layoutHolder = layout.Holder

func TestInstructions(t *testing.T) {
	l := launches(t)
	for _, c := range ways {
		from, _ := follow.ParseStart(c.from, diag.Pos{Line: 1, Col: 1})
		w, err := follow.Trace(l[c.launch].Program, l[c.launch].Args, from, generous)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range w.Stations {
			if s.Kind != follow.Operand {
				continue
			}
			a, err := arch.FindAtom(s.Instruction)
			if err != nil {
				t.Errorf("%s: the catalogue has no %s: %v", c.launch, s.Instruction, err)
				continue
			}
			// The catalogue's own fragment says the same lane and register.
			for _, o := range a.Operands {
				if o.Name == strings.ToUpper(s.Operand) && o.In == arch.InRegisters && s.Var().Type.IsRegister() {
					shape := o.Layout.Shape()
					index := []int{s.Index[0] % shape[0], s.Index[1] % shape[1]}
					h := o.Layout.Holders(index...)[0]
					if bit := h.Slot * s.Var().Type.Elem.Bits(); h.Thread != s.Lane || bit/32 != s.Word || bit%32 != s.Shift {
						t.Errorf("%s: %s, and the catalogue says lane %d, slot %d", c.launch, s, h.Thread, h.Slot)
					}
				}
			}
		}
	}
}

// TestMiddle follows elements from the middle of their way: what is clicked stands on
// the way, and the way is that of the element in memory that it comes from.
func TestMiddle(t *testing.T) {
	l := launches(t)["matmul_v3"]
	for _, text := range []string{"ra[0, 13]", "acc[3, 5]", "acc[3, 5] @ 18", "sa[0, 13]", "out[7, 9]", "gc[0, 0]", "ga[0, 13]", "c[5]"} {
		from, err := follow.ParseStart(text, diag.Pos{Line: 1, Col: 1})
		if err != nil {
			t.Fatal(err)
		}
		w, err := follow.Trace(l.Program, l.Args, from, generous)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		here := 0
		for _, s := range w.Stations {
			if s.Here {
				here++
				if s.Name != from.Name && !strings.HasPrefix(from.Name, "g") {
					t.Errorf("%s: it is said to be %s", text, s)
				}
			}
		}
		if n := len(w.Stations); here != 1 || w.Stations[0].Kind != follow.Global || w.Stations[n-1].Kind != follow.Global {
			t.Errorf("%s, %d times here:\n%s", text, here, w)
		}
		check(t, w)
	}
}

// TestParts holds that all bytes of an element are told that lies over a byte's border.
func TestParts(t *testing.T) {
	l := launches(t)["matmul_f16_i6"]
	w, err := follow.Trace(l.Program, l.Args, follow.Start{Name: "rw", Index: []int{5, 3}}, generous)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range w.Stations {
		// Slot 1 has bits 6 to 11: of bytes 0 and 1 of its thread.
		if s.Name == "rb" && s.Parts != 1 || s.Name == "rw" && (s.Shift != 6 || s.Parts != 0) {
			t.Errorf("%s", s)
		}
	}
}

// TestPut follows elements that a thread group puts and another one takes, of which it takes the first 20.
func TestPut(t *testing.T) {
	p, err := text.Parse("put.tile", `program put<1>(x: *f32, y: *f32) warps=2 {
	gx = ViewGlobal(x) : global f32[32]
	gy = ViewGlobal(y) : global f32[32]
	gw = AllocateGlobal(init=0) : global f32[32]
	group(0, 32) {
		w = TakeGlobal(gw, 20, offset=[0]) : register f32[32] spatial(32)
		StoreGlobal(gy, w, offset=[0])
	}
	group(32, 32) {
		v = LoadGlobal(gx, offset=[0]) : register f32[32] spatial(32)
		PutGlobal(gw, v, offset=[0])
	}
}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := array.New(dtype.F32, 32)
	for k := range 32 {
		x.Set(float64(k+1), k)
	}
	for _, c := range []struct{ from, want string }{
		{"x[3]", "x v gw w y"},
		{"w[19]", "x v gw w y"},
		{"x[20]", "x v gw; Nothing that is stored is made of it."},
		{"w[20]", "w y"}, // a 0 that stood nowhere
	} {
		from, err := follow.ParseStart(c.from, diag.Pos{Line: 1, Col: 1})
		if err != nil {
			t.Fatal(err)
		}
		w, err := follow.Trace(p, []ir.Arg{{Array: x}, {Array: array.New(dtype.F32, 32)}}, from, generous)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range w.Stations {
			names = append(names, s.Name)
		}
		got := strings.Join(names, " ")
		if w.Note != "" {
			got += "; " + w.Note
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.from, got, c.want)
		}
	}
}

func TestMistakes(t *testing.T) {
	l := launches(t)["matmul_v3"]
	for _, c := range []struct{ text, code, says string }{
		{"ra", "Follow.E1", "names no element"},
		{"[3]", "Follow.E1", "no name"},
		{"ra[x, 2]", "Follow.E1", `"x" is no index`},
		{"ra[1, 2] 7", "Follow.E1", "no step"},
		{"rc[1, 2]", "Follow.E2", "did you mean"},
		{"ra[1, 99]", "Follow.E3", "the last one is ra[127, 63]"},
		{"a[1, 2]", "Follow.E3", "one number"},
		{"a[1000000]", "Follow.E4", "neither read nor written"},
	} {
		from, err := follow.ParseStart(c.text, diag.Pos{Line: 1, Col: 1})
		if err == nil {
			_, err = follow.Trace(l.Program, l.Args, from, generous)
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.code) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	if from, err := follow.ParseStart(" acc[0, 1]  @ 12 ", diag.Pos{Line: 1, Col: 1}); err != nil || from.String() != "acc[0, 1] @ 12" {
		t.Errorf("%v %v", from, err)
	}
}

// TestSuppose makes up arguments for the programs of the corpus: the launches are right,
// and most elements of their first parameter are followed to a store.
func TestSuppose(t *testing.T) {
	n, ran := 0, 0
	for name, l := range launches(t) {
		if l.Section != "in" {
			continue
		}
		n++
		texts, ok := follow.Suppose(l.Program)
		if !ok {
			continue
		}
		if len(texts) != len(l.Program.Params) {
			t.Errorf("%s: %d texts for %d parameters", name, len(texts), len(l.Program.Params))
		}
		ran++
	}
	t.Logf("%d of %d programs", ran, n)
	if ran < n/2 {
		t.Errorf("only %d of %d programs can be launched with sizes that are made up", ran, n)
	}
}

// TestCorpus follows the first element of a tensor of every program of the corpus: none
// panics, each station is where layouts say, and most ways end at a store.
func TestCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("runs all programs")
	}
	n, stored := 0, 0
	for name, l := range launches(t) {
		if l.Section != "in" {
			continue
		}
		var v *ir.Var
		l.Program.Body.Walk(func(s ir.Stmt) bool {
			if in, ok := s.(*ir.Instr); ok && v == nil && len(in.Out) > 0 && in.Out[0].Type.IsRegister() && len(in.In) > 0 {
				v = in.Out[0]
			}
			return true
		})
		if v == nil {
			continue
		}
		n++
		w, err := follow.Trace(l.Program, l.Args, follow.Start{Name: v.Name, Index: make([]int, v.Type.Layout.Rank())}, follow.Limits{Steps: 600, Time: time.Minute})
		var list diag.List
		if err != nil {
			if !errors.As(err, &list) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		check(t, w)
		if s := w.Stations[len(w.Stations)-1]; s.Kind == follow.Global && w.Note == "" {
			stored++
		} else {
			t.Logf("%s, %s: %s", name, w.Element, w.Note)
		}
	}
	t.Logf("%d of %d ways end at a store", stored, n)
	if stored < n*2/3 {
		t.Errorf("only %d of %d ways end at a store", stored, n)
	}
}

// What ParseStart reads, it reads again as it prints it.
func FuzzParseStart(f *testing.F) {
	for _, text := range []string{"ra[3, 5]", " acc [0,1] @ 12", "x[]", "a[1] @ -1", "[1]", "a]1["} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := follow.ParseStart(text, diag.Pos{File: "f", Line: 1, Col: 1})
		if err != nil {
			var list diag.List
			if !errors.As(err, &list) || len(list) != 1 || list[0].Code == "" {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := follow.ParseStart(s.String(), diag.Pos{File: "f", Line: 1, Col: 1})
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q prints %q, which reads as %q, %v", text, s, again, err)
		}
	})
}
