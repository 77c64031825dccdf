package probe

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// BankForm is an instruction whose wavefronts are measured, with the accesses.
type BankForm struct {
	Name     string // "load 16", "ldmatrix.x4"
	Op       code.Op
	Patterns []BankPattern // the first is free of conflicts, the second has the most
}

// BankPattern is one access.
type BankPattern struct {
	Name   string
	Access bank.Access
}

// BankResult is one pattern measured. Wavefronts of an access are its cycles over the
// cycles that a wavefront takes on this form.
type BankResult struct {
	Name      string
	Predicted int     // by gpu/model/bank
	Cycles    float64 // of an access, all warps of the processor together
	Measured  float64 // wavefronts
}

// Equal says whether the measured number rounds to the predicted one.
func (r BankResult) Equal() bool { return int(math.Round(r.Measured)) == r.Predicted }

// BankRun is one form measured on a machine.
type BankRun struct {
	Form    string
	Cycles  float64 // of a wavefront, from the pattern with most conflicts
	Results []BankResult
}

// Shape of the measurement. All warps of one block make the same accesses, so that
// shared memory and not the issue of instructions is what limits them. Each pattern is
// measured with two numbers of rounds, and their difference counts: what happens once,
// before and after, drops out.
const (
	bankWarps    = 16
	bankUnroll   = 64 // accesses in a round, each a line of banks further
	bankTrials   = 6  // of each number of rounds; the fastest counts
	bankFew      = 2  // rounds
	bankMany     = 6
	bankReach    = 16 << 10 // bytes that patterns lie in
	bankBytes    = bankReach + bankUnroll*128 + bankWarps*32*4
	bankReadings = 2 * bankTrials * bankWarps * 2
)

// BankForms lists what is measured; sm is the compute capability times ten.
func BankForms(sm int) []BankForm {
	rnd := rand.New(rand.NewPCG(32, 4))
	var forms []BankForm
	add := func(name string, op code.Op, kind bank.Kind, width, matrices int) {
		if int(op.Row().Since) > sm {
			return
		}
		f := BankForm{Name: name, Op: op}
		lanes := 32
		if matrices > 0 {
			lanes = 8 * matrices
		}
		put := func(name string, at func(lane int) int) {
			a := bank.Access{Kind: kind, Width: width, Matrices: matrices, Addrs: make([]int, lanes)}
			for l := range a.Addrs {
				a.Addrs[l] = at(l)
			}
			f.Patterns = append(f.Patterns, BankPattern{name, a})
		}
		patternsOf(put, width, lanes, rnd)
		forms = append(forms, f)
	}
	for _, x := range []struct {
		width   int
		ld, st_ code.Op
	}{
		{1, code.OpLdSharedB8, code.OpStSharedB8}, {2, code.OpLdSharedB16, code.OpStSharedB16}, {4, code.OpLdSharedB32, code.OpStSharedB32},
		{8, code.OpLdSharedV2B32, code.OpStSharedV2B32}, {16, code.OpLdSharedV4B32, code.OpStSharedV4B32},
	} {
		add(fmt.Sprintf("load %d", x.width), x.ld, bank.Load, x.width, 0)
		add(fmt.Sprintf("store %d", x.width), x.st_, bank.Store, x.width, 0)
	}
	for _, x := range []struct {
		n       int
		ld, st_ code.Op
	}{{1, code.OpLdMatrixX1, code.OpStMatrixX1}, {2, code.OpLdMatrixX2, code.OpStMatrixX2}, {4, code.OpLdMatrixX4, code.OpStMatrixX4}} {
		add(fmt.Sprintf("ldmatrix.x%d", x.n), x.ld, bank.LdMatrix, 16, x.n)
		add(fmt.Sprintf("stmatrix.x%d", x.n), x.st_, bank.StMatrix, 16, x.n)
	}
	return forms
}

