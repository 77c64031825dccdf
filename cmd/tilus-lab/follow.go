package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/model/trace"
	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/layoutviz/theatre"
)

func newFollow() *cobra.Command {
	var mode, layout, data string
	var frame int
	var draw *pictureFlags
	cmd := &cobra.Command{
		Use:   "follow ELEMENT",
		Short: "Follow one element of a Volta product from shared memory to its HMMA steps",
		Long: `Follow an element of A or B of wmma.m16n16k16 on Volta from its bytes in shared memory
through the lanes and registers that hold it to the instructions that use it, or one of
D back. ELEMENT is such as A[5,9]. With --svg, --png or --out all of that is one picture,
which looks at instruction --frame, usually the first that uses the element.`,
		Example: `  tilus-lab follow "A[5,9]"
  tilus-lab follow "D[0,0]" --frame 5 --svg follow.svg`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
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
	draw = addPictureFlags(cmd)
	return cmd
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
