package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/infer"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func newFmt() *cobra.Command {
	var rewrite, list bool
	cmd := &cobra.Command{
		Use:   "fmt FILE…",
		Short: "Tidy program text",
		Long: `Tidy program text as gofmt does for Go: indentation, spaces, one statement a
line. Every word stays, comments and compile-time parameters too. Without a flag
the result goes to standard output; "-" reads standard input.`,
		Example: `  tilus-lab fmt matmul.tile
  tilus-lab fmt -w *.tile
  tilus-lab fmt -l *.tile`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			return eachFile(cmd, files, func(file string) error {
				name, src, err := readProgram(cmd, file)
				if err != nil {
					return err
				}
				tidy, err := text.FormatSource(name, src)
				if err != nil {
					return err
				}
				if list && tidy != src {
					fmt.Fprintln(cmd.OutOrStdout(), name)
				}
				if rewrite && tidy != src {
					if _, err := os.Stat(file); err != nil {
						return fmt.Errorf("-w cannot write to %s, which is no file", name)
					}
					return os.WriteFile(file, []byte(tidy), 0o644)
				}
				if !list && !rewrite {
					_, err = io.WriteString(cmd.OutOrStdout(), tidy)
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVarP(&rewrite, "write", "w", false, "rewrite the files in place")
	cmd.Flags().BoolVarP(&list, "list", "l", false, "list the files that are not tidy")
	return cmd
}

// eachFile does all files, prints the problems of each, and fails if any had
// one.
func eachFile(cmd *cobra.Command, files []string, do func(file string) error) error {
	failed := false
	for _, f := range files {
		err := do(f)
		var usage usageError
		switch {
		case errors.As(err, &usage):
			return err
		case err != nil:
			failed = true
			printError(cmd.ErrOrStderr(), err)
		}
	}
	if failed {
		return silent(1)
	}
	return nil
}

func printError(w io.Writer, err error) {
	var list diag.List
	if errors.As(err, &list) {
		fmt.Fprintln(w, list)
	} else {
		fmt.Fprintf(w, "tilus-lab: %v\n", err)
	}
}

func newCheck() *cobra.Command {
	var defs []string
	var layouts bool
	cmd := &cobra.Command{
		Use:   "check FILE…",
		Short: "Check programs against the rules of the virtual machine",
		Long: `Check programs: every problem is printed with its place, the number of the rule
it breaks, and a way out. "tilus-lab explain" tells more about a rule. A FILE may
also be the name of an example program. Register layouts that a program leaves out
are inferred; with --layouts each is printed with the instruction and the rule that
it follows from, and then the program with all of them. Where two instructions want
different layouts of a tile, ConvertLayout is put between them, and a note says what
it costs.`,
		Example: `  tilus-lab check matmul.tile
  tilus-lab check --layouts matmul.tile
  tilus-lab check -D W=i4 -D BK=32 matmul_any`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			bind, err := bindings(defs)
			if err != nil {
				return err
			}
			return eachFile(cmd, files, func(file string) error {
				name, src, err := readProgram(cmd, file)
				if err != nil {
					return err
				}
				p, trace, err := infer.Parse(name, src, bind, compile.Layouts())
				if layouts {
					fmt.Fprint(cmd.OutOrStdout(), trace)
				}
				for _, n := range trace.Notes() {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: note: %s\n\thelp: %s\n", n.Pos, n.Msg, n.Help)
				}
				switch {
				case err != nil:
					return err
				case layouts:
					_, err = fmt.Fprint(cmd.OutOrStdout(), text.Format(p))
				default:
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s is right\n", p.Pos.File, p.Name)
				}
				return err
			})
		},
	}
	addBindings(cmd, &defs)
	cmd.Flags().BoolVar(&layouts, "layouts", false, "print the layouts that were inferred, and the program with them")
	return cmd
}

func addBindings(cmd *cobra.Command, defs *[]string) {
	cmd.Flags().StringArrayVarP(defs, "define", "D", nil, "bind a compile-time parameter, `NAME=VALUE`")
}

// loadProgram reads and verifies a program; layouts that it leaves out are inferred.
func loadProgram(cmd *cobra.Command, file string, bind map[string]string) (*ir.Program, error) {
	name, src, err := readProgram(cmd, file)
	if err != nil {
		return nil, err
	}
	return compile.Parse(name, src, bind)
}

func newExplain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain CODE",
		Short: "Explain the rule behind a message",
		Long: `Explain a numbered rule, such as View.C2: what must be, why, and an example that
breaks it. Without a number all rules of that name are listed.`,
		Example: `  tilus-lab explain View.C2
  tilus-lab explain Layout`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return explain(cmd.OutOrStdout(), args[0])
		},
	}
}

func explain(w io.Writer, code string) error {
	all := rules()
	var b bytes.Buffer
	var known []string
	for _, r := range all {
		known = append(known, r.Code)
		if strings.EqualFold(r.Code, code) {
			b.Reset()
			fmt.Fprintf(&b, "%s\n  %s\n", r.Code, r.Text)
			if r.Why != "" {
				fmt.Fprintf(&b, "\nWhy\n  %s\n", r.Why)
			}
			if where, line := breaker(r.Code); line != "" {
				fmt.Fprintf(&b, "\nBroken by (%s)\n  %s\n", where, line)
			}
			_, err := b.WriteTo(w)
			return err
		}
		if family, _, ok := strings.Cut(r.Code, "."); ok && strings.EqualFold(family, code) {
			fmt.Fprintf(&b, "%s  %s\n", r.Code, r.Text)
		}
	}
	if b.Len() > 0 {
		_, err := b.WriteTo(w)
		return err
	}
	if near := diag.Suggest(code, known); near != "" {
		return fmt.Errorf("no rule is called %s; did you mean %s?", code, near)
	}
	return fmt.Errorf("no rule is called %s; codes stand in brackets at the end of messages, such as View.C2", code)
}

var wants = regexp.MustCompile(`(?m)//\s*want\s+(.*)$`)

// breaker finds the line of the corpus that breaks a rule.
func breaker(code string) (where, line string) {
	for _, name := range corpus.Errors() {
		for _, f := range corpus.Broken(name) {
			for i, l := range strings.Split(string(f.Data), "\n") {
				m := wants.FindStringSubmatchIndex(l)
				if m == nil {
					continue
				}
				for _, c := range strings.Fields(l[m[2]:m[3]]) {
					if c == code {
						return fmt.Sprintf("corpus %s, %s:%d", name, f.Name, i+1), strings.TrimSpace(l[:m[0]])
					}
				}
			}
		}
	}
	return "", ""
}
