package lower

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/shared"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// copyAsync gives each thread pieces of the tile of up to 16 bytes that lie
// together on both sides. Where bounds or alignment allow less than 4 bytes at a
// time, which cp.async cannot copy, threads load and store them.
func copyAsync(l *lowerer, in *ir.Instr) {
	src, dst := in.In[0].Var(), in.In[1].Var()
	s := l.env.get(dst).shared
	lay := l.copyLayout(in, src.Type, dst.Type)
	a := l.locate(in, ir.RegisterOf(dst.Type.Elem, lay))
	all := make([]int, len(s.Dims))
	for d := range all {
		all[d] = d
	}
	p := &shared.Part{View: s, Dims: all, From: make([]int, len(all)), Rest: make([]code.Value, len(all)), Apart: slices.Repeat([]bool{true}, len(all))}
	x := l.finder.Place(l.Thread, p, lay)
	var owner code.Value // holds in the threads that copy
	if n := lay.Threads(); n < l.threads.Size {
		owner = l.Op(code.OpSetpU32, []int64{int64(code.LT)}, l.ID, l.Const32(int64(n)))
	}
	for _, gr := range l.groups(a) {
		var from code.Value
		for _, r := range gr.runs {
			if !a.whole(r) {
				l.refuse(in.Pos, "Lower.E9", "elements of %d bits that lie one after the other in both tensors do not fill whole bytes", s.Width)
				return
			}
			if from == 0 {
				from = l.address(a, gr.base)
			}
			var inside code.Value // everywhere, if the program says so
			if in.Attr("bounds") == nil {
				inside = l.guard(a, r.slots[0])
			}
			for i := 0; i < len(r.slots); {
				n := 1 // slots that follow each other in shared memory too
				for i+n < len(r.slots) && x.Follows(r.slots[i:i+n], r.slots[i+n]) {
					n++
				}
				piece := copyPiece{slots: r.slots[i : i+n], delta: r.delta + i, from: from, inside: inside, owner: owner}
				if !l.copyRun(in, a, x, piece) {
					return
				}
				i += n
			}
		}
	}
}

// copyPiece is a run of slots that lie together on both sides.
type copyPiece struct {
	slots         []int
	delta         int // elements from the base to the first, in global memory
	from          code.Value
	inside, owner code.Value // predicates; 0 is true
}

func (l *lowerer) copyRun(in *ir.Instr, a *access, x *shared.Places, p copyPiece) bool {
	n := len(p.slots) * a.width
	left := affine.GCD(a.align, int64(p.delta)) * int64(a.width)
	right := x.AlignOf(p.slots[0])
	to, offset := x.Of(shared.Run{Slots: p.slots})
	for pos := 0; pos < n; {
		w := min(thread.ChunkBits(left, pos, n), thread.ChunkBits(right, pos, n))
		source, target := int64((p.delta*a.width+pos)/8), offset+int64(pos/8)
		switch {
		case w == 0:
			l.refuse(in.Pos, "Lower.E9", "elements of %d bits do not fill whole bytes", a.width)
			return false
		case w >= 32:
			size := l.Const32(int64(w / 8))
			if p.inside != 0 {
				size = l.Op(code.OpSelp32, nil, size, l.Const32(0), p.inside)
			}
			op := map[int]code.Op{32: code.OpCpAsyncB32, 64: code.OpCpAsyncB64, 128: code.OpCpAsyncL2B128}[w]
			if w == 128 {
				op = copyOp(in)
			}
			l.Guard(p.owner, op, []int64{target, source, int64(a.hints & prefetches)}, nil, to, p.from, size)
		default:
			zero := l.Const32(0)
			if w == 16 {
				zero = l.Const16(0)
			}
			v := l.Guard(l.Both(p.owner, p.inside), loadOps[w], []int64{source, 0}, []code.Value{zero}, p.from)[0]
			l.Guard(p.owner, sharedStores[w], []int64{target}, nil, to, v)
		}
		pos += w
	}
	return true
}

// prefetches are the hints that an asynchronous copy has besides its op.
const prefetches = code.L2Prefetch64 | code.L2Prefetch128 | code.L2Prefetch256

// copyOp is the copy of 16 bytes that goes the way through the caches that a CopyAsync
// asks for.
func copyOp(in *ir.Instr) code.Op {
	if in.Attr("keep") != nil {
		return code.OpCpAsyncB128
	}
	return code.OpCpAsyncL2B128
}

// copyLayout spreads a tile over the threads: pieces that one access can copy, side
// by side along the dimension that is contiguous in global memory. It has at most as
// many threads as run.
func (l *lowerer) copyLayout(in *ir.Instr, src, dst ir.Type) layout.Layout {
	shape, _ := dst.Dims()
	rank := len(src.Shape)
	width := dst.Elem.Bits()
	along := slices.Index(in.Dims(rank, len(shape)), rank-1)
	piece := 1
	if along >= 0 {
		offset, extent := in.Attr("offset").Exprs[rank-1], src.Shape[rank-1]
		g := l.facts.Divisor(offset)
		if rank > 1 || !l.facts.Inside(offset, 0, int64(shape[along]-1), extent) {
			g = affine.GCD(g, l.facts.Divisor(extent))
		}
		modes := ir.SharedModes(dst.Shared)[along]
		w := dst.Shared.Swizzle()
		for n := 128 / width; n > 1; n-- {
			if n*width%8 == 0 && g%int64(n) == 0 && shape[along]%n == 0 && len(modes) > 0 && modes[len(modes)-1].Stride == 1 && modes[len(modes)-1].Size%n == 0 &&
				(w.Identity() || (1<<w.Base)%n == 0) && thread.ChunkBits(int64(n*width), 0, n*width) == n*width {
				piece = n
				break
			}
		}
	} else {
		along = len(shape) - 1
	}
	if along < 0 {
		return layout.Local()
	}
	// For sub-byte elements that never fill a power of two, whole bytes at least.
	if piece == 1 && width < 8 {
		for n := 8; n > 1; n /= 2 {
			if n*width%8 == 0 && shape[along]%n == 0 {
				piece = n
			}
		}
	}
	left := l.threads.Size
	across := make([]int, len(shape)) // threads along each dimension
	order := []int{along}
	for d := len(shape) - 1; d >= 0; d-- {
		if d != along {
			order = append(order, d)
		}
	}
	for _, d := range order {
		n := shape[d]
		if d == along {
			n /= piece
		}
		for across[d] = min(n, left); n%across[d] != 0; {
			across[d]--
		}
		left /= across[d]
	}
	var modes, spatial, local []int
	mode := make([]int, len(shape)) // the first of each dimension
	for d, n := range shape {
		mode[d] = len(modes)
		if d == along {
			modes = append(modes, n/piece/across[d], across[d], piece)
		} else {
			modes = append(modes, n/across[d], across[d])
		}
	}
	slices.Reverse(order)
	for _, d := range order {
		spatial, local = append(spatial, mode[d]+1), append(local, mode[d])
	}
	lay, err := layout.New(shape, modes, spatial, append(local, mode[along]+2))
	if err != nil {
		panic(err)
	}
	return lay
}

func copyAsyncCommitGroup(l *lowerer, _ *ir.Instr) { l.Op(code.OpCpAsyncCommit, nil) }

func copyAsyncWaitGroup(l *lowerer, in *ir.Instr) {
	l.Op(code.OpCpAsyncWait, []int64{int64(in.Attr("n").Number)})
}

func copyAsyncWaitAll(l *lowerer, _ *ir.Instr) { l.Op(code.OpCpAsyncWaitAll, nil) }
