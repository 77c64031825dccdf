package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure quantised products on an NVIDIA GPU",
		Long: `Measure quantised products on an NVIDIA GPU: CUDA graphs of many launches over
copies of the weights that do not fit the cache, medians, beside a kernel that only
reads as many bytes. Results are checked against float64 before anything is timed.
What needs no GPU: "bench report" makes a page of what was measured, "bench tune
--dry-run" lists schedules, "bench model --estimate" tells memory and expected times.`,
	}
	for _, c := range []*cobra.Command{newBenchGemm(), newBenchModel(), newBenchTune(), newBenchReport()} {
		cmd.AddCommand(once(c))
	}
	return cmd
}

// benchFlags are what both commands take.
type benchFlags struct {
	types, batches          []string
	words, jsonFile, commit string
	tries                   int
	seconds                 float64
	cublas                  string
	plans                   []string
	also                    string
}

func (b *benchFlags) add(cmd *cobra.Command, types, batches []string) {
	f := cmd.Flags()
	f.StringSliceVar(&b.types, "types", types, "element types of weights or presets; \"all\" is every type")
	f.StringSliceVar(&b.batches, "batches", batches, "rows of x")
	f.StringVar(&b.words, "form", "", "more words of the kind of layer: `WORDS` such as \"group=64 scale=bf16 act=bf16\"")
	f.IntVar(&b.tries, "tries", 0, "time `N` schedules beside the chosen one, and take the fastest")
	f.Float64Var(&b.seconds, "seconds", 0, "after `S` seconds time each layer's chosen schedule only")
	f.StringSliceVar(&b.plans, "plans", nil, "of the plans that so many rows may take, time these: decode, wide, prefill, expand")
	f.StringVar(&b.also, "also", "", "time the schedules of this `FILE` too, a table as gemm --table writes it or gpu/qmm ships it")
	f.StringVar(&b.jsonFile, "json", "", "write the rows to `FILE`; - is standard output")
	f.StringVar(&b.cublas, "cublas", "", "also time cuBLAS with plain weights, through torch of this `PYTHON`")
	f.StringVar(&b.commit, "commit", "", "commit that the binary was built from, where it does not know")
}

// mostSeconds bounds --seconds: a year.
const mostSeconds = 365 * 24 * 3600

// wordsOfFlags finds words that no flag has taken: those of a kind of layer behind its type, or what stands behind a comma and a space.
func wordsOfFlags(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	words := strings.Join(args, " ")
	return fmt.Errorf("%q is of no flag; more words of the kind of layer are --form %[1]q, and lists have commas without spaces", words)
}

// layers are the kinds of layer of a shape, each once.
func (b *benchFlags) layers(n, k int) ([]qmm.Linear, error) {
	var out []qmm.Linear
	var types []string
	for _, name := range b.types {
		if name != "all" {
			types = append(types, name)
			continue
		}
		for _, t := range dtype.All() {
			if _, err := qmm.Parse(t.String(), 1, 1); err == nil {
				types = append(types, t.String())
			}
		}
	}
	if len(types) == 0 {
		return nil, usageError{fmt.Errorf("--types names no type; there is \"all\", too")}
	}
	var asked []qmm.Linear
	for _, t := range types {
		l, err := qmm.Parse(t+" "+b.words, n, k)
		if err != nil {
			return nil, usageError{err}
		}
		if !slices.Contains(asked, l) {
			asked, out = append(asked, l), append(out, l.Usual())
		}
	}
	return out, nil
}

