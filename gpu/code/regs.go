package code

import (
	"slices"
	"sync"
)

// Registers says which register each value lives in. Values that follow one
// another (what a loop starts from, carries and yields; what a matrix
// instruction adds to and gives) share a register wherever their lives do not
// overlap, so that no copy is needed between them; see [Registers.Copies] for
// those that remain.
type Registers struct {
	Of    []int32 // register of each value
	Types []Type  // type of each register
	// Live is the most 32-bit registers that hold values at one moment, constants and
	// predicates left out: what an assembler needs at least if it keeps the order of
	// instructions. Assemblers move instructions, so it is an estimate.
	Live int
}

// Copy is one register copy. Value is the value that From holds.
type Copy struct {
	To, From int32
	Value    Value // 0 if From is a register of Copies' own
}

type span struct{ from, to int32 } // half open

type lifetimes struct {
	f      *Func
	parent []Value
	def    []int32
	last   []int32  // exclusive end of the main span
	spans  [][]span // of each class root, sorted; at first those beside the main one
	fixed  []bool   // constants: never merged
	log    []Value  // values used, in text order
	at     int32
	both   []span                      // of the two that are merged
	room   []span                      // for those that are kept
	mains  []span                      // by value: most have no other
	number []int32                     // by class root: its register, from 1 on
	change []int                       // by moment: words that begin to live, less those that end
	stops  map[*Region]map[int][]Value // read in front of instructions
}

// Assign gives every value of a verified function a register.
//
// The text order of instructions serves as time: an instruction reads at an even
// moment and writes at the odd one after it. A value that a loop reads and that
// is older than the loop lives to the loop's end. Then values that a copy would
// join are put into one register if no two of their spans overlap. The two
// branches of an If are treated as if both ran, which is cautious but right.
func Assign(f *Func) *Registers {
	n := len(f.Types)
	lt, _ := lifetimesOf.Get().(*lifetimes)
	if lt == nil {
		lt = &lifetimes{}
	}
	defer lifetimesOf.Put(lt)
	lt.f, lt.at, lt.stops, lt.log, lt.room = f, 0, nil, lt.log[:0], nil
	zeros(&lt.parent, n)
	zeros(&lt.def, n)
	zeros(&lt.last, n)
	zeros(&lt.spans, n)
	zeros(&lt.fixed, n)
	zeros(&lt.mains, n)
	zeros(&lt.number, n)
	for i := range lt.parent {
		lt.parent[i] = Value(i)
	}
	if len(f.Stops) > 0 {
		lt.stops = map[*Region]map[int][]Value{}
		for _, s := range f.Stops {
			if lt.stops[s.Region] == nil {
				lt.stops[s.Region] = map[int][]Value{}
			}
			lt.stops[s.Region][s.At] = append(lt.stops[s.Region][s.At], s.Keep...)
		}
	}
	for _, a := range f.Body.Args {
		lt.write(a, 1)
	}
	lt.at = 2
	lt.region(f.Body)
	mains := lt.mains
	for v := 1; v < n; v++ {
		own := span{lt.def[v], max(lt.last[v], lt.def[v]+1)}
		if len(lt.spans[v]) == 0 {
			lt.spans[v] = mains[v : v+1 : v+1]
			mains[v] = own
			continue
		}
		s := append(lt.spans[v], own)
		slices.SortFunc(s, func(x, y span) int { return int(x.from - y.from) })
		lt.spans[v] = union(s)
	}
	lt.join(f.Body, true)
	lt.join(f.Body, false)
	regs := &Registers{Of: make([]int32, n)}
	number := lt.number
	for v := 1; v < n; v++ {
		root := lt.find(Value(v))
		if number[root] == 0 {
			regs.Types = append(regs.Types, f.Types[v])
			number[root] = int32(len(regs.Types))
		}
		regs.Of[v] = number[root] - 1
	}
	regs.Live = lt.live()
	lt.f, lt.stops = nil, nil
	return regs
}

// lifetimesOf lends what Assign works with: lists as long as functions have values.
var lifetimesOf sync.Pool

// zeros makes a list n zeros long.
func zeros[T any](list *[]T, n int) {
	if cap(*list) < n {
		*list = make([]T, n, n+n/8)
	}
	*list = (*list)[:n]
	clear(*list)
}

