package linear

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Encoding is the layout as an encoding of Triton's MLIR for a tensor of its
// shape: the plainest of [Layout.EncodedAs], or the bases of [Layout.Attr] where
// there is none. [ParseTriton] with the layout's shape reads it back. The layout
// must have dimensions as Triton names them.
func (l Layout) Encoding() string {
	for text := range l.encodings() {
		return text
	}
	return l.Attr()
}

// EncodedAs lists blocked, matrix-product and shared-memory encodings that give
// exactly this layout, the plainest first. One map often has several: the
// accumulator of a single m16n8k16 product is a blocked layout too.
func (l Layout) EncodedAs() []string { return slices.Collect(l.encodings()) }

func (l Layout) encodings() iter.Seq[string] {
	return func(yield func(string) bool) {
		for j, o := range l.Out {
			if o.Name != DimName(j) {
				return
			}
		}
		for _, text := range l.candidates() {
			if m, err := ParseTriton(text, l.Shape()); err == nil && m.SameMap(l) && !yield(text) {
				return
			}
		}
	}
}

// steps reports whether these lanes may be those of a matrix product: three of them
// in a row step by 1, 2 and 4 along one dimension, or stand still where the tensor
// ends before that.
func (l Layout) steps(lanes [][]int) bool {
	for k := 0; k+3 <= len(lanes); k++ {
		for j := range l.Out {
			fits := true
			for i, b := range lanes[k : k+3] {
				for d, x := range b {
					want := 0
					if d == j && 1<<i < l.Out[j].Size {
						want = 1 << i
					}
					fits = fits && x == want
				}
			}
			if fits {
				return true
			}
		}
	}
	return false
}

// candidates are encodings that the layout may be, the plainest first. Whether
// one is, the caller checks.
func (l Layout) candidates() []string {
	if d, ok := l.InDim(Offset); ok {
		return l.sharedCandidates(d)
	}
	regs, _ := l.InDim(Register)
	lanes, _ := l.InDim(Lane)
	warps, _ := l.InDim(Warp)
	rank := len(l.Out)
	if rank == 0 {
		return nil
	}
	var out []string
	for _, order := range permutations(rank) {
		size := make([]int, rank)
		for j := range size {
			// Registers come before lanes and warps in a dimension.
			size[j] = l.Out[j].Size
			for _, b := range append(slices.Clone(lanes.Bases), warps.Bases...) {
				if b[j] > 0 {
					size[j] = min(size[j], b[j])
				}
			}
			if size[j] == l.Out[j].Size { // no thread counts here: what the registers start with
				size[j] = 1
				for k, b := range regs.Bases {
					if b[j] == size[j] && l.run(regs.Bases[:k+1], order, j) {
						size[j] *= 2
					}
				}
			}
		}
		out = append(out, fmt.Sprintf("#ttg.blocked<{sizePerThread = [%s], threadsPerWarp = [%s], warpsPerCTA = [%s], order = [%s]}>",
			join(size), join(spread(lanes, rank, order)), join(spread(warps, rank, order)), join(order)))
	}
	if rank != 2 || len(regs.Bases) == 0 || !l.steps(lanes.Bases) {
		return out
	}
	for i := range len(warps.Bases) + 1 {
		share := fmt.Sprintf("[%d, %d]", 1<<i, 1<<(len(warps.Bases)-i))
		nvidia, cdna := len(lanes.Bases) == 5, len(lanes.Bases) == 6 // lanes of a warp
		v2 := "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = " + share + ", instrShape = [16, 8]}>"
		var mmas []string
		if nvidia {
			mmas = append(mmas, v2)
		}
		for n := 8; n <= 256 && nvidia && len(warps.Bases) >= 2; n *= 2 {
			mmas = append(mmas, fmt.Sprintf("#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = %s, instrShape = [16, %d, 16]}>", share, n))
		}
		out = append(out, mmas...)
		for kw := 2; kw <= 16 && nvidia; kw *= 2 {
			for op := range 2 {
				out = append(out, fmt.Sprintf("#ttg.dot_op<{opIdx = %d, parent = %s, kWidth = %d}>", op, v2, kw))
			}
		}
		for _, n := range []int{32, 16} {
			for _, transposed := range []bool{false, true} {
				if !cdna {
					continue
				}
				mfma := fmt.Sprintf("#ttg.amd_mfma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = %s, instrShape = [%d, %d], isTransposed = %t}>", share, n, n, transposed)
				out = append(out, mfma)
				for kw := 4; kw <= 16 && !transposed; kw *= 2 {
					for op := range 2 {
						out = append(out, fmt.Sprintf("#ttg.dot_op<{opIdx = %d, parent = %s, kWidth = %d}>", op, mfma, kw))
					}
				}
			}
		}
		for version := 1; version <= 2 && nvidia; version++ {
			for _, transposed := range []bool{false, true} {
				wmma := fmt.Sprintf("#ttg.amd_wmma<{version = %d, warpsPerCTA = %s, isTransposed = %t}>", version, share, transposed)
				out = append(out, wmma)
				for kw := 8; kw <= 16 && !transposed; kw *= 2 {
					for op := range 2 {
						out = append(out, fmt.Sprintf("#ttg.dot_op<{opIdx = %d, parent = %s, kWidth = %d}>", op, wmma, kw))
					}
				}
			}
		}
	}
	return out
}

