package layoutviz

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Format is a form in which a picture can be had. Its name is also the flag of
// the command line, and its extension that of files.
type Format struct {
	Name   string
	MIME   string
	Doc    string
	Encode func(Picture) ([]byte, error)
}

// Formats lists all forms.
func Formats() []Format {
	return []Format{
		{"svg", "image/svg+xml", "for web pages and slides", func(p Picture) ([]byte, error) { return p.SVG, nil }},
		{"png", "image/png", "pixels, at twice the size", PNG},
		{"pdf", "application/pdf", "one page with embedded letters", pdf},
		{"tikz", "text/x-tex", "a LaTeX document of one tikzpicture", tikz},
		{"json", "application/json", "every element with its thread, slot and place, and the texts of all cells", jsonOf},
		{"csv", "text/csv", "a line for each element: thread, slot, place", csvOf},
		{"md", "text/markdown", "the cells as Markdown tables", markdown},
		{"txt", "text/plain", "the cells as plain text", plain},
	}
}

// Export is the picture in a form, given by name or by a file name that ends in
// one: "svg", "mma.pdf", "mma.tex". The same picture gives the same bytes.
func Export(p Picture, format string) ([]byte, error) {
	name := strings.ToLower(format[strings.LastIndexByte(format, '.')+1:])
	if name == "tex" {
		name = "tikz"
	}
	var names []string
	for _, f := range Formats() {
		if f.Name == name {
			out, err := f.Encode(p)
			if err != nil {
				return nil, fmt.Errorf("layoutviz: %s: %w", name, err)
			}
			return out, nil
		}
		names = append(names, f.Name)
	}
	err := fmt.Errorf("layoutviz: no form %q; there are %s", name, strings.Join(names, ", "))
	if near := diag.Suggest(name, names); near != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return nil, err
}

// errEmpty is for a Picture that no view has drawn.
var errEmpty = fmt.Errorf("the picture is empty")

// errCoarse is for contents of a picture that shows none of its elements.
var errCoarse = fmt.Errorf("one square stands for several elements here, so that there is no list of them; the most is %d cells", maxLinked)

// PNG is the picture as a PNG image at twice its size, or smaller where that
// would be more than 40 million pixels.
func PNG(p Picture) ([]byte, error) {
	if p.scene == nil {
		return nil, errEmpty
	}
	return p.scene.PNG()
}

func pdf(p Picture) ([]byte, error) {
	if p.scene == nil {
		return nil, errEmpty
	}
	return p.scene.PDF(p.Title, p.Desc)
}

func tikz(p Picture) ([]byte, error) {
	if p.scene == nil {
		return nil, errEmpty
	}
	if p.tex != "" {
		return []byte(p.tex), nil
	}
	return p.scene.TikZ(p.Title, p.Desc), nil
}

// jsonElement is an [Element] as JSON.
type jsonElement struct {
	ID     string       `json:"id"`
	Thread int          `json:"thread"`
	Slot   int          `json:"slot"`
	At     []int        `json:"at,omitempty"`
	Also   []jsonHolder `json:"also,omitempty"`
	Keys   []int        `json:"keys"`
	Box    [4]int       `json:"box"`
	Label  string       `json:"label"`
}

type jsonHolder struct {
	Thread int `json:"thread"`
	Slot   int `json:"slot"`
}

type jsonGrid struct {
	Title string     `json:"title,omitempty"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
}

func jsonOf(p Picture) ([]byte, error) {
	if p.scene == nil {
		return nil, errEmpty
	}
	doc := struct {
		Title    string        `json:"title"`
		Desc     string        `json:"desc"`
		Form     string        `json:"form,omitempty"`
		Text     string        `json:"text,omitempty"`
		Width    int           `json:"width"`
		Height   int           `json:"height"`
		Elements []jsonElement `json:"elements"`
		Grids    []jsonGrid    `json:"grids"`
	}{p.Title, p.Desc, p.Form, p.Text, p.Width, p.Height, []jsonElement{}, []jsonGrid{}}
	for _, e := range p.IDs {
		if e.ID != "" {
			var also []jsonHolder
			for _, h := range e.Also {
				also = append(also, jsonHolder(h))
			}
			doc.Elements = append(doc.Elements, jsonElement{e.ID, e.Thread, e.Slot, e.At, also, e.Keys, [4]int{e.X, e.Y, e.W, e.H}, e.Label})
		}
	}
	for _, g := range p.Grids {
		doc.Grids = append(doc.Grids, jsonGrid(g))
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	if err := enc.Encode(doc); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// csvOf has a line for each element and each thread that holds it.
func csvOf(p Picture) ([]byte, error) {
	rank, n := 0, 0
	for _, e := range p.IDs {
		rank = max(rank, len(e.At))
		if e.ID != "" {
			n++
		}
	}
	if n == 0 {
		return nil, errCoarse
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	head := []string{"id", "thread", "slot"}
	for i := range rank {
		head = append(head, fmt.Sprintf("d%d", i))
	}
	rows := [][]string{append(head, "label")}
	for _, e := range p.IDs {
		if e.ID == "" {
			continue
		}
		for _, h := range append([]layout.Holder{{Thread: e.Thread, Slot: e.Slot}}, e.Also...) {
			row := []string{e.ID, strconv.Itoa(h.Thread), strconv.Itoa(h.Slot)}
			for i := range rank {
				if i < len(e.At) {
					row = append(row, strconv.Itoa(e.At[i]))
				} else {
					row = append(row, "")
				}
			}
			rows = append(rows, append(row, e.Label))
		}
	}
	if err := w.WriteAll(rows); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func markdown(p Picture) ([]byte, error) {
	if len(p.Grids) == 0 {
		return nil, errCoarse
	}
	return scene.Markdown(p.Title, p.Desc, p.Grids), nil
}

func plain(p Picture) ([]byte, error) {
	if len(p.Grids) == 0 {
		return nil, errCoarse
	}
	return scene.Plain(p.Title, p.Desc, p.Grids), nil
}
