package sim

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// small is a function under construction whose instructions are numbered as lines.
type small struct {
	*code.Builder
	base, tid code.Value
}

func newSmall(threads, shared int, cluster [3]int) *small {
	s := &small{Builder: code.NewBuilder("small")}
	s.line(1)
	s.Func().Launch = code.Launch{Block: threads, SharedBytes: shared, Cluster: cluster}
	s.base, s.tid = s.SharedBase(), s.TidX()
	return s
}

func (s *small) line(n int) { s.At(diag.Pos{File: "small.tile", Line: n, Col: 1}) }

func (s *small) do(op code.Op, imm []int64, in ...code.Value) []code.Value {
	return s.Emit(op, imm, in...)
}

func (s *small) n(v int64) code.Value { return s.Const32(v) }

// one runs body in thread 0.
func (s *small) one(body func()) {
	s.If(s.SetpU32(code.EQ, s.tid, s.n(0)), func() []code.Value {
		body()
		return nil
	}, nil)
}

func (s *small) meet() {
	s.do(code.OpClusterArrive, nil)
	s.do(code.OpClusterWait, nil)
}

// mistakes are functions with one thing left out each; "" is right.
func checkMistakes(t *testing.T, build func(mistake string) *small, launch func() Launch, cases map[string]string) {
	t.Helper()
	for mistake, want := range cases {
		f, err := build(mistake).Done()
		if err != nil {
			t.Fatalf("%s: %v", mistake, err)
		}
		for _, seed := range []uint64{0, 1} {
			_, err = Run(context.Background(), f, launch(), Options{MaxSteps: 1 << 16, Seed: seed})
			got := ""
			if err != nil {
				e := err.Error()
				got = strings.TrimPrefix(e[strings.Index(e, "[Sim."):][:strings.Index(e[strings.Index(e, "[Sim."):], "]")], "[") + " " + strings.Split(e, ":")[1]
			}
			if got != want {
				t.Errorf("%q, seed %d: got %q, want %q: %v", mistake, seed, got, want, err)
			}
		}
	}
}

// storing writes a tile with ordinary stores, copies it out, and writes it again.
func storing(mistake string) *small {
	s := newSmall(64, 4096, [3]int{})
	out := s.Pointer("out", "f32")
	_ = out
	m := s.Param(code.Param{Name: "map", Kind: code.Tensor, Type: code.B64, Map: &code.TensorMap{Base: "out", Type: code.MapF32, Dims: []affine.Expr{affine.Const(32), affine.Const(16)}, Strides: []affine.Expr{affine.Const(128)}, Box: []int{32, 8}, Swizzle: code.Swizzle128B}})
	at := s.Add32(s.base, s.Shl32(s.tid, s.n(4)))
	op, err := code.TensorCopy(2, "store")
	if err != nil {
		panic(err)
	}
	for round := range 2 {
		s.line(10*round + 2)
		s.StSharedV(at, 0, s.tid, s.tid, s.tid, s.n(int64(round)))
		if mistake != "fence" {
			s.do(code.OpFenceProxyAsyncShared, nil)
		}
		if mistake != "barrier" {
			s.BarSync()
		}
		s.line(10*round + 3)
		s.one(func() {
			s.do(op, []int64{0}, m, s.base, s.n(0), s.n(int64(8*round)))
			if mistake != "commit" {
				s.do(code.OpBulkCommit, nil)
			}
			s.line(10*round + 4)
			if mistake != "wait" && !(mistake == "last wait" && round == 1) {
				s.do(code.OpBulkWaitRead, []int64{0})
			}
		})
		if mistake != "after" {
			s.BarSync()
		}
	}
	return s
}

