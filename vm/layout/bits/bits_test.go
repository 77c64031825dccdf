package bits

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// random is a placement with or without holes.
func random(r *rand.Rand) Placement {
	bits, n, spare := 1+r.IntN(9), r.IntN(40), r.IntN(3)
	words := wordsFor(bits*n) + spare
	return must(New(bits, words, r.Perm(32 * words)[:bits*n]))
}

// fields is a random placement that keeps elements whole and evenly spread, so
// that its text folds.
func fields(r *rand.Rand) Placement {
	bits := 1 << r.IntN(4)
	per := 32 / bits
	order := r.Perm(per)
	words := 1 + r.IntN(3)
	var at []int
	for w := range words {
		for _, f := range order {
			for b := range bits {
				at = append(at, 32*w+f*bits+b)
			}
		}
	}
	return must(New(bits, words, at))
}

func full(r *rand.Rand, bits, words int) Placement {
	return must(New(bits, words, r.Perm(32*words)))
}

func TestText(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{"4[0,16,4,20,8,24,12,28]", "4[(0,16)*4+4]"},
		{"4[((0,16)*4+4)*3+32]", "4[((0,16)*4+4)*3+32]"},
		{" 4 [ ( 0 , 16 ) * 4 + 4 ] ", "4[(0,16)*4+4]"},
		{"5[0:3|32:2]", "5[0:3|32:2]"},
		{"5[0:3|32]", "5[0:3|32:2]"},
		{"4[0:2|2:2]", "4[0]"},
		{"4[0*8+4]", "4[0*8+4]"},
		{"4[28*8-4]", "4[28*8-4]"},
		{"4[0*4+4]/2", "4[0*4+4]/2"},
		{"1[0,1]", "1[0,1]"},
		{"6[]", "6[]"},
		{"6[]/1", "6[]/1"},
		{"64[0]", "64[0]"},
		{"2[1:1|0:1]", "2[1:1|0:1]"},
	} {
		p, err := Parse(c.in)
		if err != nil {
			t.Errorf("Parse(%q): %v", c.in, err)
			continue
		}
		if got := p.String(); got != c.out {
			t.Errorf("Parse(%q) prints %q, want %q", c.in, got, c.out)
		}
	}
}

func TestTextRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		for _, p := range []Placement{random(r), fields(r)} {
			q, err := Parse(p.String())
			if err != nil || !q.Equal(p) {
				t.Fatalf("%v is read back as %v, %v", p, q, err)
			}
		}
	}
	if p := must(New(1, MaxWords, r.Perm(32*MaxWords))); len(p.String()) > MaxText {
		t.Errorf("a placement prints %d bytes, more than can be read", len(p.String()))
	}
}

func TestTextErrors(t *testing.T) {
	for _, c := range []struct {
		in, code string
		col      int
	}{
		{"", "Place.E1", 1},
		{"4", "Place.E1", 2},
		{"4[0", "Place.E1", 4},
		{"4[0] x", "Place.E1", 6},
		{"4[0*3]", "Place.E1", 6},
		{"4[0,]", "Place.E1", 5},
		{"0[0]", "Place.E2", 1},
		{"65[0]", "Place.E2", 1},
		{"4[99999]", "Place.E2", 3},
		{"4[0]/999", "Place.E2", 6},
		{"4[0*9999+4]", "Place.E2", 5},
		{"4[(0*4096+1)*4096+1]", "Place.E2", 4},
		{"4[" + strings.Repeat("(", 40), "Place.E2", 20},
		{"5[0:3|32:3]", "Place.E3", 3},
		{"5[0:3]", "Place.E3", 3},
		{"5[0|32:2]", "Place.E3", 3},
		{"4[0,2]", "Place.E4", 3},
		{"4[0,16,32]/1", "Place.E4", 3},
		{"4[8*4-4]", "Place.E4", 3},
	} {
		_, err := ParseAt(c.in, diag.Pos{File: "f", Line: 3, Col: 11})
		l, ok := err.(diag.List)
		if !ok || len(l) != 1 {
			t.Errorf("Parse(%q) gives %v", c.in, err)
			continue
		}
		if l[0].Code != c.code || l[0].Pos.Col != c.col+10 || l[0].Pos.Line != 3 {
			t.Errorf("Parse(%q) gives %v, want %s in column %d", c.in, err, c.code, c.col+10)
		}
	}
}

