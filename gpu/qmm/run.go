package qmm

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/gemm/hopper"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/workers"
)

// Packed are quantised weights in the order that the kernels read, which depends on what [Weights.Pack] found of them: the
// Linear stays as it is.
type Packed struct {
	Linear
	W      *array.Array // u8, of [template.Plan.PackedShape]
	Scales *array.Array // [groups, N] padded, in the plan's order
	Zeros  *array.Array // as Scales, of [template.Plan.ZeroType]; nil without zero points
	One    float64
	Order  *array.Array // [Weights.Order]

	programs programs // that products took
	chosen   sync.Map // without a search, by asked
}

// asked is what [Linear.choice] depends on beside the layer.
type asked struct {
	rows  int
	plan  string
	added bool // a bias or a residual
}

// chosen is what it gives.
type chosen struct {
	Choice
	from string
	err  error
}

// choice is [Linear.choice], which compares models, once for each number of rows.
func (p *Packed) choice(m int, c Call) (Choice, string, error) {
	key := asked{m, c.Plan, c.Bias != nil || c.Residual != nil}
	known, ok := p.chosen.Load(key)
	if !ok {
		out, from, err := p.Linear.choice(m, c)
		known, _ = p.chosen.LoadOrStore(key, chosen{out, from, err})
	}
	is := known.(chosen)
	return is.Choice, is.from, is.err
}

// programs are those that were made before, by what they were made from.
type programs struct {
	mu sync.Mutex
	by map[any]*made
}

// made is a program, once somebody has made it.
type made struct {
	mu      sync.Mutex
	program *ir.Program
}

// get is the program of a key, made where it is a new one; nil remembers nothing.
func (s *programs) get(key any, make func() (*ir.Program, error)) (*ir.Program, error) {
	if s == nil {
		return make()
	}
	s.mu.Lock()
	if s.by == nil {
		s.by = map[any]*made{}
	}
	m := s.by[key]
	if m == nil {
		m = &made{}
		s.by[key] = m
	}
	s.mu.Unlock()
	m.mu.Lock() // others are made beside it
	defer m.mu.Unlock()
	if m.program == nil {
		p, err := make()
		if err != nil {
			return nil, err
		}
		m.program = p
	}
	return m.program, nil
}

// recipe is a program that depends on the layer's form and on what. Programs come from those
// made before, if there are some.
func (l Linear) recipe(made *programs, what any, make func() (*ir.Program, error)) device.Recipe {
	return device.Recipe{Key: fmt.Sprintf("qmm %#v %#v", l.Form(), what), Make: func() (*ir.Program, error) { return made.get(what, make) }}
}

func launchRecipe(ctx context.Context, d device.Device, r device.Recipe, args []ir.Arg) (*device.Result, error) {
	res, err := device.RunRecipe(ctx, d, r, args)
	if err != nil {
		return nil, fmt.Errorf("qmm: %w", err)
	}
	return res, nil
}

// launch runs a program and gives its arguments afterwards.
func launch(ctx context.Context, d device.Device, p *ir.Program, args []ir.Arg) (*device.Result, error) {
	res, err := d.Run(ctx, p, args)
	if err != nil {
		return nil, fmt.Errorf("qmm: %s: %w", p.Name, err)
	}
	return res, nil
}

// zeros is what arguments hold that a launch only writes, or wants to be 0: devices copy
// arguments in and results out, so that all launches may have the same.
var zeros struct {
	mu   sync.Mutex
	data []byte
}

// mostZeros is how many bytes of them are kept.
const mostZeros = 64 << 20

// blank is an array of zeros for a launch to begin with. Nobody may write to it.
func blank(t dtype.Type, shape ...int) *array.Array {
	if err := array.CheckShape(t, shape...); err != nil {
		panic(err.Error())
	}
	a := &array.Array{Type: t, Shape: shape}
	n := dtype.PackedBytes(t.Bits(), a.Len())
	if n > mostZeros {
		return array.New(t, shape...)
	}
	zeros.mu.Lock()
	defer zeros.mu.Unlock()
	if zeros.data == nil { // all at once: pages that nobody reads cost nothing, growing within a product some milliseconds
		zeros.data = make([]byte, mostZeros)
	}
	a.Data = zeros.data[:n:n]
	return a
}

