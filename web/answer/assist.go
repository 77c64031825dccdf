package answer

import (
	"bytes"
	"fmt"

	"github.com/yuin/goldmark"

	"github.com/tilus-lab/tilus-lab/gpu/assist"
)

// Assist asks about the place between two parts of a text. Kind is "program" for program
// text, "layout" for any notation.
type Assist struct {
	Kind   string `json:"kind"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Offer is something that may be written at a place.
type Offer struct {
	Text string `json:"text"`
	Kind string `json:"kind"` // "function", "field", "variable", "keyword", "type", "constant"
	Doc  string `json:"doc,omitempty"`
}

// maxOffers is how many offers one answer has.
const maxOffers = 300

// Complete lists what may be written there, and the word that it replaces.
func (a Assist) Complete() (any, error) {
	var items []assist.Item
	var word string
	switch a.Kind {
	case "program":
		items, word = assist.Complete(a.Before)
	case "layout":
		items, word = assist.CompleteNotation(a.Before)
	default:
		return nil, a.unknown()
	}
	out := []Offer{}
	for _, x := range items[:min(len(items), maxOffers)] {
		out = append(out, Offer{x.Text, x.Kind, x.Doc})
	}
	return map[string]any{"items": out, "word": word}, nil
}

// Describe explains the word there, as safe HTML; empty where nothing is known of it.
func (a Assist) Describe() (any, error) {
	var text string
	switch a.Kind {
	case "program":
		text = assist.Describe(a.Before+a.After, len(a.Before))
	case "layout":
		text = assist.DescribeNotation(a.Before+a.After, len(a.Before))
	default:
		return nil, a.unknown()
	}
	html, err := Markdown(text)
	return map[string]string{"html": html}, err
}

// Markdown is a text as HTML without what could run: raw HTML and script addresses are left out.
func Markdown(text string) (string, error) {
	var b bytes.Buffer
	err := goldmark.Convert([]byte(text), &b)
	return b.String(), err
}

func (a Assist) unknown() error { return fmt.Errorf("there is no kind of text %.40q", a.Kind) }
