package qmm

import (
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"strconv"
	gotemplate "text/template"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

//go:embed linear.py.tmpl
var pythonText string

// torchTypes are torch's names of types.
var torchTypes = map[dtype.Type]string{dtype.F16: "float16", dtype.BF16: "bfloat16", dtype.F8E8M0: "float8_e8m0fnu", dtype.F8E4M3: "float8_e4m3fn"}

// Module is the layer as modules have it, which do not look at scales: [Linear.Far] where programs would want to know.
func (l Linear) Module() Linear {
	if p, err := template.PlanOf(l.Form()); err == nil && p.Bounded() {
		l.Far = true
	}
	l.Rounded = false
	return l
}

// Python is a module for torch with the layer as torch.nn.Module, named NAME, which stands
// beside the modules of gpu/export of the layer's [template.Pack] and [template.Decode]
// with a schedule that is [template.Schedule.Plain], of a layer as [Linear.Module] gives it.
func (l Linear) Python(name, pack, decode string, s template.Schedule) ([]byte, error) {
	l, err := l.Check()
	if err != nil {
		return nil, err
	}
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return nil, fmt.Errorf("qmm: %w", err)
	}
	if p.Bounded() {
		return nil, fmt.Errorf("qmm: a module of %s takes any scales; make it, and its programs, of what Linear.Module gives", l)
	}
	if s, err = s.Filled(p); err != nil {
		return nil, fmt.Errorf("qmm: schedule of a module: %w", err)
	}
	if !s.Plain() {
		return nil, fmt.Errorf("qmm: schedule %s needs tensor maps or clusters, which a module does not launch; take that of Linear.ChoosePlain", s)
	}
	shape := p.PackedShape(l.N, l.K)
	group := l.Group
	if group == 0 {
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
	top := l.top()
	if l.ZeroPoint {
		top = l.WeightType.Max()
	}
	var b bytes.Buffer
	t, err := gotemplate.New("linear").Parse(pythonText)
	if err == nil {
		err = t.Execute(&b, map[string]any{
			"Name": name, "Pack": pack, "Decode": decode, "Kind": l.String(), "N": l.N, "K": l.K, "Bits": l.WeightType.Bits(), "Group": group, "Groups": l.Groups(),
			"Act": torchTypes[l.ActType], "Scale": torchTypes[l.ScaleType], "Zero": l.ZeroPoint, "Whole": l.ZeroPoint && p.ZeroType() == dtype.U8, "Factor": l.Factor, "Values": values, "Top": number(top),
			"Rows": s.Rows, "Outputs": p.Outputs() * s.Warps * s.Sides, "Splits": s.Splits, "Shares": s.Shares(), "Packed": shape[0] * shape[1] * shape[2],
			"ScaleGroups": p.Groups(l.K), "Padded": p.Padded(l.N), "Order": order, "Powers": l.ScaleType == dtype.F8E8M0, "Float": l.WeightType.IsFloat(),
			"Positive": l.WeightType.IsInt() && !l.WeightType.Signed() && !l.ZeroPoint, "Most": number(l.ScaleType.Max()), "Least": number(l.ScaleType.Smallest()),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("qmm: %w", err)
	}
	return b.Bytes(), nil
}
