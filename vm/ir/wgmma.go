package ir

import (
	"fmt"
	"sync"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// The rows of this file are matrix products of warpgroups, 128 threads, which go on
// beside the threads and read operands from shared memory.

const ptxWgmma = "PTX ISA 9.7.15 wgmma"

// WarpgroupThreads are the threads of a warpgroup.
const WarpgroupThreads = 4 * LanesPerWarp

// WgmmaForm is one instruction of a warpgroup: [64, K]·[K, N].
type WgmmaForm struct{ N, K int }

// C is the fragment of the accumulator over the 128 threads of a warpgroup: warp w
// has rows 16w to 16w+15 as mma has them, repeated along N.
func (f WgmmaForm) C() layout.Layout { return fragment(f.N/8, 2) }

// fragment is a fragment of so many columns of 8 rows, of which threads hold so many neighbours.
func fragment(columns, neighbours int) layout.Layout {
	key := [2]int{columns, neighbours}
	if l, ok := fragments.Load(key); ok {
		return l.(layout.Layout)
	}
	l := layout.Spatial(4, 1).ColumnLocal(2, columns).Spatial(8, 4).Local(1, neighbours)
	fragments.Store(key, l)
	return l
}

var fragments sync.Map // those that were made

// A is the fragment of an operand in registers, of this element type.
func (f WgmmaForm) A(t dtype.Type) layout.Layout {
	return fragment(2, max(32/t.Bits(), 1))
}

// WgmmaPlan is a WgmmaDot cut into instructions.
type WgmmaPlan struct {
	Form WgmmaForm
	C    layout.Layout // of fragments of C, over warpgroups
	A    layout.Layout // of fragments of A, over warpgroups, where A lies in registers
	// Of operands in shared memory: B as [N, K].
	FormA, FormB layout.Canonical
}

// wgmmaK is how far along k an instruction reaches, 0 where none multiplies these types.
func wgmmaK(a, b, c dtype.Type) int {
	f8 := func(t dtype.Type) bool { return t == dtype.F8E4M3 || t == dtype.F8E5M2 }
	i8 := func(t dtype.Type) bool { return t == dtype.I8 || t == dtype.U8 }
	switch f32 := c == dtype.F32; {
	case a == dtype.F16 && b == a && (f32 || c == dtype.F16), a == dtype.BF16 && b == a && f32:
		return 16
	case a == dtype.TF32 && b == a && f32:
		return 8
	case f8(a) && f8(b) && (f32 || c == dtype.F16), i8(a) && i8(b) && c == dtype.I32:
		return 32
	case a == dtype.U1 && b == a && c == dtype.I32:
		return 256
	}
	return 0
}

// PlanWgmma cuts a WgmmaDot into instructions: those with the largest N whose
// fragments divide the accumulator.
func PlanWgmma(in *Instr) (WgmmaPlan, error) {
	a, b, c := in.In[0].Var().Type, in.In[1].Var().Type, in.In[2].Var().Type
	k := wgmmaK(a.Elem, b.Elem, c.Elem)
	if k == 0 {
		return WgmmaPlan{}, fmt.Errorf("no instruction multiplies %s by %s into %s", a.Elem, b.Elem, c.Elem)
	}
	dims, _ := c.Dims()
	if len(dims) != 2 {
		return WgmmaPlan{}, fmt.Errorf("the accumulator is %v", dims)
	}
	groups := c.Layout.Threads() / WarpgroupThreads
	p, found := WgmmaPlan{}, false
	bt, err := b.Shared.Transpose(0, 1)
	if err == nil {
		p.FormB, err = bt.Canonical(b.Elem.Bits())
	}
	if err != nil {
		return p, fmt.Errorf("b: %s is not as matrix instructions read it", b.Shared)
	}
	unit := 8 // of columns, at multiples of which instructions begin
	if p.FormB.Major == layout.MajorMN {
		unit = max(8, p.FormB.Width*8/b.Elem.Bits())
	}
	for n := 256; n >= 8 && !found; n -= 8 {
		if dims[1]%n != 0 || n < dims[1] && n%unit != 0 || c.Elem == dtype.I32 && n > 32 && n%16 != 0 {
			continue
		}
		f := WgmmaForm{n, k}
		if outer, err := c.Layout.Div(f.C()); err == nil && outer.Threads() == groups {
			p.Form, p.C, found = f, outer, true
		}
	}
	if !found {
		return p, fmt.Errorf("%s is not made of fragments like %s", c.Layout, WgmmaForm{8, k}.C())
	}
	if a.IsRegister() {
		outer, err := a.Layout.Div(p.Form.A(a.Elem))
		if err != nil {
			return p, fmt.Errorf("%s is not made of fragments like %s", a.Layout, p.Form.A(a.Elem))
		}
		p.A = outer
	} else {
		form, err := a.Shared.Canonical(a.Elem.Bits())
		if err != nil {
			return p, fmt.Errorf("a: %s is not as matrix instructions read it", a.Shared)
		}
		p.FormA = form
	}
	if a.Elem.Bits() != 16 && (a.IsShared() && p.FormA.Major != layout.MajorK || p.FormB.Major != layout.MajorK) {
		return p, fmt.Errorf("operands of %s must lie with k contiguous", a.Elem)
	}
	return p, nil
}

var wgmmaRows = []*Op{
	{
		Name: "WgmmaDot", Aliases: []string{"WgmmaMma"}, Family: "wgmma", Class: ClassMatrix, Effects: ReadsShared | Async,
		Doc: "Begins a matrix product of warpgroups: d[m, n] = Σk a[m, k]·b[k, n] + c[m, n], rounded as Dot rounds: the products of one instruction's k (32 bytes of it) and the accumulator are summed exactly and rounded once; steps go up in k. It goes on beside the threads until a WgmmaWaitGroup for its group. Until then the accumulator can be used only by further WgmmaDots, registers of a must not change, and the shared memory of a and b must not be written. " +
			"Registers that other instructions wrote (accumulators, a) need a WgmmaFence before; shared memory that threads stored needs FenceProxyAsync and a barrier. b lies in shared memory with k or n contiguous, a in shared memory with k or m contiguous, or in registers; types other than of 16 bits need k contiguous. Where sum is 0, the accumulator's value does not count: d is the product alone.",
		In:    []Port{{Name: "a", Accept: AcceptShared | AcceptRegister, Doc: "[M, K]"}, {Name: "b", Accept: AcceptShared, Doc: "[K, N]"}, {Name: "c", Accept: AcceptRegister, Doc: "[M, N]"}},
		Out:   []Port{{Name: "d", Accept: AcceptRegister, Doc: "[M, N]"}},
		Attrs: []AttrSpec{{Name: "sum", Kind: AttrExprs, Doc: "[s]: where s is 0 the product replaces what c held; left out, it is added"}},
		Rules: []Rule{
			{Text: "a is [M, K], b is [K, N], c and the result are [M, N].", Check: checkDotShapes},
			{Text: "The result is the variable c.", Why: "The instruction adds to registers where they are.", Check: func(p *Program, in *Instr) *Violation {
				if in.Out[0] != in.In[2].Var() {
					return &Violation{Msg: fmt.Sprintf("the accumulator is %s, the result %s", in.In[2].Var().Name, in.Out[0].Name), Help: "acc = WgmmaDot(a, b, acc)"}
				}
				return nil
			}},
			{Text: "An instruction multiplies these types, and its fragments divide the layouts.", Why: "wgmma: f16, bf16, tf32, f8e4m3, f8e5m2 into f32 (f16 and 8-bit floats into f16 too), i8 and u8 into i32, u1 into i32.", Check: func(p *Program, in *Instr) *Violation {
				for _, o := range in.In {
					if !o.Var().Type.HasLayout {
						return nil // reported where it is made
					}
				}
				if checkDotShapes(p, in) != nil {
					return nil
				}
				plan, err := PlanWgmma(in)
				if err != nil {
					if a, b, c := in.In[0].Var().Type.Elem, in.In[1].Var().Type.Elem, in.In[2].Var().Type.Elem; wgmmaK(a, b, c) == 0 {
						return &Violation{Msg: err.Error(), Help: "there are f16, bf16, tf32, f8e4m3, f8e5m2 into f32, f16 and 8-bit floats into f16, i8, u8 and u1 into i32; Cast to one of them, or use Dot"}
					}
					return &Violation{Msg: err.Error(), Help: fmt.Sprintf("lay c out like local(2, 1).%s, shared operands like shared_row_major_swizzle does", WgmmaForm{128, 16}.C())}
				}
				if a, _ := in.In[0].Var().Type.Dims(); a[1]%plan.Form.K != 0 {
					return &Violation{Msg: fmt.Sprintf("K is %d, the instruction's %d", a[1], plan.Form.K), Help: "K is a multiple of 32 bytes"}
				}
				return nil
			}},
			ruleSum,
		},
		Since: "0.4", Source: ptxWgmma + ".mma_async", Example: "acc = WgmmaDot(sa, sb, acc) : register f32[64, 128] spatial(4, 1).column_local(2, 16).spatial(8, 4).local(1, 2)",
	},
	{
		Name: "WgmmaFence", Family: "wgmma", Effects: Async,
		Doc:   "Orders what the threads did with registers before against the WgmmaDots after it. The first WgmmaDot needs it, and every one that uses registers which another instruction wrote since; accumulators that only WgmmaDots change do not.",
		Since: "0.4", Source: ptxWgmma + ".fence", Example: "WgmmaFence()",
	},
	{
		Name: "WgmmaCommitGroup", Family: "wgmma", Effects: Async,
		Doc:   "Makes a group of the WgmmaDots begun since the last group; there may be none.",
		Since: "0.4", Source: ptxWgmma + ".commit_group", Example: "WgmmaCommitGroup()",
	},
	{
		Name: "WgmmaWaitGroup", Family: "wgmma", Effects: Async,
		Doc:   "Waits until at most n of the groups made last are still at work. The accumulators of the others hold their results, and what they read is free.",
		Attrs: []AttrSpec{{Name: "n", Kind: AttrNumber, Required: true, Doc: "how many groups may still be at work"}},
		Rules: []Rule{{Text: "n is an integer from 0 to 7.", Check: func(p *Program, in *Instr) *Violation { return checkNumber(in, "n", 0, 7, 1) }}},
		Since: "0.4", Source: ptxWgmma + ".wait_group", Example: "WgmmaWaitGroup(n=1)",
	},
	{
		Name: "SetMaxRegisters", Family: "wgmma", Effects: Synchronizes,
		Doc:   "From here on each thread that runs has n registers: more for warpgroups that compute, fewer for those that only begin copies. It changes no result; on a GPU a warpgroup that asks for more waits until others have given theirs back.",
		Attrs: []AttrSpec{{Name: "n", Kind: AttrNumber, Required: true, Doc: "registers of a thread"}},
		Rules: []Rule{{Text: "n is a multiple of 8 from 24 to 256.", Check: func(p *Program, in *Instr) *Violation { return checkNumber(in, "n", 24, 256, 8) }}},
		Since: "0.4", Source: "PTX ISA 9.7.19.5 setmaxnreg", Example: "SetMaxRegisters(n=240)",
	},
}
