package conform

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
)

// mmaKinds are the kinds about which lane holds what, and what tensor cores add.
func mmaKinds() []Kind {
	ask := func(name, doc string, answer func(in mmaInput) (map[string]any, error)) Kind {
		return Kind{name, doc, func(input, expect json.RawMessage) (string, error) {
			var in mmaInput
			if err := json.Unmarshal(input, &in); err != nil {
				return "", fmt.Errorf("input: %w", err)
			}
			got, err := answer(in)
			if err != nil {
				return "", err
			}
			return "", compare(got, expect, nil)
		}}
	}
	return []Kind{
		ask("mma.fragment", "elements that lanes hold of an operand of mma.sync", mmaFragment),
		ask("volta.fragment", "elements that the lanes of a quadpair hold", voltaFragment),
		ask("volta.wmma_fragment", "elements that lanes hold of wmma's operands on Volta", wmmaFragment),
		ask("ldmatrix.fragment", "ldmatrix gives the fragment of A", ldmatrixFragment),
		ask("turing.numeric", "sums of a tensor core after Volta", turingNumeric),
		ask("turing.cycles", "cycles of wmma on Turing", turingCycles),
	}
}

type mmaInput struct {
	Op, Operand, Layout, Type, Shape string
	Lanes                            []int
	Quadpair                         int
	Row                              string `json:"row_address_of_lane"`
	Num                              int
	Trans                            bool
	Desc, Device                     string
}

// places is what each lane holds of an operand, slot by slot.
func places(o arch.Operand, lanes []int) (map[string]any, error) {
	out := map[string]any{}
	for _, l := range lanes {
		if l < 0 || l >= o.Layout.Threads() {
			return nil, fmt.Errorf("there are %d lanes, not %d", o.Layout.Threads(), l)
		}
		var at [][]int
		for slot := range o.Layout.Slots() {
			index := o.Layout.Index(l, slot)
			at = append(at, index[len(index)-2:])
		}
		out[strconv.Itoa(l)] = at
	}
	return out, nil
}

// mmaFragment finds mma.m16n8k8.f16 among the instructions of that shape and input
// type: the fragment of A and B depends on nothing else, that of C on the type of
// the sums, which f32 stands for.
func mmaFragment(in mmaInput) (map[string]any, error) {
	shape, typ, ok := strings.Cut(strings.TrimPrefix(in.Op, "mma."), ".")
	if !ok {
		return nil, fmt.Errorf("%q names no shape and type", in.Op)
	}
	var atom arch.Atom
	for _, sums := range []string{"f32", "s32", "f64", "f16"} {
		for _, tail := range []string{"", ".row.col", ".xor.popc"} {
			if a, err := arch.FindAtom("mma." + shape + "." + sums + "." + typ + tail); err == nil && atom.Name == "" {
				atom = a
			}
		}
	}
	if atom.Name == "" {
		return nil, fmt.Errorf("the catalogue has no mma.%s of %s", shape, typ)
	}
	o, ok := atom.Operand(in.Operand)
	if !ok {
		return nil, fmt.Errorf("%s has no operand %q", atom.Name, in.Operand)
	}
	at, err := places(o, in.Lanes)
	return map[string]any{"coords_row_col": at}, err
}

// voltaFragment is mma.m8n8k4 for one quadpair; the operand is A_row, B_col, C_f32
// and so on.
func voltaFragment(in mmaInput) (map[string]any, error) {
	name, kind, _ := strings.Cut(in.Operand, "_")
	a, b, sums := "row", "col", "f32"
	switch name {
	case "A":
		a = kind
	case "B":
		b = kind
	default:
		sums = strings.Replace(kind, "fp", "f", 1)
	}
	atom, err := arch.FindAtom("mma.m8n8k4." + sums + ".f16." + a + "." + b)
	if err != nil {
		return nil, err
	}
	o, ok := atom.Operand(name)
	if !ok {
		return nil, fmt.Errorf("%s has no operand %q", atom.Name, name)
	}
	for _, l := range in.Lanes {
		if l < 0 || l > 31 || o.Layout.Index(l, 0)[0] != in.Quadpair {
			return nil, fmt.Errorf("lane %d is not in quadpair %d", l, in.Quadpair)
		}
	}
	at, err := places(o, in.Lanes)
	same := true
	for l := range 4 {
		for slot := range o.Layout.Slots() {
			for q := 1; q < 4; q++ {
				for h := range 2 {
					same = same && slices.Equal(o.Layout.Index(l+16*h, slot)[1:], o.Layout.Index(l+16*h+4*q, slot)[1:])
				}
			}
		}
	}
	return map[string]any{"coords_row_col": at, "same_for_all_quadpairs": same}, err
}

