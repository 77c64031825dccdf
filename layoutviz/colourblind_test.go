package layoutviz

import (
	"fmt"
	"math"
	"testing"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Matrices over linear RGB that show what a dichromat sees, severity 1.
//
// Source: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of
// Color Vision Deficiency", IEEE TVCG 15 (2009), table 1.
var sight = map[string][3][3]float64{
	"all cones":    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
}

// seen is a colour, "#rrggbb", in CIE L*a*b* as such an eye sees it.
func seen(color string, eye [3][3]float64) (lab [3]float64) {
	var c [3]int
	if _, err := fmt.Sscanf(color, "#%02x%02x%02x", &c[0], &c[1], &c[2]); err != nil {
		panic(err)
	}
	var in, lin [3]float64
	for i, v := range c {
		if x := float64(v) / 255; x <= 0.04045 {
			in[i] = x / 12.92
		} else {
			in[i] = math.Pow((x+0.055)/1.055, 2.4)
		}
	}
	for i, row := range eye {
		lin[i] = min(1, max(0, row[0]*in[0]+row[1]*in[1]+row[2]*in[2]))
	}
	// sRGB to XYZ over the white of D65, then CIE 1976.
	var f [3]float64
	for i, row := range [3][3]float64{{0.4124564, 0.3575761, 0.1804375}, {0.2126729, 0.7151522, 0.0721750}, {0.0193339, 0.1191920, 0.9503041}} {
		t := (row[0]*lin[0] + row[1]*lin[1] + row[2]*lin[2]) / [3]float64{0.95047, 1, 1.08883}[i]
		if f[i] = (24389.0/27*t + 16) / 116; t > 216.0/24389 {
			f[i] = math.Cbrt(t)
		}
	}
	return [3]float64{116*f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])}
}

// apart is the difference CIEDE2000 of two colours in L*a*b*.
//
// Source: Sharma, Wu and Dalal, "The CIEDE2000 Color-Difference Formula", Color Research and
// Application 30 (2005).
func apart(p, q [3]float64) float64 {
	deg := math.Pi / 180
	mean := (math.Hypot(p[1], p[2]) + math.Hypot(q[1], q[2])) / 2
	g := 0.5 * (1 - math.Sqrt(math.Pow(mean, 7)/(math.Pow(mean, 7)+math.Pow(25, 7))))
	polar := func(c [3]float64) (chroma, hue float64) {
		a := c[1] * (1 + g)
		return math.Hypot(a, c[2]), math.Mod(math.Atan2(c[2], a)/deg+360, 360)
	}
	c1, h1 := polar(p)
	c2, h2 := polar(q)
	dh, h := h2-h1, (h1+h2)/2
	switch {
	case c1*c2 == 0:
		dh, h = 0, h1+h2
	case math.Abs(h2-h1) > 180:
		dh = math.Mod(dh+540, 360) - 180
		h = math.Mod(h+180, 360)
	}
	l, c := (p[0]+q[0])/2, (c1+c2)/2
	t := 1 - 0.17*math.Cos((h-30)*deg) + 0.24*math.Cos(2*h*deg) + 0.32*math.Cos((3*h+6)*deg) - 0.20*math.Cos((4*h-63)*deg)
	sl := 1 + 0.015*(l-50)*(l-50)/math.Sqrt(20+(l-50)*(l-50))
	sc, sh := 1+0.045*c, 1+0.015*c*t
	turn := -2 * math.Sqrt(math.Pow(c, 7)/(math.Pow(c, 7)+math.Pow(25, 7))) * math.Sin(60*deg*math.Exp(-math.Pow((h-275)/25, 2)))
	x, y, z := (q[0]-p[0])/sl, (c2-c1)/sc, 2*math.Sqrt(c1*c2)*math.Sin(dh/2*deg)/sh
	return math.Sqrt(x*x + y*y + z*z + turn*y*z)
}

