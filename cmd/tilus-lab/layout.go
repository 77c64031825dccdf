package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/notation"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
	"github.com/tilus-lab/tilus-lab/vm/layout/linear"
)

// maxPrinted is the most cells that are printed one by one.
const maxPrinted = 1 << 16

func newLayout() *cobra.Command {
	var asJSON, table bool
	var view, elem, to, shape string
	var lanes int
	var draw *pictureFlags
	cmd := &cobra.Command{
		Use:   "layout EXPR",
		Short: "Show which thread holds which element, in every notation",
		Long: `Show a layout: its canonical form, its four lists, how it is written in every
notation that can say it and why the others cannot, and on request the whole map
from (thread, slot) to the index of an element, as a table, JSON or a picture.

EXPR is recognised by its looks; "-" is standard input. It may be

  a chain              local(2, 1).spatial(8, 4).local(1, 2), with functions such as
                       reduce, permute and reshape; shared_row_major(8, 64), …
  CuTe                 ((4,8),(2,2)):((32,1),(16,8)) on 16x8, Sw<3,3,3> o (8,64):(64,1),
                       logical_divide((8,8),<4:1,2:1>)
  linear bases         as Triton prints them, or name: [T, W, R] -> [A, B] and bases
  a Triton encoding    #ttg.blocked<{sizePerThread = [1, 4], …}> on 64x32, or as Gluon
                       writes it: BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0]) on 64x32
  a swizzle            Sw<3,4,3>
  an instruction       mma.m16n8k16.f32.f16, or its operand mma.m16n8k16.f32.f16/A

"on 16x8" behind it (or --shape) is the tile that a CuTe layout of threads and
values numbers, and the tensor that a Triton encoding lays out. In chains the right
factor is the inner one.`,
		Example: `  tilus-lab layout "local(2, 1).spatial(8, 4).local(1, 2)"
  tilus-lab layout "local(2, 1).spatial(8, 4).local(1, 2)" --svg mma_c.svg
  tilus-lab layout "local(2, 1).column_spatial(4, 8).local(2, 1)" --type i6 --view reinterpret --svg view.svg
  tilus-lab layout "((4,8),(2,2)):((32,1),(16,8))" --shape 16x8 --to chain
  tilus-lab layout "Sw<3,3,3> o (8,64):(64,1)" --to triton
  tilus-lab layout mma.m16n8k16.f32.f16/B --table
  tilus-lab layout - < bases.txt`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && table {
				return usageError{errors.New("--json and --table are two ways to print; choose one")}
			}
			if to != "" && (asJSON || table) {
				return usageError{errors.New("--to prints one notation, and nothing beside it")}
			}
			v, err := readLayout(cmd, args[0], shape, lanes)
			if err != nil {
				return showLayoutError(cmd.ErrOrStderr(), args[0], err)
			}
			if elem == "" && view == "reinterpret" {
				return usageError{errors.New("--view reinterpret needs --type, the type of the elements")}
			}
			var t dtype.Type
			if elem != "" {
				if t, err = dtype.Parse(elem); err != nil {
					return usageError{err}
				}
			}
			if draw.wanted() {
				pic, err := drawLayout(v, view, t, draw.options())
				if err != nil {
					return err
				}
				if err := draw.write(cmd, pic); err != nil {
					return err
				}
			}
			w := cmd.OutOrStdout()
			switch {
			case to != "":
				return printForm(w, v, to)
			case asJSON:
				enc := json.NewEncoder(w)
				enc.SetEscapeHTML(false)
				return enc.Encode(valueJSON(v))
			case table:
				return valueTable(w, v)
			case draw.wanted():
				return nil
			}
			return valueText(w, v, t)
		},
	}
	cmd.SetFlagErrorFunc(aboutDashes)
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print all of it as JSON")
	f.BoolVar(&table, "table", false, "print the map, a line for each thread")
	f.StringVar(&to, "to", "", "print it in one `NOTATION`: "+strings.Join(notation.Forms(), ", "))
	f.StringVar(&shape, "shape", "", "`SHAPE` of the tile or tensor, such as 16x8")
	f.IntVar(&lanes, "lanes", 32, "`NUMBER` of lanes of a warp in linear forms")
	f.StringVar(&view, "view", "", "what to draw: "+strings.Join(layoutviz.Views(), ", ")+" (default: what suits the layout)")
	f.StringVar(&elem, "type", "", "element `TYPE`, such as i6: adds the packed u8 view")
	draw = addPictureFlags(cmd)
	return cmd
}

