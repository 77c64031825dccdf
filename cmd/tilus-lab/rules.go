package main

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/lower"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/gpu/notation"
	"github.com/tilus-lab/tilus-lab/kernel/cell"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/infer"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
	"github.com/tilus-lab/tilus-lab/vm/layout/linear"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// rules lists every numbered rule that a message can name.
func rules() []ir.RuleDoc {
	all := text.Rules()
	all = append(all, ir.Rules()...)
	for _, r := range layout.Rules {
		all = append(all, ir.RuleDoc{Code: r.Code, Text: r.Text})
	}
	for _, r := range slices.Concat(dtype.Rules, array.Rules, cute.Rules, linear.Rules, notation.Rules, bank.Rules, hlo.Rules) {
		all = append(all, ir.RuleDoc(r))
	}
	all = append(all, infer.Problems...)
	all = append(all, interp.Rules...)
	all = append(all, lower.Rules...)
	all = append(all, cell.Rules...)
	return append(all, otherRules...)
}

const ourFault = "A program cannot cause this; please report it, with the program."

// otherRules are the rules of packages that keep no table of their own; the
// packages' messages say the particulars.
var otherRules = []ir.RuleDoc{
	{Code: "Affine.E1", Text: "An affine expression is made of numbers, names, + - * and the floor operations / and %, by positive constants."},
	{Code: "Place.E1", Text: "A bit placement is a list of runs in its notation."},
	{Code: "Place.E2", Text: "Numbers of a bit placement lie within its limits."},
	{Code: "Place.E3", Text: "The runs of a bit placement add up to the bits of the element."},
	{Code: "Place.E4", Text: "A bit placement puts every bit in a word of the thread, and no two in one place."},
	{Code: "Target.E1", Text: "The target has every instruction that the program becomes."},
	{Code: "Sim.E1", Text: "Every access lies inside a buffer."},
	{Code: "Sim.E2", Text: "An address is a multiple of the bytes accessed.", Why: "The GPU stops a kernel that breaks this, without saying where."},
	{Code: "Sim.E3", Text: "What was promised to be read only is not written."},
	{Code: "Sim.E4", Text: "Memory is written before it is read."},
	{Code: "Sim.E5", Text: "Between two threads' accesses to one byte of memory, one of them a write, stands a barrier; blocks have none between them."},
	{Code: "Sim.E6", Text: "An instruction of the whole warp is reached by all of its lanes together."},
	{Code: "Sim.E7", Text: "A barrier is reached by all threads that it waits for."},
	{Code: "Sim.E8", Text: "A launch ends within the step limit, when one is set."},
	{Code: "Sim.E9", Text: "Nothing is divided by zero.", Why: "The GPU gives some number then and goes on."},
	{Code: "Sim.E10", Text: "Scalar arithmetic of a program does not overflow 32 bits.", Why: "The GPU wraps and goes on. The simulator looks where the code computes an expression as written, not where a pass has moved it out of a loop or joined it with other sums."},
	{Code: "Sim.E11", Text: "Bytes that an asynchronous copy writes are neither read nor written before its thread has waited.", Why: "They come at any time until then."},
	{Code: "Sim.E12", Text: "What assume promises holds.", Why: "Lowering relies on it."},
	{Code: "Sim.E13", Text: "A barrier in shared memory is set up before it is used, and its bytes are used as nothing else."},
	{Code: "Sim.E14", Text: "Arrivals and bytes that a barrier waits for come out even in every phase.", Why: "The phase would end early, or never."},
	{Code: "Sim.E15", Text: "Between ordinary and asynchronous accesses to the same bytes of shared memory stands a proxy fence.", Why: "The two ways to memory see each other's writes only behind it."},
	{Code: "Sim.E16", Text: "What an asynchronous product or copy still reads or writes is left alone until its wait."},
	{Code: "Sim.E17", Text: "A product of a warpgroup or of tensor memory has the warps, registers, descriptors and matrices that the machine wants, and a wgmma.fence behind what wrote its registers."},
	{Code: "Code.C1", Text: "If, For and While have the inputs and regions of their kind.", Why: ourFault},
	{Code: "Code.C2", Text: "What regions take and yield has the types of what they carry.", Why: ourFault},
	{Code: "Code.C3", Text: "Only loop bodies take arguments.", Why: ourFault},
	{Code: "Code.F1", Text: "A function has a body.", Why: ourFault},
	{Code: "Code.F2", Text: "The body's arguments are the parameters.", Why: ourFault},
	{Code: "Code.F3", Text: "A function's body yields nothing.", Why: ourFault},
	{Code: "Code.I1", Text: "Every instruction is in the table.", Why: ourFault},
	{Code: "Code.I2", Text: "Every instruction has the place in the program that asked for it.", Why: ourFault},
	{Code: "Code.I3", Text: "Only memory and atomic instructions are guarded.", Why: ourFault},
	{Code: "Code.I4", Text: "An instruction has the inputs of its row.", Why: ourFault},
	{Code: "Code.I5", Text: "Only control flow has regions.", Why: ourFault},
	{Code: "Code.I6", Text: "An instruction has as many results as its row.", Why: ourFault},
	{Code: "Code.I7", Text: "The results of an instruction have the types of its row.", Why: ourFault},
	{Code: "Code.L1", Text: "A launch has sizes that the target allows.", Why: ourFault},
	{Code: "Code.M1", Text: "An instruction has the immediates of its row.", Why: ourFault},
	{Code: "Code.M2", Text: "Immediates lie in their ranges.", Why: ourFault},
	{Code: "Code.M3", Text: "The attributes of a memory access go together.", Why: ourFault},
	{Code: "Code.V1", Text: "Every value that is used belongs to the function.", Why: ourFault},
	{Code: "Code.V2", Text: "Every value is defined once.", Why: ourFault},
	{Code: "Code.V3", Text: "Every value is defined before it is used.", Why: ourFault},
	{Code: "Code.V4", Text: "Values have the types that their uses need.", Why: ourFault},
	{Code: "Pane.E1", Text: "The address names a pane that there is."},
	{Code: "Pane.E2", Text: "A value in the address is at most 64 KiB long."},
	{Code: "Pane.E3", Text: "The value of a slider is a whole number in its range."},
	{Code: "Pane.E4", Text: "The value of a choice is one of those offered."},
	{Code: "Pane.E5", Text: "The pane can draw what it was given; the message says why it cannot."},
	{Code: "Pane.E6", Text: "Floats have 3 to 8 bits here."},
	{Code: "Pane.E7", Text: "Kind and width together name an element type."},
	{Code: "Pane.E8", Text: "The threads to show are threads of the layout, from 0."},
	{Code: "Pane.E9", Text: "At most 8 threads are shown."},
	{Code: "Pane.E10", Text: "There must be something to look at: a layout, an element type or a program."},
	{Code: "Pane.E11", Text: "The access that the pane of fusions is asked for is one of the kernel."},
	{Code: "Pane.E20", Text: "Tiles and arguments of a program in the debugger pane are small enough to be drawn.", Why: "Larger ones run with tilus-lab run, or in a notebook."},
	{Code: "Pane.E21", Text: "The debugger pane is given as many arguments as the program takes."},
	{Code: "Pane.E22", Text: "Each argument in the debugger pane can be read for its parameter's type."},
	{Code: "Pane.E23", Text: "The bits of a swizzle in the pane of banks make one."},
	{Code: "Pane.E24", Text: "An instruction of the catalogue has all words that are looked for."},
	{Code: "Pane.E25", Text: "The page of a matrix instruction is of one that multiplies matrices.", Why: "Copies have a source and a destination; the pane of all instructions draws them."},
	{Code: "Pane.E26", Text: "A chart has a bar with all words that are looked for."},
	{Code: "Pane.E27", Text: "Rows to be plotted are a JSON list of objects, of which one has the number that is asked for."},
	{Code: "Pane.E28", Text: "An instruction in the status matrix is one of the manual."},
	{Code: "Pane.E29", Text: "What is drawn with its operands is a product, a quotient, a chain or an operation of CuTe."},
	{Code: "Pane.E30", Text: "Two layouts that are compared have the same shape and few enough elements to be drawn."},
	{Code: "Pane.E31", Text: "The variable whose values the debugger pane draws is a register tensor of the program."},
	{Code: "Pane.E32", Text: "A tensor is an element type, a shape and as many numbers, f16[2, 2] = 1 2 3 4."},
	{Code: "Follow.E1", Text: "An element that is followed is a tensor and an index, ra[3, 5], and may have a step, acc[0, 1] @ 12."},
	{Code: "Follow.E2", Text: "The element that is followed is of a tensor or pointer of the program."},
	{Code: "Follow.E3", Text: "The element that is followed lies inside its tensor."},
	{Code: "Follow.E4", Text: "The launch reads or writes the element that is followed.", Why: "What no instruction touches goes nowhere."},
	{Code: "Web.E1", Text: "A value follows a variable of a notebook that is there."},
}
