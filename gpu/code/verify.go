package code

import (
	"fmt"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Verify checks a function: types and numbers of operands, that every value is
// defined once and before it is used, immediates, guards, ties, positions, and
// launch numbers. Lowering and passes must only make functions without problems,
// so a problem here is a mistake of ours, but it is located as for a user.
func Verify(f *Func) diag.List {
	v := &verifier{f: f, scope: make([]bool, len(f.Types)), defined: make([]bool, len(f.Types))}
	v.launch()
	if f.Body == nil {
		v.errs.Addf(diag.Pos{}, "Code.F1", "", "function %s has no body", f.Name)
		return v.errs
	}
	if len(f.Body.Args) != len(f.Params) {
		v.errs.Addf(diag.Pos{}, "Code.F2", "", "function %s has %d parameters, its body %d arguments", f.Name, len(f.Params), len(f.Body.Args))
	} else {
		for i, p := range f.Params {
			if got := f.Type(f.Body.Args[i]); got != p.Type || p.Kind != Scalar && got != B64 || got == Pred {
				v.errs.Addf(diag.Pos{}, "Code.F2", "", "parameter %s is %s, its value %s", p.Name, p.Type, got)
			}
		}
	}
	if len(f.Body.Yield) != 0 {
		v.errs.Addf(diag.Pos{}, "Code.F3", "", "the body of function %s yields values", f.Name)
	}
	v.region(f.Body, diag.Pos{})
	// A launch may begin and store before it waits, but where no block waits before it ends, those
	// behind the launch would not wait for those in front of it.
	waits := func(in *Instr) bool { return in.Op == OpGridDepWait }
	if n := len(f.Body.Instrs); f.Launch.PDL && !slices.ContainsFunc(f.Body.Instrs, waits) &&
		!(n > 0 && f.Body.Instrs[n-1].Op == OpIf && slices.ContainsFunc(f.Body.Instrs[n-1].Regions[0].Instrs, waits)) {
		v.errs.Addf(diag.Pos{}, "Code.L1", "", "launch of %s: it may begin early, but waits neither outside of loops and branches nor, in some block, at its end", f.Name)
	}
	return v.errs
}

type verifier struct {
	f              *Func
	scope, defined []bool
	undo           []Value
	errs           diag.List
}

func (v *verifier) launch() {
	l := v.f.Launch
	bad := func(format string, args ...any) {
		v.errs.Addf(diag.Pos{}, "Code.L1", "", "launch of "+v.f.Name+": "+format, args...)
	}
	if l.Block < 1 || l.Block > 1024 {
		bad("%d threads per block, must be 1 to 1024", l.Block)
	}
	if len(l.Grid) > 3 {
		bad("the grid has %d dimensions, at most 3 are possible", len(l.Grid))
	}
	if l.SharedBytes < 0 || l.SharedBytes > 1<<20 {
		bad("%d bytes of shared memory", l.SharedBytes)
	}
	if l.MaxReg < 0 || l.MaxReg > 255 {
		bad("%d registers per thread, at most 255 are possible", l.MaxReg)
	}
	scalars := map[string]bool{}
	for _, p := range v.f.Params {
		if scalars[p.Name] || p.Name == "" {
			bad("two parameters named %q", p.Name)
		}
		scalars[p.Name] = p.Kind == Scalar
	}
	for _, p := range v.f.Params {
		if p.Kind == Tensor {
			v.tensorMap(p, bad)
		}
	}
	for _, e := range l.Grid {
		if err := e.Err(); err != nil {
			bad("%v", err)
		}
		for _, n := range e.Vars() {
			if !scalars[n] {
				bad("the grid needs %s, which is no scalar parameter", n)
			}
		}
	}
}

// tensorMap checks what the driver need not be asked.
func (v *verifier) tensorMap(p Param, bad func(format string, args ...any)) {
	m := p.Map
	if m == nil {
		bad("%s has no tensor map", p.Name)
		return
	}
	if !slices.ContainsFunc(v.f.Params, func(q Param) bool { return q.Name == m.Base && q.Kind == Pointer }) {
		bad("tensor map %s is of %q, which is no pointer parameter", p.Name, m.Base)
	}
	if n := len(m.Dims); n < 1 || n > 5 || len(m.Strides) != n-1 || len(m.Box) != n || m.ElementStrides != nil && len(m.ElementStrides) != n {
		bad("tensor map %s has %d dimensions, %d strides and a box of %d", p.Name, n, len(m.Strides), len(m.Box))
	}
	for _, e := range append(append(slices.Clone(m.Dims), m.Strides...), m.Offset) {
		for _, n := range e.Vars() {
			if !slices.ContainsFunc(v.f.Params, func(q Param) bool { return q.Name == n && q.Kind == Scalar }) {
				bad("tensor map %s needs %s, which is no scalar parameter", p.Name, n)
			}
		}
	}
}

func (v *verifier) define(val Value, pos diag.Pos) {
	if v.f.Type(val) == None {
		v.errs.Addf(pos, "Code.V1", "", "%%%d is no value of the function", val)
		return
	}
	if v.defined[val] {
		v.errs.Addf(pos, "Code.V2", "", "%%%d is defined twice", val)
	}
	v.defined[val], v.scope[val] = true, true
	v.undo = append(v.undo, val)
}

// use checks a value that an instruction or region uses: its input i, or another where
// i is negative.
func (v *verifier) use(val Value, want Type, pos diag.Pos, what string, i int) {
	got := v.f.Type(val)
	if got != None && v.scope[val] && (want == None || got == want) {
		return
	}
	if i >= 0 {
		what = fmt.Sprintf("%s input %d", what, i)
	}
	switch {
	case got == None:
		v.errs.Addf(pos, "Code.V1", "", "%s: %%%d is no value of the function", what, val)
	case !v.scope[val]:
		v.errs.Addf(pos, "Code.V3", "", "%s: %%%d is not defined before", what, val)
	default:
		v.errs.Addf(pos, "Code.V4", "", "%s: %%%d is %s, must be %s", what, val, got, want)
	}
}

func (v *verifier) region(r *Region, pos diag.Pos) {
	for _, a := range r.Args {
		v.define(a, pos)
	}
	for _, in := range r.Instrs {
		v.instr(in)
		pos = in.Pos
	}
	for _, y := range r.Yield {
		v.use(y, None, pos, "yield", -1)
	}
}

// leave takes the values defined since mark out of scope.
func (v *verifier) leave(mark int) {
	for _, val := range v.undo[mark:] {
		v.scope[val] = false
	}
	v.undo = v.undo[:mark]
}

func (v *verifier) instr(in *Instr) {
	row := in.Row()
	bad := func(code, format string, args ...any) {
		v.errs.Addf(in.Pos, code, "", row.Name+": "+format, args...)
	}
	if row == &rows[OpInvalid] {
		bad("Code.I1", "no such instruction (%d)", in.Op)
		return
	}
	if !in.Pos.Known() {
		bad("Code.I2", "has no position")
	}
	v.imm(in, bad)
	if row.Class == Control {
		v.control(in, bad)
		return
	}
	want := row.In
	if in.Guard != 0 {
		if !row.Memory() && row.Class != Async || row.Collective {
			bad("Code.I3", "only memory, copy and atomic instructions of single lanes can be guarded")
		}
		v.use(in.Guard, Pred, in.Pos, row.Name+" guard", -1)
		want = append(append([]Type(nil), row.In...), row.Out...)
	}
	results := row.Out
	if row.Through {
		more := max(len(in.In)-len(want), 0)
		if more > len(b32s) {
			bad("Code.I4", "%d inputs, at most %d", more, len(b32s))
			return
		}
		want = append(append([]Type(nil), want...), b32s[:more]...)
		results = b32s[:more]
	}
	if len(in.In) != len(want) {
		bad("Code.I4", "%d inputs, must be %d", len(in.In), len(want))
	} else {
		for i, val := range in.In {
			v.use(val, want[i], in.Pos, row.Name, i)
		}
	}
	if len(in.Regions) != 0 {
		bad("Code.I5", "has regions")
	}
	v.results(in, results, bad)
}

func (v *verifier) results(in *Instr, want []Type, bad func(code, format string, args ...any)) {
	if len(in.Out) != len(want) {
		bad("Code.I6", "%d results, must be %d", len(in.Out), len(want))
	}
	for i, val := range in.Out {
		v.define(val, in.Pos)
		if i < len(want) && v.f.Type(val) != want[i] {
			bad("Code.I7", "result %d is %s, must be %s", i, v.f.Type(val), want[i])
		}
	}
}

func (v *verifier) imm(in *Instr, bad func(code, format string, args ...any)) {
	row := in.Row()
	if len(in.Imm) != len(row.Imm) {
		bad("Code.M1", "%d immediates, must be %d", len(in.Imm), len(row.Imm))
		return
	}
	for i, k := range row.Imm {
		lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
		switch k {
		case ImmBits:
			if t := row.Out[0]; t != B64 {
				lo, hi = 0, int64(t.Mask())
			}
		case ImmOffset:
			lo, hi = math.MinInt32, math.MaxInt32
		case ImmAttr:
			lo, hi = 0, 1<<len(attrNames)-1
		case ImmCmp:
			lo, hi = int64(EQ), int64(GE)
		case ImmLut:
			lo, hi = 0, 255
		case ImmBit, ImmLane:
			lo, hi = 0, 31
		case ImmWidth:
			lo, hi = 1, 32-in.Imm[i-1]
		case ImmGroups:
			lo, hi = 0, 63
		case ImmID:
			lo, hi = 0, 15
		case ImmThreads:
			lo, hi = 32, 1024
			if in.Imm[i]%32 != 0 {
				bad("Code.M2", "immediate %d is %d, must be whole warps", i, in.Imm[i])
			}
		case ImmSelector:
			lo, hi = 0, int64(row.Selectors)-1
		case ImmUnroll:
			lo, hi = 1, 1<<16
		case ImmSign:
			lo, hi = -1, 1
			if in.Imm[i] == 0 {
				bad("Code.M2", "immediate %d is 0, must be 1 or -1", i)
			}
		case ImmFlag:
			lo, hi = 0, 1
		case ImmRegisters:
			lo, hi = 24, 256
			if in.Imm[i]%8 != 0 {
				bad("Code.M2", "immediate %d is %d, must be a multiple of 8", i, in.Imm[i])
			}
		case ImmWgmmaGroups:
			lo, hi = 0, 7
		}
		if in.Imm[i] < lo || in.Imm[i] > hi {
			bad("Code.M2", "immediate %d is %d, must be %d to %d", i, in.Imm[i], lo, hi)
		}
		if k == ImmAttr {
			v.attr(in, Attr(in.Imm[i]), bad)
		}
	}
}

func (v *verifier) attr(in *Instr, a Attr, bad func(code, format string, args ...any)) {
	one := func(set Attr) bool { return a&set&(a&set-1) == 0 }
	if !one(NoAllocate|EvictFirst|EvictLast) || !one(L2Prefetch64|L2Prefetch128|L2Prefetch256) {
		bad("Code.M3", "attributes %s exclude each other", a)
	}
	if in.Row().Class == Async && a&^(L2Prefetch64|L2Prefetch128|L2Prefetch256) != 0 {
		bad("Code.M3", "attributes %s are for loads and stores", a)
	}
	if in.Row().Class == Store && a&(NC|L2Prefetch64|L2Prefetch128|L2Prefetch256) != 0 {
		bad("Code.M3", "attributes %s are for loads", a)
	}
}

func (v *verifier) control(in *Instr, bad func(code, format string, args ...any)) {
	name := in.Row().Name
	if in.Guard != 0 {
		bad("Code.I3", "only memory and atomic instructions can be guarded")
	}
	heads, regions := 1, 2
	if in.Op == OpFor {
		heads, regions = 3, 1
	} else if in.Op == OpWhile {
		heads = 0
	}
	if len(in.Regions) != regions || len(in.In) < heads || in.Op == OpIf && len(in.In) != 1 {
		bad("Code.C1", "%d inputs and %d regions", len(in.In), len(in.Regions))
		return
	}
	for i, val := range in.In {
		want := None
		if i < heads {
			want = B32
			if in.Op == OpIf {
				want = Pred
			}
		}
		v.use(val, want, in.Pos, name, i)
	}
	types := func(vals []Value) []Type {
		ts := make([]Type, len(vals))
		for i, val := range vals {
			ts[i] = v.f.Type(val)
		}
		return ts
	}
	same := func(what string, got []Value, want []Type) {
		if len(got) != len(want) {
			bad("Code.C2", "%s are %d, must be %d", what, len(got), len(want))
			return
		}
		for i, t := range types(got) {
			if t != want[i] {
				bad("Code.C2", "%s %d is %s, must be %s", what, i, t, want[i])
			}
		}
	}
	carried := types(in.In[heads:])
	mark := len(v.undo)
	switch in.Op {
	case OpIf:
		carried = types(in.Out)
		for _, r := range in.Regions {
			if len(r.Args) != 0 {
				bad("Code.C3", "its regions take no arguments")
			}
			v.region(r, in.Pos)
			v.leave(mark)
			same("yields", r.Yield, carried)
		}
	case OpFor:
		r := in.Regions[0]
		same("arguments", r.Args, append([]Type{B32}, carried...))
		v.region(r, in.Pos)
		same("yields", r.Yield, carried)
	case OpWhile:
		cond, body := in.Regions[0], in.Regions[1]
		same("arguments", cond.Args, carried)
		if len(body.Args) != 0 {
			bad("Code.C3", "its body takes no arguments of its own")
		}
		v.region(cond, in.Pos)
		same("condition", cond.Yield, []Type{Pred})
		v.region(body, in.Pos)
		same("yields", body.Yield, carried)
	}
	v.leave(mark)
	v.results(in, carried, bad)
}
