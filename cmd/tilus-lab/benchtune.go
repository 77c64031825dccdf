package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/report"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
)

func newBenchTune() *cobra.Command {
	var b benchFlags
	var shapes []string
	var file string
	var list, dry bool
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Look for the fastest plans and schedules of layers, and keep them",
		Long: `Look for the fastest schedules of layers on this machine's GPU, and keep them in a file
that products then take them from: from 17 rows on those of all plans that so many rows may
take. Schedules that cannot run (registers, shared memory, blocks that must run together) are
left out before anything is timed; the next one timed is always the one that the models of
schedules, corrected by what was timed so far, expect most of. A result holds for all types
of the width that are stored alike, from 17 rows on for as many rows as up to the next power
of two, on this GPU and driver, while the code is the code that was timed.

--dry-run lists them in the order in which nothing has been timed yet: first what is taken
without a search, then what the models expect most of.`,
		Example: `  tilus-lab bench tune --types u4,f6e3m2 --shapes gate_up,o --batches 1,16,64
  tilus-lab bench tune --types u4 --shapes 4096x4096 --batches 1 --dry-run
  tilus-lab bench tune --list`,
		Args: wordsOfFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := beside(cmd, b.jsonFile)
			if list {
				if err := without(cmd, "list", "lists what is kept", "dry-run", "types", "shapes", "batches", "form", "plans", "tries", "seconds", "json", "commit"); err != nil {
					return err
				}
			}
			if dry {
				if err := without(cmd, "dry-run", "times nothing and keeps nothing", "store", "seconds", "json", "commit"); err != nil {
					return err
				}
			}
			switch {
			case b.cublas != "" || b.also != "":
				return usageError{fmt.Errorf("a search takes no --cublas and no --also; bench gemm does")}
			}
			if err := onlyFile("--store", file, "file of results", "--list prints what one has"); err != nil {
				return err
			}
			store, err := tune.OpenStore(file)
			if err != nil {
				return err
			}
			if list {
				return printStore(out, store)
			}
			layers, err := shapesOf(shapes)
			if err != nil {
				return err
			}
			batches, err := b.rows()
			if err != nil {
				return err
			}
			if _, err := b.layers(1, 1); err != nil {
				return err
			}
			var bench *qmm.Bench
			if !dry {
				if bench, err = b.open("--dry-run lists the schedules"); err != nil {
					return err
				}
				defer bench.Close()
				fmt.Fprintf(out, "%s, kept in %s\n", bench.GPU(), store.Path())
			}
			var rows []qmm.Row
			for _, s := range layers {
				kinds, err := b.layers(s.N, s.K)
				if err != nil {
					return err
				}
				for _, l := range kinds {
					for _, m := range batches { // which share the layer's weights
						title := fmt.Sprintf("%-8s %-8s %5d", l.Name(), s.Name, m)
						if dry {
							if err := printCandidates(out, title, l, m, b.plans, b.tries); err != nil {
								return err
							}
							continue
						}
						bar, begin := newBar(cmd.ErrOrStderr(), title), time.Now()
						r, err := bench.Tune(cmd.Context(), l, s.Name, m, qmm.TuneOptions{Store: store, Limit: b.tries, Budget: time.Duration(b.seconds * float64(time.Second)), Plans: b.plans, Progress: bar.step})
						bar.end()
						if err != nil {
							return err
						}
						rows = append(rows, r)
						took := fmt.Sprintf("%d timed in %.1f s", r.Tried, time.Since(begin).Seconds())
						switch {
						case r.Few():
							took += ", too few to be kept: give it more --seconds, or a GPU that nothing else uses"
						case r.End == tune.EndTime:
							took += ", when the time was up"
						}
						fmt.Fprintf(out, "%s %9.2f µs, %.2f without a search, %s: %s\n", title, r.MedianUs, r.ChosenUs, took, scheduleText(r))
					}
				}
			}
			if b.jsonFile != "" && !dry {
				for i := range rows {
					if err := bench.Read(cmd.Context(), &rows[i]); err != nil {
						return err
					}
				}
				return writeJSON(cmd, b.jsonFile, rows)
			}
			return nil
		},
	}
	b.add(cmd, []string{"u4"}, []string{"1", "16"})
	f := cmd.Flags()
	f.StringSliceVar(&shapes, "shapes", []string{"gate_up", "down", "qkv", "o"}, "layers of Llama-3.3-70B, or NxK")
	f.StringVar(&file, "store", "", "`FILE` that keeps results; the user's where it is not given")
	f.BoolVar(&list, "list", false, "list what is kept")
	f.BoolVar(&dry, "dry-run", false, "time nothing: list the schedules of an H200 with what they cost; --tries bounds how many")
	f.Lookup("tries").Usage, f.Lookup("tries").DefValue = "time at most `N` schedules; 0 is no bound", "16"
	f.Lookup("seconds").Usage, f.Lookup("seconds").DefValue = "look for `S` seconds at most", "3"
	b.tries, b.seconds = 16, 3
	f.MarkHidden("cublas") // which a search has no use for
	f.MarkHidden("also")
	return cmd
}

