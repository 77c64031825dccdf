// Package cudac prints thread code as CUDA C++, for reading and for compilers
// that take nothing else. Each instruction is one statement: the C form of its
// row where there is one, inline PTX where there is none. Every value is an
// unsigned integer of its width (pred is bool), so that the text says exactly
// what the bits do.
package cudac

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Print is the source of one kernel. f must be verified.
func Print(f *code.Func) string {
	p := &printer{f: f, regs: code.Assign(f), consts: map[code.Value]*code.Instr{}, declared: map[int32]bool{}}
	f.Body.Walk(func(in *code.Instr) {
		switch in.Op {
		case code.OpConstPred, code.OpConst16, code.OpConst32, code.OpConst64:
			p.consts[in.Out[0]] = in
		case code.OpSharedBase:
			p.shared = true
		case code.OpSetpF16:
			p.half = true
		}
	})
	for _, a := range f.Body.Args {
		p.declared[p.regs.Of[a]] = true
	}
	p.region(f.Body, 1)
	return p.header() + p.b.String() + "}\n"
}

// Entry is the kernel's name in the source: a program may be called sqrt or xor,
// which C++ keeps for itself.
func Entry(f *code.Func) string { return "kernel_" + f.Name }

var ctype = [...]string{code.Pred: "bool", code.B16: "uint16_t", code.B32: "uint32_t", code.B64: "uint64_t"}
var letter = [...]string{code.Pred: "p", code.B16: "h", code.B32: "r", code.B64: "d"}

// prelude names the integer types; the run-time compiler has no host headers.
const prelude = `#ifdef __CUDACC_RTC__
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef short int16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long long uint64_t;
typedef long long int64_t;
#else
#include <stdint.h>
#endif

`

const halfValue = `static __device__ float half_value(uint16_t h) {
	float f;
	asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
	return f;
}

`

type printer struct {
	f        *code.Func
	regs     *code.Registers
	consts   map[code.Value]*code.Instr
	declared map[int32]bool
	shared   bool
	half     bool
	b        strings.Builder
	pos      string
}

