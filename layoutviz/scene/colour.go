package scene

import (
	"fmt"
	"math"
)

// Mix is percent of b in a.
func Mix(a, b string, percent int) string {
	ar, ag, ab := rgb(a)
	br, bg, bb := rgb(b)
	m := func(x, y uint8) int { return (int(x)*(100-percent) + int(y)*percent) / 100 }
	return fmt.Sprintf("#%02x%02x%02x", m(ar, br), m(ag, bg), m(ab, bb))
}

// Contrast is the WCAG contrast ratio of two colours, from 1 to 21.
func Contrast(a, b string) float64 {
	la, lb := Luminance(a), Luminance(b)
	if la < lb {
		la, lb = lb, la
	}
	return (la + 0.05) / (lb + 0.05)
}

// Strong is a colour, paler where needed, on which white or black has a contrast of at
// least 7:1.
func Strong(color string) string {
	for Contrast(color, "#000000") < 7 && Contrast(color, "#ffffff") < 7 {
		color = Mix(color, "#ffffff", 3)
	}
	return color
}

// Luminance is WCAG's relative luminance, from 0 to 1.
func Luminance(color string) float64 {
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
