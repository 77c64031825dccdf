package qmm

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	gotemplate "text/template"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

//go:embed linear.py.tmpl
var pythonText string

// torchTypes are torch's names of types.
var torchTypes = map[dtype.Type]string{dtype.F16: "float16", dtype.BF16: "bfloat16", dtype.F8E8M0: "float8_e8m0fnu", dtype.F8E4M3: "float8_e4m3fn"}

// Exported is a layer in files: its programs, which gpu/export writes, a module for torch with the layer as
// torch.nn.Module, and a C header with functions that pack and multiply. These two stand beside those of the programs.
type Exported struct {
	Linear
	Name     string // of the module and the header: linear_ and the layer's
	Programs []*ir.Program
	Python   []byte
	C        []byte
}

// Extra is what an exported layer has beside codes, scales and zero points.
type Extra struct {
	Bias  bool // a number that is added to each output
	Order bool // an order of its inputs, [Weights.Order]
}

var exportedName = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// CheckName finds what is no name of an exported layer.
func CheckName(name string) error {
	if !exportedName.MatchString(name) {
		return fmt.Errorf("qmm: the name %q is part of names in C and Python: it has letters, digits and _, and at least one of them", name)
	}
	return nil
}

// Export is the layer for a target, such as sm_90a, with programs that suit numbers of rows of x: up to rows[0] rows take the first,
// up to the next number the next one, and more than the last that of the last. They are those that [Linear.ChooseOn] takes on an H200
// without a search. name is one that [CheckName] takes.
//
// Module and header refuse weights whose scales or zero points their programs do not take ([Weights.Pack] finds others for them): powers of
// two far from 1, unless the layer is Far, and 16-bit scales of more than ScaleBits bits, where that is not 0.
func (l Linear) Export(name, target string, extra Extra, rows ...int) (*Exported, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	m, err := l.module(name, target, extra, rows...)
	if err != nil {
		return nil, err
	}
	out := &Exported{Linear: m.asked, Name: "linear_" + name}
	data, err := m.data()
	if err != nil {
		return nil, err
	}
	if out.Python, err = written(pythonText, data); err != nil {
		return nil, err
	}
	products, err := m.inC(target)
	if err != nil {
		return nil, err
	}
	out.C, err = written(headerText, m.dataInC(products, data))
	out.Programs = m.programs
	return out, err
}

