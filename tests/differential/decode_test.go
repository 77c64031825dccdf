package differential

import (
	"context"
	"math"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// decodeU4 packs weights with pack_u4 and multiplies with decode_u4 or
// decode_u4_splitk.
func decodeU4(t *testing.T, d device.Device, program string, q, scales, x *array.Array) *array.Array {
	t.Helper()
	m, n, k := x.Shape[0], q.Shape[0], q.Shape[1]
	run := func(name string, args ...ir.Arg) []ir.Arg {
		p, err := text.Parse(name, corpus.Program(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := d.Run(context.Background(), p, args)
		if err != nil {
			t.Fatal(err)
		}
		return res.Args
	}
	size := func(n int) ir.Arg { return ir.Arg{Int: int64(n)} }
	w := run("pack_u4", ir.Arg{Array: q}, ir.Arg{Array: array.New(dtype.U8, n/16, k/128, 1024)}, size(n), size(k))[1].Array
	args := []ir.Arg{{Array: w}, {Array: scales}, {Array: x}, {Array: array.New(dtype.F16, m, n)}}
	if program == "decode_u4_splitk" {
		args = append(args, ir.Arg{Array: array.New(dtype.F32, 4, m, n)}, ir.Arg{Array: array.New(dtype.I32, n/16)})
	}
	return run(program, append(args, size(m), size(n), size(k))...)[3].Array
}

// TestDecodeU4IsTheProduct compares pack and decode with a plain float64 loop:
// exactly on integers, and on reals within 1.1 times what f32 accumulation of the
// same f16 products loses, rounding of the result included.
func TestDecodeU4IsTheProduct(t *testing.T) {
	for _, program := range []string{"decode_u4", "decode_u4_splitk"} {
		t.Run(program, func(t *testing.T) { decodeIsTheProduct(t, program) })
	}
}

func decodeIsTheProduct(t *testing.T, program string) {
	const n, k = 48, 512
	gen := func(spec string) *array.Array {
		a, err := array.Generate(spec)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	q := gen("randcode:u4[48, 512]:seed=1")
	for _, name := range []string{"interp", "sim"} {
		d := open(t, name)
		for _, m := range []int{1, 3} {
			x := gen(map[int]string{1: "randint:f16[1, 512]:seed=2", 3: "randint:f16[3, 512]:seed=2"}[m])
			s := gen("pow2:f16[4, 48]:seed=3")
			got := decodeU4(t, d, program, q, s, x)
			for i := range m {
				for j := range n {
					want := 0.0
					for kk := range k {
						want += x.At(i, kk) * q.At(j, kk) * s.At(kk/128, j)
					}
					if g := got.At(i, j); g != dtype.F16.Decode(dtype.F16.Encode(want, false)) {
						t.Fatalf("%s: y[%d, %d] = %v, want %v", name, i, j, g, want)
					}
				}
			}
		}
		x, s := gen("randn:f16[2, 512]:seed=4"), gen("rand:f16[4, 48]:lo=0.01:hi=0.02:seed=5")
		got := decodeU4(t, d, program, q, s, x)
		var ours, plain, norm float64
		for i := range 2 {
			for j := range n {
				ref, acc := 0.0, float32(0)
				for kk := range k {
					v := x.At(i, kk) * q.At(j, kk) * s.At(kk/128, j)
					ref += v
					acc += float32(v)
				}
				rounded := dtype.F16.Decode(dtype.F16.Encode(float64(acc), false))
				ours += (got.At(i, j) - ref) * (got.At(i, j) - ref)
				plain += (rounded - ref) * (rounded - ref)
				norm += ref * ref
			}
		}
		ours, plain, norm = math.Sqrt(ours), math.Sqrt(plain), math.Sqrt(norm)
		if !(ours <= 1.1*plain) || norm == 0 {
			t.Errorf("%s: error %.3g, f32 accumulation %.3g, of norm %.3g", name, ours, plain, norm)
		}
	}
}