// patternsOf makes the accesses of a form: strides with and without padding, rows and
// columns of tiles with and without swizzles, shared addresses, random addresses. The
// first has no conflict, the second has the most.
func patternsOf(put func(string, func(lane int) int), width, lanes int, rnd *rand.Rand) {
	clip := func(a int) int { return a % bankReach / width * width }
	stride := func(s int) { put(fmt.Sprintf("stride %d", s), func(l int) int { return clip(l * s) }) }
	stride(width)
	stride(128)
	for _, k := range []int{2, 3, 4, 5, 6, 8, 9, 12, 16, 17, 24, 31, 33} {
		if s := k * width; s != 128 && s*(lanes-1) < bankReach {
			stride(s)
		}
	}
	if width < 4 {
		stride(64)
		stride(132)
	}
	same := func(name string, at func(l int) int) { put(name, func(l int) int { return clip(at(l)) }) }
	same("one address", func(int) int { return 256 })
	same("two addresses, lanes alternate", func(l int) int { return l % 2 * 128 })
	same("two addresses, by half warps", func(l int) int { return l / 16 * 128 })
	same("neighbours share, stride 128", func(l int) int { return l / 2 * 128 })
	same("lanes n and n+2 share, stride 128", func(l int) int { return (l&1 | l>>2<<1) * 128 })
	same("neighbours share, dense", func(l int) int { return l / 2 * width })
	same("four rows", func(l int) int { return l%4*128 + l/4*width })
	same("eight rows", func(l int) int { return l%8*128 + l/8*width })
	same("backwards", func(l int) int { return (lanes - 1 - l) * width })
	for _, sw := range []layout.Swizzle{{Bits: 1, Base: 4, Shift: 3}, {Bits: 2, Base: 4, Shift: 3}, {Bits: 3, Base: 4, Shift: 3}, {Bits: 3, Base: 4, Shift: 4}, {Bits: 2, Base: 5, Shift: 2}, {Bits: 5, Base: 2, Shift: 5}} {
		if 1<<sw.Base < width {
			continue
		}
		for _, row := range []int{64, 128, 256} {
			same(fmt.Sprintf("column of rows of %d bytes under %s", row, sw), func(l int) int { return sw.Apply(l * row) })
		}
	}
	for k := range 12 {
		span := 256 << (k % 6) // from two lines of banks to 64
		addrs := make([]int, lanes)
		for l := range addrs {
			addrs[l] = rnd.IntN(span/width) * width
		}
		put(fmt.Sprintf("random in %d bytes, %d", span, k/6), func(l int) int { return addrs[l] })
	}
}

// Func is the function that measures the form's patterns. Its buffers are the table of
// addresses [pattern][lane], a zero that the compiler does not know, and the readings
// of the clock [pattern][trial][warp][begin, end]; trials alternate between few and
// many rounds.
func (f BankForm) Func() (*code.Func, [][]byte) {
	m := newMaker(f.Op)
	fn := m.Func()
	fn.Launch.Block, fn.Launch.SharedBytes = bankWarps*32, bankBytes
	table := make([]uint64, 32*len(f.Patterns))
	for p, pat := range f.Patterns {
		for l := range 32 {
			// The lanes that ldmatrix does not ask repeat those that it does.
			table[32*p+l] = uint64(pat.Access.Addrs[l%len(pat.Access.Addrs)])
		}
	}
	from, _ := m.buffer(column(code.B32, table))
	zeros, _ := m.buffer(make([]byte, 4))
	readings, _ := m.buffer(make([]byte, 4*bankReadings*len(f.Patterns)))

	c := func(n int) code.Value { return m.Const32(int64(n)) }
	lane, warp, base := m.LaneID(), m.WarpID(), m.SharedBase()
	zero := m.load(code.B32, zeros, 0)
	slot := m.Add32(base, m.Mad32(m.TidX(), c(4), c(bankReach+bankUnroll*128)))
	first := m.SetpU32(code.EQ, lane, c(0))
	barrier := func() { m.Emit(code.OpBarSync, []int64{0}) }
	clock := func() code.Value { return m.raw(code.OpClock, nil, 0)[0] }

	m.For(c(0), c(len(f.Patterns)), c(1), 1, nil, func(p code.Value, _ []code.Value) []code.Value {
		addr := m.Add32(base, m.load(code.B32, m.at(from, m.Mad32(p, c(32), lane), 4), 0))
		m.For(c(0), c(2*bankTrials), c(1), 1, nil, func(trial code.Value, _ []code.Value) []code.Value {
			rounds := m.Mad32(m.And32(trial, c(1)), c(bankMany-bankFew), c(bankFew))
			barrier()
			begin := clock()
			// The addresses follow from the clock, so that no access is made before.
			start := m.Add32(addr, m.And32(begin, zero))
			sum := m.For(c(0), rounds, c(1), 1, []code.Value{lane}, func(i code.Value, acc []code.Value) []code.Value {
				// They follow from the round too, so that none is made once for all.
				return []code.Value{f.round(m, m.Mad32(i, zero, start), i, acc[0])}
			})
			// The sum is stored before the barrier, so that all was loaded before the end.
			m.StShared(4, slot, 0, sum[0])
			barrier()
			end := clock()
			at := m.at(readings, m.Mad32(m.Mad32(p, c(2*bankTrials), trial), c(bankWarps), warp), 8)
			for k, v := range []code.Value{begin, end} {
				m.raw(code.OpStGlobalB32, []int64{int64(4 * k), 0}, first, at, v)
			}
			return nil
		})
		return nil
	})
	done := m.done(f.Name, 1)
	return done.Func, done.Bufs
}

