package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// gemm is D[64, 64] = A[64, K] · B[64, K]ᵀ of f16 in one block: warp 4 brings tiles of
// 64 columns through a ring of two stages, warps 0 to 3 multiply. mistake leaves
// something out.
func gemm(mistake string) *code.Func {
	const k, stages, tile = 256, 2, 64 * 64 * 2
	b := code.NewBuilder("gemm")
	line := func(n int) { b.At(diag.Pos{File: "gemm.tile", Line: n, Col: 1}) }
	line(1)
	b.Param(code.Param{Name: "a", Kind: code.Pointer, Type: code.B64, Elem: "f16", ReadOnly: true})
	b.Param(code.Param{Name: "b", Kind: code.Pointer, Type: code.B64, Elem: "f16", ReadOnly: true})
	d := b.Pointer("d", "f32")
	var maps [2]code.Value
	for i, n := range []string{"a", "b"} {
		maps[i] = b.Param(code.Param{Name: "map_" + n, Kind: code.Tensor, Type: code.B64, Map: &code.TensorMap{Base: n, Type: code.MapF16,
			Dims: []affine.Expr{affine.Const(k), affine.Const(64)}, Strides: []affine.Expr{affine.Const(2 * k)}, Box: []int{64, 64}, Swizzle: code.Swizzle128B}})
	}
	const bars = 2 * stages * tile
	b.Func().Launch = code.Launch{Block: 160, SharedBytes: bars + 64}
	base := b.SharedBase()
	bar := func(stage code.Value, empty int) code.Value {
		return b.Add32(b.Add32(base, b.Const32(int64(bars+16*empty))), b.Shl32(stage, b.Const32(3)))
	}
	tid := b.TidX()
	warp := b.Shr32(tid, b.Const32(5))
	line(2)
	b.If(b.SetpU32(code.EQ, tid, b.Const32(0)), func() []code.Value {
		for s := range stages {
			full := int64(1)
			if mistake == "count" {
				full = 2
			}
			b.Emit(code.OpMbarInit, []int64{int64(bars + 8*s)}, base, b.Const32(full))
			b.Emit(code.OpMbarInit, []int64{int64(bars + 16 + 8*s)}, base, b.Const32(4))
		}
		if mistake != "init fence" {
			b.Emit(code.OpFenceMbarInit, nil)
		}
		return nil
	}, nil)
	if mistake != "init sync" {
		b.BarSync()
	}
	b.If(b.SetpU32(code.EQ, warp, b.Const32(4)), func() []code.Value {
		line(10)
		one := b.Emit1(code.OpElectSync, nil)
		b.If(one, func() []code.Value {
			b.For(b.Const32(0), b.Const32(k/64), b.Const32(1), 1, nil, func(i code.Value, _ []code.Value) []code.Value {
				line(11)
				stage := b.And32(i, b.Const32(1))
				turn := b.And32(b.Shr32(i, b.Const32(1)), b.Const32(1))
				parity := b.Xor32(turn, b.Const32(1))
				if mistake == "producer parity" {
					parity = turn
				}
				if mistake != "empty wait" {
					b.Emit(code.OpMbarWaitParity, []int64{0}, bar(stage, 1), parity)
				}
				line(12)
				bytes := int64(2 * tile)
				if mistake == "few bytes" {
					bytes = tile
				} else if mistake == "many bytes" {
					bytes = 3 * tile
				}
				full := bar(stage, 0)
				b.Emit(code.OpMbarArriveExpectTx, []int64{0}, full, b.Const32(bytes))
				line(13)
				for o := range 2 {
					dst := b.Add32(b.Add32(base, b.Const32(int64(o*stages*tile))), b.Mul32(stage, b.Const32(tile)))
					op, err := code.TensorCopy(2, "load")
					if err != nil {
						panic(err)
					}
					b.Emit(op, []int64{0, 0}, dst, maps[o], full, b.Shl32(i, b.Const32(6)), b.Const32(0))
				}
				return nil
			})
			return nil
		}, nil)
		return nil
	}, func() []code.Value {
		line(20)
		op, err := code.WGMMA(dtype.F32, dtype.F16, dtype.F16, 64, false, false)
		if err != nil {
			panic(err)
		}
		var acc []code.Value
		for range 32 {
			acc = append(acc, b.Const32(0))
		}
		acc = b.For(b.Const32(0), b.Const32(k/64), b.Const32(1), 1, acc, func(i code.Value, acc []code.Value) []code.Value {
			line(21)
			stage := b.And32(i, b.Const32(1))
			parity := b.And32(b.Shr32(i, b.Const32(1)), b.Const32(1))
			if mistake == "consumer parity" {
				parity = b.Xor32(parity, b.Const32(1))
			}
			if mistake != "full wait" {
				b.Emit(code.OpMbarWaitParity, []int64{0}, bar(stage, 0), parity)
			}
			line(22)
			if mistake != "fence" {
				b.Emit(code.OpWgmmaFence, nil)
			}
			line(23)
			for step := range 4 {
				desc := func(o int) code.Value {
					at := b.Add32(b.Add32(base, b.Const32(int64(o*stages*tile+32*step))), b.Mul32(stage, b.Const32(tile)))
					word, err := bank.Descriptor{Leading: 16, Stride: 1024, Mode: "128B"}.Encode(bank.SM90)
					if err != nil {
						panic(err)
					}
					return b.Emit1(code.OpOr64, nil, b.Zext32(b.Shr32(at, b.Const32(4))), b.Const64(int64(word)))
				}
				acc = b.Emit(op, []int64{1, 1, 0, 0}, append([]code.Value{desc(0), desc(1), b.Const(code.Pred, 1)}, acc...)...)
			}
			line(24)
			if mistake != "commit" {
				b.Emit(code.OpWgmmaCommit, nil)
			}
			if mistake == "early release" {
				b.If(b.SetpU32(code.EQ, b.LaneID(), b.Const32(0)), func() []code.Value {
					b.Emit(code.OpMbarArrive, []int64{0}, bar(stage, 1))
					return nil
				}, nil)
			}
			line(25)
			if mistake == "early read" {
				acc = slices.Clone(acc)
				acc[0] = b.Emit1(code.OpAddF32, nil, acc[0], acc[1])
			}
			acc = b.Emit(code.OpWgmmaWait, []int64{0}, acc...)
			line(26)
			if mistake != "release" && mistake != "early release" {
				b.If(b.SetpU32(code.EQ, b.LaneID(), b.Const32(0)), func() []code.Value {
					b.Emit(code.OpMbarArrive, []int64{0}, bar(stage, 1))
					return nil
				}, nil)
			}
			return acc
		})
		line(30)
		lane := b.LaneID()
		row := b.Add32(b.Mul32(warp, b.Const32(16)), b.Shr32(lane, b.Const32(2)))
		col := b.Shl32(b.And32(lane, b.Const32(3)), b.Const32(1))
		at := b.Add64(d, b.MulWideU(b.Mad32(row, b.Const32(64), col), b.Const32(4)))
		for j := range 8 {
			for h := range 2 {
				b.StGlobalV(at, 32*j+h*8*256, 0, acc[4*j+2*h], acc[4*j+2*h+1])
			}
		}
		return nil
	})
	f, err := b.Done()
	if err != nil {
		panic(err)
	}
	return f
}

