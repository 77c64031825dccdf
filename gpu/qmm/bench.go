package qmm

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Shape is a layer of a model: N outputs of K inputs, Count times.
type Shape struct {
	Name  string
	N, K  int
	Count int
}

// Model is the linear layers of a language model, without embedding and output head.
type Model struct {
	Name   string
	Shapes []Shape
}

// Models are the models that are measured. Source: their config.json: hidden size,
// heads, key-value heads, size of a head, intermediate size, layers.
func Models() []Model {
	make := func(name string, hidden, heads, kv, head, inner, layers int) Model {
		return Model{name, []Shape{
			{"gate_up", 2 * inner, hidden, layers}, {"down", hidden, inner, layers},
			{"qkv", (heads + 2*kv) * head, hidden, layers}, {"o", hidden, heads * head, layers},
		}}
	}
	return []Model{
		make("llama-3.3-70b", 8192, 64, 8, 128, 28672, 80),
		make("qwen2.5-32b", 5120, 40, 8, 128, 27648, 64),
		make("gemma-2-9b", 3584, 16, 8, 256, 14336, 42),
	}
}

// FindModel is a model by its name.
func FindModel(name string) (Model, error) {
	var names []string
	for _, m := range Models() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Model{}, fmt.Errorf("qmm: no model %q; there are %s", name, strings.Join(names, ", "))
}

// Row is what was measured of a layer.
type Row struct {
	Layer     string                 `json:"layer"`
	Weight    string                 `json:"weight"`
	Act       string                 `json:"act"`
	Scale     string                 `json:"scale"`
	Group     int                    `json:"group"`
	Zero      bool                   `json:"zero_point,omitempty"`
	AnyZero   bool                   `json:"any_zero,omitempty"`
	Factor    bool                   `json:"factor,omitempty"`
	Far       bool                   `json:"far,omitempty"`        // scales may be any
	Rounded   bool                   `json:"rounded,omitempty"`    // weights may be rounded
	ScaleBits int                    `json:"scale_bits,omitempty"` // of layers that [Linear.Quantize] makes
	M         int                    `json:"m"`
	N         int                    `json:"n"`
	K         int                    `json:"k"`
	Plan      string                 `json:"plan,omitempty"` // "" where the schedule says it
	Schedule  template.Schedule      `json:"schedule"`
	Wide      *template.WideSchedule `json:"wide,omitempty"` // of Wide and Prefill
	Tried     int                    `json:"tried"`          // schedules that were timed
	// End is why a search, or who had a time limit, timed no more schedules.
	End tune.End `json:"search_end,omitempty"`
	// Spent is where the time of a search with a time limit went.
	Spent *tune.Spent `json:"spent,omitempty"`
	// ChosenUs is what the schedule takes that a product takes without any search.
	ChosenUs float64 `json:"chosen_us,omitempty"`
	// FastestUs is what the fastest one takes, which is not kept where a shorter program takes little more.
	FastestUs float64 `json:"fastest_us,omitempty"`
	// Error is the relative error of sampled outputs against float64.
	Error float64 `json:"error"`
	// CublasUs is what cuBLAS takes with plain weights in the same run, and OfCublas how
	// many times as fast this is; 0 where it was not measured.
	CublasUs float64 `json:"cublas_us,omitempty"`
	OfCublas float64 `json:"of_cublas,omitempty"`
	tune.Row
}

// fewest is how many schedules a search times that says something of the others.
const fewest = 3

// set has a row tell of a choice.
func (r *Row) set(c Choice) {
	r.Plan, r.Schedule, r.Wide = c.Plan, c.Schedule, nil
	switch c.Plan {
	case Decode:
		r.Plan = ""
	case Wide, Prefill:
		r.Wide = &c.Wide
	}
}

// Choice is what a row tells of.
func (r Row) Choice() Choice {
	c := Choice{Plan: cmp.Or(r.Plan, Decode), Schedule: r.Schedule}
	if r.Wide != nil {
		c.Wide = *r.Wide
	}
	return c
}

// Few reports that the time was up before [fewest] schedules were timed.
func (r Row) Few() bool { return r.End == tune.EndTime && r.Tried < fewest }

