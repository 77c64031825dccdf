// Package cost reads from thread code what a program will cost, without running
// it: the instructions of each loop, how wide it loads, what its addresses take.
package cost

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Loop counts what one turn of a loop takes, for one thread, loops inside it
// left out. Instructions of both branches of an If count. What the loop itself
// takes to count and to jump is left out too.
type Loop struct {
	Pos   diag.Pos
	Depth int // 1 for a loop in no other

	Instrs  int
	Classes [code.Classes]int
	// Loads, Stores and Copies (from global to shared memory) count accesses by the
	// bytes that a thread moves; Guarded are those of all under a guard.
	Loads, Stores, Copies map[int]int
	Guarded               int

	// Pointers are the registers that accesses take their addresses from. Adds and
	// Steps are the additions (also of a multiply-add) and the other instructions
	// that a turn takes for all of them together.
	Pointers, Adds, Steps int

	// Moves are copies between registers; Fills copies of constants, such as the
	// zeros that a guarded load starts from.
	Moves, Fills int
}

// Loops lists a function's loops in text order, an outer one before those in it.
func Loops(f *code.Func) []Loop {
	c := &counter{regs: code.Assign(f), consts: map[code.Value]bool{}}
	f.Body.Walk(func(in *code.Instr) {
		if in.Op >= code.OpConstPred && in.Op <= code.OpConst64 {
			c.consts[in.Out[0]] = true
		}
	})
	c.region(f.Body, nil)
	out := make([]Loop, len(c.loops))
	for i, s := range c.loops {
		s.follow()
		out[i] = s.Loop
	}
	return out
}

// turn is a loop while it is read.
type turn struct {
	Loop
	def       map[code.Value]*code.Instr // what is made in a turn
	carried   map[code.Value]code.Value  // what the next turn gets for an argument
	addresses map[code.Value]bool
}

type counter struct {
	regs   *code.Registers
	consts map[code.Value]bool
	loops  []*turn
}

// region reads a region of the loop t, nil for none.
func (c *counter) region(r *code.Region, t *turn) {
	for _, in := range r.Instrs {
		if t != nil {
			c.instr(in, t)
		}
		switch in.Op {
		case code.OpFor, code.OpWhile:
			c.loop(in, t)
		case code.OpIf:
			for _, sub := range in.Regions {
				c.region(sub, t)
				c.copies(t, in.Out, sub.Yield)
			}
		}
	}
}

func (c *counter) loop(in *code.Instr, outer *turn) {
	t := &turn{Loop: Loop{Pos: in.Pos, Depth: 1, Loads: map[int]int{}, Stores: map[int]int{}, Copies: map[int]int{}},
		def: map[code.Value]*code.Instr{}, carried: map[code.Value]code.Value{}, addresses: map[code.Value]bool{}}
	if outer != nil {
		t.Depth = outer.Depth + 1
	}
	c.loops = append(c.loops, t)
	body := in.Regions[len(in.Regions)-1]
	if in.Op == code.OpFor {
		args := in.Regions[0].Args
		c.copies(outer, append([]code.Value{args[0]}, in.Out...), append([]code.Value{in.In[0]}, in.In[3:]...))
		for k, v := range args[1:] {
			t.carried[v] = body.Yield[k]
		}
	} else {
		c.copies(outer, in.Out, in.In)
		for k, v := range in.Regions[0].Args {
			t.carried[v] = body.Yield[k]
		}
	}
	for _, sub := range in.Regions {
		c.region(sub, t)
	}
	c.copies(t, in.Out, body.Yield)
}

func (c *counter) instr(in *code.Instr, t *turn) {
	row := in.Row()
	for _, v := range in.Out {
		t.def[v] = in
	}
	if c.consts[cmp.Or(append(slices.Clone(in.Out), 0)...)] {
		return // stands in the instructions that use it
	}
	t.Instrs++
	t.Classes[row.Class]++
	addresses := row.Addresses()
	if addresses == nil {
		return
	}
	for _, a := range addresses {
		t.addresses[in.In[a.In]] = true
	}
	switch row.Class {
	case code.Load:
		t.Loads[row.Unit*row.Count]++
	case code.Store:
		t.Stores[row.Unit*row.Count]++
	case code.Async:
		t.Copies[row.Unit]++
	}
	if in.Guard != 0 {
		t.Guarded++
		c.copies(t, in.Out, in.In[len(row.In):])
	}
}

