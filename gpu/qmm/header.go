package qmm

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

//go:embed linear.h.tmpl
var headerText string

// inC are the products in C, which has no product of plain numbers: where the module makes plain weights, for torch to multiply with,
// it takes another program, which is added. The last takes any number of rows.
func (m *module) inC(target string) ([]exportedProduct, error) {
	products := slices.Clone(m.products)
	from := 1
	for i, p := range products {
		if p.Plan == Expand {
			out := exportedProduct{To: p.To, Rows: 1}
			var err error
			if out.Choice, _, err = m.choose(target, from, p.To, Call{Plan: Prefill}); err != nil {
				return nil, err
			}
			if err := m.product(&out); err != nil {
				return nil, err
			}
			products[i] = out
		}
		from = p.To + 1
	}
	products[len(products)-1].To = MaxSize
	return products, nil
}

// dataInC is what the header says of the layer: what the module does, but for its products.
func (m *module) dataInC(products []exportedProduct, module map[string]any) map[string]any {
	var instead []string
	for i, p := range m.products {
		if p.Plan == Expand || p.Expands {
			instead = append(instead, products[i].Program)
		}
	}
	l := m.Linear
	var programs []string
	for _, p := range m.programs {
		if p != m.by[Expand] {
			programs = append(programs, strings.TrimSuffix(p.Name, "_"+m.name))
		}
	}
	var noWeight []uint64
	for code := range uint64(1) << l.WeightType.Bits() {
		if l.WeightType.Decode(code) == 0 {
			noWeight = append(noWeight, code)
		}
	}
	scaleSize, zeroSize, zeroElem := l.ScaleType.Bits()/8, 2, "uint16_t"
	if module["Whole"] == true {
		zeroSize, zeroElem = 1, "uint8_t"
	}
	groups, ordered := l.Groups()*l.N, m.plan.Groups(l.K)*m.plan.Padded(l.N)
	out := maps.Clone(module)
	maps.Copy(out, map[string]any{
		"Products": products, "Programs": programs, "Instead": strings.Join(instead, ", "), "MostRows": MaxSize,
		"Clusters": slices.ContainsFunc(products, func(p exportedProduct) bool { return p.Cluster > 0 }),
		"Space":    slices.ContainsFunc(products, func(p exportedProduct) bool { return p.Shares() || p.Plan != Decode }) || m.Order,
		"Weight":   l.WeightType, "ActC": l.ActType, "ScaleC": l.ScaleType, "ScaleElem": fmt.Sprintf("uint%d_t", l.ScaleType.Bits()), "ZeroElem": zeroElem,
		"CodesBytes": l.N * l.K, "DenseBytes": (l.N*l.K*l.WeightType.Bits() + 7) / 8,
		"ScalesBytes": groups * scaleSize, "ZerosBytes": groups * 2, "OrderedScales": ordered * scaleSize, "OrderedZeros": ordered * zeroSize,
		"NoWeight": noWeight, "ScaleFloat": floatInC(l.ScaleType), "ActFloat": floatInC(l.ActType), "ActDigits": l.ActType.Row().Man + 1, "ActMax": fmt.Sprintf("%.17g", l.ActType.Max()),
	})
	return out
}

// floatInC says of a type of floats how many bits its exponent has, and what is behind it, and which bits without the sign are the
// first that are no number.
func floatInC(t dtype.Type) string {
	row := t.Row()
	none := t.Encode(t.Max(), true) + 1
	return fmt.Sprintf("%d, %d, %#x", row.Exp, row.Man, none)
}