// live is the largest sum of the widths of classes alive at one moment.
func (lt *lifetimes) live() int {
	zeros(&lt.change, int(lt.at)+4)
	change := lt.change
	for v := 1; v < len(lt.parent); v++ {
		if lt.find(Value(v)) != Value(v) || lt.fixed[v] {
			continue
		}
		words := 1
		switch lt.f.Types[v] {
		case B64:
			words = 2
		case Pred:
			words = 0
		}
		for _, s := range lt.spans[v] {
			if s.from == 0 {
				continue // nothing defines it any more
			}
			change[s.from] += words
			change[min(int(s.to), len(change)-1)] -= words
		}
	}
	most, now := 0, 0
	for _, c := range change {
		now += c
		most = max(most, now)
	}
	return most
}

func (lt *lifetimes) write(v Value, at int32) {
	lt.def[v] = at
	lt.last[v] = at + 1
}

func (lt *lifetimes) read(v Value, at int32) {
	lt.last[v] = max(lt.last[v], at+1)
	lt.log = append(lt.log, v)
}

func (lt *lifetimes) also(v Value, from, to int32) {
	lt.spans[v] = append(lt.spans[v], span{from, to})
}

func (lt *lifetimes) region(r *Region) {
	for i, in := range r.Instrs {
		lt.stop(r, i)
		lt.instr(in)
	}
	lt.stop(r, len(r.Instrs))
}

// stop reads what stops in front of an instruction keep.
func (lt *lifetimes) stop(r *Region, i int) {
	for _, v := range lt.stops[r][i] {
		lt.read(v, lt.at)
	}
}

func (lt *lifetimes) instr(in *Instr) {
	p := lt.at
	lt.at += 2
	mark := len(lt.log)
	for _, v := range in.In {
		lt.read(v, p)
	}
	if in.Guard != 0 {
		lt.read(in.Guard, p)
		// The results are set to the fallback before the access happens.
		lt.last[in.Guard] = max(lt.last[in.Guard], p+2)
		for _, v := range in.In[:len(in.In)-len(in.Out)] {
			lt.last[v] = max(lt.last[v], p+2)
		}
	}
	if row := in.Row(); row.InPlace { // the machine reads them while it writes
		for _, v := range in.In[:len(in.In)-len(in.Out)] {
			lt.last[v] = max(lt.last[v], p+2)
		}
	}
	switch in.Op {
	case OpConstPred, OpConst16, OpConst32, OpConst64:
		lt.fixed[in.Out[0]] = true
	case OpIf:
		for _, r := range in.Regions {
			lt.region(r)
			e := lt.at
			lt.at += 2
			for k, y := range r.Yield {
				lt.read(y, e)
				lt.also(in.Out[k], e+1, e+2)
			}
		}
		p = lt.at - 2
	case OpFor:
		r := in.Regions[0]
		for _, a := range r.Args {
			lt.write(a, p+1)
		}
		lt.region(r)
		p = lt.loopEnd(in, r.Yield, p, mark)
		lt.last[r.Args[0]] = p + 2
	case OpWhile:
		cond, body := in.Regions[0], in.Regions[1]
		for _, a := range cond.Args {
			lt.write(a, p+1)
		}
		lt.region(cond)
		c := lt.at
		lt.at += 2
		lt.read(cond.Yield[0], c)
		for _, a := range cond.Args { // the results, if the loop ends here
			lt.read(a, c)
		}
		lt.region(body)
		p = lt.loopEnd(in, body.Yield, p, mark)
	}
	for _, v := range in.Out {
		lt.write(v, p+1)
	}
}

// loopEnd closes the loop that began at p: it makes the values of before that it
// uses live to its end, and returns the moment of its end. What the loop carries
// is written there: it shares a register with the result, which begins then.
func (lt *lifetimes) loopEnd(in *Instr, yield []Value, p int32, mark int) int32 {
	e := lt.at
	lt.at += 2
	for _, y := range yield {
		lt.read(y, e)
	}
	// The first inputs of For are read at every turn, those it starts from once.
	if in.Op == OpFor {
		for _, v := range in.In[1:3] {
			lt.last[v] = max(lt.last[v], e+2)
		}
	}
	for _, v := range lt.log[mark+len(in.In):] {
		if lt.def[v] <= p {
			lt.last[v] = max(lt.last[v], e+2)
		}
	}
	return e
}

func (lt *lifetimes) find(v Value) Value {
	for lt.parent[v] != v {
		lt.parent[v] = lt.parent[lt.parent[v]]
		v = lt.parent[v]
	}
	return v
}