// Bench measures layers on a GPU.
type Bench struct {
	g      *tune.GPU
	d      device.Device
	origin tune.Row
	bits   []byte
	reads  map[int64]float64 // µs of the read kernel, by bytes
	clock  func(ctx context.Context, p *ir.Program, args []ir.Arg, o tune.Options) (tune.Timing, error)
	held   *tune.Held // operands of the layer that is measured
	drawn  drawn
}

// drawn are the operands of the layer that was measured last, which all plans and numbers of rows have.
type drawn struct {
	l       Linear
	weights []ir.Arg // with scales and zero points
	rand    rand.PCG // as it is behind them
	m       int
	x       *array.Array // of m rows
}

// workingSet is how many bytes of weights launches rotate over. Four times the L2 cache, which
// other programs are timed with, is not enough: weights that programs ask the cache to give up first
// are what it gives up for the next ones, so that older ones stay, and up to 4% less time was
// measured than over 1.5 or 4 GB, which take the same within 1%. Layers of a model come round no sooner.
const workingSet = 3 << 29

// NewBench opens a GPU for measuring. The error wraps [device.ErrNoGPU] where there is
// none.
func NewBench(commit string) (*Bench, error) {
	g, err := tune.OpenGPU(0)
	if err != nil {
		return nil, err
	}
	d, err := device.Open("cuda")
	if err != nil {
		g.Close()
		return nil, err
	}
	clock := func(ctx context.Context, p *ir.Program, args []ir.Arg, o tune.Options) (tune.Timing, error) {
		if o.WorkingSet == 0 {
			o.WorkingSet = workingSet
		}
		return tune.Time(ctx, g, p, args, o)
	}
	return &Bench{g: g, d: d, origin: tune.Origin(g, commit), reads: map[int64]float64{}, clock: clock, held: &tune.Held{}}, nil
}

// GPU is the name of the GPU and of its driver.
func (b *Bench) GPU() string { return b.g.Title + ", " + b.g.Driver }

// hold keeps a layer's operands on the GPU until others are held.
func (b *Bench) hold(args []ir.Arg) *tune.Held {
	var keep []*array.Array
	for _, a := range args {
		keep = append(keep, a.Array)
	}
	b.held.Only(keep...)
	return b.held
}

// Close gives the GPU back.
func (b *Bench) Close() error {
	b.held.Close()
	b.d.Close()
	return b.g.Close()
}

// operands are random weights, scales and x of a layer in the order of the kernels,
// up to and with y. All bits of codes are random, but for those that are not finite or outside of
// what layers are quantised to; scales and zero points are like those of quantised layers. All but y
// are those of the last call where that was for the same layer, and as many rows.
func (b *Bench) operands(ctx context.Context, l Linear, p *template.Plan, m int) ([]ir.Arg, error) {
	d := &b.drawn
	if d.l != l || d.weights == nil {
		*d = drawn{l: l, rand: *rand.NewPCG(1, 2)}
		var err error
		if d.weights, err = b.weights(ctx, l, p, rand.New(&d.rand)); err != nil {
			return nil, err
		}
	}
	if d.m != m {
		src := d.rand
		r := rand.New(&src)
		normal := make([]uint16, 1<<16)
		for i := range normal {
			normal[i] = uint16(l.ActType.Encode(r.NormFloat64(), true))
		}
		d.m, d.x = m, array.New(l.ActType, m, l.K)
		for i := range d.x.Len() {
			binary.LittleEndian.PutUint16(d.x.Data[2*i:], normal[r.Uint32()>>16])
		}
	}
	args := d.weights[:len(d.weights):len(d.weights)]
	return append(args, arrays(d.x, array.New(l.ActType, m, l.N))...), nil
}

// weights are random weights, scales and zero points of a layer.
func (b *Bench) weights(ctx context.Context, l Linear, p *template.Plan, r *rand.Rand) ([]ir.Arg, error) {
	shape := p.PackedShape(l.N, l.K)
	size := shape[0] * shape[1] * shape[2]
	b.bits = randomBits(b.bits, size)
	w := array.New(dtype.U8, 0)
	w.Shape, w.Data = shape, b.bits[:size]
	if l.WeightType.HasNaN() || l.WeightType.HasInf() {
		w.Data = make([]byte, size)
		for i := range w.Data {
			w.Data[i] = b.bits[i] & 0xbf
		}
	}
	if l.WeightType.Max() > l.ActType.Max() || l.narrow() {
		var err error
		if w, err = b.packed(ctx, l, shape, r); err != nil {
			return nil, err
		}
	}
	some := func(t dtype.Type, codes []uint64, shape ...int) *array.Array {
		a := array.New(t, shape...)
		for i := range a.Len() {
			a.SetCode(i, codes[r.Uint32()%uint32(len(codes))])
		}
		return a
	}
	like, err := l.sample()
	if err != nil {
		return nil, err
	}
	groups, padded := p.Groups(l.K), p.Padded(l.N)
	args := arrays(w, some(l.ScaleType, like.drawn(), groups, padded))
	if l.ZeroPoint {
		args = append(args, arrays(some(p.ZeroType(), distinct(like.Zeros.Cast(p.ZeroType())), groups, padded))...)
	}
	return args, nil
}

