package qmm

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/record"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

var (
	typesOut = flag.String("types", "", "write what TestGPUTypes found to this file, one JSON row for each type of weights and activations")
	budget   = flag.Duration("budget", time.Hour, "begin no further type after so long")
)

// typeCase is one product of a layer.
type typeCase struct {
	l       Linear
	m       int
	plan    string // "" chooses
	add     bool   // bias and residual
	pattern uint64
}

func (c typeCase) String() string {
	return fmt.Sprintf("%s [%d, %d, %d] plan=%s bias=%v", c.l, c.m, c.l.N, c.l.K, c.plan, c.add)
}

// typeShapes are ragged: tiles of all programs stick out of them.
var typeShapes = []typeCase{
	{l: Linear{N: 37, K: 333}, m: 1, plan: Decode},
	{l: Linear{N: 21, K: 648}, m: 9, plan: Decode, add: true},
	{l: Linear{N: 70, K: 328}, m: 40, plan: Wide},
	{l: Linear{N: 72, K: 200}, m: 21, plan: Wide, add: true},
	{l: Linear{N: 150, K: 264}, m: 300, plan: Prefill},
	{l: Linear{N: 136, K: 392}, m: 150, plan: Expand},
	{l: Linear{N: 16, K: 8192}, m: 2, plan: Decode},
}

// typeCases are products of a type of weights with a type of activations in the four forms
// of groups, each in all shapes; types of scales, zero points and factors in turn.
func typeCases(w, act dtype.Type, shapes []typeCase) []typeCase {
	var out []typeCase
	at := slices.Index(dtype.All(), w)
	for j, group := range []int{32, 64, 128, 0} {
		for k, c := range shapes {
			n, inputs := c.l.N, c.l.K
			c.l = Linear{WeightType: w, ActType: act, Group: group, ScaleType: []dtype.Type{dtype.F16, dtype.BF16, dtype.F8E8M0}[(at+j+k)%3], N: n, K: inputs}
			c.l.ZeroPoint = w.IsInt() && !w.Signed() && (at+j+k)%2 == 0
			c.pattern = uint64(at*100 + j*10 + k)
			out = append(out, c)
		}
	}
	return out
}

// presetCases are products of a block-scaled format.
func presetCases(name string, act dtype.Type, shapes []typeCase) []typeCase {
	var out []typeCase
	for k, c := range shapes {
		l, err := Preset(name, c.l.N, c.l.K)
		if err != nil {
			return nil
		}
		l.ActType = act
		c.l, c.pattern = l, uint64(9000+k)
		out = append(out, c)
	}
	return out
}

// weightTypes are the types that weights may have.
func weightTypes() []dtype.Type {
	var out []dtype.Type
	for _, t := range dtype.All() {
		if _, err := (Linear{WeightType: t, N: 1, K: 1}).Check(); err == nil {
			out = append(out, t)
		}
	}
	return out
}

// outcome is what a product came to.
type outcome struct {
	plan         string
	weights      int // that came back from packing as they were
	ours, theirs float64
}

