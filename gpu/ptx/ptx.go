// Package ptx prints thread code as PTX, the assembler text that the NVIDIA
// driver compiles. It decides nothing: each instruction becomes the text of its
// row, each region a few labels and branches, each register of
// [code.Assign] a PTX register. Constants are written into the instructions
// that can hold them.
//
// The same function gives the same bytes in every run.
package ptx

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Options of the text.
type Options struct {
	Arch string // "sm_80", "sm_89", "sm_90a", …
	// NoPos leaves out the comments that name the program line of the
	// instructions below.
	NoPos bool
}

// Version is the PTX version of every text without an instruction that needs a
// later one: the first that knows sm_90a, read by all drivers of CUDA 12 and 13.
const Version = "8.0"

// Level is the compute capability times ten in an architecture name.
func Level(arch string) (code.Arch, error) {
	var n int
	if _, err := fmt.Sscanf(strings.TrimRight(arch, "af"), "sm_%d", &n); err != nil || n < 80 || n > 90 && n < 100 || n > 110 {
		return 0, fmt.Errorf("ptx: architecture %q is not between sm_80 and sm_110a", arch)
	}
	return code.Arch(n), nil
}

// Check says which instruction of f an architecture does not have.
func Check(f *code.Func, arch string) error {
	level, err := Level(arch)
	if err != nil {
		return err
	}
	f.Body.Walk(func(in *code.Instr) {
		if err == nil {
			err = missing(in, level, arch)
		}
	})
	return err
}

func missing(in *code.Instr, level code.Arch, arch string) error {
	wants := in.Row().Needs(arch, level)
	if wants == "" {
		return nil
	}
	return diag.List{{Pos: in.Pos, Code: "Target.E1", Msg: fmt.Sprintf("the instruction made of this, %s, needs %s, not %s", in.Row().Name, wants, arch), Help: fmt.Sprintf("--arch %s has it; --device interp runs the program", wants)}}
}

// Print is the PTX text of one module with one entry, f. f must be verified. The
// error says which instruction the architecture does not have.
func Print(f *code.Func, o Options) (string, error) {
	level, err := Level(o.Arch)
	if err != nil {
		return "", err
	}
	b, _ := buffers.Get().(*bytes.Buffer)
	if b == nil {
		b = &bytes.Buffer{}
	}
	defer buffers.Put(b)
	b.Reset()
	p := &printer{b: b, f: f, o: o, regs: code.Assign(f), consts: make([]*code.Instr, len(f.Types)), held: make([]bool, len(f.Types)), version: Version}
	count := 0
	f.Body.Walk(func(in *code.Instr) {
		count++
		if err == nil {
			err = missing(in, level, o.Arch)
		}
		p.version = max(p.version, in.Row().ISA)
		p.survey(in)
	})
	if err == nil && f.Launch.Cluster != [3]int{} && level < 90 {
		err = fmt.Errorf("ptx: clusters need sm_90, not %s", o.Arch)
	}
	if err != nil {
		return "", err
	}
	if level >= 100 {
		p.version = max(p.version, "8.6")
	}
	p.b.Grow(56 * count) // a little more than most take
	for i, a := range f.Body.Args {
		if f.Params[i].Kind == code.Tensor {
			if level < 90 {
				return "", fmt.Errorf("ptx: tensor maps need sm_90, not %s", o.Arch)
			}
			p.line("mov.b64 %s, %s", p.reg(a), param(f, i))
			p.line("cvta.param.u64 %s, %s", p.reg(a), p.reg(a))
			continue
		}
		p.line("ld.param.b%d %s, [%s]", f.Params[i].Type.Bits(), p.reg(a), param(f, i))
	}
	p.region(f.Body)
	p.line("ret")
	head := p.header()
	var all strings.Builder
	all.Grow(len(head) + p.b.Len() + 2)
	all.WriteString(head)
	all.Write(p.b.Bytes())
	all.WriteString("}\n")
	return all.String(), nil
}

