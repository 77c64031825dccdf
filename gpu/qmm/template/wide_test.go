package template

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// launchArgs are arguments of a program.
func launchArgs(args ...any) []ir.Arg {
	var in []ir.Arg
	for _, a := range args {
		switch a := a.(type) {
		case *array.Array:
			if a != nil {
				in = append(in, ir.Arg{Array: a})
			}
		case int:
			in = append(in, ir.Arg{Int: int64(a)})
		case float64:
			in = append(in, ir.Arg{Float: a})
		}
	}
	return in
}

// checkWide arranges x and multiplies on a device, with weights that the interpreter packs.
func (l *layer) checkWide(t *testing.T, d device.Device, s WideSchedule) {
	t.Helper()
	run := func(d device.Device, p *ir.Program, err error, args ...any) []ir.Arg {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		res, err := d.Run(context.Background(), p, launchArgs(args...))
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		return res.Args
	}
	plan, err := PlanOf(l.form)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.Filled(plan); err != nil {
		t.Fatal(err)
	}
	host, err := device.Open("interp")
	if err != nil {
		t.Fatal(err)
	}
	pack, err := Pack(l.form)
	w := run(host, pack, err, l.q, array.New(dtype.U8, plan.PackedShape(l.n, l.k)...), l.n, l.k)[1].Array
	arrange, err := Arrange(l.form, s)
	shape, sizes := plan.Arranged(l.m, l.k)
	var sums *array.Array
	if s.Sums(plan) {
		sums = array.New(dtype.F32, sizes...)
	}
	arranged := run(d, arrange, err, l.x, array.New(l.form.Act, shape...), sums, l.m, l.k)
	x := arranged[1].Array
	if s.Sums(plan) {
		sums = arranged[2].Array
	}
	var zeros, bias, residual, part, arrived *array.Array
	if l.z != nil {
		zeros = ordered(plan, l.z)
	}
	if s.AddBias {
		bias = array.New(l.form.Act, l.n)
		for j := range l.n {
			bias.Set(float64(j%5), j)
		}
	}
	if s.AddResidual {
		residual = array.New(l.form.Act, l.m, l.n)
		for j := range l.m * l.n {
			residual.SetCode(j, l.form.Act.Encode(float64(j%7), false))
		}
	}
	if s.Shares() {
		shape, n := s.Workspace(plan, l.m, l.n)
		part, arrived = array.New(dtype.F32, shape...), array.New(dtype.I32, n)
	}
	args := []any{w, ordered(plan, l.s), zeros, x, sums, bias, residual}
	at := len(launchArgs(args...))
	args = append(args, array.New(l.form.Act, l.m, l.n), part, arrived, l.m, l.n, l.k)
	if s.Persistent {
		args = append(args, 2*s.Cluster)
	}
	if l.form.Factor {
		args = append(args, l.factor)
	}
	wide, err := Wide(l.form, s)
	got := run(d, wide, err, args...)
	if r := array.Compare(got[at].Array, l.want(bias, residual)); r.Differ > 0 {
		t.Errorf("%s: product: %v", d.Name(), r)
	}
	if s.Shares() {
		for _, b := range got[at+2].Array.Data {
			if b != 0 {
				t.Fatalf("%s: the next launch would start from the counts %v", d.Name(), got[at+2].Array)
			}
		}
	}
}

// wideCases are forms with their schedules: each width, kind of scale and way to cut.
type wideCase struct {
	form    Form
	m, n, k int
	s       WideSchedule
}

