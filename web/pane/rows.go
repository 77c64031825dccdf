package pane

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/notation"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/theatre"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
	"github.com/tilus-lab/tilus-lab/web/pane/given"
)

// StartLayout is the layout that the start page opens with: the accumulator of
// mma.m16n8k16.
const StartLayout = "local(2, 1).spatial(8, 4).local(1, 2)"

// WeightLayout is the layout that the reinterpretation opens with. Each thread
// holds eight elements, so that its bits are whole bytes at every width.
const WeightLayout = "local(2, 1).column_spatial(4, 8).local(4, 1)"

func at(param string) diag.Pos { return diag.Pos{File: param, Line: 1, Col: 1} }

func layoutPane() Pane {
	return Pane{
		Name:  "layout",
		Title: "Layout",
		Doc:   "Which thread holds which element: the tile on the left, the threads on the right. Point at a cell to find it in both.",
		Params: []Param{
			{Name: "e", Title: "Layout", Kind: Layout, Default: StartLayout,
				Doc: "A chain of local, spatial, column_local, column_spatial, replicated; * and / multiply and divide. Or a layout of CuTe, ((4,8),(2,2)):((32,1),(16,8)) on 16x8, of Triton, #ttg.blocked<{…}> on 16x8, a swizzle, Sw<3,4,3>, or an instruction, mma.m16n8k16.f32.f16."},
			{Name: "s", Title: "Show", Kind: Choice, Default: layoutViews, Choices: []string{layoutViews, layoutSteps, layoutOperands, layoutDiff}, Also: Values{"factors": layoutSteps},
				Doc: "The layout both ways; how its chain becomes it, factor by factor; a product or quotient with what it is made of; or where another layout has other owners."},
			Param{Name: "f", Title: "Compare with", Kind: Text, Later: true, Default: "spatial(8, 4).local(2, 2)", Doc: "Another layout of the same shape, whose owners are compared where the difference is shown."}.beside("s", layoutDiff),
			Param{Name: "n", Title: "Factors (0: all)", Kind: Slider, Default: "0", Min: 0, Max: 8, Play: true, Doc: "Step by step: how many factors of the chain are taken, the first ones; 0 takes all."}.beside("s", layoutSteps),
			palette().beside("s", layoutViews, layoutSteps, layoutOperands),
		},
		Render: func(v Values) (Result, error) {
			if v["s"] != layoutViews {
				return renderMade(v)
			}
			return renderLayout("e", v["e"], v.look())
		},
	}
}

// renderLayout draws a layout in any notation; below it stand the others.
func renderLayout(param, text string, o layoutviz.Options) (Result, error) {
	v, err := notation.Read(strings.TrimRight(text, " \t\r\n"))
	if err != nil {
		var list diag.List
		if errors.As(err, &list) {
			for i := range list {
				list[i].Pos.File = param
				list[i].End.File = param
			}
		}
		return Result{}, err
	}
	r, err := drawValue(v, o)
	if err != nil {
		return Result{}, located(err, param, text)
	}
	if _, _, ok := v.Instruction(); ok && len(v.Parts()) > 1 {
		return r, nil
	}
	var b strings.Builder
	for _, n := range v.Notations() {
		if n.Reason != "" {
			n.Text = "none: " + n.Reason
		}
		fmt.Fprintf(&b, "%-10s %s\n", n.Form, strings.ReplaceAll(n.Text, "\n", "\n           "))
	}
	r.Text = b.String()
	return r, nil
}

func drawValue(v notation.Value, o layoutviz.Options) (Result, error) {
	if layoutviz.UsualView(v) == "tensor" {
		l, err := v.Registers()
		if err != nil {
			return Result{}, err
		}
		return bothViews(l, o)
	}
	o.NoCaption = true
	p, err := layoutviz.Value(v, "", 0, o)
	return Result{Pictures: []Picture{{Name: layoutviz.UsualView(v), Picture: p}}, Sentence: p.Desc}, err
}

