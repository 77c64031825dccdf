package arch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// nvidiaOnly is NVIDIA's part, so that these tests say what is wrong with it alone.
func nvidiaOnly(t *testing.T) catalogue {
	t.Helper()
	c, err := newCatalogue(nvidiaAtoms())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// cuteLayout reads a CuTe layout and gives its value at a number, for tests: an
// evaluation of its own, so that the maps are compared and not two writings.
type cuteLayout struct {
	shape, stride []int // of the leaves, first fastest
}

func leaves(text string) []int {
	var out []int
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("(), ", r) }) {
		n, err := strconv.Atoi(f)
		if err != nil {
			panic(text)
		}
		out = append(out, n)
	}
	return out
}

// parts splits "(a,b)" at its top-level commas.
func parts(text string) []string {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "("), ")")
	var out []string
	depth, from := 0, 0
	for i, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				out, from = append(out, text[from:i]), i+1
			}
		}
	}
	return append(out, text[from:])
}

// threadValueModes reads "(threads,values):(…)".
func threadValueModes(text string) (threads, values cuteLayout) {
	at := strings.IndexByte(text, ':')
	shape, stride := parts(text[:at]), parts(text[at+1:])
	return cuteLayout{leaves(shape[0]), leaves(stride[0])}, cuteLayout{leaves(shape[1]), leaves(stride[1])}
}

func (l cuteLayout) size() int {
	n := 1
	for _, s := range l.shape {
		n *= s
	}
	return n
}

func (l cuteLayout) at(i int) int {
	sum := 0
	for k, s := range l.shape {
		sum += i % s * l.stride[k]
		i /= s
	}
	return sum
}

// columnMajor is the place of an element in CuTe's codomain: [M, K] and [M, N] as
// they are, B as [N, K].
func columnMajor(o Operand, index []int) int {
	r, c := index[len(index)-2], index[len(index)-1]
	if o.Name == "B" {
		return c + r*o.Shape[len(o.Shape)-1]
	}
	return r + c*o.Shape[len(o.Shape)-2]
}

// The same map written twice, in our algebra and in CuTe's notation.
func TestCuTeTextsAgreeWithLayouts(t *testing.T) {
	products, copies := 0, 0
	seen := map[string]bool{}
	for _, a := range nvidiaOnly(t).atoms {
		if a.M > 0 {
			for _, o := range a.Operands {
				key := o.Name + o.CuTe + o.Layout.Key()
				if !a.byCuTe() || o.CuTe == "" || a.Sparse() && o.Name == "A" || seen[key] {
					continue
				}
				seen[key] = true
				if o.Layout.Threads()*o.Layout.Slots() > 1<<19 && testing.Short() {
					continue
				}
				threads, values := threadValueModes(o.CuTe)
				if threads.size() != o.Layout.Threads() || values.size() != o.Layout.Slots() {
					t.Errorf("%s %s: %s is %d×%d, %s is %d×%d", a.Name, o.Name, o.CuTe, threads.size(), values.size(), o.Layout, o.Layout.Threads(), o.Layout.Slots())
					continue
				}
				products++
				lanes := threads.size()
				if o.In == InShared {
					lanes = min(lanes, 2) // all lanes alike
				}
				for lane := range lanes {
					for v := range values.size() {
						if got, want := columnMajor(o, o.Layout.Index(lane, v)), threads.at(lane)+values.at(v); got != want {
							t.Fatalf("%s %s: lane %d slot %d: %s says %d, CuTe's %s says %d", a.Name, o.Name, lane, v, o.Layout, got, o.CuTe, want)
						}
					}
				}
			}
			continue
		}
		// Copies: CuTe counts bits of [rows, columns] in a row. What a lane receives
		// must come from the same source in both writings.
		s, _ := a.Operand("S")
		d, _ := a.Operand("D")
		if !a.byCuTe() {
			continue
		}
		copies++
		regs, memory := d, s
		if d.In != InRegisters {
			regs, memory = s, d
		}
		rt, rv := threadValueModes(regs.CuTe)
		mt, mv := threadValueModes(memory.CuTe)
		bits := regs.Type.Bits()
		if regs.Bits != 0 {
			bits = regs.Bits
		}
		if rt.size() != regs.Layout.Threads() || rv.size() != regs.Layout.Slots()*bits || mt.size() != 32 {
			t.Errorf("%s: %s is %d lanes of %d bits, %s is %d of %d", a.Name, regs.CuTe, rt.size(), rv.size(), regs.Layout, regs.Layout.Threads(), regs.Layout.Slots()*bits)
			continue
		}
		// The row and column of each bit as CuTe's memory side counts it.
		place := map[int][2]int{}
		if memory.In == InShared {
			for lane := range memory.Shape[0] {
				for v := range mv.size() {
					place[mt.at(lane)+mv.at(v)] = [2]int{lane, v / bits}
				}
			}
		} else {
			for i := range regs.Layout.Size() {
				place[i*bits] = [2]int{i / regs.Shape[1], i % regs.Shape[1]}
			}
		}
		for lane := range 32 {
			for v := range regs.Layout.Slots() {
				got, want := regs.Layout.Index(lane, v), place[rt.at(lane)+rv.at(v*bits)]
				if got[0] != want[0] || got[1] != want[1] {
					t.Fatalf("%s: lane %d slot %d: %s says %v, CuTe's %s says %v", a.Name, lane, v, regs.Layout, got, regs.CuTe, want)
				}
			}
		}
	}
	if products < 150 || copies < 60 {
		t.Errorf("compared only %d maps of products and %d copies", products, copies)
	}
}

