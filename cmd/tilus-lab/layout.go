package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// maxPrinted is the most cells that are printed one by one.
const maxPrinted = 1 << 16

func newLayout() *cobra.Command {
	var asJSON, table bool
	var svg, png, view, elem string
	cmd := &cobra.Command{
		Use:   "layout EXPR",
		Short: "Show which thread holds which element",
		Long: `Show a layout: its canonical form, its four lists, and on request the whole map
from (thread, slot) to the index of an element, as a table, JSON or a picture.

EXPR is layout notation: atoms such as local(2, 1), spatial(8, 4),
column_local, column_spatial and replicated, chained with '.' (the right factor
is the inner one), and functions such as reduce, permute and reshape.`,
		Example: `  tilus-lab layout "local(2, 1).spatial(8, 4).local(1, 2)"
  tilus-lab layout "local(2, 1).spatial(8, 4).local(1, 2)" --svg mma_c.svg
  tilus-lab layout "local(2, 1).column_spatial(4, 8).local(2, 1)" --type i6 --view reinterpret --svg view.svg
  tilus-lab layout "spatial(3, 4) / spatial(3, 1)" --table`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && table {
				return usageError{errors.New("--json and --table are two ways to print; choose one")}
			}
			l, err := layout.Parse(args[0])
			if err != nil {
				return showLayoutError(cmd.ErrOrStderr(), args[0], err)
			}
			if elem == "" && view == "reinterpret" {
				return usageError{errors.New("--view reinterpret needs --type, the type of the elements")}
			}
			var t dtype.Type
			if elem != "" {
				if t, err = dtype.Parse(elem); err != nil {
					return usageError{err}
				}
			}
			pictures := svg != "" || png != ""
			if pictures {
				pic, err := drawLayout(l, view, t)
				if err != nil {
					return err
				}
				if svg != "" {
					if err := write(cmd, svg, pic.SVG); err != nil {
						return err
					}
				}
				if png != "" {
					raw, err := layoutviz.PNG(pic)
					if err != nil {
						return err
					}
					if err := write(cmd, png, raw); err != nil {
						return err
					}
				}
			}
			out := cmd.OutOrStdout()
			switch {
			case asJSON:
				enc := json.NewEncoder(out)
				enc.SetEscapeHTML(false)
				return enc.Encode(layoutJSON(l))
			case table:
				return layoutTable(out, l)
			case pictures:
				return nil
			}
			return layoutText(out, l, t)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print all of it as JSON")
	f.BoolVar(&table, "table", false, "print the map, a line for each thread")
	f.StringVar(&svg, "svg", "", "draw it into `FILE` (- for standard output)")
	f.StringVar(&png, "png", "", "draw it into `FILE` as PNG")
	f.StringVar(&view, "view", "tensor", "what to draw: tensor, threads or reinterpret")
	f.StringVar(&elem, "type", "", "element `TYPE`, such as i6: adds the packed u8 view")
	return cmd
}

// showLayoutError prints the problems of layout text below the text itself.
func showLayoutError(w io.Writer, expr string, err error) error {
	var list diag.List
	if !errors.As(err, &list) || strings.ContainsAny(expr, "\n\t") || len(expr) > 200 {
		return err
	}
	for _, p := range list {
		if p.Pos.Line == 1 && p.Pos.Col > 0 && p.Pos.Col <= len(expr)+1 {
			end := p.Pos.Col + 1
			if p.End.Line == 1 && p.End.Col > p.Pos.Col {
				end = min(p.End.Col, len(expr)+1)
			}
			fmt.Fprintf(w, "  %s\n  %s%s\n", expr, strings.Repeat(" ", p.Pos.Col-1), strings.Repeat("^", max(end-p.Pos.Col, 1)))
		}
		fmt.Fprintln(w, p.Error())
	}
	return silent(1)
}

func drawLayout(l layout.Layout, view string, t dtype.Type) (layoutviz.Picture, error) {
	switch view {
	case "tensor":
		return layoutviz.Tensor(l, layoutviz.Options{})
	case "threads":
		return layoutviz.Threads(l, layoutviz.Options{})
	case "reinterpret":
		packed, err := layout.PackedView(t.Bits(), l)
		if err != nil {
			return layoutviz.Picture{}, err
		}
		return layoutviz.Reinterpret(dtype.U8, packed, t, l, layoutviz.Options{})
	}
	views := []string{"tensor", "threads", "reinterpret"}
	err := fmt.Errorf("--view %s is not one of %s", view, strings.Join(views, ", "))
	if near := diag.Suggest(view, views); near != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return layoutviz.Picture{}, usageError{err}
}

// layoutDoc is a layout as JSON. Map[thread][slot] is an index; it is left out
// above maxPrinted cells, and MapOmitted says so.
type layoutDoc struct {
	Text         string    `json:"text"`
	Shape        []int     `json:"shape"`
	ModeShape    []int     `json:"mode_shape"`
	SpatialModes []int     `json:"spatial_modes"`
	LocalModes   []int     `json:"local_modes"`
	Threads      int       `json:"threads"`
	Slots        int       `json:"slots"`
	Replicas     int       `json:"replicas"`
	Map          [][][]int `json:"map,omitempty"`
	MapOmitted   string    `json:"map_omitted,omitempty"`
}

func layoutJSON(l layout.Layout) layoutDoc {
	d := layoutDoc{Text: l.String(), Shape: l.Shape(), ModeShape: l.ModeShape(), SpatialModes: l.SpatialModes(), LocalModes: l.LocalModes(),
		Threads: l.Threads(), Slots: l.Slots(), Replicas: l.Replicas()}
	for _, list := range []*[]int{&d.Shape, &d.ModeShape, &d.SpatialModes, &d.LocalModes} {
		*list = append([]int{}, *list...) // [] rather than null
	}
	if n := l.Threads() * l.Slots(); n > maxPrinted {
		d.MapOmitted = fmt.Sprintf("the map has %d cells, and at most %d are printed", n, maxPrinted)
		return d
	}
	d.Map = make([][][]int, l.Threads())
	for t := range d.Map {
		d.Map[t] = make([][]int, l.Slots())
		for s := range d.Map[t] {
			d.Map[t][s] = append([]int{}, l.Index(t, s)...)
		}
	}
	return d
}

func layoutText(w io.Writer, l layout.Layout, t dtype.Type) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "layout\t%s\n", l)
	fmt.Fprintf(tw, "shape\t%s, %d elements\n", ints(l.Shape()), l.Size())
	fmt.Fprintf(tw, "threads\t%d\n", l.Threads())
	fmt.Fprintf(tw, "slots\t%d in each thread\n", l.Slots())
	if n := l.Replicas(); n > 1 {
		fmt.Fprintf(tw, "replicas\t%d threads hold each element\n", n)
	}
	fmt.Fprintf(tw, "modes\t%s, spatial %s, local %s\n", ints(l.ModeShape()), ints(l.SpatialModes()), ints(l.LocalModes()))
	last := l.Threads() - 1
	fmt.Fprintf(tw, "for example\tthread %d slot %d holds %s\n", last, l.Slots()-1, index(l.Index(last, l.Slots()-1)))
	if t.Valid() {
		bits := t.Bits() * l.Slots()
		fmt.Fprintf(tw, "as %s\t%d bits in each thread\n", t, bits)
		if packed, err := layout.PackedView(t.Bits(), l); err != nil {
			fmt.Fprintf(tw, "packed view\tnone: %v\n", firstLine(err))
		} else {
			fmt.Fprintf(tw, "packed view\tu8%s %s\n", ints(packed.Shape()), packed)
		}
	}
	return tw.Flush()
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// layoutTable prints the map with a line for each thread.
func layoutTable(w io.Writer, l layout.Layout) error {
	if n := l.Threads() * l.Slots(); n > maxPrinted {
		return fmt.Errorf("the table would have %d cells, more than %d; ask for the threads that matter with a smaller layout", n, maxPrinted)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "thread")
	for s := range l.Slots() {
		fmt.Fprintf(tw, "\tslot %d", s)
	}
	fmt.Fprintln(tw)
	for t := range l.Threads() {
		fmt.Fprint(tw, t)
		for s := range l.Slots() {
			fmt.Fprintf(tw, "\t%s", index(l.Index(t, s)))
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}

func ints(list []int) string { return "[" + commas(list) + "]" }

func index(at []int) string { return "(" + commas(at) + ")" }

func commas(list []int) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = fmt.Sprint(n)
	}
	return strings.Join(parts, ", ")
}
