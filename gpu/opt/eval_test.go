package opt

import (
	"bytes"
	"encoding/binary"
	"math/rand"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// thread runs one thread of a function straight from its regions: no masks, no
// registers, no jumps. The simulator must agree with it.
type thread struct {
	v          []uint64
	mem        []byte
	tid, block uint64
}

func (t *thread) region(r *code.Region) []uint64 {
	for _, in := range r.Instrs {
		t.instr(in)
	}
	return t.get(r.Yield)
}

func (t *thread) get(vals []code.Value) []uint64 {
	out := make([]uint64, len(vals))
	for i, v := range vals {
		out[i] = t.v[v]
	}
	return out
}

func (t *thread) set(vals []code.Value, to []uint64) {
	for i, v := range vals {
		t.v[v] = to[i]
	}
}

func (t *thread) instr(in *code.Instr) {
	args := t.get(in.In)
	if in.Guard != 0 && t.v[in.Guard] == 0 {
		t.set(in.Out, args[len(in.Row().In):])
		return
	}
	switch in.Op {
	case code.OpTidX:
		t.set(in.Out, []uint64{t.tid})
	case code.OpLaneID:
		t.set(in.Out, []uint64{t.tid % 32})
	case code.OpCtaidX:
		t.set(in.Out, []uint64{t.block})
	case code.OpLdGlobalB32:
		t.set(in.Out, []uint64{uint64(binary.LittleEndian.Uint32(t.mem[args[0]+uint64(in.Imm[0]):]))})
	case code.OpStGlobalB32:
		binary.LittleEndian.PutUint32(t.mem[args[0]+uint64(in.Imm[0]):], uint32(args[1]))
	case code.OpIf:
		t.set(in.Out, t.region(in.Regions[1-args[0]]))
	case code.OpFor:
		i, carried := int32(args[0]), args[3:]
		for i < int32(args[1]) {
			t.set(in.Regions[0].Args, append([]uint64{uint64(uint32(i))}, carried...))
			carried = t.region(in.Regions[0])
			i += int32(args[2])
		}
		t.set(in.Out, carried)
	case code.OpWhile:
		carried := args
		for {
			t.set(in.Regions[0].Args, carried)
			if t.region(in.Regions[0])[0] == 0 {
				break
			}
			carried = t.region(in.Regions[1])
		}
		t.set(in.Out, carried)
	default:
		t.set(in.Out, in.Row().Eval(in.Imm, args))
	}
}

// TestSimulatorAgainstThreads compares random functions on the simulator with
// each thread run alone.
func TestSimulatorAgainstThreads(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 60
	}
	for seed := range int64(n) {
		f := draw(1000 + seed)
		got, _ := run(t, f)
		want := make([]byte, len(got))
		rand.New(rand.NewSource(9)).Read(want)
		for block := range uint64(2) {
			for tid := range uint64(64) {
				th := thread{v: make([]uint64, len(f.Types)), mem: want, tid: tid, block: block}
				th.set(f.Body.Args, []uint64{0, 5})
				th.region(f.Body)
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: simulator and threads differ\n%s", seed, code.Format(f))
		}
	}
}
