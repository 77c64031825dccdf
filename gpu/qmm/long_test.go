package qmm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// longKinds are layers whose outputs are one sum of a tensor core, for one reason or another, and, to compare, some whose groups
// have sums of their own.
var longKinds = []string{"i4 group=channel", "f8e4m3 group=channel", "mxfp4", "nvfp4", "i4 group=32", "i4", "u4 zero", "f6e3m2", "i4 act=bf16 scale=bf16"}

// longInputs are x beside which many products have one sign, or first one and then the other, so that little is left of their sum.
// No sum of weights of size 1 is beyond f16.
var longInputs = []struct {
	name string
	at   func(r *rand.Rand, i int, first bool) float64
}{
	{"constant rows", func(r *rand.Rand, i int, first bool) float64 { return (0.3 + float64(i)) / 128 }},
	{"of one sign", func(r *rand.Rand, i int, first bool) float64 { return math.Abs(r.NormFloat64()) }},
	{"of a sign, then the other", func(r *rand.Rand, i int, first bool) float64 {
		return math.Abs(r.NormFloat64()) * map[bool]float64{true: 1, false: -1}[first]
	}},
	{"normal", func(r *rand.Rand, i int, first bool) float64 { return r.NormFloat64() }},
}

// longOutputs are those of the layers whose schedules are taken, as of a down projection of 28672 inputs: for few outputs, more
// blocks share k.
const longOutputs = 8192

// onAllCores calls f for all below n, on all cores.
func onAllCores(n int, f func(i int)) {
	var wg sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for c := range cores {
		wg.Go(func() {
			for i := c; i < n; i += cores {
				f(i)
			}
		})
	}
	wg.Wait()
}

// longProducts is [products] of plain weights on all cores.
func longProducts(w []float64, x *array.Array, n int) (exact, single []float64) {
	m, k := x.Shape[0], x.Shape[1]
	exact, single = make([]float64, m*n), make([]float64, m*n)
	onAllCores(m, func(i int) {
		row := make([]float64, k)
		for at := range row {
			row[at] = x.At(i, at)
		}
		for j := range n {
			sum, half := 0.0, float32(0)
			for at, v := range w[j*k:][:k] {
				v *= row[at]
				sum += v
				half += float32(v)
			}
			exact[i*n+j], single[i*n+j] = sum, x.Type.Decode(x.Type.Encode(float64(half), true))
		}
	})
	return exact, single
}

// longCall is a product of m rows, by a folded schedule if it has one.
type longCall struct {
	name   string
	m      int
	call   Call
	folded template.WideSchedule
}