func (p *printer) header() string {
	var b strings.Builder
	b.WriteString(prelude)
	if p.half {
		b.WriteString(halfValue)
	}
	if slices.ContainsFunc(p.f.Params, func(pr code.Param) bool { return pr.Kind == code.Tensor }) {
		b.WriteString("struct __align__(64) tensor_map { unsigned char bytes[128]; };\n\n")
	}
	if p.shared {
		b.WriteString("extern __shared__ __align__(1024) unsigned char shared_memory[];\n\n")
	}
	l := p.f.Launch
	attrs := fmt.Sprintf("__launch_bounds__(%d)", l.Block)
	switch {
	case l.MaxReg > 0: // the compiler takes only one of the two
		attrs = fmt.Sprintf("__maxnreg__(%d)", l.MaxReg)
	case l.MinBlocks > 0:
		attrs = fmt.Sprintf("__launch_bounds__(%d, %d)", l.Block, l.MinBlocks)
	}
	if c := l.Cluster; c != [3]int{} {
		attrs += fmt.Sprintf(" __cluster_dims__(%d, %d, %d)", c[0], c[1], c[2])
	}
	var params []string
	for i, pr := range p.f.Params {
		text := ctype[pr.Type] + " " + p.name(p.regs.Of[p.f.Body.Args[i]])
		if pr.Kind == code.Tensor {
			text = fmt.Sprintf("const __grid_constant__ tensor_map map%d", i)
		}
		params = append(params, text+" /* "+pr.Name+": "+describe(pr)+" */")
	}
	fmt.Fprintf(&b, "extern \"C\" __global__ void %s\n%s(%s)\n{\n", attrs, Entry(p.f), strings.Join(params, ",\n\t"))
	for t := code.Pred; t <= code.B64; t++ {
		var names []string
		for reg := range p.regs.Types {
			if p.regs.Types[reg] == t && p.declared[int32(reg)] && !p.isParam(int32(reg)) {
				names = append(names, p.name(int32(reg)))
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(&b, "\t%s %s;\n", ctype[t], strings.Join(names, ", "))
		}
	}
	for i, pr := range p.f.Params {
		if pr.Kind == code.Tensor {
			fmt.Fprintf(&b, "\tuint64_t %s = (uint64_t)&map%d;\n", p.name(p.regs.Of[p.f.Body.Args[i]]), i)
		}
	}
	return b.String()
}

func describe(pr code.Param) string {
	typ := pr.Elem
	if typ == "" {
		typ = pr.Type.String()
	}
	if pr.Kind == code.Pointer {
		return "*" + typ
	}
	return typ
}

func (p *printer) isParam(reg int32) bool {
	for _, a := range p.f.Body.Args {
		if p.regs.Of[a] == reg {
			return true
		}
	}
	return false
}

func (p *printer) name(reg int32) string {
	return fmt.Sprintf("%s%d", letter[p.regs.Types[reg]], reg)
}

// def is a register that is written; it is declared at the head of the kernel.
func (p *printer) def(v code.Value) string {
	p.declared[p.regs.Of[v]] = true
	return p.name(p.regs.Of[v])
}

func (p *printer) use(v code.Value) string {
	if in := p.consts[v]; in != nil {
		return literal(uint64(in.Imm[0]), p.f.Type(v))
	}
	return p.name(p.regs.Of[v])
}

func literal(bits uint64, t code.Type) string {
	switch t {
	case code.Pred:
		return [...]string{"false", "true"}[bits&1]
	case code.B16:
		return fmt.Sprintf("(uint16_t)%#x", bits)
	case code.B64:
		if bits < 1<<16 {
			return fmt.Sprintf("%dull", bits)
		}
		return fmt.Sprintf("%#xull", bits)
	}
	if bits < 1<<16 {
		return fmt.Sprintf("%du", bits)
	}
	return fmt.Sprintf("%#xu", bits)
}

func (p *printer) line(depth int, format string, args ...any) {
	p.b.WriteString(strings.Repeat("\t", depth))
	fmt.Fprintf(&p.b, format, args...)
	p.b.WriteByte('\n')
}

func (p *printer) copies(to, from []code.Value, depth int) {
	for _, c := range p.regs.Copies(to, from) {
		src := p.name(c.From)
		if p.consts[c.Value] != nil {
			src = p.use(c.Value)
		}
		p.declared[c.To] = true
		p.line(depth, "%s = %s;", p.name(c.To), src)
	}
}

func (p *printer) region(r *code.Region, depth int) {
	for _, in := range r.Instrs {
		p.instr(in, depth)
	}
}

func (p *printer) instr(in *code.Instr, depth int) {
	if len(in.Out) == 1 && p.consts[in.Out[0]] == in {
		return
	}
	if s := in.Pos.String(); s != p.pos {
		p.line(depth, "// %s", s)
		p.pos = s
	}
	switch in.Op {
	case code.OpIf:
		p.line(depth, "if (%s) {", p.use(in.In[0]))
		p.region(in.Regions[0], depth+1)
		p.copies(in.Out, in.Regions[0].Yield, depth+1)
		if len(in.Regions[1].Instrs) > 0 || len(p.regs.Copies(in.Out, in.Regions[1].Yield)) > 0 {
			p.line(depth, "} else {")
			p.region(in.Regions[1], depth+1)
			p.copies(in.Out, in.Regions[1].Yield, depth+1)
		}
		p.line(depth, "}")
	case code.OpFor:
		r := in.Regions[0]
		p.copies(append([]code.Value{r.Args[0]}, in.Out...), append([]code.Value{in.In[0]}, in.In[3:]...), depth)
		i := p.def(r.Args[0])
		p.line(depth, "#pragma unroll 1")
		p.line(depth, "for (; (int32_t)%s < (int32_t)%s; %s += %s) {", i, p.use(in.In[1]), i, p.use(in.In[2]))
		p.region(r, depth+1)
		p.copies(in.Out, r.Yield, depth+1)
		p.line(depth, "}")
	case code.OpWhile:
		cond, body := in.Regions[0], in.Regions[1]
		p.copies(in.Out, in.In, depth)
		p.line(depth, "#pragma unroll 1")
		p.line(depth, "for (;;) {")
		p.region(cond, depth+1)
		p.line(depth+1, "if (!%s)", p.use(cond.Yield[0]))
		p.line(depth+2, "break;")
		p.region(body, depth+1)
		p.copies(in.Out, body.Yield, depth+1)
		p.line(depth, "}")
	default:
		row := in.Row()
		guard := ""
		if in.Guard != 0 {
			p.copies(in.Out, in.In[len(row.In):], depth)
			guard = "if (" + p.use(in.Guard) + ") "
		}
		if row.InPlace {
			p.copies(in.Out, in.In[len(in.In)-len(in.Out):], depth)
		}
		p.line(depth, "%s%s;", guard, p.statement(in, row))
		if row.Through {
			p.copies(in.Out, in.In[len(row.In):], depth)
		}
	}
}

func (p *printer) statement(in *code.Instr, row *code.Row) string {
	if row.Memory() && row.Class != code.Atomic && row.Space == code.Global && !row.Relaxed && in.Imm[1] == 0 {
		return p.access(in, row)
	}
	if row.C == "" {
		return p.assembler(in, row)
	}
	return code.Expand(row.C, func(s code.Slot) string {
		switch s.Kind {
		case "o":
			return p.def(in.Out[s.Index])
		case "a":
			return p.use(in.In[s.Index])
		case "i":
			if s.Style == "x" {
				return fmt.Sprintf("%#x", uint64(in.Imm[s.Index]))
			}
			return fmt.Sprint(in.Imm[s.Index])
		case "op":
			return [...]string{"==", "!=", "<", "<=", ">", ">="}[in.Imm[0]]
		}
		panic("cudac: template of " + row.Name + " has {" + s.Kind + "}")
	})
}

// access is a plain load or store through a pointer.
func (p *printer) access(in *code.Instr, row *code.Row) string {
	typ := map[int]string{1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t", 108: "uint2", 116: "uint4"}
	width := row.Unit
	if row.Count > 1 {
		width = 100 + row.Unit*row.Count
	}
	at := p.use(in.In[0])
	if in.Imm[0] != 0 {
		at = fmt.Sprintf("(%s + %d)", at, in.Imm[0])
	}
	place := fmt.Sprintf("*(%s *)%s", typ[width], at)
	if row.Class == code.Load {
		if row.Count == 1 {
			return p.def(in.Out[0]) + " = " + place
		}
		parts := []string{fmt.Sprintf("%s v = %s;", typ[width], place)}
		for i, v := range in.Out {
			parts = append(parts, fmt.Sprintf("%s = v.%c;", p.def(v), "xyzw"[i]))
		}
		return "{ " + strings.Join(parts, " ") + " }"
	}
	if row.Count == 1 {
		return fmt.Sprintf("%s = %s", place, p.use(in.In[1]))
	}
	var vals []string
	for _, v := range in.In[1 : 1+row.Count] {
		vals = append(vals, p.use(v))
	}
	return fmt.Sprintf("%s = make_%s(%s)", place, typ[width], strings.Join(vals, ", "))
}

// assembler is the row's PTX as an asm statement: %0, %1, … are the results and
// then the inputs.
func (p *printer) assembler(in *code.Instr, row *code.Row) string {
	constraint := [...]string{code.Pred: "r", code.B16: "h", code.B32: "r", code.B64: "l"}
	var outs, ins []string
	// Predicates are words outside and come and go through registers of their own.
	before, after, names := "", "", map[string]string{}
	result := in.Out
	if row.Through {
		result = in.In[len(row.In):]
	}
	for i, v := range result {
		c := "="
		if in.Guard != 0 || row.InPlace || row.Through {
			c = "+"
		}
		t := p.f.Type(v)
		name := p.def(v)
		if t == code.Pred {
			names[fmt.Sprintf("o%d", i)] = fmt.Sprintf("truth%d", i)
			before += fmt.Sprintf(".reg .pred truth%d; ", i)
			after += fmt.Sprintf(" selp.u32 {o%d!}, 1, 0, truth%d;", i, i)
			name = "word"
		}
		outs = append(outs, fmt.Sprintf(`"%s%s"(%s)`, c, constraint[t], name))
	}
	inputs := row.In
	if row.InPlace {
		inputs = inputs[:len(inputs)-len(in.Out)]
	}
	for i, t := range inputs {
		value := p.use(in.In[i])
		if t == code.Pred {
			names[fmt.Sprintf("a%d", i)] = fmt.Sprintf("given%d", i)
			before += fmt.Sprintf(".reg .pred given%d; setp.ne.u32 given%d, {a%d!}, 0; ", i, i, i)
			value = "(uint32_t)" + value
		}
		ins = append(ins, fmt.Sprintf(`"%s"(%s)`, constraint[t], value))
	}
	text := strings.ReplaceAll(row.PTX, "{mem}", "[{a0}{off}]")
	text = strings.ReplaceAll(text, "%", "%%")
	if before+after != "" {
		end := ";"
		if strings.HasPrefix(text, "{ ") {
			end = ""
		}
		text = "{ " + before + text + end + after + " }"
	}
	text = code.Expand(text, func(s code.Slot) string {
		switch s.Kind {
		case "o":
			if n := names[fmt.Sprintf("o%d", s.Index)]; n != "" && s.Style != "!" {
				return n
			}
			return fmt.Sprintf("%%%d", s.Index)
		case "outs":
			var all []string
			for i := range outs {
				all = append(all, fmt.Sprintf("%%%d", i))
			}
			return "{" + strings.Join(all, ", ") + "}"
		case "a":
			if n := names[fmt.Sprintf("a%d", s.Index)]; n != "" && s.Style != "!" {
				return n
			}
			return fmt.Sprintf("%%%d", len(outs)+s.Index)
		case "i":
			if s.Style == "x" {
				return fmt.Sprintf("%#x", uint64(in.Imm[s.Index]))
			}
			return fmt.Sprint(in.Imm[s.Index])
		case "guard": // stands around the statement
			return ""
		case "attr":
			return in.Attr().String()
		}
		panic("cudac: template of " + row.Name + " has {" + s.Kind + "}")
	})
	off := ""
	if (row.Memory() || row.Addr != nil) && in.Imm[0] != 0 {
		off = fmt.Sprintf("+%d", in.Imm[0])
	}
	text = strings.ReplaceAll(text, "{off}", off)
	if !strings.HasPrefix(text, "{ ") {
		text += ";"
	}
	volatile, clobber := "", ""
	if row.Class != code.Pure {
		volatile = " volatile"
	}
	if row.Memory() || row.Class == code.Barrier || row.Class == code.Async || row.Class == code.Proxy {
		clobber = ` : "memory"`
	}
	statement := fmt.Sprintf(`asm%s("%s" : %s : %s%s)`, volatile, text, strings.Join(outs, ", "), strings.Join(ins, ", "), clobber)
	if len(row.Out) == 1 && row.Out[0] == code.Pred {
		return fmt.Sprintf("{ uint32_t word; %s; %s = word; }", statement, p.def(in.Out[0]))
	}
	return statement
}
