package theatre

import (
	"fmt"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// maxBits is how many columns of bits are drawn.
const maxBits = 64

// Rounding shows how a tensor core adds products to c, once for each way to add:
// the addends as strips of bits in columns of equal weight, in red what alignment
// cuts off, below them what is kept of the sum and what is written. First c is
// rounded to the type of sums, and products to the 22 bits that those of f16 have.
func Rounding(sums volta.Sums, c float64, products []float64, ways []volta.Numerics, o layoutviz.Options) (layoutviz.Picture, error) {
	if len(products) == 0 || len(products) > 4 {
		return layoutviz.Picture{}, fmt.Errorf("theatre: a unit adds 1 to 4 products, not %d", len(products))
	}
	c = sums.Round(c)
	products = slices.Clone(products)
	for i, p := range products {
		m, e := math.Frexp(p)
		products[i] = math.Ldexp(math.RoundToEven(math.Ldexp(m, 22)), e-22)
	}
	all := make([]volta.Sum, len(ways))
	high, low := math.MinInt, math.MaxInt
	for i, way := range ways {
		var err error
		if all[i], err = way.Explain(sums, c, products); err != nil {
			return layoutviz.Picture{}, err
		}
		if v := all[i].Exact; math.IsInf(v, 0) || math.IsNaN(v) {
			return layoutviz.Picture{}, fmt.Errorf("theatre: addends must be finite")
		}
		for _, v := range append(values(all[i]), all[i].Exact, all[i].Result) {
			if v != 0 {
				_, e := math.Frexp(v)
				high, low = max(high, e-1), min(low, lowest(v))
			}
		}
		if all[i].Top != all[i].Unit {
			low = min(low, all[i].Unit)
		}
	}
	if high < low {
		return layoutviz.Picture{}, fmt.Errorf("theatre: every addend is zero")
	}
	low = max(low, high-maxBits+1)
	const bit, row, label = 13, 19, 96
	const about = "columns are powers of two; alignment cuts each addend to the bits left of the red line, before anything is added"
	n := high - low + 1
	strip := pad + label + n*bit
	s, err := newStage(max(strip+170, 2*pad+scene.Width(about, 11.5)), 100, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	s.left(pad, 32, 20, true, "What a tensor core adds, bit by bit")
	s.note(pad, 52, 11.5, about)
	y := 92
	sentence := ""
	for i, way := range ways {
		sum := all[i]
		aligned := sum.Top != sum.Unit
		name := map[volta.Numerics]string{volta.Exact: "exact, rounded once", volta.RN: "one after the other, f32, to nearest", volta.AsV100: "V100: 24 bits, no guard bit", volta.AsAmpere: "T4, A100: at least one guard bit"}[way]
		if way == "" {
			way, name = volta.AsV100, "V100: 24 bits, no guard bit"
		}
		s.left(pad, y, 13, true, name)
		y += 16
		s.text(pad+label-12, y, 9, s.muted, scene.Middle, false, "2^")
		for b := range n {
			if e := high - b; e%4 == 0 || e == high {
				s.text(pad+label+b*bit+bit/2, y, 9, s.muted, scene.Middle, false, fmt.Sprint(e))
			}
		}
		y += 6
		draw := func(name string, v float64, kept bool, bold bool) {
			s.text(pad+label-30, y+14, 11, s.ink, scene.End, bold, name)
			sign := "+"
			if math.Signbit(v) {
				sign = "−"
			}
			s.text(pad+label-12, y+14, 12, s.ink, scene.Middle, bold, sign)
			_, e := math.Frexp(v)
			for b, digit := range volta.Bits(v, high, low) {
				weight := high - b
				cut := kept && aligned && weight < sum.Unit
				fill, ink := s.quiet, mix(s.line, s.scene.Paper, 45)
				switch {
				case digit == '1' && cut:
					fill, ink = s.alarm, "#ffffff"
				case digit == '1' && bold:
					fill, ink = s.accent, inkOn(s.accent)
				case digit == '1':
					fill = mix(s.accent, s.scene.Paper, 55)
					ink = inkOn(fill)
				case cut && weight >= lowest(v) && v != 0 && weight < e:
					fill, ink = mix(s.alarm, s.scene.Paper, 75), s.alarm
				case v != 0 && weight < e && weight >= lowest(v):
					fill, ink = mix(s.accent, s.scene.Paper, 82), s.muted
				}
				s.cell(layoutviz.Element{ID: fmt.Sprintf("w%d.%s.%d", i, name, weight), X: pad + label + b*bit, Y: y, W: bit, H: row - 2, Keys: []int{weight + 1024},
					Label: fmt.Sprintf("%s of %s: bit of weight 2^%d", name, way, weight)}, fill, ink, digit == '1', 10, string(digit))
			}
			s.text(strip+10, y+14, 11, s.ink, scene.Start, bold, fmt.Sprintf("%.10g", v))
			y += row
		}
		top := y
		for _, x := range sum.Addends {
			draw(x.Name, x.Value, true, false)
		}
		bottom := y
		s.stroke(s.ink, 1, seg(pad+label, y+1, pad+label+n*bit, y+1))
		y += 5
		if aligned {
			draw("kept", sum.Total, false, false)
		}
		draw("result", sum.Result, false, true)
		if sum.Exact != sum.Result {
			s.text(strip+10, y+10, 10, s.alarm, scene.Start, true, fmt.Sprintf("off by %.3g", sum.Lost()))
		} else {
			s.text(strip+10, y+10, 10, s.muted, scene.Start, false, "exact")
		}
		s.grid(pad+label, top, n, len(sum.Addends), bit, row)
		if edge := high - sum.Unit + 1; aligned && edge <= n {
			ex := pad + label + edge*bit
			s.stroke(s.alarm, 2, seg(ex, top-2, ex, bottom))
		}
		y += 34
		sentence += fmt.Sprintf("%s: %.10g. ", name, sum.Result)
	}
	s.fill(s.alarm, pad+label, y-14, 12, 12)
	s.note(pad+label+18, y-4, 10.5, "cut off")
	s.fill(mix(s.accent, s.scene.Paper, 55), pad+label+86, y-14, 12, 12)
	s.note(pad+label+104, y-4, 10.5, "kept")
	s.note(pad+label+160, y-4, 10.5, "Fasi et al. 2021 [S]; more than one guard bit after Volta is not excluded [A]")
	s.scene.H = y + pad
	s.scene.W = max(s.scene.W, pad+label+160+scene.Width("Fasi et al. 2021 [S]; more than one guard bit after Volta is not excluded [A]", 10.5)+pad)
	return s.picture("How a tensor core rounds", fmt.Sprintf("%.10g plus %d products is %.10g. %s", c, len(products), all[0].Exact, sentence)), nil
}

func values(s volta.Sum) []float64 {
	var out []float64
	for _, a := range s.Addends {
		out = append(out, a.Value)
	}
	return out
}

// lowest is the weight of the last one bit of v.
func lowest(v float64) int {
	m, e := math.Frexp(math.Abs(v))
	for n := 1; n <= 53; n++ {
		if x := math.Ldexp(m, n); x == math.Trunc(x) {
			return e - n
		}
	}
	return e - 53
}
