package ir

import "fmt"

// The rows of this file copy beside the threads: what they bring is there only
// after a wait, and for other threads after a Synchronize behind it.

// MaxAsyncGroups bounds n of CopyAsyncWaitGroup.
const MaxAsyncGroups = 63

var asyncRows = []*Op{
	{
		Name: "CopyAsync", Family: "async", Class: ClassMemory, Effects: ReadsGlobal | WritesShared | Async,
		Doc: "Begins to copy a tile of a global tensor, of the shape of dst, to shared memory, past the registers. Element [i, j, …] of dst comes from offset plus that index of src; dims says along which dimensions of src the tile lies (the last ones, if left out). Elements outside src become 0. The copy ends with a wait for its group; until then dst must be neither read nor written. Which thread copies which element is open, so that a Synchronize has to lie behind the wait, and between the last use of what dst held and the copy. " +
			"Where element widths and places allow no asynchronous access (of 4, 8 or 16 aligned bytes), lowered code loads and stores instead.",
		In: []Port{{Name: "src", Accept: AcceptGlobal}, {Name: "dst", Accept: AcceptShared}},
		Attrs: []AttrSpec{
			{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in src of the tile's first element, one entry per dimension of src"},
			{Name: "dims", Kind: AttrInts, Doc: "the dimension of src that each dimension of dst lies along"},
			{Name: "keep", Kind: AttrWord, Words: []string{"l1"}, Doc: "l1: the bytes keep a place in the L1 cache on their way, for what other blocks or turns read again; a hint that changes no result"},
			{Name: "prefetch", Kind: AttrNumber, Doc: "64, 128 or 256: so many bytes around what is read come to the L2 cache; a hint that changes no result"},
			{Name: "bounds", Kind: AttrWord, Words: []string{"inside"}, Doc: "inside: the tile lies inside src, which the interpreter checks and lowering relies on"},
		},
		Rules: []Rule{
			{Text: "Source and destination have one element type.", Check: func(p *Program, in *Instr) *Violation {
				if g, s := in.In[0].Var(), in.In[1].Var(); g.Type.Elem != s.Type.Elem {
					return &Violation{Pos: in.In[1].Pos, Msg: fmt.Sprintf("%s is of %s, %s of %s", g.Name, g.Type.Elem, s.Name, s.Type.Elem), Help: "copies move bits; Cast registers"}
				}
				return nil
			}},
			ruleOffset,
			{Text: "dims names one dimension of the source for each dimension of the destination, in range and without repeats; left out, the destination has at most the source's rank.",
				Check: func(p *Program, in *Instr) *Violation { return checkDims(in, in.In[0].Var(), in.In[1].Var().Type) }},
			rulePrefetch,
		},
		Since: "0.3", Source: tilusDoc, Example: "CopyAsync(ga, sa, offset=[bi*64, k*32])",
	},
	{
		Name: "CopyAsyncCommitGroup", Family: "async", Effects: Async,
		Doc:   "Makes a group of the copies begun since the last group; there may be none.",
		Since: "0.3", Source: tilusDoc, Example: "CopyAsyncCommitGroup()",
	},
	{
		Name: "CopyAsyncWaitGroup", Family: "async", Effects: Async,
		Doc:   "Waits until at most n of the groups made last are still on their way. Copies that are in no group are not waited for.",
		Attrs: []AttrSpec{{Name: "n", Kind: AttrNumber, Required: true, Doc: "how many groups may still be on their way"}},
		Rules: []Rule{
			{Text: fmt.Sprintf("n is an integer from 0 to %d.", MaxAsyncGroups), Check: func(p *Program, in *Instr) *Violation {
				a := in.Attr("n")
				if n := int(a.Number); float64(n) != a.Number || n < 0 || n > MaxAsyncGroups {
					return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("n is %v", a.Number)}
				}
				return nil
			}},
		},
		Since: "0.3", Source: tilusDoc, Example: "CopyAsyncWaitGroup(n=2)",
	},
	{
		Name: "CopyAsyncWaitAll", Family: "async", Effects: Async,
		Doc:   "Waits for every copy begun so far, in a group or not.",
		Since: "0.3", Source: tilusDoc, Example: "CopyAsyncWaitAll()",
	},
}