func runGemm(f *code.Func, o Options) ([]byte, error) {
	const k = 256
	args := make([]Arg, 3)
	for i := range 2 {
		args[i].Buffer = make([]byte, 64*k*2)
		for e := range 64 * k {
			binary.LittleEndian.PutUint16(args[i].Buffer[2*e:], uint16(dtype.F16.Encode(float64((e*7+e/64*3+i)%9-4), false)))
		}
	}
	args[2].Buffer = make([]byte, 64*64*4)
	o.MaxSteps = 1 << 20
	_, err := Run(context.Background(), f, Launch{Args: args}, o)
	if err != nil {
		return nil, err
	}
	for r := range 64 {
		for c := range 64 {
			want := 0.0
			for e := range k {
				want += dtype.F16.Decode(uint64(binary.LittleEndian.Uint16(args[0].Buffer[2*(r*k+e):]))) * dtype.F16.Decode(uint64(binary.LittleEndian.Uint16(args[1].Buffer[2*(c*k+e):])))
			}
			if got := math.Float32frombits(binary.LittleEndian.Uint32(args[2].Buffer[4*(r*64+c):])); float64(got) != want {
				return nil, fmt.Errorf("[%d, %d] is %v, must be %v", r, c, got, want)
			}
		}
	}
	return args[2].Buffer, nil
}

func TestProductPipeline(t *testing.T) {
	for _, o := range []Options{{}, {Fast: true}, {Seed: 1}, {Seed: 2}} {
		if _, err := runGemm(gemm(""), o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestProductMistakes leaves one thing out of the pipeline and looks where it is found.
func TestProductMistakes(t *testing.T) {
	for _, c := range []struct {
		mistake, code string
		line          int
	}{
		{"count", errDeadlock, 21},
		{"init fence", errProxy, 13},
		{"init sync", errBarrier, 21},
		{"producer parity", errDeadlock, 21},
		{"empty wait", errCount, 12},
		{"few bytes", errAsync, 23},
		{"many bytes", errDeadlock, 21},
		{"consumer parity", errUnset, 23},
		{"full wait", errUnset, 23},
		{"fence", errProduct, 23},
		{"commit", errFlight, 25},
		{"early release", errRace, 13},
		{"early read", errFlight, 25},
		{"release", errDeadlock, 11},
	} {
		_, err := runGemm(gemm(c.mistake), Options{})
		if err == nil {
			t.Errorf("%s: not found", c.mistake)
			continue
		}
		t.Logf("%s: %v", c.mistake, err)
		if !strings.Contains(err.Error(), "["+c.code+"]") || !strings.Contains(err.Error(), fmt.Sprintf("gemm.tile:%d:", c.line)) {
			t.Errorf("%s: must be %s in line %d", c.mistake, c.code, c.line)
		}
	}
}
