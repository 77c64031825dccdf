package lab

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/checkpoint"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Layer is a linear layer with quantised weights, from [Quantize] or [Checkpoint]. As text it says
// what it is, and what its weights lost or which format they are stored in.
type Layer struct {
	weights *qmm.Weights
	plain   *array.Array // nil of a checkpoint
	format  string       // of a checkpoint
	bias    *array.Array // that its products add; nil without one
	biasErr error        // why there is none of a checkpoint that has one
	packed  *qmm.Packed  // once it is needed
}

// Quantize rounds weights [N, K] to a kind of layer: an element type of 1 to 8 bits or
// a preset ("mxfp4", "nvfp4", …), then words: "group=128" (or "group=channel"),
// "scale=f16", "act=f16", "zero" for zero points, "scalebits=11" for scales that keep all bits of f16 ([qmm.Linear.Quantize] says what they have else). w is an array, or text that [Gen]
// makes one from, such as "model.safetensors:NAME".
func Quantize(kind string, w any) (*Layer, error) {
	if spec, ok := w.(string); ok {
		if err := checkpoint.Plain(spec); err != nil {
			return nil, fmt.Errorf("lab: %w", err)
		}
	}
	plain, err := numbers(w)
	if err != nil {
		return nil, err
	}
	if len(plain.Shape) != 2 {
		return nil, fmt.Errorf("lab: weights are [N, K], not %v", plain.Shape)
	}
	l, err := qmm.Parse(kind, plain.Shape[0], plain.Shape[1])
	if err != nil {
		return nil, err
	}
	q, err := l.Quantize(Context(), plain)
	if err != nil {
		return nil, err
	}
	return &Layer{weights: q, plain: plain}, nil
}

// Checkpoint takes a layer that others have quantised, "FILE.safetensors:LAYER" or "FILE.gguf:LAYER", exactly as it is stored, of
// one of [checkpoint.Formats]; experts that are one array are "FILE.safetensors:LAYER[5]". The layer may be left out where
// the file has one; of others the error lists which there are. x and y are bf16 where its scales are, and beside scales that tell nothing of them
// where its bias is, else f16; or as words say, "act=bf16" or "act=f16"; "rounded" lets products round weights ([qmm.Linear]). Its bias, where not all of it is 0, is what
// [Layer.Run] adds. One that the type of y does not hold as it is leaves all but Run, whose error says so, and [Layer.RunWith] takes another.
func Checkpoint(spec string, words ...string) (*Layer, error) {
	path, name, ok := checkpoint.Split(spec)
	if !ok {
		return nil, fmt.Errorf("lab: %q is no layer of a checkpoint, which is \"FILE.safetensors:LAYER\" or \"FILE.gguf:LAYER\"", spec)
	}
	f, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	q, err := f.Layer(name)
	if err != nil {
		return nil, err
	}
	act := dtype.Type(0)
	for _, word := range words {
		is := map[string]dtype.Type{"act=f16": dtype.F16, "act=bf16": dtype.BF16}[word]
		switch {
		case word == "rounded":
			q.Rounded = true
			continue
		case is == 0:
			return nil, fmt.Errorf("lab: %q says nothing of a layer that is stored; its x and y are \"act=f16\" or \"act=bf16\", and its weights may be \"rounded\"", word)
		case act != 0:
			return nil, fmt.Errorf("lab: %q say the type of x and y of a layer twice; give one", words)
		}
		act = is
		if q, err = checkpoint.As(q, act); err != nil {
			return nil, err
		}
	}
	l := &Layer{weights: q}
	if l.format, err = f.Format(name); err != nil {
		return nil, err
	}
	l.bias, l.biasErr = f.Bias(name, q.Linear)
	return l, nil
}

func numbers(v any) (*array.Array, error) {
	switch v := v.(type) {
	case *array.Array:
		if v != nil {
			return v, nil
		}
	case string:
		return Gen(v)
	}
	return nil, errors.New("lab: numbers are an array, or text such as \"rand:f16[4, 8]\"")
}

