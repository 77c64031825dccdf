package tune

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// timed is one program of the corpus with arguments to time it with. Inputs must
// be random.
type timed struct {
	name string
	file string                  // of the corpus; "" for the read kernel, which reads bytes
	o    *template.DecodeOptions // of a program that is no corpus file
	bind string                  // compile-time parameters, "W=u4 BK=32"
	args []string                // one per parameter: a generator of vm/array, or a number

	// want gives what the arrays must be; nil checks nothing. tolerance is the
	// relative error allowed, 0 for none.
	want      func(args []ir.Arg) []*array.Array
	tolerance float64

	bytes  int64 // per launch; 0 is each array once
	clocks bool  // also read in-kernel clocks
}

// gateUp is how many bytes the u4 weights of a gate_up layer [57344, 8192] are.
const gateUp = 57344 * 8192 / 2

// cases are what a run of TestGPUTiming times.
var cases = []timed{
	withClocks(timed{name: "read_235MB", bytes: gateUp}),
	{name: "read_8MB", bytes: 8 << 20},
	{name: "read_34MB", bytes: 32 << 20},
	{
		name: "vector_add_64M", file: "vector_add",
		args: []string{"rand:f32[67108864]:seed=1", "rand:f32[67108864]:seed=2", "zeros:f32[67108864]", "67108864"},
		want: wantSum,
	},
	{
		name: "matmul_scaled_u4_16x8192x8192", file: "matmul_scaled", bind: "W=u4 G=128 BK=128",
		args: []string{"randint:f16[16, 8192]:seed=1", "randcode:u8[64, 1024, 512]:seed=2", "pow2:f16[64, 8192]:seed=3:lo=-1:hi=1",
			"zeros:f16[16, 8192]", "16", "8192", "8192"},
		want: wantScaled("u4", 128),
	},
	withClocks(decode("decode_u4", "gate_up", 1, 57344, 8192)),
	decode("decode_u4_deferred", "gate_up", 1, 57344, 8192),
	schedule("gate_up", 1, 57344, 8192, template.DecodeOptions{PDL: true}),
	decode("decode_u4", "gate_up", 8, 57344, 8192),
	schedule("gate_up", 8, 57344, 8192, template.DecodeOptions{PDL: true}),
	decode("decode_u4", "qkv", 1, 10240, 8192),
	chosen("qkv", 1, 10240, 8192, false),
	chosen("qkv", 1, 10240, 8192, true),
	chosen("qkv", 8, 10240, 8192, false),
	chosen("qkv", 8, 10240, 8192, true),
	decode("decode_u4", "o", 1, 8192, 8192),
	withClocks(chosen("o", 1, 8192, 8192, false)),
	chosen("o", 1, 8192, 8192, true),
	withClocks(chosen("o", 8, 8192, 8192, false)),
	chosen("o", 8, 8192, 8192, true),
	decode("decode_u4", "down", 1, 8192, 28672),
	withClocks(chosen("down", 1, 8192, 28672, false)),
	chosen("down", 1, 8192, 28672, true),
	withClocks(chosen("down", 8, 8192, 28672, false)),
	chosen("down", 8, 8192, 28672, true),
}

// withClocks is the case with in-kernel clocks.
func withClocks(c timed) timed {
	c.clocks = true
	return c
}

// chosen times DecodeU4 as [template.Choose] would have it on an H200.
func chosen(layer string, m, n, k int, pdl bool) timed {
	o, err := template.Choose(template.DecodeOptions{PDL: pdl}, m, n, k, template.H200())
	if err != nil {
		panic(err)
	}
	return schedule(layer, m, n, k, o)
}

// schedule times DecodeU4 on the arguments of decode. Sums and counts of blocks
// are not counted as bytes, so that schedules of a layer are held against one time.
func schedule(layer string, m, n, k int, o template.DecodeOptions) timed {
	file := "decode_u4"
	if o.Splits > 1 {
		file += "_splitk"
	}
	if o.PDL {
		file += "_pdl"
	}
	c := decode(file, layer, m, n, k)
	c.file, c.o = "", &o
	c.bytes = int64(n/16*(k/128)*1024 + 2*(k/128*n+m*k+m*n))
	if o.Splits > 1 {
		counts := n / 16 / max(o.Warps, 1)
		scratch := []string{fmt.Sprintf("zeros:f32[%d, %d, %d]", o.Splits, m, n), fmt.Sprintf("zeros:i32[%d]", counts)}
		c.args = slices.Insert(c.args, 4, scratch...)
		c.want = func(args []ir.Arg) []*array.Array {
			want := wantDecode(args)
			return slices.Insert(want, 4, nil, array.New(dtype.I32, counts))
		}
	}
	return c
}

