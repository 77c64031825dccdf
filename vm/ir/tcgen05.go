package ir

import (
	"fmt"
	"math/bits"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// The rows of this file are the fifth generation of tensor cores: products whose sums lie
// in tensor memory, 128 lanes of 512 columns of 32 bits that a multiprocessor has beside
// its registers. One thread begins a product; nobody's registers take part. Row i of a
// tensor lies in lane i, its elements one after the other in columns. They are
// interpreted, simulated and assembled, and have not been seen on hardware.

const (
	ptxTcgen05 = "PTX ISA 9.7.16 tcgen05"
	unseen     = "; not seen on hardware"

	// TensorLanes and TensorColumns are the extents of tensor memory.
	TensorLanes   = 128
	TensorColumns = 512
)

// ColumnsOf is how many columns of tensor memory a tensor takes.
func ColumnsOf(t Type) int {
	dims, _ := t.Dims()
	return dims[len(dims)-1] * t.Elem.Bits() / 32
}

// TensorPlan is a Tcgen05Mma cut into instructions of N columns and K elements.
type TensorPlan struct {
	N, K         int
	FormA, FormB layout.Canonical // of operands in shared memory; B as [N, K]
}

// PlanTensor cuts a product into instructions.
func PlanTensor(in *Instr) (TensorPlan, error) {
	a, b, d := in.In[0].Var().Type, in.In[1].Var().Type, in.In[2].Var().Type
	p := TensorPlan{K: wgmmaK(a.Elem, b.Elem, d.Elem)}
	if p.K == 0 || a.Elem == dtype.U1 || d.Elem != dtype.F32 && d.Elem != dtype.I32 {
		return p, fmt.Errorf("no instruction multiplies %s by %s into %s", a.Elem, b.Elem, d.Elem)
	}
	dims, _ := d.Dims()
	if p.N = dims[1]; p.N > 256 {
		p.N = 256
	}
	if p.N%16 != 0 || dims[1]%p.N != 0 {
		return p, fmt.Errorf("%d columns are not cut into multiples of 16, at most 256", dims[1])
	}
	bt, err := b.Shared.Transpose(0, 1)
	if err == nil {
		p.FormB, err = bt.Canonical(b.Elem.Bits())
	}
	if err != nil {
		return p, fmt.Errorf("b: %s is not as matrix instructions read it", b.Shared)
	}
	if a.IsShared() {
		if p.FormA, err = a.Shared.Canonical(a.Elem.Bits()); err != nil {
			return p, fmt.Errorf("a: %s is not as matrix instructions read it", a.Shared)
		}
	}
	if a.Elem.Bits() != 16 && (a.IsShared() && p.FormA.Major != layout.MajorK || p.FormB.Major != layout.MajorK) {
		return p, fmt.Errorf("operands of %s must lie with k contiguous", a.Elem)
	}
	if k, _ := a.Dims(); k[1]%p.K != 0 {
		return p, fmt.Errorf("a has %d columns, the instruction takes %d", k[1], p.K)
	}
	return p, nil
}

var tcgen05Rows = []*Op{
	{
		Name: "Tcgen05Alloc", Family: "tcgen05", Effects: WritesShared | Synchronizes,
		Doc: "Takes columns of tensor memory; waits until the multiprocessor has them. One warp does it; a Synchronize has to lie between this and the first use. What it takes must be given back with Tcgen05Dealloc before the block ends.",
		Out: []Port{{Name: "tensor", Accept: AcceptTensorMemory, Doc: "[128, N]"}},
		Rules: []Rule{
			{Text: "The tensor has 128 rows, and elements of 8, 16 or 32 bits in 32 to 512 columns, a power of two.", Why: "Tensor memory is given in such parts.", Check: func(p *Program, in *Instr) *Violation {
				t := in.Out[0].Type
				dims, _ := t.Dims()
				b := t.Elem.Bits()
				if len(dims) != 2 || dims[0] != TensorLanes || b != 8 && b != 16 && b != 32 || ColumnsOf(t) < 32 || ColumnsOf(t) > TensorColumns || bits.OnesCount(uint(ColumnsOf(t))) != 1 || dims[1]*b%32 != 0 {
					return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("the tensor is %s", t), Help: "write tmem f32[128, 64]"}
				}
				return nil
			}},
			ruleTopOfProgram,
		},
		Since: "0.5", Source: ptxTcgen05 + ".alloc" + unseen, Example: "d = Tcgen05Alloc() : tmem f32[128, 256]",
	},
	{
		Name: "Tcgen05Dealloc", Family: "tcgen05", Effects: WritesShared | Synchronizes,
		Doc: "Gives tensor memory back. A Synchronize has to lie between its last use and this.",
		In:  []Port{{Name: "tensor", Accept: AcceptTensorMemory, Doc: "of Tcgen05Alloc"}},
		Rules: []Rule{{Text: "The tensor is one of Tcgen05Alloc, not a view.", Check: func(p *Program, in *Instr) *Violation {
			v, made := in.In[0].Var(), false
			p.Body.Walk(func(s Stmt) bool {
				x, ok := s.(*Instr)
				made = made || ok && x.Op.Name == "Tcgen05Alloc" && x.Out[0] == v
				return !made
			})
			if !made {
				return &Violation{Pos: in.In[0].Pos, Msg: v.Name + " is a view", Help: "give back what was taken"}
			}
			return nil
		}}, ruleTopOfProgram},
		Since: "0.5", Source: ptxTcgen05 + ".dealloc" + unseen, Example: "Tcgen05Dealloc(d)",
	},
	{
		Name: "Tcgen05RelinquishAllocPermit", Family: "tcgen05", Effects: WritesShared | Synchronizes,
		Doc:   "The block takes no more tensor memory, so that others of the multiprocessor can.",
		Since: "0.5", Source: ptxTcgen05 + ".relinquish_alloc_permit" + unseen, Example: "Tcgen05RelinquishAllocPermit()",
	},
	{
		Name: "Tcgen05Slice", Family: "tcgen05", Class: ClassView,
		Doc:   "Columns of a tensor in tensor memory, from offset on: another name for the same memory.",
		In:    []Port{{Name: "tensor", Accept: AcceptTensorMemory}},
		Out:   []Port{{Name: "part", Accept: AcceptTensorMemory, Doc: "[128, n]"}},
		Attrs: []AttrSpec{{Name: "offset", Kind: AttrInts, Required: true, Doc: "[0, c]: the first column"}},
		Rules: []Rule{{Text: "The part has the tensor's type and rows, lies inside it, and begins and ends between columns.", Check: func(p *Program, in *Instr) *Violation {
			from, to := in.In[0].Var().Type, in.Out[0].Type
			a := in.Attr("offset")
			whole, _ := from.Dims()
			part, _ := to.Dims()
			ok := len(a.Exprs) == 2 && len(part) == 2 && len(whole) == 2 && to.Elem == from.Elem && part[0] == whole[0]
			if ok {
				row, _ := ConstInt(a.Exprs[0])
				c, _ := ConstInt(a.Exprs[1])
				ok = row == 0 && c >= 0 && int(c)+part[1] <= whole[1] && int(c)*to.Elem.Bits()%32 == 0 && part[1]*to.Elem.Bits()%32 == 0
			}
			if !ok {
				return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("%s is taken from %s", to, from), Help: "offset=[0, column]"}
			}
			return nil
		}}},
		Since: "0.5", Source: tilusDoc + " tcgen05.slice", Example: "half = Tcgen05Slice(d, offset=[0, 128]) : tmem f32[128, 128]",
	},
	{
		Name: "Tcgen05View", Family: "tcgen05", Class: ClassView,
		Doc: "The same bits of tensor memory as elements of another type.",
		In:  []Port{{Name: "tensor", Accept: AcceptTensorMemory}},
		Out: []Port{{Name: "view", Accept: AcceptTensorMemory, Doc: "[128, n]"}},
		Rules: []Rule{{Text: "Both have as many rows and columns of 32 bits.", Check: func(p *Program, in *Instr) *Violation {
			from, to := in.In[0].Var().Type, in.Out[0].Type
			if dims, _ := to.Dims(); len(dims) != 2 || dims[0] != TensorLanes || dims[1]*to.Elem.Bits()%32 != 0 || ColumnsOf(to) != ColumnsOf(from) {
				return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s is viewed as %s", from, to)}
			}
			return nil
		}}},
		Since: "0.5", Source: tilusDoc + " tcgen05.view", Example: "p = Tcgen05View(s) : tmem f16[128, 128]",
	},
	{
		Name: "Tcgen05Mma", Aliases: []string{"Tcgen05MmaSS", "Tcgen05MmaTS"}, Family: "tcgen05", Class: ClassMatrix, Effects: ReadsShared | WritesShared | Async,
		Doc:   "Begins a matrix product: d[m, n] becomes Σk a[m, k]·b[k, n] + d[m, n], rounded as WgmmaDot rounds; where sum is 0, without what d held. One thread begins it. a lies in shared memory or in tensor memory, b in shared memory. Products of a block end in the order in which they begin; who waits for a Tcgen05Commit behind it may use d, and write a and b again. Shared memory that threads stored needs FenceProxyAsync and a barrier before.",
		In:    []Port{{Name: "a", Accept: AcceptShared | AcceptTensorMemory, Doc: "[128, K]"}, {Name: "b", Accept: AcceptShared, Doc: "[K, N]"}, {Name: "d", Accept: AcceptTensorMemory, Doc: "[128, N]"}},
		Attrs: []AttrSpec{{Name: "sum", Kind: AttrExprs, Doc: "[s]: where s is 0 the product replaces what d held; left out, it is added"}},
		Rules: []Rule{
			{Text: "a is [128, K], b is [K, N], d is [128, N].", Check: func(p *Program, in *Instr) *Violation {
				a, _ := in.In[0].Var().Type.Dims()
				b, _ := in.In[1].Var().Type.Dims()
				d, _ := in.In[2].Var().Type.Dims()
				if len(a) != 2 || len(b) != 2 || len(d) != 2 || a[0] != TensorLanes || d[0] != a[0] || a[1] != b[0] || b[1] != d[1] {
					return &Violation{Msg: fmt.Sprintf("a is %v, b is %v, d is %v", a, b, d)}
				}
				return nil
			}},
			{Text: "An instruction multiplies these types, and reads these layouts.", Why: "tcgen05.mma: f16, bf16, tf32, f8e4m3, f8e5m2 into f32, i8 and u8 into i32, with operands laid out as wgmma's.", Check: func(p *Program, in *Instr) *Violation {
				for _, o := range in.In[:2] {
					if t := o.Var().Type; t.IsShared() && !t.HasLayout {
						return nil // reported where it is made
					}
				}
				d, _ := in.In[2].Var().Type.Dims()
				a, _ := in.In[0].Var().Type.Dims()
				if len(d) != 2 || len(a) != 2 {
					return nil
				}
				if _, err := PlanTensor(in); err != nil {
					return &Violation{Msg: err.Error(), Help: "lay shared operands out like shared_row_major_swizzle does"}
				}
				return nil
			}},
			{Text: "sum, where it is given, is one expression.", Check: func(p *Program, in *Instr) *Violation {
				if a := in.Attr("sum"); a != nil && len(a.Exprs) != 1 {
					return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("sum has %d entries", len(a.Exprs)), Help: "write sum=[k] to begin anew at k = 0"}
				}
				return nil
			}},
		},
		Since: "0.5", Source: ptxTcgen05 + ".mma" + unseen, Example: "Tcgen05Mma(sa, sb, d, sum=[k])",
	},
	{
		Name: "Tcgen05Commit", Family: "tcgen05", Effects: ReadsShared | WritesShared | Async | Synchronizes,
		Doc:   "Arrives once at a barrier when the products that the same thread has begun since its last Tcgen05Commit are done: a thread that waits for the turn may use what they wrote, and write what they read. A GPU also waits for those before; programs that rely on it are refused by interpreter and simulator.",
		In:    barrierIn(),
		Rules: []Rule{ruleBarrier(0), ruleTurn(1)},
		Since: "0.5", Source: ptxTcgen05 + ".commit" + unseen, Example: "Tcgen05Commit(empty, k)",
	},
	{
		Name: "Tcgen05Load", Family: "tcgen05", Class: ClassMemory, Effects: ReadsShared | Async,
		Doc:   "Begins to load a tensor from tensor memory into registers: thread i of a warpgroup gets row i. The registers hold it behind a Tcgen05Wait.",
		In:    []Port{{Name: "tensor", Accept: AcceptTensorMemory}},
		Out:   []Port{{Name: "x", Accept: AcceptRegister}},
		Rules: []Rule{ruleRowsOfThreads(0, true)},
		Since: "0.5", Source: ptxTcgen05 + ".ld" + unseen, Example: "x = Tcgen05Load(part) : register f32[128, 32] spatial(128, 1).local(1, 32)",
	},
	{
		Name: "Tcgen05Store", Family: "tcgen05", Class: ClassMemory, Effects: WritesShared | Async,
		Doc:   "Begins to store registers to tensor memory: thread i of a warpgroup has row i. It is there behind a Tcgen05Wait, for other threads and products behind a barrier as well.",
		In:    []Port{{Name: "tensor", Accept: AcceptTensorMemory}, {Name: "x", Accept: AcceptRegister}},
		Rules: []Rule{ruleRowsOfThreads(1, false)},
		Since: "0.5", Source: ptxTcgen05 + ".st" + unseen, Example: "Tcgen05Store(p, h)",
	},
	{
		Name: "Tcgen05Wait", Family: "tcgen05", Effects: Async | Synchronizes,
		Doc:   "Waits until the loads, or the stores, of tensor memory that the threads which run have begun are done.",
		Attrs: []AttrSpec{{Name: "for", Kind: AttrWord, Required: true, Words: []string{"load", "store"}, Doc: "load or store"}},
		Since: "0.5", Source: ptxTcgen05 + ".wait" + unseen, Example: "Tcgen05Wait(for=load)",
	},
}