// bothViews is the tensor view and the thread view of one layout. They say what they
// show: who exports one puts it where the pane's sentence is not.
func bothViews(l layout.Layout, o layoutviz.Options) (Result, error) {
	// Both at once: a large layout takes a good part of the time that an answer may.
	var tensor layoutviz.Picture
	var failed error
	done := make(chan struct{})
	go func(o layoutviz.Options) {
		defer close(done)
		tensor, failed = layoutviz.Tensor(l, o)
	}(o)
	// Two columns of threads where both views still stand beside each other.
	if l.Slots() <= 8 {
		o.Column = 16
	}
	threads, err := layoutviz.Threads(l, o)
	<-done
	if err := cmp.Or(failed, err); err != nil {
		return Result{}, err
	}
	t, s := min(5, l.Threads()-1), min(2, l.Slots()-1)
	return Result{
		Pictures: []Picture{{Name: "tensor", Picture: tensor}, {Name: "threads", Picture: threads}},
		Sentence: fmt.Sprintf("Thread %d slot %d holds %s. %s", t, s, tuple(l.Index(t, s)), size(l)),
	}, nil
}

func tuple(v []int) string {
	s := make([]string, len(v))
	for i, n := range v {
		s[i] = strconv.Itoa(n)
	}
	return "(" + strings.Join(s, ", ") + ")"
}

// extents writes a shape as program text does: [16, 8].
func extents(v []int) string { return "[" + strings.Trim(tuple(v), "()") + "]" }

// size says how large a layout is.
func size(l layout.Layout) string {
	out := fmt.Sprintf("%s has %d elements: %d threads with %d each", extents(l.Shape()), l.Size(), l.Threads(), l.Slots())
	if r := l.Replicas(); r > 1 {
		out += fmt.Sprintf(", every element held %d times", r)
	}
	return out + "."
}

func reinterpretPane() Pane {
	return Pane{
		Name:  "reinterpret",
		Title: "Reinterpretation",
		Doc:   "The bits that a thread holds, as bytes and as values of 1 to 8 bits. No bit moves: a View only reads them as another type.",
		Params: []Param{
			{Name: "w", Title: "Bits per value", Kind: Slider, Default: "6", Min: 1, Max: 8, Doc: "Width of the low-precision type."},
			{Name: "k", Title: "Kind", Kind: Choice, Default: "int", Choices: []string{"int", "uint", "float"}, Doc: "Signed integers, unsigned integers or floats."},
			{Name: "e", Title: "Layout of the values", Kind: Layout, Default: WeightLayout, Doc: "The layout after the View; the layout of the bytes follows from it."},
			{Name: "t", Title: "Threads", Kind: Text, Default: "", Hint: "first few", Doc: "Threads to show, for example 0, 5; empty for the first few."},
			palette(),
		},
		Render: renderReinterpret,
	}
}

// floats are the types that the float kind stands for, by width.
var floats = map[int]string{3: "f3e1m1", 4: "f4e2m1", 5: "f5e2m2", 6: "f6e3m2", 7: "f7e3m3", 8: "f8e4m3"}

func renderReinterpret(v Values) (Result, error) {
	w, err := strconv.Atoi(v["w"])
	if err != nil {
		return Result{}, err
	}
	name := map[string]string{"int": "i", "uint": "u"}[v["k"]] + v["w"]
	if v["k"] == "float" {
		name = floats[w]
		if name == "" {
			return Result{}, diag.List{{Pos: at("w"), Code: "Pane.E6", Msg: fmt.Sprintf("there is no float of %d bits; floats have 3 to 8", w), Help: "choose a wider value, or int"}}
		}
	}
	elem, err := dtype.Parse(name)
	if err != nil {
		return Result{}, diag.List{{Pos: at("k"), Code: "Pane.E7", Msg: fmt.Sprintf("there is no type %s", name)}}
	}
	l, err := layout.ParseAt(v["e"], at("e"))
	if err != nil {
		return Result{}, err
	}
	packed, err := layout.PackedView(w, l)
	if err != nil {
		return Result{}, located(err, "e", v["e"])
	}
	var threads []int
	for _, s := range strings.FieldsFunc(v["t"], func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n >= l.Threads() {
			return Result{}, diag.List{{Pos: at("t"), Code: "Pane.E8", Msg: fmt.Sprintf("there is no thread %.20q; the layout has %d, from 0", s, l.Threads())}}
		}
		threads = append(threads, n)
	}
	if len(threads) > 8 {
		return Result{}, diag.List{{Pos: at("t"), Code: "Pane.E9", Msg: fmt.Sprintf("%d threads; at most 8 are shown", len(threads))}}
	}
	o := v.look()
	o.Threads = threads
	pic, err := layoutviz.Reinterpret(dtype.U8, packed, elem, l, o)
	if err != nil {
		return Result{}, err
	}
	shape := strings.Trim(tuple(l.Shape()), "()")
	return Result{
		Pictures: []Picture{{Name: "bits", Picture: pic}},
		Sentence: pic.Desc,
		Text: fmt.Sprintf("View(x) : register %s[%s] %s\nwhere x : register u8[%d] %s",
			elem, shape, l, packed.Size(), packed),
	}, nil
}

