package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/layoutviz"
)

// widest is the most columns of a grid that is printed without being asked for.
const widest = 32

func newMMA() *cobra.Command {
	var table, asJSON, cuteLook bool
	var operand string
	var pics *pictureFlags
	cmd := &cobra.Command{
		Use:   "mma NAME",
		Short: "Show which lane holds what of a matrix instruction",
		Long: `Show the fragments of an instruction of the catalogue: for each operand its
layout and a grid in which a cell says lane:slot, rows down and columns across. A
is [M, K], B is [K, N], C and D are [M, N]; of a copy, S is the source and D the
destination. Where several lanes hold an element, the first one stands in the grid
with a +.

NAME is a name of "tilus-lab atom list", a CuTe name such as
SM80_16x8x16_F32F16F16F32_TN, or the instruction as PTX writes it.`,
		Example: `  tilus-lab mma mma.m16n8k16.f32.f16
  tilus-lab mma SM80_16x8x16_F32F16F16F32_TN --operand A --table
  tilus-lab mma mma.m16n8k16.f32.f16 --svg mma.svg
  tilus-lab mma mma.m16n8k16.f32.f16 --cute --svg print_svg.svg`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := arch.FindAtom(args[0])
			if err != nil {
				return err
			}
			if asJSON && table {
				return usageError{errors.New("--json and --table are two ways to print; choose one")}
			}
			if operand != "" {
				if _, ok := a.Operand(operand); !ok {
					return usageError{fmt.Errorf("%s has no operand %q; it has %s", a.Name, operand, strings.Join(operandNames(a), ", "))}
				}
			}
			if pics.wanted() {
				for _, o := range a.Operands {
					if o.In == arch.Unspecified {
						return fmt.Errorf("%s cannot be drawn: %s", a.Name, o.Note)
					}
				}
				draw := layoutviz.Atom
				if cuteLook {
					draw = layoutviz.CuteAtom
				}
				pic, err := draw(a, pics.options())
				if err != nil {
					return err
				}
				return pics.write(cmd, pic)
			}
			w := cmd.OutOrStdout()
			if asJSON {
				return encodeJSON(w, atomJSON(a, true))
			}
			atomHead(w, a)
			for _, o := range a.Operands {
				if operand != "" && o.Name != operand {
					continue
				}
				fmt.Fprintln(w)
				if c, ok := a.Operand("C"); ok && o.Name == "D" && operand == "" && !table && o.Type == c.Type && o.In == c.In && o.Layout.Equal(c.Layout) {
					fmt.Fprintln(w, "D  lies as C")
					continue
				}
				if err := printOperand(w, o, table, operand != ""); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&operand, "operand", "", "show this operand alone: `A`, B, C, D, E, S, …")
	f.BoolVar(&table, "table", false, "print a line for each lane instead of grids")
	f.BoolVar(&asJSON, "json", false, "print all of it as JSON, with the maps")
	f.BoolVar(&cuteLook, "cute", false, "draw it as CuTe's print_svg does")
	pics = addPictureFlags(cmd)
	return cmd
}

func operandNames(a arch.Atom) []string {
	var out []string
	for _, o := range a.Operands {
		out = append(out, o.Name)
	}
	return out
}

// atomHead prints what is to know about an instruction as a whole.
func atomHead(w io.Writer, a arch.Atom) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("instruction", "%s (%s %s)", a.Name, a.Vendor, a.Family)
	if a.M > 0 {
		blocks := ""
		if a.Blocks > 1 {
			blocks = fmt.Sprintf(", %d blocks", a.Blocks)
		}
		line("product", "[%d, %d] · [%d, %d]%s over %s", a.M, a.K, a.K, a.N, blocks, lanesOf(a))
	} else {
		line("copy", "over %s", lanesOf(a))
	}
	since := "since " + a.Since
	if len(a.Archs) > 0 {
		since = "on " + strings.Join(a.Archs, ", ")
	}
	line("machines", "%s", since)
	for i, x := range a.Aliases {
		name := ""
		if i == 0 {
			name = "also called"
		}
		line(name, "%s", x)
	}
	if a.Row != "" {
		line("thread code", "%s", a.Row)
	}
	if o := a.Oracles(); len(o) > 0 {
		line("checked by", "%s", strings.Join(o, ", "))
	}
	line("source", "%s", a.Source)
	if a.Note != "" {
		line("note", "%s", a.Note)
	}
}

