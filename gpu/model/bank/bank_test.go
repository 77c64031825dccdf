package bank

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

func strided(n, stride int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i * stride
	}
	return out
}

func repeat(v, n int) []int { return slices.Repeat([]int{v}, n) }

func TestCount(t *testing.T) {
	nvidia := Nvidia()
	merge, _ := FindProfile("sm_75")
	hopper, _ := FindProfile("sm_90a")
	alternate := strided(32, 0)
	for i := range alternate {
		alternate[i] = i % 2 * 128
	}
	pairs := make([]int, 32)
	for i := range pairs {
		pairs[i] = i / 2 * 16
	}
	wide := make([]int, 32)
	for i := range wide {
		wide[i] = i % 2 * 256
	}
	holes := strided(32, 128)
	for i := 2; i < 32; i++ {
		holes[i] = Inactive
	}
	for _, c := range []struct {
		name    string
		p       Profile
		a       Access
		degrees []int
		why     string
	}{
		{"row", nvidia, Access{Load, 4, strided(32, 4), 0, nil}, []int{1}, "32 words in as many banks"},
		{"column", nvidia, Access{Store, 4, strided(32, 128), 0, nil}, []int{32}, "bank 0 is asked for 32 different words: lane 0 wants word 0 (byte 0x0), lane 1 word 32 (byte 0x80), 128 bytes apart, and banks repeat every 128"},
		{"uniform", nvidia, Access{Load, 4, repeat(64, 32), 0, nil}, []int{1}, "up to 32 lanes share one (broadcast)"},
		{"two words", nvidia, Access{Load, 4, alternate, 0, nil}, []int{2}, "bank 0"},
		{"bytes", nvidia, Access{Load, 1, strided(32, 1), 0, nil}, []int{1}, "8 words"},
		{"halves by 64", nvidia, Access{Load, 2, strided(32, 64), 0, nil}, []int{16}, ""},
		{"8 by 16", nvidia, Access{Load, 8, strided(32, 16), 0, nil}, []int{2, 2}, ""},
		{"16 by 128", nvidia, Access{Load, 16, strided(32, 128), 0, nil}, []int{8, 8, 8, 8}, ""},
		{"16 by 144", nvidia, Access{Store, 16, strided(32, 144), 0, nil}, []int{1, 1, 1, 1}, ""},
		{"inactive lanes", nvidia, Access{Load, 4, holes, 0, nil}, []int{2}, "lane 0 wants word 0"},
		{"nobody", nvidia, Access{Load, 8, nil, 0, nil}, []int{0, 0}, "no lane"},
		{"half a warp", nvidia, Access{Load, 8, strided(16, 8), 0, nil}, []int{1, 0}, ""},
		{"uniform 16", nvidia, Access{Load, 16, repeat(0, 32), 0, nil}, []int{1, 1, 1, 1}, ""},
		{"uniform 16 merged", merge, Access{Load, 16, repeat(0, 32), 0, nil}, []int{1, 1}, ""},
		{"pairs 16 merged", merge, Access{Load, 16, pairs, 0, nil}, []int{1, 1}, ""},
		{"uniform 8 merged", hopper, Access{Load, 8, repeat(0, 32), 0, nil}, []int{1}, ""},
		{"alternate 8 merged", hopper, Access{Load, 8, wide, 0, nil}, []int{2}, ""},
		{"dense 8 does not merge", hopper, Access{Load, 8, strided(32, 8), 0, nil}, []int{1, 1}, ""},
		{"uniform 8 of cc7", merge, Access{Load, 8, repeat(0, 32), 0, nil}, []int{1, 1}, ""},
		{"stores do not merge", merge, Access{Store, 16, repeat(0, 32), 0, nil}, []int{1, 1, 1, 1}, ""},
		{"ldmatrix.x1", nvidia, Access{LdMatrix, 0, strided(8, 128), 0, nil}, []int{8}, ""},
		{"ldmatrix.x2", nvidia, Access{LdMatrix, 16, strided(16, 64), 0, nil}, []int{4, 4}, ""},
		{"stmatrix.x4", nvidia, Access{StMatrix, 16, strided(32, 80), 4, nil}, []int{1, 1, 1, 1}, ""},
		{"ldmatrix.x1 of 32 addresses", nvidia, Access{LdMatrix, 16, strided(32, 256), 1, nil}, []int{8}, ""},
		{"cp.async", nvidia, Access{CpAsync, 8, strided(32, 16), 0, repeat(4, 32)}, []int{2, 2}, ""},
		{"cp.async.cg", nvidia, Access{CpAsyncGlobal, 16, strided(32, 16), 0, nil}, []int{1, 1, 1, 1}, ""},
	} {
		r, err := Count(c.p, c.a)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !slices.Equal(r.Degrees(), c.degrees) {
			t.Errorf("%s: degrees %v, want %v", c.name, r.Degrees(), c.degrees)
		}
		sum, ideal := 0, 0
		for _, d := range c.degrees {
			sum += d
			ideal += min(d, 1)
		}
		if r.Wavefronts != sum || r.Ideal != ideal || r.Conflicts != sum-ideal {
			t.Errorf("%s: %d wavefronts, ideal %d, %d conflicts", c.name, r.Wavefronts, r.Ideal, r.Conflicts)
		}
		if !strings.Contains(r.Phases[0].Why, c.why) {
			t.Errorf("%s: says %q, want %q in it", c.name, r.Phases[0].Why, c.why)
		}
		for _, ph := range r.Phases {
			if ph.Degree > 1 {
				a := r.Access.Addrs
				x, y := a[ph.Pair[0]], a[ph.Pair[1]]
				if x/4 == y/4 || r.Access.Width <= 4 && x/4%32 != y/4%32 {
					t.Errorf("%s: lanes %v do not conflict", c.name, ph.Pair)
				}
			}
		}
		if c.a.Source != nil && r.ZeroFilled != 4*32 {
			t.Errorf("%s: %d bytes of zeros", c.name, r.ZeroFilled)
		}
	}
}

