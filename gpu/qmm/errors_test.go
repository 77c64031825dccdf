package qmm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// inputs are kinds of x on which a product that loses digits of x, or adds up too few of
// them, is found.
var inputs = []struct {
	name string
	at   func(r *rand.Rand, i, k int) float64
}{
	{"normal", func(r *rand.Rand, i, k int) float64 { return r.NormFloat64() }},
	{"an outlier of 30 in each group", func(r *rand.Rand, i, k int) float64 { return outlier(r, k, 32, 30) }},
	{"an outlier of 300 in each 128", func(r *rand.Rand, i, k int) float64 { return outlier(r, k, 128, 300) }},
	{"an outlier of 1000 in a row", func(r *rand.Rand, i, k int) float64 { return outlier(r, k, 1<<20, 1000) }},
	{"numbers of all sizes", func(r *rand.Rand, i, k int) float64 {
		return math.Ldexp(r.NormFloat64(), r.IntN(20)-16)
	}},
	{"subnormal numbers of f16", func(r *rand.Rand, i, k int) float64 { return math.Ldexp(float64(r.IntN(2001)-1000), -24) }},
	{"constant rows", func(r *rand.Rand, i, k int) float64 { return 0.3 + float64(i) }},
	{"a constant beside 1000", func(r *rand.Rand, i, k int) float64 { return 0.3 + 1000*float64((k+1)%97/96) }},
	{"few numbers", func(r *rand.Rand, i, k int) float64 { return r.NormFloat64() * float64((k+1)%50/49) }},
	{"large numbers", func(r *rand.Rand, i, k int) float64 { return 300 * r.NormFloat64() }},
}

func outlier(r *rand.Rand, k, each int, size float64) float64 {
	if k%each == 11 {
		return size
	}
	return r.NormFloat64()
}

// filled is x of a kind of inputs.
func filled(t dtype.Type, kind, m, k int) *array.Array {
	x, r := array.New(t, m, k), rand.New(rand.NewPCG(uint64(kind), 9))
	for i := range m {
		for j := range k {
			x.Set(inputs[kind].at(r, i, j), i, j)
		}
	}
	return x
}

// errorForms are types of each kind of arithmetic, in the four forms of groups, with zero
// points in turn.
func errorForms() []Linear {
	var out []Linear
	for i, w := range []dtype.Type{dtype.U1, dtype.U2, dtype.I2, dtype.U4, dtype.I4, dtype.U3, dtype.I8, dtype.F3E2M0, dtype.F4E2M1, dtype.F6E3M2, dtype.F8E4M3, dtype.F8E1M6} {
		for j, group := range []int{128, 32, 0, 64} {
			l := Linear{WeightType: w, ActType: dtype.F16, Group: group, ScaleType: []dtype.Type{dtype.F16, dtype.BF16, dtype.F8E8M0}[(i+j)%3], N: 35, K: 392}
			if (i+j)%3 == 1 {
				l.ActType = dtype.BF16
			}
			if l.ZeroPoint = w.IsInt() && !w.Signed() && (i+j)%2 == 0; j == 0 {
				l.ActType, l.ScaleType = dtype.F16, dtype.F16
			}
			out = append(out, l)
		}
	}
	return out
}

// holds runs a call and compares its error with that of sums in f32.
func holds(t *testing.T, d device.Device, q *Weights, p *Packed, x *array.Array, what string, c Call) (ratio float64) {
	t.Helper()
	ratio, _ = held(t, d, q, p, x, what, c)
	return ratio
}

// held is holds, and what the call gave.
func held(t *testing.T, d device.Device, q *Weights, p *Packed, x *array.Array, what string, c Call) (ratio float64, y *array.Array) {
	t.Helper()
	ours, theirs, how, y := compare(t, d, q, p, x, what, c)
	if !(ours <= 1.1*theirs) {
		t.Errorf("%s: the error is %.3g, that of f32 sums %.3g", how, ours, theirs)
	}
	if theirs == 0 {
		return 0, y
	}
	return ours / theirs, y
}

// compare runs a call: its error, that of sums in f32, how it came about, and what it gave.
func compare(t *testing.T, d device.Device, q *Weights, p *Packed, x *array.Array, what string, c Call) (ours, theirs float64, how string, y *array.Array) {
	t.Helper()
	res, err := p.Run(context.Background(), d, x, c)
	if err != nil {
		t.Fatalf("%s, %s: %v", p.Linear, what, err)
	}
	exact, single := products(q, x, func(i, j int) float64 { return 0 })
	how = fmt.Sprintf("%s, %d rows of %s, plan %s, %s", p.Linear, x.Shape[0], what, res.Plan, res.Schedule)
	return far(res.Y.Floats(), exact), far(rounded(q.ActType, single), exact), how, res.Y
}

