package recipe

import (
	"encoding/csv"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
)

var (
	update = flag.Bool("update", false, "search again and rewrite table.txt")
	tries  = flag.Int("tries", 4000, "random choices of the searches of -update")
	only   = flag.String("only", "", "search again, with -update, only from these types, between spaces")
)

// sources are the types that recipes may start from.
func sources() []dtype.Type {
	var out []dtype.Type
	for _, t := range dtype.All() {
		if t.Bits() <= 8 && t != dtype.Bool && t != dtype.F8E8M0 {
			out = append(out, t)
		}
	}
	return out
}

// rewrite searches the whole table, for what is cheaper than it has. A deferred or recoded
// recipe is kept only where it is cheaper than what needs less.
func rewrite(t *testing.T) {
	var b strings.Builder
	for _, to := range []dtype.Type{dtype.F16, dtype.BF16} {
		for _, from := range sources() {
			var kept []*Recipe
			old, err := rows(from, to)
			if err != nil {
				t.Fatal(err)
			}
			if *only != "" && !slices.Contains(strings.Fields(*only), from.String()) {
				for _, r := range old {
					fmt.Fprintf(&b, "%s\n", r)
				}
				continue
			}
			for _, o := range []Options{{}, {Recode: true}, {Mode: Deferred}, {Mode: Deferred, Recode: true}} {
				o.Tries = *tries
				r, err := Search(from, to, o)
				if err != nil {
					t.Logf("%s to %s: %v", from, to, err)
					continue
				}
				for _, o := range old {
					if o.Mode == r.Mode && o.Recode == r.Recode && !r.Cost().less(o.Cost()) {
						r = o
					}
				}
				if !slices.ContainsFunc(kept, func(k *Recipe) bool {
					return k.Mode <= r.Mode && (r.Recode || !k.Recode) && !r.Cost().less(k.Cost())
				}) {
					kept = append(kept, r)
					fmt.Fprintf(&b, "%s\n", r)
				}
			}
		}
	}
	if err := os.WriteFile("table.txt", []byte(strings.TrimSuffix(b.String(), "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	tableText = b.String()
	read.Clear()
}

func TestTable(t *testing.T) {
	if *update {
		rewrite(t)
	}
	all, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if err := Prove(r); err != nil {
			t.Errorf("%s to %s, %s: %v", r.From, r.To, r.Mode, err)
		}
		if s := r.String(); !strings.Contains(tableText+raisedText, s) {
			t.Errorf("%s to %s, %s: the table is not formatted", r.From, r.To, r.Mode)
		}
	}
	for _, from := range sources() {
		for _, to := range []dtype.Type{dtype.F16, dtype.BF16} {
			r, err := Lookup(from, to, Exact, false)
			// f16 has five exponent bits; a wider source needs rounding.
			if wide := to == dtype.F16 && from.Row().Exp > 5; (err != nil) != wide {
				t.Errorf("Lookup(%s, %s): %v", from, to, err)
			}
			if err == nil && (r.From != from || r.To != to || r.Mode != Exact || r.Recode) {
				t.Errorf("Lookup(%s, %s) gives a recipe for something else", from, to)
			}
		}
	}
}

// TestRaised holds that each recipe of raised.txt has the placement of one of the table
// and leaves larger powers.
func TestRaised(t *testing.T) {
	for _, text := range strings.Split(strings.TrimSpace(raisedText), "\n\n") {
		r, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		low, _, err := ForPlacement(r.From, r.To, Deferred, r.Place, MinScale)
		if err != nil || !low.Place.Equal(r.Place) || low.Least() >= r.Least() || !low.Cost().less(r.Cost()) {
			t.Errorf("%s to %s: without it %v, %v", r.From, r.To, low, err)
		}
		t.Logf("%s to %s: powers from %d on instead of %d, %+v instead of %+v", r.From, r.To, r.Least(), low.Least(), r.Cost(), low.Cost())
	}
}

func TestForPlacement(t *testing.T) {
	all, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range all {
		place, err := want.Place.Repeat(3)
		if err != nil {
			t.Fatal(err)
		}
		r, units, err := ForPlacement(want.From, want.To, want.Mode, place, MinScale)
		if want.Recode {
			if err == nil && r.Recode {
				t.Errorf("%s to %s: a recoded recipe for plain storage", want.From, want.To)
			}
			continue
		}
		if err != nil || units != 3 || want.Cost().less(r.Cost()) || r.Mode > want.Mode {
			t.Errorf("%s to %s, %s: %v, %d units", want.From, want.To, want.Mode, err, units)
		}
		r, _, err = ForPlacement(want.From, want.To, want.Mode, place, want.Least())
		if err != nil || want.Cost().less(r.Cost()) || r.Least() < want.Least() {
			t.Errorf("%s to %s, %s, without powers below 2^%d: %v", want.From, want.To, want.Mode, want.Least(), err)
		}
	}
	if _, _, err := ForPlacement(dtype.U4, dtype.F16, Deferred, bits.Identity(4, 8), MinScale); err == nil {
		t.Error("a recipe for u4 in slot order")
	}
	place, err := bits.Parse("4[(0,16)*4+4]")
	if err != nil {
		t.Fatal(err)
	}
	if r, _, err := ForPlacement(dtype.U4, dtype.F16, Deferred, place, MinScale); err != nil || r.Cost().PerElement() != 0.625 {
		t.Errorf("u4 to f16: %v", err)
	}
	if r, _, err := ForPlacement(dtype.U4, dtype.F16, Deferred, place, -23); err != nil || r.Mode != Exact {
		t.Errorf("u4 to f16 without powers below 2^-23: %v", err)
	}
	if r, _, err := ForPlacement(dtype.U4, dtype.F16, Deferred, place, 1); err == nil || !strings.Contains(err.Error(), "below 2^1") {
		t.Errorf("u4 to f16 by %v, %v; none leaves a power of 2", r, err)
	}
}

// TestTableAgainstFacts compares the table with costs that another search found.
func TestTableAgainstFacts(t *testing.T) {
	f, err := os.Open("testdata/cvt_recipes.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := csv.NewReader(f)
	in.FieldsPerRecord = -1 // notes may hold commas
	rows, err := in.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var better, equal int
	for _, row := range rows[1:] {
		from, err1 := dtype.Parse(row[0])
		to, err2 := dtype.Parse(row[1])
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		var n [5]int // shift, lop3, prmt, cvt, fma for 32 elements
		for i := range n {
			n[i], err = strconv.Atoi(row[3+i])
			if err != nil {
				t.Fatal(err)
			}
		}
		facts := Cost{n[0], n[1], n[2], n[3], n[4], 32, 0}
		mode := Exact
		if from == dtype.U8 && to == dtype.BF16 {
			mode = Deferred // the recipe there gives value − 128
		}
		r, err := Lookup(from, to, mode, true)
		if err != nil {
			t.Error(err)
			continue
		}
		d, err := Lookup(from, to, Deferred, true)
		if err != nil {
			t.Error(err)
			continue
		}
		verdict := "equal"
		switch c := r.Cost(); {
		case c.less(facts):
			verdict, better = "better", better+1
		case facts.less(c):
			verdict = "worse"
			t.Errorf("%s to %s costs %+v, facts have %+v", from, to, c, facts)
		default:
			equal++
		}
		t.Logf("%-6s %-4s facts %.4f exact %.4f deferred %.4f %s", from, to, facts.PerElement(), r.Cost().PerElement(), d.Cost().PerElement(), verdict)
	}
	t.Logf("%d better, %d equal", better, equal)
}

func TestSearchFindsU4(t *testing.T) {
	start := time.Now()
	r, err := Search(dtype.U4, dtype.F16, Options{Mode: Deferred})
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("the search took %v", d)
	}
	if c := r.Cost(); c != (Cost{Shift: 1, Lop3: 4, Elements: 8}) {
		t.Errorf("deferred u4 to f16 costs %+v", c)
	}
	exact, err := Search(dtype.U4, dtype.F16, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := exact.Cost(); c != (Cost{Shift: 1, Lop3: 4, Arith: 4, Elements: 8}) {
		t.Errorf("exact u4 to f16 costs %+v", c)
	}
	again, err := Search(dtype.U4, dtype.F16, Options{Mode: Deferred})
	if err != nil || again.String() != r.String() {
		t.Errorf("a second search finds another recipe: %v", err)
	}
	t.Logf("\n%s\n%s", r, exact)
}

func TestSearchRefuses(t *testing.T) {
	for _, c := range [][2]dtype.Type{{dtype.U16, dtype.F16}, {dtype.U4, dtype.F32}, {dtype.F8E7M0, dtype.F16}, {dtype.F8E8M0, dtype.F16}} {
		if r, err := Search(c[0], c[1], Options{Tries: 10}); err == nil {
			t.Errorf("%s to %s: %v", c[0], c[1], r)
		}
	}
}

// TestChangedStepsFail changes each step and each shared value of recipes that are
// right; no change may pass the proof.
func TestChangedStepsFail(t *testing.T) {
	all, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, good := range all {
		if testing.Short() && i%5 != 0 {
			continue
		}
		fails := func(what string, change func(r *Recipe)) {
			r := *good
			r.Steps, r.Consts, r.Out = slices.Clone(good.Steps), slices.Clone(good.Consts), slices.Clone(good.Out)
			r.Scale, r.Offset = slices.Clone(good.Scale), slices.Clone(good.Offset)
			change(&r)
			if n++; Prove(&r) == nil {
				t.Errorf("%s to %s, %s: passes with %s", r.From, r.To, r.Mode, what)
			}
		}
		for k, s := range good.Steps {
			fails(fmt.Sprintf("another step %d, %s", k, good.format(s)), func(r *Recipe) {
				switch s := &r.Steps[k]; s.Op {
				case Shr, Shl, Funnel:
					s.N ^= 1
				case Lop3:
					s.N ^= 0xff
				case Prmt:
					s.N ^= 0x1111
				case CvtE4M3:
					s.N ^= 1
				case Sub:
					s.Op = Mul
				case Mul:
					s.Op = Sub
				case Fma:
					s.Op, s.C = Sub, 0
				}
			})
		}
		for k := range good.Consts {
			fails(fmt.Sprintf("shared value %d inverted", k), func(r *Recipe) { r.Consts[k] = ^r.Consts[k] })
		}
		if len(good.Out) > 1 {
			fails("two output words swapped", func(r *Recipe) { r.Out[0], r.Out[1] = r.Out[1], r.Out[0] })
		}
		if good.Mode == Deferred {
			fails("another scale", func(r *Recipe) { r.Scale[0]++ })
			fails("another offset", func(r *Recipe) { r.Offset[0]++ })
		}
	}
	t.Logf("%d changes", n)
}

func TestProofRefusesForeignBits(t *testing.T) {
	// Without its mask the second element leaks into the first, though only for
	// codes that the run over equal codes would not show.
	text := `recipe u8 f16 deferred
place 8[0*2+16]
scale -24
offset 0
step shr(w0,0)
out w0`
	r, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	err = Prove(r)
	if err == nil || !strings.Contains(err.Error(), "not its own") {
		t.Errorf("unmasked holes pass: %v", err)
	}
}

func TestPackAndRunOnRandomWords(t *testing.T) {
	all, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, r := range all {
		codes := make([]uint64, 2*r.Elements())
		for i := range codes {
			codes[i] = rnd.Uint64N(r.From.Mask() + 1)
		}
		words := r.Pack(codes)
		back := r.Unpack(words)
		for i, c := range codes {
			if back[i] != c && r.From.Decode(back[i]) != r.From.Decode(c) {
				t.Fatalf("%s: code %#x is unpacked as %#x", r.From, c, back[i])
			}
		}
		for u := range 2 {
			out := r.Run(words[u*r.Place.Words():][:r.Place.Words()])
			for e := range r.Elements() {
				got := uint64(out[e/2] >> (e % 2 * 16) & 0xffff)
				if want, ok := r.right(codes[u*r.Elements()+e], e/2, got); !ok {
					t.Errorf("%s to %s: element %d is %s, want %s", r.From, r.To, e, r.To.Format(got), want)
				}
			}
		}
	}
}

func TestParseErrors(t *testing.T) {
	const good = "recipe u8 f16 deferred\nplace 8[0*4+8]\nscale -24 -24\noffset 0 0\nconst 00ff00ff\n" +
		"step lop3(w0,c0,c0,0xc0) shr(w0,8) lop3(t1,c0,c0,0xc0)\nout t0 t2"
	if _, err := Parse(good); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"recipe u8", "recipe u9", "not an element type"},
		{"deferred", "lazy", "exact|deferred"},
		{"8[0*4+8]", "8[0*4+4]", "both lie"},
		{"8[0*4+8]", "8[0*3+8]", "no unit"},
		{"scale -24", "scale x", "invalid syntax"},
		{"scale -24 -24\n", "", "scales"},
		{"const 00ff00ff\n", "", "no value"},
		{"shr(w0,8)", "shr(w0,32)", "too large"},
		{"shr(w0,8)", "shr(w0,w0,8)", "takes 1"},
		{"shr(w0,8)", "shr(t1,8)", "no value"},
		{"shr(w0,8)", "sar(w0,8)", "no step"},
		{"shr(w0,8)", "shr", "is no step"},
		{"out t0 t2", "out t0 t3", "no value"},
		{"out t0 t2", "in t0", "no line"},
		{"recipe u8", "recode\nrecipe u8", "the first"},
		{"scale", "recode\nscale", "no recoded storage"},
		{"scale", "domain zero\nscale", "no domain"},
		{"lop3(w0", "cvt_e4m3(w0,2) lop3(w0", "too large"},
		{"lop3(w0", "prmt(w0,w0,0x8888) lop3(w0", "too large"},
	} {
		_, err := Parse(strings.Replace(good, c.old, c.new, 1))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q gives %v, want %q", c.new, c.old, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	all, err := Table()
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range all {
		if r.Elements() <= 8 {
			f.Add(r.String())
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(r.String())
		if err != nil || again.String() != r.String() {
			t.Fatalf("%q is printed as %q, which is read as %v, %v", s, r, again, err)
		}
		if len(r.Steps) < 100 {
			Prove(r) // must end, whatever it says
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	for b.Loop() {
		if _, err := Lookup(dtype.U4, dtype.F16, Deferred, false); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSearchU4(b *testing.B) {
	for b.Loop() {
		if _, err := Search(dtype.U4, dtype.F16, Options{Mode: Deferred}); err != nil {
			b.Fatal(err)
		}
	}
}