// buffers lends what texts are written to before their length is known.
var buffers sync.Pool

type printer struct {
	f       *code.Func
	o       Options
	regs    *code.Registers
	consts  []*code.Instr // by value
	held    []bool        // by value: constants that need a register
	forms   [2][]*form    // of this text, by operation: rows of code.Rows, and of code.ProxyRows
	shared  bool
	version string
	numbers []int32 // of each register, from 1 on
	count   [code.B64 + 1]int
	labels  int
	b       *bytes.Buffer
	pos     diag.Pos
	placed  bool   // pos was written
	file    string // how a comment of pos begins, up to the line; "" where none does
}

// form is what all instructions of an operation have in common.
type form struct {
	row    *code.Row
	pieces []piece
	inputs []bool // which inputs may be constants
	end    string
	guard  bool // the template says where the guard stands
}

// piece is text of a template and the placeholder behind it.
type piece struct {
	text  string
	kind  kind
	index int
	style string
}

// kind is what stands at a placeholder.
type kind uint8

const (
	kindEnd kind = iota
	kindOut
	kindIn
	kindImm
	kindOuts
	kindCmp
	kindFloatCmp
	kindMem
	kindGuard
	kindAttr
)

var kinds = map[string]kind{"": kindEnd, "o": kindOut, "a": kindIn, "i": kindImm, "outs": kindOuts, "cmp": kindCmp, "fcmp": kindFloatCmp, "mem": kindMem, "guard": kindGuard, "attr": kindAttr}

// forms are the forms of rows that were printed, by operation: rows do not change.
var forms sync.Map

func (p *printer) form(op code.Op) *form {
	list, at := &p.forms[0], int(op)
	if op.Proxied() {
		list, at = &p.forms[1], int(op-code.OpMbarInit)
	}
	for at >= len(*list) {
		*list = append(*list, make([]*form, at+64-len(*list))...)
	}
	x := (*list)[at]
	if x == nil {
		kept, ok := forms.Load(op)
		if !ok {
			kept, _ = forms.LoadOrStore(op, formOf(op.Row()))
		}
		x = kept.(*form)
		(*list)[at] = x
	}
	return x
}

func formOf(row *code.Row) *form {
	x := &form{row: row, inputs: row.ConstInputs(), end: ";\n", guard: strings.Contains(row.PTX, "{guard}")}
	if strings.HasPrefix(row.PTX, "{ ") {
		x.end = "\n"
	}
	for _, q := range code.Pieces(row.PTX) {
		k, ok := kinds[q.Slot.Kind]
		if !ok {
			panic("ptx: template of " + row.Name + " has {" + q.Slot.Kind + "}")
		}
		x.pieces = append(x.pieces, piece{q.Text, k, q.Slot.Index, q.Slot.Style})
	}
	return x
}

// survey finds the constants that some use needs in a register.
func (p *printer) survey(in *code.Instr) {
	switch in.Op {
	case code.OpConstPred, code.OpConst16, code.OpConst32, code.OpConst64:
		p.consts[in.Out[0]] = in
		return
	case code.OpSharedBase:
		p.shared = true
	case code.OpIf:
		p.held[in.In[0]] = true
	case code.OpWhile:
		p.held[in.Regions[0].Yield[0]] = true
	}
	p.held[in.Guard] = true
	for i, ok := range p.form(in.Op).inputs {
		if !ok {
			p.held[in.In[i]] = true
		}
	}
}

func param(f *code.Func, i int) string { return fmt.Sprintf("%s_%s", f.Name, f.Params[i].Name) }