func TestStoreMistakes(t *testing.T) {
	out := make([]byte, 32*16*4)
	checkMistakes(t, storing, func() Launch { return Launch{Args: []Arg{{Buffer: out}}} }, map[string]string{
		"": "", "fence": "Sim.E15 3", "barrier": "Sim.E5 3", "wait": "Sim.E16 12", "commit": "Sim.E16 12", "last wait": "Sim.E11 13", "after": "Sim.E16 12",
	})
	if bytes.Count(out, []byte{0}) == len(out) {
		t.Error("nothing was stored")
	}
}

// sharing reads the other block's shared memory.
func sharing(mistake string) *small {
	s := newSmall(32, 256, [3]int{2, 1, 1})
	out := s.Pointer("out", "u32")
	rank := s.do(code.OpClusterCtaRank, nil)[0]
	slot := s.Add32(s.base, s.Shl32(s.tid, s.n(2)))
	s.line(2)
	s.StShared(4, slot, 0, s.Add32(s.Mul32(rank, s.n(100)), s.tid))
	other := s.Xor32(rank, s.n(1))
	if mistake == "rank" {
		other = s.Add32(rank, s.n(1))
	}
	if mistake == "first" {
		s.BarSync()
	} else if mistake == "relaxed" {
		s.do(code.OpClusterArriveRelaxed, nil)
		s.do(code.OpClusterWait, nil)
	} else if mistake == "no arrival" {
		s.do(code.OpClusterWait, nil)
	} else {
		s.meet()
	}
	s.line(3)
	theirs := s.do(code.OpMapa, nil, slot, other)[0]
	s.line(4)
	var v code.Value
	if mistake == "plain" {
		v = s.LdShared(4, theirs, 0)
	} else {
		v = s.do(code.OpLdClusterB32, []int64{0}, theirs)[0]
	}
	s.line(5)
	if mistake != "last" {
		s.meet()
	}
	s.line(6)
	s.StGlobal(4, s.Add64(out, s.MulWideU(s.Add32(s.Mul32(s.CtaidX(), s.n(32)), s.tid), s.n(4))), 0, 0, v)
	return s
}

func TestClusterMistakes(t *testing.T) {
	out := make([]byte, 4*32*4)
	checkMistakes(t, sharing, func() Launch { return Launch{Grid: [3]int{4, 1, 1}, Args: []Arg{{Buffer: out}}} }, map[string]string{
		"": "", "first": "Sim.E5 4", "relaxed": "Sim.E5 4", "no arrival": "Sim.E7 2", "rank": "Sim.E1 3", "plain": "Sim.E1 4", "last": "Sim.E5 4",
	})
	for b := range 4 {
		if got := out[4*(32*b+5)]; int(got) != 100*(1-b%2)+5 {
			t.Errorf("block %d read %d", b, got)
		}
	}
}

