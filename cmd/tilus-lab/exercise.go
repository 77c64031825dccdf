package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/model/exercise"
)

func newExercise() *cobra.Command {
	var seed uint64
	var answer, claim string
	var solve, asJSON bool
	cmd := &cobra.Command{
		Use:   "exercise [KIND]",
		Short: "Ask questions that the machine models make and grade",
		Long: `Ask a question about Volta's tensor core, shared memory or AMD's dispatch. The models
make the question and grade the answer; a wrong one is told what it would mean. Without
KIND the kinds are listed. The same --seed asks the same question.

The exit code is 0 where the answer is right, and 1 where it is not yet.`,
		Example: `  tilus-lab exercise
  tilus-lab exercise owner --seed 7
  tilus-lab exercise owner --seed 7 --answer "3, 11"
  tilus-lab exercise mask --seed 2 --answer "4 4 4 3"
  tilus-lab exercise mistake --claim sixteenth --solve`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w := cmd.OutOrStdout()
			if len(args) == 0 {
				return listExercises(w)
			}
			var q *exercise.Question
			var err error
			if claim != "" {
				if args[0] != exercise.Mistake {
					return usageError{fmt.Errorf("--claim is of %s, not of %s", exercise.Mistake, args[0])}
				}
				q, err = exercise.NewMistake(claim)
			} else {
				q, err = exercise.New(args[0], seed)
			}
			if err != nil {
				return usageError{err}
			}
			graded := cmd.Flags().Changed("answer")
			var v exercise.Verdict
			if graded {
				v = q.Grade(answer)
			}
			if asJSON {
				out := map[string]any{"question": q}
				if graded {
					out["verdict"] = v
				}
				if solve {
					a, why := q.Answer()
					out["answer"], out["why"] = a, why
				}
				err = printJSON(w, out)
			} else {
				if !graded {
					fmt.Fprintln(w, q)
				} else {
					fmt.Fprintln(w, v)
				}
				if solve {
					a, why := q.Answer()
					fmt.Fprintf(w, "answer: %s\n%s\n", a, why)
				}
			}
			if err == nil && graded && !v.Right {
				return silent(1)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&seed, "seed", 1, "`NUMBER` that picks the question")
	f.StringVar(&answer, "answer", "", "grade this `ANSWER`")
	f.StringVar(&claim, "claim", "", "ask about this `STATEMENT` (of mistake)")
	f.BoolVar(&solve, "solve", false, "show a right answer, and why it is right")
	f.BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func listExercises(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "kind\tasks for")
	for _, k := range exercise.Kinds() {
		fmt.Fprintf(tw, "%s\t%s\n", k.Name, k.Doc)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "statements of mistake: %s\n", strings.Join(exercise.Claims(), ", "))
	return err
}