func (p *printer) header() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".version %s\n.target %s\n.address_size 64\n\n", p.version, p.o.Arch)
	if p.shared {
		b.WriteString(".extern .shared .align 1024 .b8 shared_memory[];\n\n")
	}
	fmt.Fprintf(&b, ".visible .entry %s(", p.f.Name)
	for i, pr := range p.f.Params {
		if i > 0 {
			b.WriteByte(',')
		}
		if pr.Kind == code.Tensor {
			fmt.Fprintf(&b, "\n\t.param .align 64 .b8 %s[128]", param(p.f, i))
			continue
		}
		fmt.Fprintf(&b, "\n\t.param .b%d %s", pr.Type.Bits(), param(p.f, i))
	}
	l := p.f.Launch
	fmt.Fprintf(&b, "\n)\n.reqntid %d, 1, 1\n", l.Block)
	if l.MaxReg > 0 {
		fmt.Fprintf(&b, ".maxnreg %d\n", l.MaxReg)
	}
	if l.MinBlocks > 0 {
		fmt.Fprintf(&b, ".minnctapersm %d\n", l.MinBlocks)
	}
	if c := l.Cluster; c != [3]int{} {
		fmt.Fprintf(&b, ".reqnctapercluster %d, %d, %d\n", c[0], c[1], c[2])
	}
	b.WriteString("{\n")
	for t := code.Pred; t <= code.B64; t++ {
		if p.count[t] > 0 {
			fmt.Fprintf(&b, "\t.reg .%s %s<%d>;\n", t, prefix[t], p.count[t])
		}
	}
	return b.String()
}

var prefix = [...]string{code.Pred: "%p", code.B16: "%h", code.B32: "%r", code.B64: "%rd"}

// number numbers registers of each type in the order in which they appear.
func (p *printer) number(reg int32) int32 {
	for int(reg) >= len(p.numbers) {
		p.numbers = append(p.numbers, make([]int32, len(p.regs.Types)-len(p.numbers))...)
	}
	if p.numbers[reg] == 0 {
		t := p.regs.Types[reg]
		p.count[t]++
		p.numbers[reg] = int32(p.count[t])
	}
	return p.numbers[reg] - 1
}

func (p *printer) name(reg int32) string {
	n := p.number(reg)
	return prefix[p.regs.Types[reg]] + strconv.Itoa(int(n))
}

func (p *printer) reg(v code.Value) string { return p.name(p.regs.Of[v]) }

func (p *printer) writeName(reg int32) {
	n := p.number(reg)
	p.b.WriteString(prefix[p.regs.Types[reg]])
	p.writeInt(int64(n))
}

func (p *printer) writeReg(v code.Value) { p.writeName(p.regs.Of[v]) }

func (p *printer) writeInt(n int64) { p.b.Write(strconv.AppendInt(p.b.AvailableBuffer(), n, 10)) }

func (p *printer) writeHex(n uint64) {
	p.b.Write(strconv.AppendUint(append(p.b.AvailableBuffer(), "0x"...), n, 16))
}

// operand is a register or, for a constant without one, its number.
func (p *printer) operand(v code.Value, style string) string {
	from := p.b.Len()
	p.writeOperand(v, style)
	s := string(p.b.Bytes()[from:])
	p.b.Truncate(from)
	return s
}

func (p *printer) writeOperand(v code.Value, style string) {
	in := p.consts[v]
	if in == nil || p.held[v] {
		p.writeReg(v)
		return
	}
	bits := uint64(in.Imm[0])
	switch t := p.f.Type(v); {
	case style == "#f":
		fmt.Fprintf(p.b, "0f%08X", bits)
	case style == "#x":
		p.writeHex(bits)
	case style == "#d":
		fmt.Fprintf(p.b, "0d%016X", bits)
	default:
		p.writeConstant(bits, t)
	}
}

// writeConstant writes a constant of type t as PTX has it: small numbers in decimal with
// their sign, others in hexadecimal.
func (p *printer) writeConstant(bits uint64, t code.Type) {
	shift := 64 - t.Bits()
	if s := int64(bits<<shift) >> shift; s > -1<<16 && s < 1<<16 {
		p.writeInt(s)
		return
	}
	p.writeHex(bits)
}

func (p *printer) line(format string, args ...any) {
	p.b.WriteByte('\t')
	fmt.Fprintf(p.b, format, args...)
	p.b.WriteString(";\n")
}