// sending copies to both blocks of a cluster through a ring of one stage, three
// times.
func sending(mistake string) *small {
	const bytes = 1024
	s := newSmall(64, bytes+64, [3]int{2, 1, 1})
	in := s.Param(code.Param{Name: "in", Kind: code.Pointer, Type: code.B64, Elem: "u8", ReadOnly: true})
	out := s.Pointer("out", "u8")
	rank := s.do(code.OpClusterCtaRank, nil)[0]
	full, empty := []int64{bytes}, []int64{bytes + 8}
	warp := s.Shr32(s.tid, s.n(5))
	lane := s.LaneID()
	s.one(func() {
		s.do(code.OpMbarInit, full, s.base, s.n(1))
		count := int64(2)
		if mistake == "empty count" {
			count = 1
		}
		s.do(code.OpMbarInit, empty, s.base, s.n(count))
		s.do(code.OpFenceMbarInit, nil)
	})
	if mistake == "start" {
		s.BarSync()
	} else {
		s.meet()
	}
	s.For(s.n(0), s.n(3), s.n(1), 1, nil, func(i code.Value, _ []code.Value) []code.Value {
		parity := s.And32(i, s.n(1))
		s.If(s.SetpU32(code.EQ, warp, s.n(0)), func() []code.Value {
			s.If(s.SetpU32(code.EQ, lane, s.n(0)), func() []code.Value {
				s.line(10)
				if mistake != "empty wait" {
					s.do(code.OpMbarWaitParityCluster, empty, s.base, s.Xor32(parity, s.n(1)))
				}
				s.line(11)
				if mistake == "expect" {
					s.If(s.SetpU32(code.EQ, rank, s.n(0)), func() []code.Value {
						s.do(code.OpMbarArriveExpectTx, full, s.base, s.n(bytes))
						return nil
					}, nil)
				} else {
					s.do(code.OpMbarArriveExpectTx, full, s.base, s.n(bytes))
				}
				s.line(12) // block 0 sends to both
				s.If(s.SetpU32(code.EQ, rank, s.n(0)), func() []code.Value {
					mask := uint64(3)
					if mistake == "mask" {
						mask = 4
					}
					s.do(code.OpBulkLoadMulticast, []int64{0, 0, bytes}, s.base, s.Add64(in, s.MulWideU(i, s.n(bytes))), s.n(bytes), s.base, s.Const(code.B16, mask))
					return nil
				}, nil)
				return nil
			}, nil)
			return nil
		}, func() []code.Value {
			s.line(20)
			s.do(code.OpMbarWaitParity, full, s.base, parity)
			s.line(21)
			to := s.Add64(out, s.MulWideU(s.Add32(s.Mul32(s.Add32(s.Mul32(i, s.n(2)), rank), s.n(bytes)), s.Shl32(lane, s.n(4))), s.n(1)))
			for k := range 2 {
				s.StGlobalV(to, 512*k, 0, s.LdSharedV(4, s.Add32(s.base, s.Shl32(lane, s.n(4))), 512*k)...)
			}
			s.line(22)
			s.do(code.OpBarWarp, nil)
			s.If(s.SetpU32(code.EQ, lane, s.n(0)), func() []code.Value {
				for r := range 2 {
					to := s.do(code.OpMapa, nil, s.base, s.n(int64(r)))[0]
					if mistake == "own empty" {
						to = s.base
					}
					s.do(code.OpMbarArriveCluster, empty, to)
				}
				return nil
			}, nil)
			return nil
		})
		return nil
	})
	s.line(30)
	if mistake != "end" {
		s.meet()
	}
	return s
}

func TestMulticastMistakes(t *testing.T) {
	in, out := make([]byte, 3*1024), make([]byte, 6*1024)
	for k := range in {
		in[k] = byte(k*7 + k>>8)
	}
	checkMistakes(t, sending, func() Launch { return Launch{Grid: [3]int{2, 1, 1}, Args: []Arg{{Buffer: in}, {Buffer: out}}} }, map[string]string{
		"": "", "start": "Sim.E5 12", "empty wait": "Sim.E14 11", "mask": "Sim.E1 12", "own empty": "Sim.E11 12", "empty count": "Sim.E14 11", "end": "Sim.E5 22", "expect": "Sim.E7 10",
	})
	for i := range 3 {
		for b := range 2 {
			if !bytes.Equal(out[(2*i+b)*1024:][:1024], in[i*1024:][:1024]) {
				t.Errorf("turn %d, block %d", i, b)
			}
		}
	}
}