// randomBits is at least size random bytes that begin with those there are. Pieces have generators
// of their own, so that processors share them: half a gigabyte by one would take much of a search's time.
func randomBits(bits []byte, size int) []byte {
	const piece = 4 << 20
	if len(bits) >= size {
		return bits
	}
	from := len(bits) / piece
	out := make([]byte, (size+piece-1)/piece*piece)
	copy(out, bits)
	var next atomic.Int64
	var work sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(out)/piece-from) {
		work.Go(func() {
			for i := from + int(next.Add(1)) - 1; i < len(out)/piece; i = from + int(next.Add(1)) - 1 {
				seed := [32]byte{7}
				binary.LittleEndian.PutUint64(seed[8:], uint64(i))
				rand.NewChaCha8(seed).Read(out[i*piece:][:piece])
			}
		})
	}
	work.Wait()
	return out
}

// drawn are codes of scales with the significant bits of a layer's, of sizes with which no
// product of random codes leaves the types of the activations.
func (q *Weights) drawn() []uint64 {
	t := q.ScaleType
	most := -6
	if t == dtype.F8E4M3 { // which has all its bits from 2^-6 on only
		most = -3
	}
	if least, _ := q.Form().Reach(); q.narrow() {
		most = max(most, least+q.ScaleBits+2) // all are within reach
	}
	codes := distinct(q.Scales)
	for i, code := range codes {
		fraction, _ := math.Frexp(t.Decode(code))
		codes[i] = t.Encode(math.Ldexp(fraction, most-i%3), true)
	}
	return codes
}

// packed are weights of random codes of those that layers are quantised to.
func (b *Bench) packed(ctx context.Context, l Linear, shape []int, r *rand.Rand) (*array.Array, error) {
	t := l.WeightType
	var codes []uint64
	for c := range uint64(1) << t.Bits() {
		if l.Form().Counts(t.Decode(c)) {
			codes = append(codes, c)
		}
	}
	some := array.New(t, 1<<14) // whole bytes, over and over
	for i := range some.Len() {
		some.SetCode(i, codes[r.IntN(len(codes))])
	}
	w := array.New(t, l.N, l.K)
	for at := 0; at < len(w.Data); {
		at += copy(w.Data[at:], some.Data)
	}
	pack, err := template.Pack(l.Form())
	if err != nil {
		return nil, err
	}
	res, err := launch(ctx, b.d, pack, sizes(arrays(w, array.New(dtype.U8, shape...)), l.N, l.K))
	if err != nil {
		return nil, err
	}
	return res.Args[1].Array, nil
}

// launchArgs are the arguments of a schedule's program.
func (l Linear) launchArgs(p *template.Plan, s template.Schedule, m int, common []ir.Arg) []ir.Arg {
	args := common[:len(common):len(common)]
	if part, arrived := s.Workspace(p, m, l.N); s.Shares() {
		args = append(args, arrays(array.New(dtype.F32, part...), array.New(dtype.I32, arrived))...)
	}
	args = sizes(args, m, l.N, l.K)
	if l.Factor {
		args = append(args, ir.Arg{Float: 1})
	}
	return args
}

// samples are some outputs of a product in float64.
type samples struct {
	rows, outputs []int
	want          []float64 // by outputs, then rows
}