// round makes the accesses of a round from address at, and gives acc with what was
// loaded.
func (f BankForm) round(m *maker, at, i, acc code.Value) code.Value {
	row := f.Op.Row()
	if row.Class == code.Store {
		in := []code.Value{at}
		for _, t := range row.In[1:] {
			v := m.Xor32(i, acc)
			if t == code.B16 {
				v = m.Trunc16(v)
			}
			in = append(in, v)
		}
		for k := range bankUnroll {
			m.raw(f.Op, []int64{int64(128 * k)}, 0, in...)
		}
		return acc
	}
	for k := range bankUnroll {
		for _, v := range m.raw(f.Op, []int64{int64(128 * k)}, 0, at) {
			if m.Func().Type(v) == code.B16 {
				v = m.Zext16(v)
			}
			acc = m.Xor32(acc, v)
		}
	}
	return acc
}

// MeasureBanks runs the function of a form, counts wavefronts, and predicts them for
// shared memory of a profile.
func MeasureBanks(ctx context.Context, m Machine, p bank.Profile, f BankForm) (BankRun, error) {
	fn, bufs := f.Func()
	if err := m.Run(ctx, fn, [3]int{1, 1, 1}, bufs); err != nil {
		return BankRun{}, fmt.Errorf("probe: banks, %s: %w", f.Name, err)
	}
	return f.analyse(p, bufs[2])
}

// analyse turns readings of the clock into wavefronts.
func (f BankForm) analyse(profile bank.Profile, readings []byte) (BankRun, error) {
	run := BankRun{Form: f.Name}
	for p, pat := range f.Patterns {
		predicted, err := bank.Count(profile, pat.Access)
		if err != nil {
			return run, fmt.Errorf("probe: banks, %s, %s: %w", f.Name, pat.Name, err)
		}
		var fastest [2]uint32
		for trial := range 2 * bankTrials {
			t, err := elapsed(readings, p*2*bankTrials+trial)
			if err != nil {
				return run, fmt.Errorf("probe: banks, %s, %s: %w", f.Name, pat.Name, err)
			}
			if n := &fastest[trial%2]; trial < 2 || t < *n {
				*n = t
			}
		}
		accesses := float64((bankMany - bankFew) * bankUnroll * bankWarps)
		run.Results = append(run.Results, BankResult{Name: pat.Name, Predicted: predicted.Wavefronts,
			Cycles: (float64(fastest[1]) - float64(fastest[0])) / accesses})
	}
	most := run.Results[1]
	run.Cycles = most.Cycles / float64(most.Predicted)
	if run.Cycles <= 0 {
		return run, fmt.Errorf("probe: banks, %s: the clock did not advance with the accesses", f.Name)
	}
	for i := range run.Results {
		run.Results[i].Measured = run.Results[i].Cycles / run.Cycles
	}
	return run, nil
}

// elapsed is the time from the first warp's begin to the last warp's end.
func elapsed(readings []byte, trial int) (uint32, error) {
	at := func(warp, k int) uint32 {
		return binary.LittleEndian.Uint32(readings[4*((trial*bankWarps+warp)*2+k):])
	}
	origin := at(0, 0)
	var ends []int32 // of begins and ends, relative to the origin: the clock wraps
	begin := int32(0)
	for w := range bankWarps {
		begin = min(begin, int32(at(w, 0)-origin))
		ends = append(ends, int32(at(w, 1)-origin))
	}
	last := slices.Max(ends)
	if last <= begin {
		return 0, fmt.Errorf("a measurement ends %d cycles before it begins", begin-last)
	}
	return uint32(last - begin), nil
}

// hash names a form, its patterns and what the model says of them.
func (f BankForm) hash() string {
	h := sha256.New()
	fmt.Fprintln(h, f.Name, Hash(f.Op.Row()))
	for _, p := range f.Patterns {
		r, err := bank.Count(bank.Nvidia(), p.Access)
		fmt.Fprintln(h, p.Name, p.Access.Addrs, r.Degrees(), err)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:12])
}
