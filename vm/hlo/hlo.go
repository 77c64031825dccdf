// Package hlo holds fusions: small graphs of tensor operations in the text form
// that XLA prints. It reads and writes that text ([Parse], [Format]), checks it
// ([Verify]) and builds it from Go ([Builder]).
//
// A [Module] is a list of computations, one of which is the entry. A
// [Computation] is a list of instructions in which operands come before users;
// one is the root, and its value is that of the computation. An [Instruction]
// has an [Op], a [Shape], operands and attributes. Computations are called by
// fusion, reduce, reduce-window, scatter, map and call.
//
// What instructions compute is defined in vm/hlo/eval, how their elements are
// indexed in vm/hlo/index.
//
// Source: openxla.org/xla/operation_semantics and the HLO text that
// xla/hlo/parser of openxla/xla reads.
package hlo

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Limits of a module. What exceeds them is refused with a located error.
const (
	MaxText         = 4 << 20 // bytes of text
	MaxInstructions = 1 << 16
	MaxRank         = 16
	MaxBytes        = int64(1) << 46 // of one array
	MaxLiteral      = 1 << 20        // elements of a constant
)

// Module is a program: computations that call each other without cycles.
type Module struct {
	Name         string
	Computations []*Computation // callees before callers
	Entry        *Computation
	Extra        []Attr // attributes of the header, kept as text
}

// Find is the computation of that name, or nil.
func (m *Module) Find(name string) *Computation {
	for _, c := range m.Computations {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Computation is a function of its parameters.
type Computation struct {
	Name         string
	Instructions []*Instruction // operands before users; Instructions[i].Index is i
	Params       []*Instruction // by parameter number
	Root         *Instruction
	Pos          diag.Pos
}

// Find is the instruction of that name, or nil.
func (c *Computation) Find(name string) *Instruction {
	for _, in := range c.Instructions {
		if in.Name == name {
			return in
		}
	}
	return nil
}

// Roots are the values of the computation: the operands of a tuple root, or
// the root.
func (c *Computation) Roots() []*Instruction {
	if c.Root.Op == Tuple {
		return c.Root.Operands
	}
	return []*Instruction{c.Root}
}

// Users lists the users of every instruction, by Index, in order of the text;
// a user that reads an instruction twice stands once.
func (c *Computation) Users() [][]*Instruction {
	users := make([][]*Instruction, len(c.Instructions))
	for _, in := range c.Instructions {
		for _, o := range in.Operands {
			if list := users[o.Index]; len(list) == 0 || list[len(list)-1] != in {
				users[o.Index] = append(list, in)
			}
		}
	}
	return users
}

// PostOrder lists the instructions that the root needs, depth first through
// operands from left to right, operands before users; after them those that
// nothing needs, such as unused parameters.
func (c *Computation) PostOrder() []*Instruction {
	out := make([]*Instruction, 0, len(c.Instructions))
	seen := make([]bool, len(c.Instructions))
	type frame struct {
		in   *Instruction
		next int
	}
	visit := func(root *Instruction) {
		if seen[root.Index] {
			return
		}
		seen[root.Index] = true
		stack := []frame{{in: root}}
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.next == len(f.in.Operands) {
				out = append(out, f.in)
				stack = stack[:len(stack)-1]
				continue
			}
			o := f.in.Operands[f.next]
			f.next++
			if !seen[o.Index] {
				seen[o.Index] = true
				stack = append(stack, frame{in: o})
			}
		}
	}
	visit(c.Root)
	for _, in := range c.Instructions {
		visit(in)
	}
	return out
}

// Instruction is one operation on whole tensors.
type Instruction struct {
	Name     string
	Op       Op
	Shape    Shape
	Operands []*Instruction
	Attrs
	// Value is that of a constant: in row-major order of the dimensions, whatever
	// the layout. It is nil for a constant whose literal the text leaves out
	// ("{...}") and for complex numbers.
	Value *array.Array
	Index int      // place in its computation
	Pos   diag.Pos // of the name in the text
}

// Attrs are the attributes of an instruction; which of them mean something
// depends on the operation.
type Attrs struct {
	Number    int          // parameter(n); index of get-tuple-element; iota_dimension; num_carries of scan
	Dims      []int        // dimensions={…}: broadcast, transpose, reduce, concatenate, reverse, …
	Slices    []SliceDim   // slice
	Sizes     []int        // dynamic_slice_sizes of dynamic-slice; slice_sizes of gather
	Pads      []PadDim     // pad
	Window    []WindowDim  // reduce-window, convolution
	Direction string       // compare: EQ NE LT LE GT GE
	Dot       *DotDims     // dot, scaled-dot
	Gather    *GatherDims  // gather
	Scatter   *ScatterDims // scatter
	Conv      *ConvDims    // convolution
	Unique    bool         // scatter, gather: unique_indices
	Sorted    bool         // scatter, gather: indices_are_sorted
	Apply     *Computation // to_apply of reduce, map, scatter, …; calls of fusion
	Kind      string       // of a fusion: kLoop, kInput, kOutput, kCustom
	Extra     []Attr       // attributes without meaning here, kept as text
}

// Attr is an attribute that is kept but not understood.
type Attr struct{ Name, Text string }

// SliceDim is start:limit:stride of one dimension.
type SliceDim struct{ Start, Limit, Stride int }

// PadDim is low_high_interior of one dimension; Lo and Hi may be negative.
type PadDim struct{ Lo, Hi, Interior int }

// WindowDim is one dimension of a window.
type WindowDim struct {
	Size, Stride, Lo, Hi         int
	BaseDilation, WindowDilation int
	Reverse                      bool
}

// DotDims pairs the dimensions of the operands of a dot.
type DotDims struct{ LHSBatch, RHSBatch, LHSContract, RHSContract []int }

// GatherDims are the dimension numbers of a gather.
type GatherDims struct {
	Offset, Collapsed, StartMap []int
	OperandBatch, IndexBatch    []int
	IndexVector                 int
}

// ScatterDims are the dimension numbers of a scatter.
type ScatterDims struct {
	UpdateWindow, Inserted, ToOperand []int
	InputBatch, IndexBatch            []int
	IndexVector                       int
}

// ConvDims are dim_labels and group counts of a convolution.
type ConvDims struct {
	InBatch, InFeature, KernelIn, KernelOut, OutBatch, OutFeature int
	InSpatial, KernelSpatial, OutSpatial                          []int
	FeatureGroups, BatchGroups                                    int
}

// Reads says whether the instruction reads another one directly.
func (in *Instruction) Reads(o *Instruction) bool { return slices.Contains(in.Operands, o) }

// Inputs is how many operands of a reduce, reduce-window or scatter are data:
// the first half of those of a reduce, the operands of a scatter that are
// combined into. The others are initial values, or indices and updates.
func (in *Instruction) Inputs() int {
	switch in.Op {
	case Reduce, ReduceWindow:
		return len(in.Operands) / 2
	case Scatter:
		return (len(in.Operands) - 1) / 2
	}
	return len(in.Operands)
}

// String is the instruction as text, without its comment or metadata.
func (in *Instruction) String() string { return formatInstruction(in, false) }
