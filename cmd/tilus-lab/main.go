// Command tilus-lab is Tilus Lab: the explorer, the Jupyter kernel, and the
// tools that show, check, run and lower programs.
//
// Exit codes: 0 all went well, 1 the input or the program has a problem, 2 the
// command line is wrong; an interrupt ends it as a signal does.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

func main() {
	device.Keeper()
	code := execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if code == interrupted { // end as if nothing had been said: shells then end their loops too
		if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(os.Interrupt) == nil {
			time.Sleep(time.Second)
		}
	}
	os.Exit(code)
}

// interrupted is the exit code of shells for what an interrupt ended.
const interrupted = 130

// silent is an exit code whose reason has been printed already.
type silent int

func (s silent) Error() string { return fmt.Sprintf("exit %d", int(s)) }

// usageError is a wrong command line.
type usageError struct{ error }

// execute runs one command line and returns the exit code.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	strict(root)
	// What fails before a command starts is the command line.
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SetArgs(args)
	root.SetIn(stdin)
	out := &heldWriter{to: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	if fault := out.fault(); err == nil && fault != nil {
		err = fmt.Errorf("standard output cannot be written: %w", fault)
	}
	var code silent
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case !started || errors.As(err, &usage):
		fmt.Fprintf(stderr, "tilus-lab: %v\nSee '%s --help'.\n", err, cmd.CommandPath())
		return 2
	}
	var problems diag.List
	if errors.As(err, &problems) {
		fmt.Fprintln(stderr, problems)
	} else {
		fmt.Fprintf(stderr, "tilus-lab: %v\n", err)
	}
	if errors.Is(err, context.Canceled) {
		return interrupted
	}
	return 1
}

// heldWriter keeps the first error of writing: commands print line by line, and do not ask after each.
type heldWriter struct {
	to  io.Writer
	mu  sync.Mutex
	err error
}

func (w *heldWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.to.Write(p)
	w.err = cmp.Or(w.err, err)
	return n, err
}

func (w *heldWriter) fault() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "tilus-lab",
		Short: "Write, see, check and run tile-level GPU programs over 1- to 8-bit types",
		Long: `Tilus Lab is a laboratory for tile-level GPU programs, in particular for kernels
over 1- to 8-bit element types. Nothing here needs a GPU or Python.

Begin with "tilus-lab up": it opens the explorer in the browser and makes the
notebook kernel known to Jupyter. ("go run ./cmd/tilus-lab up" does the same from
a clone; its first build takes about a minute.)`,
		Example: `  tilus-lab up
  tilus-lab layout "local(2, 1).spatial(8, 4).local(1, 2)"
  tilus-lab run cast.tile --arg a=randn:f32[16,8] --arg c=zeros:f16[16,8] --arg M=16 --arg N=8
  tilus-lab lower matmul_f16_i6 --emit ptx --arch sm_80`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"start", "Start here:", []*cobra.Command{newUp(), newOpen(), newSite(), newDoctor(), newKernel(), newNotebooks(), newUninstall()}},
		{"see", "Layouts and programs:", []*cobra.Command{newLayout(), newMMA(), newAtom(), newConvert(), newBanks(), newSwizzle(), newVolta(), newIndexMap(), newFuse(), newFollow(), newDispatch(), newExercise(), newCheck(), newFmt(), newRun(), newDAP(), newLSP(), newEditor(), newCost(), newLower(), once(newQMM()), newBench(), once(newExport()), newNB(), newDraw(), newGallery()}},
		{"read", "Reference:", []*cobra.Command{newExplain(), newManual(), newStatus(), newConform(), newVersion()}},
		{"", "", []*cobra.Command{newWorker()}},
	} {
		if group.id != "" {
			root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		}
		for _, c := range group.commands {
			c.GroupID = group.id
			root.AddCommand(c)
			if c.HasSubCommands() && !c.Runnable() {
				onlySubcommands(c)
			}
		}
	}
	return root
}

// onlySubcommands makes what a command does not have a wrong command line, as it is of the root; cobra prints help instead.
func onlySubcommands(cmd *cobra.Command) {
	cmd.DisableFlagsInUseLine = true
	cmd.SuggestionsMinimumDistance = 2 // as the root's
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		near := ""
		if all := cmd.SuggestionsFor(args[0]); len(all) > 0 {
			near = "\n\nDid you mean this?\n\t" + strings.Join(all, "\n\t") + "\n"
		}
		return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), near)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// strict makes what cobra's own commands do not have a wrong command line too.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			onlySubcommands(c)
		case "help":
			c.Run = nil
			c.RunE = func(_ *cobra.Command, args []string) error {
				of, _, err := root.Find(args)
				if err != nil {
					return usageError{err}
				}
				of.InitDefaultHelpFlag()
				return of.Help()
			}
		}
	}
}

