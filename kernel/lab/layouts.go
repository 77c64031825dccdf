package lab

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/gpu/notation"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
	"github.com/tilus-lab/tilus-lab/vm/layout/linear"
)

// Layout reads a layout in any notation: a chain of factors, CuTe's shape:stride, a
// linear layout by its bases, an attribute of Triton, a swizzle, or the name of an
// instruction. shape, if given, is that of the tile or tensor, where the text does
// not say it. The result shows as all notations that can express it.
func Layout(text string, shape ...int) (notation.Value, error) {
	if len(shape) == 0 {
		shape = nil
	}
	return notation.ReadOn(text, shape)
}

// Convert writes a layout in another notation: "chain", "four-part", "cute", "linear"
// or "triton". The error says why there is none.
func Convert(text, form string) (string, error) { return notation.Convert(text, form) }

// Draw draws a layout in any notation: view is one of layoutviz.Views, "" for the
// usual one.
func Draw(text, view string) (layoutviz.Picture, error) {
	v, err := notation.Read(text)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	return layoutviz.Value(v, view, 0, layoutviz.Options{})
}

// DrawAs is Draw for the view "reinterpret", which needs the type of the elements.
func DrawAs(text, view string, elem dtype.Type) (layoutviz.Picture, error) {
	v, err := notation.Read(text)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	return layoutviz.Value(v, view, elem, layoutviz.Options{})
}

// Swizzle reads a swizzle as CuTe writes it, "Sw<B,M,S>" or "Swizzle<B,M,S>": the B bits
// of an offset from bit M are XORed with the B bits that stand S places higher. Offsets
// count what you count, elements or bytes; Rescale goes from one to the other. It is an
// error where the text is none, a number but S is negative, |S| is less than B, or a bit
// beyond 48 is named.
func Swizzle(text string) (layout.Swizzle, error) { return layout.ParseSwizzle(text) }

// Banks counts what an access of a warp to shared memory costs on NVIDIA's GPUs, and
// says why. The access is written as for "tilus-lab banks":
//
//	lab.Show(lab.Banks("load 16: lane%8*16 + lane/8*128"))
func Banks(access string) (bank.Report, error) { return BanksOn("nvidia", access) }

// BanksOn is Banks for the shared memory of another profile, such as "mi300".
func BanksOn(profile, access string) (bank.Report, error) {
	p, err := bank.FindProfile(profile)
	if err != nil {
		return bank.Report{}, err
	}
	a, err := bank.ParseAccess(access, p, diag.Pos{Line: 1, Col: 1})
	if err != nil {
		return bank.Report{}, err
	}
	return bank.Count(p, a)
}

// Atom finds a matrix or copy instruction of NVIDIA or AMD by any of its names.
func Atom(name string) (arch.Atom, error) { return arch.FindAtom(name) }

// MMA is Atom for those who think of it as the command does, "tilus-lab mma".
func MMA(name string) (arch.Atom, error) { return arch.FindAtom(name) }

// showValue shows a value of any notation: its notations, and its picture.
func showValue(v notation.Value) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, read as %s", v.What(), v.Form())
	for _, n := range v.Notations() {
		if n.Reason != "" {
			fmt.Fprintf(&b, "\n%-10s none: %s", n.Form, n.Reason)
		} else {
			fmt.Fprintf(&b, "\n%-10s %s", n.Form, strings.ReplaceAll(n.Text, "\n", "\n           "))
		}
	}
	showText(b.String())
	views := []string{layoutviz.UsualView(v)}
	if views[0] == "tensor" {
		views = append(views, "threads")
	}
	for _, view := range views {
		if p, err := layoutviz.Value(v, view, 0, layoutviz.Options{}); err == nil {
			showPicture("", p)
		}
	}
}

// showDrawn shows the picture of a value, or the text where there is none.
func showDrawn(text string, v any) {
	if p, ok := drawing(v); ok {
		showPicture(text, p)
		return
	}
	showText(text)
}

// drawing is the picture of a value that is shown as one picture; ok is false for
// other values.
func drawing(v any) (p layoutviz.Picture, ok bool) {
	var err error
	switch v := v.(type) {
	case arch.Atom:
		p, err = layoutviz.Atom(v, layoutviz.Options{})
	case bank.Report:
		p, err = layoutviz.Banks(v, layoutviz.Options{})
	default:
		return p, false
	}
	return p, err == nil
}

// showAny shows what these packages make; ok is false for other values.
func showAny(v any) (ok bool) {
	switch v := v.(type) {
	case notation.Value:
		showValue(v)
	case arch.Atom:
		showDrawn(v.Name, v)
	case bank.Report:
		showDrawn(v.Say(), v)
	case *Fusion:
		if v != nil {
			showFusion(v)
		}
	case *Simplified:
		if v != nil {
			drawOr(v.String(), v.Draw)
		}
	case *bank.Result:
		showText(fmt.Sprintf("%s takes %d wavefronts, the plain tile %d. %s", v.Best, v.Wavefronts, v.Identity, v.Proof))
	case layout.Shared, layout.Swizzle, cute.Layout, cute.Composed, linear.Layout:
		text := fmt.Sprint(v)
		value, err := notation.Read(text)
		if err != nil {
			showText(text)
			return true
		}
		showValue(value)
	default:
		return false
	}
	return true
}
