// Package layoutviz draws layouts, once and in Go, for notebook, web page,
// command line and README alike. Every picture is a pure function of its
// arguments: the same layout and options give the same bytes.
//
// Of layouts:
//
//   - [Tensor] shows the elements in their places, each with the thread that
//     holds it and the slot it is held in.
//   - [Threads] shows the same map the other way round: what each thread holds.
//   - [Reinterpret] shows the bits of a thread in order, once as elements of one
//     type and once as elements of another, which is what a View does; [Widths]
//     shows one layout at several types.
//   - [Chain], [Times] and [Over] show how layouts are put together.
//   - [Matrix] shows a linear layout as bits.
//
// Of memory: [Banks] and [Sectors] show what an access costs, [Swizzle] and
// [TMAChunks] where things move to, [TMA] a copied box, [Transpose] the worked
// example of all of it.
//
// Of instructions: [Atom] draws a row of the catalogue, with [MMA] and [Copy] for
// fragments of one's own.
//
// In CuTe's look: [CuteGrid], [CuteThreads], [CuteMMA], [CuteAtom], [CuteTiledCopy]; and
// [CuteOperation] for divisions and products. [Gallery] has one of each.
//
// A picture is built as a list of shapes (package scene) that is written as SVG by
// svgo, and by [Export] as PNG, PDF or TikZ; all show the same things in the same
// places. Its contents can also be had as JSON, CSV, Markdown or text.
package layoutviz

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// legend says how cells with a thread and a slot are read.
const legend = "T5 over 2: thread 5 holds the element, in its slot 2"

// legendOf is the legend for pictures of layouts; +1 is explained where it stands.
func legendOf(ls ...layout.Layout) string {
	for _, l := range ls {
		if n := l.Replicas() - 1; n > 0 && !everyone(l) {
			return legend + fmt.Sprintf("; T5+%d: %s it too", n, map[bool]string{true: "another thread holds", false: fmt.Sprint(n, " other threads hold")}[n == 1])
		}
	}
	return legend
}

// Options choose how a picture looks. The zero value is the usual look.
type Options struct {
	// Palette is one of [Palettes]; empty means the first.
	Palette string
	// Theme is one of [Themes]; empty means the first.
	Theme string
	// Threads are the threads that Reinterpret shows; empty means the first few.
	Threads []int
	// NoCaption leaves out the line above the picture.
	NoCaption bool
	// Column is how many threads of a warp [Threads] draws one below the other; the
	// next ones stand beside them. 0 means all. It has no effect on more than one warp.
	Column int
}

// Picture is one drawing. Width and Height are in pixels at scale 1. Title and
// Desc are the sentences that also stand in the SVG for screen readers. Form and
// Text say what is shown, as links to the explorer name it: "layout" and its
// chain, or "view" and the low-bit type with its chain; empty where nothing names it.
type Picture struct {
	SVG    []byte
	Width  int
	Height int
	IDs    []Element // what stands where; empty where one square stands for several elements
	Title  string
	Desc   string
	Form   string
	Text   string
	Grids  []Grid // the texts of the cells, for forms without places

	scene *scene.Scene
	tex   string // the TikZ form where it is not made from the scene
}

// Element is one part of a picture that can be pointed at. ID is stable: it
// names the same part whenever the same thing is drawn, for example "e9.2" for
// the tensor element (9, 2), "t5s2" for slot 2 of thread 5. Elements of any
// pictures of one answer that share a number in Keys are the same thing; those
// of the same Thread are kin. Label is the sentence about it. X, Y, W, H are its
// box in pixels.
type Element struct {
	ID    string
	Label string
	X, Y  int
	W, H  int
	Keys  []int

	Thread int             // that holds it, the first one if there are several; -1 if none
	Slot   int             // it is held in
	At     []int           // its place in the tensor, where it has one
	Also   []layout.Holder // the others that hold it
}

// Grid is a table of texts: the first column and Head are the numbers along it.
type Grid = scene.Grid

// Sizes at which a picture becomes coarser. They are cells, not elements: a
// picture never has more than maxCells of them, however large the layout is.
const (
	maxLabelled = 4096  // up to here each cell has its text
	maxLinked   = 16384 // up to here each cell stands in Picture.IDs
	maxCells    = 16384 // above, one square stands for several elements
)

// Describe is one sentence about a layout: its shape, threads, slots, and what
// one thread holds.
func Describe(l layout.Layout) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: shape [%s], %s, %s each.", l, joinInts(l.Shape()), count(l.Threads(), "thread"), count(l.Slots(), "element"))
	t := min(5, l.Threads()-1)
	fmt.Fprintf(&b, " Thread %d holds ", t)
	n := min(4, l.Slots())
	for s := range n {
		if s > 0 {
			b.WriteString(", ")
		}
		b.WriteString(tuple(l.Index(t, s)))
	}
	if n < l.Slots() {
		b.WriteString(", …")
	}
	b.WriteString(".")
	if r := l.Replicas(); r > 1 {
		fmt.Fprintf(&b, " Each element is held %d times.", r)
	}
	return b.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func joinInts(v []int) string {
	s := make([]string, len(v))
	for i, x := range v {
		s[i] = fmt.Sprint(x)
	}
	return strings.Join(s, ", ")
}

func tuple(v []int) string { return "(" + joinInts(v) + ")" }

// Split is the picture as an SVG without its texts, and the texts. A browser
// takes nearly all of its time for the texts of an SVG, and draws the same texts
// several times faster itself.
func (p Picture) Split() (svg []byte, list []Text) {
	if p.scene == nil {
		return p.SVG, nil
	}
	rest := *p.scene
	rest.Items = nil
	for _, it := range p.scene.Items {
		if t, ok := it.(scene.Text); ok {
			list = append(list, t)
		} else {
			rest.Add(it)
		}
	}
	return rest.SVG(p.Title, p.Desc), list
}