func TestParsePrefix(t *testing.T) {
	_, n, err := ParsePrefix("4[0] // comment", diag.Pos{Line: 1, Col: 1})
	if err != nil || n != 4 {
		t.Errorf("prefix ends at %d, %v", n, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, f := range map[string]func() (Placement, error){
		"width":   func() (Placement, error) { return New(0, 1, nil) },
		"words":   func() (Placement, error) { return New(1, MaxWords+1, nil) },
		"count":   func() (Placement, error) { return New(2, 1, []int{0}) },
		"outside": func() (Placement, error) { return New(1, 1, []int{32}) },
		"twice":   func() (Placement, error) { return New(1, 1, []int{3, 3}) },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestIdentityIsSlotOrder(t *testing.T) {
	for w := 1; w <= 9; w++ {
		p := Identity(w, 32)
		if !p.IsIdentity() || !p.Full() {
			t.Errorf("%v is not the identity", p)
		}
		codes := make([]uint64, 64)
		r := rand.New(rand.NewPCG(uint64(w), 3))
		for i := range codes {
			codes[i] = r.Uint64N(1 << w)
		}
		data := dtype.Pack(w, codes)
		for i, word := range p.Pack(codes) {
			if want := uint32(dtype.Get(data, 32, i)); word != want {
				t.Errorf("%d bits: word %d is %#x, dtype packs %#x", w, i, word, want)
			}
		}
	}
	if must(New(4, 2, []int{0, 1, 2, 3})).IsIdentity() {
		t.Error("a spare word is not the identity")
	}
}

func TestPackIsInvertible(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		p := random(r)
		codes := make([]uint64, 3*p.Elements())
		for i := range codes {
			codes[i] = r.Uint64N(1 << p.Bits())
		}
		words := p.Pack(codes)
		if got := p.Unpack(words); !slices.Equal(got, codes) {
			t.Fatalf("%v: unpacks to other codes", p)
		}
		// Pack agrees with At, bit by bit.
		for e := range p.Elements() {
			for b := range p.Bits() {
				pos := p.At(e, b)
				if uint64(words[pos/32]>>(pos%32)&1) != codes[e]>>b&1 {
					t.Fatalf("%v: bit %d of element %d is not at %d", p, b, e, pos)
				}
				if oe, ob, ok := p.Owner(pos); !ok || oe != e || ob != b {
					t.Fatalf("%v: Owner(%d) = %d, %d, %v", p, pos, oe, ob, ok)
				}
			}
		}
	}
}

func TestLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		p, q, s := full(r, 4, 2), full(r, 8, 2), full(r, 32, 2)
		pq, _ := p.Then(q)
		qs, _ := q.Then(s)
		left, err1 := pq.Then(s)
		right, err2 := p.Then(qs)
		if err1 != nil || err2 != nil || !left.Equal(right) {
			t.Fatal("Then is not associative")
		}
		inv, err := p.Invert()
		if err != nil {
			t.Fatal(err)
		}
		if id, err := p.Then(inv); err != nil || !id.IsIdentity() {
			t.Fatalf("p.Then(p.Invert()) = %v, %v", id, err)
		}
		back, _ := inv.Invert()
		if got, _ := Identity(4, 16).Then(back); !got.Equal(p) {
			t.Fatal("the inverse of the inverse is another placement")
		}
		two, err := p.Repeat(2)
		if err != nil {
			t.Fatal(err)
		}
		codes := make([]uint64, 32)
		for i := range codes {
			codes[i] = r.Uint64N(16)
		}
		if !slices.Equal(two.Pack(codes), p.Pack(codes)) {
			t.Fatal("Repeat packs other than twice")
		}
		for _, q := range []Placement{p, qs} {
			for n := range 4 {
				if again, err := q.Repeat(n); err != nil || two.Repeats(q, n) != again.Equal(two) {
					t.Fatalf("%s: %d times %s: Repeats %t", two, n, q, two.Repeats(q, n))
				}
			}
		}
	}
	if _, err := must(New(4, 1, []int{0, 1, 2, 3})).Invert(); err == nil {
		t.Error("a placement with holes has an inverse")
	}
	if _, err := Identity(4, 8).Then(Identity(4, 16)); err == nil {
		t.Error("Then takes another number of words")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"4[(0,16)*4+4]", "5[0:3|32:2]", "4[28*8-4]/9", "1[]/3", "3[((0,9)*2+3,16)*2+32]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(s)
		if err != nil {
			if _, ok := err.(diag.List); !ok {
				t.Fatalf("%T is no diag.List", err)
			}
			return
		}
		text := p.String()
		q, err := Parse(text)
		if err != nil || !q.Equal(p) || q.String() != text {
			t.Fatalf("%q prints as %q, which is read as %v, %v", s, text, q, err)
		}
	})
}

func BenchmarkPack(b *testing.B) {
	p, err := Parse("4[(0,16)*4+4]")
	if err != nil {
		b.Fatal(err)
	}
	codes := make([]uint64, 1<<16)
	b.SetBytes(1 << 15)
	for b.Loop() {
		p.Pack(codes)
	}
}