// aboutDashes explains what to do with linear bases, which begin with a dash as
// flags do.
func aboutDashes(_ *cobra.Command, err error) error {
	if strings.Contains(err.Error(), "shorthand flag: ' '") {
		err = errors.New(`a layout that begins with a dash stands behind "--", or on standard input`)
	}
	return usageError{err}
}

// readLayout reads a layout in any notation, from standard input for "-"; shape is
// the text of --shape.
func readLayout(cmd *cobra.Command, expr, shape string, lanes int) (notation.Value, error) {
	if lanes < 1 || lanes&(lanes-1) != 0 {
		return notation.Value{}, usageError{fmt.Errorf("--lanes %d is not a power of two", lanes)}
	}
	if expr == "-" {
		raw, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), notation.MaxText+1))
		if err != nil {
			return notation.Value{}, err
		}
		expr = string(raw)
	}
	var tile []int
	if shape != "" {
		var err error
		if tile, err = linear.ParseShape(shape); err != nil {
			return notation.Value{}, usageError{fmt.Errorf("--shape: %s is no shape; write it as 16x8", shape)}
		}
	}
	v, err := notation.ReadOn(expr, tile)
	return v.WithLanes(lanes), err
}

// showLayoutError prints the problems of layout text below the text itself.
func showLayoutError(w io.Writer, expr string, err error) error {
	var list diag.List
	if !errors.As(err, &list) || expr == "-" || strings.ContainsAny(expr, "\n\t") || len(expr) > 200 {
		return err
	}
	for _, p := range list {
		if p.Pos.Line == 1 && p.Pos.Col > 0 && p.Pos.Col <= len(expr)+1 {
			end := p.Pos.Col + 1
			if p.End.Line == 1 && p.End.Col > p.Pos.Col {
				end = min(p.End.Col, len(expr)+1)
			}
			fmt.Fprintf(w, "  %s\n  %s%s\n", expr, strings.Repeat(" ", p.Pos.Col-1), strings.Repeat("^", max(end-p.Pos.Col, 1)))
		}
		fmt.Fprintln(w, p.Error())
	}
	return silent(1)
}

// drawLayout draws a view of a value, by default the one that suits it.
func drawLayout(v notation.Value, view string, t dtype.Type, o layoutviz.Options) (layoutviz.Picture, error) {
	p, err := layoutviz.Value(v, view, t, o)
	if errors.Is(err, layoutviz.ErrView) {
		err = usageError{fmt.Errorf("--view: %w", err)}
	}
	return p, err
}

// printForm prints a value, or each operand of an instruction, in one notation.
func printForm(w io.Writer, v notation.Value, form string) error {
	parts := v.Parts()
	var first error
	for _, part := range parts {
		text, err := part.To(form)
		var p diag.Problem
		switch {
		case errors.As(err, &p) && !slices.Contains(notation.Forms(), form):
			return usageError{p}
		case len(parts) == 1 && err != nil:
			return err
		case len(parts) == 1:
			fmt.Fprintln(w, text)
			continue
		}
		o, _ := part.Operand()
		if err != nil {
			first = cmp.Or(first, err)
			fmt.Fprintf(w, "%s: none: %v\n", o.Name, firstLine(err))
			continue
		}
		fmt.Fprintf(w, "%s: %s\n", o.Name, indent(text, "   "))
	}
	return first
}

// indent puts a prefix before all lines of a text but the first.
func indent(text, prefix string) string { return strings.ReplaceAll(text, "\n", "\n"+prefix) }

// layoutDoc is a layout as JSON. Map[thread][slot] is an index; it is left out
// above maxPrinted cells, and MapOmitted says so.
type layoutDoc struct {
	Text         string `json:"text"`
	Shape        []int  `json:"shape"`
	ModeShape    []int  `json:"mode_shape"`
	SpatialModes []int  `json:"spatial_modes"`
	LocalModes   []int  `json:"local_modes"`
	Threads      int    `json:"threads"`
	Slots        int    `json:"slots"`
	Replicas     int    `json:"replicas"`
	forms
	Map        [][][]int `json:"map,omitempty"`
	MapOmitted string    `json:"map_omitted,omitempty"`
}

