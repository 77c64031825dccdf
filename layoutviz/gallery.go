package layoutviz

import (
	"fmt"
	"html"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/layoutviz/cuteprint"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
	"github.com/tilus-lab/tilus-lab/vm/layout/linear"
)

// Example is one picture of the gallery. Name is also a file name.
type Example struct {
	Name string
	Doc  string
	Draw func(Options) (Picture, error)
}

// accumulator is the C fragment of the 16×8 matrix instructions.
func accumulator() layout.Layout { return layout.Local(2, 1).Spatial(8, 4).Local(1, 2) }

// Gallery lists one of each picture, for judging by eye and for tests.
func Gallery() []Example {
	return []Example{
		{"tensor", "which thread holds which element", func(o Options) (Picture, error) { return Tensor(accumulator(), o) }},
		{"tensor-replicated", "elements that several threads hold", func(o Options) (Picture, error) {
			return Tensor(layout.Spatial(4, 1).Replicated(6, 1, 1).Local(1, 4), o)
		}},
		{"tensor-4096", "64×64 elements", func(o Options) (Picture, error) {
			return Tensor(layout.Local(4, 4).Spatial(8, 4).Local(2, 4), o)
		}},
		{"tensor-rank3", "leading dimensions stacked", func(o Options) (Picture, error) {
			return Tensor(layout.Local(2, 2, 2).Spatial(1, 4, 2), o)
		}},
		{"values", "values in the layout of their tile", func(o Options) (Picture, error) {
			a, err := array.Generate("randn:f16[16, 8]:seed=3")
			if err != nil {
				return Picture{}, err
			}
			return Values(accumulator(), a, o)
		}},
		{"program", "a program while it runs", func(o Options) (Picture, error) {
			return Program(Listing{Title: "matmul on the interpreter", Text: corpus.Program("matmul_f16_i6"), At: 9,
				Runs: []int64{0, 4, 4, 4, 4, 4, 4, 20, 20, 19, 19, 19}, Done: 3, Whole: 16, Unit: "blocks", Notes: []string{"136 steps; block [3 0 0] of [4 4 1]."}}, o)
		}},
		{"plot", "a chart of two series", func(o Options) (Picture, error) {
			k := []float64{256, 512, 1024, 2048, 4096, 8192}
			return Plot(Chart{Title: "y = x log x beside y = x, both over powers of two", X: "x", Y: "y", LogX: true, LogY: true, Series: []Series{
				{Name: "x log x", X: k, Y: []float64{2048, 4608, 10240, 22528, 49152, 106496}}, {Name: "x", X: k, Y: k, Kind: "points"}}}, o)
		}},
		{"plot-bars", "a chart of bars", func(o Options) (Picture, error) {
			return Plot(Chart{Title: "bits of the first integers", X: "integer", Y: "ones", Series: []Series{
				{Name: "in two's complement", Kind: "bars", Y: []float64{0, 1, 1, 2, 1, 2, 2, 3}}, {Name: "in Gray code", Kind: "bars", Y: []float64{0, 1, 2, 1, 2, 3, 2, 1}}}}, o)
		}},
		{"threads", "what each thread holds", func(o Options) (Picture, error) {
			o.Column = 16
			return Threads(accumulator(), o)
		}},
		{"threads-warps", "warps side by side", func(o Options) (Picture, error) { return Threads(layout.Spatial(16, 8).Local(1, 2), o) }},
		{"view-i3", "three bits: 3 u8 as 8 i3", reinterpretation(dtype.I3, layout.ColumnSpatial(4, 8).Local(8, 1))},
		{"view-i5", "five bits: 5 u8 as 8 i5", reinterpretation(dtype.I5, layout.ColumnSpatial(4, 8).Local(8, 1))},
		{"view-i6", "six bits: 3 u8 as 4 i6", reinterpretation(dtype.I6, layout.Local(2, 1).ColumnSpatial(4, 8).Local(2, 1))},
		{"view-i7", "seven bits: 7 u8 as 8 i7", reinterpretation(dtype.I7, layout.ColumnSpatial(4, 8).Local(8, 1))},
		{"view-widths", "the same threads at 3, 5, 6 and 7 bits", func(o Options) (Picture, error) {
			return Widths(layout.ColumnSpatial(4, 8).Local(8, 1), []dtype.Type{dtype.I3, dtype.I5, dtype.I6, dtype.I7}, o)
		}},
		{"chain", "a chain, factor by factor", func(o Options) (Picture, error) {
			f, err := Factors(layout.Local(2, 1).Spatial(4, 2).Local(1, 2))
			if err != nil {
				return Picture{}, err
			}
			return Chain(f, o)
		}},
		{"times", "the product of two layouts", func(o Options) (Picture, error) {
			return Times(layout.Spatial(2, 4), layout.Local(2, 2), o)
		}},
		{"over", "the quotient of two layouts", func(o Options) (Picture, error) {
			return Over(layout.Spatial(2, 4).Local(2, 2), layout.Local(2, 2), o)
		}},
		{"f2", "a layout as a matrix over F2", func(o Options) (Picture, error) {
			l, err := linear.New([]linear.Dim{
				{Name: linear.Register, Bases: [][]int{{0, 1}, {8, 0}}},
				{Name: linear.Lane, Bases: [][]int{{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}},
			}, []linear.OutDim{{Name: "row", Size: 16}, {Name: "col", Size: 8}})
			if err != nil {
				return Picture{}, err
			}
			return Matrix(l, o)
		}},
		{"f2-replicated", "a layout with bits that do not matter, and an XOR", func(o Options) (Picture, error) {
			l, err := linear.New([]linear.Dim{
				{Name: linear.Register, Bases: [][]int{{0, 1}}},
				{Name: linear.Lane, Bases: [][]int{{0, 2}, {1, 2}, {2, 1}, {0, 0}}},
			}, []linear.OutDim{{Name: "row", Size: 4}, {Name: "col", Size: 4}})
			if err != nil {
				return Picture{}, err
			}
			return Matrix(l, o)
		}},
		{"banks-conflict", "a column of a 32×32 tile: every lane in one bank", banksOf(bank.Load, 4, 32, func(i int) int { return i * 128 })},
		{"banks-stride2", "every second word", banksOf(bank.Load, 4, 32, func(i int) int { return i * 8 })},
		{"banks-wide", "16 bytes a lane: four phases, no conflict", banksOf(bank.Load, 16, 32, func(i int) int { return i * 16 })},
		{"banks-broadcast", "groups of four lanes want one word", banksOf(bank.Load, 4, 32, func(i int) int { return i / 4 * 4 })},
		{"banks-ldmatrix", "ldmatrix from rows of 64 bytes", banksOf(bank.LdMatrix, 16, 32, func(i int) int { return i * 64 })},
		{"banks-amd", "16 bytes a lane of a wave on MI350: 64 banks, phases of far lanes", func(o Options) (Picture, error) {
			p, err := bank.FindProfile("mi350")
			if err != nil {
				return Picture{}, err
			}
			r, err := bank.Count(p, bank.Access{Kind: bank.Load, Width: 16, Addrs: lanes(64, func(i int) int { return i * 16 })})
			if err != nil {
				return Picture{}, err
			}
			return Banks(r, o)
		}},
		{"sectors", "a stride of 12 bytes in global memory", func(o Options) (Picture, error) {
			return Sectors(4, lanes(32, func(i int) int { return i * 12 }), o)
		}},
		{"swizzle", "Sw<2,0,3> on 4×8 units", func(o Options) (Picture, error) { return Swizzle(layout.Swizzle{Bits: 2, Base: 0, Shift: 3}, 4, 8, o) }},
		{"swizzle-128B", "Sw<3,3,3> on 8×64 elements of two bytes", func(o Options) (Picture, error) {
			return Swizzle(layout.Swizzle{Bits: 3, Base: 3, Shift: 3}, 8, 64, o)
		}},
		{"swizzle-left", "a negative shift: Sw<2,0,-3>", func(o Options) (Picture, error) { return Swizzle(layout.Swizzle{Bits: 2, Base: 0, Shift: -3}, 4, 8, o) }},
		{"transpose", "32×32 transpose: plain, padded, swizzled, by TMA", Transpose},
		{"tma-box", "a box across the tensor's edge", func(o Options) (Picture, error) {
			return TMA(bank.TensorMap{ElementBytes: 2, Float: true, Dims: []uint64{96, 20}, Strides: []uint64{192}, Box: []int{64, 8}, Swizzle: "128B"}, 15, 48, 0, o)
		}},
		{"tma-chunks", "the chunks of TMA's 128-byte swizzle", func(o Options) (Picture, error) {
			m, err := bank.FindTMAMode("128B")
			if err != nil {
				return Picture{}, err
			}
			return TMAChunks(m, o)
		}},
		{"mma-m16n8k16", "A, B and C of mma.m16n8k16", atom("SM80_16x8x16_F32F16F16F32_TN", Atom)},
		{"mma-sparse", "a sparse product: A without its zeros, and the metadata", atom("mma.sp.m16n8k32.f32.f16", Atom)},
		{"mma-volta", "a quad-pair of Volta", atom("SM70_8x8x4_F32F16F16F32_TN", Atom)},
		{"mfma-blocks", "16 blocks of AMD's 4×4×1", atom("v_mfma_f32_4x4x1f32", Atom)},
		{"mfma-32x32x8", "AMD's 32×32×8", atom("v_mfma_f32_32x32x8_f16", Atom)},
		{"wmma-replicated", "RDNA3 holds A and B twice", atom("rdna3/v_wmma_f32_16x16x16_f16", Atom)},
		{"wgmma", "m64n16k16 of a warpgroup, A and B in shared memory", atom("SM90_64x16x16_F32F16F16_SS", Atom)},
		{"ldmatrix", "rows that lanes point at, and what they get", atom("ldmatrix.m8n8.x4.b16", Atom)},
		{"copy-transpose", "movmatrix: an 8×8 matrix and its transpose in registers", func(o Options) (Picture, error) {
			return Copy("movmatrix.m8n8.trans", Fragment{Name: "source", Layout: layout.Spatial(8, 4).Local(1, 2)},
				Fragment{Name: "destination", Layout: layout.ColumnSpatial(4, 8).Local(2, 1)}, o)
		}},
		{"cute-layout", "CuTe's print_latex of an offset layout", func(o Options) (Picture, error) {
			l, err := cute.Parse("(4,8):(8,1)")
			if err != nil {
				return Picture{}, err
			}
			return CuteGrid(cute.Composed{Layout: l}, o)
		}},
		{"cute-swizzled", "a swizzled CuTe layout", func(o Options) (Picture, error) {
			l, err := cute.Parse("(8,8):(8,1)")
			if err != nil {
				return Picture{}, err
			}
			return CuteGrid(cute.Composed{Swizzle: layout.Swizzle{Bits: 3, Base: 0, Shift: 3}, Layout: l}, o)
		}},
		{"cute-divide", "logical_divide: tiles keep their colour", func(o Options) (Picture, error) {
			return CuteOperation("logical_divide((4,2,3):(2,1,8), 4:2)", o)
		}},
		{"cute-product", "blocked_product: copies of a tile", func(o Options) (Picture, error) {
			return CuteOperation("blocked_product((2,5):(5,1), (3,4):(1,3))", o)
		}},
		{"cute-threads", "one of our layouts in CuTe's look", func(o Options) (Picture, error) {
			l, err := cuteprint.RegisterTV(accumulator())
			if err != nil {
				return Picture{}, err
			}
			return CuteThreads(l, 16, 8, o)
		}},
		{"cute-copy", "16-byte copies of f32 by 8×4 threads", tiledCopy},
		{"cute-mma", "SM80_16x8x8 in CuTe's look", atom("SM80_16x8x8_F32TF32TF32F32_TN", CuteAtom)},
	}
}

// tiledCopy is CuTe's tiled copy of 16 bytes a thread, thr(8,4) val(4,1), of f32.
func tiledCopy(o Options) (Picture, error) {
	var threads, values, one, side cute.Layout
	for _, x := range []struct {
		to   *cute.Layout
		text string
	}{{&threads, "(8,4)"}, {&values, "(4,1)"}, {&one, "1"}, {&side, "(1,4):(0,1)"}} {
		l, err := cute.Parse(x.text)
		if err != nil {
			return Picture{}, err
		}
		*x.to = l
	}
	tv, err := cute.MakeLayoutTV(threads, values)
	if err != nil {
		return Picture{}, err
	}
	c, err := cute.NewTiledCopy(cute.Copy{ThrID: one, Src: side, Dst: side, Ref: side}, tv.Layout, tv.Tile)
	if err != nil {
		return Picture{}, err
	}
	return CuteTiledCopy(c, o)
}

// atom finds an instruction of the catalogue when it is drawn.
func atom(name string, draw func(arch.Atom, Options) (Picture, error)) func(Options) (Picture, error) {
	return func(o Options) (Picture, error) {
		a, err := arch.FindAtom(name)
		if err != nil {
			return Picture{}, err
		}
		return draw(a, o)
	}
}

func reinterpretation(t dtype.Type, l layout.Layout) func(Options) (Picture, error) {
	return func(o Options) (Picture, error) {
		packed, err := layout.PackedView(t.Bits(), l)
		if err != nil {
			return Picture{}, err
		}
		o.Threads = []int{0, 1}
		return Reinterpret(dtype.U8, packed, t, l, o)
	}
}

// lanes are the addresses of n lanes.
func lanes(n int, at func(lane int) int) []int {
	var out []int
	for i := range n {
		out = append(out, at(i))
	}
	return out
}

func banksOf(kind bank.Kind, width, n int, at func(lane int) int) func(Options) (Picture, error) {
	return func(o Options) (Picture, error) {
		r, err := bank.Count(bank.Nvidia(), bank.Access{Kind: kind, Width: width, Addrs: lanes(n, at)})
		if err != nil {
			return Picture{}, err
		}
		return Banks(r, o)
	}
}

// Looks are the options under which the gallery shows its first picture again: each
// palette on each theme.
func Looks() []Options {
	var out []Options
	for _, t := range Themes() {
		for _, p := range Palettes() {
			out = append(out, Options{Palette: p.Name, Theme: t.Name})
		}
	}
	return out
}

// GalleryPage is a web page, without anything from outside, that shows the named
// pictures; files are beside it as NAME.svg and NAME.png.
func GalleryPage(names, docs []string) []byte {
	var b strings.Builder
	b.WriteString("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>Tilus Lab: gallery</title>\n" +
		"<style>body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 1rem}figure{margin:2rem 0}img{max-width:100%;height:auto;border:1px solid #d0d7de}figcaption{margin-top:.25rem}</style>\n<h1>Tilus Lab: gallery</h1>\n")
	for i, n := range names {
		n, d := html.EscapeString(n), html.EscapeString(docs[i])
		fmt.Fprintf(&b, "<figure id=\"%s\"><img src=\"%s.svg\" alt=\"%s\" loading=\"lazy\"><figcaption>%s – %s (<a href=\"%s.png\">PNG</a>, <a href=\"%s.pdf\">PDF</a>)</figcaption></figure>\n", n, n, d, n, d, n, n)
	}
	b.WriteString("</html>\n")
	return []byte(b.String())
}