// module is the layer with what multiplies so many rows.
func (l Linear) module(name, target string, extra Extra, rows ...int) (*module, error) {
	l, err := l.Check()
	if err != nil {
		return nil, err
	}
	wish := l
	if !l.Form().Expands(l.ScaleBits) {
		l.ScaleBits = 0 // no program is other for it
	}
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return nil, fmt.Errorf("qmm: %w", err)
	}
	m := &module{Linear: l, asked: l, wish: wish, plan: p, name: name, Extra: extra, by: map[string]*ir.Program{}}
	if least, most := l.Form().Reach(); l.ScaleType == dtype.F8E8M0 && p.Bounded() && p.From >= least && math.Ldexp(1, p.To) <= most {
		m.ScaleBits = 1 // of all that the module takes
	}
	if m.bits = wish.ScaleBits; m.bits == 0 && l.ScaleType != dtype.F8E8M0 {
		m.bits = l.Usual().ScaleBits
	}
	if err := m.add("pack", func() (*ir.Program, error) { return template.Pack(l.Form()) }); err != nil {
		return nil, err
	}
	if m.Order {
		if err := m.add("gather", func() (*ir.Program, error) { return template.Gather(l.ActType) }); err != nil {
			return nil, err
		}
	}
	rows = slices.Compact(slices.Sorted(slices.Values(rows)))
	if len(rows) == 0 {
		return nil, fmt.Errorf("qmm: a module of %s for no number of rows", l)
	}
	if rows[len(rows)-1] == 1 {
		rows = append(rows, 8) // what is chosen for one row may multiply others one by one
	}
	from := 1
	for _, to := range rows {
		out := exportedProduct{To: to, Rows: 1}
		if out.Choice, out.Expands, err = m.choose(target, from, to, Call{}); err != nil {
			return nil, err
		}
		if n := len(m.products); n > 0 && m.products[n-1].Choice == out.Choice && m.products[n-1].Expands == out.Expands {
			m.products[n-1].To = to
		} else {
			m.products = append(m.products, out)
		}
		from = to + 1
	}
	for i := range m.products {
		if err := m.product(&m.products[i]); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// module is a layer on its way to files.
type module struct {
	Linear // with the ScaleBits of all weights that it takes
	Extra
	asked    Linear // as it was before
	wish     Linear // with the ScaleBits that Quantize is asked for
	plan     *template.Plan
	name     string
	programs []*ir.Program
	by       map[string]*ir.Program // by what they are for
	bits     int                    // of scales as the module quantises weights; 0 for all that they have
	products []exportedProduct
}

// exportedProduct is how a module multiplies some numbers of rows of x.
type exportedProduct struct {
	Choice
	To      int    // the most of these, but of the last product
	Expands bool   // a layer whose weights the type of x holds as they are, or may round, takes [Expand] instead
	Program string // the one that multiplies, or expands
	Rows    int    // of a block
	// Sums of blocks that meet in memory: f32 Once, and Each for each block of rows, and so many counts.
	Once, Each, Counts int
	Most               int // rows of a launch
	Cluster            int // blocks of one, where blocks stay; else 0
}

// Shares reports whether blocks meet in memory.
func (p exportedProduct) Shares() bool { return p.Counts > 0 }

// add makes a program once, for what it is for.
func (m *module) add(what string, make func() (*ir.Program, error)) error {
	if m.by[what] != nil {
		return nil
	}
	p, err := make()
	if err != nil {
		return err
	}
	p.Name = what + "_" + m.name
	m.by[what], m.programs = p, append(m.programs, p)
	return nil
}

// choose is what multiplies from and up to so many rows in a call, and whether layers take [Expand] instead if scales have bits
// bits, or weights may be rounded. What is chosen for the most of them may have more blocks than the least have work for; then it is what is chosen for the least.
func (m *module) choose(target string, from, to int, call Call) (c Choice, expands bool, err error) {
	on := device.Info{Driver: "any", Arch: target}
	base := m.unfolded()
	base.Rounded = m.plan.Rounded // else weights may be beyond the type of x, for all that is known
	for _, rows := range []int{to, from} {
		if c, _, err = base.ChooseOn(nil, on, rows, call); err == nil {
			c, err = c.filled(m.plan)
		}
		if err != nil || c.takes(base, m.plan, from) {
			break
		}
		if rows == from {
			err = fmt.Errorf("qmm: what %s takes for %d rows, %s, is not for its N and K", m.Linear, from, c)
		}
	}
	bits := m.bits
	if m.Linear.Rounded {
		bits = m.Form().ExpandBits()
	}
	if err != nil || c.Plan == Expand || bits == 0 && !m.Linear.Rounded {
		return c, false, err
	}
	exact := m.Linear.unfolded()
	exact.ScaleBits = bits
	few, _, err := exact.ChooseOn(nil, on, to, Call{})
	return c, few.Plan == Expand, err
}

// product adds the programs of a product, and finds what launches of it need.
func (m *module) product(out *exportedProduct) error {
	out.Program = fmt.Sprintf("%s%d", out.Plan, out.To)
	if out.Expands {
		if err := m.add(Expand, func() (*ir.Program, error) { return template.Expand(m.Form()) }); err != nil {
			return err
		}
	}
	var make func() (*ir.Program, error)
	var workspace func(rows int) (part []int, counts int)
	widest := max(m.N, m.K)
	switch form := m.Form(); out.Plan {
	case Decode:
		s := out.Schedule
		s.AddBias = m.Bias
		make, out.Rows = func() (*ir.Program, error) { return template.Decode(form, s) }, s.Rows
		if s.Shares() {
			workspace = func(rows int) ([]int, int) { return s.Workspace(m.plan, rows, m.N) }
		}
	case Expand:
		out.Program = Expand
		make = func() (*ir.Program, error) { return template.Expand(form) }
	default:
		if err := m.add("arrange", func() (*ir.Program, error) { return template.Arrange(form, template.WideSchedule{}) }); err != nil {
			return err
		}
		arranged, _ := m.plan.Arranged(1, m.K)
		widest = max(widest, arranged[1])
		s := out.Wide
		s.AddBias = m.Bias
		make, out.Rows = func() (*ir.Program, error) { return template.Wide(form, s) }, s.Rows
		if s.Persistent {
			out.Cluster = s.Cluster
		}
		if s.Shares() {
			workspace = func(rows int) ([]int, int) { return s.Workspace(m.plan, rows, m.N) }
		}
	}
	// Elements are found by 32 bits, and blocks of rows lie along y of a grid.
	const most = math.MaxInt32
	out.Most = min(MaxSize, most/widest, ir.MostBlocks(1)*out.Rows)
	if workspace != nil {
		one, counts := workspace(out.Rows)
		two, _ := workspace(2 * out.Rows)
		out.Each = elements(two) - elements(one)
		out.Once, out.Counts = elements(one)-out.Each, counts
		if out.Each > 0 {
			out.Most = min(out.Most, (most-out.Once)/out.Each*out.Rows)
		}
	}
	out.Most = max(out.Most/128, 1) * 128 // so that what is left of x and y begins at a multiple of 256 bytes
	return m.add(out.Program, make)
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// data is what the module's text says of the layer.
func (m *module) data() (map[string]any, error) {
	l, p := m.Linear, m.plan
	shape := p.PackedShape(l.N, l.K)
	group := l.Group
	if group == 0 || group > l.K { // what the module pads K to
		group = l.K
	}
	number := func(v float64) string {
		if v-v != 0 {
			return fmt.Sprintf("float(%q)", strconv.FormatFloat(v, 'g', -1, 64))
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	var values []string
	for code := range uint64(1) << l.WeightType.Bits() {
		v := l.WeightType.Decode(code)
		if math.Abs(v) > l.ActType.Max() {
			v = math.NaN() // no weight becomes it
		}
		values = append(values, number(v))
	}
	var order []int
	for n := range p.Outputs() {
		order = append(order, p.ScaleIndex(n))
	}
	top := l.Form().Top()
	if l.ZeroPoint {
		top = l.WeightType.Max()
	}
	arranged, sums := p.Arranged(1, l.K)
	least, largest := l.Form().Reach()
	kind, far, quantized := l, l, m.bits
	if l.ScaleType == dtype.F8E8M0 {
		kind.ScaleBits, quantized = 0, 0 // powers of two have no bits to choose
	}
	if quantized > l.ScaleType.Row().Man {
		quantized = 0 // all that scales have
	}
	sorted, upwards := l.middles()
	refused, narrow := l.unheld(), kind.ScaleBits > 0 && l.narrow()
	if narrow {
		refused = l.outside()
	}
	room := 0 // by how many binades scales of floats may grow
	if l.WeightType.IsFloat() {
		room = l.room()
	}
	far.Far, far.Rounded, far.ScaleBits = true, false, 0
	beyond, _ := m.wish.beyond()
	pack, err := template.Pack(l.Form())
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"Stored": tune.Hash(pack),
		"Name":   "linear_" + m.name, "Of": m.name, "Programs": m.programs, "Products": m.products, "Shares": slices.ContainsFunc(m.products, exportedProduct.Shares),
		"Arranged": arranged[1], "Sums": sums, "Shifts": p.Shifts(),
		"Kind": kind.String(), "Far": far.String(), "N": l.N, "K": l.K, "Bits": l.WeightType.Bits(), "Group": group, "Groups": l.Groups(),
		"Act": torchTypes[l.ActType], "Scale": torchTypes[l.ScaleType], "Zero": l.ZeroPoint, "Whole": l.ZeroPoint && p.ZeroType() == dtype.U8, "Factor": l.Factor, "Bias": m.Bias, "Ordered": m.Order, "Values": values, "Unheld": ranges(refused), "Narrow": narrow, "Top": number(top),
		"Packed": shape[0] * shape[1] * shape[2], "ScaleGroups": p.Groups(l.K), "Padded": p.Padded(l.N), "Order": order, "Powers": l.ScaleType == dtype.F8E8M0, "Float": l.WeightType.IsFloat(),
		"Positive": l.WeightType.IsInt() && !l.WeightType.Signed() && !l.ZeroPoint, "Most": number(m.wish.greatest()), "Few": m.wish.greatest() < l.ScaleType.Max(), "Least": number(l.ScaleType.Smallest()), "Beyond": number(beyond), "Lost": number(l.lost()),
		"Looks": p.Bounded() || kind.ScaleBits > 0, "ScaleBits": kind.ScaleBits, "Quantized": quantized, "Neighbours": quantized > 0 && quantized <= scarce, "Held": l.Form().Expands(quantized), "Twos": l.Form().ExpandBits() > 0,
		"Small": math.Ilogb(l.ScaleType.Smallest()), "Spare": room, "Full": number(m.wish.full()), "Sorted": sorted, "Upwards": upwards, "Expand": m.by[Expand] != nil, "Exact": slices.ContainsFunc(m.products, func(p exportedProduct) bool { return p.Expands }), "Reach": least, "Largest": number(largest), "Bounded": p.Bounded(), "Near": p.Near, "Rounded": p.Rounded, "Plain": l.Rounded, "From": p.From, "To": p.To, "Greatest": number(p.Greatest()),
	}, nil
}

// middles are the codes that weights may become by their values, −0 in front of 0, and
// whether what lies in the middle of two of them is rounded to the upper one.
func (l Linear) middles() (codes []uint64, upwards []bool) {
	t, f := l.WeightType, l.Form()
	for code := range uint64(1) << t.Bits() {
		if f.Counts(t.Decode(code)) {
			codes = append(codes, code)
		}
	}
	slices.SortFunc(codes, func(a, b uint64) int {
		x, y := t.Decode(a), t.Decode(b)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(math.Copysign(1, x), math.Copysign(1, y)))
	})
	for i, code := range codes[1:] {
		upwards = append(upwards, l.nearest((t.Decode(codes[i])+t.Decode(code))/2) == code)
	}
	return codes, upwards
}

// written is a text with what its template says of the layer.
func written(text string, data map[string]any) ([]byte, error) {
	var b bytes.Buffer
	t, err := gotemplate.New("linear").Parse(text)
	if err == nil {
		err = t.Execute(&b, data)
	}
	if err != nil {
		return nil, fmt.Errorf("qmm: %w", err)
	}
	return b.Bytes(), nil
}

// codeRange is codes from one to another, both included.
type codeRange struct{ From, To uint64 }

// ranges are ascending codes by neighbours: comparing all weights of a layer with each code would take its memory many times.
func ranges(codes []uint64) (out []codeRange) {
	for _, c := range codes {
		if n := len(out); n > 0 && out[n-1].To+1 == c {
			out[n-1].To = c
		} else {
			out = append(out, codeRange{c, c})
		}
	}
	return out
}
