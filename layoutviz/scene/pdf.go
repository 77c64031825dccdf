package scene

import (
	"bytes"
	"fmt"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/gomonobold"
)

// pt is a pixel in points.
const pt = 0.75

// PDF is the scene as a document of one page of its size. The letters used are
// those of the Go Mono font and are embedded, so that the page looks the same
// everywhere and its text can be searched.
func (s *Scene) PDF(title, desc string) ([]byte, error) {
	f := fpdf.NewCustom(&fpdf.InitType{UnitStr: "pt", Size: fpdf.SizeType{Wd: float64(s.W) * pt, Ht: float64(s.H) * pt}})
	// What else would differ from run to run.
	f.SetCatalogSort(true)
	f.SetCreationDate(time.Unix(0, 0).UTC())
	f.SetModificationDate(time.Unix(0, 0).UTC())
	f.SetProducer("tilus-lab", false)
	f.SetTitle(title, true)
	f.SetSubject(desc, true)
	f.SetLang("en")
	f.SetMargins(0, 0, 0)
	f.SetAutoPageBreak(false, 0)
	// Cutting the letters out of a font writes into it.
	f.AddUTF8FontFromBytes("mono", "", bytes.Clone(gomono.TTF))
	f.AddUTF8FontFromBytes("mono", "B", bytes.Clone(gomonobold.TTF))
	f.AddPageFormat("P", fpdf.SizeType{Wd: float64(s.W) * pt, Ht: float64(s.H) * pt})
	fill := func(hex string) {
		r, g, b := rgb(hex)
		f.SetFillColor(int(r), int(g), int(b))
	}
	fill(s.Paper)
	f.Rect(0, 0, float64(s.W)*pt, float64(s.H)*pt, "F")
	x := func(v int) float64 { return float64(v) * pt }
	for _, it := range s.Items {
		switch it := it.(type) {
		case Fills:
			fill(it.Color)
			for _, b := range it.Boxes {
				f.Rect(x(b.X), x(b.Y), x(b.W), x(b.H), "F")
			}
		case Strokes:
			r, g, b := rgb(it.Color)
			f.SetDrawColor(int(r), int(g), int(b))
			f.SetLineWidth(it.Width * pt)
			for _, l := range it.Segs {
				f.Line(x(l.X1), x(l.Y1), x(l.X2), x(l.Y2))
			}
		case Line:
			r, g, b := rgb(it.Color)
			f.SetDrawColor(int(r), int(g), int(b))
			f.SetLineWidth(it.Width * pt)
			for i, p := range it.Points {
				if i == 0 {
					f.MoveTo(x(p.X), x(p.Y))
				} else {
					f.LineTo(x(p.X), x(p.Y))
				}
			}
			if len(it.Points) > 1 {
				f.DrawPath("D")
			}
		case Band:
			m := (it.Y1 + it.Y2) / 2
			fill(it.Color)
			f.SetAlpha(float64(it.Opacity)/100, "Normal")
			f.MoveTo(x(it.A1), x(it.Y1))
			f.CurveBezierCubicTo(x(it.A1), x(m), x(it.A2), x(m), x(it.A2), x(it.Y2))
			f.LineTo(x(it.B2), x(it.Y2))
			f.CurveBezierCubicTo(x(it.B2), x(m), x(it.B1), x(m), x(it.B1), x(it.Y1))
			f.ClosePath()
			f.DrawPath("F")
			f.SetAlpha(1, "Normal")
		case Text:
			style := ""
			if it.Bold {
				style = "B"
			}
			f.SetFont("mono", style, it.Size*pt)
			r, g, b := rgb(it.Color)
			f.SetTextColor(int(r), int(g), int(b))
			for _, w := range it.Words {
				at := x(w.X)
				switch it.Anchor {
				case Middle:
					at -= f.GetStringWidth(w.S) / 2
				case End:
					at -= f.GetStringWidth(w.S)
				}
				f.Text(at, x(it.Y), w.S)
			}
		}
	}
	var buf bytes.Buffer
	if err := f.Output(&buf); err != nil {
		return nil, fmt.Errorf("scene: PDF: %w", err)
	}
	return buf.Bytes(), nil
}