// longCalls are what products take by themselves, for their outputs and for many, and schedules whose blocks share no k; of
// others it says why there are none.
func longCalls(d device.Device, p *Packed, plan *template.Plan, store *tune.Store) (out []longCall, none []error) {
	add := func(name string, m int, c Call) {
		c.Store = store
		if _, _, err := p.begin(d, blank(p.ActType, m, p.K), c); err != nil {
			none = append(none, fmt.Errorf("%d rows, %s: %w", m, name, err))
			return
		}
		out = append(out, longCall{name: name, m: m, call: c})
	}
	many := p.Linear
	many.N = longOutputs
	for _, m := range []int{1, 16} {
		add("by itself", m, Call{})
		add("soon", m, Call{Soon: true})
		s, err := many.Choose(m)
		if err != nil {
			none = append(none, err)
			continue
		}
		for s.Streams() && !s.Takes(plan, p.N, p.K) && s.Warps > 4 { // narrower blocks, each with as many turns
			s.Warps, s.Blocks = s.Warps/2, 2*s.Blocks
		}
		if s.Blocks > 0 {
			s.Blocks = max(1, (s.Blocks*plan.Padded(p.N)+longOutputs/2)/longOutputs)
		}
		add(fmt.Sprintf("as of %d outputs", longOutputs), m, Call{Schedule: &s})
	}
	for _, s := range []template.Schedule{{Splits: 1}, {Stages: 4, Blocks: 1}, {Stages: 4, Blocks: 1, Apart: true}} {
		add("whole k", 1, Call{Schedule: &s})
	}
	for _, s := range []template.Schedule{{Rows: 16}, {Stages: 4, Blocks: 1, Rows: 16}, {Stages: 4, Blocks: 1, Rows: 16, Warpgroups: true}, {Stages: 2, Blocks: 1, Rows: 16, Sides: 2, Warpgroups: true, Fine: true}} {
		add("whole k", 16, Call{Schedule: &s})
	}
	for _, c := range []struct {
		plan   string
		m      int
		folded bool
	}{{Wide, 64, false}, {Wide, 136, false}, {Prefill, 260, false}, {Wide, 136, true}, {Wide, 260, true}, {Prefill, 260, true}} {
		of := many
		if of.K = min(of.K, template.MostFolded); !c.folded {
			of.K = p.K
		}
		all, err := of.WideSchedules(c.plan, c.m, math.MaxInt)
		at := slices.IndexFunc(all, func(s template.WideSchedule) bool {
			return s.Splits <= 1 && s.Blocks == 0 && s.Folded == c.folded && s.Persistent == (c.plan == Prefill)
		})
		switch {
		case err != nil || at < 0:
			none = append(none, fmt.Errorf("%d rows, plan %s, folded %v: none of %d schedules, %v", c.m, c.plan, c.folded, len(all), err))
		case c.folded:
			out = append(out, longCall{"folded", c.m, Call{Plan: c.plan}, all[at]})
		default:
			p.chosen.Store(asked{c.m, c.plan, false}, chosen{Choice: Choice{Plan: c.plan, Wide: all[at]}})
			add("whole k", c.m, Call{Plan: c.plan})
		}
	}
	if all, err := many.WideSchedules(Wide, 260, math.MaxInt); err == nil && p.K > template.MostFolded {
		if at := slices.IndexFunc(all, func(s template.WideSchedule) bool { return s.Folded }); at >= 0 {
			p.chosen.Store(asked{260, Wide, false}, chosen{Choice: Choice{Plan: Wide, Wide: all[at]}})
			add("folded splits", 260, Call{Plan: Wide})
		} else if many.folds() {
			none = append(none, fmt.Errorf("260 rows, folded splits: none of %d schedules", len(all)))
		}
	}
	if !p.Form().Expands(p.ScaleBits) {
		return out, append(none, errors.New("plan expand: it rounds weights"))
	}
	add("whole k", 136, Call{Plan: Expand})
	add("whole k", 260, Call{Plan: Expand})
	return out, none
}

// run multiplies, and says how: by folded scales itself, which [Linear.wideCall] refuses sums of more k than [template.MostFolded].
func (c longCall) run(ctx context.Context, d device.Device, p *Packed, plan *template.Plan, x *array.Array) (y *array.Array, of Choice, err error) {
	s := c.folded
	if !s.Folded {
		res, err := p.Run(ctx, d, x, c.call)
		if err != nil {
			return nil, of, err
		}
		return res.Y, Choice{Plan: res.Plan, Schedule: res.Schedule, Wide: res.Wide}, nil
	}
	shape, _ := plan.Arranged(c.m, p.K)
	arrange := p.recipe(&p.programs, "arrange false", func() (*ir.Program, error) { return template.Arrange(p.Form(), s) })
	multiply := p.recipe(&p.programs, s, func() (*ir.Program, error) { return template.Wide(p.Form(), s) })
	res, err := launchRecipe(ctx, d, arrange, sizes(arrays(x, blank(p.ActType, shape...)), c.m, p.K))
	if err != nil {
		return nil, of, err
	}
	args := arrays(p.W, p.Scales, p.Zeros, res.Args[1].Array, blank(p.ActType, c.m, p.N))
	at := len(args) - 1
	if args = sizes(args, c.m, p.N, p.K); s.Persistent {
		args = sizes(args, template.H200().SMs/s.Cluster*s.Cluster)
	}
	if res, err = launchRecipe(ctx, d, multiply, args); err != nil {
		return nil, of, err
	}
	return res.Args[at].Array, Choice{Plan: c.call.Plan, Wide: s}, nil
}

