package cute

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// TV says who owns the elements of a tile.
type TV struct {
	Layout Layout // (thread, value) → element, column-major in the tile
	MN     Layout // element → thread + value · threads
	Tile   Tuple  // shape of the tile
}

// MakeLayoutTV makes the layout of threads and values from where threads stand in
// a tile and how the values of one thread do: both map coordinates to numbers.
// The tile is threads times values in every mode; the values of a thread are
// neighbours.
func MakeLayoutTV(threads, values Layout) (tv TV, err error) {
	defer catch(&err)
	for _, l := range []Layout{threads, values} {
		if RightInverse(l).Size() != l.Size() || l.Cosize() != l.Size() {
			fail(eInverse, "number threads and values from 0, each once", "%s does not number its %d places from 0 to %d", l, l.Size(), l.Size()-1)
		}
	}
	mn := zipProduct(threads, values, 1, 0)
	tv.MN, tv.Tile = mn, mn.Shape().each()
	tv.Layout = compose(RightInverse(mn), compact(Ints(threads.Size(), values.Size())))
	return tv, nil
}

// MMA is a matrix instruction: the lanes of a group, and the elements that each
// holds, as (thread, value) → element of column-major A [M, K], B [N, K] and C
// [M, N].
type MMA struct {
	M, N, K int
	ThrID   Layout // number in the group → lane
	A, B, C Layout
}

// UniversalFMA is the product of one element by one thread.
func UniversalFMA() MMA {
	one := Layout{Ints(1, 1), Ints(0, 0)}
	return MMA{M: 1, N: 1, K: 1, A: one, B: one, C: one}
}

// TiledMMA spreads an instruction over threads and values.
type TiledMMA struct {
	Atom    MMA
	Threads Layout    // (V, M, N, K) → thread
	perm    [3]Layout // what a tile takes of M, N and K
}

// NewTiledMMA repeats an instruction over groups of threads as atoms says, a
// layout of up to three modes M, N, K. tile says what the product takes of each
// of M, N, K, in which order; nil or modes that it leaves alone are as large as
// the groups need.
func NewTiledMMA(atom MMA, atoms Layout, tile []Tiler) (m TiledMMA, err error) {
	defer catch(&err)
	if atoms.Rank() > 3 || len(tile) > 3 {
		fail(eProfile, "", "a product has the three modes M, N and K")
	}
	m.Atom = atom
	m.Threads = tiledProduct(atom.ThrID, LayoutTiler(padded(atoms, 3)))
	for i, n := range [3]int{atom.M, atom.N, atom.K} {
		least := times(n, m.Threads.Mode(i+1).Size())
		m.perm[i] = compact(Int(least))
		if i < len(tile) && !tile[i].keep {
			if tile[i].modes != nil {
				fail(eProfile, "", "a mode of the product is tiled by a layout, not by %s", tile[i])
			}
			if s := tile[i].layout.Size(); s%least != 0 {
				fail(eTile, "choose a multiple", "the tile takes %d of mode %d, but the groups of threads need multiples of %d", s, i, least)
			}
			m.perm[i] = tile[i].layout
		}
	}
	return m, nil
}

// Tile is the shape (M, N, K) of the product.
func (m TiledMMA) Tile() Tuple {
	return Ints(m.perm[0].Size(), m.perm[1].Size(), m.perm[2].Size())
}

// LayoutTV is (thread, value) → element of the tile of operand "A", "B" or "C",
// column-major in (M, K), (N, K) or (M, N).
func (m TiledMMA) LayoutTV(operand string) (l Layout, err error) {
	defer catch(&err)
	size := [3]int{m.Atom.M, m.Atom.N, m.Atom.K}
	var i, j int
	var atom Layout
	keep := KeepMode()
	broadcast := keep // (V, (i, j)) → (V, (M, N, K)): the group that does not matter
	two := func(a, b int) Tiler {
		groups := makeLayout(Ints(m.Threads.Mode(1).Size(), m.Threads.Mode(2).Size()), Ints(a, b))
		return ByMode(keep, ByMode(LayoutTiler(groups), keep))
	}
	switch operand {
	case "A":
		i, j, atom, broadcast = 0, 2, m.Atom.A, two(1, 0)
	case "B":
		i, j, atom, broadcast = 1, 2, m.Atom.B, two(0, 1)
	case "C":
		i, j, atom = 0, 1, m.Atom.C
	default:
		fail(eArgs, "", "a product has the operands A, B and C, not %s", operand)
	}
	ref := compact(Ints(m.perm[i].Size(), m.perm[j].Size()))
	t := divide(ref, ByMode(LayoutTiler(m.perm[i]), LayoutTiler(m.perm[j])))
	t = zippedDivide(t, ByMode(shapeTiler(Int(size[i])), shapeTiler(Int(size[j]))))
	t = ByMode(LayoutTiler(atom), keep).apply(t, true, compose)
	t = zippedDivide(t, ByMode(keep, ByMode(shapeTiler(Int(m.Threads.Mode(i+1).Size())), shapeTiler(Int(m.Threads.Mode(j+1).Size())))))
	t = ByMode(broadcast, keep).apply(t, true, compose)
	all := join(m.Threads, complement(m.Threads, Int(Filter(m.Threads).Cosize())))
	group := compose(makeLayout(Ints(m.Threads.Size(), 1), Ints(1, 0)), RightInverse(all))
	return ByMode(LayoutTiler(group), keep).apply(t, true, compose), nil
}