func lanesOf(a arch.Atom) string {
	s := fmt.Sprintf("%d lanes", a.Lanes)
	if a.Lanes == 1 {
		s = "1 lane"
	}
	if a.ThrID != "" && a.Lanes > 1 {
		s += " " + a.ThrID
	}
	return s
}

// operandHead is an operand in a line.
func operandHead(o arch.Operand) string {
	s := fmt.Sprintf("%s  %s%s", o.Name, o.Type, strings.ReplaceAll(fmt.Sprint(o.Shape), " ", ", "))
	if o.In == arch.Unspecified {
		return s + "  not specified by the vendor"
	}
	s += "  " + o.Layout.String()
	if o.Bits != 0 {
		s += fmt.Sprintf(", %d bits a slot", o.Bits)
	}
	switch o.In {
	case arch.InShared:
		s += ", in shared memory"
	case arch.InTensor:
		s += ", in tensor memory"
	}
	if o.Replicas > 1 {
		s += fmt.Sprintf(", each element in %d places", o.Replicas)
	}
	return s
}

func printOperand(w io.Writer, o arch.Operand, table, asked bool) error {
	fmt.Fprintln(w, operandHead(o))
	if o.CuTe != "" {
		fmt.Fprintf(w, "   CuTe %s\n", o.CuTe)
	}
	if o.Note != "" {
		fmt.Fprintf(w, "   %s\n", o.Note)
	}
	l := o.Layout
	if o.In == arch.Unspecified || o.In != arch.InRegisters && !asked {
		return nil
	}
	if l.Threads()*l.Slots() > maxPrinted {
		fmt.Fprintf(w, "   the map has %d cells, and at most %d are printed\n", l.Threads()*l.Slots(), maxPrinted)
		return nil
	}
	if table {
		for lane := range l.Threads() {
			fmt.Fprintf(w, "   lane %3d:", lane)
			for slot := range l.Slots() {
				fmt.Fprintf(w, " %s", strings.ReplaceAll(fmt.Sprint(l.Index(lane, slot)), " ", ","))
			}
			fmt.Fprintln(w)
		}
		return nil
	}
	rank := len(o.Shape)
	if rank < 2 || o.Shape[rank-1] > widest && !asked {
		fmt.Fprintf(w, "   %d columns are wider than a page; --operand %s prints them, --table a line for each lane\n", o.Shape[rank-1], o.Name)
		return nil
	}
	rows, cols := o.Shape[rank-2], o.Shape[rank-1]
	blocks := l.Size() / (rows * cols)
	first, more := make([]string, l.Size()), make([]int, l.Size())
	width := 1
	flat := l.Flat()
	for at, cell := range flat {
		if more[cell]++; more[cell] == 1 {
			first[cell] = fmt.Sprintf("%d:%d", at/l.Slots(), at%l.Slots())
		}
	}
	for cell := range first {
		if more[cell] > 1 {
			first[cell] += "+"
		}
		width = max(width, len(first[cell]))
	}
	for block := range blocks {
		if blocks > 1 {
			fmt.Fprintf(w, "   block %d\n", block)
		}
		for r := range rows {
			fmt.Fprintf(w, "   %3d |", r)
			for c := range cols {
				fmt.Fprintf(w, " %*s", width, first[(block*rows+r)*cols+c])
			}
			fmt.Fprintln(w)
		}
	}
	return nil
}
