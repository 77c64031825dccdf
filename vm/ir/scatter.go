package ir

// The rows of this file reach and change single elements of shared memory.

var attrSharedScope = AttrSpec{Name: "scope", Kind: AttrWord, Words: attrScope.Words, Doc: "among whose threads the step is one; all scopes say the same of memory that only a block and its cluster reach"}

var scatterRows = []*Op{
	{
		Name: "StoreSharedScatter", Family: "shared", Class: ClassMemory, Effects: WritesShared,
		Doc:   "Stores elements at indices that the program computed: element [i, j, …] of the tile goes to offset plus that index, but in dimension dim to indices[i, j, …]. All places lie inside. If two elements go to one place, the thread that holds both stores them in the order of its slots; two threads must not.",
		In:    []Port{{Name: "dst", Accept: AcceptShared}, {Name: "indices", Accept: AcceptRegister}, {Name: "tile", Accept: AcceptRegister}},
		Attrs: scatterAttrs("dst"),
		Rules: scatterRules(false),
		Since: "0.3", Source: tilusDoc, Example: "StoreSharedScatter(sa, ids, x, dim=[0])",
	},
	{
		Name: "AtomicShared", Family: "shared", Class: ClassMemory, Effects: ReadsShared | WritesShared,
		Doc:   "One atomic step on each element of a tile of a shared tensor: " + atomicDoc + " The result, if one is named, is what stood there. offset and dims as in LoadShared. With op=cas the element becomes the tile's where it is compare's. With rank, the tensor is the one at the same place of another block of the cluster, as in StoreShared: many blocks can add to one tile.",
		In:    []Port{{Name: "dst", Accept: AcceptShared}, {Name: "tile", Accept: AcceptRegister}, {Name: "compare", Accept: AcceptRegister, Optional: true}},
		Out:   []Port{{Name: "old", Accept: AcceptRegister, Optional: true}},
		Attrs: []AttrSpec{attrSharedOffset("dst", false), attrSharedDims("dst"), attrAtomic, attrRank, attrSharedScope},
		Rules: append([]Rule{ruleStoredElem, ruleSharedOffset,
			{Text: "dims names one dimension of the shared tensor for each dimension of the tile, in range and without repeats; left out, the tile has at most the tensor's rank.",
				Check: func(p *Program, in *Instr) *Violation { return checkDims(in, in.In[0].Var(), in.In[1].Var().Type) }},
		}, append(atomicRules(1), ruleRank)...),
		Since: "0.3", Source: tilusDoc, Example: "AtomicShared(sum, partial, op=add)",
	},
	{
		Name: "AtomicScatterShared", Family: "shared", Class: ClassMemory, Effects: ReadsShared | WritesShared,
		Doc:   "One atomic step on each of the elements that indices choose, as in StoreSharedScatter: " + atomicDoc + " Several elements may go to one place.",
		In:    []Port{{Name: "dst", Accept: AcceptShared}, {Name: "indices", Accept: AcceptRegister}, {Name: "tile", Accept: AcceptRegister}, {Name: "compare", Accept: AcceptRegister, Optional: true}},
		Out:   []Port{{Name: "old", Accept: AcceptRegister, Optional: true}},
		Attrs: append(scatterAttrs("dst"), attrAtomic, attrSharedScope),
		Rules: append(scatterRules(false), atomicRules(2)...),
		Since: "0.3", Source: tilusDoc, Example: "AtomicScatterShared(histogram, bins, ones, dim=[0], op=add)",
	},
}