// forms says how a layout was written and how it is written in other notations.
type forms struct {
	Recognised string            `json:"recognised"`
	Notations  map[string]string `json:"notations"`
	Reasons    map[string]string `json:"reasons,omitempty"` // why a notation cannot say it
}

func formsOf(v notation.Value) forms {
	f := forms{v.Form(), map[string]string{}, map[string]string{}}
	for _, n := range v.Notations() {
		if n.Text != "" {
			f.Notations[n.Form] = n.Text
		} else {
			f.Reasons[n.Form] = n.Reason
		}
	}
	return f
}

// memoryDoc is a layout of memory as JSON: the offset of each element, in
// row-major order of their indices.
type memoryDoc struct {
	Text    string `json:"text"`
	What    string `json:"what"`
	Shape   []int  `json:"shape"`
	Swizzle string `json:"swizzle,omitempty"`
	forms
	Offsets        []int  `json:"offsets,omitempty"`
	OffsetsOmitted string `json:"offsets_omitted,omitempty"`
}

// linearDoc is a linear map that is neither of registers nor of memory, or a
// swizzle.
type linearDoc struct {
	Text string `json:"text"`
	What string `json:"what"`
	forms
	Matrix *linear.Matrix `json:"matrix,omitempty"`
	Rank   int            `json:"rank"`
	Free   []int          `json:"free,omitempty"`
}

// instructionDoc is an instruction with its operands.
type instructionDoc struct {
	Instruction string       `json:"instruction"`
	Aliases     []string     `json:"aliases,omitempty"`
	Since       string       `json:"since"`
	Source      string       `json:"source"`
	Operands    []operandDoc `json:"operands"`
}

type operandDoc struct {
	Name   string     `json:"name"`
	Type   string     `json:"type"`
	In     string     `json:"in"`
	CuTe   string     `json:"cute,omitempty"`
	Note   string     `json:"note,omitempty"`
	Layout *layoutDoc `json:"layout,omitempty"`
}

// valueJSON is the document of what was read.
func valueJSON(v notation.Value) any {
	if a, operand, ok := v.Instruction(); ok && operand == "" {
		d := instructionDoc{Instruction: a.Name, Aliases: a.Aliases, Since: a.Since, Source: a.Source}
		for _, part := range v.Parts() {
			o, _ := part.Operand()
			x := operandDoc{Name: o.Name, Type: o.Type.String(), In: place(o), CuTe: o.CuTe, Note: o.Note}
			if l, err := part.Registers(); err == nil {
				doc := layoutJSON(part, l)
				doc.Map, doc.MapOmitted = nil, "ask for "+part.Text()
				x.Layout = &doc
			}
			d.Operands = append(d.Operands, x)
		}
		return d
	}
	if l, err := v.Registers(); err == nil {
		return layoutJSON(v, l)
	}
	if s, err := v.Memory(); err == nil {
		d := memoryDoc{Text: s.String(), What: v.What(), Shape: append([]int{}, s.Shape()...), forms: formsOf(v)}
		if w := s.Swizzle(); !w.Identity() {
			d.Swizzle = w.String()
		}
		if n := s.Size(); n > maxPrinted {
			d.OffsetsOmitted = fmt.Sprintf("there are %d offsets, and at most %d are printed", n, maxPrinted)
		} else {
			d.Offsets = s.Offsets()
		}
		return d
	}
	if n, ok := v.Number(); ok {
		return map[string]string{"text": v.Text(), "what": v.What(), "value": n.String()}
	}
	d := linearDoc{Text: v.Text(), What: v.What(), forms: formsOf(v)}
	if l, err := v.Linear(); err == nil {
		m := l.Matrix()
		d.Matrix, d.Rank, d.Free = &m, l.Rank(), l.Free()
	}
	return d
}

// place says where an operand lies.
func place(o arch.Operand) string {
	switch o.In {
	case arch.InShared:
		return "shared memory"
	case arch.InTensor:
		return "tensor memory"
	case arch.Unspecified:
		return "a place that the vendor does not say"
	}
	return "registers"
}

