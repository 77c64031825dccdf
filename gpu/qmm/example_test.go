package qmm_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// A layer is quantised, packed by a program, and multiplied for any number of rows, with a bias; what was packed comes
// back as it was. Cells take the same text (TestExamples of kernel/cell).
func Example() {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	draw := func(spec string) *array.Array {
		a, err := array.Generate(spec)
		check(err)
		return a
	}
	ctx := context.Background()
	layer := qmm.Linear{WeightType: dtype.U3, ActType: dtype.BF16, Group: 32, ScaleType: dtype.BF16, ZeroPoint: true, N: 24, K: 80}
	weights, err := layer.Quantize(ctx, draw("randn:f32[24, 80]:seed=1"))
	check(err)
	fmt.Println(weights.Linear, weights.Codes.Header(), weights.Scales.Header(), weights.Zeros.Header())
	d, err := device.Open("interp")
	check(err)
	packed, err := weights.Pack(ctx, d)
	check(err)
	plain, err := weights.Dequantize(ctx)
	check(err)
	bias := draw("randn:bf16[24]:seed=2")
	for _, rows := range []int{1, 5, 70} {
		x := draw(fmt.Sprintf("randn:bf16[%d, 80]:seed=3", rows))
		y, err := packed.Run(ctx, d, x, qmm.Call{Bias: bias})
		check(err)
		exact := array.MatMulF64(x, plain.Transpose()).Floats()
		for i := range exact {
			exact[i] += bias.At(i % layer.N)
		}
		off := array.RelFro(y.Y, array.FromFloats(dtype.F64, []int{rows, layer.N}, exact))
		fmt.Printf("%d rows by %s: y is %s, off by less than 0.2%%: %v\n", rows, y.Plan, y.Y.Header(), off < 0.002)
	}
	back, err := packed.Unpack(ctx, d)
	check(err)
	fmt.Println("unpacked:", bytes.Equal(back.Codes.Data, weights.Codes.Data) && bytes.Equal(back.Scales.Data, weights.Scales.Data))
	// Output:
	// u3 group=32 scale=bf16 act=bf16 zero scalebits=3 u3[24, 80] bf16[3, 24] bf16[3, 24]
	// 1 rows by decode: y is bf16[1, 24], off by less than 0.2%: true
	// 5 rows by decode: y is bf16[5, 24], off by less than 0.2%: true
	// 70 rows by wide: y is bf16[70, 24], off by less than 0.2%: true
	// unpacked: true
}