// packages is how errors of ours begin, which tells people who program and nobody else something.
var packages = regexp.MustCompile(`^(affine|arch|bank|dispatch|layout|layoutviz|notation|volta): `)

// bare is what an error says, without the package that says it.
func bare(err error) string { return packages.ReplaceAllString(err.Error(), "") }

// located gives a problem without a place the whole of a parameter's value.
func located(err error, param, value string) error {
	p, ok := err.(diag.Problem)
	if !ok {
		p = diag.Problem{Code: "Pane.E5", Msg: bare(err)}
	}
	p.Pos, p.End = at(param), diag.Pos{File: param, Line: 1, Col: len(value) + 1}
	return diag.List{p}
}

// notations is what the see pane accepts, in its order of trying.
const notations = "a layout chain (local(2, 1).spatial(8, 4)), a layout of CuTe ((8,64):(64,1)) or Triton (#ttg.blocked<{…}> on 16x8), a swizzle (Sw<3,4,3>), an instruction (mma.m16n8k16.f32.f16), an element type (f4e2m1, i6, u3), a tensor (f16[2, 2] = 1 2 3 4), or a program (program name<grid>(…) warps=1 { … })"

func seePane() Pane {
	return Pane{
		Name:  "see",
		Title: "See",
		Doc:   "Paste anything: it is recognised and drawn. Accepted are " + notations + ".",
		Params: []Param{
			{Name: "x", Title: "Anything", Kind: Program, Default: "column_local(2, 2).spatial(8, 4).local(1, 2)", Doc: "Accepted are " + notations + "."},
			palette(),
		},
		Render: func(v Values) (Result, error) {
			x := strings.TrimSpace(v["x"])
			if x == "" {
				return Result{}, diag.List{{Pos: at("x"), Code: "Pane.E10", Msg: "nothing to see", Help: "paste " + notations}}
			}
			if isProgram(x) {
				return renderProgram("x", v["x"], v.look())
			}
			if t, err := dtype.Parse(x); err == nil {
				return typeTable(t), nil
			}
			if a, is, err := given.ReadArray("x", v["x"]); is {
				if err != nil {
					return Result{}, err
				}
				pic, err := theatre.Array(a.Header, a.Shape, a.Values, v.look())
				return Result{Pictures: []Picture{{Name: "values", Picture: pic}}, Sentence: pic.Desc}, err
			}
			// Leading space stays, so that columns are those of the field.
			r, err := renderLayout("x", v["x"], v.look())
			if list, ok := err.(diag.List); ok && !strings.ContainsAny(x, "(:<") {
				list[0].Help = "this is no notation known here; paste " + notations
			}
			return r, err
		},
	}
}

func isProgram(x string) bool {
	for _, line := range strings.Split(x, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		return strings.HasPrefix(line, "program ")
	}
	return false
}

// typeTable lists all codes of a type of at most 8 bits.
func typeTable(t dtype.Type) Result {
	r := Result{Sentence: fmt.Sprintf("%s is an element type of %d bits; its values run from %v to %v.", t, t.Bits(), t.Min(), t.Max())}
	if t.Bits() > 8 {
		return r
	}
	var b strings.Builder
	n := 1 << t.Bits()
	rows := (n + 7) / 8
	for i := range rows {
		for c := 0; c < 8 && c*rows+i < n; c++ {
			code := c*rows + i
			fmt.Fprintf(&b, "%0*b %-11s", t.Bits(), code, strconv.FormatFloat(t.Decode(uint64(code)), 'g', 6, 64))
		}
		b.WriteByte('\n')
	}
	r.Text = b.String()
	return r
}

