package array

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// generator is one kind of test data. Fill gives the code of element k.
type generator struct {
	name    string
	options string // names of options, separated by blanks; "=" for a value after the name
	fill    func(g *generation) func(k int) uint64
}

// generators is the table behind [Generate].
var generators = []generator{
	{"zeros", "", func(g *generation) func(int) uint64 { return g.constant(0) }},
	{"ones", "", func(g *generation) func(int) uint64 { return g.constant(1) }},
	{"const", "=", func(g *generation) func(int) uint64 { return g.constant(g.value("", 0)) }},
	{"eye", "", (*generation).eye},
	{"iota", "start step", (*generation).iota},
	{"codes", "", func(g *generation) func(int) uint64 { return func(k int) uint64 { return uint64(k) & g.t.Mask() } }},
	{"rand", "lo hi seed", (*generation).rand},
	{"randn", "mean std seed", (*generation).randn},
	{"randint", "lo hi seed", (*generation).randint},
	{"randcode", "seed", func(g *generation) func(int) uint64 {
		return func(k int) uint64 { return g.draw(k) & g.t.Mask() }
	}},
	{"pow2", "lo hi seed", (*generation).pow2},
}

func generatorNames() []string {
	var names []string
	for _, g := range generators {
		names = append(names, g.name)
	}
	return names
}

// Generate makes an array from a text such as "rand:f16[64, 32]:seed=1":
//
//	spec   = kind [ "=" number ] ":" type [ "[" sizes "]" ] { ":" option "=" number }
//	kind   = "zeros" | "ones" | "const" | "eye" | "iota" | "codes"
//	       | "rand" | "randn" | "randint" | "randcode" | "pow2"
//	sizes  = [ number { "," number } ]
//
// The kinds, for element k in row-major order:
//
//	zeros ones const=V  the same value everywhere
//	eye                 1 where the last two indices are equal, else 0
//	iota                start + k·step (0, 1); integers wrap
//	codes               code k modulo 2^bits: every code of the type in turn
//	rand                uniform in [lo, hi) (−1, 1); in other types than floats a uniform code
//	randn               mean 0 and deviation 1 (mean, std): the sum of twelve uniforms, less 6
//	randint             a whole number from lo to hi, both included (−8, 7 as far as the type holds them)
//	randcode            a uniform code; in floats that includes NaN and infinity
//	pow2                2^e or −2^e with e from lo to hi (−2, 2; integers 0, 2), both included
//
// Values are rounded as [Array.Set] does. Random data depends on seed (0), kind and k only,
// never on the machine: with mix the output function of SplitMix64, draw i of a
// seed is mix(mix(seed) + (i+1)·0x9e3779b97f4a7c15). Element k uses draw k, in
// randn draws 12k to 12k+11.
//
// Errors are a [diag.List] that points into the text: Array.N1 for its form,
// Array.N2 for an unknown kind or option, Array.N3 for the type, Array.N4 for
// the shape, Array.N9 for a value that does not fit.
func Generate(spec string) (*Array, error) {
	g, fill, err := parseGenerator(spec)
	if err != nil {
		return nil, err
	}
	next := fill(g)
	if len(g.problems) > 0 {
		return nil, g.problems.Err()
	}
	a := New(g.t, g.shape...)
	width := g.t.Bits()
	for k := range a.Len() {
		dtype.Put(a.Data, width, k, next(k))
	}
	return a, nil
}

// generation is one parsed spec while it is carried out.
type generation struct {
	typeShape
	values   map[string]string
	at       map[string]diag.Pos
	problems diag.List
	stream   uint64
}

