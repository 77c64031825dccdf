package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/web/facts"
)

// status is the matrix: per instruction and column, "proved on GPU", "simulated",
// "assembles" or "not built", with what shows it, or why not, behind a colon.
type status struct {
	Columns      []string `json:"columns"`
	Instructions []struct {
		Op     string            `json:"op"`
		Family string            `json:"family"`
		Cells  map[string]string `json:"cells"`
	} `json:"instructions"`
}

func newStatus() *cobra.Command {
	var asJSON, asMarkdown bool
	cmd := &cobra.Command{
		Use:   "status [INSTRUCTION]",
		Short: "Show what is built and proved of each instruction",
		Long: `Show, for each instruction, how far each part is with it: its rules, an example
program, interpreter, layout inference, lowering, simulator, PTX, CUDA C++ and GPU.

A cell is simulated (held by tests without a GPU; interpreter and simulator give the
same bits); assembles (NVIDIA's assembler takes the PTX, its run-time compiler the
CUDA C++); proved (a GPU gave the same bits too, as recorded in tests/record); stale
(proved for another text of the program); or - where it is not built. With the name
of an instruction, every cell is said in full.`,
		Example: `  tilus-lab status
  tilus-lab status Dot
  tilus-lab status --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if asJSON && len(args) == 0 {
				_, err := out.Write(facts.Status)
				return err
			}
			var s status
			if err := json.Unmarshal(facts.Status, &s); err != nil {
				return fmt.Errorf("status: %w", err)
			}
			if len(args) == 1 {
				var names []string
				for _, l := range s.Instructions {
					names = append(names, l.Op)
					if !strings.EqualFold(l.Op, args[0]) {
						continue
					}
					if asJSON {
						e := json.NewEncoder(out)
						e.SetIndent("", "\t")
						return e.Encode(l)
					}
					tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
					for _, c := range s.Columns {
						fmt.Fprintf(tw, "%s\t%s\n", c, l.Cells[c])
					}
					return tw.Flush()
				}
				help := diag.DidYouMean(args[0], names)
				if help != "" {
					help = "; " + help
				}
				return fmt.Errorf("there is no instruction %s%s", args[0], help)
			}
			sep, end := "\t", "\n"
			tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			if asMarkdown {
				sep, end = " | ", " |\n"
				fmt.Fprint(tw, "| ")
			}
			fmt.Fprint(tw, "instruction", sep, strings.Join(s.Columns, sep), end)
			if asMarkdown {
				fmt.Fprint(tw, "|", strings.Repeat("---|", len(s.Columns)+1), "\n")
			}
			for _, l := range s.Instructions {
				cells := []string{l.Op}
				for _, c := range s.Columns {
					cells = append(cells, short(l.Cells[c]))
				}
				if asMarkdown {
					fmt.Fprint(tw, "| ")
				}
				fmt.Fprint(tw, strings.Join(cells, sep), end)
			}
			return tw.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&asMarkdown, "md", false, "print a Markdown table")
	return cmd
}

// short is a cell in one word.
func short(cell string) string {
	word, reason, _ := strings.Cut(cell, ": ")
	switch {
	case strings.HasPrefix(reason, "stale"):
		return "stale"
	case word == "not built":
		return "-"
	case word == "proved on GPU":
		return "proved"
	}
	return word
}