func TestApart(t *testing.T) {
	// Rows 1, 7, 9, 17 and 25 of the table of Sharma, Wu and Dalal.
	for _, c := range []struct {
		p, q [3]float64
		want float64
	}{
		{[3]float64{50, 2.6772, -79.7751}, [3]float64{50, 0, -82.7485}, 2.0425},
		{[3]float64{50, 0, 0}, [3]float64{50, -1, 2}, 2.3669},
		{[3]float64{50, 2.49, -0.001}, [3]float64{50, -2.49, 0.0009}, 7.1792},
		{[3]float64{50, 2.5, 0}, [3]float64{73, 25, -18}, 27.1492},
		{[3]float64{60.2574, -34.0099, 36.2677}, [3]float64{60.4626, -34.1751, 39.4387}, 1.2644},
	} {
		if got := apart(c.p, c.q); math.Abs(got-c.want) > 0.00006 {
			t.Errorf("%v and %v are %.4f apart, want %.4f", c.p, c.q, got, c.want)
		}
	}
}

// TestColourBlind holds colours of threads that stand beside each other apart for people
// without green cones by ten steps of CIEDE2000, on every sheet. CuTe's own pastels are
// what CuTe prints: there only the text of a cell tells.
func TestColourBlind(t *testing.T) {
	least := map[string]float64{"all cones": 10, "deuteranopia": 10, "protanopia": 7.5}
	for _, p := range Palettes() {
		if p.Name == "cute" {
			continue
		}
		steps := least
		if p.Name == "grey" {
			steps = map[string]float64{"all cones": 8, "deuteranopia": 8, "protanopia": 8} // eight greys that also bear text
		}
		for _, th := range Themes() {
			k, err := (Options{Palette: p.Name, Theme: th.Name}).look()
			if err != nil {
				t.Fatal(err)
			}
			for name, eye := range sight {
				for i := range k.colors {
					a, b := k.of(i), k.of(i+1)
					if d := apart(seen(a, eye), seen(b, eye)); d < steps[name] {
						t.Errorf("%s on %s, %s: threads %d and %d, %s and %s, differ by %.1f; want %g", p.Name, th.Name, name, i, i+1, a, b, d, steps[name])
					}
				}
			}
		}
	}
	k, err := Options{}.look()
	if err != nil {
		t.Fatal(err)
	}
	for i := range k.colors {
		// One warp as eight rows of four: the cell below.
		if d := apart(seen(k.of(i), sight["deuteranopia"]), seen(k.of(i+4), sight["deuteranopia"])); d < 10 {
			t.Errorf("soft, deuteranopia: threads %d and %d differ by %.1f; want 10", i, i+4, d)
		}
	}
}

// TestChartColours holds the colours of the first five series of a chart, which stand beside
// each other, apart in the same way, and to 3:1 on the sheet.
func TestChartColours(t *testing.T) {
	for _, th := range Themes() {
		for name, eye := range sight {
			for i := range 5 {
				a := hueOn(th, i)
				if c := scene.Contrast(a, th.paper); c < 3 {
					t.Errorf("%s: series %d, %s, has a contrast of %.1f", th.Name, i, a, c)
				}
				for j := range i {
					if d := apart(seen(a, eye), seen(hueOn(th, j), eye)); d < 10 {
						t.Errorf("%s, %s: series %d and %d, %s and %s, differ by %.1f", th.Name, name, j, i, hueOn(th, j), a, d)
					}
				}
			}
		}
	}
}

// TestStrong holds every text of a picture of high contrast to 7:1.
func TestStrong(t *testing.T) {
	for _, p := range Palettes() {
		k, err := (Options{Palette: p.Name, Theme: "contrast"}).look()
		if err != nil {
			t.Fatal(err)
		}
		fills := append([]string{k.paper, k.quiet, k.heat(1, 9), k.heat(5, 9), k.heat(9, 9)}, k.colors...)
		for _, f := range fills {
			if c := scene.Contrast(k.inkOn(f), f); c < 7 {
				t.Errorf("%s: text on %s has a contrast of %.1f", p.Name, f, c)
			}
		}
		for _, c := range []string{k.ink, k.muted, k.alarm, k.accent} {
			if scene.Contrast(c, k.paper) < 7 {
				t.Errorf("%s on the paper has a contrast of %.1f", c, scene.Contrast(c, k.paper))
			}
		}
	}
}
