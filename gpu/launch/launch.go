// Package launch turns the arguments of a program into the buffers and scalars of its thread code, and runs and steps
// such launches on the simulator. Devices and pictures share it; it knows no driver.
package launch

import (
	"math"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Launch is a checked launch of compiled code: what simulator and GPU share.
type Launch struct {
	Code    *compile.Compiled
	Grid    [3]int
	Buffers []*array.Array // distinct pointer arguments, in order of first use
	Buffer  []int          // per argument: index into Buffers, or -1
	Bits    []uint64       // per argument: scalar bits
	Scalars map[string]int64
}

// New puts checked arguments in the order of the code's parameters.
func New(p *ir.Program, args []ir.Arg, grid [3]int, c *compile.Compiled) *Launch {
	l := &Launch{Code: c, Grid: grid, Scalars: map[string]int64{}}
	index := map[*array.Array]int{}
	for i, v := range p.Params {
		a := args[i]
		if v.Type.Kind == ir.Pointer {
			k, ok := index[a.Array]
			if !ok {
				k = len(l.Buffers)
				index[a.Array] = k
				l.Buffers = append(l.Buffers, a.Array)
			}
			l.Buffer, l.Bits = append(l.Buffer, k), append(l.Bits, 0)
			continue
		}
		l.Scalars[v.Name] = a.Int
		l.Buffer, l.Bits = append(l.Buffer, -1), append(l.Bits, scalarBits(v.Type.Elem, a))
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

// Bytes is an array's size on a device: whole 16-byte units, so that the
// 32-bit words in which packed elements are stored never stick out.
func Bytes(a *array.Array) int { return (len(a.Data) + 15) &^ 15 }

// Results makes the arguments after the launch out of the buffers' bytes.
func (l *Launch) Results(p *ir.Program, args []ir.Arg, data [][]byte) []ir.Arg {
	fresh := make([]*array.Array, len(l.Buffers))
	for k, a := range l.Buffers {
		fresh[k] = a.Clone()
		copy(fresh[k].Data, data[k])
	}
	out := make([]ir.Arg, len(args))
	for i, a := range args {
		if k := l.Buffer[i]; k >= 0 {
			a.Array = fresh[k]
		}
		out[i] = a
	}
	return out
}
