package compile

import (
	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/lower/exchange"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/infer"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Parse reads and verifies a program. Layouts that its text leaves out are inferred
// for [DefaultArch]; they are right for every target. See [infer.Parse].
func Parse(file, src string, bind map[string]string) (*ir.Program, error) {
	p, _, err := infer.Parse(file, src, bind, Layouts())
	return p, err
}

// Layouts is what layout inference knows of NVIDIA GPUs, from the catalogue.
//
// Source: PTX ISA, "Matrix fragments", "ldmatrix", "tcgen05.ld".
func Layouts() infer.Target { return nvidia{} }

type nvidia struct{}

// fragmentRegisters is how many of the 255 registers of a thread the fragments of a
// product may take, so that addresses and loop counters still have some.
const fragmentRegisters = 224

func (nvidia) Lanes() int     { return arch.LanesPerWarp }
func (nvidia) Registers() int { return fragmentRegisters }

func (nvidia) Products(operand, result dtype.Type) []infer.Product {
	var out []infer.Product
	for _, f := range ir.DotForms(operand, operand, result) {
		if f.Vec == 1 {
			out = append(out, infer.Product{Name: f.String(), M: f.M, N: 8, K: f.K, A: f.A, B: f.B, C: f.C})
		}
	}
	return out
}

func (nvidia) RowLoads(bits int) []layout.Layout {
	switch bits {
	case 8:
		return []layout.Layout{layout.Spatial(8, 4).Local(1, 4)}
	case 16:
		return []layout.Layout{layout.Spatial(8, 4).Local(1, 2), layout.ColumnSpatial(4, 8).Local(2, 1)} // the second is .trans
	case 32:
		return []layout.Layout{layout.Spatial(8, 4)}
	}
	return nil
}

func (nvidia) TMemoryLoads() []layout.Layout {
	return []layout.Layout{
		layout.Local(2, 1).Spatial(8, 4).Local(1, 2), // 16x256b
		layout.Local(2, 1).Spatial(8, 4),             // 16x128b
		layout.Spatial(32, 1),                        // 32x32b
	}
}

func (nvidia) Conversion(from, to ir.Type) infer.Way {
	c := exchange.Plan(from, to)
	return infer.Way{Cost: c.Cost(), Shared: c.Kind == "shared", Text: c.String()}
}
