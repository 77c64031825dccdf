package layoutviz

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/layoutviz/cuteprint"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
)

// places are words for where an operand lies that is not in registers.
var places = map[string]string{
	arch.InShared: "in shared memory",
	arch.InTensor: "in tensor memory, T is its lane",
}

// Atom draws an instruction of the catalogue in our look: a product as A, B and C,
// a copy as source and destination.
func Atom(a arch.Atom, o Options) (Picture, error) {
	var list []Fragment
	at := map[string]int{}
	for _, x := range a.Operands {
		if x.In == arch.Unspecified {
			return Picture{}, fmt.Errorf("layoutviz: the vendor does not say where operand %s of %s lies, so there is nothing to draw", x.Name, a.Name)
		}
		f := Fragment{Name: x.Name, Layout: x.Layout, Note: x.Note}
		if f.Note == "" {
			f.Note = places[x.In]
		}
		if x.Type != 0 {
			f.Note = joinNotes(x.Type.String(), f.Note)
		}
		at[x.Name] = len(list)
		list = append(list, f)
	}
	get := func(name string) (Fragment, bool) {
		i, ok := at[name]
		if !ok {
			return Fragment{}, false
		}
		return list[i], true
	}
	title := a.Name + " (" + a.Vendor + " " + a.Family + ")"
	if from, ok := get("S"); ok {
		to, ok := get("D")
		if !ok {
			return Picture{}, fmt.Errorf("layoutviz: %s has no destination", a.Name)
		}
		from.Name, to.Name = "source", "destination"
		return Copy(title, from, to, o)
	}
	x, okA := get("A")
	y, okB := get("B")
	z, okC := get("D")
	if !okA || !okB || !okC {
		return Picture{}, fmt.Errorf("layoutviz: %s has no operands A, B and D", a.Name)
	}
	var more []Fragment
	if c, ok := get("C"); ok {
		if c.Layout.Equal(z.Layout) {
			z.Name = "C and D"
		} else {
			more = append(more, c)
		}
	}
	for _, f := range list {
		switch f.Name {
		case "A", "B", "C", "D":
		default:
			more = append(more, f)
		}
	}
	return MMA(title, x, y, z, more, o)
}

func joinNotes(a, b string) string {
	if b == "" {
		return a
	}
	return a + ", " + b
}

// CuteAtom draws an instruction of the catalogue as CuTe's print_svg does, where
// CuTe has it: by the thread-value layouts in CuTe's own nesting.
func CuteAtom(a arch.Atom, o Options) (Picture, error) {
	m := cute.MMA{M: a.M, N: a.N, K: a.K}
	for _, x := range []struct {
		name string
		to   *cute.Layout
	}{{"A", &m.A}, {"B", &m.B}, {"C", &m.C}} {
		op, ok := a.Operand(x.name)
		if !ok || op.CuTe == "" {
			return Picture{}, fmt.Errorf("layoutviz: CuTe has no layout of operand %s of %s", x.name, a.Name)
		}
		l, err := cute.Parse(op.CuTe)
		if err != nil {
			return Picture{}, fmt.Errorf("layoutviz: operand %s of %s: %w", x.name, a.Name, err)
		}
		*x.to = l
	}
	ids := a.ThrID
	if ids == "" {
		ids = fmt.Sprint(a.Lanes)
	}
	var err error
	if m.ThrID, err = cute.Parse(ids); err != nil {
		return Picture{}, fmt.Errorf("layoutviz: lanes of %s: %w", a.Name, err)
	}
	t, err := cute.NewTiledMMA(m, cute.Layout{}, nil)
	if err != nil {
		return Picture{}, fmt.Errorf("layoutviz: %s: %w", a.Name, err)
	}
	ops, err := cuteprint.OperandsOf(t)
	if err != nil {
		return Picture{}, err
	}
	return CuteMMA(a.Name, ops, o)
}
