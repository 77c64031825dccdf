package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/follow"
	"github.com/tilus-lab/tilus-lab/gpu/model/trace"
	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/layoutviz/theatre"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func newFollow() *cobra.Command {
	var mode, layout, data string
	var frame int
	var asJSON bool
	var defs, argv []string
	var draw *pictureFlags
	cmd := &cobra.Command{
		Use:   "follow [FILE] ELEMENT",
		Short: "Follow one element through a program, or through a product on Volta",
		Long: `Follow an element of a program from its address in global memory over shared memory and
registers to the operand of a matrix instruction, into the sum and to the address where it
is stored. FILE and --arg are as for run; without --arg, sizes and values are made up.
ELEMENT is an element of a tensor, ra[3, 5], as it is when it is first computed or after
some statements, acc[0, 1] @ 12; of a view, ga[1, 6]; or of a parameter, a[46].

Without FILE, follow an element of A or B of wmma.m16n16k16 on Volta from its bytes in
shared memory through the lanes and registers that hold it to the instructions that use
it, or one of D back. ELEMENT is such as A[5,9]; --frame is the instruction that the
picture looks at, usually the first that uses the element.

With --svg, --png or --out all of that is one picture.`,
		Example: `  tilus-lab follow matmul_v3 "ra[0, 13]"
  tilus-lab follow matmul_f16_i6 "b[100]" --svg way.svg
  tilus-lab follow "A[5,9]"
  tilus-lab follow "D[0,0]" --frame 5 --svg follow.svg`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				w, err := followProgram(cmd, args[0], args[1], defs, argv)
				switch {
				case err != nil:
					return err
				case draw.wanted():
					p, err := theatre.Way(w, draw.options())
					if err != nil {
						return usageError{err}
					}
					return draw.write(cmd, p)
				case asJSON:
					e := json.NewEncoder(cmd.OutOrStdout())
					e.SetIndent("", "\t")
					return e.Encode(w)
				}
				_, err = fmt.Fprint(cmd.OutOrStdout(), w)
				return err
			}
			var matrix string
			var row, col int
			text := strings.NewReplacer("[", " ", "]", " ", ",", " ").Replace(args[0])
			if n, _ := fmt.Sscan(text, &matrix, &row, &col); n != 3 || len(strings.Fields(text)) != 3 {
				return usageError{fmt.Errorf("%q is no element; write it such as A[5,9]", args[0])}
			}
			s, err := volta.ParseSetup(mode, layout, "")
			if err != nil {
				return usageError{err}
			}
			a, b, c, err := voltaData(data)
			if err != nil {
				return usageError{err}
			}
			r, err := volta.New(s, volta.Measured, a, b, c)
			if err != nil {
				return usageError{err}
			}
			uses, err := theatre.Uses(r, matrix, row, col)
			if err != nil {
				return usageError{err}
			}
			if draw.wanted() {
				p, err := theatre.Follow(r, matrix, row, col, frame, draw.options())
				if err != nil {
					return usageError{err}
				}
				return draw.write(cmd, p)
			}
			return printFollow(cmd.OutOrStdout(), r, volta.Cell{Matrix: matrix, Row: row, Col: col}, uses)
		},
	}
	f := cmd.Flags()
	f.StringVar(&mode, "mode", "mixed", "`MODE`: mixed (sums in f32) or fp16")
	f.StringVar(&layout, "layout", "row.col", "how A, B and, if given, C and D lie: `A.B[.C]`, each row or col")
	f.StringVar(&data, "data", "integers", "`MATRICES`: integers, or random:SEED")
	f.IntVar(&frame, "frame", 0, "`INSTRUCTION` to look at, from 1; 0 is the first that uses it")
	f.StringArrayVar(&argv, "arg", nil, "argument `NAME=VALUE` of a parameter of FILE")
	f.BoolVar(&asJSON, "json", false, "print the way through FILE as JSON")
	addBindings(cmd, &defs)
	draw = addPictureFlags(cmd)
	return cmd
}

// followProgram is the way of an element through a program.
func followProgram(cmd *cobra.Command, file, element string, defs, argv []string) (*follow.Way, error) {
	p, err := loadFor(cmd, compile.DefaultArch, file, defs)
	if err != nil {
		return nil, err
	}
	from, err := follow.ParseStart(element, diag.Pos{File: "ELEMENT", Line: 1, Col: 1})
	if err != nil {
		return nil, usageError{err}
	}
	if len(argv) == 0 {
		texts, _ := follow.Suppose(p)
		for i, text := range texts {
			argv = append(argv, p.Params[i].Name+"="+text)
		}
	}
	list, err := programArgs(p, argv)
	if err != nil {
		return nil, err
	}
	launch := make([]ir.Arg, len(list))
	for i, x := range list {
		switch x := x.(type) {
		case *array.Array:
			launch[i].Array = x
		case float64:
			launch[i].Float = x
		case int:
			launch[i].Int = int64(x)
		case bool:
			if x {
				launch[i].Int = 1
			}
		}
	}
	return follow.Trace(p, launch, from, follow.Limits{Steps: 100_000, Time: time.Minute})
}

func printFollow(w io.Writer, r *volta.Run, c volta.Cell, uses []volta.Dot) error {
	moves, err := r.Setup.Moves(c.Matrix, volta.Size)
	if err != nil {
		return err
	}
	verb := "loads"
	if c.Matrix == "D" {
		verb = "stores"
	}
	for _, m := range moves {
		for i, x := range m.Cells {
			if x == c {
				at := m.Address + i*m.Bytes/len(m.Cells)
				fmt.Fprintf(w, "memory:    byte %d, bank %d; lane %d %s bytes %d to %d, R%d to R%d [P]\n", at, at/4%32, m.Lane, verb, m.Address, m.Address+m.Bytes-1, m.Registers.First, m.Registers.Last)
			}
		}
	}
	for _, h := range r.Holders(c) {
		fmt.Fprintf(w, "registers: lane %d, slot %d, R%d [P]\n", h.Thread, h.Slot, r.Setup.Register(c.Matrix, h.Slot))
	}
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "set.step\toctet\tthreadgroup\tunit\tlane\tsum [S]")
	for _, d := range uses {
		in := r.Instrs[d.Instr]
		fmt.Fprintf(tw, "%d.%d\t%d\t%d\t%d\t%d\tD[%d,%d] = %v + %s = %v\n", in.Set-1, in.Step.Step, d.Octet, d.Threadgroup(), d.Unit, d.Lane, d.Row, d.Column, d.C, d.Products(), d.Sum.Result)
	}
	return tw.Flush()
}

// writeTrace writes a trace into a file: as trace events where its name ends in
// .chrome.json, in the form of all machines otherwise.
func writeTrace(w io.Writer, path string, t *trace.Trace) error {
	put := t.Write
	if strings.HasSuffix(path, ".chrome.json") {
		put = t.Chrome
	}
	if path == "-" {
		return put(w)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := put(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