func printStore(out io.Writer, store *tune.Store) error {
	all, err := store.All()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		_, err := fmt.Fprintf(out, "%s: nothing is kept\n", store.Path())
		return err
	}
	for _, f := range all {
		by := ""
		var c qmm.Choice
		if json.Unmarshal(f.Schedule, &c) == nil && c.Plan != "" {
			by = fmt.Sprintf(" by %s,", c)
		}
		fmt.Fprintf(out, "%s, %s: %s: %.2f µs with %s,%s of %d timed on %s\n", f.GPU, f.Driver, f.Problem, f.Us, f.Type, by, f.Tried, f.Written)
	}
	return nil
}

// printCandidates lists the best schedules by the model, and what they cost.
func printCandidates(out io.Writer, title string, l qmm.Linear, m int, plans []string, most int) error {
	plans, err := qmm.Wanted(plans, l.Usual().Plans(m))
	if err != nil {
		return err
	}
	candidates, _, err := l.Candidates(m, plans)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d schedules\n", title, len(candidates))
	slices.SortStableFunc(candidates[min(1, len(candidates)):], func(a, b tune.Candidate) int { return cmp.Compare(a.Estimate, b.Estimate) }) // as a search goes through them
	candidates = candidates[:min(cmp.Or(most, len(candidates)), len(candidates))]
	wide := 0
	for _, c := range candidates {
		wide = max(wide, utf8.RuneCountInString(c.Name))
	}
	for _, c := range candidates {
		launch, why := c.Fits("sm_90a", template.H200().SMs)
		if why == "" {
			why = fmt.Sprintf("%d blocks a multiprocessor", launch.Occupancy.Blocks)
		} else {
			why = "left out: " + why
		}
		fmt.Fprintf(out, "  %-*s %8.2f µs est, %3d registers est, %s\n", wide, c.Name, c.Estimate, launch.Registers, why)
	}
	return nil
}

// bar is a line of progress on a terminal; nothing elsewhere.
type bar struct {
	out   io.Writer
	title string
	on    bool
}

func newBar(out io.Writer, title string) *bar {
	f, ok := out.(*os.File)
	if !ok {
		return &bar{}
	}
	info, err := f.Stat()
	return &bar{out, title, err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (b *bar) step(s tune.Step) {
	if !b.on {
		return
	}
	const wide = 24
	full := min(wide, wide*s.Done/max(s.Of, 1))
	fmt.Fprintf(b.out, "\r\033[K%s [%s%s] %d of %d, best %.2f µs", b.title, strings.Repeat("█", full), strings.Repeat("░", wide-full), s.Done, s.Of, s.Best)
}

func (b *bar) end() {
	if b.on {
		fmt.Fprint(b.out, "\r\033[K")
	}
}

// sameFile reports whether two names are of one file that there is.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, fail := os.Stat(b)
	return err == nil && fail == nil && os.SameFile(one, other)
}

func newBenchReport() *cobra.Command {
	var out, title string
	cmd := &cobra.Command{
		Use:   "report FILE… -o report.html",
		Short: "Make a page of what was measured: rooflines of all types, tables, models",
		Long: `Make a page of what "bench gemm", "bench model" or "bench tune" wrote with --json, or of
tests/record/qmm_*.json: rooflines of all types and of each, times beside the read kernel
and cuBLAS, sums over models. One HTML file, without script. Needs no GPU. FILE may be -,
standard input.`,
		Example: `  tilus-lab bench report tests/record/qmm_1.json tests/record/qmm_16.json -o report.html`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var rows []qmm.Row
			for _, name := range args {
				if sameFile(name, out) {
					return usageError{fmt.Errorf("-o %s is one of what was measured, which the page would replace; name another file", out)}
				}
				name, data, err := readInput(cmd, name)
				if err != nil {
					return err
				}
				more, err := report.Rows(name, data)
				if err != nil {
					return err
				}
				rows = append(rows, more...)
			}
			rows, err := report.Once(rows) // as the page has them
			if err != nil {
				return err
			}
			page, err := report.Page(title, rows)
			if err != nil {
				return err
			}
			out = cmp.Or(out, "-")
			if err := write(cmd, out, page); err != nil || out == "-" {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d rows\n", out, len(rows))
			return err
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "write the page to `FILE`; standard output where it is not given")
	cmd.Flags().StringVar(&title, "title", "Quantised products: what was measured", "`TITLE` of the page")
	return cmd
}