// run quantises random weights, packs them, and back if that is wanted, and multiplies on a
// device.
func (c typeCase) run(ctx context.Context, d device.Device, back bool) (outcome, error) {
	var out outcome
	w := normal(dtype.F32, c.pattern, c.l.N, c.l.K)
	if t := c.l.WeightType; t.IsInt() && !t.Signed() && !c.l.ZeroPoint {
		for i := range w.Len() {
			w.SetCode(i, w.Code(i)&^(1<<31)) // none is negative
		}
	}
	q, err := c.l.Quantize(ctx, w)
	if err != nil {
		return out, err
	}
	p, err := q.Pack(ctx, d)
	if err != nil {
		return out, err
	}
	if back {
		again, err := p.Unpack(ctx, d)
		if err != nil {
			return out, err
		}
		for n := range c.l.N {
			for k := range c.l.K {
				if again.At(n, k) != q.At(n, k) {
					return out, fmt.Errorf("weight [%d, %d] comes back as %g, was %g", n, k, again.At(n, k), q.At(n, k))
				}
				out.weights++
			}
		}
	}
	x := normal(q.ActType, 77, c.m, c.l.K)
	call := Call{Plan: c.plan}
	extra := func(i, j int) float64 { return 0 }
	if c.add {
		call.Bias, call.Residual = normal(q.ActType, 8, c.l.N), normal(q.ActType, 9, c.m, c.l.N)
		bias, residual := call.Bias.Floats(), call.Residual.Floats()
		extra = func(i, j int) float64 { return bias[j] + residual[i*c.l.N+j] }
	}
	res, err := p.Run(ctx, d, x, call)
	if err != nil {
		return out, err
	}
	exact, single := products(q, x, extra)
	out.plan, out.ours, out.theirs = res.Plan, far(res.Y.Floats(), exact), far(rounded(q.ActType, single), exact)
	// Weights made plain may be rounded to the type of the activations.
	most := 1.1
	if res.Plan == Expand && !q.Form().Expands(q.ScaleBits) {
		most = 2
	}
	if !(out.ours <= most*out.theirs) {
		return out, fmt.Errorf("the error is %.3g, more than %g of %.3g, that of f32 sums", out.ours, most, out.theirs)
	}
	return out, nil
}

// TestTypes multiplies with every type of weights, both types of activations and the four
// forms of groups on the simulator; ragged shapes in turn.
func TestTypes(t *testing.T) {
	d := openDevice(t, "sim")
	shapes := []typeCase{
		{l: Linear{N: 19, K: 77}, m: 1},
		{l: Linear{N: 5, K: 150}, m: 3, add: true},
		{l: Linear{N: 17, K: 72}, m: 9},
	}
	i, count := 0, 0
	each := func(c []typeCase) {
		for j, c := range c {
			if (i/7+j/len(shapes)+j)%len(shapes) != 0 || testing.Short() && i%7 != 0 {
				continue
			}
			count++
			if _, err := c.run(t.Context(), d, false); err != nil {
				t.Errorf("%s: %v", c, err)
			}
		}
		i++
	}
	for _, act := range []dtype.Type{dtype.F16, dtype.BF16} {
		for _, w := range weightTypes() {
			each(typeCases(w, act, shapes))
		}
		for _, name := range Presets() {
			each(presetCases(name, act, shapes))
		}
	}
	t.Logf("%d products", count)
}

// typesRow is what a GPU made of a type of weights with a type of activations.
type typesRow struct {
	record.Row
	Weight   string         `json:"weight"` // or the preset
	Act      string         `json:"act"`
	Groups   []int          `json:"groups"` // 0 is one scale for each output
	Scales   []string       `json:"scales"`
	Products map[string]int `json:"products"` // by plan
	// Ratio is the greatest of results' errors over those of f32 sums of the same weights,
	// both against float64 and rounded to the type of the activations; Expand is that of
	// the plan that rounds weights as well.
	Ratio  float64 `json:"error_of_f32"`
	Expand float64 `json:"error_of_f32_expand"`
	Error  float64 `json:"error"` // the greatest
}

// programHash is the hash of the programs that stand for a type: packing and decoding in
// groups of 128, or those of a preset.
func programHash(l Linear) (string, error) {
	pack, err := template.Pack(l.Form())
	if err != nil {
		return "", err
	}
	s, err := l.Choose(1)
	if err != nil {
		return "", err
	}
	decode, err := template.Decode(l.Form(), s)
	if err != nil {
		return "", err
	}
	return tune.Hash(pack, tune.Hash(decode)), nil
}