func layoutJSON(v notation.Value, l layout.Layout) layoutDoc {
	d := layoutDoc{Text: l.String(), Shape: l.Shape(), ModeShape: l.ModeShape(), SpatialModes: l.SpatialModes(), LocalModes: l.LocalModes(),
		Threads: l.Threads(), Slots: l.Slots(), Replicas: l.Replicas(), forms: formsOf(v)}
	for _, list := range []*[]int{&d.Shape, &d.ModeShape, &d.SpatialModes, &d.LocalModes} {
		*list = append([]int{}, *list...) // [] rather than null
	}
	if n := l.Threads() * l.Slots(); n > maxPrinted {
		d.MapOmitted = fmt.Sprintf("the map has %d cells, and at most %d are printed", n, maxPrinted)
		return d
	}
	d.Map = make([][][]int, l.Threads())
	for t := range d.Map {
		d.Map[t] = make([][]int, l.Slots())
		for s := range d.Map[t] {
			d.Map[t][s] = append([]int{}, l.Index(t, s)...)
		}
	}
	return d
}

// valueText prints what was read and all its notations.
func valueText(w io.Writer, v notation.Value, t dtype.Type) error {
	if a, operand, ok := v.Instruction(); ok && operand == "" {
		return instructionText(w, v, a)
	}
	if n, ok := v.Number(); ok {
		_, err := fmt.Fprintf(w, "%s = %s\n", v.Text(), n)
		return err
	}
	o, isOperand := v.Operand()
	if isOperand {
		a, _, _ := v.Instruction()
		fmt.Fprintf(w, "operand %s of %s: %s%s in %s\n", o.Name, a.Name, o.Type, ints(o.Shape), place(o))
		if o.Note != "" {
			fmt.Fprintln(w, o.Note)
		}
	}
	l, err := v.Registers()
	switch {
	case err == nil:
		if err := layoutText(w, l, t); err != nil {
			return err
		}
	case isOperand:
		return err
	default:
		if err := otherText(w, v, err); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\nread as %s; in every notation:\n", v.Form())
	notationsText(w, v, "")
	if o.CuTe != "" {
		fmt.Fprintf(w, "\nCuTe's own layout of the operand: %s\n", o.CuTe)
	}
	return nil
}

// notationsText prints a line for each notation, the linear bases over several.
func notationsText(w io.Writer, v notation.Value, skip string) {
	for _, n := range v.Notations() {
		if n.Form == skip {
			continue
		}
		text := n.Text
		if text == "" {
			text = "none: " + n.Reason
		}
		fmt.Fprintf(w, "  %-9s  %s\n", n.Form, indent(text, "             "))
	}
}

// otherText describes what holds no threads.
func otherText(w io.Writer, v notation.Value, noThreads error) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	s, err := v.Memory()
	l, linearErr := v.Linear()
	switch {
	case err == nil:
		// CuTe's modes nest, and shared layouts do not.
		own, cuteErr := v.To(notation.CuTe)
		if cuteErr != nil || v.Form() != notation.CuTe {
			own = s.String()
		}
		fmt.Fprintf(tw, "layout\t%s\n", own)
		fmt.Fprintf(tw, "shape\t%s, %d elements\n", ints(s.Shape()), s.Size())
		fmt.Fprintf(tw, "memory\t%d places", s.CountSize())
		if n := s.CountSize() - s.Size(); n > 0 && s.Injective() {
			fmt.Fprintf(tw, ", %d of them holes", n)
		}
		fmt.Fprintln(tw)
		if x := s.Swizzle(); !x.Identity() {
			fmt.Fprintf(tw, "swizzle\t%s, in elements\n", x)
		}
		fmt.Fprintf(tw, "modes\t%s, strides %s\n", ints(s.ModeShape()), ints(s.ModeStrides()))
		last := s.Shape()
		for d := range last {
			last[d]--
		}
		fmt.Fprintf(tw, "for example\t%s lies at offset %d\n", index(last), s.Offset(last...))
	case v.What() == "swizzle":
		x, _ := v.Swizzle()
		fmt.Fprintf(tw, "swizzle\t%s\n", x)
		if x.Identity() {
			fmt.Fprintln(tw, "moves\tnothing")
			break
		}
		low, high := x.Base, x.Base+x.Shift
		if x.Shift < 0 {
			low, high = x.Base-x.Shift, x.Base
		}
		fmt.Fprintf(tw, "moves\tbits %d to %d of an offset: they are XORed with bits %d to %d\n", low, low+x.Bits-1, high, high+x.Bits-1)
		fmt.Fprintf(tw, "for example\toffset %d becomes %d\n", 1<<high, x.Apply(1<<high))
	case linearErr == nil:
		var in []string
		for _, d := range l.In {
			in = append(in, fmt.Sprintf("%s (%d)", d.Name, d.Size()))
		}
		fmt.Fprintf(tw, "linear map\tfrom %s\n", strings.Join(in, ", "))
		fmt.Fprintf(tw, "shape\t%s\n", ints(l.Shape()))
		fmt.Fprintf(tw, "rank\t%d of %d bits of a place; elements have %d\n", l.Rank(), l.InBits(), l.OutBits())
		fmt.Fprintf(tw, "no threads\t%s\n", firstLine(noThreads))
	default:
		fmt.Fprintf(tw, "%s\t%s\n", v.What(), v.Text())
		fmt.Fprintf(tw, "shape\t%s\n", ints(v.Shape()))
	}
	return tw.Flush()
}