func (p *printer) label() string {
	p.labels++
	return fmt.Sprintf("$L%d", p.labels)
}

func (p *printer) place(label string) { fmt.Fprintf(p.b, "%s:\n", label) }

func (p *printer) at(in *code.Instr) {
	if p.o.NoPos || p.placed && in.Pos == p.pos || !p.placed && in.Pos == (diag.Pos{}) {
		return
	}
	switch before := p.pos; {
	case p.placed && p.file != "" && before.File == in.Pos.File && in.Pos.Line > 0 && in.Pos.Col > 0:
		p.b.WriteString(p.file)
		p.writeInt(int64(in.Pos.Line))
		p.b.WriteByte(':')
		p.writeInt(int64(in.Pos.Col))
		p.b.WriteByte('\n')
	case !p.placed || in.Pos.String() != before.String():
		from := p.b.Len()
		p.b.WriteString("\t// ")
		// Assemblers refuse other characters in comments too.
		p.b.WriteString(strings.Trim(strconv.QuoteToASCII(in.Pos.String()), `"`))
		p.file = "" // what stands in front of the line number
		if said := p.b.Bytes()[from:]; in.Pos.Line > 0 && in.Pos.Col > 0 && in.Pos.File != "" {
			said = said[:bytes.LastIndexByte(said, ':')]
			p.file = string(said[:bytes.LastIndexByte(said, ':')+1])
		}
		p.b.WriteByte('\n')
	}
	p.pos, p.placed = in.Pos, true
}

func (p *printer) copies(to, from []code.Value) {
	for _, c := range p.regs.Copies(to, from) {
		t := p.regs.Types[c.To]
		in := p.consts[c.Value]
		switch {
		case in == nil || p.held[c.Value]:
			p.move(t, c.To)
			p.writeName(c.From)
			p.b.WriteString(";\n")
		case t == code.Pred:
			p.line("setp.ne.u32 %s, %d, 0", p.name(c.To), in.Imm[0])
		default:
			p.move(t, c.To)
			p.writeOperand(c.Value, "#")
			p.b.WriteString(";\n")
		}
	}
}

// move begins a move into a register.
func (p *printer) move(t code.Type, to int32) {
	p.b.WriteString("\tmov.")
	p.b.WriteString(t.String())
	p.b.WriteByte(' ')
	p.writeName(to)
	p.b.WriteString(", ")
}

func (p *printer) region(r *code.Region) {
	for _, in := range r.Instrs {
		p.instr(in)
	}
}

func (p *printer) instr(in *code.Instr) {
	if p.consts[firstOf(in.Out)] == in && len(in.Out) > 0 && !p.held[in.Out[0]] {
		return
	}
	p.at(in)
	switch in.Op {
	case code.OpIf:
		p.branch(in)
		return
	case code.OpFor:
		p.loop(in)
		return
	case code.OpWhile:
		p.while(in)
		return
	}
	x := p.form(in.Op)
	row := x.row
	if in.Guard != 0 {
		p.copies(in.Out, in.In[len(row.In):])
	}
	if row.InPlace {
		p.copies(in.Out, in.In[len(in.In)-len(in.Out):])
	}
	p.b.WriteByte('\t')
	if !x.guard {
		p.guard(in)
	}
	p.text(in, x)
	p.b.WriteString(x.end)
	if row.Through {
		p.copies(in.Out, in.In[len(row.In):])
	}
}

func firstOf(vals []code.Value) code.Value {
	if len(vals) == 0 {
		return 0
	}
	return vals[0]
}

// guard writes what stands before a guarded instruction.
func (p *printer) guard(in *code.Instr) {
	if in.Guard != 0 {
		p.b.WriteByte('@')
		p.writeReg(in.Guard)
		p.b.WriteByte(' ')
	}
}