// merge puts a and b into one register; unless force is set, only if their spans
// do not overlap.
func (lt *lifetimes) merge(a, b Value, force bool) {
	if lt.fixed[a] || lt.fixed[b] || lt.f.Types[a] != lt.f.Types[b] {
		return
	}
	if a, b = lt.find(a), lt.find(b); a == b {
		return
	}
	x, y := lt.spans[a], lt.spans[b]
	out := lt.both[:0]
	end := int32(0)
	for len(x) > 0 || len(y) > 0 {
		if len(y) == 0 || len(x) > 0 && x[0].from <= y[0].from {
			out, x = append(out, x[0]), x[1:]
		} else {
			out, y = append(out, y[0]), y[1:]
		}
		s := out[len(out)-1]
		if s.from < end && !force {
			lt.both = out
			return
		}
		end = max(end, s.to)
	}
	lt.both = out
	lt.parent[b] = a
	if out = union(out); len(out) <= len(lt.spans[a]) {
		lt.spans[a] = lt.spans[a][:copy(lt.spans[a], out)]
	} else {
		lt.spans[a] = lt.keep(out)
	}
}

// keep copies spans to where they stay.
func (lt *lifetimes) keep(s []span) []span {
	n := len(s)
	if len(lt.room) < n {
		lt.room = make([]span, max(n, 1024))
	}
	out := lt.room[:n:n]
	lt.room = lt.room[n:]
	copy(out, s)
	return out
}

// union joins the sorted spans that overlap or follow each other.
func union(s []span) []span {
	out := s[:1]
	for _, x := range s[1:] {
		if last := &out[len(out)-1]; x.from <= last.to {
			last.to = max(last.to, x.to)
		} else {
			out = append(out, x)
		}
	}
	return out
}

// join merges what copies would connect: first results and yields (inner regions
// before outer ones), then what loops start from.
func (lt *lifetimes) join(r *Region, inner bool) {
	for _, in := range r.Instrs {
		if inner { // a loop's arguments and results are one variable
			switch in.Op {
			case OpFor:
				for k, v := range in.Out {
					lt.merge(v, in.Regions[0].Args[k+1], true)
				}
			case OpWhile:
				for k, v := range in.Out {
					lt.merge(v, in.Regions[0].Args[k], true)
				}
			}
		}
		for _, sub := range in.Regions {
			lt.join(sub, inner)
		}
		switch {
		case in.Op == OpFor && inner:
			for k, y := range in.Regions[0].Yield {
				lt.merge(in.Out[k], y, false)
			}
		case in.Op == OpWhile && inner:
			for k, y := range in.Regions[1].Yield {
				lt.merge(in.Out[k], y, false)
			}
		case in.Op == OpIf && inner:
			for _, sub := range in.Regions {
				for k, y := range sub.Yield {
					lt.merge(in.Out[k], y, false)
				}
			}
		case in.Op == OpFor:
			lt.merge(in.Regions[0].Args[0], in.In[0], false)
			for k, v := range in.In[3:] {
				lt.merge(in.Out[k], v, false)
			}
		case in.Op == OpWhile:
			for k, v := range in.In {
				lt.merge(in.Out[k], v, false)
			}
		case inner:
			for _, tie := range in.Ties() {
				lt.merge(in.Out[tie.Out], in.In[tie.In], false)
			}
			if in.Guard != 0 {
				for k, v := range in.Out {
					lt.merge(v, in.In[len(in.In)-len(in.Out)+k], false)
				}
			}
		}
	}
}

// Copies is the sequence of register copies after which each to holds what the
// from of the same place held before all of them. A cycle is broken through a
// register that is added to r.
func (r *Registers) Copies(to, from []Value) []Copy {
	var todo, out []Copy
	for i, v := range to {
		if c := (Copy{r.Of[v], r.Of[from[i]], from[i]}); c.To != c.From {
			todo = append(todo, c)
		}
	}
	for len(todo) > 0 {
		progress := false
		for i := 0; i < len(todo); i++ {
			c := todo[i]
			needed := false
			for j, d := range todo {
				needed = needed || j != i && d.From == c.To
			}
			if !needed {
				out = append(out, c)
				todo = append(todo[:i], todo[i+1:]...)
				progress = true
				i--
			}
		}
		if progress || len(todo) == 0 {
			continue
		}
		// Every target is still needed: save the first one.
		spare := int32(len(r.Types))
		r.Types = append(r.Types, r.Types[todo[0].To])
		out = append(out, Copy{spare, todo[0].To, 0})
		for j := range todo {
			if todo[j].From == todo[0].To {
				todo[j].From, todo[j].Value = spare, 0
			}
		}
	}
	return out
}
