package linear

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// FromRegister is a register layout as a linear one: slots are registers, threads
// are lanes and warps of this many lanes, and dimension d of the tile is "dimd". It
// exists where all sizes are powers of two. lanes is a power of two.
func FromRegister(r layout.Layout, lanes int) (Layout, error) {
	laneBits, ok := log2(lanes)
	if !ok {
		return Layout{}, fail(eSize, "", "a warp of %d lanes is not a power of two", lanes)
	}
	shape := r.Shape()
	l := Layout{In: []Dim{{Name: Register}, {Name: Lane}, {Name: Warp}, {Name: Block}}}
	for d, n := range shape {
		l.Out = append(l.Out, OutDim{DimName(d), n})
	}
	for d, n := range shape {
		if _, ok := log2(n); !ok {
			return Layout{}, fail(eSize, "", "there is no linear form: dimension %d has size %d, which is not a power of two", d, n)
		}
	}
	spatial, local := r.Digits()
	basesOf := func(digits []layout.Digit, what string) ([][]int, error) {
		var bases [][]int
		for i := len(digits) - 1; i >= 0; i-- {
			g := digits[i]
			n, ok := log2(g.Size)
			if !ok {
				return nil, fail(eSize, "", "there is no linear form: a digit of the %s number has size %d, which is not a power of two", what, g.Size)
			}
			for k := range n {
				b := make([]int, len(shape))
				if g.Dim >= 0 {
					b[g.Dim] = g.Stride << k
				}
				bases = append(bases, b)
			}
		}
		return bases, nil
	}
	threads, err := basesOf(spatial, "thread")
	if err != nil {
		return Layout{}, err
	}
	if l.In[0].Bases, err = basesOf(local, "slot"); err != nil {
		return Layout{}, err
	}
	cut := min(laneBits, len(threads))
	l.In[1].Bases, l.In[2].Bases = threads[:cut], threads[cut:]
	return New(l.In, l.Out)
}

// DimName is Triton's name of a dimension of a tensor.
func DimName(d int) string { return fmt.Sprintf("dim%d", d) }

// kind sorts input dimensions by what they count. Thread dimensions are ranked
// from the fastest.
func kind(name string) (thread bool, rank int, ok bool) {
	switch name {
	case Register, "reg", "R", "slot", "value", "V":
		return false, 0, true
	case Lane, "thread", "T", "L":
		return true, 0, true
	case Warp, "W":
		return true, 1, true
	case "warpgroup", "wave":
		return true, 2, true
	case Block, "B":
		return true, 3, true
	}
	return false, 0, false
}

// TritonNames gives the dimensions the names that Triton has for them: R, T, W and
// the like become register, lane and warp, the output dimensions dim0, dim1, …, and
// dimensions that are missing are added with size 1. It fails where a dimension
// counts something else.
func (l Layout) TritonNames() (Layout, error) {
	names := []string{Register, Lane, Warp, Block}
	if _, ok := l.InDim(Offset); ok {
		names = []string{Offset, Block}
	}
	out := Layout{In: make([]Dim, len(names)), Out: slices.Clone(l.Out)}
	for i, name := range names {
		out.In[i].Name = name
	}
	for _, d := range l.In {
		name := d.Name
		if thread, rank, ok := kind(name); ok {
			name = map[int]string{0: Lane, 1: Warp, 3: Block}[rank]
			if !thread {
				name = Register
			}
		}
		i := slices.Index(names, name)
		if i < 0 && len(d.Bases) == 0 {
			continue
		}
		if i < 0 {
			return Layout{}, fail(eEncoding, "", "Triton's encodings map registers, lanes, warps and blocks, or offsets; the layout maps %s", d.Name)
		}
		if len(out.In[i].Bases) > 0 {
			return Layout{}, fail(eEncoding, "", "two dimensions count the same as %s", d.Name)
		}
		out.In[i].Bases = d.Bases
	}
	for j := range out.Out {
		out.Out[j].Name = DimName(j)
	}
	return New(out.In, out.Out)
}

// ToRegister is a linear layout as a register layout; registers become slots, and
// lanes, warps and blocks, in this order from the fastest, become threads. The
// error says which basis no digit can express. It undoes [FromRegister].
func ToRegister(l Layout) (layout.Layout, error) {
	no := func(format string, args ...any) (layout.Layout, error) {
		return layout.Layout{}, fail(eRegister, "", "there is no register layout of digits: "+format, args...)
	}
	type threads struct {
		rank int
		dim  Dim
	}
	var spatial []threads
	var local [][]int
	registers := ""
	for _, d := range l.In {
		thread, rank, ok := kind(d.Name)
		if !ok && len(d.Bases) > 0 {
			return no("%s counts neither registers nor threads", d.Name)
		}
		if thread {
			if slices.ContainsFunc(spatial, func(t threads) bool { return t.rank == rank }) {
				return no("two dimensions count the same as %s", d.Name)
			}
			spatial = append(spatial, threads{rank, d})
			continue
		}
		if ok && registers != "" {
			return no("%s and %s both count registers", registers, d.Name)
		}
		if ok {
			registers, local = d.Name, d.Bases
		}
	}
	slices.SortFunc(spatial, func(a, b threads) int { return cmp.Compare(a.rank, b.rank) })

	// One mode for each bit of the index, numbered from the outermost.
	shape := l.Shape()
	var modes []int
	first := make([]int, len(shape))
	for d, n := range shape {
		first[d] = len(modes) + width(n) - 1 // of bit 0
		for range width(n) {
			modes = append(modes, 2)
		}
	}
	holder := make([]string, len(modes))
	mode := func(name string, k int, b []int) (int, error) {
		found := -1
		for d, v := range b {
			if v == 0 {
				continue
			}
			n, ok := log2(v)
			if !ok || found >= 0 {
				return 0, fail(eRegister, "a swizzle has no chain form", "there is no register layout of digits: %s=%d -> (%s) flips several bits of the index", name, 1<<k, join(b))
			}
			found = first[d] - n
		}
		if found < 0 {
			return -1, nil
		}
		who := fmt.Sprintf("%s=%d", name, 1<<k)
		if holder[found] != "" {
			return 0, fail(eRegister, "", "there is no register layout of digits: %s and %s flip the same bit of the index", holder[found], who)
		}
		holder[found] = who
		return found, nil
	}
	var spatialModes, localModes []int
	for _, t := range spatial {
		for k, b := range t.dim.Bases {
			m, err := mode(t.dim.Name, k, b)
			if err != nil {
				return layout.Layout{}, err
			}
			if m < 0 {
				m = -2
			}
			spatialModes = append(spatialModes, m)
		}
	}
	for k, b := range local {
		m, err := mode(registers, k, b)
		if err != nil {
			return layout.Layout{}, err
		}
		if m < 0 {
			return no("%s=%d replicates within a thread, and slots cannot", registers, 1<<k)
		}
		localModes = append(localModes, m)
	}
	for d, n := range shape {
		for k := range width(n) {
			if holder[first[d]-k] == "" {
				return no("no place holds an index with bit %d of %s", 1<<k, l.Out[d].Name)
			}
		}
	}
	slices.Reverse(spatialModes)
	slices.Reverse(localModes)
	return layout.New(shape, modes, spatialModes, localModes)
}
