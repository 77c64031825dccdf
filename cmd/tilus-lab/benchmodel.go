package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
)

func newBenchModel() *cobra.Command {
	var b benchFlags
	var name string
	var estimate bool
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Time all linear layers of a language model",
		Long: `Time all linear layers of a language model, without embedding and output head: the sum of
their times, and the memory that their weights take. --cublas times cuBLAS with plain
weights on the same layers in the same run. Without a GPU --estimate tells the memory, and
the times that the model of schedules expects of an H200.`,
		Example: `  tilus-lab bench model --model qwen2.5-32b --types u4,f6e3m2,u8 --batches 1,16,2048 --cublas python3
  tilus-lab bench model --model gemma-2-9b --types all --batches 1 --estimate`,
		Args: wordsOfFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			model, err := qmm.FindModel(name)
			if err != nil {
				return usageError{err}
			}
			batches, err := b.rows()
			if err != nil {
				return err
			}
			kinds, err := b.layers(1, 1)
			if err != nil {
				return err
			}
			out := beside(cmd, b.jsonFile)
			if estimate {
				if err := without(cmd, "estimate", "times nothing", "json", "cublas", "plans", "tries", "seconds", "also", "commit"); err != nil {
					return err
				}
				return estimated(out, model, kinds, batches)
			}
			bench, err := b.open("--estimate tells memory and expected times without one")
			if err != nil {
				return err
			}
			defer bench.Close()
			fmt.Fprintf(out, "%s on %s\n", model.Name, bench.GPU())
			var rows []qmm.Row
			until := b.until()
			for i := range kinds {
				for _, m := range batches {
					for _, s := range model.Shapes {
						all, err := b.layers(s.N, s.K)
						if err != nil {
							return err
						}
						r, err := b.measure(cmd.Context(), bench, all[i], s.Name, m, until, nil)
						if err != nil {
							return err
						}
						rows = append(rows, r)
					}
				}
				if b.jsonFile != "" && b.jsonFile != "-" { // a run that is cut short leaves what it has
					if err := writeJSON(cmd, b.jsonFile, rows); err != nil {
						return err
					}
				}
			}
			if err := b.compare(cmd.Context(), rows); err != nil {
				return err
			}
			printSums(out, model, model.Sums(rows))
			if b.jsonFile != "" {
				return writeJSON(cmd, b.jsonFile, rows)
			}
			return nil
		},
	}
	b.add(cmd, []string{"u4", "u8"}, []string{"1", "16", "2048"})
	var names []string
	for _, m := range qmm.Models() {
		names = append(names, m.Name)
	}
	cmd.Flags().StringVar(&name, "model", names[0], "`MODEL`: "+strings.Join(names, ", "))
	cmd.Flags().BoolVar(&estimate, "estimate", false, "time nothing: tell memory, and expected times on an H200")
	return cmd
}

// printSums prints what whole models take.
func printSums(out io.Writer, model qmm.Model, sums []qmm.Sum) {
	fmt.Fprintf(out, "plain weights of 16 bits: %.2f GB\n%5s %-8s %8s %9s %11s %9s\n", float64(model.Plain())/1e9, "rows", "weights", "GB", "ms", "cuBLAS, ms", "as fast")
	for _, s := range sums {
		fmt.Fprintf(out, "%5d %-8s %8.2f %9.3f", s.M, s.Weight, float64(s.Bytes)/1e9, s.Ms)
		if s.CublasMs > 0 {
			fmt.Fprintf(out, " %11.3f %8.2f×", s.CublasMs, s.OfCublas())
		} else {
			fmt.Fprintf(out, " %11s %9s", "–", "–")
		}
		fmt.Fprintln(out)
	}
}

// estimated tells what is known without a GPU.
func estimated(out io.Writer, model qmm.Model, kinds []qmm.Linear, batches []int) error {
	fmt.Fprintf(out, "%s, est: not measured; times are what the model of schedules expects of an H200\nplain weights of 16 bits: %.2f GB\n%-8s %8s", model.Name, float64(model.Plain())/1e9, "weights", "GB")
	for _, m := range batches {
		fmt.Fprintf(out, " %8s %4d", "ms, rows", m)
	}
	fmt.Fprintln(out)
	for _, kind := range kinds {
		fmt.Fprintf(out, "%-8s %8.2f", kind.Name(), float64(model.Bytes(kind))/1e9)
		for _, m := range batches {
			ms, _, err := model.Estimate(kind, m)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, " %9.3f est", ms)
		}
		fmt.Fprintln(out)
	}
	return nil
}