// samples multiplies some rows with some weights.
func (l Linear) samples(p *template.Plan, args []ir.Arg) (*samples, error) {
	reader, err := p.NewReader()
	if err != nil {
		return nil, err
	}
	w, s := args[0].Array, args[1].Array
	x := args[len(args)-2].Array
	group := func(k int) int {
		if l.Group == 0 {
			return 0
		}
		return k / l.Group
	}
	r := rand.New(rand.NewPCG(3, 4))
	rows := r.Perm(x.Shape[0])
	out := &samples{rows: rows[:min(len(rows), 32)]}
	xs := make([]float64, len(out.rows)*l.K) // those rows of x
	for i, row := range out.rows {
		for k := range l.K {
			xs[i*l.K+k] = x.At(row, k)
		}
	}
	for range 24 {
		n := r.IntN(l.N)
		sums := make([]float64, len(out.rows))
		for k := range l.K {
			v, at := reader.At(w.Data, l.K, n, k), group(k)*s.Shape[1]+p.ScaleIndex(n)
			if l.ZeroPoint {
				v -= args[2].Array.Type.Decode(args[2].Array.Code(at))
			}
			v *= s.Type.Decode(s.Code(at))
			for i := range sums {
				sums[i] += v * xs[i*l.K+k]
			}
		}
		out.outputs, out.want = append(out.outputs, n), append(out.want, sums...)
	}
	return out, nil
}

// off is the relative error of a product's samples.
func (s *samples) off(y *array.Array) float64 {
	var num, den float64
	for i, want := range s.want {
		got := y.At(s.rows[i%len(s.rows)], s.outputs[i/len(s.rows)])
		num, den = num+(got-want)*(got-want), den+want*want
	}
	return math.Sqrt(num / den)
}

// timing is one layer being measured.
type timing struct {
	b      *Bench
	l      Linear
	p      *template.Plan
	common []ir.Arg
	first  *array.Array // the result that all others must come to
	best   Row
	found  []Row // of each choice timed

	sampled *samples    // made for the first result
	quick   bool        // without the read kernel
	until   time.Time   // when no choice but the first may take more time; zero is never
	spent   *tune.Spent // by all choices
}

// worst is the sampled error that no right product has: the result's rounding twice, and that of weights made plain.
func (c Choice) worst(act dtype.Type) float64 {
	worst := math.Ldexp(1, -act.Row().Man-1)
	if c.Plan == Expand {
		worst *= 2
	}
	return worst
}

// off is the relative error of sampled outputs of y against float64, if it is one that a right product has.
func (t *timing) off(y *array.Array, c Choice) (float64, error) {
	if t.sampled == nil {
		var err error
		if t.sampled, err = t.l.samples(t.p, t.common); err != nil {
			return 0, err
		}
	}
	off := t.sampled.off(y)
	if !(off < c.worst(t.l.ActType)) {
		return off, fmt.Errorf("qmm: %s %s [%d, %d, %d] by %s: the relative error is %g", t.l.Name(), t.best.Layer, t.best.M, t.l.N, t.l.K, c, off)
	}
	return off, nil
}

// start begins to measure a layer with m rows.
func (b *Bench) start(ctx context.Context, l Linear, layer string, m int) (*timing, error) {
	t, err := b.about(l, layer, m)
	if err == nil {
		err = t.draw(ctx)
	}
	return t, err
}

// draw makes operands.
func (t *timing) draw(ctx context.Context) (err error) {
	t.common, err = t.b.operands(ctx, t.l, t.p, t.best.M)
	return err
}

// about is what there is to know of a layer and m rows without operands: begin does with it.
func (b *Bench) about(l Linear, layer string, m int) (*timing, error) {
	l, err := l.Check()
	if err != nil {
		return nil, err
	}
	l = l.Usual() // of which operands are drawn
	if err := l.holdsRows(m); err != nil {
		return nil, err
	}
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return nil, err
	}
	row := Row{Layer: layer, Weight: l.WeightType.String(), Act: l.ActType.String(), Scale: l.ScaleType.String(), Group: l.Group, Zero: l.ZeroPoint, AnyZero: l.AnyZero, Factor: l.Factor, Far: l.Far, Rounded: l.Rounded, ScaleBits: l.ScaleBits, M: m, N: l.N, K: l.K}
	header := func(t dtype.Type, shape ...int) *array.Array { return &array.Array{Type: t, Shape: shape} } // until they are drawn
	weights := arrays(header(dtype.U8, 0), header(l.ScaleType, 0))
	if l.ZeroPoint {
		weights = append(weights, arrays(header(p.ZeroType(), 0))...)
	}
	common := append(weights, arrays(header(l.ActType, m, l.K), header(l.ActType, m, l.N))...)
	return &timing{b: b, l: l, p: p, common: common, best: row, spent: &tune.Spent{}}, nil
}

