package text

import (
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// staticAssert reads static_assert(condition, "message"), which is checked now and
// leaves no statement.
func (p *parser) staticAssert(t token) {
	p.i += 2
	at := p.peek()
	cond := p.expr()
	holds, ok := ir.ConstInt(cond)
	if !ok {
		p.fail(at, codeBinding, "use numbers and compile-time parameters; assume(…) is checked when the program runs", "%s has no value while parsing", cond)
	}
	message := "static_assert does not hold"
	if p.accept(",") {
		m := p.next()
		if m.kind != tString {
			p.fail(m, codeSyntax, `static_assert(BM % 16 == 0, "BM is whole fragments")`, "a message in quotes is needed, not %s", m.describe())
		}
		message = m.text[1 : len(m.text)-1]
	}
	p.expect(")", "static_assert")
	if holds == 0 {
		p.report(t, codeAssert, "bind other compile-time parameters", "%s", message)
	}
}

// group reads group(begin, size) { … }.
func (p *parser) group(t token) ir.Stmt {
	p.i += 2
	s := &ir.Group{Pos: t.pos}
	s.Begin = p.groupInt()
	p.expect(",", "group")
	s.Size = p.groupInt()
	p.expect(")", "group")
	s.Body = p.block(p.expect("{", "group"))
	return s
}

// groupInt reads a number of threads.
func (p *parser) groupInt() int {
	t := p.peek()
	n := p.constInt(t)
	if n < 0 || n > 1024 {
		p.fail(t, "Group.C1", "a block has at most 1024 threads", "%d is no number of threads", n)
	}
	return int(n)
}
