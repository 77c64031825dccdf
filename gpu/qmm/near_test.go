package qmm

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// nearPresets are those whose scales are folded beside f16 if they are near 1.
var nearPresets = []string{"mxfp4", "mxfp6e2m3", "mxfp6e3m2", "mxfp8e4m3", "mxint8"}

// nearWeights are random weights whose scales are scale(group, output), as codes.
func nearWeights(t *testing.T, l Linear, r *rand.Rand, scale func(g, n int) uint64) *Weights {
	t.Helper()
	l, err := l.Check()
	if err != nil {
		t.Fatal(err)
	}
	q := &Weights{Linear: l, Codes: array.New(l.WeightType, l.N, l.K), Scales: array.New(l.ScaleType, l.Groups(), l.N), One: 1}
	for i := range q.Codes.Len() {
		for {
			code := r.Uint64N(1 << l.WeightType.Bits())
			if v := l.WeightType.Decode(code); v-v == 0 {
				q.Codes.SetCode(i, code)
				break
			}
		}
	}
	for g := range l.Groups() {
		for n := range l.N {
			q.Scales.SetCode(g*l.N+n, scale(g, n))
		}
	}
	return q
}

// holdNear holds products of scales at both ends of what is near, in the same turns, to the error of f32 sums, where x is
// 0 beside the greatest or the least of them too.
func holdNear(t *testing.T, d device.Device, n, k int, plans []string) {
	ctx, r := context.Background(), rand.New(rand.NewPCG(5, 6))
	for _, name := range nearPresets {
		l, err := Preset(name, n, k)
		if err != nil {
			t.Fatal(err)
		}
		p, err := template.PlanOf(l.Form())
		if err != nil || !p.Near || p.From > -15 || p.To != 0 {
			t.Fatalf("%s: powers of two from %d to %d are near, %v", name, p.From, p.To, err)
		}
		codes := []uint64{127, uint64(127 + p.From), 120, uint64(128 + p.From)}
		q := nearWeights(t, l, r, func(g, n int) uint64 { return codes[(g+n)%4] })
		packed, err := q.Pack(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		if packed.Far {
			t.Errorf("%s: scales from 2^%d are taken for far apart", name, p.From)
		}
		const m = 19
		x := normal(l.ActType, 3, m, k)
		for i := range m {
			for at := range k {
				// In some rows only scales of the least numbers count, for outputs of one kind.
				if g := at / l.Group % 4; i%3 == 1 && g != 1 || i%3 == 2 && g == 0 {
					x.Set(0, i, at)
				}
			}
		}
		exact, single := products(q, x, func(i, j int) float64 { return 0 })
		for _, plan := range plans {
			res, err := packed.Run(ctx, d, x, Call{Plan: plan})
			if err != nil {
				t.Fatalf("%s by %s: %v", name, plan, err)
			}
			for first := range 3 {
				part := func(v []float64) (out []float64) {
					for i := first; i < m; i += 3 {
						for j := range n {
							if first != 1 || j%4 == 0 { // of those rows, outputs whose least scales meet what x is not 0 beside
								out = append(out, v[i*n+j])
							}
						}
					}
					return out
				}
				ours, theirs := far(part(res.Y.Floats()), part(exact)), far(part(rounded(l.ActType, single)), part(exact))
				if ours > 1.1*theirs {
					t.Errorf("%s by %s, rows %d, %d, …: error %.3g, more than 1.1 of %.3g", name, plan, first, first+3, ours, theirs)
				}
			}
		}
	}
}

func TestNear(t *testing.T) { holdNear(t, openDevice(t, "sim"), 40, 300, []string{Decode, Wide}) }

// TestGPUNear is TestNear on the attached GPU.
func TestGPUNear(t *testing.T) {
	d, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, "on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPUNear")
	defer d.Close()
	holdNear(t, d, 1000, 2080, []string{Decode, Wide, Prefill})
}

// TestFar holds that packing finds scales that are far apart, and those that nothing has.
func TestFar(t *testing.T) {
	for _, act := range []dtype.Type{dtype.F16, dtype.BF16} {
		holdFar(t, act)
	}
}