var ruleTopOfProgram = Rule{Text: "It stands in no loop, branch or thread group.", Why: "Every block takes and gives back once, with its first warp.", Check: func(p *Program, in *Instr) *Violation {
	if b, _ := blockOf(p.Body, in); b != p.Body {
		return &Violation{Msg: in.Op.Name + " is in a loop, branch or group", Help: "move it to the top level of the program"}
	}
	return nil
}}

// ruleRowsOfThreads is for loads and stores: result or operand i of registers.
func ruleRowsOfThreads(i int, out bool) Rule {
	return Rule{Text: "The registers have the tensor's type and shape, thread i row i: spatial(128, 1).local(1, n), with n elements in 1 to 128 columns, a power of two.", Why: "A warp reaches the 32 lanes of its place in the warpgroup.", Check: func(p *Program, in *Instr) *Violation {
		t := in.In[0].Var().Type
		var r Type
		var pos diag.Pos
		if out {
			r, pos = in.Out[i].Type, in.typePos(i)
		} else {
			r, pos = in.In[i].Var().Type, in.In[i].Pos
		}
		dims, _ := t.Dims()
		if !r.HasLayout || len(dims) != 2 {
			return nil
		}
		want := layout.Spatial(TensorLanes, 1).Local(1, dims[1])
		if c := ColumnsOf(t); r.Elem != t.Elem || !r.Layout.Equal(want) || c > 128 || bits.OnesCount(uint(c)) != 1 {
			return &Violation{Pos: pos, Msg: fmt.Sprintf("%s and %s", t, r), Help: fmt.Sprintf("use %s", RegisterOf(t.Elem, want))}
		}
		return nil
	}}
}
