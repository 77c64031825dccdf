package ir

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// The rows of this file order what threads, blocks and launches do.

const ptxOrder = "PTX ISA 8 memory consistency model"

var synchronize = &Op{
	Name: "Synchronize", Aliases: []string{"SyncThreads"}, Family: "order", Effects: Synchronizes,
	Doc:     "A barrier of the block: no thread goes on before all have come here, and what they stored before is seen by all of them after. Other blocks are not ordered by it.",
	Since:   "0.2",
	Source:  paper + " Table 1",
	Example: "Synchronize()",
}

var synchronizeReduce = &Op{
	Name: "SynchronizeReduce", Aliases: []string{"SyncReduceThreads"}, Family: "order", Effects: Synchronizes,
	Doc: "A barrier as Synchronize, at which the threads also tell each other of a tile of bools: the result is 1 where any, or all, of its elements are true, else 0, and every thread has it. Programs branch and loop on it: a scalar is of the block, what a tile holds is not.",
	In:  []Port{{Name: "x", Accept: AcceptRegister}},
	Out: []Port{{Name: "found", Accept: AcceptScalar}},
	Attrs: []AttrSpec{
		{Name: "op", Kind: AttrWord, Required: true, Words: []string{"any", "all"}, Doc: "of how many elements the result speaks"},
	},
	Rules: []Rule{
		{Text: "x is of bool.", Check: func(p *Program, in *Instr) *Violation {
			if x := in.In[0].Var(); x.Type.Elem != dtype.Bool {
				return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("%s is of %s", x.Name, x.Type.Elem), Help: "compare first: NotEqual(x, 0)"}
			}
			return nil
		}},
		{Text: "The result is i32.", Check: func(p *Program, in *Instr) *Violation {
			if v := in.Out[0]; v.Type.Elem != dtype.I32 {
				return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s is %s", v.Name, v.Type.Elem), Help: "leave the type out, or use a new name"}
			}
			return nil
		}},
	},
	Since: "0.6", Source: tilusDoc + "; PTX ISA 9.7.13.1 barrier.red", Example: "found = SynchronizeReduce(above, op=any)",
}

var atomicScalar = &Op{
	Name: "AtomicScalar", Family: "order", Effects: ReadsGlobal | WritesGlobal,
	Doc: "One atomic step of the block on one element of a global tensor; the result is what stood there before, and all threads of the block have it. add, sub: the element becomes element + value, element - value, which wrap. min, max: the lesser, the greater of both. and, or, xor: of their bits. inc: it becomes 0 where it is value or more (both as unsigned numbers), else one more, so that a counter to which value + 1 blocks come is 0 again after the last of them. exch: it becomes value. cas: it becomes value where it is compare. Outside the tensor nothing changes, and the result is 0. " +
		"With order=acq_rel the step publishes what the block did before its last Synchronize, and what others published at the same element is seen after the next Synchronize: a block stores, synchronises and counts itself; the one that finds itself last synchronises and loads what all have stored.",
	In:  []Port{{Name: "dst", Accept: AcceptGlobal}, {Name: "value", Accept: AcceptScalar}, {Name: "compare", Accept: AcceptScalar, Optional: true}},
	Out: []Port{{Name: "old", Accept: AcceptScalar}},
	Attrs: []AttrSpec{
		{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in dst of the element, one entry per dimension of dst"},
		{Name: "op", Kind: AttrWord, Required: true, Words: []string{"add", "inc", "exch", "sub", "min", "max", "and", "or", "xor", "cas"}, Doc: "what becomes of the element"},
		attrOrder, attrScope,
	},
	Rules: []Rule{
		{Text: "The tensor is of i32.",
			Why: "Scalars that expressions compute with are i32; counters and flags need no more.",
			Check: func(p *Program, in *Instr) *Violation {
				if g := in.In[0].Var(); g.Type.Elem != dtype.I32 {
					return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("%s is of %s", g.Name, g.Type.Elem), Help: "keep counters in a tensor of their own: counter: *i32"}
				}
				return nil
			}},
		ruleOffset,
		{Text: "value, compare and result are i32.",
			Check: func(p *Program, in *Instr) *Violation {
				for _, o := range in.In[1:] {
					if t, _ := TypeOf(o.Expr, func(diag.Pos, string, string, string) {}); t != dtype.I32 {
						return &Violation{Pos: o.Pos, Msg: fmt.Sprintf("%s is %s", o.Expr, t), Help: "the element is an i32"}
					}
				}
				if v := in.Out[0]; v.Type.Elem != dtype.I32 {
					return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s is %s", v.Name, v.Type.Elem), Help: "leave the type out, or use a new name"}
				}
				return nil
			}},
		{Text: "cas, and nothing else, has compare.",
			Check: func(p *Program, in *Instr) *Violation {
				if op := in.Attr("op"); (op.Word == "cas") != (len(in.In) > 2) {
					return &Violation{Pos: op.Pos, Msg: fmt.Sprintf("op is %s, with %d operands", op.Word, len(in.In)), Help: "AtomicScalar(dst, value, compare, offset=[…], op=cas)"}
				}
				return nil
			}},
		ruleScope,
	},
	Since: "0.2", Source: ptxOrder + "; 9.7.13 atom", Example: "before = AtomicScalar(gc, S - 1, offset=[bn], op=inc, order=acq_rel)",
}