func TestCountRefuses(t *testing.T) {
	nvidia := Nvidia()
	old, _ := FindProfile("sm_75")
	amd, _ := FindProfile("gfx942")
	for _, c := range []struct {
		p    Profile
		a    Access
		lane int
		want string
	}{
		{nvidia, Access{Kind: Load, Width: 16, Addrs: []int{0, 16, 40}}, 2, "address 40 (0x28) is no multiple of 16"},
		{nvidia, Access{Kind: Load, Width: 3}, -1, "takes 1, 2, 4, 8, 16 bytes a lane, not 3"},
		{nvidia, Access{Kind: Load, Width: 4, Addrs: []int{0, -4}}, 1, "outside"},
		{nvidia, Access{Kind: Load, Width: 4, Addrs: []int{1 << 50}}, 0, "outside"},
		{nvidia, Access{Kind: Load, Width: 4, Addrs: strided(33, 4)}, -1, "33 addresses for the 32 lanes"},
		{nvidia, Access{Kind: LdMatrix, Addrs: strided(9, 16)}, -1, "every matrix takes 8"},
		{nvidia, Access{Kind: LdMatrix, Addrs: strided(24, 16)}, -1, "1, 2 or 4 matrices, not 3"},
		{nvidia, Access{Kind: LdMatrix, Addrs: strided(8, 8)}, 1, "no multiple of 16"},
		{nvidia, Access{Kind: LdMatrix, Addrs: append(strided(7, 16), Inactive)}, 7, "gives none"},
		{nvidia, Access{Kind: Load, Width: 4, Matrices: 2}, -1, "no matrices"},
		{old, Access{Kind: LdMatrix, Addrs: append(strided(8, 16), 3), Matrices: 1}, 8, "no multiple of 16"},
		{nvidia, Access{Kind: CpAsyncGlobal, Width: 8}, -1, "takes 16 bytes"},
		{nvidia, Access{Kind: CpAsync, Width: 8, Addrs: []int{0}, Source: []int{9}}, 0, "between 0 and the size"},
		{nvidia, Access{Kind: Load, Width: 8, Addrs: []int{0}, Source: []int{4}}, -1, "only cp.async"},
		{amd, Access{Kind: LdMatrix}, -1, "mi300 has no ldmatrix"},
	} {
		_, err := Count(c.p, c.a)
		var e *AccessError
		if !errors.As(err, &e) || e.Lane != c.lane || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q at lane %d", c.a, err, c.want, c.lane)
		}
	}
}

func TestProfiles(t *testing.T) {
	for _, p := range Profiles() {
		for _, r := range p.Rules {
			seen := map[int]int{}
			for _, ph := range r.Phases {
				for _, lane := range ph {
					seen[lane]++
				}
				if !slices.IsSorted(ph) {
					t.Errorf("%s %v: phase %v is not sorted", p.Name, r.Widths, ph)
				}
			}
			if len(seen) != p.Lanes {
				t.Errorf("%s %v: %d lanes of %d", p.Name, r.Widths, len(seen), p.Lanes)
			}
			for _, w := range r.Widths {
				if len(r.Phases[0])*max(1, w/4) > maxWords {
					t.Errorf("%s: a phase of width %d has too many words for Counter", p.Name, w)
				}
			}
		}
	}
	mi350, err := FindProfile("GFX950")
	if err != nil {
		t.Fatal(err)
	}
	r, err := mi350.Rule(Load, 16)
	if err != nil || fmt.Sprint(r.Phases[0]) != "[0 1 2 3 12 13 14 15 20 21 22 23 24 25 26 27]" {
		t.Errorf("phase 0 of MI350: %v, %v", r.Phases[0], err)
	}
	if _, err := FindProfile("volta"); err == nil {
		t.Error("a profile called volta")
	}
}

