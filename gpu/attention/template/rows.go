package template

import (
	"fmt"
	"math"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// RowOptions are the schedule of a program that takes a row a block and keeps it
// in registers, so that memory is read once. Zero fields take the defaults.
type RowOptions struct {
	// Elem is the type of rows: F16, the default, BF16 or F32.
	Elem dtype.Type
	// Columns of a row, a multiple of the elements that the block loads at once: 16
	// bytes a thread. 4096 by default.
	Columns int
	// Warps of a block. Left out, as many as hold 32 elements a thread, up to 16.
	Warps int
	// Approx takes powers of two by the machine's approximation instead of the exact
	// sequence of steps.
	Approx bool
}

func (o *RowOptions) defaults() error {
	if o.Elem == 0 {
		o.Elem = dtype.F16
	}
	if o.Elem != dtype.F16 && o.Elem != dtype.BF16 && o.Elem != dtype.F32 {
		return fmt.Errorf("template: rows of %s; f16, bf16 and f32 come in pieces of 16 bytes", o.Elem)
	}
	if o.Columns == 0 {
		o.Columns = 4096
	}
	if o.Warps == 0 {
		o.Warps = min(max(o.Columns/(32*32), 1), 16)
	}
	piece := 128 / o.Elem.Bits()
	if err := fill([]field{{"warps", &o.Warps, 0, 1, 32, 1}}); err != nil {
		return err
	}
	step := 32 * o.Warps * piece
	return fill([]field{{"columns", &o.Columns, 0, step, 128 * 32 * o.Warps, step}})
}

// rower writes what the programs over rows share.
type rower struct {
	*build.Builder
	o         RowOptions
	raw, wide build.Type // of a row, as stored and in f32
	one       build.Type // a number of the row
}

func (o RowOptions) program(name string) *rower {
	threads, piece := 32*o.Warps, 128/o.Elem.Bits()
	lay := fmt.Sprintf("local(%d).spatial(%d).local(%d)", o.Columns/threads/piece, threads, piece)
	return &rower{build.Program(name, build.Grid("rows"), build.Warps(o.Warps)), o,
		typ("register %s[%d] %s", o.Elem, o.Columns, lay), typ("register f32[%d] %s", o.Columns, lay),
		typ("register f32[1] replicated(1, num_workers=%d)", threads)}
}

// load loads row i of a tensor, or a tensor of one row.
func (r *rower) load(name string, g build.Value, attrs ...build.Attr) build.Value {
	if r.o.Elem == dtype.F32 {
		return r.LoadGlobal(name, g, r.wide, attrs...)
	}
	return r.Cast(name, r.LoadGlobal(name+"_stored", g, r.raw, attrs...), r.wide)
}

func (r *rower) store(g, x build.Value, attrs ...build.Attr) {
	if r.o.Elem != dtype.F32 {
		x = r.Cast("stored", x, r.raw)
	}
	r.StoreGlobal(g, x, attrs...)
}

func (r *rower) reduce(name, op string, x build.Value) build.Value {
	return r.Reduce(name, x, r.one, build.Op(op), build.Dim(0), build.Keepdims("true"))
}

// Softmax is the softmax of the rows of x [rows, Columns]. The largest element of a
// row is taken away before the exponential, so that nothing overflows.
func Softmax(o RowOptions) (*ir.Program, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	r := o.program("softmax_rows")
	x, y := r.Pointer("x", o.Elem), r.Pointer("y", o.Elem)
	rows := r.Scalar("rows", dtype.I32)
	i := r.BlockIndices("i")
	gx := r.ViewGlobal("gx", x, build.Global(o.Elem, rows, o.Columns))
	gy := r.ViewGlobal("gy", y, build.Global(o.Elem, rows, o.Columns))
	f := r.load("f", gx, build.Offset(i, 0), build.Dims(1))
	top := r.reduce("top", "max", f)
	var e build.Value
	if o.Approx {
		down := r.Mul("down", top, -math.Log2E, r.one)
		e = r.Exp2("e", r.Fma("d", f, math.Log2E, down, r.wide), r.wide, build.Approx("true"))
	} else {
		e = r.Exp("e", r.Sub("d", f, top, r.wide), r.wide)
	}
	sum := r.reduce("sum", "sum", e)
	inverse := r.Div("inverse", 1.0, sum, r.one)
	r.store(gy, r.Mul("p", e, inverse, r.wide), build.Offset(i, 0), build.Dims(1))
	return r.Build()
}

// LayerNorm is layer normalisation of the rows of x [rows, Columns]: mean and
// variance in two sweeps over registers, then weight and bias, [Columns].
func LayerNorm(o RowOptions) (*ir.Program, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	r := o.program("layer_norm_rows")
	x, weight, bias, y := r.Pointer("x", o.Elem), r.Pointer("weight", o.Elem), r.Pointer("bias", o.Elem), r.Pointer("y", o.Elem)
	rows, eps := r.Scalar("rows", dtype.I32), r.Scalar("eps", dtype.F32)
	i := r.BlockIndices("i")
	gx := r.ViewGlobal("gx", x, build.Global(o.Elem, rows, o.Columns))
	gw := r.ViewGlobal("gw", weight, build.Global(o.Elem, o.Columns))
	gb := r.ViewGlobal("gb", bias, build.Global(o.Elem, o.Columns))
	gy := r.ViewGlobal("gy", y, build.Global(o.Elem, rows, o.Columns))
	f := r.load("f", gx, build.Offset(i, 0), build.Dims(1))
	share := 1 / float64(o.Columns)
	mean := r.Mul("mean", r.reduce("sum", "sum", f), share, r.one)
	d := r.Sub("d", f, mean, r.wide)
	total := r.reduce("total", "sum", r.Square("square", d, r.wide))
	scale := r.Rsqrt("scale", r.Fma("variance", total, share, eps, r.one), r.one)
	n := r.Mul("n", d, scale, r.wide)
	w, b := r.load("w", gw, build.Offset(0)), r.load("b", gb, build.Offset(0))
	r.store(gy, r.Fma("o", n, w, b, r.wide), build.Offset(i, 0), build.Dims(1))
	return r.Build()
}