// Run multiplies x [M, K] with the layer on the chosen device (see [Device]): y [M, N].
// x is rounded to the type of the activations first. The bias of a layer from [Checkpoint] is added.
func (l *Layer) Run(x any) (*array.Array, error) { return l.RunWith(x, nil, nil) }

// RunWith is [Layer.Run] with a bias [N] that is added to each row and a residual [M, N] that is
// added, before y is rounded; nil leaves one out, or takes the bias of a layer from [Checkpoint], which "none" leaves out. They are numbers as x
// is, and rounded like it.
func (l *Layer) RunWith(x, bias, residual any) (*array.Array, error) {
	act := func(name string, v any) (*array.Array, error) {
		a, err := numbers(v)
		if err != nil {
			return nil, err
		}
		return l.weights.Activations("lab: "+name, a)
	}
	xs, err := act("x", x)
	if err != nil {
		return nil, err
	}
	var c qmm.Call
	switch {
	case bias == "none":
	case bias != nil:
		if c.Bias, err = act("the bias", bias); err != nil {
			return nil, err
		}
	case l.biasErr != nil:
		return nil, l.biasErr
	default:
		c.Bias = l.bias
	}
	if residual != nil {
		if c.Residual, err = act("the residual", residual); err != nil {
			return nil, err
		}
		if want := []int{xs.Len() / l.weights.K, l.weights.N}; !slices.Equal(c.Residual.Shape, want) {
			return nil, fmt.Errorf("lab: the residual is %v, y is %v", c.Residual.Shape, want)
		}
	}
	d, err := open(chosen())
	if err != nil {
		return nil, err
	}
	if l.packed == nil {
		if l.packed, err = l.weights.Pack(Context(), d); err != nil {
			return nil, err
		}
	}
	res, err := l.packed.Run(Context(), d, xs, c)
	if err != nil {
		return nil, err
	}
	return res.Y, nil
}

// WeightError is what rounding the weights cost, as a part of their norm. It is NaN of a layer from [Checkpoint]: nobody
// has its plain weights here; and where the cell is interrupted.
func (l *Layer) WeightError() float64 {
	if l.plain == nil {
		return math.NaN()
	}
	w, err := l.Dequantize()
	if err != nil {
		return math.NaN()
	}
	return array.RelFro(w, l.plain)
}

// OutputError is how far y of [Layer.Run] is from the product with the plain weights in
// float64, as a part of its norm; of a layer from [Checkpoint], from that with its weights as [Layer.Dequantize] has them, and its bias.
func (l *Layer) OutputError(x any) (float64, error) {
	xs, err := numbers(x)
	if err != nil {
		return 0, err
	}
	y, err := l.Run(xs)
	if err != nil {
		return 0, err
	}
	plain := l.plain
	if plain == nil {
		if plain, err = l.Dequantize(); err != nil {
			return 0, err
		}
	}
	ctx, m, n, k := Context(), y.Shape[0], y.Shape[1], l.weights.K
	a, b, want := xs.Cast(l.weights.ActType).Floats(), plain.Floats(), make([]float64, m*n)
	for i := range m {
		for j := range n {
			if err := ctx.Err(); err != nil {
				return 0, fmt.Errorf("lab: %w", err)
			}
			for e := range k {
				want[i*n+j] += a[i*k+e] * b[j*k+e]
			}
			if l.bias != nil {
				want[i*n+j] += l.bias.At(j)
			}
		}
	}
	return array.RelFro(y, array.FromFloats(dtype.F64, y.Shape, want)), nil
}

// BitsPerWeight is what a weight takes, with its share of scales and zero points.
func (l *Layer) BitsPerWeight() float64 {
	return 8 * float64(l.weights.Bytes()) / float64(l.weights.N*l.weights.K)
}

// Time is how many µs a product of so many rows of x takes on an H200 with a layer of this
// kind, of n outputs and k inputs: "measured", with this type of weights or one that is
// stored alike, or "expected" by the model of its programs; neither a bias nor what brings x into an order is counted.
func (l *Layer) Time(n, k, rows int) (us float64, from string, err error) {
	if err := someRows(rows); err != nil {
		return 0, "", err
	}
	kind := l.weights.Linear
	kind.N, kind.K = n, k
	return kind.Known(rows)
}