// Copy is a copy instruction: (thread, value) → element for what each thread
// addresses, what it ends with, and the numbering that both refer to.
type Copy struct {
	ThrID         Layout
	Src, Dst, Ref Layout
}

// InElements is a copy that is given in bits, counted in elements of some bits.
func (c Copy) InElements(bits int) (out Copy, err error) {
	out.ThrID = c.ThrID
	for _, x := range []struct{ to, from *Layout }{{&out.Src, &c.Src}, {&out.Dst, &c.Dst}, {&out.Ref, &c.Ref}} {
		if *x.to, err = Upcast(*x.from, bits); err != nil {
			return Copy{}, err
		}
	}
	return out, nil
}

// TiledCopy spreads a copy instruction over threads and values.
type TiledCopy struct {
	Atom Copy   // in elements
	TV   Layout // (thread, value) → element of the tile, column-major
	Tile Tuple  // shape
}

// NewTiledCopy checks that the threads and values are multiples of those of the
// instruction.
func NewTiledCopy(atom Copy, tv Layout, tile Tuple) (c TiledCopy, err error) {
	defer catch(&err)
	checkShape(tile)
	if tv.Rank() != 2 || atom.Ref.Rank() != 2 {
		fail(eProfile, "", "(thread, value) layouts have two modes, %s has %d", tv, tv.Rank())
	}
	for i, what := range []string{"threads", "values"} {
		if n, k := tv.Mode(i).Size(), atom.Ref.Mode(i).Size(); n%k != 0 {
			fail(eTile, "", "%d %s are no multiple of the %d of the instruction", n, what, k)
		}
	}
	return TiledCopy{atom, tv, tile}, nil
}

// Partition splits a layout of the rank of the tile: ((thread), value, rest).
// side is "S" for what is read, "D" for what is written.
func (c TiledCopy) Partition(l Layout, side string) (out Layout, err error) {
	defer catch(&err)
	target := c.Atom.Src
	switch side {
	case "S":
	case "D":
		target = c.Atom.Dst
	default:
		fail(eArgs, "", "a copy has the sides S and D, not %s", side)
	}
	tiles := zippedDivide(l, shapeTiler(c.Tile))
	keep := KeepMode()
	atom := zippedDivide(c.TV, ByMode(shapeTiler(Int(c.Atom.Ref.Mode(0).Size())), shapeTiler(Int(c.Atom.Ref.Mode(1).Size()))))
	atom = ByMode(LayoutTiler(compose(RightInverse(c.Atom.Ref), target)), keep).apply(atom, true, compose)
	a, b := atom.Mode(0), atom.Mode(1)
	both := join(join(a.Mode(0), b.Mode(0)), join(a.Mode(1), b.Mode(1)))
	both = coalesceBy(both, Of(Int(1), Ints(1, 1)))
	return open(ByMode(LayoutTiler(both), keep).apply(tiles, true, compose), 0), nil
}

// Identity is the layout of a shape that gives every coordinate itself.
func Identity(shape Tuple) (l Layout, err error) {
	defer catch(&err)
	checkShape(shape)
	var walk func(t Tuple, path []int) Tuple
	walk = func(t Tuple, path []int) Tuple {
		if t.IsInt() {
			if len(path) == 0 {
				return Int(1)
			}
			mode := slices.Clone(path)
			slices.Reverse(mode)
			return Tuple{n: 1, basis: mode}
		}
		out := make([]Tuple, len(t.items))
		for i, x := range t.items {
			out[i] = walk(x, append(path, i))
		}
		return Of(out...)
	}
	return makeLayout(shape, walk(shape, nil)), nil
}