// holdLong holds products of k inputs to 1.1 of the error of f32 sums where groups have sums of their own, and where x is normal. Of other
// x one sum of a tensor core has more, since it cuts off what it adds, which a simulator does not show: up to 1.5 of what a product of the plain weights
// by tensor cores has.
func holdLong(t *testing.T, d device.Device, layers []string, n, k int) {
	const rows = 260
	store, err := tune.OpenStore(filepath.Join(t.TempDir(), "tuned.db")) // what searches found here is not asked for
	if err != nil {
		t.Fatal(err)
	}
	inputs := map[dtype.Type][]*array.Array{}
	for of := range 2 * len(longInputs) {
		x := array.New([]dtype.Type{dtype.F16, dtype.BF16}[of%2], rows, k)
		onAllCores(rows, func(i int) {
			r := rand.New(rand.NewPCG(uint64(of/2), uint64(i)))
			for at := range k {
				x.Set(longInputs[of/2].at(r, i, at < k/2), i, at)
			}
		})
		inputs[x.Type] = append(inputs[x.Type], x)
	}
	worst, where := map[string]float64{}, map[string]string{}
	for at := range 2 * len(layers) {
		layer, positive := layers[at/2], at%2 > 0
		l := kind(t, layer, n, k)
		if positive && l.WeightType.IsInt() && !l.WeightType.Signed() && !l.ZeroPoint {
			continue // they are anyway
		}
		q, p := packed(t, d, l, uint64(at/2), func(w *array.Array) {
			for i := 0; positive && i < w.Len(); i++ {
				w.SetCode(i, w.Code(i)&^(1<<31))
			}
		})
		plan, err := template.PlanOf(p.Form())
		if err != nil {
			t.Fatal(err)
		}
		w := make([]float64, n*k)
		onAllCores(n, func(j int) {
			for at := range k {
				w[j*k+at] = q.At(j, at)
			}
		})
		exact, single := make([][]float64, len(longInputs)), make([][]float64, len(longInputs))
		for of, x := range inputs[p.ActType] {
			exact[of], single[of] = longProducts(w, x, n)
		}
		calls, none := longCalls(d, p, plan, store)
		if len(calls) < 10 {
			t.Errorf("%s: only %d calls", layer, len(calls))
		}
		t.Logf("%s, folded %v, weights of one sign %v; without\n%v", p.Linear, plan.Folds, positive, errors.Join(none...))
		var plain [][]float64
		for _, x := range inputs[p.ActType] {
			if !p.Form().Expands(p.ScaleBits) {
				break
			}
			res, err := p.Run(t.Context(), d, x, Call{Plan: Expand, Store: store})
			if err != nil {
				t.Fatal(err)
			}
			plain = append(plain, res.Y.Floats())
		}
		for _, c := range calls {
			for of, x := range inputs[p.ActType] {
				y, by, err := c.run(t.Context(), d, p, plan, &array.Array{Type: x.Type, Shape: []int{c.m, k}, Data: x.Data[:2*c.m*k]})
				if err != nil {
					t.Errorf("%s, %d rows, %s: %v", p.Linear, c.m, c.name, err)
					break
				}
				ours, theirs := far(y.Floats(), exact[of][:c.m*n]), far(single[of][:c.m*n], exact[of][:c.m*n])
				ratio, most := ours/theirs, 1.1*theirs
				sums := "sums of groups"
				if plan.Folds && !by.Schedule.Apart || c.folded.Folded || by.Wide.Folded || p.Group == 0 || by.Plan == Expand {
					if sums = "one sum"; longInputs[of].name != "normal" {
						if plain == nil {
							t.Fatalf("%s: no product of plain weights to compare with", layer)
						}
						most = max(most, 1.5*far(plain[of][:c.m*n], exact[of][:c.m*n]))
					}
				}
				how := fmt.Sprintf("%s, weights of one sign %v, x %s, %d rows, %s: plan %s, %s", layer, positive, longInputs[of].name, c.m, c.name, by.Plan, by)
				if !(ours <= most) {
					t.Errorf("%s: the error is %.3g, that of f32 sums %.3g; at most %.3g is held to", how, ours, theirs, most)
				}
				if by.Schedule.Warpgroups {
					sums += " by warpgroups"
				}
				for _, key := range []string{by.Plan, by.Plan + ", " + sums, fmt.Sprintf("%s, %s, x %s", by.Plan, sums, longInputs[of].name)} {
					if was, ok := worst[key]; !ok || !(ratio <= was) {
						worst[key], where[key] = ratio, how
					}
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(worst)) {
		t.Logf("at most %.3f: %s: %s", worst[key], key, where[key])
	}
}

// TestGPULong holds products of as many inputs as down of Llama has on the attached GPU, and of as many as are folded unasked.
func TestGPULong(t *testing.T) {
	d, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, "on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPULong -test.v")
	defer d.Close()
	holdLong(t, d, longKinds, 128, 28672)
	holdLong(t, d, longKinds[:6], 128, template.MostFolded)
}
