package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/fusion"
	"github.com/tilus-lab/tilus-lab/layoutviz/theatre"
	"github.com/tilus-lab/tilus-lab/layoutviz/timeline"
)

func newGallery() *cobra.Command {
	return &cobra.Command{
		Use:   "gallery DIR",
		Short: "Draw one of each picture",
		Long: `Draw one of each picture into DIR, as SVG, PNG, PDF, TikZ (.tex) and, where it is a
table of cells, JSON, CSV, Markdown and plain text, the tensor view also in every palette
on every theme, and write an index.html that shows them. DIR is made if it does not
exist; files of the same names are replaced.`,
		Example: `  tilus-lab gallery /tmp/gallery`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			if err := onlyFile("DIR", dir, "directory", "pictures become many files"); err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			// Pictures of machines at work are no tables of cells.
			machines := slices.Concat(theatre.Gallery(), timeline.Gallery(), fusion.Gallery())
			drawn := []string{"svg", "png", "pdf", "tikz"}
			examples := slices.Concat(machines, layoutviz.Gallery())
			first := layoutviz.Gallery()[0]
			for _, o := range layoutviz.Looks() {
				examples = append(examples, layoutviz.Example{
					Name: "look-" + o.Theme + "-" + o.Palette,
					Doc:  o.Palette + " colours on the " + o.Theme + " theme",
					Draw: func(layoutviz.Options) (layoutviz.Picture, error) { return first.Draw(o) },
				})
			}
			var names, docs []string
			for i, x := range examples {
				p, err := x.Draw(layoutviz.Options{})
				if err != nil {
					return fmt.Errorf("gallery: %s: %w", x.Name, err)
				}
				for _, f := range layoutviz.Formats() {
					if i < len(machines) && !slices.Contains(drawn, f.Name) {
						continue
					}
					out, err := f.Encode(p)
					if err != nil {
						return fmt.Errorf("gallery: %s as %s: %w", x.Name, f.Name, err)
					}
					ext := f.Name
					if ext == "tikz" {
						ext = "tex"
					}
					if err := os.WriteFile(filepath.Join(dir, x.Name+"."+ext), out, 0o644); err != nil {
						return err
					}
				}
				names, docs = append(names, x.Name), append(docs, x.Doc)
			}
			if err := os.WriteFile(filepath.Join(dir, "index.html"), layoutviz.GalleryPage(names, docs), 0o644); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d pictures in %s\n", len(names), filepath.Join(dir, "index.html"))
			return nil
		},
	}
}