var gridDependencyWait = &Op{
	Name: "GridDependencyWait", Family: "order", Effects: Synchronizes,
	Doc: "Programmatic dependent launch: a program with this instruction may be started before the launch in front of it has ended, and waits here until it has, its stores included. What stands before overlaps with that launch, so it must only load what no launch in front of it stores, such as weights. " +
		"Launches one after the other, as on interpreter and simulator, have the same effects; targets before sm_90 are launched that way. " +
		"With blocks=first the launch begins and stores beside launches in front, and only ends after them: what waits for it has waited for them too. Whoever launches gives it memory to store to that no launch in front uses which may still run; those are the last one, and those for which that does not wait before it asks for the next launch.",
	Attrs: []AttrSpec{
		{Name: "blocks", Kind: AttrWord, Words: []string{"first"}, Doc: "first: the first block alone waits, at its end; the others end and make room for more"},
	},
	Rules: []Rule{
		ruleTopLevel,
		{Text: "Nothing before it writes global memory, prints, or reads what the program writes. With blocks=first it may write.",
			Why:   "The launch in front, which may be of the same program, is still running: it may read what would be overwritten, or not have written what would be read. What is printed is kept in global memory.",
			Check: checkBeforeWait},
		{Text: "No return stands before it.",
			Why: "Every block waits, also one that has nothing to do: its end would tell the next launch that it can go on.",
			Check: func(p *Program, in *Instr) *Violation {
				var before *Return
				past := false
				p.Body.Walk(func(s Stmt) bool {
					past = past || s == Stmt(in)
					if r, ok := s.(*Return); ok && !past && before == nil {
						before = r
					}
					return !past
				})
				if before != nil {
					return &Violation{Msg: fmt.Sprintf("the return at line %d may end a block before it", before.Pos.Line), Help: "wait first, or guard what follows with if"}
				}
				return nil
			}},
		{Text: "With blocks=first it is the last statement of the program.",
			Why: "Other blocks do not wait: what they did behind it would still not follow what is in front.",
			Check: func(p *Program, in *Instr) *Violation {
				last := p.Body.Stmts[len(p.Body.Stmts)-1]
				if in.Attr("blocks") != nil && last != Stmt(in) {
					return &Violation{Msg: fmt.Sprintf("the first block waits, and line %d comes behind", last.Position().Line), Help: "move it to the end of the program, or leave blocks out"}
				}
				return nil
			}},
	},
	Since: "0.2", Source: "PTX ISA 9.7.13 griddepcontrol", Example: "GridDependencyWait()",
}

var gridDependencyLaunch = &Op{
	Name: "GridDependencyLaunch", Family: "order", Effects: Synchronizes,
	Doc:     "Programmatic dependent launch: when a thread of every block has come here, or the block has ended, the next launch may be started, if its program has GridDependencyWait. It changes nothing that this launch does; the next one still sees all of it after its wait. In a thread group it says when the group has come so far.",
	Rules:   []Rule{ruleOnce},
	Since:   "0.2",
	Source:  "PTX ISA 9.7.13 griddepcontrol",
	Example: "GridDependencyLaunch()",
}

