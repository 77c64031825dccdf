package conform

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/vm/layout/linear"
)

// f2Kinds are the kinds about layouts that are linear over F2.
func f2Kinds() []Kind {
	return []Kind{{"layout.f2_basis", "the bases of a fragment: what each bit of lane and register adds to (row, col)", f2Basis}}
}

// f2Basis goes both ways: the bases of the catalogue's layout are compared, and
// the layout that the expected bases make is the catalogue's.
func f2Basis(input, expect json.RawMessage) (string, error) {
	var in struct{ Fragment, Shape string }
	if err := json.Unmarshal(input, &in); err != nil {
		return "", fmt.Errorf("input: %w", err)
	}
	o, err := fragment(in.Shape, in.Fragment)
	if err != nil {
		return "", err
	}
	l, err := linear.FromRegister(o.Layout, arch.LanesPerWarp)
	if err != nil {
		return "", err
	}
	lanes, _ := l.InDim(linear.Lane)
	registers, _ := l.InDim(linear.Register)
	bases := func(d linear.Dim) [][]int { return append([][]int{}, d.Bases...) }
	if err := compare(map[string]any{
		"lane_bits":         bases(lanes),
		"reg_bits":          bases(registers),
		"zero_vector_means": "this lane bit only replicates",
	}, expect, nil); err != nil {
		return "", err
	}
	var want struct {
		Lanes     [][]int `json:"lane_bits"`
		Registers [][]int `json:"reg_bits"`
	}
	if err := json.Unmarshal(expect, &want); err != nil {
		return "", fmt.Errorf("expect: %w", err)
	}
	back, err := linear.New([]linear.Dim{{Name: linear.Register, Bases: want.Registers}, {Name: linear.Lane, Bases: want.Lanes}}, l.Out)
	if err != nil {
		return "", err
	}
	r, err := linear.ToRegister(back)
	if err == nil && !r.Equal(o.Layout) {
		err = fmt.Errorf("the bases make %s, the catalogue has %s", r, o.Layout)
	}
	return "", err
}

// fragment finds the operand that a name such as "wmma16.A_col", "wmma16.C_f32" or
// "mma.A" means: the instruction, the operand, and after it how a matrix lies
// in memory or the type of its elements.
func fragment(shape, name string) (arch.Operand, error) {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return arch.Operand{}, fmt.Errorf("fragment %q is not instruction.operand", name)
	}
	family := name[:dot]
	operand, variant, _ := strings.Cut(name[dot+1:], "_")
	var prefix string
	var suffix []string
	switch {
	case strings.HasPrefix(family, "wmma"):
		prefix = "wmma." + shape
		sum, a, b := "f32", "row", "row"
		switch variant {
		case "row", "col":
			if operand == "A" {
				a = variant
			} else {
				b = variant
			}
		case "f16", "f32":
			sum = variant
		default:
			return arch.Operand{}, fmt.Errorf("fragment %q: what is %q?", name, variant)
		}
		suffix = []string{sum, "f16", a, b, "sm_70"}
	default:
		prefix = "mma." + shape
		suffix = []string{"f32", "f16"}
		if variant == "f16" {
			suffix[0] = "f16"
		}
	}
	a, err := arch.FindAtom(prefix + "." + strings.Join(suffix, "."))
	if err != nil {
		return arch.Operand{}, err
	}
	o, ok := a.Operand(operand)
	if !ok || !slices.Contains([]string{"A", "B", "C", "D"}, operand) {
		return arch.Operand{}, fmt.Errorf("fragment %q: %s has no operand %q", name, a.Name, operand)
	}
	return o, nil
}