func wmmaFragment(in mmaInput) (map[string]any, error) {
	a, b, sums := "row", "col", "f32"
	switch in.Operand {
	case "A":
		a = in.Layout
	case "B":
		b = in.Layout
	default:
		sums = in.Type
	}
	atom, err := arch.FindAtom("wmma." + in.Shape + "." + sums + ".f16." + a + "." + b + ".sm_70")
	if err != nil {
		return nil, err
	}
	o, ok := atom.Operand(in.Operand)
	if !ok {
		return nil, fmt.Errorf("%s has no operand %q", atom.Name, in.Operand)
	}
	at, err := places(o, in.Lanes)
	return map[string]any{"coords_row_col": at}, err
}

// ldmatrixFragment lets ldmatrix read a 16×16 matrix whose rows the lanes name by
// the formula of the input, and looks where the elements arrive.
func ldmatrixFragment(in mmaInput) (map[string]any, error) {
	row, col, ok := strings.Cut(in.Row, ",")
	r, err1 := laneFormula(strings.TrimPrefix(strings.TrimSpace(row), "row ="))
	c, err2 := laneFormula(strings.TrimPrefix(strings.TrimSpace(col), "col ="))
	if !ok || err1 != nil || err2 != nil {
		return nil, fmt.Errorf("%q is no row and column of a lane", in.Row)
	}
	name := fmt.Sprintf("ldmatrix.m8n8.x%d", in.Num)
	if in.Trans {
		name += ".trans"
	}
	atom, err := arch.FindAtom(name + ".b16")
	if err != nil {
		return nil, err
	}
	d, _ := atom.Operand("D")
	// The element of the 16×16 matrix that lane l gets in slot s.
	at := func(l, s int) [2]int {
		x := d.Layout.Index(l, s) // row of the rows that lanes name, place in it
		return [2]int{r(x[0]), c(x[0]) + x[1]}
	}
	lanes, formula := 0, true
	var fragment string
	for _, a := range arch.Atoms() {
		if a.Family != "mma" || a.Vendor != "nvidia" || a.Blocks > 1 || fragment != "" {
			continue
		}
		for _, o := range a.Operands {
			if o.Type.Bits() != 16 || o.Layout.Slots() != d.Layout.Slots() || o.Layout.Threads() != 32 || fragment != "" {
				continue
			}
			same := true
			for l := range 32 {
				for s := range d.Layout.Slots() {
					x := o.Layout.Index(l, s)
					same = same && at(l, s) == [2]int{x[0], x[1]}
				}
			}
			if same {
				fragment = fmt.Sprintf("%s %s", strings.Join(strings.Split(a.Name, ".")[:2], "."), o.Name)
			}
		}
	}
	for l := range 32 {
		lanes++
		for s := range d.Layout.Slots() {
			reg, h := s/2, s%2
			formula = formula && at(l, s) == [2]int{8*(reg%2) + l/4, 8*(reg/2) + 2*(l%4) + h}
		}
	}
	got := map[string]any{"checked_lanes": lanes, "equals": fragment + " fragment element 2r+h"}
	if formula {
		got["register_r_lane_l_half_h"] = "row = 8*(r mod 2)+l/4, col = 8*(r div 2)+2*(l mod 4)+h"
	}
	return got, nil
}

