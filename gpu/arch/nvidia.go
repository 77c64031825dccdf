package arch

import (
	"fmt"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// This file holds what the files nvidia_*.go share. They write families of
// instructions as loops over shapes and types with one formula for the layouts
// of each operand; the layouts are text of the layout algebra, and beside each
// stands the same map in CuTe's notation, written from CuTe's conventions.

const (
	srcMMA   = "PTX ISA 9.0, 9.7.14 matrix instructions"
	srcWGMMA = "PTX ISA 9.0, 9.7.15 asynchronous warpgroup matrix instructions"
	srcTC05  = "PTX ISA 9.0, 9.7.16 tcgen05"
	srcCuTe  = "NVIDIA/cutlass 7107b05, include/cute/atom"
)

// nvidiaAtoms is NVIDIA's part of the catalogue.
func nvidiaAtoms() []Atom {
	var b nvidia
	b.dotProducts()
	b.mma()
	b.mmaSparse()
	b.mmaBlockScaled()
	b.wmma()
	b.wgmma()
	b.tcgen05()
	b.matrixCopies()
	b.tensorCopies()
	b.plainCopies()
	return b.atoms
}

type nvidia struct {
	atoms []Atom
}

func (b *nvidia) add(a Atom) {
	a.Vendor = "nvidia"
	a.Blocks = max(a.Blocks, 1)
	b.atoms = append(b.atoms, a)
}

// chains remembers layouts by their text: thousands of rows share few.
var chains sync.Map

// chain is the layout of a text; a text that is no layout is a slip in this
// package.
func chain(format string, args ...any) layout.Layout {
	return chainText(fmt.Sprintf(format, args...))
}

func chainText(text string) layout.Layout {
	if l, ok := chains.Load(text); ok {
		return l.(layout.Layout)
	}
	l, err := layout.Parse(text)
	if err != nil {
		panic(fmt.Sprintf("arch: %s: %v", text, err))
	}
	chains.Store(text, l)
	return l
}

// operand is an operand whose shape is that of its layout, with as many copies as
// the layout has: for layouts whose formula says both.
func operand(name string, t dtype.Type, l layout.Layout, shape ...int) Operand {
	return Operand{Name: name, Type: t, Shape: shape, Layout: l, Replicas: l.Replicas()}
}

func (o Operand) cute(text string) Operand { o.CuTe = text; return o }

func (o Operand) named(cuteType string) Operand { o.CuTeType = cuteType; return o }

func (o Operand) in(place string) Operand { o.In = place; return o }

func (o Operand) wide(bits int) Operand { o.Bits = bits; return o }

func (o Operand) note(text string) Operand { o.Note = text; return o }

// ptxName is the name of a type in PTX.
func ptxName(t dtype.Type) string { return t.Row().PTX }

// inputs is the types of both inputs in a name: one word where they are equal.
func inputs(a, b dtype.Type) string {
	if a == b {
		return ptxName(a)
	}
	return ptxName(a) + "." + ptxName(b)
}

// cuteWord is a type in the name of a CuTe atom.
func cuteWord(t dtype.Type) string {
	switch t {
	case dtype.U1:
		return "U1"
	case dtype.I32:
		return "S32"
	}
	return strings.ToUpper(ptxName(t))
}

// cuteType is a type of C++ as CuTe's traits name it.
func cuteType(t dtype.Type) string {
	switch t {
	case dtype.F16:
		return "half_t"
	case dtype.BF16:
		return "bfloat16_t"
	case dtype.TF32:
		return "tfloat32_t"
	case dtype.F32:
		return "float"
	case dtype.F64:
		return "double"
	case dtype.I32:
		return "int"
	case dtype.I16:
		return "short"
	case dtype.I8:
		return "signed char"
	case dtype.U8:
		return "unsigned char"
	case dtype.I4:
		return "integer_subbyte<4, true>"
	case dtype.U4:
		return "integer_subbyte<4, false>"
	case dtype.U1:
		return "integer_subbyte<1, false>"
	case dtype.F8E4M3:
		return "float_e4m3_t"
	case dtype.F8E5M2:
		return "float_e5m2_t"
	case dtype.F6E2M3:
		return "float_e2m3_t"
	case dtype.F6E3M2:
		return "float_e3m2_t"
	case dtype.F4E2M1:
		return "float_e2m1_t"
	}
	return ""
}

// cuteMode is one mode of a CuTe layout.
type cuteMode struct{ size, stride int }

// joinModes writes modes of size 1 away.
func joinModes(ms ...cuteMode) string {
	var kept []cuteMode
	for _, m := range ms {
		if m.size > 1 {
			kept = append(kept, m)
		}
	}
	switch len(kept) {
	case 0:
		return "1:0"
	case 1:
		return fmt.Sprintf("%d:%d", kept[0].size, kept[0].stride)
	}
	var size, stride []string
	for _, m := range kept {
		size, stride = append(size, fmt.Sprint(m.size)), append(stride, fmt.Sprint(m.stride))
	}
	return "(" + strings.Join(size, ",") + "):(" + strings.Join(stride, ",") + ")"
}

// threadValue writes a CuTe thread-value layout.
func threadValue(threads, values []cuteMode) string {
	return pairModes(joinModes(threads...), joinModes(values...))
}

// pairModes writes two layouts as the modes of one.
func pairModes(t, v string) string {
	at, av := strings.IndexByte(t, ':'), strings.IndexByte(v, ':')
	return "(" + t[:at] + "," + v[:av] + "):(" + t[at+1:] + "," + v[av+1:] + ")"
}
