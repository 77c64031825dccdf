package layoutviz

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

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/gomonobold"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// maxPixels bounds a PNG; larger pictures are scaled down to it.
const maxPixels = 40 << 20

// PNG is the picture as a PNG image at twice its size, or smaller where that
// would be more than 40 million pixels. It shows the shapes of the SVG; letters
// are those of the Go Mono font.
func PNG(p Picture) ([]byte, error) {
	if p.scene == nil {
		return nil, fmt.Errorf("layoutviz: PNG of an empty picture")
	}
	scale := 2.0
	if px := float64(p.scene.w) * float64(p.scene.h); px*scale*scale > maxPixels {
		scale = math.Sqrt(maxPixels / px)
	}
	r, err := newRaster(p.scene, scale)
	if err != nil {
		return nil, fmt.Errorf("layoutviz: PNG: %w", err)
	}
	for _, it := range p.scene.items {
		if err := r.item(it); err != nil {
			return nil, fmt.Errorf("layoutviz: PNG: %w", err)
		}
	}
	var buf bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.DefaultCompression}).Encode(&buf, paletted(r.img)); err != nil {
		return nil, fmt.Errorf("layoutviz: PNG: %w", err)
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

func newRaster(s *scene, scale float64) (*raster, error) {
	r := &raster{scale: scale, faces: map[faceKey]font.Face{}}
	for i, ttf := range [][]byte{gomono.TTF, gomonobold.TTF} {
		f, err := opentype.Parse(ttf)
		if err != nil {
			return nil, err
		}
		r.fonts[i] = f
	}
	r.img = image.NewRGBA(image.Rect(0, 0, r.px(float64(s.w)), r.px(float64(s.h))))
	draw.Draw(r.img, r.img.Bounds(), image.NewUniform(paint(paper, 100)), image.Point{}, draw.Src)
	return r, nil
}

func (r *raster) px(v float64) int { return int(math.Round(v * r.scale)) }

func paint(hex string, percent int) color.NRGBA {
	red, green, blue := rgb(hex)
	return color.NRGBA{red, green, blue, uint8(percent * 255 / 100)}
}

func (r *raster) item(it item) error {
	switch it := it.(type) {
	case fills:
		src := image.NewUniform(paint(it.color, 100))
		for _, b := range it.boxes {
			at := image.Rect(r.px(float64(b.x)), r.px(float64(b.y)), r.px(float64(b.x+b.w)), r.px(float64(b.y+b.h)))
			draw.Draw(r.img, at, src, image.Point{}, draw.Src)
		}
	case strokes:
		src := image.NewUniform(paint(it.color, 100))
		w := max(1, r.px(it.width))
		for _, s := range it.segs {
			x1, y1, x2, y2 := r.px(float64(s.x1)), r.px(float64(s.y1)), r.px(float64(s.x2)), r.px(float64(s.y2))
			at := image.Rect(min(x1, x2)-w/2, min(y1, y2)-w/2, max(x1, x2)-w/2+w, max(y1, y2)-w/2+w)
			draw.Draw(r.img, at, src, image.Point{}, draw.Src)
		}
	case band:
		r.band(it)
	case texts:
		return r.texts(it)
	default:
		panic(fmt.Sprintf("layoutviz: no raster for %T", it))
	}
	return nil
}

func (r *raster) band(b band) {
	lo, hi := min(b.a1, b.a2), max(b.b1, b.b2)
	x0, y0 := r.px(float64(lo))-1, r.px(float64(b.y1))
	w, h := r.px(float64(hi))+1-x0, r.px(float64(b.y2))-y0
	if w <= 0 || h <= 0 {
		return
	}
	v := vector.NewRasterizer(w, h)
	f := func(x, y int) (float32, float32) {
		return float32(float64(x)*r.scale - float64(x0)), float32(float64(y)*r.scale - float64(y0))
	}
	m := (b.y1 + b.y2) / 2
	cube := func(ax, ay, bx, by, cx, cy int) {
		x1, y1 := f(ax, ay)
		x2, y2 := f(bx, by)
		x3, y3 := f(cx, cy)
		v.CubeTo(x1, y1, x2, y2, x3, y3)
	}
	v.MoveTo(f(b.a1, b.y1))
	cube(b.a1, m, b.a2, m, b.a2, b.y2)
	v.LineTo(f(b.b2, b.y2))
	cube(b.b2, m, b.b1, m, b.b1, b.y1)
	v.ClosePath()
	v.Draw(r.img, image.Rect(x0, y0, x0+w, y0+h), image.NewUniform(paint(b.color, b.opacityPercent)), image.Point{})
}

func (r *raster) texts(t texts) error {
	k := faceKey{t.size, t.bold}
	face := r.faces[k]
	if face == nil {
		f := r.fonts[0]
		if t.bold {
			f = r.fonts[1]
		}
		var err error
		face, err = opentype.NewFace(f, &opentype.FaceOptions{Size: t.size * r.scale, DPI: 72, Hinting: font.HintingNone})
		if err != nil {
			return err
		}
		r.faces[k] = face
	}
	d := font.Drawer{Dst: r.img, Src: image.NewUniform(paint(t.color, 100)), Face: face}
	for _, w := range t.words {
		x := fixed.Int26_6(math.Round(float64(w.x) * r.scale * 64))
		switch t.anchor {
		case middle:
			x -= d.MeasureString(w.s) / 2
		case end:
			x -= d.MeasureString(w.s)
		}
		d.Dot = fixed.Point26_6{X: x, Y: fixed.Int26_6(math.Round(float64(t.y) * r.scale * 64))}
		d.DrawString(w.s)
	}
	return nil
}