// odds is one misuse each.
func odds(mistake string) *small {
	s := newSmall(128, 4096, [3]int{})
	s.line(2)
	bar := []int64{0}
	init := func(n int64) { s.do(code.OpMbarInit, bar, s.base, s.n(n)) }
	switch mistake {
	case "no barrier":
		s.one(func() { s.do(code.OpMbarArrive, bar, s.base) })
	case "bytes":
		s.one(func() { init(1); s.StShared(4, s.base, 4, s.tid) })
	case "twice":
		s.one(func() { init(1); init(1) })
	case "after inval":
		s.one(func() { init(1); s.do(code.OpMbarInval, bar, s.base); s.StShared(4, s.base, 4, s.tid) })
	case "too many":
		s.one(func() { init(2); s.do(code.OpMbarArriveCount, bar, s.base, s.n(3)) })
	case "no arrivals":
		s.one(func() { init(0) })
	case "bytes beyond":
		s.one(func() { init(1); s.do(code.OpMbarExpectTx, bar, s.base, s.n(1<<20)) })
	case "no complete":
		s.one(func() { init(1); s.do(code.OpMbarArriveNoComplete, bar, s.base, s.n(1)) })
	case "parity":
		s.one(func() { init(1); s.do(code.OpMbarTestWaitParity, bar, s.base, s.n(2)) })
	case "align":
		s.one(func() { s.do(code.OpMbarInit, []int64{4}, s.base, s.n(1)) })
	case "arrive group":
		s.do(code.OpBarArrive, []int64{1, 128})
	case "twice at cluster":
		s.do(code.OpClusterArrive, nil)
		s.do(code.OpClusterArrive, nil)
	case "elect":
		s.one(func() { s.do(code.OpElectSync, nil) })
	case "descriptor", "lanes", "warps", "partial", "operand":
		s.StSharedV(s.Add32(s.base, s.Shl32(s.tid, s.n(4))), 0, s.n(0), s.n(0), s.n(0), s.n(0))
		s.StSharedV(s.Add32(s.base, s.Shl32(s.tid, s.n(4))), 2048, s.n(0), s.n(0), s.n(0), s.n(0))
		s.do(code.OpFenceProxyAsync, nil)
		s.BarSync()
		op, err := code.WGMMA(dtype.F32, dtype.F16, dtype.F16, 8, false, false)
		if err != nil {
			panic(err)
		}
		word := s.Zext32(s.Shr32(s.base, s.n(4)))
		word = s.Add64(word, s.Const64(8<<16|16<<32))
		if mistake == "descriptor" {
			word = s.Const64(1 << 15)
		}
		b := word
		if mistake == "lanes" {
			b = s.Add64(word, s.Zext32(s.LaneID()))
		} else if mistake == "warps" {
			b = s.Add64(word, s.Zext32(s.Shr32(s.tid, s.n(5))))
		}
		var acc []code.Value
		for range 4 {
			acc = append(acc, s.do(code.OpUndef32, nil)[0])
		}
		product := func() []code.Value {
			s.do(code.OpWgmmaFence, nil)
			d := s.do(op, []int64{1, 1, 0, 0}, append([]code.Value{word, b, s.Const(code.Pred, 0)}, acc...)...)
			s.do(code.OpWgmmaCommit, nil)
			if mistake == "operand" {
				s.line(3)
				s.one(func() { s.StShared(4, s.base, 16, s.tid) })
			}
			s.do(code.OpWgmmaWait, []int64{0}, d...)
			return nil
		}
		if mistake == "partial" {
			s.one(func() { product() })
		} else {
			product()
		}
	}
	return s
}

func TestOddMistakes(t *testing.T) {
	checkMistakes(t, odds, func() Launch { return Launch{} }, map[string]string{
		"no barrier": "Sim.E13 2", "bytes": "Sim.E13 2", "twice": "Sim.E13 2", "after inval": "", "too many": "Sim.E14 2", "no arrivals": "Sim.E14 2", "bytes beyond": "Sim.E14 2",
		"no complete": "Sim.E14 2", "parity": "Sim.E13 2", "align": "Sim.E2 2", "arrive group": "Sim.E7 2", "twice at cluster": "Sim.E7 2", "elect": "Sim.E6 2",
		"descriptor": "Sim.E17 2", "lanes": "Sim.E17 2", "warps": "Sim.E17 2", "partial": "Sim.E6 2", "operand": "Sim.E16 3",
	})
}