// Takes says of x of another shape than [M, K], or nil, what may be meant, and finds numbers of rows that there are not.
func (l Linear) Takes(x *array.Array) error {
	l = l.typed()
	if x == nil {
		return fmt.Errorf("qmm: no x; the layer takes %s[M, %d]", l.ActType, l.K)
	}
	way := ""
	switch s := x.Shape; {
	case len(s) == 2 && s[1] == l.K:
		return l.holdsRows(s[0])
	case len(s) == 1 && s[0] == l.K:
		way = fmt.Sprintf("; one row is [1, %d]", l.K)
	case len(s) == 2 && s[0] == l.K:
		way = "; is it transposed?"
	case len(s) == 2 && s[1] == l.N && l.N != l.K:
		way = fmt.Sprintf("; are the weights transposed? They are [N, K], here [%d, %d]", l.N, l.K)
	}
	return fmt.Errorf("qmm: x is %s, the layer takes %s[M, %d]%s", x.Header(), l.ActType, l.K, way)
}

// holdsRows finds numbers of rows whose x or y no array holds.
func (l Linear) holdsRows(m int) error {
	if err := checkRows(m); err != nil {
		return err
	}
	for _, of := range []struct {
		name string
		n    int
	}{{"x", l.K}, {"y", l.N}} {
		if array.CheckShape(l.ActType, m, of.n) != nil {
			return fmt.Errorf("qmm: %s %s[%d, %d] is beyond %d bytes; multiply x in parts", of.name, l.ActType, m, of.n, array.MaxBytes)
		}
	}
	return nil
}

// fitting reports what a product needs beside x and y if no array holds it.
func fitting(what string, t dtype.Type, shape []int) error {
	if array.CheckShape(t, shape...) != nil {
		return fmt.Errorf("qmm: %s %s%v is beyond %d bytes; multiply x in parts", what, t, shape, array.MaxBytes)
	}
	return nil
}

// Of what products need, as [fitting] has it.
const (
	sumsOfBlocks = "memory for sums of blocks"
	sumsOfX      = "memory for sums of x"
	xInOrder     = "x in the order that programs read"
)

func arrays(all ...*array.Array) []ir.Arg {
	var args []ir.Arg
	for _, a := range all {
		if a != nil {
			args = append(args, ir.Arg{Array: a})
		}
	}
	return args
}

func sizes(args []ir.Arg, all ...int) []ir.Arg {
	for _, n := range all {
		args = append(args, ir.Arg{Int: int64(n)})
	}
	return args
}

// Pack brings weights into the order of the kernels, on a device. It looks at the scales and
// zero points that there are, wherever they are from, for what ScaleBits, AnyZero and Far say of them. Scales of f8e8m0
// that nothing but weights of 0 has may be others afterwards.
func (q *Weights) Pack(ctx context.Context, d device.Device) (*Packed, error) {
	if d == nil {
		return nil, fmt.Errorf("qmm: no device to pack weights on; device.Open opens one")
	}
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if err := q.Valid(); err != nil {
		return nil, err
	}
	l, plan, scales, err := q.found()
	if err != nil {
		return nil, err
	}
	pack, err := template.Pack(l.Form())
	if err != nil {
		return nil, err
	}
	res, err := launch(ctx, d, pack, sizes(arrays(q.Codes, array.New(dtype.U8, plan.PackedShape(q.N, q.K)...)), q.N, q.K))
	if err != nil {
		return nil, err
	}
	p := &Packed{Linear: l, W: res.Args[1].Array, Scales: q.ordered(plan, scales), One: q.One}
	if q.Order != nil { // whose owner may change it
		p.Order = &array.Array{Type: q.Order.Type, Shape: slices.Clone(q.Order.Shape), Data: slices.Clone(q.Order.Data)}
	}
	if q.Zeros != nil {
		p.Zeros = q.ordered(plan, q.Zeros.Cast(plan.ZeroType()))
	}
	return p, nil
}

// AsPacked is the layer as [Weights.Pack] finds it to be, of whose programs its products are. The error is that of [Weights.Valid].
func (q *Weights) AsPacked() (Linear, error) {
	if err := q.Valid(); err != nil {
		return q.Linear, err
	}
	l, _, _, err := q.found()
	return l, err
}