// StartProgram is the program that the program pane opens with.
const StartProgram = `program cast<M/16, N/8>(a: *f32, c: *f16, M: i32, N: i32) warps=1 {
	bi, bj = BlockIndices()
	ga = ViewGlobal(a) : global f32[M, N]
	gc = ViewGlobal(c) : global f16[M, N]
	x = LoadGlobal(ga, offset=[bi*16, bj*8]) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	y = Cast(x) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	StoreGlobal(gc, y, offset=[bi*16, bj*8])
}
`

func programPane() Pane {
	return Pane{
		Name:  "program",
		Title: "Program",
		Doc:   "A program, checked while you type, with the code that it becomes and the layouts that it uses. Choose a cell of a layout to follow that element through the program.",
		Params: []Param{
			{Name: "src", Title: "Program", Kind: Program, Default: StartProgram, Doc: "Program text; the result shows it in canonical form."},
			{Name: "b", Title: "Beside it", Kind: Choice, Default: formPTX, Choices: []string{formPTX, formThread, formCUDA, formNone}, Doc: "What the program becomes: lines are linked both ways. The pane of generated code has more of it."},
			following(),
			palette(),
			{Name: "a", Title: "Arguments", Kind: Program, Later: true, Default: "", Hint: "made up", Doc: "Of the launch in which an element is followed, one a line; left out, sizes and values are made up."},
		},
		Render: renderProgramPane,
	}
}

// maxLayouts is how many layouts of a program are drawn.
const maxLayouts = 6

// use is a layout of a program and the variables that have it.
type use struct {
	l     layout.Layout
	vars  []*ir.Var
	names []string // for each element type: "x, y : f32"
}

// usesOf lists the register layouts of a program, each once, in order of their
// first use.
func usesOf(p *ir.Program) []*use {
	var uses []*use
	seen := map[string]*use{}
	types := map[string][]dtype.Type{} // by layout, in order
	vars := map[string][]string{}      // by layout and type
	p.Body.Walk(func(s ir.Stmt) bool {
		in, ok := s.(*ir.Instr)
		if !ok {
			return true
		}
		for _, v := range in.Out {
			if !v.Type.IsRegister() || !v.Type.HasLayout {
				continue
			}
			k := v.Type.Layout.Key()
			if seen[k] == nil {
				seen[k] = &use{l: v.Type.Layout}
				uses = append(uses, seen[k])
			}
			if !slices.Contains(seen[k].vars, v) {
				seen[k].vars = append(seen[k].vars, v)
			}
			typed := k + v.Type.Elem.String()
			if vars[typed] == nil {
				types[k] = append(types[k], v.Type.Elem)
			}
			if !slices.Contains(vars[typed], v.Name) {
				vars[typed] = append(vars[typed], v.Name)
			}
		}
		return true
	})
	for k, u := range seen {
		for _, t := range types[k] {
			u.names = append(u.names, strings.Join(vars[k+t.String()], ", ")+" : "+t.String())
		}
	}
	return uses
}

func renderProgram(param, src string, o layoutviz.Options) (Result, error) {
	p, err := compile.Parse(param, src, nil)
	if err != nil {
		return Result{}, err
	}
	r := Result{Text: text.Format(p)}
	uses := usesOf(p)
	for i, u := range uses[:min(len(uses), maxLayouts)] {
		pic, err := layoutviz.Tensor(u.l, o)
		if err != nil {
			return Result{}, err
		}
		name := strings.Join(u.names, "; ")
		// Elements of different tiles do not belong together.
		var first []int
		for _, v := range u.vars[:min(len(u.vars), 4)] {
			first = append(first, varKey(p, v))
		}
		for j := range pic.IDs {
			e := &pic.IDs[j]
			e.ID = fmt.Sprintf("v%d.%s", i, e.ID)
			var keys []int
			for _, k := range e.Keys {
				for _, first := range first {
					keys = append(keys, first+k)
				}
			}
			e.Keys = keys
		}
		drawn := Picture{Name: name, Picture: pic}
		if param == "src" {
			drawn = drawn.going(followed(u.vars[0].Name, 0))
		}
		r.Pictures = append(r.Pictures, drawn)
	}
	r.Sentence = fmt.Sprintf("%s runs %d threads in each block and uses %d register layouts.", p.Name, p.Threads(), len(uses))
	if len(uses) == 1 {
		r.Sentence = fmt.Sprintf("%s runs %d threads in each block and uses one register layout.", p.Name, p.Threads())
	}
	return r, nil
}