// atOnce is for how many programs at a time code is made: drivers load one after the other,
// and the next one to be timed must not wait for many others.
const atOnce = 2

// launches are a product as it is timed.
type launches struct {
	before  []tune.Launch
	program *ir.Program
	args    []ir.Arg
	y       int // the result among them
}

// launches prepares a choice without zero fields.
func (t *timing) launches(c Choice) (*launches, error) {
	l, m := t.l, t.best.M
	x, y := t.common[len(t.common)-2].Array, len(t.common)-1
	switch c.Plan {
	case Decode:
		program, err := template.Decode(l.Form(), c.Schedule)
		if err != nil {
			return nil, err
		}
		return &launches{program: program, args: l.launchArgs(t.p, c.Schedule, m, t.common), y: y}, nil
	case Expand:
		programs, err := c.programs(l, m)
		if err != nil {
			return nil, err
		}
		// The product multiplies what the launch in front writes. What is only read, and what a launch in
		// front writes, is there twice at least.
		expanded := &array.Array{Type: l.ActType, Shape: []int{l.N, l.K}}
		if x.Data != nil {
			expanded = array.New(l.ActType, l.N, l.K)
		}
		args := sizes(append(t.common[:y-1:y-1], arrays(expanded)...), l.N, l.K)
		if l.Factor {
			args = append(args, ir.Arg{Float: 1})
		}
		return &launches{before: []tune.Launch{{Program: programs[0], Args: args}}, program: programs[1],
			args: sizes(arrays(x, expanded, t.common[y].Array), m, l.N, l.K, template.H200().SMs), y: 2}, nil
	}
	var zeros *array.Array
	if l.ZeroPoint {
		zeros = t.common[2].Array
	}
	w, err := l.wideCall(nil, c.Wide, t.common[0].Array, t.common[1].Array, zeros, x, Call{}, 1)
	if err != nil {
		return nil, err
	}
	arrange, multiply, err := w.programs()
	if err != nil {
		return nil, err
	}
	return &launches{before: []tune.Launch{{Program: arrange, Args: w.arrangeArgs}}, program: multiply, args: w.multiplyArgs, y: w.y}, nil
}

// begin begins to make the code of a choice, while others are timed.
func (t *timing) begin(c Choice) {
	if t.b.g == nil {
		return
	}
	of := *t // whose arrays come and do not matter
	go func() {
		c, err := c.filled(of.p)
		if err != nil {
			return // which time will say
		}
		if k, err := of.launches(c); err == nil {
			for _, b := range k.before {
				of.b.g.Ahead(b.Program, b.Args, tune.Options{})
			}
			of.b.g.Ahead(k.program, k.args, tune.Options{})
		}
	}()
}

// forget forgets code that was begun and not timed.
func (b *Bench) forget() {
	if b.g != nil {
		b.g.Forget()
	}
}

// time measures a choice. Results are checked against float64, and all but the first against that one.
func (t *timing) time(ctx context.Context, c Choice) (tune.Timing, error) {
	b, l := t.b, t.l
	c, err := c.filled(t.p)
	if err != nil {
		return tune.Timing{}, err
	}
	k, err := t.launches(c)
	if err != nil {
		return tune.Timing{}, err
	}
	o := tune.Options{Replays: 7, Before: k.before, Tolerance: c.worst(l.ActType)}
	if c.Plan == Expand { // whose plain weights are no working set of a layer's
		o.WorkingSet = 1
	} else { // the read kernel reads what is only read of the memory: weights and scales
		_, known := b.reads[l.Bytes()]
		o.Bytes, o.Read, o.Held = l.Bytes(), !known && !t.quick, b.hold(t.common)
	}
	if t.best.Tried > 0 {
		o.Until = t.until
	}
	row := Row{}
	row.set(c)
	o.Seen = func(args []ir.Arg) (err error) {
		y := args[k.y].Array
		if row.Error, err = t.off(y, c); err == nil && t.first == nil {
			t.first = y
		}
		return err
	}
	if t.first != nil {
		o.Want = make([]*array.Array, k.y+1)
		o.Want[k.y] = t.first
	}
	took, err := b.clock(ctx, k.program, k.args, o)
	if err != nil {
		return took, err
	}
	if o.Read {
		b.reads[l.Bytes()] = took.ReadUs
	}
	if o.Bytes > 0 {
		took.ReadUs = b.reads[l.Bytes()]
	}
	t.spent.Add(took.Spent)
	t.best.Tried++
	if t.best.Tried == 1 {
		t.best.ChosenUs = took.Median
	}
	name, hash := k.program.Name, tune.Hash(k.program)
	if len(k.before) > 0 {
		front := k.before[0].Program
		name, hash = front.Name+"+"+name, tune.Hash(front, hash)
	}
	row.Row = b.origin.Row(name, hash, took, nil)
	t.found = append(t.found, row)
	best := kept(t.found)
	t.best.set(best.Choice())
	t.best.Error, t.best.Row, t.best.FastestUs = best.Error, best.Row, best.FastestUs
	return took, nil
}