// TestLaunchControl has each block take further blocks until there are none: every
// block's work is done once.
func TestLaunchControl(t *testing.T) {
	s := newSmall(32, 64, [3]int{})
	out := s.Pointer("out", "u32")
	bar := []int64{16}
	s.one(func() {
		s.do(code.OpMbarInit, bar, s.base, s.n(1))
		s.do(code.OpFenceMbarInit, nil)
		s.do(code.OpFenceProxyAsync, nil)
	})
	s.BarSync()
	mine := s.Mad32(s.CtaidY(), s.n(4), s.CtaidX())
	s.While([]code.Value{mine, s.n(0), s.n(1)}, func(c []code.Value) code.Value {
		return s.SetpU32(code.NE, c[2], s.n(0))
	}, func(c []code.Value) []code.Value {
		s.one(func() { s.do(code.OpRedGlobalAdd, []int64{0}, s.Add64(out, s.MulWideU(c[0], s.n(4))), s.n(1)) })
		s.BarSync()
		s.do(code.OpFenceProxyAsync, nil)
		s.one(func() {
			s.do(code.OpMbarArriveExpectTx, bar, s.base, s.n(16))
			s.do(code.OpClcTryCancel, []int64{0, 16}, s.base, s.base)
		})
		s.do(code.OpMbarWaitParity, bar, s.base, c[1])
		lo, hi := s.LdShared(8, s.base, 0), s.LdShared(8, s.base, 8)
		more := s.Select(s.do(code.OpClcIsCanceled, nil, lo, hi)[0], s.n(1), s.n(0))
		next := s.Mad32(s.do(code.OpClcFirstY, nil, lo, hi)[0], s.n(4), s.do(code.OpClcFirstX, nil, lo, hi)[0])
		return []code.Value{next, s.Xor32(c[1], s.n(1)), more}
	})
	f, err := s.Done()
	if err != nil {
		t.Fatal(err)
	}
	done := make([]byte, 4*4*5)
	if _, err := Run(context.Background(), f, Launch{Grid: [3]int{4, 5, 1}, Args: []Arg{{Buffer: done}}}, Options{MaxSteps: 1 << 16}); err != nil {
		t.Fatal(err)
	}
	for k := 0; k < len(done); k += 4 {
		if done[k] != 1 {
			t.Errorf("block %d was done %d times", k/4, done[k])
		}
	}
}

// Example of what is said where nothing can go on.
func ExampleRun_deadlock() {
	f, err := sending("expect").Done()
	if err != nil {
		panic(err)
	}
	_, err = Run(context.Background(), f, Launch{Grid: [3]int{2, 1, 1}, Args: []Arg{{Buffer: make([]byte, 3072)}, {Buffer: make([]byte, 6144)}}}, Options{})
	fmt.Println(strings.ReplaceAll(err.Error(), "; ", ";\n"))
	// Output:
	// small.tile:10:1: block (0, 0, 0): mbarrier.wait.parity.cluster: nothing can go on: warp 0 of block rank 0 waits for parity 0 of the barrier at shared offset 1032 (made at small.tile:1:1), which is in phase 0, parity 0: 1 of 2 arrivals and 0 bytes are missing;
	// warp 1 of block rank 0 waits for parity 1 of the barrier at shared offset 1024 (made at small.tile:1:1), which is in phase 1, parity 1: 1 of 1 arrivals and 0 bytes are missing (small.tile:20:1);
	// warp 0 of block rank 1 waits for parity 0 of the barrier at shared offset 1032 (made at small.tile:1:1), which is in phase 0, parity 0: 1 of 2 arrivals and 0 bytes are missing (small.tile:10:1);
	// warp 1 of block rank 1 waits for parity 0 of the barrier at shared offset 1024 (made at small.tile:1:1), which is in phase 0, parity 0: 1 of 1 arrivals are missing, and 1024 bytes have come that nobody expected (small.tile:20:1) [Sim.E7]
	// 	help: count who arrives at each barrier in each phase, and how many bytes come
}