func instructionText(w io.Writer, v notation.Value, a arch.Atom) error {
	fmt.Fprintf(w, "%s, since %s, over %d lanes\n", a.Name, a.Since, a.Lanes)
	for _, part := range v.Parts() {
		o, _ := part.Operand()
		fmt.Fprintf(w, "\n%s  %s%s in %s\n", o.Name, o.Type, ints(o.Shape), place(o))
		if o.In == arch.Unspecified {
			continue
		}
		notationsText(w, part, notation.Linear)
	}
	_, err := fmt.Fprintf(w, "\nask for one operand, such as %s, to see all of it\n", v.Parts()[0].Text())
	return err
}

// valueTable prints the map of a register layout, or the offsets of a layout of
// memory.
func valueTable(w io.Writer, v notation.Value) error {
	l, err := v.Registers()
	if err == nil {
		return layoutTable(w, l)
	}
	if c, tile, cuteErr := v.CuTe(); cuteErr == nil && tile == nil {
		text, tableErr := cute.Table(c)
		if tableErr != nil {
			return tableErr
		}
		_, tableErr = io.WriteString(w, strings.TrimSuffix(text, "\n")+"\n")
		return tableErr
	}
	return err
}

func layoutText(w io.Writer, l layout.Layout, t dtype.Type) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "layout\t%s\n", l)
	fmt.Fprintf(tw, "shape\t%s, %d elements\n", ints(l.Shape()), l.Size())
	fmt.Fprintf(tw, "threads\t%d\n", l.Threads())
	fmt.Fprintf(tw, "slots\t%d in each thread\n", l.Slots())
	if n := l.Replicas(); n > 1 {
		fmt.Fprintf(tw, "replicas\t%d threads hold each element\n", n)
	}
	fmt.Fprintf(tw, "modes\t%s, spatial %s, local %s\n", ints(l.ModeShape()), ints(l.SpatialModes()), ints(l.LocalModes()))
	last := l.Threads() - 1
	fmt.Fprintf(tw, "for example\tthread %d slot %d holds %s\n", last, l.Slots()-1, index(l.Index(last, l.Slots()-1)))
	if t.Valid() {
		bits := t.Bits() * l.Slots()
		fmt.Fprintf(tw, "as %s\t%d bits in each thread\n", t, bits)
		if packed, err := layout.PackedView(t.Bits(), l); err != nil {
			fmt.Fprintf(tw, "packed view\tnone: %v\n", firstLine(err))
		} else {
			fmt.Fprintf(tw, "packed view\tu8%s %s\n", ints(packed.Shape()), packed)
		}
	}
	return tw.Flush()
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// layoutTable prints the map with a line for each thread.
func layoutTable(w io.Writer, l layout.Layout) error {
	if n := l.Threads() * l.Slots(); n > maxPrinted {
		return fmt.Errorf("the table would have %d cells, more than %d; ask for the threads that matter with a smaller layout", n, maxPrinted)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "thread")
	for s := range l.Slots() {
		fmt.Fprintf(tw, "\tslot %d", s)
	}
	fmt.Fprintln(tw)
	for t := range l.Threads() {
		fmt.Fprint(tw, t)
		for s := range l.Slots() {
			fmt.Fprintf(tw, "\t%s", index(l.Index(t, s)))
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}

func ints(list []int) string { return "[" + commas(list) + "]" }

func index(at []int) string { return "(" + commas(at) + ")" }

func commas(list []int) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = fmt.Sprint(n)
	}
	return strings.Join(parts, ", ")
}