func holdFar(t *testing.T, act dtype.Type) {
	d, ctx := openDevice(t, "interp"), context.Background()
	l, err := Preset("mxfp4", 24, 160)
	if err != nil {
		t.Fatal(err)
	}
	l.ActType = act
	p, err := template.PlanOf(l.Form())
	if err != nil {
		t.Fatal(err)
	}
	least, most := uint64(127+p.From), uint64(127+p.To)
	for _, c := range []struct {
		name  string
		code  uint64 // of one group, among some that are 127 and 112
		blank bool   // whether that group has weights of 0 only
		far   bool
	}{
		{"ends", least, false, false}, {"above", most + 1, false, true}, {"below", least - 1, false, true}, {"nothing", 0, true, false},
		{"nothing above", most + 1, true, false}, {"no number", 255, false, true}, {"nothing, no number", 255, true, true},
	} {
		q := nearWeights(t, l, rand.New(rand.NewPCG(7, 8)), func(g, n int) uint64 {
			if g == 3 && n == 5 {
				return c.code
			}
			return []uint64{127, 112}[(g+n)%2]
		})
		if c.blank {
			for k := 96; k < 128; k++ {
				q.Codes.SetCode(5*q.K+k, uint64(k%2*8)) // 0 and −0
			}
		}
		packed, err := q.Pack(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		if packed.Far != c.far {
			t.Errorf("%s, %s: Far is %v", c.name, act, packed.Far)
		}
		back, err := packed.Unpack(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		for i := range q.N {
			for k := range q.K {
				if a, b := back.At(i, k), q.At(i, k); a != b && !(math.IsNaN(a) && math.IsNaN(b)) {
					t.Fatalf("%s: weight [%d, %d] comes back as %g, was %g", c.name, i, k, a, b)
				}
			}
		}
		x := normal(act, 9, 3, q.K)
		res, err := packed.Run(ctx, d, x, Call{})
		if err != nil {
			t.Fatal(err)
		}
		exact, single := products(q, x, func(i, j int) float64 { return 0 })
		for i, want := range exact {
			if got := res.Y.Floats()[i]; math.IsNaN(want) != math.IsNaN(got) || math.Abs(got-want) > math.Abs(want)/100+1e-2 && !math.IsInf(act.Decode(act.Encode(want, false)), 0) {
				t.Errorf("%s, %s: result %d is %g, not %g (%g as f32)", c.name, act, i, got, want, single[i])
			}
		}
	}
}

// exactKinds have 16-bit scales of few significant bits, which are folded.
var exactKinds = []string{"i4 group=32", "u4 zero group=64", "i3 group=16", "i2 group=64", "i6 group=32", "u3 zero group=32", "f4e2m1 group=64",
	"i4 group=64 act=bf16 scale=bf16", "u4 zero group=32 act=bf16 scale=bf16", "i3 group=16 act=bf16 scale=bf16", "f4e2m1 group=32 act=bf16 scale=bf16"}

// holdExact holds products of layers whose 16-bit scales are folded to the error of f32 sums, with weights of ordinary sizes
// and small ones, in outputs of their own and in groups of the same output.
func holdExact(t *testing.T, d device.Device, n, k int, plans []string) {
	for i, name := range exactKinds {
		if testing.Short() && i%3 != 0 {
			continue
		}
		l := kind(t, name, n, k)
		q, p := packed(t, d, l, uint64(i), func(w *array.Array) {
			for j := range w.Len() {
				size := []float64{0.02, 0.003, 1}[j/k%3]
				if j%k/64%2 == 1 {
					size /= 4
				}
				w.Set(w.At(j/k, j%k)*size, j/k, j%k)
			}
		})
		if plan, err := template.PlanOf(p.Form()); err != nil || !plan.Exact || !plan.Folds || p.ScaleBits == 0 {
			t.Errorf("%s: packed as %s, folded: %v, %v", name, p.Linear, plan != nil && plan.Folds, err)
		}
		for _, plan := range plans {
			for j, of := range []int{0, 3, 4} {
				holds(t, d, q, p, filled(l.ActType, of, []int{2, 17, 16}[j], k), inputs[of].name, Call{Plan: plan})
			}
		}
	}
}

func TestExact(t *testing.T) { holdExact(t, openDevice(t, "sim"), 40, 300, []string{Decode, Wide}) }

// TestGPUExact is TestExact on the attached GPU.
func TestGPUExact(t *testing.T) {
	d, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, "on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPUExact")
	defer d.Close()
	holdExact(t, d, 1000, 2080, []string{Decode, Wide, Prefill, Expand})
}

// oneScale are weights of which one group has a scale and others 0.5 and 0.75, and what packing finds of them.
func oneScale(t *testing.T, d device.Device, l Linear, scale float64) (*Weights, *Packed) {
	t.Helper()
	q := nearWeights(t, l, rand.New(rand.NewPCG(7, 8)), func(g, n int) uint64 {
		if g == 1 && n == 5 {
			return l.ScaleType.Encode(scale, false)
		}
		return l.ScaleType.Encode([]float64{0.5, 0.75}[(g+n)%2], false)
	})
	if l.ZeroPoint {
		q.Zeros = array.New(l.ActType, l.Groups(), l.N)
	}
	packed, err := q.Pack(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return q, packed
}

// TestExactFound holds that packing finds 16-bit scales that are not to be folded: with more significant bits than leave
// weights exact, and too large ones.
func TestExactFound(t *testing.T) {
	d := openDevice(t, "interp")
	for i, name := range []string{"i4 group=32", "u4 zero group=64", "i4 group=64 act=bf16 scale=bf16"} {
		l := kind(t, name, 24, 160)
		for _, c := range []struct {
			scale float64 // of one group; of the others 0.5 and 0.75
			exact [3]bool // of these kinds: they take 8, 7 and 5 bits, below 64, 32 and 2^124
		}{
			{0.015625, [3]bool{true, true, true}}, {0.01171875, [3]bool{true, true, true}}, {0, [3]bool{true, true, true}},
			{1 + 1./128, [3]bool{true, false, false}}, {63, [3]bool{true, false, false}}, {64, [3]bool{false, false, true}},
		} {
			q, packed := oneScale(t, d, l, c.scale)
			if got := packed.Form().Exact; got != c.exact[i] {
				t.Errorf("%s, a scale of %g: folded %v (%s)", name, c.scale, got, packed.Linear)
			}
			x := normal(l.ActType, 9, 3, l.K)
			holds(t, d, q, packed, x, "normal", Call{})
		}
	}
}

// foldedKinds have scales of groups of whole turns that are folded beyond 128 rows: with casts that are exact, or leave powers of two.
var foldedKinds = []string{"i4", "i3", "i8", "u8 zero", "u7 zero", "f8e1m6", "u4 zero", "f6e3m2", "u3", "i2 group=256", "f8e4m3", "f4e2m1", "i4 act=bf16 scale=bf16", "u3 zero act=bf16 scale=bf16", "f6e3m2 act=bf16 scale=bf16"}

// takeFolded has a layer take a schedule that is Folded, and so of parts of tiles or not, by a call; it reports whether the plan has one.
func takeFolded(t *testing.T, p *Packed, plan string, m int, parts bool) (Call, bool) {
	t.Helper()
	all, err := p.WideSchedules(plan, m, math.MaxInt)
	at := slices.IndexFunc(all, func(s template.WideSchedule) bool {
		return s.Folded && (s.Parts == s.Consumers && s.Parts > 1) == parts
	})
	if err != nil || at < 0 {
		return Call{}, false
	}
	store, err := tune.OpenStore(filepath.Join(t.TempDir(), "tuned.db")) // what searches found here is not asked for
	if err != nil {
		t.Fatal(err)
	}
	p.chosen.Store(asked{m, plan, false}, chosen{Choice: Choice{Plan: plan, Wide: all[at]}})
	return Call{Plan: plan, Store: store}, true
}

// holdFolded holds what many rows take, folded, to the error of f32 sums, for each kind of x in turn, with weights of ordinary sizes and small ones, in
// outputs of their own and in groups of the same output; of plans, those that so many rows may take.
func holdFolded(t *testing.T, d device.Device, m, n, k int, plans []string) {
	for i, name := range foldedKinds {
		if testing.Short() && i%4 != 0 {
			continue
		}
		q, p := packed(t, d, kind(t, name, n, k), uint64(i), func(w *array.Array) {
			for j := range w.Len() {
				size := []float64{0.02, 0.003, 0.5}[j/k%3]
				if j%k/128%2 == 1 {
					size /= 4
				}
				w.Set(w.At(j/k, j%k)*size, j/k, j%k)
			}
		})
		if p.ScaleBits == 0 || p.Far || !p.folds() {
			t.Errorf("%s: packed as %s, which is not folded", name, p.Linear)
		}
		for j, plan := range plans {
			for _, parts := range []bool{false, true} {
				call, ok := takeFolded(t, p, plan, m, parts)
				if !ok {
					if want := !parts || plan == Wide && p.WeightType.Bits() == 3; want {
						t.Errorf("%s by %s: none is folded, of parts %v", name, plan, parts)
					}
					continue
				}
				of := (i + 5*j) % len(inputs)
				x := filled(p.ActType, of, m, k)
				holds(t, d, q, p, x, inputs[of].name, call)
				if res, err := p.Prepare(t.Context(), d, m, call); err != nil || !res.Wide.Folded || (res.Wide.Parts > 1 && res.Wide.Consumers > 1) != parts {
					t.Errorf("%s by %s: %v, %v", name, plan, res, err)
				}
			}
		}
	}
}

func TestFolded(t *testing.T) { holdFolded(t, openDevice(t, "sim"), 140, 40, 300, []string{Wide}) }

// TestGPUFolded is TestFolded on the attached GPU.
func TestGPUFolded(t *testing.T) {
	d, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, "on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPUFolded")
	defer d.Close()
	holdFolded(t, d, 260, 300, 1056, []string{Wide, Prefill})
}

// TestFoldedFound holds that layers are folded as far as their scales are found to allow it: with few significant bits, and
// within bounds.
func TestFoldedFound(t *testing.T) {
	d := openDevice(t, "interp")
	for i, name := range []string{"i4", "u4 zero", "f6e3m2", "i4 act=bf16 scale=bf16"} {
		l := kind(t, name, 24, 160)
		for _, c := range []struct {
			scale float64 // of one group; of the others 0.5 and 0.75
			folds [4]bool // of these kinds, below 64, 32, 16 and 2^124
		}{
			{0.015625, [4]bool{true, true, true, true}}, {0, [4]bool{true, true, true, true}}, {1 + 1./128, [4]bool{true, false, true, false}},
			{15, [4]bool{true, true, true, true}}, {31, [4]bool{true, true, false, true}}, {63, [4]bool{true, false, false, false}}, {64, [4]bool{false, false, false, true}},
		} {
			_, packed := oneScale(t, d, l, c.scale)
			if got := packed.folds(); got != c.folds[i] {
				t.Errorf("%s, a scale of %g: folded %v (%s, far %v)", name, c.scale, got, packed.Linear, packed.Far)
			}
			again, err := Parse(packed.Linear.String(), l.N, l.K)
			if err != nil || again != packed.Linear {
				t.Errorf("%s is read as %s, %v", packed.Linear, again, err)
			}
			large := packed.Linear
			large.N, large.K = 57344, template.MostFolded
			if long := large; packed.folds() {
				if long.K++; long.foldsBy(template.WideSchedule{}) || !long.foldsBy(template.WideSchedule{Splits: 2}) {
					t.Errorf("%s: %d inputs are one sum", name, long.K)
				}
			}
			all, err := large.WideSchedules(Wide, 512, 0)
			if err != nil || all[0].Folded != c.folds[i] {
				t.Errorf("%s, a scale of %g: %v, %v", name, c.scale, all, err)
			}
			if all, err = large.unfolded().WideSchedules(Wide, 512, 5); err != nil || slices.ContainsFunc(all, func(s template.WideSchedule) bool { return s.Folded }) {
				t.Errorf("%s, for any scales: %v, %v", name, all, err)
			}
		}
	}
}

// TestFoldedRefused holds folded schedules away from layers whose scales may be any: in calls, and in what is exported, which takes other scales than a
// layer's too.
func TestFoldedRefused(t *testing.T) {
	l := kind(t, "i4", 64, 256)
	w := &array.Array{Type: dtype.U8, Shape: []int{0}}
	x := blank(l.ActType, 130, l.K)
	if _, err := l.wideCall(nil, template.WideSchedule{Folded: true}, w, w, nil, x, Call{}, 1); err == nil || !strings.Contains(err.Error(), "leave Folded out") {
		t.Errorf("weights that may not be exact: %v", err)
	}
	for _, name := range []string{"i4 scalebits=4", "i4 act=bf16 scale=bf16 scalebits=4", "f6e3m2"} {
		l := kind(t, name, 8192, 1024)
		if all, err := l.Usual().WideSchedules(Prefill, 1024, 0); err != nil || !all[0].Folded {
			t.Errorf("%s: %v, %v", name, all, err)
		}
		e, err := l.Export("of", warpgroups, Extra{}, 512, 1024)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(e.Python, []byte("folded")) {
			t.Errorf("%s: a module has folded scales", name)
		}
	}
	if rows, err := WideEntries([]Row{{Weight: "i4", Act: "f16", Scale: "f16", Group: 128, M: 256, N: 8192, K: 8192, Plan: Wide, Wide: &template.WideSchedule{Folded: true}}}); err != nil || len(rows) > 0 {
		t.Errorf("a table has %v, %v", rows, err)
	}
	// Zero points that are not whole leave nothing that scales could be too large for.
	q, _ := packed(t, openDevice(t, "interp"), kind(t, "u4 zero=any", 24, 256), 1, nil)
	q.Linear.AnyZero, q.Linear.Far = false, true
	p, err := q.Pack(t.Context(), openDevice(t, "interp"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Check(); err != nil || !p.AnyZero {
		t.Errorf("%s: %v", p.Linear, err)
	}
}