// Tensors are the arrays that load of the layer's exported module reads from a .safetensors file: codes u8[N, K], scales
// [groups, N], zeros [groups, N] of the type of the activations where there are zero points, factor f32[] where there is one, and order
// i32[K] where inputs have an Order. A module that adds a bias reads bias [N] of that type too, if it is there. It panics where arrays are
// not those of the layer, of which [Weights.Valid] gives an error.
func (q *Weights) Tensors() map[string]*array.Array {
	if err := q.shaped(); err != nil {
		panic(err.Error())
	}
	codes := array.New(dtype.U8, q.N, q.K)
	n := len(codes.Data)
	workers.Share(workers.Parts(n, n>>16), n, func(_, from, to int) {
		for i := from; i < to; i++ {
			codes.Data[i] = byte(q.Codes.Code(i))
		}
	})
	out := map[string]*array.Array{"codes": codes, "scales": q.Scales}
	if q.Zeros != nil {
		out["zeros"] = q.Zeros
	}
	if q.Factor {
		out["factor"] = array.FromFloats(dtype.F32, []int{}, []float64{q.One})
	}
	if q.Order != nil {
		out["order"] = q.Order
	}
	return out
}

// found is the layer as its zero points and scales are, its plan, and scales that the plan takes.
func (q *Weights) found() (l Linear, plan *template.Plan, scales *array.Array, err error) {
	l = q.Linear
	l.AnyZero = l.AnyZero || q.Zeros != nil && !whole(q.Zeros)
	l.ScaleBits = q.scaleBits(q.Scales, q.Zeros)
	if plan, err = template.PlanOf(l.Form()); err != nil {
		return l, nil, nil, err
	}
	scales, near := q.nearby(plan)
	if fold := plan.Folding(); near && fold != nil && (l.ScaleBits > 0 || l.Rounded) {
		_, near = q.nearby(fold)
	}
	if !near {
		l.Far = true
		plan, err = template.PlanOf(l.Form())
	}
	if err == nil && l.Rounded && !plan.Rounded && !q.inRange() {
		l.Rounded = false
	}
	if err == nil && l.Far && !l.bounded() { // zero points that are not whole leave nothing to fold
		l.Far = false
	}
	return l, plan, scales, err
}

// inRange reports whether the type of the activations has numbers for all weights, whatever their codes.
func (q *Weights) inRange() bool {
	code := math.Max(q.WeightType.Max(), -q.WeightType.Min())
	if q.WeightType.IsFloat() {
		code = min(code, q.ActType.Max())
	}
	greatest := func(a *array.Array) (most float64) {
		for _, code := range distinct(a) {
			most = max(most, math.Abs(a.Type.Decode(code)))
		}
		return most
	}
	if q.Zeros != nil {
		code += greatest(q.Zeros)
	}
	return code*greatest(q.Scales)*math.Abs(q.One) <= q.ActType.Max() // not of NaN, that powers of two may be
}

// whole reports whether zero points are whole numbers from 0 to 255.
func whole(zeros *array.Array) bool {
	for _, code := range distinct(zeros) {
		if z := zeros.Type.Decode(code); z != math.Trunc(z) || z < 0 || z > dtype.U8.Max() {
			return false
		}
	}
	return true
}

// nearby are scales that a plan folds: of powers of two, those of groups without other weights than 0 become 1 where they are
// others. It reports whether it folds all the rest.
func (q *Weights) nearby(plan *template.Plan) (*array.Array, bool) {
	if !plan.Bounded() {
		return q.Scales, true
	}
	if plan.Exact || plan.Rounded { // scaleBits has looked at all scales, those of groups without other weights than 0 too
		for at := 0; plan.Rounded && plan.Zero && at < q.Scales.Len(); at++ {
			code := plan.Weight.Max() + math.Abs(q.Zeros.Type.Decode(q.Zeros.Code(at)))
			code = plan.Act.Decode(plan.Act.Encode(code, false)) // as programs round it
			if !(code <= plan.Act.Max() && code*math.Abs(q.ScaleType.Decode(q.Scales.Code(at))) <= plan.Greatest()) {
				return q.Scales, false
			}
		}
		least, most := math.Ldexp(1, plan.From), math.Ldexp(1, plan.To+1)
		return q.Scales, !slices.ContainsFunc(distinct(q.Scales), func(code uint64) bool {
			v := math.Abs(q.ScaleType.Decode(code))
			return v != 0 && !(v >= least && v < most)
		})
	}
	one := int(plan.Scale.Encode(1, false))
	within := func(code uint64) bool { return int(code) >= one+plan.From && int(code) <= one+plan.To }
	if !slices.ContainsFunc(distinct(q.Scales), func(code uint64) bool { return !within(code) }) {
		return q.Scales, true
	}
	out := array.New(q.Scales.Type, q.Scales.Shape...)
	copy(out.Data, q.Scales.Data)
	for at := range out.Len() {
		if within(out.Code(at)) {
			continue
		}
		if math.IsNaN(q.Scales.Type.Decode(out.Code(at))) {
			return q.Scales, false // no number, and so is 0 times it
		}
		n, from := at%q.N, at/q.N*q.Group
		for k := from; k < min(from+q.Group, q.K); k++ {
			if q.Codes.At(n, k) != 0 {
				return q.Scales, false
			}
		}
		out.SetCode(at, uint64(one))
	}
	return out, true
}