// rows are the numbers of rows, each once; plans that there are not, and bounds that are none, are found with them.
func (b *benchFlags) rows() ([]int, error) {
	switch {
	case b.tries < 0:
		return nil, usageError{fmt.Errorf("--tries %d is no number of schedules: there are 0 and more", b.tries)}
	case !(b.seconds >= 0 && b.seconds <= mostSeconds):
		return nil, usageError{fmt.Errorf("--seconds %g: there are 0, which is no bound, to %g", b.seconds, float64(mostSeconds))}
	}
	var out []int
	for _, s := range b.batches {
		m, err := strconv.Atoi(s)
		if err != nil || m < 1 || m > qmm.MaxSize {
			return nil, usageError{fmt.Errorf("%q is no number of rows: there are 1 to %d", s, qmm.MaxSize)}
		}
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return nil, usageError{fmt.Errorf("--batches names no number of rows; there are 1 to %d", qmm.MaxSize)}
	}
	for _, plan := range b.plans {
		if err := somePlan(plan); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// somePlan finds plans that there are not.
func somePlan(plan string) error {
	if !slices.Contains([]string{qmm.Decode, qmm.Wide, qmm.Prefill, qmm.Expand}, plan) {
		return usageError{fmt.Errorf("no plan %q; there are %s, %s, %s and %s", plan, qmm.Decode, qmm.Wide, qmm.Prefill, qmm.Expand)}
	}
	return nil
}

// measure times a layer by the plans that m rows may take, and gives the fastest one's row.
func (b *benchFlags) measure(ctx context.Context, bench *qmm.Bench, l qmm.Linear, name string, m int, until time.Time, log io.Writer) (qmm.Row, error) {
	plans := bench.Plans(l, m)
	if len(b.plans) > 0 {
		plans = bench.Named(l, m)
	}
	var best qmm.Row
	var failed error
	for _, plan := range plans {
		if len(b.plans) > 0 && !slices.Contains(b.plans, plan) {
			continue
		}
		r, err := b.measureBy(ctx, bench, l, name, m, plan, until, log)
		if log != nil && b.tries > 0 {
			fmt.Fprintf(log, "    %s: %.2f µs %v\n", plan, r.MedianUs, err)
		}
		if err != nil {
			failed = fmt.Errorf("%s: %w", plan, err)
		} else if best.MedianUs == 0 || r.MedianUs < best.MedianUs {
			best = r
		}
	}
	if best.MedianUs == 0 {
		if failed == nil {
			failed = fmt.Errorf("%d rows take none of the plans %v, but %v", m, b.plans, plans)
		}
		return best, failed
	}
	return best, nil
}

// measureBy times a layer by a plan, with the schedules of --tries and --also.
func (b *benchFlags) measureBy(ctx context.Context, bench *qmm.Bench, l qmm.Linear, name string, m int, plan string, until time.Time, log io.Writer) (qmm.Row, error) {
	choices, err := bench.Choices(l, plan, m, b.tries)
	if err != nil {
		return qmm.Row{}, err
	}
	more, err := b.tabled(l, plan, m)
	if err != nil {
		return qmm.Row{}, err
	}
	for _, c := range more {
		if !slices.Contains(choices, c) {
			choices = append(choices, c)
		}
	}
	// A GPU that hangs ends it; a schedule takes a fraction of a second.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(min(30+4*len(choices), mostSeconds))*time.Second)
	defer cancel()
	return bench.Time(ctx, l, name, m, choices, until, func(c qmm.Choice, t tune.Timing, err error) {
		if b.tries > 0 && log != nil {
			fmt.Fprintf(log, "    %s: %.2f µs, %d registers %v\n", c, t.Median, t.Registers, err)
		}
	})
}

// tabled is what --also has for a plan.
func (b *benchFlags) tabled(l qmm.Linear, plan string, m int) ([]qmm.Choice, error) {
	var out []qmm.Choice
	switch plan {
	case qmm.Decode:
		table, err := readTable[qmm.Tuned](b.also)
		if err != nil {
			return nil, err
		}
		table = slices.DeleteFunc(table, func(t qmm.Tuned) bool { return t.Schedule.Warps == 0 }) // of another plan
		all, err := l.In(table, m)
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			out = append(out, qmm.Choice{Plan: plan, Schedule: s})
		}
	case qmm.Wide, qmm.Prefill:
		table, err := readTable[qmm.TunedWide](b.also)
		if err != nil {
			return nil, err
		}
		table = slices.DeleteFunc(table, func(t qmm.TunedWide) bool {
			return t.Schedule.Consumers == 0 || t.Schedule.Persistent != (plan == qmm.Prefill)
		})
		all, err := l.InWide(table, m)
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			out = append(out, qmm.Choice{Plan: plan, Wide: s})
		}
	}
	return out, nil
}

// readTable reads the schedules that --also names, of any plan; without a name there are none.
func readTable[T any](name string) ([]T, error) {
	if name == "" {
		return nil, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var out []T
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("--also %s holds no table of schedules, as bench gemm --table writes it", name)
	}
	return out, nil
}

func (b *benchFlags) until() time.Time {
	if b.seconds <= 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(b.seconds * float64(time.Second)))
}

// open opens the GPU for measuring, or says what can be done without.
func (b *benchFlags) open(without string) (*qmm.Bench, error) {
	bench, err := qmm.NewBench(b.commit)
	if errors.Is(err, device.ErrNoGPU) {
		return nil, fmt.Errorf("%w: nothing can be timed on this machine; %s", err, without)
	}
	return bench, err
}

// compare times cuBLAS on the sizes of rows, if that is wanted.
func (b *benchFlags) compare(ctx context.Context, rows []qmm.Row) error {
	if b.cublas == "" {
		return nil
	}
	return qmm.Compare(ctx, b.cublas, rows)
}

func writeJSON(cmd *cobra.Command, path string, v any) error {
	data, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	return write(cmd, path, append(data, '\n'))
}