// decode times decode_u4, or its like on the same bytes, on one linear layer of
// Llama-3.3-70B.
func decode(file, layer string, m, n, k int) timed {
	return timed{
		name: fmt.Sprintf("%s_%s_%dx%dx%d", file, layer, m, n, k), file: file,
		args: []string{
			fmt.Sprintf("randcode:u8[%d, %d, 1024]:seed=1", n/16, k/128), fmt.Sprintf("pow2:f16[%d, %d]:seed=2:lo=-6:hi=-5", k/128, n),
			fmt.Sprintf("randint:f16[%d, %d]:seed=3", m, k), fmt.Sprintf("zeros:f16[%d, %d]", m, n), strconv.Itoa(m), strconv.Itoa(n), strconv.Itoa(k),
		},
		want: wantDecode,
	}
}

// made keeps the arrays of specifications, which the schedules of a layer share.
var made = kept{arrays: map[string]*array.Array{}}

type kept struct {
	mu     sync.Mutex
	arrays map[string]*array.Array
	bytes  int
}

// array generates the array of a specification, or gives the one it has for that
// argument: the caller must not change it. What is kept is bounded.
func (k *kept) array(argument int, spec string) (*array.Array, error) {
	key := fmt.Sprint(argument, " ", spec) // equal arrays of one launch stay apart
	k.mu.Lock()
	a := k.arrays[key]
	k.mu.Unlock()
	if a != nil {
		return a, nil
	}
	a, err := array.Generate(spec)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bytes += len(a.Data); k.bytes > 1<<30 {
		k.bytes = len(a.Data)
		clear(k.arrays)
	}
	k.arrays[key] = a
	return a, nil
}

// wantDecode multiplies with weights unpacked by pack_u4's formula: of 1024 bytes
// for 16 outputs and 128 k, thread 4·g + t holds 16 at 512·u; code n = 8·s + 4·c +
// 2·p + r of them is output g + 8·r at k = 64·u + 16·t + 4·s + 2·p + c.
func wantDecode(args []ir.Arg) []*array.Array {
	w, s, x := args[0].Array, args[1].Array, args[2].Array
	rows, groups, m := w.Shape[0], w.Shape[1], x.Shape[0]
	xs, n := x.Floats(), rows*16
	y := array.New(dtype.F16, m, n)
	scales := s.Floats()
	sums := make([][16]float64, rows*m)
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for row := worker; row < rows; row += 16 {
				for kb := range groups {
					tile := w.Data[(row*groups+kb)*1024:][:1024]
					for i := range m {
						var sum [16]float64
						for at, b := range tile {
							u, lane, half := at/512, at%512/16, at%16
							for j := range 2 {
								nib := half*2 + j
								k := 64*u + 16*(lane%4) + nib/8*4 + nib/2%2*2 + nib/4%2
								sum[lane/4+8*(nib%2)] += float64(b>>(4*j)&15) * xs[i*groups*128+kb*128+k]
							}
						}
						for r := range sum {
							sums[row*m+i][r] += sum[r] * scales[kb*n+row*16+r]
						}
					}
				}
			}
		})
	}
	all.Wait()
	for row := range rows {
		for i := range m {
			for r, v := range sums[row*m+i] {
				y.SetCode(i*n+row*16+r, dtype.F16.Encode(v, false))
			}
		}
	}
	return []*array.Array{nil, nil, nil, y, nil, nil, nil}
}

// program parses the case's program.
func (c timed) program(sms int) (*ir.Program, error) {
	switch {
	case c.o != nil:
		return template.DecodeU4(*c.o)
	case c.file == "":
		return ReadKernel(c.bytes, sms)
	}
	bind := map[string]string{}
	for _, pair := range strings.Fields(c.bind) {
		name, value, _ := strings.Cut(pair, "=")
		bind[name] = value
	}
	return text.Parse(c.file+".tile", corpus.Program(c.file), bind)
}

// hash is the case's hash in the record; sms matters to the read kernel alone.
func (c timed) hash(sms int) (string, error) {
	p, err := c.program(sms)
	if err != nil {
		return "", err
	}
	return Hash(p, append([]string{strconv.FormatInt(c.bytes, 10)}, c.args...)...), nil
}

