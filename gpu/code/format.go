package code

import (
	"fmt"
	"strings"
)

// Format is the text of a function: one instruction per line, values as %n,
// regions indented, positions at the end of the line where they change.
func Format(f *Func) string {
	p := &printer{f: f}
	var params []string
	for i, pr := range f.Params {
		typ := pr.Elem
		if typ == "" {
			typ = pr.Type.String()
		}
		if pr.Kind == Pointer {
			typ = "*" + typ
		}
		if pr.NoAlias {
			typ += " noalias"
		}
		if pr.ReadOnly {
			typ += " readonly"
		}
		v := Value(0)
		if i < len(f.Body.Args) {
			v = f.Body.Args[i]
		}
		params = append(params, fmt.Sprintf("%s %s: %s", v, pr.Name, typ))
	}
	var grid []string
	for _, e := range f.Launch.Grid {
		grid = append(grid, e.String())
	}
	fmt.Fprintf(&p.b, "func %s(%s) grid=[%s] block=%d", f.Name, strings.Join(params, ", "), strings.Join(grid, ", "), f.Launch.Block)
	for _, x := range []struct {
		name string
		n    int
	}{{"shared", f.Launch.SharedBytes}, {"maxreg", f.Launch.MaxReg}, {"minblocks", f.Launch.MinBlocks}} {
		if x.n != 0 {
			fmt.Fprintf(&p.b, " %s=%d", x.name, x.n)
		}
	}
	if f.Launch.Cluster != [3]int{} {
		fmt.Fprintf(&p.b, " cluster=%v", f.Launch.Cluster)
	}
	if f.Launch.PDL {
		p.b.WriteString(" pdl")
	}
	p.b.WriteString(" {\n")
	p.region(f.Body, 1)
	p.b.WriteString("}\n")
	return p.b.String()
}

// String is "%n".
func (v Value) String() string { return fmt.Sprintf("%%%d", int32(v)) }

type printer struct {
	f    *Func
	b    strings.Builder
	last string
}

func list(vals []Value) string {
	parts := make([]string, len(vals))
	for i, v := range vals {
		parts[i] = v.String()
	}
	return strings.Join(parts, ", ")
}

func (p *printer) typed(vals []Value) string {
	parts := make([]string, len(vals))
	for i, v := range vals {
		parts[i] = v.String() + " " + p.f.Type(v).String()
	}
	return strings.Join(parts, ", ")
}

func (p *printer) line(depth int, text string) {
	p.b.WriteString(strings.Repeat("\t", depth))
	p.b.WriteString(text)
	p.b.WriteByte('\n')
}

func (p *printer) region(r *Region, depth int) {
	for _, in := range r.Instrs {
		p.instr(in, depth)
	}
}

// Text is the instruction without its regions and position: "%5 = add.b32 %3, %4".
func (in *Instr) Text() string {
	var b strings.Builder
	if len(in.Out) > 0 {
		b.WriteString(list(in.Out) + " = ")
	}
	row := in.Row()
	if in.Guard != 0 {
		fmt.Fprintf(&b, "@%s ", in.Guard)
	}
	b.WriteString(row.Name)
	var args []string
	for i, k := range row.Imm {
		if i >= len(in.Imm) {
			break
		}
		switch v := in.Imm[i]; k {
		case ImmCmp:
			b.WriteString("." + Cmp(v).String())
		case ImmAttr:
			b.WriteString(Attr(v).String())
		}
	}
	for _, v := range in.In {
		args = append(args, v.String())
	}
	for i, k := range row.Imm {
		if i >= len(in.Imm) {
			break
		}
		switch v := in.Imm[i]; k {
		case ImmCmp, ImmAttr:
		case ImmOffset:
			if v != 0 {
				args = append(args, fmt.Sprintf("offset=%d", v))
			}
		case ImmUnroll:
			if v != 1 {
				args = append(args, fmt.Sprintf("unroll=%d", v))
			}
		case ImmLut:
			args = append(args, fmt.Sprintf("%#x", v))
		case ImmBits:
			if v < 0 || v > 1<<16 {
				args = append(args, fmt.Sprintf("%#x", uint64(v)))
				break
			}
			args = append(args, fmt.Sprint(v))
		default:
			args = append(args, fmt.Sprint(v))
		}
	}
	if len(args) > 0 {
		b.WriteString(" " + strings.Join(args, ", "))
	}
	return b.String()
}

func (p *printer) instr(in *Instr, depth int) {
	text := in.Text()
	pos := ""
	if s := in.Pos.String(); s != p.last {
		pos, p.last = "  // "+s, s
	}
	if in.Row().Class != Control {
		p.line(depth, text+pos)
		return
	}
	for i, r := range in.Regions {
		args := ""
		if len(r.Args) > 0 {
			args = " (" + p.typed(r.Args) + ")"
		}
		switch {
		case i == 0:
			p.line(depth, text+args+" {"+pos)
		case in.Op == OpIf:
			if len(r.Instrs) == 0 && len(r.Yield) == 0 {
				continue
			}
			p.line(depth, "} else {")
		default:
			p.line(depth, "} do {")
		}
		p.region(r, depth+1)
		if len(r.Yield) > 0 {
			p.line(depth+1, "yield "+list(r.Yield))
		}
	}
	p.line(depth, "}")
}
