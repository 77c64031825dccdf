package layoutviz

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Palette is a list of cell colours; thread t gets colour t modulo its length.
type Palette struct {
	Name   string
	Doc    string
	Colors []string // "#rrggbb"
}

// Palettes lists all palettes, the usual one first.
func Palettes() []Palette {
	return []Palette{
		{"soft", "eight hues in four tints: 32 lanes that can be told apart", soft()},
		{"cute", "the pastels of CuTe's print_latex", []string{
			"#afafff", "#afffaf", "#ffffaf", "#ffafaf", "#d2d2ff", "#d2ffd2", "#ffffd2", "#ffd2d2"}},
		{"okabe-ito", "safe for colour-blind readers", []string{
			"#56b4e9", "#e69f00", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#bbbbbb"}},
		{"grey", "for black and white print", []string{
			"#ffffff", "#999999", "#cccccc", "#666666", "#e6e6e6", "#808080", "#b3b3b3", "#4d4d4d"}},
	}
}

// soft mixes eight pastel hues with white and with grey, four tints of each.
func soft() []string {
	hues := [][3]int{{141, 186, 240}, {247, 190, 129}, {150, 212, 163}, {240, 160, 172},
		{190, 174, 236}, {236, 214, 118}, {128, 208, 208}, {216, 178, 150}}
	var out []string
	for _, tint := range []struct{ to, part int }{{255, 30}, {255, 0}, {255, 60}, {130, 22}} {
		for _, h := range hues {
			var c [3]int
			for i := range c {
				c[i] = (h[i]*(100-tint.part) + tint.to*tint.part) / 100
			}
			out = append(out, fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]))
		}
	}
	return out
}

// paletteOf finds a palette by name.
func paletteOf(name string) ([]string, error) {
	all := Palettes()
	if name == "" {
		return all[0].Colors, nil
	}
	var names []string
	for _, p := range all {
		if p.Name == name {
			return p.Colors, nil
		}
		names = append(names, p.Name)
	}
	return nil, fmt.Errorf("layoutviz: unknown palette %q; there are %s", name, strings.Join(names, ", "))
}

// inkOn is a text colour that can be read on a fill: contrast at least 4.5:1.
// One of white and black always has it.
func inkOn(fill string) string {
	for _, c := range []string{ink, paper} {
		if contrast(c, fill) >= 4.5 {
			return c
		}
	}
	return "#000000"
}

// contrast is the WCAG contrast ratio of two colours, from 1 to 21.
func contrast(a, b string) float64 {
	la, lb := luminance(a), luminance(b)
	if la < lb {
		la, lb = lb, la
	}
	return (la + 0.05) / (lb + 0.05)
}

func rgb(color string) (r, g, b uint8) {
	// The error cannot happen: colours are literals of this package.
	n, _ := strconv.ParseUint(color[1:], 16, 32)
	return uint8(n >> 16), uint8(n >> 8), uint8(n)
}

// luminance is WCAG's relative luminance.
func luminance(color string) float64 {
	lin := func(v uint8) float64 {
		s := float64(v) / 255
		if s <= 0.04045 {
			return s / 12.92
		}
		return math.Pow((s+0.055)/1.055, 2.4)
	}
	r, g, b := rgb(color)
	return 0.2126*lin(r) + 0.7152*lin(g) + 0.0722*lin(b)
}