func parseGenerator(spec string) (*generation, func(*generation) func(int) uint64, error) {
	var l diag.List
	pos := func(at int) diag.Pos { return diag.Pos{Line: 1, Col: at + 1} }
	parts := strings.Split(spec, ":")
	kind, value, hasValue := strings.Cut(parts[0], "=")
	var gen *generator
	for i := range generators {
		if generators[i].name == kind {
			gen = &generators[i]
		}
	}
	if gen == nil {
		help := diag.DidYouMean(kind, generatorNames())
		if help == "" {
			help = "generators are " + strings.Join(generatorNames(), ", ") + "; files end in .npy or .safetensors"
		}
		l.Addf(pos(0), codeName, help, "%q is not a generator", kind)
		return nil, nil, l.Err()
	}
	g := &generation{values: map[string]string{}, at: map[string]diag.Pos{}}
	if hasValue != (gen.options == "=") {
		help := "write const=V:type[sizes]"
		if hasValue {
			help = kind + " takes no value after its name"
		}
		l.Addf(pos(len(kind)), codeSyntax, help, "%q is not the start of a generator", parts[0])
	}
	if hasValue {
		g.values[""], g.at[""] = value, pos(len(kind)+1)
	}
	at := len(parts[0]) + 1
	if len(parts) < 2 {
		l.Addf(pos(len(spec)), codeSyntax, "write "+parts[0]+":f16[64, 32]", "%q has no element type", spec)
		return nil, nil, l.Err()
	}
	ts, err := parseTypeShape(parts[1], pos(at))
	if err != nil {
		l = append(l, err.(diag.List)...)
	}
	g.typeShape = ts
	at += len(parts[1]) + 1
	for _, part := range parts[2:] {
		name, value, ok := strings.Cut(part, "=")
		lead := len(name) - len(strings.TrimLeft(name, " "))
		name = strings.TrimSpace(name)
		known := strings.Fields(strings.Trim(gen.options, "="))
		switch _, twice := g.values[name]; {
		case !ok:
			l.Addf(pos(at), codeSyntax, "options are written name=number", "%q is not an option", part)
		case !slices.Contains(known, name):
			help := diag.DidYouMean(name, known)
			if help == "" {
				help = fmt.Sprintf("options of %s: %s", kind, strings.Join(known, ", "))
				if len(known) == 0 {
					help = kind + " has no options"
				}
			}
			l.Addf(pos(at+lead), codeName, help, "%q is not an option of %s", name, kind)
		case twice:
			l.Addf(pos(at+lead), codeSyntax, "", "option %s is given twice", name)
		default:
			g.values[name] = strings.TrimSpace(value)
			g.at[name] = pos(at + strings.IndexByte(part, '=') + 1)
		}
		at += len(part) + 1
	}
	if len(l) > 0 {
		return nil, nil, l.Err()
	}
	g.stream = mix(g.seed())
	if len(g.problems) > 0 {
		return nil, nil, g.problems.Err()
	}
	return g, gen.fill, nil
}

// typeShape is a parsed "i6[64, 32]"; shaped tells [] from no brackets at all.
type typeShape struct {
	t      dtype.Type
	shape  []int
	shaped bool
}

// parseTypeShape reads "i6[64, 32]" or "i6"; pos is where it starts.
func parseTypeShape(text string, pos diag.Pos) (ts typeShape, err error) {
	var l diag.List
	at := func(offset int) diag.Pos {
		p := pos
		if p.Line > 0 {
			p.Col += offset
		}
		return p
	}
	name, rest, shaped := strings.Cut(text, "[")
	lead := len(name) - len(strings.TrimLeft(name, " "))
	ts.t, err = dtype.Parse(strings.TrimSpace(name))
	if err != nil {
		help := ""
		if list, ok := err.(diag.List); ok {
			help = list[0].Help
		}
		l.Addf(at(lead), codeType, help, "%q is not an element type", strings.TrimSpace(name))
	}
	ts.shape, ts.shaped = []int{}, shaped
	if shaped {
		sizes, tail, closed := strings.Cut(rest, "]")
		offset := len(name) + 1
		if !closed || strings.TrimSpace(tail) != "" {
			l.Addf(at(offset-1), codeSyntax, "write type[size, size, …]", "%q is not a shape", "["+rest)
			return ts, l.Err()
		}
		parts := strings.Split(sizes, ",")
		if strings.TrimSpace(sizes) == "" {
			parts = nil
		}
		for _, part := range parts {
			n, err := strconv.ParseUint(strings.TrimSpace(part), 10, 62)
			if err != nil {
				lead := len(part) - len(strings.TrimLeft(part, " "))
				l.Addf(at(offset+lead), codeShape, "sizes are whole numbers from 0", "%q is not a size", strings.TrimSpace(part))
			}
			ts.shape = append(ts.shape, int(n))
			offset += len(part) + 1
		}
	}
	if len(l) == 0 {
		if err, ok := CheckShape(ts.t, ts.shape...).(diag.List); ok {
			p := err[0]
			p.Pos = at(len(name))
			l.Add(p)
		}
	}
	return ts, l.Err()
}

// mix is the output function of SplitMix64.
// Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, figure 17 (variant 13 constants).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// draw is random number i of the seed.
func (g *generation) draw(i int) uint64 {
	return mix(g.stream + (uint64(i)+1)*0x9e3779b97f4a7c15)
}

// unit is draw i as a multiple of 2^-53 in [0, 1).
func (g *generation) unit(i int) float64 { return float64(g.draw(i)>>11) * 0x1p-53 }

func (g *generation) bad(option, format string, args ...any) {
	g.problems.Addf(g.at[option], codeNumber, "", format, args...)
}

func (g *generation) seed() uint64 {
	text, ok := g.values["seed"]
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		g.bad("seed", "%q is not a seed: a whole number from 0 to 2^64-1", text)
	}
	return n
}

// value is a number given as an option.
func (g *generation) value(option string, otherwise float64) float64 {
	text, ok := g.values[option]
	if !ok {
		return otherwise
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		g.bad(option, "%q is not a number", text)
	}
	return v
}

// whole is an integer given as an option.
func (g *generation) whole(option string, otherwise int64) int64 {
	text, ok := g.values[option]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		g.bad(option, "%q is not a whole number of 64 bits", text)
	}
	return n
}