// sizeOf reads NxK.
func sizeOf(text string) (n, k int, ok bool) {
	a, b, _ := strings.Cut(text, "x")
	n, err := strconv.Atoi(a)
	k, fail := strconv.Atoi(b)
	return n, k, err == nil && fail == nil
}

// shapesOf reads names of Llama-3.3-70B's layers and NxK, each once.
func shapesOf(names []string) ([]qmm.Shape, error) {
	if len(names) == 0 {
		return nil, usageError{fmt.Errorf("--shapes names no layer; there are those of Llama-3.3-70B, such as gate_up, and NxK")}
	}
	model := qmm.Models()[0]
	var out []qmm.Shape
next:
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		for _, s := range model.Shapes {
			if s.Name == name {
				out = append(out, s)
				continue next
			}
		}
		var s qmm.Shape
		var ok bool
		if s.N, s.K, ok = sizeOf(name); !ok || s.N < 1 || s.K < 1 {
			return nil, usageError{fmt.Errorf("%q is no layer of %s (gate_up, down, qkv, o) and no NxK", name, model.Name)}
		}
		s.Name, s.Count = name, 1
		out = append(out, s)
	}
	return out, nil
}

func newBenchGemm() *cobra.Command {
	var b benchFlags
	var shapes []string
	var table string
	cmd := &cobra.Command{
		Use:   "gemm",
		Short: "Time quantised products of single layers",
		Example: `  tilus-lab bench gemm --types u4,f6e3m2 --shapes gate_up,o --batches 1,16 --json rows.json
  tilus-lab bench gemm --types all --form "group=64 act=bf16" --shapes 4096x4096 --tries 6`,
		Args: wordsOfFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			if b.jsonFile == "-" && table == "-" {
				return usageError{fmt.Errorf("--json and --table would both be standard output; name a file for one of them")}
			}
			bench, err := b.open("\"tilus-lab bench report\" makes a page of what was measured elsewhere")
			if err != nil {
				return err
			}
			defer bench.Close()
			out := beside(cmd, b.jsonFile, table)
			fmt.Fprintf(out, "%s\n%-8s %-5s %-8s %5s %9s %9s %6s %8s  %s\n", bench.GPU(), "weights", "act", "layer", "rows", "µs", "read µs", "ratio", "error", "schedule")
			var rows []qmm.Row
			var failed error
			until := b.until()
			for _, m := range batches {
				for _, s := range layers {
					kinds, err := b.layers(s.N, s.K)
					if err != nil {
						return err
					}
					for _, l := range kinds {
						r, err := b.measure(cmd.Context(), bench, l, s.Name, m, until, out)
						if err != nil {
							fmt.Fprintf(out, "%-8s %-5s %-8s %5d %v\n", l.Name(), l.ActType, s.Name, m, err)
							failed = err
							continue
						}
						rows = append(rows, r)
						fmt.Fprintf(out, "%-8s %-5s %-8s %5d %9.2f %9.2f %6.3f %8.1e  %s\n", nameOf(r), r.Act, r.Layer, r.M, r.MedianUs, r.ReadUs, r.Ratio, r.Error, scheduleText(r))
					}
				}
			}
			if err := b.compare(cmd.Context(), rows); err != nil {
				return err
			}
			for _, r := range rows {
				if r.OfCublas > 0 {
					fmt.Fprintf(out, "%-8s %-5s %-8s %5d %.2f times as fast as cuBLAS, %.2f µs\n", nameOf(r), r.Act, r.Layer, r.M, r.OfCublas, r.CublasUs)
				}
			}
			if len(rows) == 0 { // what files had stays
				return failed
			}
			if b.jsonFile != "" {
				if err := writeJSON(cmd, b.jsonFile, rows); err != nil {
					return err
				}
			}
			if table != "" {
				entries, err := qmm.Entries(rows)
				if err != nil {
					return err
				}
				if err := writeJSON(cmd, table, entries); err != nil {
					return err
				}
			}
			return failed
		},
	}
	b.add(cmd, []string{"u4"}, []string{"1", "16"})
	cmd.Flags().StringSliceVar(&shapes, "shapes", []string{"gate_up", "down", "qkv", "o"}, "layers of Llama-3.3-70B, or NxK")
	cmd.Flags().StringVar(&table, "table", "", "write the fastest schedules to `FILE`, as gpu/qmm ships them; - is standard output")
	return cmd
}

// nameOf is the kind of layer that a row is of.
func nameOf(r qmm.Row) string {
	if l, err := r.Linear(); err == nil {
		return l.Name()
	}
	return r.Weight
}

func scheduleText(r qmm.Row) string {
	c := r.Choice()
	if c.Plan == qmm.Decode {
		return fmt.Sprintf("%s, %d registers", c, r.Registers)
	}
	return c.String()
}
