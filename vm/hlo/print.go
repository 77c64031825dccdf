package hlo

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Format is the module as text, which [Parse] reads back.
func Format(m *Module) string {
	var b strings.Builder
	if m.Name != "" {
		b.WriteString("HloModule " + m.Name)
		for _, a := range m.Extra {
			b.WriteString(", " + a.Name + "=" + a.Text)
		}
		b.WriteString("\n\n")
	}
	for i, c := range m.Computations {
		if i > 0 {
			b.WriteByte('\n')
		}
		if c == m.Entry {
			b.WriteString("ENTRY ")
		}
		c.write(&b)
	}
	return b.String()
}

// String is the computation as text.
func (c *Computation) String() string {
	var b strings.Builder
	c.write(&b)
	return b.String()
}

func (c *Computation) write(b *strings.Builder) {
	b.WriteString(c.Name + " {\n")
	for _, in := range c.Instructions {
		b.WriteString("  " + formatInstruction(in, in == c.Root) + "\n")
	}
	b.WriteString("}\n")
}

func formatInstruction(in *Instruction, root bool) string {
	var b strings.Builder
	if root {
		b.WriteString("ROOT ")
	}
	fmt.Fprintf(&b, "%s = %s %s(", in.Name, in.Shape, in.Op)
	switch in.Op {
	case Parameter:
		b.WriteString(strconv.Itoa(in.Number))
	case Constant:
		b.WriteString(in.literal())
	default:
		for i, o := range in.Operands {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(o.Name)
		}
	}
	b.WriteByte(')')
	for _, a := range in.attrs() {
		b.WriteString(", " + a.Name + "=" + a.Text)
	}
	return b.String()
}

// attrs lists the attributes in the order in which they are printed.
func (in *Instruction) attrs() []Attr {
	var out []Attr
	add := func(name, text string) { out = append(out, Attr{name, text}) }
	dims := func(name string, v []int) {
		if v != nil {
			add(name, "{"+commas(v)+"}")
		}
	}
	flag := func(name string, v bool) {
		if v {
			add(name, "true")
		}
	}
	switch in.Op {
	case Iota:
		add("iota_dimension", strconv.Itoa(in.Number))
	case GetTupleElement:
		add("index", strconv.Itoa(in.Number))
	}
	if in.Slices != nil {
		var parts []string
		for _, s := range in.Slices {
			p := fmt.Sprintf("[%d:%d", s.Start, s.Limit)
			if s.Stride != 1 {
				p += fmt.Sprintf(":%d", s.Stride)
			}
			parts = append(parts, p+"]")
		}
		add("slice", "{"+strings.Join(parts, ", ")+"}")
	}
	if len(in.Pads) > 0 {
		var parts []string
		for _, p := range in.Pads {
			s := fmt.Sprintf("%d_%d", p.Lo, p.Hi)
			if p.Interior != 0 {
				s += fmt.Sprintf("_%d", p.Interior)
			}
			parts = append(parts, s)
		}
		add("padding", strings.Join(parts, "x"))
	}
	if in.Window != nil {
		add("window", windowText(in.Window))
	}
	if d := in.Dot; d != nil {
		dims("lhs_batch_dims", d.LHSBatch)
		dims("lhs_contracting_dims", d.LHSContract)
		dims("rhs_batch_dims", d.RHSBatch)
		dims("rhs_contracting_dims", d.RHSContract)
	}
	if g := in.Gather; g != nil {
		dims("offset_dims", nonNil(g.Offset))
		dims("collapsed_slice_dims", nonNil(g.Collapsed))
		dims("start_index_map", nonNil(g.StartMap))
		dims("operand_batching_dims", g.OperandBatch)
		dims("start_indices_batching_dims", g.IndexBatch)
		add("index_vector_dim", strconv.Itoa(g.IndexVector))
	}
	if s := in.Scatter; s != nil {
		dims("update_window_dims", nonNil(s.UpdateWindow))
		dims("inserted_window_dims", nonNil(s.Inserted))
		dims("scatter_dims_to_operand_dims", nonNil(s.ToOperand))
		dims("input_batching_dims", s.InputBatch)
		dims("scatter_indices_batching_dims", s.IndexBatch)
		add("index_vector_dim", strconv.Itoa(s.IndexVector))
	}
	if c := in.Conv; c != nil {
		add("dim_labels", c.labels())
		if c.FeatureGroups != 1 {
			add("feature_group_count", strconv.Itoa(c.FeatureGroups))
		}
		if c.BatchGroups != 1 {
			add("batch_group_count", strconv.Itoa(c.BatchGroups))
		}
	}
	switch in.Op {
	case Gather:
		dims("slice_sizes", in.Sizes)
	case DynamicSlice:
		dims("dynamic_slice_sizes", in.Sizes)
	case ReducePrecision:
		if len(in.Sizes) == 2 {
			add("exponent_bits", strconv.Itoa(in.Sizes[0]))
			add("mantissa_bits", strconv.Itoa(in.Sizes[1]))
		}
	case Scan:
		add("num_carries", strconv.Itoa(in.Number))
	}
	dims("dimensions", in.Dims)
	if in.Direction != "" {
		add("direction", in.Direction)
	}
	flag("indices_are_sorted", in.Sorted)
	flag("unique_indices", in.Unique)
	if in.Kind != "" {
		add("kind", in.Kind)
	}
	if in.Apply != nil {
		if in.Op == Fusion {
			add("calls", in.Apply.Name)
		} else {
			add("to_apply", in.Apply.Name)
		}
	}
	return append(out, in.Extra...)
}