type vector struct {
	Name  string
	Input struct {
		Op, Atom string
		Types    map[string]string
		Same     []string `json:"same_layouts"`
	}
	Expect json.RawMessage
}

func cuteVectors(t *testing.T) []vector {
	t.Helper()
	raw, err := os.ReadFile("../../tests/testdata/cases/cute.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// Every atom of CuTe has a row, with CuTe's shape, types, threads and maps.
func TestCuTeVectors(t *testing.T) {
	c := nvidiaOnly(t)
	find := func(name string) (Atom, bool) {
		i, ok := c.index[name]
		if !ok {
			t.Errorf("no row is called %s", name)
			return Atom{}, false
		}
		return c.atoms[i], true
	}
	for _, v := range cuteVectors(t) {
		switch v.Input.Op {
		case "catalog":
			var e struct {
				Atoms map[string]json.RawMessage
			}
			if err := json.Unmarshal(v.Expect, &e); err != nil {
				t.Fatal(err)
			}
			for name, raw := range e.Atoms {
				var mnk []int
				var types []string
				var holder string
				if err := json.Unmarshal(raw, &[]any{&mnk, &types, &holder}); err != nil {
					t.Fatal(err)
				}
				a, ok := find(name)
				h, ok2 := find(holder)
				if !ok || !ok2 {
					continue
				}
				if !slices.Equal(mnk, []int{a.M, a.N, a.K}) {
					t.Errorf("%s is %d×%d×%d, CuTe says %v", name, a.M, a.N, a.K, mnk)
				}
				for i, op := range []string{"D", "A", "B", "C"} {
					o, ok := a.Operand(op)
					if op == "D" && a.Family == "tcgen05.mma" {
						o, ok = a.Operand("C")
					}
					if !ok || o.CuTeType != types[i] {
						t.Errorf("%s: operand %s has type %q, CuTe says %q", name, op, o.CuTeType, types[i])
					}
					if ho, _ := h.Operand(op); op != "D" && ho.CuTe != o.CuTe {
						t.Errorf("%s: operand %s is %s, %s has %s", name, op, o.CuTe, holder, ho.CuTe)
					}
				}
			}
		case "mma_atom":
			var e struct {
				MNK     []int
				ThrID   string
				A, B, C struct {
					Layout, Digest  string `json:"-"`
					Threads, Values int
					SHA             string `json:"tv_sha256"`
				}
			}
			if err := json.Unmarshal(v.Expect, &e); err != nil {
				t.Fatal(err)
			}
			a, ok := find(v.Input.Atom)
			if !ok {
				continue
			}
			id := a.ThrID
			if id == "" {
				id = fmt.Sprintf("%d:1", a.Lanes)
			}
			if id != e.ThrID {
				t.Errorf("%s: threads %s, CuTe says %s", a.Name, id, e.ThrID)
			}
			for _, x := range []struct {
				op              string
				threads, values int
				sha             string
			}{{"A", e.A.Threads, e.A.Values, e.A.SHA}, {"B", e.B.Threads, e.B.Values, e.B.SHA}, {"C", e.C.Threads, e.C.Values, e.C.SHA}} {
				o, _ := a.Operand(x.op)
				var lines strings.Builder
				l := o.Layout
				if l.Threads() != x.threads || l.Slots() != x.values {
					t.Errorf("%s %s: %d×%d, CuTe says %d×%d", a.Name, x.op, l.Threads(), l.Slots(), x.threads, x.values)
					continue
				}
				for lane := range l.Threads() {
					for slot := range l.Slots() {
						at := l.Index(lane, slot)
						r, c := at[len(at)-2], at[len(at)-1]
						if x.op == "B" {
							r, c = c, r
						}
						if lane+slot > 0 {
							lines.WriteByte('\n')
						}
						fmt.Fprintf(&lines, "%d,%d,%d,%d", lane, slot, r, c)
					}
				}
				sum := sha256.Sum256([]byte(lines.String()))
				if hex.EncodeToString(sum[:]) != x.sha {
					t.Errorf("%s operand %s: %s has another map than CuTe", v.Input.Atom, x.op, l)
				}
			}
		case "copy_atom":
			var e struct {
				ThrID    string
				Src, Dst string
			}
			var raw map[string]string
			if err := json.Unmarshal(v.Expect, &raw); err != nil {
				t.Fatal(err)
			}
			e.ThrID, e.Src, e.Dst = raw["ThrID"], raw["src_TV_bits"], raw["dst_TV_bits"]
			for _, name := range append([]string{v.Input.Atom}, v.Input.Same...) {
				a, ok := find(name)
				if !ok {
					continue
				}
				id := a.ThrID
				if id == "" {
					id = fmt.Sprintf("%d:1", a.Lanes)
				}
				if id != e.ThrID {
					t.Errorf("%s: threads %s, CuTe says %s", name, id, e.ThrID)
				}
				s, _ := a.Operand("S")
				d, _ := a.Operand("D")
				if s.CuTe != e.Src || d.CuTe != e.Dst {
					t.Errorf("%s: %s → %s, CuTe says %s → %s", name, s.CuTe, d.CuTe, e.Src, e.Dst)
				}
			}
		}
	}
}

func TestCatalogueLoads(t *testing.T) {
	c := nvidiaOnly(t)
	t.Logf("%d atoms, %d names", len(c.atoms), len(c.index))
}