// copies counts the copies that a printer makes to bring values to others'
// registers.
func (c *counter) copies(t *turn, to, from []code.Value) {
	if t == nil {
		return
	}
	for _, x := range c.regs.Copies(to, from) {
		if c.consts[x.Value] {
			t.Fills++
		} else {
			t.Moves++
		}
	}
}

// follow counts what leads to the addresses in a turn.
func (t *turn) follow() {
	t.Pointers = len(t.addresses)
	seen := map[code.Value]bool{}
	counted := map[*code.Instr]bool{}
	var visit func(v code.Value)
	visit = func(v code.Value) {
		if seen[v] {
			return
		}
		seen[v] = true
		if next, ok := t.carried[v]; ok {
			visit(next)
		}
		in := t.def[v]
		if in == nil || counted[in] || !in.Row().Movable() || in.Op >= code.OpConstPred && in.Op <= code.OpConst64 {
			return
		}
		counted[in] = true
		switch in.Op {
		case code.OpAdd32, code.OpSub32, code.OpAdd64, code.OpSub64, code.OpMad32, code.OpMadWideS32, code.OpMadWideU32:
			t.Adds++
		default:
			t.Steps++
		}
		for _, x := range in.In {
			visit(x)
		}
	}
	for v := range t.addresses {
		visit(v)
	}
}

// Report is a function's statistics as text: each instruction as it stands in
// its text, in loops and in all, and then its loops.
func Report(f *code.Func) string {
	type count struct{ all, inLoops int }
	counts := map[string]*count{}
	var total count
	var walk func(r *code.Region, loops int)
	walk = func(r *code.Region, loops int) {
		for _, in := range r.Instrs {
			name := in.Row().Name
			c := counts[name]
			if c == nil {
				c = &count{}
				counts[name] = c
			}
			inner := loops
			if in.Op == code.OpFor || in.Op == code.OpWhile {
				inner++
			}
			for _, x := range []*count{c, &total} {
				x.all++
				if loops > 0 {
					x.inLoops++
				}
			}
			for _, sub := range in.Regions {
				walk(sub, inner)
			}
		}
	}
	walk(f.Body, 0)
	registers := map[string]int{}
	for _, t := range code.Assign(f).Types {
		registers[t.String()]++
	}
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(format string, a ...any) { fmt.Fprintf(tw, format+"\n", a...) }
	line("function\t%s", f.Name)
	line("threads\t%d in each block", f.Launch.Block)
	for _, t := range []string{"pred", "b16", "b32", "b64"} {
		if registers[t] > 0 {
			line("registers %s\t%d before the assembler's allocation", t, registers[t])
		}
	}
	line("\ninstruction\tall\tin loops")
	names := slices.SortedFunc(maps.Keys(counts), func(x, y string) int {
		return cmp.Or(counts[y].all-counts[x].all, cmp.Compare(x, y))
	})
	for _, n := range names {
		line("%s\t%d\t%d", n, counts[n].all, counts[n].inLoops)
	}
	line("total\t%d\t%d", total.all, total.inLoops)
	for _, l := range Loops(f) {
		inside := ""
		if l.Depth > 1 {
			inside = fmt.Sprintf(", %d deep", l.Depth)
		}
		line("\neach turn of the loop at\t%s%s", l.Pos, inside)
		line("instructions\t%d", l.Instrs)
		for class, n := range l.Classes {
			if n > 0 {
				line("  %s\t%d", code.Class(class), n)
			}
		}
		for _, n := range slices.Sorted(maps.Keys(l.Loads)) {
			line("loads of %d bytes\t%d", n, l.Loads[n])
		}
		for _, n := range slices.Sorted(maps.Keys(l.Stores)) {
			line("stores of %d bytes\t%d", n, l.Stores[n])
		}
		for _, n := range slices.Sorted(maps.Keys(l.Copies)) {
			line("copies of %d bytes\t%d", n, l.Copies[n])
		}
		if l.Guarded > 0 {
			line("accesses under a guard\t%d", l.Guarded)
		}
		if l.Pointers > 0 {
			line("pointers\t%d", l.Pointers)
			line("  additions for them\t%d", l.Adds)
			line("  other instructions\t%d", l.Steps)
		}
		line("register moves\t%d", l.Moves)
		line("  of constants\t%d", l.Fills)
	}
	tw.Flush() // into memory
	return b.String()
}
