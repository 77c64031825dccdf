package scene

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"math"
	"slices"
	"strconv"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/gomonobold"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// maxPixels bounds a PNG; larger pictures are scaled down to it.
const maxPixels = 40 << 20

// PNG is the scene as a PNG image at twice its size, or smaller where that would
// be more than 40 million pixels. Letters are those of the Go Mono font.
func (s *Scene) PNG() ([]byte, error) {
	scale := 2.0
	if px := float64(s.W) * float64(s.H); px*scale*scale > maxPixels {
		scale = math.Sqrt(maxPixels / px)
	}
	r, err := newRaster(s, scale)
	if err != nil {
		return nil, fmt.Errorf("scene: PNG: %w", err)
	}
	for _, it := range s.Items {
		if err := r.item(it); err != nil {
			return nil, fmt.Errorf("scene: PNG: %w", err)
		}
	}
	var buf bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.DefaultCompression}).Encode(&buf, paletted(r.img)); err != nil {
		return nil, fmt.Errorf("scene: PNG: %w", err)
	}
	return buf.Bytes(), nil
}

// paletted is the image in its 256 most frequent colours. A picture has few
// flat colours; the rest are shades at the edges of letters, whose nearest of
// the 256 looks the same, and a byte for each pixel makes a third of the file.
func paletted(img *image.RGBA) *image.Paletted {
	count := map[color.RGBA]int{}
	each := func(f func(i int, c color.RGBA)) {
		for i := 0; i < len(img.Pix); i += 4 {
			f(i/4, color.RGBA{img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3]})
		}
	}
	var last color.RGBA
	run := 0
	each(func(_ int, c color.RGBA) {
		if c != last {
			count[last] += run
			last, run = c, 0
		}
		run++
	})
	count[last] += run
	colors := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		if n := cmp.Compare(count[b], count[a]); n != 0 {
			return n
		}
		return cmp.Compare(uint32(a.R)<<16|uint32(a.G)<<8|uint32(a.B), uint32(b.R)<<16|uint32(b.G)<<8|uint32(b.B))
	})
	p := color.Palette{}
	index := map[color.RGBA]uint8{}
	for _, c := range colors {
		if len(p) < 256 {
			index[c] = uint8(len(p))
			p = append(p, c)
		} else {
			index[c] = uint8(p.Index(c))
		}
	}
	out := image.NewPaletted(img.Bounds(), p)
	at := index[last]
	each(func(i int, c color.RGBA) {
		if c != last {
			last, at = c, index[c]
		}
		out.Pix[i] = at
	})
	return out
}

// raster draws a scene into pixels.
type raster struct {
	img   *image.RGBA
	scale float64
	fonts [2]*opentype.Font
	faces map[faceKey]font.Face
}

type faceKey struct {
	size float64
	bold bool
}

func newRaster(s *Scene, scale float64) (*raster, error) {
	r := &raster{scale: scale, faces: map[faceKey]font.Face{}}
	for i, ttf := range [][]byte{gomono.TTF, gomonobold.TTF} {
		f, err := opentype.Parse(ttf)
		if err != nil {
			return nil, err
		}
		r.fonts[i] = f
	}
	r.img = image.NewRGBA(image.Rect(0, 0, r.px(float64(s.W)), r.px(float64(s.H))))
	draw.Draw(r.img, r.img.Bounds(), image.NewUniform(paint(s.Paper, 100)), image.Point{}, draw.Src)
	return r, nil
}

func (r *raster) px(v float64) int { return int(math.Round(v * r.scale)) }

func paint(hex string, percent int) color.NRGBA {
	red, green, blue := rgb(hex)
	return color.NRGBA{red, green, blue, uint8(percent * 255 / 100)}
}

func (r *raster) item(it Item) error {
	switch it := it.(type) {
	case Fills:
		src := image.NewUniform(paint(it.Color, 100))
		for _, b := range it.Boxes {
			at := image.Rect(r.px(float64(b.X)), r.px(float64(b.Y)), r.px(float64(b.X+b.W)), r.px(float64(b.Y+b.H)))
			draw.Draw(r.img, at, src, image.Point{}, draw.Src)
		}
	case Strokes:
		src := image.NewUniform(paint(it.Color, 100))
		w := max(1, r.px(it.Width))
		for _, s := range it.Segs {
			x1, y1, x2, y2 := r.px(float64(s.X1)), r.px(float64(s.Y1)), r.px(float64(s.X2)), r.px(float64(s.Y2))
			at := image.Rect(min(x1, x2)-w/2, min(y1, y2)-w/2, max(x1, x2)-w/2+w, max(y1, y2)-w/2+w)
			draw.Draw(r.img, at, src, image.Point{}, draw.Src)
		}
	case Line:
		r.line(it)
	case Band:
		r.band(it)
	case Text:
		return r.texts(it)
	default:
		panic(fmt.Sprintf("layoutviz: no raster for %T", it))
	}
	return nil
}