var ruleTopLevel = Rule{
	Text: "It stands in no loop or branch, and once in the program.",
	Why:  "Every block comes to it, and comes to it once.",
	Check: func(p *Program, in *Instr) *Violation {
		if !slices.Contains(p.Body.Stmts, Stmt(in)) {
			return &Violation{Msg: in.Op.Name + " is in a loop or branch", Help: "move it to the top level of the program"}
		}
		for _, s := range p.Body.Stmts {
			if first, ok := s.(*Instr); ok && first.Op == in.Op {
				if first != in {
					return &Violation{Msg: fmt.Sprintf("%s stands at line %d already", in.Op.Name, first.Pos.Line), Help: "keep one of them"}
				}
				return nil
			}
		}
		return nil
	},
}

var ruleOnce = Rule{
	Text: "It stands in no loop or branch, and once in the program.",
	Why:  "Every block comes to it, and comes to it once.",
	Check: func(p *Program, in *Instr) *Violation {
		var plain []*Instr
		var list func(b *Block)
		list = func(b *Block) {
			for _, s := range b.Stmts {
				switch s := s.(type) {
				case *Instr:
					if s.Op == in.Op {
						plain = append(plain, s)
					}
				case *Group:
					list(s.Body)
				}
			}
		}
		list(p.Body)
		switch {
		case !slices.Contains(plain, in):
			return &Violation{Msg: in.Op.Name + " is in a loop or branch", Help: "move it to the top level of the program, or of a thread group"}
		case plain[0] != in:
			return &Violation{Msg: fmt.Sprintf("%s stands at line %d already", in.Op.Name, plain[0].Pos.Line), Help: "keep one of them"}
		}
		return nil
	},
}

// checkBeforeWait looks at what stands before a GridDependencyWait.
func checkBeforeWait(p *Program, in *Instr) *Violation {
	if ruleTopLevel.Check(p, in) != nil {
		return nil
	}
	pointer, written := map[*Var]*Var{}, map[*Var]bool{}
	p.Body.Walk(func(s Stmt) bool {
		if i, ok := s.(*Instr); ok && len(i.In) > 0 {
			first := i.In[0].Var()
			for _, v := range i.Out {
				if v.Type.IsGlobal() {
					pointer[v] = first
					if from := pointer[first]; from != nil { // a part
						pointer[v] = from
					}
				}
			}
			if i.Op.Effects&WritesGlobal != 0 {
				written[pointer[first]] = true
			}
		}
		return true
	})
	var bad *Violation
	for _, s := range p.Body.Stmts {
		if s == Stmt(in) || bad != nil {
			break
		}
		(&Block{Stmts: []Stmt{s}}).Walk(func(s Stmt) bool {
			i, ok := s.(*Instr)
			if ok && i.Op.Family == "print" && bad == nil {
				bad = &Violation{Pos: i.Pos, Msg: fmt.Sprintf("%s before the wait at line %d", i.Op.Name, in.Pos.Line), Help: "move it behind the wait"}
			}
			if !ok || len(i.In) == 0 || bad != nil {
				return true
			}
			switch first := i.In[0].Var(); {
			case i.Op.Effects&WritesGlobal != 0 && (in.Attr("blocks") == nil || i.Op.Effects&ReadsGlobal != 0):
				bad = &Violation{Pos: i.Pos, Msg: fmt.Sprintf("%s writes before the wait at line %d", i.Op.Name, in.Pos.Line), Help: "move it behind the wait"}
			case i.Op.Effects&ReadsGlobal != 0 && written[pointer[first]]:
				bad = &Violation{Pos: i.Pos, Msg: fmt.Sprintf("%s reads %s, which the program writes, before the wait at line %d", i.Op.Name, first.Name, in.Pos.Line), Help: "move it behind the wait"}
			}
			return true
		})
	}
	return bad
}
