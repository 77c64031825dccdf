package display

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz"
)

// document is the page of [Interactive]; its two placeholders stand once each.
//
//go:embed interactive.html
var document string

// Interactive shows pictures as one page that needs nothing but itself: what the
// pointer or the arrow keys are on lights up in all of them, with its sentence. Where
// pages cannot be, the pictures below each other stand for it.
func Interactive(pictures ...layoutviz.Picture) Data {
	doc, err := Document(pictures...)
	if err != nil {
		return MakeData(MIMETypeText, "display: "+err.Error())
	}
	high, names := 60, []string{}
	for _, p := range pictures {
		high += p.Height + 16
		names = append(names, p.Title)
	}
	m := MIMEMap{
		MIMETypeHTML: fmt.Sprintf(`<iframe sandbox="allow-scripts" title="%s" style="width: 100%%; height: %dpx; border: 0" srcdoc="%s"></iframe>`,
			html.EscapeString(strings.Join(names, "; ")), min(high, 900), html.EscapeString(doc)),
		MIMETypeText: strings.Join(names, "\n"),
	}
	if all, err := layoutviz.Below(strings.Join(names, "; "), pictures...); err == nil {
		m[MIMETypeSVG] = string(all.SVG)
	}
	return MIME(m, nil)
}

// Document is that page as a file.
func Document(pictures ...layoutviz.Picture) (string, error) {
	type element struct {
		Label string `json:"t"`
		Box   [4]int `json:"b"`
		Keys  []int  `json:"k"`
	}
	type one struct {
		Width    int       `json:"w"`
		Height   int       `json:"h"`
		Elements []element `json:"e"`
	}
	var body strings.Builder
	all := []one{}
	for _, p := range pictures {
		o := one{Width: p.Width, Height: p.Height, Elements: []element{}}
		for _, e := range p.IDs {
			o.Elements = append(o.Elements, element{e.Label, [4]int{e.X, e.Y, e.W, e.H}, e.Keys})
		}
		svg := string(p.SVG)
		if i := strings.Index(svg, "<svg"); i > 0 {
			svg = svg[i:] // no XML declaration inside HTML
		}
		fmt.Fprintf(&body, "<figure tabindex=\"0\" aria-label=\"%s; arrow keys walk through it\">%s</figure>\n", html.EscapeString(p.Title), svg)
		all = append(all, o)
	}
	table, err := json.Marshal(all) // escapes < for the script
	if err != nil {
		return "", err
	}
	return strings.NewReplacer("<!--PICTURES-->", body.String(), "/*TABLE*/[]", string(table)).Replace(document), nil
}
