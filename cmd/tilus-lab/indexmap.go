package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/layoutviz/fusion"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	hloindex "github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

func newIndexMap() *cobra.Command {
	var asJSON bool
	var draw *pictureFlags
	cmd := &cobra.Command{
		Use:   "indexmap MAP|FILE",
		Short: "Simplify an indexing map step by step, or show those of a fusion",
		Long: `Simplify an indexing map in the notation of XLA, tell each step with the facts that decide
it, and prove the result by evaluating both maps at every point of the domain.

With a FILE of HLO text ("-" for standard input) instead, the maps of its entry are shown:
which elements of each parameter an element of each result is computed from.`,
		Example: `  tilus-lab indexmap '(th)[s] -> ((th * 4 + s) mod 1024), domain: th in [0, 1023], s in [0, 3]'
  tilus-lab indexmap fusion.hlo --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w := cmd.OutOrStdout()
			if strings.HasPrefix(strings.TrimSpace(args[0]), "(") {
				if draw.wanted() {
					m, err := affine.ParseMap(args[0])
					if err != nil {
						return err
					}
					pic, err := fusion.Steps(m, draw.options())
					if err != nil {
						return err
					}
					return draw.write(cmd, pic)
				}
				return explainMap(w, args[0], asJSON)
			}
			if draw.wanted() {
				return usageError{errors.New("a picture shows one map; of a fusion, see tilus-lab fuse --draw")}
			}
			return fusionMaps(w, args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	draw = addPictureFlags(cmd)
	return cmd
}

type mapStep struct {
	Rule   string `json:"rule"`
	Before string `json:"before"`
	After  string `json:"after"`
	Facts  string `json:"facts,omitempty"`
}

func explainMap(w io.Writer, text string, asJSON bool) error {
	m, err := affine.ParseMap(text)
	if err != nil {
		return err
	}
	out, steps := m.Explain()
	proof := affine.Prove(m)
	proved := fmt.Sprintf("proved at all %d points", proof.Points)
	if proof.Err != nil {
		proved = "not proved: " + strings.TrimPrefix(proof.Err.Error(), "affine: ")
	}
	if asJSON {
		list := []mapStep{}
		for _, s := range steps {
			list = append(list, mapStep(s))
		}
		return indented(w, map[string]any{"map": m.String(), "simplified": out.String(), "steps": list, "points": proof.Points, "proved": proof.Err == nil})
	}
	fmt.Fprintln(w, m)
	for i, s := range steps {
		fmt.Fprintf(w, "%3d. %s\n     %s\n", i+1, s.Rule, s.Before)
		if s.After != "" {
			fmt.Fprintf(w, "  => %s\n", s.After)
		}
		if s.Facts != "" {
			fmt.Fprintf(w, "     with %s\n", s.Facts)
		}
	}
	fmt.Fprintf(w, "%s\n%s\n", out, proved)
	return nil
}

func fusionMaps(w io.Writer, name string, asJSON bool) error {
	text, err := readText(name)
	if err != nil {
		return err
	}
	m, err := hlo.Parse(name, text)
	if err != nil {
		return err
	}
	c := m.Entry
	if r := c.Root; r.Op == hlo.Fusion {
		c = r.Apply
	}
	type reading struct {
		Result    string   `json:"result"`
		Parameter string   `json:"parameter"`
		Maps      []string `json:"maps"`
	}
	list := []reading{}
	for _, r := range c.Roots() {
		sets := hloindex.Group(c, r)
		for _, p := range c.Params {
			row := reading{Result: r.Name, Parameter: p.Name, Maps: []string{}}
			for _, x := range sets[p] {
				row.Maps = append(row.Maps, x.String())
			}
			list = append(list, row)
		}
	}
	if asJSON {
		return indented(w, list)
	}
	for _, r := range list {
		fmt.Fprintf(w, "%s reads %s", r.Result, r.Parameter)
		if len(r.Maps) == 0 {
			fmt.Fprint(w, " nowhere")
		}
		fmt.Fprintln(w)
		for _, x := range r.Maps {
			fmt.Fprintln(w, "  "+x)
		}
	}
	return nil
}

// indented prints JSON for reading.
func indented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