// ordered is scales or zero points in the plan's order, padded with 0, or scales that are near 1 with 1.
func (q *Weights) ordered(plan *template.Plan, a *array.Array) *array.Array {
	out := array.New(a.Type, plan.Groups(q.K), plan.Padded(q.N))
	if plan.Near && a.Type == plan.Scale {
		for i := range out.Data {
			out.Data[i] = byte(plan.Scale.Encode(1, false))
		}
	}
	for g := range a.Shape[0] {
		for n := range q.N {
			out.SetCode(g*out.Shape[1]+plan.ScaleIndex(n), a.Code(g*q.N+n))
		}
	}
	return out
}

// Unpack is the inverse of [Weights.Pack].
func (p *Packed) Unpack(ctx context.Context, d device.Device) (*Weights, error) {
	if d == nil {
		return nil, fmt.Errorf("qmm: no device to unpack weights on; device.Open opens one")
	}
	if err := cmp.Or(ended(ctx), p.complete()); err != nil {
		return nil, err
	}
	plan, err := template.PlanOf(p.Form())
	if err != nil {
		return nil, err
	}
	unpack, err := template.Unpack(p.Form())
	if err != nil {
		return nil, err
	}
	res, err := launch(ctx, d, unpack, sizes(arrays(array.New(p.WeightType, p.N, p.K), p.W), p.N, p.K))
	if err != nil {
		return nil, err
	}
	plain := func(a *array.Array) *array.Array {
		if a == nil {
			return nil
		}
		out := array.New(a.Type, p.Groups(), p.N)
		for g := range out.Shape[0] {
			for n := range p.N {
				out.SetCode(g*p.N+n, a.Code(g*a.Shape[1]+plan.ScaleIndex(n)))
			}
		}
		return out
	}
	q := &Weights{Linear: p.Linear, Codes: res.Args[0].Array, Scales: plain(p.Scales), Zeros: plain(p.Zeros), One: p.One, Order: p.Order}
	if q.Zeros != nil {
		q.Zeros = q.Zeros.Cast(p.ActType)
	}
	return q, nil
}

// The plans of a product. In front of all of them [template.Gather] brings x into the order of the weights, where these have one.
const (
	Decode  = "decode"  // one launch of [template.Decode]
	Wide    = "wide"    // x brought into order by [template.Arrange], then [template.Wide]
	Prefill = "prefill" // the same with blocks that stay, in clusters
	Expand  = "expand"  // weights made plain by [template.Expand], then a product of plain numbers
)

// Call is what a product has beside x. The zero value chooses.
type Call struct {
	Bias     *array.Array // [N] or [1, N], added to each row
	Residual *array.Array // [M, N], added
	// Plan is one of those above, or "" for what [Linear.ChooseOn] takes.
	Plan string
	// Schedule is that of Decode; nil takes what [Linear.ChooseOn] does. Its AddBias and
	// AddResidual follow Bias and Residual.
	Schedule *template.Schedule
	// Soon is for who has not run such a product yet and would rather have its result than wait for
	// the fastest program: it takes Decode with [template.Plan.Soon], of which machine code is made in
	// a fraction of the time, whatever the type, and which is the same program for all numbers of
	// rows. The more rows there are, the slower it is beside the fastest, which [Packed.Prepare] of the call
	// without Soon makes when there is time for it. Results are as exact, and depend on nothing but the call, but programs
	// add up in orders of their own: with Soon and without, last bits may differ. Plan and Schedule are left
	// out beside it.
	Soon bool
	// Store is where schedules that were found on this machine are kept; nil is the
	// user's.
	Store *tune.Store
}