// run reports whether these register bases only touch dimensions up to j in this
// order.
func (l Layout) run(bases [][]int, order []int, j int) bool {
	upTo := order[:slices.Index(order, j)+1]
	for _, b := range bases {
		for d, v := range b {
			if v != 0 && !slices.Contains(upTo, d) {
				return false
			}
		}
	}
	return true
}

// spread counts the places of an input dimension along each output dimension;
// places that only replicate are counted along the slowest one.
func spread(d Dim, rank int, order []int) []int {
	n := make([]int, rank)
	for j := range n {
		n[j] = 1
	}
	for _, b := range d.Bases {
		at := order[rank-1]
		for j, v := range b {
			if v != 0 {
				at = j
			}
		}
		n[at] *= 2
	}
	return n
}

// permutations of the dimensions, the last dimension fastest first.
func permutations(rank int) [][]int {
	if rank > 4 {
		return [][]int{rowMajor(rank)}
	}
	var out [][]int
	var walk func(done, left []int)
	walk = func(done, left []int) {
		if len(left) == 0 {
			out = append(out, slices.Clone(done))
		}
		for i, d := range left {
			walk(append(done, d), slices.Delete(slices.Clone(left), i, i+1))
		}
	}
	walk(nil, rowMajor(rank))
	return out
}

func (l Layout) sharedCandidates(d Dim) []string {
	rank := len(l.Out)
	if rank == 0 {
		return nil
	}
	var out []string
	for _, order := range permutations(rank) {
		vec, perPhase, maxPhase := 1, 1, 1
		if rank > 1 {
			for _, b := range d.Bases {
				if col, row := b[order[0]], b[order[1]]; row != 0 && col != 0 {
					if maxPhase == 1 {
						vec, perPhase = col, row
					}
					maxPhase *= 2
				}
			}
		}
		out = append(out, fmt.Sprintf("#ttg.swizzled_shared<{vec = %d, perPhase = %d, maxPhase = %d, order = [%s]}>", vec, perPhase, maxPhase, join(order)))
	}
	if rank != 2 {
		return out
	}
	for _, bytes := range []int{128, 64, 32, 0} {
		for _, bits := range []int{16, 8, 32, 64} {
			for _, transposed := range []bool{false, true} {
				out = append(out, fmt.Sprintf("#ttg.nvmma_shared<{swizzlingByteWidth = %d, transposed = %t, elementBitWidth = %d}>", bytes, transposed, bits))
			}
		}
	}
	return out
}

// Encodings names the encodings that [ParseTriton] knows, in alphabetical order.
func Encodings() []string {
	var names []string
	for n := range encodings {
		names = append(names, n)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