// laneFormula reads "lane mod 16" and "8*(lane div 16)".
func laneFormula(text string) (func(lane int) int, error) {
	factor := 1
	text = strings.TrimSpace(text)
	if n, rest, ok := strings.Cut(text, "*"); ok {
		v, err := strconv.Atoi(strings.TrimSpace(n))
		if err != nil {
			return nil, err
		}
		factor, text = v, strings.Trim(strings.TrimSpace(rest), "()")
	}
	f := strings.Fields(text)
	if len(f) != 3 || f[0] != "lane" {
		return nil, fmt.Errorf("%q is no formula of a lane", text)
	}
	n, err := strconv.Atoi(f[2])
	switch {
	case err != nil || n <= 0:
		return nil, fmt.Errorf("%q is no formula of a lane", text)
	case f[1] == "mod":
		return func(l int) int { return factor * (l % n) }, nil
	case f[1] == "div":
		return func(l int) int { return factor * (l / n) }, nil
	}
	return nil, fmt.Errorf("%q is no formula of a lane", text)
}

// turingNumeric adds what the description says, such as
// "C=-(1-2^-24), product 1".
func turingNumeric(in mmaInput) (map[string]any, error) {
	head, list, ok := strings.Cut(in.Desc, ",")
	c, isC := strings.CutPrefix(strings.TrimSpace(head), "C=")
	list = strings.TrimSpace(list)
	for _, word := range []string{"products", "product"} {
		list = strings.TrimPrefix(list, word)
	}
	if !ok || !isC {
		return nil, fmt.Errorf("%q does not name C and products", in.Desc)
	}
	start, err := arithmetic(c)
	if err != nil {
		return nil, err
	}
	var products []float64
	for _, p := range strings.Split(list, ",") {
		v, err := arithmetic(p)
		if err != nil {
			return nil, err
		}
		products = append(products, v)
	}
	adder := volta.T4
	if in.Device == "V100" {
		adder = volta.V100
	}
	return map[string]any{"result": adder.Add(volta.F32, start, products)}, nil
}

// arithmetic evaluates sums, products and powers of numbers: "-(1-2^-24)".
func arithmetic(text string) (float64, error) {
	at := 0
	text = strings.ReplaceAll(text, " ", "")
	bad := false
	next := func(c byte) bool {
		if at < len(text) && text[at] == c {
			at++
			return true
		}
		return false
	}
	var sum func() float64
	var unary func() float64
	primary := func() float64 {
		if next('(') {
			v := sum()
			bad = bad || !next(')')
			return v
		}
		from := at
		for at < len(text) && (text[at] >= '0' && text[at] <= '9' || text[at] == '.') {
			at++
		}
		v, err := strconv.ParseFloat(text[from:at], 64)
		bad = bad || err != nil
		return v
	}
	power := func() float64 {
		v := primary()
		if next('^') {
			return math.Pow(v, unary())
		}
		return v
	}
	unary = func() float64 {
		if next('-') {
			return -power()
		}
		return power()
	}
	term := func() float64 {
		v := unary()
		for next('*') {
			v *= unary()
		}
		return v
	}
	sum = func() float64 {
		v := term()
		for {
			switch {
			case next('+'):
				v += term()
			case next('-'):
				v -= term()
			default:
				return v
			}
		}
	}
	v := sum()
	if bad || at != len(text) {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return v, nil
}

func turingCycles(in mmaInput) (map[string]any, error) {
	if in.Device != "RTX 2080" || in.Op != "wmma.mma" {
		return nil, fmt.Errorf("cycles of %s on %s are not known", in.Op, in.Device)
	}
	got := map[string]any{"steps_visible_in_sass": false}
	words := map[string]string{"f32": "fp32_acc", "f16": "fp16_acc", "s8": "int8", "s4": "int4"}
	for _, c := range arch.WMMACycles {
		got[fmt.Sprintf("%dx%dx%d_%s", c.M, c.N, c.K, words[c.Sums])] = c.Cycles
	}
	// Turing's HMMA.1688 is mma.m16n8k8.
	a, err := arch.FindAtom("mma.m16n8k8.f32.f16")
	if err != nil {
		return nil, err
	}
	got["hmma_1688_per_16x16x16"] = 16 * 16 * 16 / (a.M * a.N * a.K)
	loaded := 0
	for _, name := range []string{"A", "B"} {
		o, _ := a.Operand(name)
		loaded = max(loaded, o.Layout.Replicas())
	}
	got["each_element_loaded"] = loaded
	return got, nil
}
