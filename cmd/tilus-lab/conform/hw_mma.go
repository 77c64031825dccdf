package conform

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
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
			return "", compare(got, expect, sameArrival)
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

// ldmatrixFragment lets ldmatrix read a matrix whose rows the lanes name by the
// formula of the input, and looks where the elements arrive.
func ldmatrixFragment(in mmaInput) (map[string]any, error) {
	row, col, err := rowAndColumn(in.Row, "lane")
	if err != nil {
		return nil, err
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
	// What lane l gets in slot s: the row that a lane names, and the place in it.
	arrive := make([][][2]int, d.Layout.Threads())
	for l := range arrive {
		for s := range d.Layout.Slots() {
			x := d.Layout.Index(l, s)
			arrive[l] = append(arrive[l], [2]int{row(x[0]), col(x[0]) + x[1]})
		}
	}
	return map[string]any{"checked_lanes": len(arrive), "equals": sameFragment(arrive) + " fragment element 2r+h", "register_r_lane_l_half_h": arrive}, nil
}

// sameFragment names the first operand of mma.sync whose fragment is this.
func sameFragment(at [][][2]int) string {
	for _, a := range arch.Atoms() {
		if a.Family != "mma" || a.Vendor != "nvidia" || a.Blocks > 1 || a.Lanes != len(at) {
			continue
		}
		for _, o := range a.Operands {
			if o.Type.Bits() != 16 || o.Layout.Slots() != len(at[0]) {
				continue
			}
			same := true
			for l := range at {
				for s, want := range at[l] {
					same = same && slices.Equal(o.Layout.Index(l, s), want[:])
				}
			}
			if same {
				return strings.Join(strings.Split(a.Name, ".")[:2], ".") + " " + o.Name
			}
		}
	}
	return "no"
}

// sameArrival compares where elements arrive with a formula of register r, lane l
// and half h.
func sameArrival(key string, got, want any) bool {
	text, ok := want.(string)
	lanes, ok2 := got.([]any)
	if key != "register_r_lane_l_half_h" || !ok || !ok2 {
		return false
	}
	row, col, err := rowAndColumn(text, "r", "l", "h")
	if err != nil {
		return false
	}
	for l, slots := range lanes {
		for s, at := range slots.([]any) {
			x := at.([]any)
			if x[0] != float64(row(s/2, l, s%2)) || x[1] != float64(col(s/2, l, s%2)) {
				return false
			}
		}
	}
	return true
}

// rowAndColumn reads "row = 8*(r mod 2)+l/4, col = l mod 4" as formulas of the
// variables.
func rowAndColumn(text string, vars ...string) (row, col func(...int) int, err error) {
	r, c, ok := strings.Cut(text, ",")
	r, ok1 := strings.CutPrefix(strings.TrimSpace(r), "row =")
	c, ok2 := strings.CutPrefix(strings.TrimSpace(c), "col =")
	if !ok || !ok1 || !ok2 {
		return nil, nil, fmt.Errorf("%q is no row and column", text)
	}
	if row, err = formula(r, vars); err != nil {
		return nil, nil, err
	}
	col, err = formula(c, vars)
	return row, col, err
}

// formula reads an expression over non-negative integers: + * / div mod and
// brackets; div and / round down.
func formula(text string, vars []string) (func(...int) int, error) {
	words := regexp.MustCompile(`[a-z]+|\d+|[^\sa-z0-9]`).FindAllString(text, -1)
	var bad error
	eval := func(vals []int) int {
		at := 0
		next := func(list ...string) string {
			if at < len(words) && slices.Contains(list, words[at]) {
				at++
				return words[at-1]
			}
			return ""
		}
		var sum func() int
		factor := func() int {
			if next("(") != "" {
				v := sum()
				if next(")") == "" {
					bad = fmt.Errorf("%q lacks a bracket", text)
				}
				return v
			}
			if at == len(words) {
				bad = fmt.Errorf("%q ends too early", text)
				return 0
			}
			word := words[at]
			at++
			if k := slices.Index(vars, word); k >= 0 {
				return vals[k]
			}
			v, err := strconv.Atoi(word)
			if err != nil {
				bad = fmt.Errorf("%q: what is %q?", text, word)
			}
			return v
		}
		term := func() int {
			v := factor()
			for {
				switch op := next("*", "/", "div", "mod"); {
				case op == "":
					return v
				case op == "*":
					v *= factor()
				default:
					n := factor()
					switch {
					case n <= 0:
						bad = fmt.Errorf("%q divides by %d", text, n)
					case op == "mod":
						v %= n
					default:
						v /= n
					}
				}
			}
		}
		sum = func() int {
			v := term()
			for next("+") != "" {
				v += term()
			}
			return v
		}
		v := sum()
		if at != len(words) {
			bad = fmt.Errorf("%q goes on after %q", text, strings.Join(words[:at], " "))
		}
		return v
	}
	ones := make([]int, len(vars))
	eval(ones)
	return func(vals ...int) int { return eval(vals) }, bad
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
	a, err := adder(in.Device)
	if err != nil {
		return nil, err
	}
	return map[string]any{"result": a.Add(volta.F32, start, products)}, nil
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