// TestGPUTypes multiplies with every type of weights, both types of activations, the four
// forms of groups and presets, in ragged shapes, by all plans on the attached GPU.
func TestGPUTypes(t *testing.T) {
	first, err := device.Open("cuda")
	if errors.Is(err, device.ErrNoGPU) {
		t.Skipf("no GPU here: %v; on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPUTypes -test.v -types lowbit_types.json", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	on := first.Describe()
	type work struct {
		name, weight string
		act          dtype.Type
		cases        []typeCase
	}
	var all []work
	for _, act := range []dtype.Type{dtype.F16, dtype.BF16} {
		for _, w := range weightTypes() {
			all = append(all, work{fmt.Sprintf("%s × %s", act, w), w.String(), act, typeCases(w, act, typeShapes)})
		}
		for _, name := range Presets() {
			all = append(all, work{fmt.Sprintf("%s × %s", act, name), name, act, presetCases(name, act, typeShapes)})
		}
	}
	stamp, err := record.Writer{Commit: firstCommit}.Stamp("low-bit type")
	if err != nil {
		t.Fatal(err)
	}
	stamp.GPU, stamp.Driver, stamp.Target = on.Title, on.Driver, on.Arch
	var mu sync.Mutex
	var rows []typesRow
	start, products := time.Now(), 0
	queue := make(chan work)
	var wait sync.WaitGroup
	for range max(1, runtime.NumCPU()-2) {
		wait.Go(func() {
			d, err := device.Open("cuda")
			if err != nil {
				t.Error(err)
				for range queue {
				}
				return
			}
			defer d.Close()
			for w := range queue {
				row := typesRow{Row: stamp, Weight: w.weight, Act: w.act.String(), Products: map[string]int{}}
				row.Name, row.Result = w.name, "equal"
				l := w.cases[0].l
				l.Group, l.ScaleType, l.ZeroPoint = 128, dtype.F16, false
				if slices.Contains(Presets(), w.weight) {
					l = w.cases[0].l
				}
				if row.Hash, err = programHash(l); err != nil {
					t.Error(err)
				}
				for _, c := range w.cases {
					if on.Arch != warpgroups && c.plan != Decode {
						continue
					}
					o, err := c.run(t.Context(), d, true)
					if err != nil {
						row.Result, row.Differ = fmt.Sprintf("%s: %v", c, err), row.Differ+1
						t.Errorf("%s: %v", c, err)
						continue
					}
					row.Of += o.weights
					row.Products[o.plan]++
					switch {
					case o.theirs == 0:
					case o.plan == Expand:
						row.Expand = max(row.Expand, o.ours/o.theirs)
					default:
						row.Ratio, row.Error = max(row.Ratio, o.ours/o.theirs), max(row.Error, o.ours)
					}
					if !slices.Contains(row.Groups, c.l.Group) {
						row.Groups = append(row.Groups, c.l.Group)
					}
					if s := c.l.ScaleType.String(); !slices.Contains(row.Scales, s) {
						row.Scales = append(row.Scales, s)
					}
				}
				mu.Lock()
				rows = append(rows, row)
				for _, n := range row.Products {
					products += n
				}
				mu.Unlock()
				fmt.Printf("%6.1f s %-20s %v, at most %.3f of the error of f32 sums, expanded %.3f: %.60s\n", time.Since(start).Seconds(), w.name, row.Products, row.Ratio, row.Expand, row.Result)
			}
		})
	}
	// Types whose turn is late have the same weight as early ones, should time run out.
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(len(all)) {
		if time.Since(start) > *budget {
			t.Errorf("%s: left out after %v", all[i].name, *budget)
			continue
		}
		queue <- all[i]
	}
	close(queue)
	wait.Wait()
	slices.SortFunc(rows, func(a, b typesRow) int { return strings.Compare(a.Name, b.Name) })
	t.Logf("%d types, %d products in %v", len(rows), products, time.Since(start).Round(time.Millisecond))
	writeJSON(t, *typesOut, rows)
}

// writeJSON writes rows to a file, unless it is "".
func writeJSON(t *testing.T, file string, rows any) {
	t.Helper()
	if file == "" {
		return
	}
	data, err := json.MarshalIndent(rows, "", "\t")
	if err == nil {
		err = os.WriteFile(file, append(data, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
