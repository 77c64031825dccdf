package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/cmd/tilus-lab/conform"
)

func newConform() *cobra.Command {
	var verbose, kinds bool
	cmd := &cobra.Command{
		Use:   "conform [FILE…]",
		Short: "Check against recorded facts of independent implementations",
		Long: `Check Tilus Lab against conformance cases: JSON files of questions with answers
recorded from independent implementations; without files, those that came with this
program. Each failed case is printed with what
differs. Cases of a kind that cannot be checked are counted as skipped, named, and
make the exit status 1 as failures do. The last line counts all.`,
		Example: `  tilus-lab conform
  tilus-lab conform tests/testdata/cases/dtype.json
  tilus-lab conform -v tests/testdata/cases/layout.json
  tilus-lab conform --kinds`,
		Args: func(cmd *cobra.Command, args []string) error {
			if kinds {
				return cobra.NoArgs(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			out := cmd.OutOrStdout()
			if kinds {
				for _, k := range conform.Kinds() {
					fmt.Fprintf(out, "%-20s %s\n", k.Name, k.Doc)
				}
				return nil
			}
			var cases []conform.Case
			for _, name := range files {
				list, err := readCases(name)
				if err != nil {
					return err
				}
				cases = append(cases, list...)
			}
			if len(files) == 0 {
				var err error
				if cases, err = conform.Builtin(); err != nil {
					return err
				}
			}
			s, err := conform.Run(out, cases, verbose)
			if err == nil && !s.OK() {
				err = silent(1)
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print every case")
	cmd.Flags().BoolVar(&kinds, "kinds", false, "list the kinds of cases that can be checked")
	return cmd
}

func readCases(name string) ([]conform.Case, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return conform.Read(name, f)
}