// packed quantises and packs normal weights of a layer; of zero points that may be any, most are not whole.
func packed(t *testing.T, d device.Device, l Linear, seed uint64, prepare func(w *array.Array)) (*Weights, *Packed) {
	t.Helper()
	w := normal(dtype.F32, seed, l.N, l.K)
	if l.WeightType.IsInt() && !l.WeightType.Signed() && !l.ZeroPoint {
		for i := range w.Len() {
			w.SetCode(i, w.Code(i)&^(1<<31)) // none is negative
		}
	}
	if prepare != nil {
		prepare(w)
	}
	q, err := l.Quantize(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; l.AnyZero && i < q.Zeros.Len(); i++ {
		z := q.Zeros.Type.Decode(q.Zeros.Code(i)) + []float64{0, 1. / 16, -0.3}[i%3]
		q.Zeros.SetCode(i, q.Zeros.Type.Encode(z, false))
	}
	p, err := q.Pack(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return q, p
}

// TestErrors holds the plans that products take by themselves, on the simulator, to 1.1 of
// the error of f32 sums, whatever x is like: each kind of x with some forms, each form with
// one and with several rows.
func TestErrors(t *testing.T) { holdForms(t, openDevice(t, "sim")) }

func holdForms(t *testing.T, d device.Device) {
	worst, count := 0.0, 0
	for i, l := range errorForms() {
		if testing.Short() && i%5 != 0 {
			continue
		}
		q, p := packed(t, d, l, uint64(i), nil)
		for j := range 3 {
			kind := (i + 3*j) % len(inputs)
			m := []int{1, 3, 18}[(i/4+j)%3]
			count++
			worst = max(worst, holds(t, d, q, p, filled(l.ActType, kind, m, l.K), inputs[kind].name, Call{}))
			if j == i%3 {
				count++
				worst = max(worst, holds(t, d, q, p, filled(l.ActType, kind, m, l.K), inputs[kind].name, Call{Soon: true}))
			}
		}
	}
	t.Logf("%d products, at most %.3f of the error of f32 sums", count, worst)
}

// TestErrorsOfDigits holds products of one row as digits to the same, all kinds of x, and
// weights that are 0 wherever x is large.
func TestErrorsOfDigits(t *testing.T) { holdDigits(t, openDevice(t, "sim")) }

// TestGPUErrors does all of it on the attached GPU.
func TestGPUErrors(t *testing.T) {
	d, err := device.Open("cuda")
	if errors.Is(err, device.ErrNoGPU) {
		t.Skipf("no GPU here: %v; on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPUErrors -test.v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	holdForms(t, d)
	holdDigits(t, d)
	holdPlans(t, d)
	holdCancelled(t, d)
}

// TestErrorsOfCancelled holds products of several rows whose largest products cancel to the
// same: weights are 0 beside what is large of x, which codes are not from which a zero
// point is taken off, unless before they are multiplied. Of zero points that may be any, some are whole,
// some nearly, and some not at all. A simulator does not show what tensor cores cut; a GPU does.
func TestErrorsOfCancelled(t *testing.T) { holdCancelled(t, openDevice(t, "sim")) }

func holdCancelled(t *testing.T, d device.Device) {
	for i, layer := range []string{"u1 zero", "i2", "u2 zero", "u1 zero group=32", "i2 group=64", "u1", "u2", "i3", "u3 zero", "u4 zero", "i4", "i8", "i5", "i6", "f8e1m6",
		"u5 zero", "u6 zero", "u7 zero", "u8 zero", "u4 zero group=32", "u3 zero group=channel", "u4 zero=any",
		"u4 zero act=bf16", "u4 zero=any act=bf16", "u3 zero act=bf16", "u2 zero act=bf16", "u1 zero act=bf16", "i4 act=bf16", "u8 zero act=bf16",
		"u3 zero=any", "u5 zero=any", "u6 zero=any group=64", "u7 zero=any", "u8 zero=any", "u4 zero=any group=32", "u3 zero=any group=channel", "u8 zero=any group=channel",
		"i4 group=32", "i4 group=32 far", "u3 zero group=64", "i4 group=64 act=bf16 scale=bf16", "u4 zero group=32 act=bf16 scale=bf16", "mxfp4", "nvfp4", "mxfp4 act=bf16"} {
		if testing.Short() && i%3 != 0 {
			continue
		}
		l, worst, where := kind(t, layer, 140, 512), 0.0, ""
		for j, of := range []int{1, 3, 7} {
			x := filled(l.ActType, of, 64, l.K)
			q, p := packed(t, d, l, uint64(i), func(w *array.Array) {
				for k := range l.K {
					for n := 0; n < l.N && math.Abs(x.At(0, k)) >= 30; n++ {
						w.Set(0, n, k)
					}
				}
			})
			calls := []struct {
				m    int
				call Call
			}{
				{3, Call{}}, {18, Call{}}, {64, Call{Plan: Wide}},
				{2, Call{Schedule: &template.Schedule{Splits: 2}}},
				{9, Call{Schedule: &template.Schedule{Stages: 4, Blocks: 3, Rows: 16}}},
				{16, Call{Schedule: &template.Schedule{Stages: 2, Blocks: 3, Rows: 16, Warpgroups: true}}},
				{40, Call{Plan: Prefill}},
			}
			if plan, err := template.PlanOf(p.Form()); err != nil || plan.Folds || l.Group > 0 && l.Group%template.Turn == 0 {
				calls = append(calls, struct {
					m    int
					call Call
				}{16, Call{Schedule: &template.Schedule{Stages: 2, Blocks: 3, Rows: 16, Sides: 2, Warpgroups: true, Fine: true}}})
			}
			calls = append(calls, struct {
				m    int
				call Call
			}{9, Call{Soon: true}})
			for at, call := range calls {
				if testing.Short() && (at+j)%3 != 0 || d.Name() == "sim" && (at+j+i)%10 != 0 {
					continue
				}
				some := array.New(l.ActType, call.m, l.K)
				for e := range some.Len() {
					some.SetCode(e, x.Code(e))
				}
				ours, theirs, how, _ := compare(t, d, q, p, some, inputs[of].name, call.call)
				if !(ours <= 1.1*theirs) {
					t.Errorf("%s: the error is %.3g, that of f32 sums %.3g", how, ours, theirs)
				}
				if ours >= worst*theirs {
					worst, where = ours/theirs, how
				}
			}
		}
		t.Logf("%s: at most %.3f of the error of f32 sums: %s", layer, worst, where)
	}
}

func holdDigits(t *testing.T, d device.Device) {
	for i, c := range []struct {
		w    dtype.Type
		zero bool
	}{{dtype.U1, false}, {dtype.U2, true}, {dtype.I2, false}, {dtype.U4, false}, {dtype.U1, true}} {
		l := Linear{WeightType: c.w, ActType: dtype.F16, Group: 128, ScaleType: dtype.F16, ZeroPoint: c.zero, N: 35, K: 392}
		for _, hidden := range []bool{false, true} {
			q, p := packed(t, d, l, uint64(i), func(w *array.Array) {
				for k := range l.K {
					for n := 0; n < l.N && hidden && (k%128 == 11 || k%97 == 95); n++ {
						w.Set(0, n, k)
					}
				}
			})
			worst := map[bool]float64{}
			for _, long := range []bool{false, true} {
				for kind := range inputs {
					if (testing.Short() || !long) && (kind+i)%4 != 0 {
						continue
					}
					s := template.Schedule{Digits: true, Long: long, Stages: 4, Blocks: 2}
					worst[long] = max(worst[long], holds(t, d, q, p, filled(l.ActType, kind, 1, l.K), inputs[kind].name, Call{Schedule: &s}))
				}
			}
			t.Logf("%s, weights 0 where x is large %v: at most %.4f of the error of f32 sums, with digits of 31 bits %.4f", l, hidden, worst[false], worst[true])
		}
	}
}

// TestErrorsOfPlans holds what else products of layers take to the same: warps and blocks
// that share k, blocks that stay, products of warpgroups, and the plans of many rows.
func TestErrorsOfPlans(t *testing.T) { holdPlans(t, openDevice(t, "sim")) }

func holdPlans(t *testing.T, d device.Device) {
	count := 0
	for i, c := range []struct {
		layer string
		m     int
		call  Call
	}{
		{"u4 zero", 2, Call{Schedule: &template.Schedule{Splits: 2, Sides: 2}}},
		{"i3", 1, Call{Schedule: &template.Schedule{Parts: 4}}},
		{"f6e3m2 act=bf16", 1, Call{Schedule: &template.Schedule{Parts: 4, Splits: 2}}},
		{"u2 zero group=64", 7, Call{Schedule: &template.Schedule{Stages: 4, Blocks: 3}}},
		{"i8", 1, Call{Schedule: &template.Schedule{Stages: 4, Blocks: 2, Depth: 2, Warps: 2}}},
		{"i4", 9, Call{Schedule: &template.Schedule{Stages: 4, Blocks: 2, Rows: 16, Warpgroups: true}}},
		{"u1", 16, Call{Schedule: &template.Schedule{Stages: 2, Blocks: 2, Rows: 16, Warpgroups: true}}},
		{"f8e4m3 group=32", 33, Call{Plan: Wide}},
		{"u4 group=channel", 20, Call{Plan: Prefill}},
		{"mxfp4", 130, Call{Plan: Prefill}},
		{"i4 act=bf16 scale=f8e8m0", 130, Call{Plan: Expand}},
		{"u4 zero", 130, Call{Plan: Expand}},
		{"i7", 130, Call{Plan: Expand}},
		{"f6e3m2 group=32", 130, Call{Plan: Expand}},
		{"f8e4m3", 130, Call{Plan: Expand}},
		{"nvfp4", 130, Call{Plan: Expand}},
		{"u3 zero group=channel act=bf16", 130, Call{Plan: Expand}},
	} {
		if testing.Short() && i%3 != 0 {
			continue
		}
		l := kind(t, c.layer, 72, 512)
		q, p := packed(t, d, l, uint64(i), nil)
		for j := range inputs {
			if (i+j)%3 == 0 && (c.m < 100 || j < 5) || c.call.Schedule != nil && j == 3 {
				count++
				holds(t, d, q, p, filled(l.ActType, j, c.m, l.K), inputs[j].name, c.call)
			}
		}
	}
	t.Logf("%d products", count)
}

// TestNoneRounds holds that no schedule that products take by themselves, or that a table
// or a search offers, loses digits of x.
func TestNoneRounds(t *testing.T) {
	rounds := func(s template.Schedule) bool { return s.Rounds() }
	all, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Schedule.Rounds() {
			t.Errorf("the table has %s for %d bits", e.Schedule, e.Bits)
		}
	}
	for _, w := range weightTypes() {
		for _, act := range []dtype.Type{dtype.F16, dtype.BF16} {
			for i, shape := range [][2]int{{57344, 8192}, {8192, 28672}, {8192, 8192}, {1000, 3000}, {37, 333}} {
				for _, m := range []int{1, 2, 9, 16, 40, 4096} {
					l := Linear{WeightType: w, ActType: act, ScaleType: dtype.F16, Group: []int{128, 64, 32, 0}[(i+m)%4], N: shape[0], K: shape[1]}
					s, err := l.Choose(m)
					if err != nil || s.Rounds() {
						t.Errorf("%s, %d rows: %s, %v", l, m, s, err)
					}
					if plan := l.PlanFor(m, Call{}); plan == Expand && !l.Form().Expands(l.ScaleBits) || m < WideFrom && plan != Decode {
						t.Errorf("%s, %d rows: plan %s", l, m, plan)
					}
					if l.Group == 128 && m < 40 {
						if _, found, err := l.Candidates(m, l.Plans(m)); err != nil || slices.ContainsFunc(found, func(c Choice) bool { return rounds(c.Schedule) }) {
							t.Errorf("%s, %d rows: candidates that round x, or %v", l, m, err)
						}
					}
				}
			}
		}
	}
	r := Row{Layer: "o", Weight: "u1", Act: "f16", Scale: "f16", Group: 128, M: 1, N: 8192, K: 8192, Schedule: template.Schedule{Rows: 1, Digits: true, Fixed: true, Warps: 8, Stages: 4, Blocks: 132}}
	if e, err := Entries([]Row{r}); err != nil || len(e) > 0 {
		t.Errorf("a table takes %v, %v", e, err)
	}
	r.Schedule.Fixed, r.Schedule.Long = false, true
	if e, err := Entries([]Row{r}); err != nil || len(e) != 1 {
		t.Errorf("a table takes %v, %v", e, err)
	}
}