// PlanFor is the plan that m rows of x take on an H200: Decode for few; for more what the
// models of all plans expect most of. Expand takes no bias, no residual and
// no ragged sizes, and where it would round weights, only a call's own wish.
func (l Linear) PlanFor(m int, c Call) string {
	if c.Plan != "" {
		return c.Plan
	}
	if c.Soon || c.Schedule != nil || m < WideFrom {
		return Decode
	}
	plans := l.callPlans(m, c)
	switch len(plans) {
	case 0:
		return Decode
	case 1:
		return plans[0]
	}
	if m <= decodeTo {
		if plan := l.tabledPlan(plans, m); plan != "" {
			return plan
		}
	}
	best, least := "", 0.0
	for _, plan := range plans {
		if plan == Decode && m > 32 && l.Group == 128 && l.N*l.K >= decodeMuch {
			continue
		}
		if us := l.planUs(plan, m); best == "" || us < least {
			best, least = plan, us
		}
	}
	return best
}

// callPlans are the plans that a call of m rows may take.
func (l Linear) callPlans(m int, c Call) []string {
	return slices.DeleteFunc(l.Plans(m), func(plan string) bool {
		return plan == Expand && (c.Bias != nil || c.Residual != nil)
	})
}

// tabledPlan is the fastest of some plans whose times a table has; "" where none has any. The tables keep the faster of [Decode]
// and [Wide], so that one which they leave out was slower.
func (l Linear) tabledPlan(plans []string, m int) string {
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return ""
	}
	best, least := "", 0.0
	for _, plan := range plans {
		if us, _ := l.measured(p, plan, m); us > 0 && (best == "" || us < least) {
			best, least = plan, us
		}
	}
	return best
}

// [Decode] is worth a thought beside other plans up to decodeTo rows, beyond 32 in layers of fewer than decodeMuch weights, in
// groups of 128: of 8192 × 8192 with 64 rows it takes 1.14 times as long as [Wide] or longer (tests/record/schedules.json, run f).
const (
	decodeTo   = 4 * WideFrom
	decodeMuch = 1 << 26
)

// Plans are those that m rows may take on a GPU with matrix instructions of warpgroups, if
// nothing is added to the product: results of all of them are about as close to those of the
// weights as those of sums in f32. Expand is among them where the type of the activations
// holds the weights as they are ([template.Form.Expands] with ScaleBits), or they may be Rounded.
func (l Linear) Plans(m int) []string {
	return slices.DeleteFunc(l.Named(m), func(plan string) bool { return plan == Expand && !l.plain() })
}

// Named are [Linear.Plans], and Expand where it rounds weights too: who names it in
// [Call.Plan] takes the error that [template.Expand] tells.
func (l Linear) Named(m int) []string {
	l = l.typed()
	var out []string
	if m <= decodeTo {
		out = append(out, Decode)
	}
	if p, err := template.PlanOf(l.Form()); err == nil && m >= WideFrom/2 {
		if p.Most(template.WideSchedule{}) >= 16 && m <= 8*template.Turn {
			out = append(out, Wide)
		}
		if m >= 2*template.Turn {
			out = append(out, Prefill)
		}
	}
	if m >= template.Turn && l.expandable() == nil {
		out = append(out, Expand)
	}
	if len(out) == 0 {
		out = append(out, Decode)
	}
	return out
}

// expandable says why [Expand] is not for N and K of the layer.
func (l Linear) expandable() error {
	p, err := template.PlanOf(l.Form())
	switch {
	case err != nil:
		return fmt.Errorf("qmm: %w", err)
	case l.K%8 != 0 || l.N%8 != 0:
		return fmt.Errorf("qmm: plan %s takes N and K that are multiples of 8, not [%d, %d]; take plan %s", Expand, l.N, l.K, Prefill)
	case array.CheckShape(l.ActType, l.N, l.K) != nil:
		return fmt.Errorf("qmm: the plain weights %s[%d, %d] of plan %s are beyond %d bytes; take plan %s", l.ActType, l.N, l.K, Expand, array.MaxBytes, Prefill)
	case l.N > p.MostExpanded():
		return fmt.Errorf("qmm: %d outputs by plan %s, which takes at most %d of %s; take plan %s", l.N, Expand, p.MostExpanded(), l.WeightType, Prefill)
	}
	return nil
}

// What [Expand] takes on an H200: bytes and operations a µs, and bytes of plain weights that a product of few rows reads.
const (
	expandRate  = 3.9e6
	plainRate   = 3.0e6
	productRate = 887e6
)

