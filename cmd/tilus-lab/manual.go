package main

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

//go:embed manual.md
var programText string

// textTopic is the name of the part of the manual that is about no instruction.
const textTopic = "text"

// textManual is how programs are written: statements, element types, layouts.
func textManual() string {
	var b strings.Builder
	b.WriteString(programText)
	var names []string
	for _, t := range dtype.All() {
		names = append(names, t.String())
	}
	fmt.Fprintf(&b, "\n## Element types\n\n%s. `f6e3m2` has 6 bits: a sign, 3 of exponent, 2 of mantissa.\n", strings.Join(names, " "))
	for _, part := range []struct {
		title, about string
		list         []layout.Function
	}{
		{"Layouts of registers", "Which thread holds which element, in which slot. Factors are multiplied with a dot, the last one stands closest together; functions that take x are also written x.name(…).", layout.Functions()},
		{"Layouts of shared memory", "At which offset, in elements, an element lies.", layout.SharedFunctions()},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", part.title, part.about)
		for _, f := range part.list {
			fmt.Fprintf(&b, "- `%s` %s\n", f.Signature, f.Doc)
		}
	}
	return b.String()
}

func newManual() *cobra.Command {
	return &cobra.Command{
		Use:   "manual [OP|text]",
		Short: "Print the manual of program text and its instructions, as Markdown",
		Long: `Print the manual as Markdown: how programs are written (statements, element types,
layouts), and every instruction with its rules and an example. An instruction's name
prints its part; "text" prints what is about no instruction.`,
		Example: `  tilus-lab manual > manual.md
  tilus-lab manual text
  tilus-lab manual View`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			page := textManual() + "\n" + ir.Manual()
			switch {
			case len(args) == 1 && args[0] == textTopic:
				page = textManual()
			case len(args) == 1:
				op := ir.OpByName(args[0])
				if op == nil {
					return noInstruction(args[0])
				}
				page = op.Manual()
			}
			_, err := io.WriteString(cmd.OutOrStdout(), page)
			return err
		},
	}
}

// noInstruction says which instructions are meant by a word that is the name of none.
func noInstruction(word string) error {
	var names, near []string
	for _, o := range ir.Ops() {
		names = append(names, o.Name)
		if len(word) > 2 && strings.Contains(strings.ToLower(o.Name), strings.ToLower(word)) {
			near = append(near, o.Name)
		}
	}
	if near == nil {
		if s := diag.Suggest(word, names); s != "" {
			near = []string{s}
		}
	}
	if near != nil {
		return fmt.Errorf("no instruction is called %s; did you mean %s?", word, strings.Join(near, ", "))
	}
	return fmt.Errorf("no instruction is called %s; \"tilus-lab status\" lists all %d, \"tilus-lab manual text\" is about everything else", word, len(names))
}
