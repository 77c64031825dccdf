package layoutviz

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Palette is a list of cell colours; thread t gets colour t modulo its length.
type Palette struct {
	Name   string
	Doc    string
	Colors []string // "#rrggbb"

	pastel bool // dark themes darken the colours
}

// Palettes lists all palettes, the usual one first.
func Palettes() []Palette {
	return []Palette{
		{"soft", "eight hues in four tints: 32 lanes that can be told apart, neighbours by the colour-blind too", soft(), true},
		{"cute", "the pastels of CuTe's print_latex", []string{
			"#afafff", "#afffaf", "#ffffaf", "#ffafaf", "#d2d2ff", "#d2ffd2", "#ffffd2", "#ffd2d2"}, true},
		{"okabe-ito", "safe for colour-blind readers", []string{
			"#56b4e9", "#e69f00", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#bbbbbb"}, false},
		{"grey", "for black and white print", []string{
			"#ffffff", "#999999", "#cccccc", "#666666", "#e6e6e6", "#808080", "#b3b3b3", "#4d4d4d"}, false},
		{"contrast", "high contrast: every text at least 7:1", []string{
			"#ffffff", "#000000", "#ffff00", "#0000a8", "#00ffff", "#7a0000", "#80ff80", "#4b0082"}, false},
	}
}

// soft mixes eight pastel hues with white and with grey, four tints of each. Hues and
// tints take turns so that threads whose numbers follow each other, and those four apart,
// differ for readers who do not tell red from green, too (TestColourBlind).
func soft() []string {
	hues := []struct {
		rgb  [3]int
		tint int
	}{{[3]int{141, 186, 240}, 1}, {[3]int{150, 212, 163}, 3}, {[3]int{190, 174, 236}, 0}, {[3]int{236, 214, 118}, 1},
		{[3]int{216, 178, 150}, 0}, {[3]int{128, 208, 208}, 1}, {[3]int{247, 190, 129}, 2}, {[3]int{240, 160, 172}, 1}}
	tints := []struct{ to, part int }{{255, 30}, {255, 0}, {255, 60}, {130, 22}}
	var out []string
	for turn := range tints {
		for _, h := range hues {
			tint := tints[(turn+h.tint)%len(tints)]
			c := h.rgb
			for i := range c {
				c[i] = (c[i]*(100-tint.part) + tint.to*tint.part) / 100
			}
			out = append(out, fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]))
		}
	}
	return out
}

// Theme is the sheet that a picture is drawn on.
type Theme struct {
	Name string
	Doc  string

	paper, ink, muted, line string // sheet, text and outlines, numbers, lines between cells
	quiet                   string // fill of what is no one's
	alarm, accent           string // outlines of what is wrong and of what is meant
	shade                   int    // percent of black in pastels
	strong                  bool   // text has a contrast of at least 7:1
}

// Themes lists the sheets, the usual one first.
func Themes() []Theme {
	return []Theme{
		{Name: "light", Doc: "dark text on white", paper: "#ffffff", ink: "#1b1f24", muted: "#57606a", line: "#8c959f",
			quiet: "#f6f8fa", alarm: "#b00020", accent: "#0550ae"},
		{Name: "dark", Doc: "light text on nearly black, pastels darkened", paper: "#0d1117", ink: "#e6edf3", muted: "#9aa4b0", line: "#30363d",
			quiet: "#1c2128", alarm: "#ff7b72", accent: "#79c0ff", shade: 52},
		{Name: "print", Doc: "black on white with strong lines", paper: "#ffffff", ink: "#000000", muted: "#333333", line: "#555555",
			quiet: "#f2f2f2", alarm: "#8b0000", accent: "#00008b"},
		{Name: "contrast", Doc: "white on black, every text at least 7:1", paper: "#000000", ink: "#ffffff", muted: "#e0e0e0", line: "#767676",
			quiet: "#000000", alarm: "#ff8c82", accent: "#ffff00", strong: true},
	}
}

// look is a palette on a theme.
type look struct {
	Theme
	colors []string
	inks   map[string]string
}

// look finds palette and theme of the options by name.
func (o Options) look() (look, error) {
	all := Themes()
	var k look
	var names []string
	for _, t := range all {
		names = append(names, t.Name)
		if t.Name == o.Theme || o.Theme == "" && k.Name == "" {
			k.Theme = t
		}
	}
	if k.Name == "" {
		return look{}, fmt.Errorf("layoutviz: unknown theme %q; there are %s", o.Theme, strings.Join(names, ", "))
	}
	p, err := paletteOf(o.Palette)
	if err != nil {
		return look{}, err
	}
	for _, c := range p.Colors {
		switch {
		case k.strong:
			c = scene.Strong(c)
		case p.pastel && k.shade > 0:
			// Pale tints as dark as white text needs them, the others darker, so that they still differ.
			c = scene.Mix(c, "#000000", k.shade+int(max(0, 15*(0.85-scene.Luminance(c)))))
		}
		k.colors = append(k.colors, c)
	}
	k.inks = map[string]string{}
	return k, nil
}

// tone is a colour as this theme shows it.
func (k look) tone(color string) string {
	if k.strong {
		return scene.Strong(color)
	}
	if k.shade == 0 {
		return color
	}
	return scene.Mix(color, "#000000", k.shade)
}

// of is the colour of thing number n, where neighbours in number differ.
func (k look) of(n int) string { return k.colors[n%len(k.colors)] }

// heat is a colour for part of whole: the sheet's quiet colour for none, dark red
// for all. Luminance falls steadily, so that it also reads in grey.
func (k look) heat(part, whole int) string {
	if part <= 0 || whole <= 0 {
		return k.quiet
	}
	return k.tone(scene.Mix("#ffe9d6", "#b3261e", min(100, 100*part/whole)))
}

// inkOn is a text colour that can be read on a fill: contrast at least 4.5:1, on a
// strong theme 7:1. One of white and black always has the first.
func (k look) inkOn(fill string) string {
	if c := k.inks[fill]; c != "" {
		return c
	}
	best, least := "#ffffff", 4.5
	if k.strong {
		least = 7
	}
	for _, c := range []string{k.ink, k.paper, "#000000"} {
		if scene.Contrast(c, fill) >= least {
			best = c
			break
		}
	}
	k.inks[fill] = best
	return best
}

// paletteOf finds a palette by name.
func paletteOf(name string) (Palette, error) {
	all := Palettes()
	if name == "" {
		return all[0], nil
	}
	var names []string
	for _, p := range all {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Palette{}, fmt.Errorf("layoutviz: unknown palette %q; there are %s", name, strings.Join(names, ", "))
}