// line draws each piece as a filled quadrangle, a little longer than it is, so that pieces join.
func (r *raster) line(l Line) {
	half := max(1, l.Width*r.scale) / 2
	src := image.NewUniform(paint(l.Color, 100))
	for i := 1; i < len(l.Points); i++ {
		x1, y1 := float64(l.Points[i-1].X)*r.scale, float64(l.Points[i-1].Y)*r.scale
		x2, y2 := float64(l.Points[i].X)*r.scale, float64(l.Points[i].Y)*r.scale
		n := math.Hypot(x2-x1, y2-y1)
		if n == 0 {
			continue
		}
		dx, dy := (x2-x1)/n*half, (y2-y1)/n*half
		x0, y0 := int(min(x1, x2)-2*half)-1, int(min(y1, y2)-2*half)-1
		w, h := int(max(x1, x2)+2*half)+2-x0, int(max(y1, y2)+2*half)+2-y0
		v := vector.NewRasterizer(w, h)
		f := func(x, y float64) (float32, float32) { return float32(x - float64(x0)), float32(y - float64(y0)) }
		v.MoveTo(f(x1-dx-dy, y1-dy+dx))
		v.LineTo(f(x1-dx+dy, y1-dy-dx))
		v.LineTo(f(x2+dx+dy, y2+dy-dx))
		v.LineTo(f(x2+dx-dy, y2+dy+dx))
		v.ClosePath()
		v.Draw(r.img, image.Rect(x0, y0, x0+w, y0+h), src, image.Point{})
	}
}

func (r *raster) band(b Band) {
	lo, hi := min(b.A1, b.A2), max(b.B1, b.B2)
	x0, y0 := r.px(float64(lo))-1, r.px(float64(b.Y1))
	w, h := r.px(float64(hi))+1-x0, r.px(float64(b.Y2))-y0
	if w <= 0 || h <= 0 {
		return
	}
	v := vector.NewRasterizer(w, h)
	f := func(x, y int) (float32, float32) {
		return float32(float64(x)*r.scale - float64(x0)), float32(float64(y)*r.scale - float64(y0))
	}
	m := (b.Y1 + b.Y2) / 2
	cube := func(ax, ay, bx, by, cx, cy int) {
		x1, y1 := f(ax, ay)
		x2, y2 := f(bx, by)
		x3, y3 := f(cx, cy)
		v.CubeTo(x1, y1, x2, y2, x3, y3)
	}
	v.MoveTo(f(b.A1, b.Y1))
	cube(b.A1, m, b.A2, m, b.A2, b.Y2)
	v.LineTo(f(b.B2, b.Y2))
	cube(b.B2, m, b.B1, m, b.B1, b.Y1)
	v.ClosePath()
	v.Draw(r.img, image.Rect(x0, y0, x0+w, y0+h), image.NewUniform(paint(b.Color, b.Opacity)), image.Point{})
}

func (r *raster) texts(t Text) error {
	k := faceKey{t.Size, t.Bold}
	face := r.faces[k]
	if face == nil {
		f := r.fonts[0]
		if t.Bold {
			f = r.fonts[1]
		}
		var err error
		face, err = opentype.NewFace(f, &opentype.FaceOptions{Size: t.Size * r.scale, DPI: 72, Hinting: font.HintingNone})
		if err != nil {
			return err
		}
		r.faces[k] = face
	}
	d := font.Drawer{Dst: r.img, Src: image.NewUniform(paint(t.Color, 100)), Face: face}
	for _, w := range t.Words {
		x := fixed.Int26_6(math.Round(float64(w.X) * r.scale * 64))
		switch t.Anchor {
		case Middle:
			x -= d.MeasureString(w.S) / 2
		case End:
			x -= d.MeasureString(w.S)
		}
		d.Dot = fixed.Point26_6{X: x, Y: fixed.Int26_6(math.Round(float64(t.Y) * r.scale * 64))}
		d.DrawString(w.S)
	}
	return nil
}

// rgb are the parts of a colour "#rrggbb".
func rgb(hex string) (r, g, b uint8) {
	// The error cannot happen: colours are literals of the views.
	n, _ := strconv.ParseUint(hex[1:], 16, 32)
	return uint8(n >> 16), uint8(n >> 8), uint8(n)
}
