package device

import (
	"math"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// launch is a checked launch of compiled code: what simulator and GPU share.
type launch struct {
	code    *compile.Compiled
	grid    [3]int
	buffers []*array.Array // distinct pointer arguments, in order of first use
	buffer  []int          // per argument: index into buffers, or -1
	bits    []uint64       // per argument: scalar bits
	scalars map[string]int64
}

// prepare checks the arguments as the interpreter does and finds the code for
// them: specialised for what divides the sizes.
func prepare(p *ir.Program, args []ir.Arg, arch string, compiled *programs) (*launch, error) {
	grid, err := interp.CheckArgs(p, args)
	if err != nil {
		return nil, err
	}
	c, err := compiled.get(p, compile.Options{Arch: arch, Divisible: compile.Divisors(p, args)})
	if err != nil {
		return nil, err
	}
	return newLaunch(p, args, grid, c), nil
}

// newLaunch puts checked arguments in the order of the code's parameters.
func newLaunch(p *ir.Program, args []ir.Arg, grid [3]int, c *compile.Compiled) *launch {
	l := &launch{code: c, grid: grid, scalars: map[string]int64{}}
	index := map[*array.Array]int{}
	for i, v := range p.Params {
		a := args[i]
		if v.Type.Kind == ir.Pointer {
			k, ok := index[a.Array]
			if !ok {
				k = len(l.buffers)
				index[a.Array] = k
				l.buffers = append(l.buffers, a.Array)
			}
			l.buffer, l.bits = append(l.buffer, k), append(l.bits, 0)
			continue
		}
		l.scalars[v.Name] = a.Int
		l.buffer, l.bits = append(l.buffer, -1), append(l.bits, scalarBits(v.Type.Elem, a))
	}
	return l
}

func scalarBits(t dtype.Type, a ir.Arg) uint64 {
	switch {
	case t.IsFloat():
		return t.Encode(a.Float, false)
	case t.Bits() == 64:
		return uint64(a.Int)
	}
	return uint64(a.Int) & math.MaxUint32
}

// bufferBytes is an array's size on a device: whole 16-byte units, so that the
// 32-bit words in which packed elements are stored never stick out.
func bufferBytes(a *array.Array) int { return (len(a.Data) + 15) &^ 15 }

// results makes the arguments after the launch out of the buffers' bytes.
func (l *launch) results(p *ir.Program, args []ir.Arg, data [][]byte) []ir.Arg {
	fresh := make([]*array.Array, len(l.buffers))
	for k, a := range l.buffers {
		fresh[k] = a.Clone()
		copy(fresh[k].Data, data[k])
	}
	out := make([]ir.Arg, len(args))
	for i, a := range args {
		if k := l.buffer[i]; k >= 0 {
			a.Array = fresh[k]
		}
		out[i] = a
	}
	return out
}