// expandUs is about how many µs Expand takes with m rows on an H200.
func (l Linear) expandUs(m int) float64 {
	n, k, sms := float64(l.N), float64(l.K), template.H200().SMs
	s := plainSchedule(l.Form().Act, m, l.N, sms)
	tiles := plainTiles(m, l.N, s.N)
	waves := 1.0
	if !s.PDL { // else what the last wave leaves idle makes the next weights
		waves = float64((tiles+sms-1)/sms*sms) / float64(tiles) // times as long as if it were as large as all others
	}
	return 6 + n*k*(2+float64(l.WeightType.Bits())/8)/expandRate + max(template.Sustained(2*float64(m)*n*k/productRate*waves), 2*n*k/plainRate)
}

// planUs is about how many µs a plan takes on an H200, as [Linear.PlanFor] compares them.
func (l Linear) planUs(plan string, m int) float64 {
	if plan == Expand {
		return l.expandUs(m)
	}
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return math.Inf(1)
	}
	if plan == Decode {
		s, err := l.Choose(m)
		if err != nil {
			return math.Inf(1)
		}
		return p.Estimate(s, m, l.N, l.K, template.H200())
	}
	s, err := l.WideSchedule(plan, m)
	if err != nil {
		return math.Inf(1)
	}
	return p.EstimateWide(s, m, l.N, l.K, template.H200())
}

// Result is a product and what it took.
type Result struct {
	Y        *array.Array // [M, N]
	Plan     string
	Schedule template.Schedule     // of Decode
	Wide     template.WideSchedule // of Wide and Prefill
	Gathered bool                  // x was brought into the weights' Order first, by a launch of its own
	From     string                // where plan and schedule are from: see [Linear.ChooseOn]
	Device   string
	Choose   time.Duration // the plan, the schedule and the arguments
	Compile  time.Duration // programs, and of them PTX; 0 where it was remembered
	JIT      time.Duration // PTX to machine code
	Exec     time.Duration // the launches
}

// Run multiplies x[M, K] with the weights on a device, which gets copies of all.
func (p *Packed) Run(ctx context.Context, d device.Device, x *array.Array, c Call) (*Result, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	out, steps, err := p.begin(d, x, c)
	if err != nil {
		return nil, err
	}
	out.Compile, out.JIT = device.Ahead(d, steps.recipes, steps.args) // beside what other goroutines run
	var res *device.Result
	for i, r := range steps.recipes {
		if i > 0 {
			steps.pass[i-1](res.Args)
		}
		if res, err = launchRecipe(ctx, d, r, steps.args[i]); err != nil {
			return nil, err
		}
		out.count(res)
	}
	out.Y = res.Args[steps.y].Array
	return out, nil
}

// Prepare makes the machine code that [Packed.Run] takes for m rows of x with the same call, and runs
// nothing: Y of the result is nil. So a server that has begun with [Call.Soon] has the fastest program made
// when nobody waits; results of those two may differ in last bits. Other goroutines may run products on the
// device meanwhile, but NVIDIA's driver (CUDA 13.0) holds them up while it makes machine code
// (TestGPUPrepare: one of six beside it took 408 ms, as long as that). What it has begun it makes to the end, whatever
// becomes of ctx, and Close of the device waits for it.
func (p *Packed) Prepare(ctx context.Context, d device.Device, m int, c Call) (*Result, error) {
	if err := cmp.Or(ended(ctx), p.holdsRows(m)); err != nil {
		return nil, err
	}
	out, steps, err := p.begin(d, blank(p.ActType, m, p.K), c)
	if err != nil {
		return nil, err
	}
	if out.Compile, out.JIT, err = device.Prepare(ctx, d, steps.recipes, steps.args); err != nil {
		return nil, fmt.Errorf("qmm: %w", err)
	}
	return out, nil
}

// steps are the launches of a product, one after the other.
type steps struct {
	recipes []device.Recipe
	args    [][]ir.Arg
	pass    []func(made []ir.Arg) // hands on what each but the last has made
	x       *ir.Arg               // x among all arguments
	y       int                   // the result among the last one's arguments
}

// gather is a product of x by steps that multiply it in the order of the weights: that is made first.
func (p *Packed) gather(x *array.Array, s *steps) {
	m, to := x.Shape[0], s.x
	r := device.Recipe{Key: "qmm gather " + p.ActType.String(), Make: func() (*ir.Program, error) {
		return p.programs.get("gather", func() (*ir.Program, error) { return template.Gather(p.ActType) })
	}}
	args := sizes(arrays(x, p.Order, blank(p.ActType, m, p.K)), m, p.K)
	s.recipes, s.args = slices.Insert(s.recipes, 0, r), slices.Insert(s.args, 0, args)
	s.pass = slices.Insert(s.pass, 0, func(made []ir.Arg) { to.Array = made[2].Array })
}