// text writes the row's template with the operands of one instruction.
func (p *printer) text(in *code.Instr, x *form) {
	for i := range x.pieces {
		s := &x.pieces[i]
		p.b.WriteString(s.text)
		switch s.kind {
		case kindOut:
			p.writeReg(in.Out[s.index])
		case kindIn:
			p.writeOperand(in.In[s.index], s.style)
		case kindImm:
			if s.style == "x" {
				p.writeHex(uint64(in.Imm[s.index]))
			} else {
				p.writeInt(in.Imm[s.index])
			}
		case kindOuts:
			p.b.WriteByte('{')
			for i, v := range in.Out {
				if i > 0 {
					p.b.WriteString(", ")
				}
				p.writeReg(v)
			}
			p.b.WriteByte('}')
		case kindCmp:
			p.b.WriteString(code.Cmp(in.Imm[0]).String())
		case kindFloatCmp:
			if code.Cmp(in.Imm[0]) == code.NE { // true with a NaN
				p.b.WriteString("neu")
			} else {
				p.b.WriteString(code.Cmp(in.Imm[0]).String())
			}
		case kindMem:
			p.b.WriteByte('[')
			p.writeReg(in.In[0])
			if in.Imm[0] != 0 {
				p.b.WriteByte('+')
				p.writeInt(in.Imm[0])
			}
			p.b.WriteByte(']')
		case kindGuard:
			p.guard(in)
		case kindAttr:
			p.b.WriteString(in.Attr().String())
		}
	}
}

func (p *printer) branch(in *code.Instr) {
	then, els := in.Regions[0], in.Regions[1]
	end := p.label()
	if len(els.Instrs) == 0 && len(p.regs.Copies(in.Out, els.Yield)) == 0 {
		p.line("@!%s bra %s", p.reg(in.In[0]), end)
		p.region(then)
		p.copies(in.Out, then.Yield)
		p.place(end)
		return
	}
	other := p.label()
	p.line("@!%s bra %s", p.reg(in.In[0]), other)
	p.region(then)
	p.copies(in.Out, then.Yield)
	p.line("bra %s", end)
	p.place(other)
	p.region(els)
	p.copies(in.Out, els.Yield)
	p.place(end)
}

func (p *printer) loop(in *code.Instr) {
	r := in.Regions[0]
	p.copies(append([]code.Value{r.Args[0]}, in.Out...), append([]code.Value{in.In[0]}, in.In[3:]...))
	i, end, step := p.reg(r.Args[0]), p.operand(in.In[1], "#"), p.operand(in.In[2], "#")
	test := p.temp(code.Pred)
	head, exit := p.label(), p.label()
	if !p.runs(in) {
		p.line("setp.ge.s32 %s, %s, %s", test, i, end)
		p.line("@%s bra %s", test, exit)
	}
	p.place(head)
	p.line(`.pragma "nounroll"`)
	p.region(r)
	p.copies(in.Out, r.Yield)
	p.line("add.s32 %s, %s, %s", i, i, step)
	p.line("setp.lt.s32 %s, %s, %s", test, i, end)
	p.line("@%s bra %s", test, head)
	p.place(exit)
}

// runs reports whether a loop is known to run at least once.
func (p *printer) runs(in *code.Instr) bool {
	a, b := p.consts[in.In[0]], p.consts[in.In[1]]
	return a != nil && b != nil && int32(a.Imm[0]) < int32(b.Imm[0])
}

func (p *printer) temp(t code.Type) string {
	p.regs.Types = append(p.regs.Types, t)
	return p.name(int32(len(p.regs.Types) - 1))
}

func (p *printer) while(in *code.Instr) {
	cond, body := in.Regions[0], in.Regions[1]
	p.copies(in.Out, in.In)
	head, exit := p.label(), p.label()
	p.place(head)
	p.line(`.pragma "nounroll"`)
	p.region(cond)
	p.line("@!%s bra %s", p.reg(cond.Yield[0]), exit)
	p.region(body)
	p.copies(in.Out, body.Yield)
	p.line("bra %s", head)
	p.place(exit)
}