// TestRank compares the two implementations on random power-of-two patterns, with
// and without a swizzle.
func TestRank(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 6))
	n := 24_000
	for range n {
		p := Profiles()[rnd.IntN(len(Profiles()))]
		widths := []int{1, 2, 4, 8, 16}
		width := widths[rnd.IntN(len(widths))]
		kind := Kind(rnd.IntN(2))
		sw := layout.Swizzle{Bits: rnd.IntN(5), Base: 2 + rnd.IntN(4)}
		sw.Shift = (sw.Bits + rnd.IntN(4)) * (1 - 2*rnd.IntN(2))
		var laneBits []int
		for l := 1; l < p.Lanes; l *= 2 {
			v := rnd.IntN(8) // some lane bits move nothing, or several bits
			if v == 0 {
				v = rnd.IntN(1 << 12)
			} else if v = 1 << (rnd.IntN(12)); rnd.IntN(8) == 0 {
				v = 0
			}
			if sw.Base >= 4 {
				v = sw.Apply(v)
			}
			laneBits = append(laneBits, v/width*width)
		}
		base := rnd.IntN(256) / width * width
		addrs := make([]int, p.Lanes)
		for l := range addrs {
			addrs[l] = base
			for i, v := range laneBits {
				if l>>i&1 != 0 {
					addrs[l] ^= v
				}
			}
		}
		got, err := Rank(p, kind, width, laneBits)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Count(p, Access{Kind: kind, Width: width, Addrs: addrs})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range r.Degrees() {
			if d != got {
				t.Fatalf("%s %s of %d bytes, lane bits %v, base %d: degrees %v, by rank %d", p.Name, kind, width, laneBits, base, r.Degrees(), got)
			}
		}
		if b, lb, ok := XorLinear(addrs); !ok || b != base || !slices.Equal(lb, laneBits) {
			t.Fatalf("XorLinear(%v) is %d, %v, %v", addrs, b, lb, ok)
		}
	}
	if _, _, ok := XorLinear([]int{0, 1, 2, 4}); ok {
		t.Error("0, 1, 2, 4 is not XOR-linear")
	}
}

// TestCounter compares the fast counter with Count on random accesses.
func TestCounter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, p := range Profiles() {
		for _, rule := range p.Rules {
			if rule.Kinds[0].matrix() || p.Merge != nil {
				continue
			}
			for _, width := range rule.Widths {
				c, err := NewCounter(p, rule.Kinds[0], width)
				if err != nil {
					t.Fatal(err)
				}
				for range 300 {
					addrs, fast := make([]int, p.Lanes), make([]uint64, p.Lanes)
					var active uint64
					span := 1 << (2 + rnd.IntN(8))
					for l := range addrs {
						addrs[l] = Inactive
						if rnd.IntN(8) > 0 {
							active |= 1 << l
							addrs[l] = rnd.IntN(span) * p.alignment(width)
							fast[l] = uint64(addrs[l])
						}
					}
					r, err := Count(p, Access{Kind: rule.Kinds[0], Width: width, Addrs: addrs})
					if err != nil {
						t.Fatal(err)
					}
					if w, i := c.Count(active, fast); w != r.Wavefronts || i != r.Ideal {
						t.Fatalf("%s, %d bytes at %v: %d/%d, want %d/%d", p.Name, width, addrs, w, i, r.Wavefronts, r.Ideal)
					}
				}
			}
		}
	}
}

func TestGlobal(t *testing.T) {
	for _, c := range []struct {
		width          int
		addrs          []int
		sectors, lines int
		efficiency     float64
	}{
		{4, strided(32, 4), 4, 1, 1},
		{4, strided(32, 128), 32, 32, 0.125},
		{16, strided(32, 16), 16, 4, 1},
		{4, repeat(0, 32), 1, 1, 0.125},
		{1, strided(32, 1), 1, 1, 1},
		{8, []int{24, Inactive, 32}, 2, 1, 0.25},
		{2, nil, 0, 0, 0},
	} {
		r, err := Global(c.width, c.addrs)
		if err != nil || len(r.Sectors) != c.sectors || len(r.Lines) != c.lines || r.Efficiency != c.efficiency {
			t.Errorf("%d bytes at %v: %d sectors, %d lines, efficiency %v, %v", c.width, c.addrs, len(r.Sectors), len(r.Lines), r.Efficiency, err)
		}
		var active uint32
		var fast [32]uint64
		for l, a := range c.addrs {
			if a != Inactive {
				active |= 1 << l
				fast[l] = uint64(a)
			}
		}
		if n := Sectors(active, &fast, uint64(c.width)); n != c.sectors {
			t.Errorf("%d bytes at %v: %d sectors by the fast form, want %d", c.width, c.addrs, n, c.sectors)
		}
	}
	for _, c := range [][]int{{2}, {-8}, strided(65, 4)} {
		if _, err := Global(4, c); err == nil {
			t.Errorf("addresses %v are accepted", c)
		}
	}
}

// BenchmarkCounter is what the simulator pays for each access to shared memory.
func BenchmarkCounter(b *testing.B) {
	for _, stride := range []int{4, 8, 128} {
		b.Run(fmt.Sprint(stride), func(b *testing.B) {
			c, err := NewCounter(Nvidia(), Load, 4)
			if err != nil {
				b.Fatal(err)
			}
			addrs := make([]uint64, 32)
			for l := range addrs {
				addrs[l] = uint64(stride * l)
			}
			for b.Loop() {
				c.Count(1<<32-1, addrs)
			}
		})
	}
}