// complete finds arrays of the packed weights, and of x, a bias and a residual, that are not complete; nil are left out.
func (p *Packed) complete(of ...*array.Array) error {
	for i, a := range append([]*array.Array{p.W, p.Scales, p.Zeros}, of...) {
		if a == nil {
			continue
		}
		if err := complete(a); err != nil {
			return fmt.Errorf("qmm: %s %w", []string{"W of the packed weights", "Scales of the packed weights", "Zeros of the packed weights", "x", "the bias", "the residual"}[i], err)
		}
	}
	return nil
}

// begin checks a call and chooses what runs.
func (p *Packed) begin(d device.Device, x *array.Array, c Call) (*Result, *steps, error) {
	switch {
	case d == nil:
		return nil, nil, fmt.Errorf("qmm: no device to multiply on; device.Open opens one")
	case x != nil && x.Type != p.ActType:
		return nil, nil, fmt.Errorf("qmm: x is %s, the layer takes %s[M, %d]; Cast makes it so", x.Header(), p.ActType, p.K)
	}
	if err := p.Takes(x); err != nil {
		return nil, nil, err
	}
	m := x.Shape[0]
	if err := p.checkOrder(p.Order); err != nil {
		return nil, nil, err
	}
	if b := c.Bias; b != nil && (b.Type != p.ActType || b.Len() != p.N || len(b.Shape) == 0 || b.Shape[len(b.Shape)-1] != p.N) {
		return nil, nil, fmt.Errorf("qmm: the bias is %s, not %s[%d]", b.Header(), p.ActType, p.N)
	}
	if r := c.Residual; r != nil && (r.Type != p.ActType || !slices.Equal(r.Shape, []int{m, p.N})) {
		return nil, nil, fmt.Errorf("qmm: the residual is %s, not %s[%d, %d]", r.Header(), p.ActType, m, p.N)
	}
	switch {
	case c.Soon && c.Plan != "":
		return nil, nil, fmt.Errorf("qmm: Soon takes a plan of its own, and the call names plan %s: leave Plan empty, or prepare it and run without Soon", c.Plan)
	case c.Schedule != nil && c.Plan != "" && c.Plan != Decode:
		return nil, nil, fmt.Errorf("qmm: the call names plan %s and has a schedule of %s: %s; leave one of them out", c.Plan, Decode, c.Schedule)
	case c.Soon && c.Schedule != nil:
		return nil, nil, fmt.Errorf("qmm: Soon takes a schedule of its own, and the call has one: %s; leave Schedule nil, or prepare it and run without Soon", c.Schedule)
	}
	begin := time.Now()
	out := &Result{Device: d.Name()}
	on, store := d.Describe(), c.Store
	if store == nil && on.Driver != "" {
		store, _ = tune.OpenStore("")
	}
	choice, from, err := p.chooseOn(store, on, m, c, p.choice)
	if err != nil {
		return nil, nil, err
	}
	out.Plan, out.From = choice.Plan, from
	var all *steps
	given := x
	if out.Gathered = p.Order != nil; out.Gathered {
		x = blank(p.ActType, m, p.K)
	}
	switch out.Plan {
	case Decode:
		all, err = p.decode(x, c, choice.Schedule, out)
	case Wide, Prefill:
		all, err = p.wide(x, c, choice.Wide, out)
	case Expand:
		if err := p.expandable(); err != nil {
			return nil, nil, err
		}
		if c.Bias != nil || c.Residual != nil {
			return nil, nil, fmt.Errorf("qmm: plan %s takes no bias and no residual; take plan %s, or leave them out", Expand, Prefill)
		}
		all = p.expand(x)
	}
	if err == nil {
		err = p.complete(given, c.Bias, c.Residual)
	}
	if err == nil && out.Gathered {
		p.gather(given, all)
	}
	out.Choose = time.Since(begin)
	return out, all, err
}

// count adds a launch's times up.
func (r *Result) count(l *device.Result) {
	r.Compile, r.JIT, r.Exec = r.Compile+l.Compile, r.JIT+l.JIT, r.Exec+l.Exec
}

