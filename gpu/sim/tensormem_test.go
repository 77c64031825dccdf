package sim

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// blackwell is D[128, 64] = A[128, 64] · B[64, 64]ᵀ of f16 in tensor memory.
func blackwell(mistake string) *small {
	const a, b, bars = 0, 128 * 64 * 2, 128*64*2 + 64*64*2
	s := newSmall(128, bars+64, [3]int{})
	row := func(name string) code.Op {
		op, err := code.Lookup("tcgen05." + name)
		if err != nil {
			panic(err)
		}
		return op
	}
	s.Param(code.Param{Name: "a", Kind: code.Pointer, Type: code.B64, Elem: "f16", ReadOnly: true})
	s.Param(code.Param{Name: "b", Kind: code.Pointer, Type: code.B64, Elem: "f16", ReadOnly: true})
	d := s.Pointer("d", "f32")
	tensor := func(name string, rows int64) code.Value {
		return s.Param(code.Param{Name: "map_" + name, Kind: code.Tensor, Type: code.B64, Map: &code.TensorMap{Base: name, Type: code.MapF16,
			Dims: []affine.Expr{affine.Const(64), affine.Const(rows)}, Strides: []affine.Expr{affine.Const(128)}, Box: []int{64, int(rows)}, Swizzle: code.Swizzle128B}})
	}
	ma, mb := tensor("a", 128), tensor("b", 64)
	full, done, place := []int64{bars}, []int64{bars + 8}, int64(bars+16)
	s.one(func() {
		s.do(code.OpMbarInit, full, s.base, s.n(1))
		s.do(code.OpMbarInit, done, s.base, s.n(1))
		s.do(code.OpFenceMbarInit, nil)
	})
	warp := s.Shr32(s.tid, s.n(5))
	s.line(2)
	s.If(s.SetpU32(code.EQ, warp, s.n(0)), func() []code.Value {
		s.do(row("alloc"), []int64{place}, s.base, s.n(64))
		if mistake != "permit" {
			s.do(row("relinquish_alloc_permit"), nil)
		}
		return nil
	}, nil)
	s.BarSync()
	at := s.LdShared(4, s.base, int(place))
	s.line(3)
	s.one(func() {
		s.do(code.OpMbarArriveExpectTx, full, s.base, s.n(bars))
		load, err := code.TensorCopy(2, "load")
		if err != nil {
			panic(err)
		}
		s.do(load, []int64{a, bars}, s.base, ma, s.base, s.n(0), s.n(0))
		s.do(load, []int64{b, bars}, s.base, mb, s.base, s.n(0), s.n(0))
		if mistake != "full wait" {
			s.do(code.OpMbarWaitParity, full, s.base, s.n(0))
		}
		s.line(4)
		for step := range 4 {
			desc := func(from int) code.Value {
				word, err := bank.Descriptor{Leading: 16, Stride: 1024, Mode: "128B"}.Encode(bank.SM100)
				if err != nil {
					panic(err)
				}
				return s.Add64(s.Zext32(s.Shr32(s.Add32(s.base, s.n(int64(from+32*step))), s.n(4))), s.Const64(int64(word)))
			}
			idesc := int64(1<<4 | 8<<17 | 8<<24)
			if mistake == "descriptor" {
				idesc = 3<<4 | 8<<17 | 8<<24
			}
			add := uint64(min(step, 1))
			if mistake == "first" {
				add = 1
			}
			s.do(row("mma.ss.f16"), nil, at, desc(a), desc(b), s.n(idesc), s.Const(code.Pred, add))
		}
		s.line(5)
		if mistake != "commit" {
			s.do(row("commit"), done, s.base)
		}
	})
	s.line(6)
	s.do(code.OpBarWarp, nil)
	if mistake == "rewrite" {
		s.BarSync()
		s.StShared(4, s.Add32(s.base, s.Shl32(s.tid, s.n(2))), 0, s.tid)
	}
	if mistake == "done wait" {
		s.BarSync()
	} else {
		s.do(code.OpMbarWaitParity, done, s.base, s.n(0))
	}
	s.do(row("fence::after_thread_sync"), nil)
	s.line(7)
	from := s.Add32(at, s.Shl32(warp, s.n(21)))
	if mistake == "quarter" {
		from = at
	}
	v := s.do(row("ld.32x32b.x64"), nil, from)
	if mistake != "load wait" {
		v = s.do(row("wait::ld"), nil, v...)
	}
	s.line(8)
	to := s.Add64(d, s.MulWideU(s.tid, s.n(256)))
	for k, x := range v {
		s.StGlobal(4, to, 4*k, 0, x)
	}
	s.line(9)
	s.BarSync()
	if mistake != "dealloc" {
		s.If(s.SetpU32(code.EQ, warp, s.n(0)), func() []code.Value {
			s.do(row("dealloc"), nil, at, s.n(64))
			return nil
		}, nil)
	}
	return s
}

func TestTensorMemory(t *testing.T) {
	args := []Arg{{Buffer: make([]byte, 128*64*2)}, {Buffer: make([]byte, 64*64*2)}, {Buffer: make([]byte, 128*64*4)}}
	for i := range 2 {
		for k := range len(args[i].Buffer) / 2 {
			binary.LittleEndian.PutUint16(args[i].Buffer[2*k:], uint16(dtype.F16.Encode(float64((k*5+k/64*3+i)%7-3), false)))
		}
	}
	checkMistakes(t, blackwell, func() Launch { return Launch{Args: args} }, map[string]string{
		"": "", "full wait": "Sim.E11 4", "commit": "Sim.E7 6", "done wait": "Sim.E11 7", "load wait": "Sim.E16 8", "dealloc": "Sim.E17 2", "quarter": "Sim.E1 7",
		"first": "Sim.E11 4", "descriptor": "Sim.E17 4", "rewrite": "Sim.E16 6",
	})
	at := func(b []byte, k int) float64 { return dtype.F16.Decode(uint64(binary.LittleEndian.Uint16(b[2*k:]))) }
	for r := range 128 {
		for c := range 64 {
			want := 0.0
			for k := range 64 {
				want += at(args[0].Buffer, 64*r+k) * at(args[1].Buffer, 64*c+k)
			}
			if got := math.Float32frombits(binary.LittleEndian.Uint32(args[2].Buffer[4*(64*r+c):])); float64(got) != want {
				t.Fatalf("[%d, %d] is %v, must be %v", r, c, got, want)
			}
		}
	}
}