func nonNil(v []int) []int {
	if v == nil {
		return []int{}
	}
	return v
}

func windowText(w []WindowDim) string {
	part := func(name string, f func(WindowDim) string, plain string) string {
		var parts []string
		all := plain != ""
		for _, d := range w {
			parts = append(parts, f(d))
			all = all && f(d) == plain
		}
		if all {
			return ""
		}
		return name + "=" + strings.Join(parts, "x") + " "
	}
	text := part("size", func(d WindowDim) string { return strconv.Itoa(d.Size) }, "") +
		part("stride", func(d WindowDim) string { return strconv.Itoa(d.Stride) }, "1") +
		part("pad", func(d WindowDim) string { return fmt.Sprintf("%d_%d", d.Lo, d.Hi) }, "0_0") +
		part("lhs_dilate", func(d WindowDim) string { return strconv.Itoa(d.BaseDilation) }, "1") +
		part("rhs_dilate", func(d WindowDim) string { return strconv.Itoa(d.WindowDilation) }, "1") +
		part("rhs_reversal", func(d WindowDim) string {
			if d.Reverse {
				return "1"
			}
			return "0"
		}, "0")
	return "{" + strings.TrimSpace(text) + "}"
}

func (c *ConvDims) labels() string {
	side := func(spatial []int, one, two int, a, b byte) string {
		text := make([]byte, len(spatial)+2)
		for i, d := range spatial {
			text[d] = byte('0' + i)
		}
		text[one], text[two] = a, b
		return string(text)
	}
	return side(c.InSpatial, c.InBatch, c.InFeature, 'b', 'f') + "_" +
		side(c.KernelSpatial, c.KernelIn, c.KernelOut, 'i', 'o') + "->" +
		side(c.OutSpatial, c.OutBatch, c.OutFeature, 'b', 'f')
}

// literal is the value of a constant as XLA writes it.
func (in *Instruction) literal() string {
	if in.Value == nil {
		return "{...}"
	}
	var b strings.Builder
	k := 0
	var write func(dims []int)
	write = func(dims []int) {
		if len(dims) == 0 {
			b.WriteString(NumberText(in.Shape.Type, in.Value.Code(k)))
			k++
			return
		}
		b.WriteByte('{')
		for i := range dims[0] {
			if i > 0 {
				b.WriteString(", ")
			}
			write(dims[1:])
		}
		b.WriteByte('}')
	}
	write(in.Shape.Dims)
	return b.String()
}

// NumberText is an element as it stands in a literal.
func NumberText(t Type, code uint64) string {
	e := t.Elem()
	switch {
	case t == Pred:
		return strconv.FormatBool(code != 0)
	case t.IsFloat():
		v := e.Decode(code)
		switch {
		case math.IsNaN(v):
			return "nan"
		case math.IsInf(v, 0):
			return strings.ToLower(strings.TrimPrefix(fmt.Sprint(v), "+"))
		case t == F64:
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
		return strconv.FormatFloat(v, 'g', -1, 32)
	case t == U64:
		return strconv.FormatUint(code, 10)
	}
	return strconv.FormatInt(e.DecodeInt(code), 10)
}