// Program is the program that multiplies so many rows of x on an H200: from 17 rows on it may be one that reads
// x in an order of its own, and of many rows that which makes the weights plain, before a product
// of plain numbers. It adds the bias that [Layer.Run] adds. [Layer.Gathering] is what runs in front of it.
func (l *Layer) Program(rows int) (*ir.Program, error) {
	if err := someRows(rows); err != nil {
		return nil, err
	}
	kind, err := l.weights.AsPacked()
	if err != nil {
		return nil, err
	}
	form := kind.Form()
	switch plan := kind.PlanFor(rows, qmm.Call{Bias: l.bias}); plan {
	case qmm.Wide, qmm.Prefill:
		s, err := kind.WideSchedule(plan, rows)
		if err != nil {
			return nil, err
		}
		s.AddBias = l.bias != nil
		return template.Wide(form, s)
	case qmm.Expand:
		return template.Expand(form)
	}
	s, err := kind.Choose(rows)
	if err != nil {
		return nil, err
	}
	s.AddBias = l.bias != nil
	return template.Decode(form, s)
}

// someRows finds numbers of rows that no x has.
func someRows(rows int) error {
	if rows < 1 || rows > qmm.MaxSize {
		return fmt.Errorf("lab: %d rows of x: there are 1 to %d", rows, qmm.MaxSize)
	}
	return nil
}

// Packing is the program that brings the weights into the order of [Layer.Program].
func (l *Layer) Packing() (*ir.Program, error) {
	kind, err := l.weights.AsPacked()
	if err != nil {
		return nil, err
	}
	return template.Pack(kind.Form())
}

// Gathering is the program that brings x into the order of inputs that the layer has, [Layer.Order], in front of [Layer.Program]; nil
// where it has none.
func (l *Layer) Gathering() (*ir.Program, error) {
	if l.weights.Order == nil {
		return nil, nil
	}
	return template.Gather(l.weights.ActType)
}

// Weights are the layer's quantised weights, of package qmm, which cells import too: its functions pack them, and multiply with a
// schedule of one's own, without a Layer. With [Context] as theirs they end when the cell is interrupted.
func (l *Layer) Weights() *qmm.Weights { return l.weights }

// Codes are the weights as they are stored, [N, K]; with [Layer.Order] in that order. They are the layer's own: copy what is to be changed.
func (l *Layer) Codes() *array.Array { return l.weights.Codes }

// Order is which column of x each k of the codes is of, i32[K], of a layer from [Checkpoint] that is quantised with act-order; nil of
// others, whose inputs are in the order of x.
func (l *Layer) Order() *array.Array { return l.weights.Order }

// Scales are [groups, N]. They are the layer's own: copy what is to be changed.
func (l *Layer) Scales() *array.Array { return l.weights.Scales }

// Bias is what products of a layer from [Checkpoint] add, [N] of the type of y; nil without one, and where all of it was 0. The error is of
// one that this type does not hold as it is.
func (l *Layer) Bias() (*array.Array, error) { return l.bias, l.biasErr }

// Dequantize is the weights as f32 [N, K]. The error is of a cell that is interrupted.
func (l *Layer) Dequantize() (*array.Array, error) { return l.weights.Dequantize(Context()) }

func (l *Layer) String() string {
	text := fmt.Sprintf("%s [%d, %d]: %.3f bits a weight", l.weights.Linear, l.weights.N, l.weights.K, l.BitsPerWeight())
	if l.plain == nil {
		text += ", from " + l.format
		if l.weights.Order != nil {
			text += " with act-order"
		}
		if l.bias != nil || l.biasErr != nil {
			text += ", with a bias"
		}
		return text
	}
	return text + fmt.Sprintf(", rounding costs %.2f%% of the weights' norm", 100*l.WeightError())
}