// shorter is how much more than the fastest schedule one may take whose program is shorter, so that
// a first product waits less.
const shorter = 1.005

// kept is the row of the schedule to be kept, of those of one product: of those that take up to
// [shorter] of the fastest one's time the one of the shortest PTX.
func kept(rows []Row) Row {
	fastest := slices.MinFunc(rows, func(a, b Row) int { return cmp.Compare(a.MedianUs, b.MedianUs) }).MedianUs
	rows = slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.MedianUs > shorter*fastest })
	row := slices.MinFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.PTXBytes, b.PTXBytes), cmp.Compare(a.MedianUs, b.MedianUs))
	})
	row.FastestUs = fastest
	return row
}

// Time measures the product of m rows of a layer, taken as [Linear.Usual] has it, by choices, at most, until the time is up, and gives the row of
// the fastest, or of one nearly as fast whose program is shorter: what all its launches take, one behind the
// other, which with [Expand] overlap those in front of them as on a stream. progress, if not nil, hears of each.
func (b *Bench) Time(ctx context.Context, l Linear, layer string, m int, choices []Choice, until time.Time, progress func(Choice, tune.Timing, error)) (Row, error) {
	t, err := b.start(ctx, l, layer, m)
	if err != nil {
		return Row{}, err
	}
	defer b.forget()
	t.until = until
	begun, left := 0, turns{until: until}
	for i, c := range choices {
		if !left.next() {
			t.best.End = tune.EndTime
			break
		}
		for ; begun < min(i+atOnce, len(choices)); begun++ {
			t.begin(choices[begun])
		}
		took, err := t.time(ctx, c)
		if i > 0 && errors.Is(err, tune.ErrLate) {
			t.best.End = tune.EndTime
			break
		}
		if progress != nil {
			progress(c, took, err)
		}
		if err != nil {
			return t.best, err
		}
	}
	t.best.ends(until, t.spent)
	return t.best, nil
}

// ends says in a row of schedules that had until some time how that ended, and where the time went.
func (r *Row) ends(until time.Time, spent *tune.Spent) {
	if !until.IsZero() {
		r.End, r.Spent = cmp.Or(r.End, tune.EndDone), spent
	}
}

// turns says whether there is time for one more schedule: it may take as long as the longest one but
// the first, which also pays what is paid once. There always is for the first.
type turns struct {
	until   time.Time // zero is never
	last    time.Time
	n       int
	longest time.Duration
}

func (t *turns) next() bool {
	now := time.Now()
	if t.n > 1 {
		t.longest = max(t.longest, now.Sub(t.last))
	}
	t.last, t.n = now, t.n+1
	return t.n == 1 || t.until.IsZero() || !now.Add(t.longest).After(t.until)
}

// Read times the read kernel for a row that lacks it: over as many bytes.
func (b *Bench) Read(ctx context.Context, r *Row) error {
	if r.ReadUs > 0 || r.Bytes == 0 {
		return nil
	}
	us, ok := b.reads[r.Bytes]
	if !ok {
		took, err := tune.TimeRead(ctx, b.g, r.Bytes, tune.Options{Replays: 7, WorkingSet: workingSet})
		if err != nil {
			return err
		}
		us = took.Median
		b.reads[r.Bytes] = us
	}
	r.ReadUs, r.Ratio = us, r.MedianUs/us
	return nil
}
