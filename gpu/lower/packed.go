package lower

import (
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// packedAdds are the sums in global memory of 1, 2 and 4 words by one instruction that
// gives no result: two halves each, or an f32.
var packedAdds = map[dtype.Type]map[int]code.Op{
	dtype.F16:  {32: code.OpRedGlobalAddF16x2, 64: code.OpRedGlobalAddF16x2V2, 128: code.OpRedGlobalAddF16x2V4},
	dtype.BF16: {32: code.OpRedGlobalAddBF16x2, 64: code.OpRedGlobalAddBF16x2V2, 128: code.OpRedGlobalAddBF16x2V4},
	dtype.F32:  {64: code.OpRedGlobalAddF32V2, 128: code.OpRedGlobalAddF32V4},
}

// packedAdd adds what lies side by side in a run, as wide as the target can, where
// nobody asks what stood there. It reports which of the run's slots it did.
func (l *lowerer) packedAdd(in *ir.Instr, a *access, base code.Value, r run, on code.Value) []bool {
	done := make([]bool, len(r.slots))
	v := in.In[1].Var()
	ops, op := packedAdds[v.Type.Elem], in.Attr("op").Word
	if len(in.Out) > 0 || ops == nil || op != "add" && op != "sub" {
		return done
	}
	words := l.env.get(v).words
	for pos, n := 0, len(r.slots)*a.width; pos < n; {
		w := thread.ChunkBits(a.runAlign(r), pos, n)
		for w > a.width && (ops[w] == 0 || ops[w].Row().Since > l.level()) {
			w /= 2
		}
		if w <= a.width {
			pos += a.width
			continue
		}
		first := pos / a.width
		data := l.Assemble(w/a.width, a.width, func(i int) thread.Field {
			return thread.Field{Words: words, Pos: r.slots[first+i] * a.width}
		})
		args := []code.Value{base}
		for _, x := range data {
			if op == "sub" {
				sign := map[int]int64{16: 0x80008000, 32: 1 << 31}[a.width]
				x = l.Op(code.OpXor32, nil, x, l.Const32(sign))
			}
			args = append(args, x)
		}
		l.Guard(on, ops[w], []int64{int64((r.delta*a.width + pos) / 8)}, nil, args...)
		for i := range w / a.width {
			done[first+i] = true
		}
		pos += w
	}
	return done
}