// without finds flags that mean nothing beside one, which says what a command does.
func without(cmd *cobra.Command, flag, does string, others ...string) error {
	for _, other := range others {
		if cmd.Flags().Changed(other) {
			return usageError{fmt.Errorf("--%s %s, so that --%s means nothing beside it; leave one of them out", flag, does, other)}
		}
	}
	return nil
}

// flagError says in our words that a flag does not take a value, where strconv says it in its own.
func flagError(err error) error {
	var of *pflag.InvalidValueError
	if !errors.As(err, &of) {
		return err
	}
	why := errors.Unwrap(of)
	if number := (*strconv.NumError)(nil); errors.As(why, &number) {
		what := map[string]string{"ParseFloat": "a number", "ParseBool": "true or false"}
		why = notA(cmp.Or(what[number.Func], "a whole number"), number.Num, number)
	}
	return fmt.Errorf("--%s=%s: %w", of.GetFlag().Name, of.GetValue(), why)
}

// once makes flags of one value that are given twice a wrong command line, where the last would win. Lists go on.
func once(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, list := f.Value.(pflag.SliceValue); !list {
			f.Value = &single{Value: f.Value}
		}
	})
	return cmd
}

// single is a flag's value that is set once.
type single struct {
	pflag.Value
	before string
	set    bool
}

func (s *single) Set(text string) error {
	if s.set {
		return fmt.Errorf("it is %s before; leave one of them out", s.before)
	}
	s.before, s.set = text, true
	return s.Value.Set(text)
}

func newVersion() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
			return err
		}}
}

// version is the module's version, or the commit that it was built from.
func version() string {
	const name = "tilus-lab"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return name + " (unknown version)"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		dirty := ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				v += " " + s.Value[:min(len(s.Value), 12)]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = " (modified)"
			}
		}
		v += dirty
	}
	return fmt.Sprintf("%s %s %s", name, v, info.GoVersion)
}

// readProgram is the text of a program file, of standard input for "-", or of
// the example program of that name. name is what positions call it.
func readProgram(cmd *cobra.Command, path string) (name, src string, err error) {
	name, raw, err := readInput(cmd, path)
	if err == nil {
		return name, string(raw), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", "", err
	}
	if src := corpus.Program(path); src != "" {
		return path + ".tile", src, nil
	}
	if near := diag.Suggest(path, corpus.Names()); near != "" {
		return "", "", fmt.Errorf("no file %s; did you mean the example program %s?", path, near)
	}
	if filepath.Ext(path) == "" && !strings.ContainsRune(path, filepath.Separator) {
		return "", "", fmt.Errorf("no file %s and no example program of that name; the examples are %s", path, strings.Join(corpus.Names(), ", "))
	}
	return "", "", err
}

// readInput is what a file has, or standard input for "-", and what messages call it.
func readInput(cmd *cobra.Command, path string) (name string, data []byte, err error) {
	if path == "-" {
		data, err = io.ReadAll(cmd.InOrStdin())
		return "<stdin>", data, err
	}
	data, err = os.ReadFile(path)
	return path, data, err
}

// bindings reads -D NAME=VALUE flags.
func bindings(defs []string) (map[string]string, error) {
	bind := map[string]string{}
	for _, d := range defs {
		name, value, ok := strings.Cut(d, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, usageError{fmt.Errorf("-D %s binds nothing; write -D NAME=VALUE", d)}
		}
		bind[name] = strings.TrimSpace(value)
	}
	return bind, nil
}

// write puts data into a file, or on standard output for "-", as every flag that names one text or picture does; [onlyFile] is of the
// others.
func write(cmd *cobra.Command, path string, data []byte) error {
	if path == "-" {
		_, err := io.Copy(cmd.OutOrStdout(), bytes.NewReader(data))
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// beside is where a command prints what is for people: standard error where standard output is one of the files it writes.
func beside(cmd *cobra.Command, files ...string) io.Writer {
	if slices.Contains(files, "-") {
		return cmd.ErrOrStderr()
	}
	return cmd.OutOrStdout()
}

// onlyFile refuses "-" for what standard output does not take: arrays, stores and directories. why is what there is instead.
func onlyFile(flag, path, kind, why string) error {
	if path != "-" {
		return nil
	}
	return usageError{fmt.Errorf("%s - is no %s: %s; name a %[2]s", flag, kind, why)}
}