// sharedBits is the width of an element type by the name that we or CuTe have for it:
// the number in u8, tf32, f6e3m2 or uint4_t, or that of a name that has none.
func sharedBits(typ string) (bits int, ok bool) {
	name := strings.TrimSuffix(strings.TrimPrefix(typ, "float_"), "_t")
	switch name {
	case "e2m1":
		return 4, true
	case "e2m3", "e3m2":
		return 6, true
	case "e4m3", "e5m2", "ue4m3", "ue8m0":
		return 8, true
	case "half":
		return 16, true
	case "float":
		return 32, true
	case "double":
		return 64, true
	}
	var exp, man int
	if n, _ := fmt.Sscanf(name, "f%de%dm%d", &bits, &exp, &man); n == 3 {
		return bits, name == fmt.Sprintf("f%de%dm%d", 1+exp+man, exp, man)
	}
	kind := strings.TrimRight(strings.TrimSuffix(name, "b"), "0123456789")
	if !slices.Contains([]string{"b", "u", "s", "i", "f", "bf", "tf", "uint", "int", "bfloat", "tfloat"}, kind) {
		return 0, false
	}
	bits, err := strconv.Atoi(strings.TrimSuffix(name[len(kind):], "b"))
	return bits, err == nil && bits > 0
}

// SharedAtom is a layout of shared memory that wgmma and TMA agree on, by CuTe's
// name: "GMMA::Layout_K_SW128_Atom<f16>" has rows of 128 bytes along K, and
// "GMMA::Layout_MN_INTER_Atom<u8>" rows of 16 bytes along M or N, not swizzled.
// CuTe defines atoms in bits and recasts them, so they exist for every element of
// which 128 bits hold a whole number, also where no instruction multiplies it, and
// for no other.
//
// Source: NVIDIA/cutlass, include/cute/atom/mma_traits_sm90_gmma.hpp, for SW128_32B mma_traits_sm100.hpp.
func SharedAtom(name string) (c Composed, err error) {
	defer catch(&err)
	rest, gmma := strings.CutPrefix(name, "GMMA::Layout_")
	rest, umma := strings.CutPrefix(rest, "UMMA::Layout_")
	rest, ok := strings.CutSuffix(rest, ">")
	kind, typ, found := strings.Cut(rest, "_Atom<")
	major, width, cut := strings.Cut(kind, "_")
	if gmma == umma || !ok || !found || !cut {
		fail(eName, "", "%q is no shared-memory atom; an example is GMMA::Layout_K_SW128_Atom<f16>", name)
	}
	bits, ok := sharedBits(typ)
	if !ok {
		fail(eName, "write its kind and its width, as in u8, bf16, e4m3 or f64", "%q is no element type", typ)
	}
	if 128%bits != 0 {
		fail(eRecast, "write the type that they are stored in, as u8 for elements of 6 bits", "a shared-memory atom counts rows of 128 bits, which hold no whole number of elements of %d bits", bits)
	}
	if umma && major == "MN" && width == "SW128_32B" {
		return Composed{Swizzle: layout.Swizzle{Bits: 2, Base: 5, Shift: 2}, Layout: makeLayout(Ints(1024/bits, 4), Ints(1, 1024/bits)), Bits: bits}, nil
	}
	b := slices.Index([]string{"INTER", "SW32", "SW64", "SW128"}, width)
	if b < 0 {
		fail(eName, diag.DidYouMean(width, []string{"INTER", "SW32", "SW64", "SW128"}), "%q is none of INTER, SW32, SW64, SW128", width)
	}
	row := 128 << b / bits
	switch major {
	case "K":
		c.Layout = makeLayout(Ints(8, row), Ints(row, 1))
	case "MN":
		c.Layout = makeLayout(Ints(row, 8), Ints(1, row))
	default:
		fail(eName, "", "%q is neither K nor MN", major)
	}
	c.Swizzle = layout.Swizzle{Bits: b, Base: 4, Shift: 3}
	c.Bits = bits
	return c, nil
}

// SharedAtoms names those of the element types that wgmma multiplies, by width.
func SharedAtoms() []string {
	var out []string
	for _, major := range []string{"K", "MN"} {
		for b := range 4 {
			width := "INTER"
			if b > 0 {
				width = "SW" + strconv.Itoa(16<<b)
			}
			for _, t := range []string{"u8", "f16", "f32"} {
				out = append(out, "GMMA::Layout_"+major+"_"+width+"_Atom<"+t+">")
			}
		}
	}
	return out
}