func (p *Packed) decode(x *array.Array, c Call, s template.Schedule, out *Result) (*steps, error) {
	plan, err := template.PlanOf(p.Form())
	if err != nil {
		return nil, err
	}
	m := x.Shape[0]
	s.AddBias, s.AddResidual = c.Bias != nil, c.Residual != nil
	if s, err = s.Filled(plan); err != nil {
		return nil, err
	}
	if !s.Takes(plan, p.N, p.K) {
		return nil, fmt.Errorf("qmm: the schedule %s is not for a layer [%d, %d] in groups of %d: warps along k take K in multiples of %d, blocks that stay K in multiples of 8 and padded outputs in whole blocks; leave Schedule nil, or take one of [Linear.Schedules]", s, p.N, p.K, p.Group, template.Turn)
	}
	for i, blocks := range s.Grid(plan, m, p.N) {
		if most := ir.MostBlocks(i); blocks > most {
			return nil, fmt.Errorf("qmm: %d rows of x and %d outputs are %d blocks along dimension %d of the grid of plan %s, %s, which has at most %d; multiply x in parts, or leave Soon, Plan and Schedule out", m, p.N, blocks, i, Decode, s, most)
		}
	}
	out.Schedule = s
	program := p.recipe(&p.programs, s, func() (*ir.Program, error) { return template.Decode(p.Form(), s) })
	args := arrays(p.W, p.Scales, p.Zeros)
	of := len(args)
	args = append(args, arrays(x, c.Bias, c.Residual)...)
	at := len(args)
	args = append(args, ir.Arg{Array: blank(p.ActType, m, p.N)})
	if s.Shares() {
		part, arrived := s.Workspace(plan, m, p.N)
		if err := fitting(sumsOfBlocks, dtype.F32, part); err != nil {
			return nil, err
		}
		args = append(args, arrays(blank(dtype.F32, part...), blank(dtype.I32, arrived))...)
	}
	args = sizes(args, m, p.N, p.K)
	if p.Factor {
		args = append(args, ir.Arg{Float: p.One})
	}
	return &steps{recipes: []device.Recipe{program}, args: [][]ir.Arg{args}, x: &args[of], y: at}, nil
}

func (p *Packed) expand(x *array.Array) *steps {
	program := p.recipe(&p.programs, Expand, func() (*ir.Program, error) { return template.Expand(p.Form()) })
	args := arrays(p.W, p.Scales, p.Zeros, array.New(p.ActType, p.N, p.K))
	at := len(args) - 1
	args = sizes(args, p.N, p.K)
	if p.Factor {
		args = append(args, ir.Arg{Float: p.One})
	}
	m := x.Shape[0]
	sms := template.H200().SMs
	product := device.Recipe{Key: fmt.Sprintf("qmm plain %s %v", p.ActType, plainSchedule(p.ActType, m, p.N, sms)), Make: func() (*ir.Program, error) { return Plain(p.ActType, m, p.N, sms) }}
	plain := sizes(arrays(x, args[at].Array, blank(p.ActType, m, p.N)), m, p.N, p.K, sms)
	return &steps{
		recipes: []device.Recipe{program, product},
		args:    [][]ir.Arg{args, plain},
		pass:    []func([]ir.Arg){func(made []ir.Arg) { plain[1].Array = made[at].Array }},
		x:       &plain[0],
		y:       2,
	}
}

// Plain is the program of a product of plain numbers on a GPU of sms multiprocessors, with
// as many blocks: the last step of gpu/gemm/hopper, with tiles that suit m. Where it asks for the next
// launch before its end it waits for those in front of it before, as [template.Expand] needs.
func Plain(act dtype.Type, m, n, sms int) (*ir.Program, error) {
	p, err := hopper.Matmul(5, plainSchedule(act, m, n, sms))
	if err != nil {
		return nil, fmt.Errorf("qmm: %w", err)
	}
	return p, nil
}

// plainTiles are those of a product of plain numbers, each of 128 rows and so many outputs.
func plainTiles(m, n, outputs int) int { return (m + 127) / 128 * ((n + outputs - 1) / outputs) }

func plainSchedule(act dtype.Type, m, n, sms int) hopper.Schedule {
	s := hopper.Schedule{Type: act, Out: act, N: 256}
	tiles := func() int { return plainTiles(m, n, s.N) }
	if tiles() < sms {
		s.N = 128
	}
	// What makes the next weights takes the multiprocessors that the last wave leaves idle: enough
	// of them to win more than beginning early costs a product, the more the longer it is, and not so
	// many that the last tiles wait for memory. Measured: see RATIONALE.md.
	waves, idle := (tiles()+sms-1)/sms, (sms-tiles()%sms)%sms
	s.PDL = waves <= 8 && 8*idle >= sms && 2*idle <= sms
	return s
}