// make makes program, arguments and options.
func (c timed) make(sms int) (*ir.Program, []ir.Arg, Options, error) {
	read := c.file == "" && c.o == nil
	o := Options{Bytes: c.bytes, Tolerance: c.tolerance, Read: !read, Clocks: c.clocks}
	p, err := c.program(sms)
	if err != nil {
		return nil, nil, o, err
	}
	if read {
		n, err := readElements(c.bytes)
		if err != nil {
			return nil, nil, o, err
		}
		var args []ir.Arg
		args, o.Want = readOn(sms).args(n)
		return p, args, o, nil
	}
	if len(c.args) != len(p.Params) {
		return nil, nil, o, fmt.Errorf("%d arguments for %d parameters", len(c.args), len(p.Params))
	}
	args, errs := make([]ir.Arg, len(c.args)), make([]error, len(c.args))
	var all sync.WaitGroup
	for i, v := range p.Params {
		all.Go(func() {
			switch spec := c.args[i]; {
			case v.Type.Kind == ir.Pointer:
				args[i].Array, errs[i] = made.array(i, spec)
			case v.Type.Elem.IsFloat():
				args[i].Float, errs[i] = strconv.ParseFloat(spec, 64)
			default:
				args[i].Int, errs[i] = strconv.ParseInt(spec, 10, 64)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, nil, o, err
		}
	}
	if c.want != nil {
		o.Want = c.want(args)
	}
	return p, args, o, nil
}

// wantSum is z = x + y.
func wantSum(args []ir.Arg) []*array.Array {
	x, y := args[0].Array, args[1].Array
	z := array.New(dtype.F32, x.Shape...)
	parts := 16
	var all sync.WaitGroup
	for part := range parts {
		all.Go(func() {
			for k := x.Len() * part / parts; k < x.Len()*(part+1)/parts; k++ {
				z.SetCode(k, uint64(f32bits(f32(x, k)+f32(y, k))))
			}
		})
	}
	all.Wait()
	return []*array.Array{nil, nil, z, nil}
}

// wantScaled is matmul_scaled's result for whole numbers and powers of two, for
// which no order of summing rounds. A tile of weights [bk, 8] lies in b as the
// threads hold it.
func wantScaled(weights string, bk int) func(args []ir.Arg) []*array.Array {
	w, err := dtype.Parse(weights)
	if err != nil {
		panic(err)
	}
	tile, err := layout.Parse(fmt.Sprintf("local(%d, 1).column_spatial(4, 8).local(2, 1)", bk/8))
	if err != nil {
		panic(err)
	}
	return func(args []ir.Arg) []*array.Array {
		a, b, s := args[0].Array, args[1].Array, args[2].Array
		m, n, k := int(args[4].Int), int(args[5].Int), int(args[6].Int)
		group := k / s.Shape[0]
		rows := a.Floats()
		threadBytes := b.Shape[2] / 32
		value := make([]float64, 1<<w.Bits())
		for code := range value {
			value[code] = w.Decode(uint64(code))
		}
		// at[e] is where the bits of element e = 8·k + n of a tile begin.
		at := make([]int, bk*8)
		step := gcd(threadBytes, 16)
		for t := range 32 {
			for slot := range tile.Slots() {
				// Bit by bit: byte i of a thread is byte i%step of its piece i/step.
				bit := slot * w.Bits()
				i := bit / 8
				index := tile.Index(t, slot)
				at[index[0]*8+index[1]] = ((i/step*32+t)*step+i%step)*8 + bit%8
			}
		}
		c := array.New(dtype.F16, m, n)
		sums := make([]float64, m*n)
		var all sync.WaitGroup
		for j := range n / 8 {
			all.Go(func() {
				col := make([]float64, bk)
				for kt := range k / bk {
					data := b.Data[(kt*(n/8)+j)*b.Shape[2]:][:b.Shape[2]]
					for x := range 8 {
						scale := s.At(kt*bk/group, j*8+x)
						for kk := range bk {
							bit := at[kk*8+x]
							col[kk] = scale * value[data[bit/8]>>(bit%8)&byte(len(value)-1)]
						}
						for row := range m {
							sum := 0.0
							for kk, v := range rows[row*k+kt*bk:][:bk] {
								sum += v * col[kk]
							}
							sums[row*n+j*8+x] += sum
						}
					}
				}
			})
		}
		all.Wait()
		for i, v := range sums {
			c.SetCode(i, dtype.F16.Encode(v, false))
		}
		return []*array.Array{nil, nil, nil, c, nil, nil, nil}
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// shuffled is 1 to n in a random order.
func shuffled(n int) []float64 {
	out := make([]float64, n)
	for i, k := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		out[i] = float64(k + 1)
	}
	return out
}