func (g *generation) encode(v float64) uint64 { return g.t.Encode(v, g.t.Saturates()) }

func (g *generation) constant(v float64) func(int) uint64 {
	if text, ok := g.values[""]; ok && g.t.IsInt() {
		// Through a float, integers of more than 53 bits would be rounded.
		if n, err := strconv.ParseInt(text, 0, 64); err == nil {
			return same(g.t.EncodeInt(n, true))
		}
		if n, err := strconv.ParseUint(text, 0, 64); err == nil {
			return same(dtype.Cast(g.t, dtype.U64, n))
		}
	}
	return same(g.encode(v))
}

func same(code uint64) func(int) uint64 { return func(int) uint64 { return code } }

func (g *generation) eye() func(int) uint64 {
	one, zero := g.encode(1), g.encode(0)
	n := len(g.shape)
	if n < 2 {
		g.problems.Addf(diag.Pos{Line: 1, Col: 1}, codeShape, "write eye:f16[16, 16]", "eye needs two dimensions or more")
		return nil
	}
	rows, cols := g.shape[n-2], g.shape[n-1]
	return func(k int) uint64 {
		if k/cols%rows == k%cols {
			return one
		}
		return zero
	}
}

func (g *generation) iota() func(int) uint64 {
	if g.t.IsFloat() {
		start, step := g.value("start", 0), g.value("step", 1)
		return func(k int) uint64 { return g.encode(start + float64(float64(k)*step)) }
	}
	start, step := g.whole("start", 0), g.whole("step", 1)
	return func(k int) uint64 { return g.t.EncodeInt(start+int64(k)*step, false) }
}

func (g *generation) rand() func(int) uint64 {
	if !g.t.IsFloat() {
		for _, option := range []string{"lo", "hi"} {
			if _, ok := g.values[option]; ok {
				g.bad(option, "rand takes %s for floats only; use randint", option)
			}
		}
		if g.t == dtype.Bool {
			return func(k int) uint64 { return g.draw(k) & 1 }
		}
		return func(k int) uint64 { return g.draw(k) & g.t.Mask() }
	}
	lo, hi := g.value("lo", -1), g.value("hi", 1)
	if !(lo <= hi) || math.IsInf(hi-lo, 0) {
		g.bad("hi", "lo = %g and hi = %g are not a range", lo, hi)
	}
	return func(k int) uint64 { return g.encode(lo + float64(g.unit(k)*(hi-lo))) }
}

func (g *generation) randn() func(int) uint64 {
	mean, std := g.value("mean", 0), g.value("std", 1)
	return func(k int) uint64 {
		sum := -6.0
		for i := range 12 {
			sum += g.unit(12*k + i)
		}
		return g.encode(mean + float64(sum*std))
	}
}

func (g *generation) randint() func(int) uint64 {
	lo := g.whole("lo", int64(math.Ceil(max(g.t.Min(), -8))))
	hi := g.whole("hi", int64(math.Floor(min(g.t.Max(), 7))))
	g.checkRange(lo, hi, float64(lo), float64(hi))
	span := uint64(hi-lo) + 1 // 0 means all 2^64
	return func(k int) uint64 {
		x := g.draw(k)
		if span != 0 {
			x, _ = bits.Mul64(x, span)
		}
		return g.t.EncodeInt(lo+int64(x), g.t.Saturates())
	}
}

func (g *generation) pow2() func(int) uint64 {
	low := int64(-2)
	if !g.t.IsFloat() {
		low = 0
	}
	high := min(2, int64(math.Floor(math.Log2(max(g.t.Max(), 1)))))
	lo, hi := g.whole("lo", min(low, high)), g.whole("hi", high)
	g.checkRange(lo, hi, 0, math.Ldexp(1, int(min(max(hi, -2000), 2000))))
	if !g.t.IsFloat() && lo < 0 {
		g.bad("lo", "2^%d is not a value of %s", lo, g.t)
	}
	span := uint64(hi-lo) + 1
	return func(k int) uint64 {
		x := g.draw(k)
		e, rest := bits.Mul64(x, span)
		v := math.Ldexp(1, int(lo)+int(e))
		if g.t.Signed() && rest>>63 == 1 {
			v = -v
		}
		return g.encode(v)
	}
}

// checkRange reports bounds that are in the wrong order or that the type cannot
// hold.
func (g *generation) checkRange(lo, hi int64, least, most float64) {
	switch {
	case lo > hi:
		g.bad("hi", "lo = %d is above hi = %d", lo, hi)
	case most > g.t.Max():
		g.bad("hi", "%g is beyond %s, whose largest value is %s", most, g.t, g.t.Format(g.t.MaxCode()))
	case least < g.t.Min() && least != 0:
		g.bad("lo", "%g is beyond %s, whose least value is %s", least, g.t, g.t.Format(g.t.MinCode()))
	}
}