var wideCases = []wideCase{
	{Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 33, 130, 256, WideSchedule{Stages: 2}},
	{Form{Weight: dtype.I4, Act: dtype.F16, Scale: dtype.F16, Group: 64}, 9, 70, 200, WideSchedule{Rows: 16, Consumers: 1, AddBias: true, AddResidual: true}},
	{Form{Weight: dtype.U2, Act: dtype.F16, Scale: dtype.F8E8M0, Group: 32, Zero: true}, 17, 260, 333, WideSchedule{Rows: 16, Consumers: 1}},
	{Form{Weight: dtype.F6E3M2, Act: dtype.F16, Scale: dtype.F16}, 20, 66, 384, WideSchedule{Rows: 32, Consumers: 1, Splits: 2}},
	{Form{Weight: dtype.U8, Act: dtype.BF16, Scale: dtype.BF16, Group: 128}, 40, 300, 256, WideSchedule{Rows: 32, Cluster: 2, Persistent: true}},
	{Form{Weight: dtype.F4E2M1, Act: dtype.BF16, Scale: dtype.F8E4M3, Group: 16, Factor: true}, 12, 64, 160, WideSchedule{Rows: 16, Consumers: 1, Splits: 2}},
	{Form{Weight: dtype.U3, Act: dtype.F16, Scale: dtype.F16, Group: 256, Zero: true}, 10, 258, 520, WideSchedule{Rows: 16, Consumers: 1, Persistent: true}},
	{Form{Weight: dtype.U1, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 8, 520, 256, WideSchedule{Consumers: 1}},
	{Form{Weight: dtype.I8, Act: dtype.F16, Scale: dtype.F16}, 130, 65, 256, WideSchedule{Rows: 64, Consumers: 1, Cluster: 2}},
	{Form{Weight: dtype.F8E4M3, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 64, 128, 384, WideSchedule{Consumers: 2, Stages: 2}},
	{Form{Weight: dtype.I5, Act: dtype.BF16, Scale: dtype.F16, Group: 128}, 8, 128, 128, WideSchedule{Rows: 8, Consumers: 1}},
	{Form{Weight: dtype.F7E3M3, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 16, 128, 256, WideSchedule{Rows: 16, Consumers: 1}},
	{Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 17, 300, 384, WideSchedule{Rows: 16, Consumers: 1, Sides: 2, Cluster: 2, Splits: 2}},
	{Form{Weight: dtype.I4, Act: dtype.F16, Scale: dtype.F16, Group: 32}, 9, 140, 200, WideSchedule{Rows: 8, Consumers: 1, Sides: 4}},
	{Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 20, 400, 640, WideSchedule{Rows: 16, Consumers: 1, Sides: 2, Blocks: 5}},
	{Form{Weight: dtype.I4, Act: dtype.BF16, Scale: dtype.F16, Group: 64}, 9, 200, 400, WideSchedule{Rows: 16, Consumers: 1, Blocks: 13}},
	{Form{Weight: dtype.U3, Act: dtype.BF16, Scale: dtype.F16, Zero: true}, 20, 140, 300, WideSchedule{Rows: 16, Consumers: 1, Sides: 2, Persistent: true}},
	{Form{Weight: dtype.I3, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 20, 300, 400, WideSchedule{Rows: 16, Parts: 2, Splits: 2, AddBias: true}},
	{Form{Weight: dtype.U1, Act: dtype.BF16, Scale: dtype.F16, Group: 32, Zero: true}, 9, 600, 256, WideSchedule{Rows: 8, Parts: 2}},
	{Form{Weight: dtype.U6, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 17, 300, 256, WideSchedule{Rows: 16, Parts: 2, Sides: 2, Cluster: 2, AddResidual: true}},
	{Form{Weight: dtype.I4, Act: dtype.F16, Scale: dtype.F16, Group: 64}, 70, 90, 400, WideSchedule{Rows: 64, Consumers: 1, Splits: 2, AddBias: true, AddResidual: true}},
	{Form{Weight: dtype.U8, Act: dtype.BF16, Scale: dtype.F16, Group: 128, Zero: true}, 65, 200, 600, WideSchedule{Rows: 64, Consumers: 1, Blocks: 7}},
	{Form{Weight: dtype.F4E2M1, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 100, 140, 300, WideSchedule{Rows: 64, Consumers: 1, Persistent: true, Cluster: 2, Stages: 2}},
	{Form{Weight: dtype.U2, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 64, 140, 260, WideSchedule{Rows: 64, Parts: 2, Splits: 2}},
	{Form{Weight: dtype.F8E5M2, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 17, 300, 512, WideSchedule{Rows: 16, Sides: 2, Splits: 2, AddBias: true}},
	{Form{Weight: dtype.I3, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 20, 270, 400, WideSchedule{Rows: 16, Parts: 4, Splits: 2, AddBias: true, AddResidual: true}},
	{Form{Weight: dtype.U1, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: true}, 9, 1100, 256, WideSchedule{Rows: 16, Parts: 4}},
	{Form{Weight: dtype.U1, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 64, 600, 256, WideSchedule{Rows: 64, Parts: 8, Splits: 2}},
	{Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 70, 140, 400, WideSchedule{Rows: 64, Consumers: 1, Splits: 2, Whole: true}},
	{Form{Weight: dtype.U2, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: true}, 20, 140, 400, WideSchedule{Rows: 16, Consumers: 1, Parts: 2, Splits: 2}},
	{Form{Weight: dtype.U5, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 33, 270, 400, WideSchedule{Rows: 64, Parts: 4, Splits: 2, Once: true}},
	{Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 70, 140, 250, WideSchedule{Rows: 64, Consumers: 1, Splits: 3, Once: true}}, // the third has no turn
	{Form{Weight: dtype.F6E3M2, Act: dtype.BF16, Scale: dtype.F16, Group: 64}, 60, 90, 300, WideSchedule{Rows: 64, Blocks: 3, Whole: true}},
	{Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: true}, 17, 300, 384, WideSchedule{Rows: 16, Consumers: 1, Sides: 2, Cluster: 2, Splits: 2}},
	{Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 32, Zero: true}, 70, 140, 400, WideSchedule{Rows: 64, Consumers: 1, Blocks: 3}},
	{Form{Weight: dtype.U3, Act: dtype.F16, Scale: dtype.F16, Group: 64, Zero: true}, 20, 300, 400, WideSchedule{Rows: 16, Parts: 4, Splits: 2, AddBias: true}},
	{Form{Weight: dtype.U6, Act: dtype.F16, Scale: dtype.F16, Zero: true}, 20, 140, 300, WideSchedule{Rows: 16, Consumers: 1, Sides: 2, Persistent: true}},
	{Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: true, AnyZero: true}, 20, 400, 640, WideSchedule{Rows: 16, Consumers: 1, Sides: 2, Blocks: 5}},
	{Form{Weight: dtype.U3, Act: dtype.F16, Scale: dtype.F16, Group: 64, Zero: true, AnyZero: true}, 20, 300, 400, WideSchedule{Rows: 16, Parts: 4, Splits: 2}},
	{Form{Weight: dtype.U6, Act: dtype.F16, Scale: dtype.F16, Zero: true, AnyZero: true}, 20, 140, 300, WideSchedule{Rows: 16, Consumers: 1, Sides: 2, Persistent: true}},
	{Form{Weight: dtype.U8, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: true, AnyZero: true}, 70, 140, 400, WideSchedule{Rows: 64, Consumers: 1, Splits: 2, AddBias: true}},
	{Form{Weight: dtype.U5, Act: dtype.BF16, Scale: dtype.F16, Group: 128, Zero: true, AnyZero: true}, 20, 300, 384, WideSchedule{Rows: 16, Consumers: 1, Cluster: 2}},
	{Form{Weight: dtype.U5, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: true}, 20, 270, 400, WideSchedule{Rows: 16, Parts: 4, AddBias: true, AddResidual: true}},
	{Form{Weight: dtype.I3, Act: dtype.BF16, Scale: dtype.F16, Group: 32}, 70, 300, 256, WideSchedule{Rows: 64, Parts: 2, AddBias: true, AddResidual: true}},
}

// TestWide multiplies with warpgroups on the interpreter and the simulator.
func TestWide(t *testing.T) { checkWideCases(t, wideCases, 4) }

// TestWideStaged multiplies by some of these schedules where results leave by rows, and by all of them with -every.
func TestWideStaged(t *testing.T) {
	var cases []wideCase
	for i, c := range wideCases {
		if c.s.Staged = true; *every || i%3 == 0 {
			cases = append(cases, c)
		}
	}
	checkWideCases(t, cases, 4)
}

// TestFolded multiplies with scales of groups of whole turns folded into operands, of every type where weights are read as other
// programs have them: whose casts are exact, or leave powers of two.
func TestFolded(t *testing.T) {
	schedules := []WideSchedule{
		{Rows: 64}, {Rows: 32, Sides: 2, Blocks: 3}, {Rows: 64, Splits: 2, Joint: true, Staged: true}, {Rows: 32, Persistent: true, Consumers: 2, Cluster: 2},
		{Rows: 32, Fine: true, Sides: 2}, {Rows: 64, Whole: true, AddBias: true, AddResidual: true}, {Rows: 16, Parts: 2}, {Rows: 32, Sides: 2, Splits: 2}, {Rows: 16, Parts: 2, Fine: true},
	}
	folds, raised, done := 0, 0, map[int]bool{}
	for i, w := range weights() {
		for j, act := range []dtype.Type{dtype.F16, dtype.BF16} {
			f := Form{Weight: w, Act: act, Scale: act, Group: []int{128, 256}[(i+j)%2], Exact: true}
			f.Zero = w.IsInt() && !w.Signed() && w.Bits() > 2 && (i+j)%2 == 0
			p, err := PlanOf(f)
			if err != nil || !f.Expands(2) { // scales of one bit are few
				continue
			}
			q := p.Folding()
			if q == nil {
				if p.Recipe != nil && w != dtype.U1 { // whose powers are too far apart
					t.Errorf("%s to %s, zero points %v: not folded", w, act, f.Zero)
				}
				continue
			}
			if folds++; q.Raise > 0 {
				raised++
			}
			if !*every && (i+j)%3 != 0 {
				continue
			}
			at, s := 0, WideSchedule{}
			for k := range schedules {
				at = (i/2 + 3*j + k) % len(schedules)
				s = schedules[at]
				s.Folded = true
				if _, err := s.Filled(p); err == nil && s.Rows <= p.Most(s) {
					break
				}
				s = WideSchedule{Rows: 16, Consumers: 1, Folded: true}
			}
			done[at] = true
			t.Run(fmt.Sprintf("%+v_%s", f, s), func(t *testing.T) {
				l := randomLayer(f, s.Rows-3, 150, 392, rand.New(rand.NewPCG(uint64(i), 11)))
				for at := range l.s.Len() { // up to the greatest that are folded
					l.s.SetCode(at, f.Scale.Encode(f.Scale.Decode(l.s.Code(at))*math.Ldexp(1, min(q.To, 6)-1), false))
				}
				for _, name := range machines(i) {
					l.checkWide(t, machine(t, name), s)
				}
			})
		}
	}
	if folds < 60 || raised < 10 || len(done) < len(schedules)-1 {
		t.Errorf("%d forms are folded, %d of them with operands raised, by %d schedules", folds, raised, len(done))
	}
	for _, f := range []Form{{Weight: dtype.U1, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: true}, {Weight: dtype.I4, Act: dtype.F16, Scale: dtype.F16, Group: 64}, {Weight: dtype.I4, Act: dtype.BF16, Scale: dtype.F16, Group: 128}} {
		p, err := PlanOf(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (WideSchedule{Folded: true}).Filled(p); err == nil || !strings.Contains(err.Error(), "leave Folded out") {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// TestFoldedAssembles has ptxas assemble the schedules with folded scales that many rows take first: nothing of a thread goes to
// memory, and products go on beside its threads.
func TestFoldedAssembles(t *testing.T) {
	types := []dtype.Type{dtype.I4, dtype.F6E3M2, dtype.U3}
	if *every {
		types = weights()
	} else if testing.Short() {
		types = types[:1]
	}
	for _, w := range types {
		for _, act := range []dtype.Type{dtype.F16, dtype.BF16} {
			f := Form{Weight: w, Act: act, Scale: act, Group: 128}
			p, err := PlanOf(f)
			if err != nil {
				t.Fatal(err)
			}
			if p.Folding() == nil || act == dtype.BF16 && !*every && w != types[0] {
				continue
			}
			done := 0
			for _, m := range []int{256, 1024} {
				for _, stay := range []bool{false, true} {
					left := 2
					for _, s := range WideCandidates(p, m, 57344, 8192, stay, true, H200()) {
						if !s.Folded || left == 0 {
							continue
						}
						left, done = left-1, done+1
						program, err := Wide(f, s)
						if err != nil {
							t.Fatal(err)
						}
						made, err := assembled(t, program)
						if err != nil || made.Spills() > 0 || strings.Contains(made.Said, "serialized") {
							t.Errorf("%s to %s, %s: %v\n%s", w, act, s, err, made.Said)
						}
					}
				}
			}
			if done < 6 {
				t.Errorf("%s to %s: %d schedules", w, act, done)
			}
		}
	}
}

// jointCases are schedules whose splits are clusters.
var jointCases = []wideCase{
	{Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 70, 140, 250, WideSchedule{Rows: 64, Consumers: 1, Splits: 3, Once: true, Joint: true}}, // the third has no turn
	{Form{Weight: dtype.F6E3M2, Act: dtype.F16, Scale: dtype.F16}, 20, 66, 384, WideSchedule{Rows: 32, Consumers: 1, Splits: 2, Joint: true}},
	{Form{Weight: dtype.U3, Act: dtype.F16, Scale: dtype.F16, Group: 64, Zero: true}, 20, 300, 400, WideSchedule{Rows: 16, Parts: 4, Splits: 2, AddBias: true, Joint: true}},
	{Form{Weight: dtype.U1, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 64, 600, 256, WideSchedule{Rows: 64, Parts: 8, Splits: 2, Joint: true}},
	{Form{Weight: dtype.U4, Act: dtype.BF16, Scale: dtype.F16, Group: 128}, 33, 260, 640, WideSchedule{Rows: 32, Sides: 2, Splits: 4, Fine: true, AddResidual: true, Joint: true}},
	{Form{Weight: dtype.U8, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 70, 140, 400, WideSchedule{Rows: 64, Consumers: 2, Splits: 2, Staged: true, Joint: true}},
	{Form{Weight: dtype.U2, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 64, 140, 260, WideSchedule{Rows: 64, Parts: 2, Splits: 2, Joint: true}},
	{Form{Weight: dtype.U6, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 20, 300, 400, WideSchedule{Rows: 16, Parts: 2, Sides: 2, Splits: 3, Joint: true, AddBias: true, AddResidual: true}},
}

// TestWideJoint multiplies by schedules whose splits are clusters.
func TestWideJoint(t *testing.T) { checkWideCases(t, jointCases, 1) }

// TestStagedStores holds results that leave by rows to stores of 16 bytes, where N allows them.
func TestStagedStores(t *testing.T) {
	for _, w := range []dtype.Type{dtype.U4, dtype.U5, dtype.U2} {
		for _, s := range []WideSchedule{{Rows: 64, Splits: 2}, {Rows: 16, Consumers: 1}, {Rows: 32, Consumers: 2, Blocks: 132}} {
			s.Staged = true
			f := Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128}
			if p, err := PlanOf(f); err != nil || p.Most(s) < s.Rows {
				s.Parts, s.Blocks = p.Tiles, 0
			}
			program, err := Wide(f, s)
			if err != nil {
				t.Fatal(err)
			}
			c, err := compile.Program(program, compile.Options{Divisible: map[string]int64{"N": 8, "K": 128}})
			if err != nil {
				t.Fatal(err)
			}
			code, err := c.PTX()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(code, "st.global.b16") || !strings.Contains(code, "st.global.v4.b32") {
				t.Errorf("%s, %s: results are stored one by one", w, s)
			}
		}
	}
}

// TestPartsLeaveRoom holds that results of warpgroups that share tiles take no room from stages, but need so many.
func TestPartsLeaveRoom(t *testing.T) {
	for _, c := range []struct {
		w    dtype.Type
		s    WideSchedule
		want string
	}{
		{dtype.U3, WideSchedule{Rows: 128, Parts: 2, Stages: 4, Folded: true}, ""},
		{dtype.U5, WideSchedule{Rows: 128, Parts: 2, Stages: 4, Folded: true}, ""},
		{dtype.U5, WideSchedule{Rows: 256, Parts: 4, Stages: 2, Folded: true}, ""},
		{dtype.U1, WideSchedule{Rows: 32, Parts: 2, Stages: 4}, ""},
		{dtype.U1, WideSchedule{Rows: 32, Parts: 2, Stages: 3}, "results of 512 outputs take the place of x of 4"},
	} {
		p, err := PlanOf(Form{Weight: c.w, Act: dtype.F16, Scale: dtype.F16, Group: 128})
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.s.Filled(p)
		if c.want == "" && (err != nil || !s.Staged) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, %s: %v", c.w, s, err)
		}
	}
}

// checkWideCases multiplies on the interpreter and the simulator; a short test takes every short-th case.
func checkWideCases(t *testing.T, cases []wideCase, short int) {
	for _, name := range []string{"interp", "sim:sm_90a"} {
		d, err := device.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		for i, c := range cases {
			if kind, _, _ := strings.Cut(name, ":"); testing.Short() && i%short != 0 || !slices.Contains(machines(i), kind) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s_%s_%d", name, c.form.Weight, c.form.Act, i), func(t *testing.T) {
				randomLayer(c.form, c.m, c.n, c.k, rand.New(rand.NewPCG(uint64(i), 5))).checkWide(t, d, c.s)
			})
		}
	}
}

// TestWideAssembles has ptxas assemble the programs as products take them: nothing of a
// thread goes to memory, and products of a warpgroup go on beside its threads.
func TestWideAssembles(t *testing.T) {
	types := []dtype.Type{dtype.U4, dtype.I4, dtype.U2}
	if *every {
		types = weights()
	}
	if testing.Short() {
		types = types[:1]
	}
	for _, w := range types {
		f := Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128}
		p, err := PlanOf(f)
		if err != nil {
			t.Fatal(err)
		}
		schedules := []WideSchedule{{}, {Splits: 4}, {Blocks: 132}, {Blocks: 132, Staged: true}, {Rows: p.Most(WideSchedule{Persistent: true}), Persistent: true, Cluster: 2}}
		if p.Tiles > 1 {
			rows := min(64, p.Most(WideSchedule{Parts: 2}))
			schedules = append(schedules, WideSchedule{Rows: rows, Parts: 2}, WideSchedule{Rows: rows, Parts: 2, Splits: 4}, WideSchedule{Rows: rows, Consumers: 1, Parts: 2}, WideSchedule{Rows: rows, Parts: 2, Splits: 2, Staged: true})
		}
		if p.Tiles == 1 {
			schedules = append(schedules, WideSchedule{Sides: 2}, WideSchedule{Sides: 2, Blocks: 132}, WideSchedule{Consumers: 1, Sides: 2, Splits: 2}, WideSchedule{Sides: 2, Blocks: 132, Staged: true}, WideSchedule{Splits: 2, Staged: true})
		}
		for _, s := range schedules {
			if s, err := s.Filled(p); err == nil && p.repeats(s) {
				s.Once = true
				schedules = append(schedules, s)
			}
		}
		for _, s := range schedules {
			if s.Persistent && s.Rows < 16 {
				s.Cluster = 1
			}
			program, err := Wide(f, s)
			if err != nil {
				t.Fatal(err)
			}
			made, err := assembled(t, program)
			if err != nil || made.Spills() > 0 || strings.Contains(made.Said, "serialized") {
				t.Errorf("%s %+v: %v\n%s", w, s, err, made.Said)
			}
			t.Logf("%s %+v: %d registers", w, s, made.Registers)
		}
	}
}

// TestWideIsWrittenOnce holds programs to as few products as they need: drivers take as long for code as it
// has instructions, and for those of products longest.
func TestWideIsWrittenOnce(t *testing.T) {
	products := func(f Form, s WideSchedule) int {
		p, err := Wide(f, s)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(text.Format(p), "WgmmaDot(")
	}
	for _, w := range []dtype.Type{dtype.U1, dtype.U2, dtype.U5} {
		f := Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128}
		p, err := PlanOf(f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := WideSchedule{Rows: 64, Consumers: 1, Parts: p.Tiles}.Filled(p) // of one tile each
		if err != nil {
			t.Fatal(err)
		}
		copies := 1
		if p.apartBy() == 0 { // casts of blocks differ
			copies = p.Tiles
		}
		one := products(f, s) / copies
		if most := 3 * Turn / p.halved(s).piece() * p.halves(s); one > most { // begun, repeated and last
			t.Errorf("%s: %d products for each of %d blocks that share tiles, more than %d", w, one, p.Tiles, most)
		}
		if s.Once = true; products(f, s)/copies >= one {
			t.Errorf("%s: %d products, and with two copies of the turn %d", w, products(f, s)/copies, one)
		}
	}
	p, err := PlanOf(Form{Weight: dtype.U8, Act: dtype.F16, Scale: dtype.F16, Group: 128})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (WideSchedule{Whole: true, Once: true}).Filled(p); err == nil || !strings.Contains(err.Error(), "one copy") {
		t.Errorf("a program that has one copy anyway: %v", err)
	}
}

// TestWideForms multiplies with every type of weights; with -every by both types of
// activations and all groups, on the simulator too.
func TestWideForms(t *testing.T) {
	devices := []string{"interp"}
	if *every {
		devices = append(devices, "sim:sm_90a")
	}
	for _, name := range devices {
		d, err := device.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		for i, w := range weights() {
			for j, group := range []int{128, 64, 32, 0} {
				for k, act := range []dtype.Type{dtype.F16, dtype.BF16} {
					if !*every && ((i+j)%4 != 0 || (i/4+k)%2 != 0) || testing.Short() && i%5 != 0 {
						continue
					}
					f := Form{Weight: w, Act: act, Scale: dtype.F16, Group: group}
					f.Zero = w.IsInt() && !w.Signed() && (i+k)%2 == 0
					f.AnyZero = f.Zero && (i+k)%4 == 0
					t.Run(fmt.Sprintf("%s/%+v", name, f), func(t *testing.T) {
						randomLayer(f, 3, 20, 130, rand.New(rand.NewPCG(uint64(i), 6))).checkWide(t, d, WideSchedule{Rows: 8, Consumers: 1, Stages: 2})
					})
				}
			}
		}
	}
}

// TestWideOfFewRows builds what is offered for 8 rows, with results stored by columns and by rows: a block
// with a part of the tiles has as many threads as one with all, but fewer results for them.
func TestWideOfFewRows(t *testing.T) {
	for _, w := range []dtype.Type{dtype.U1, dtype.I2, dtype.U3, dtype.U5} {
		f := Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128}
		p, err := PlanOf(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (WideSchedule{Rows: 8, Consumers: 1, Parts: p.Tiles}).Filled(p); err == nil || !strings.Contains(err.Error(), "16 rows") {
			t.Errorf("%s: blocks of one tile of %d and 8 rows: %v", w, p.Tiles, err)
		}
		parts := 0
		for _, s := range WideCandidates(p, 8, 1024, 1024, false, false, H200()) {
			if s.passes() == 1 || s.Cluster > 1 || s.Splits > 1 {
				continue
			}
			parts++
			for _, s.Staged = range []bool{false, true} {
				if _, err := Wide(f, s); err != nil {
					t.Errorf("%s, %s: %v", w, s, err)
				}
			}
		}
		if parts == 0 && p.Tiles > 2 {
			t.Errorf("%s: no parts are offered", w)
		}
	}
}

// TestWideRoom lowers what would have the least room beside the stages of schedules that are offered: it fits.
func TestWideRoom(t *testing.T) {
	for i, w := range []dtype.Type{dtype.U6, dtype.U4, dtype.U5, dtype.U8, dtype.U2} {
		if testing.Short() && i > 0 {
			break
		}
		f := Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128}
		p, err := PlanOf(f)
		if err != nil {
			t.Fatal(err)
		}
		fullest := map[string]WideSchedule{}
		used := map[string]int{}
		for _, stay := range []bool{false, true} {
			for _, s := range WideCandidates(p, 300, 8192, 28672, stay, true, H200()) {
				q := p.ofWide(s).halved(s)
				w := wide{decoder: &decoder{Plan: q, Schedule: Schedule{Warps: s.units(), Sides: s.Sides}}, s: s}
				kind := fmt.Sprint(s.Shares(), s.Joint, s.Parts > 1, stay)
				if n := s.Stages*w.bytes() + w.aside(); n > used[kind] {
					fullest[kind], used[kind] = s, n
				}
			}
		}
		for kind, s := range fullest {
			program, err := Wide(f, s)
			if err != nil {
				t.Fatal(err)
			}
			c, err := compile.Program(program, compile.Options{Arch: "sm_90a"})
			if err != nil {
				t.Errorf("%s, %s: %v", w, s, err)
			} else if got := c.Func.Launch.SharedBytes - used[kind]; got > 512 {
				t.Errorf("%s, %s: %d bytes more than %d", w, s, got, used[kind])
			}
		}
	}
}
