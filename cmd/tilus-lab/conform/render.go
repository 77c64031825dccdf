package conform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz/cuteprint"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
)

// renderKinds are the pictures that CuTe prints: our documents must be the same
// bytes, and what is read out of them the same cells.
func renderKinds() []Kind {
	ask := func(op, doc string, draw func(expr string) (document, string, error)) Kind {
		return Kind{"op:" + op, doc, func(input, expect json.RawMessage) (string, error) {
			var in struct{ Expr string }
			if err := json.Unmarshal(input, &in); err != nil {
				return "", fmt.Errorf("input: %w", err)
			}
			doc, note, err := draw(in.Expr)
			if err != nil {
				return "", err
			}
			return note, doc.check(expect)
		}}
	}
	return []Kind{
		ask("print_svg", "CuTe's SVG of a matrix instruction", renderSVG),
		ask("print_latex", "CuTe's LaTeX of a layout", renderLayout),
		ask("print_latex_mma", "CuTe's LaTeX of a matrix instruction", renderMMA),
		ask("print_latex_copy", "CuTe's LaTeX of a copy", renderCopy),
	}
}

// document is a picture as text.
type document struct {
	text string
	svg  bool
}

// check compares what is read out of a document with what was recorded. Long lists
// of cells are recorded by their beginning.
func (d document) check(expect json.RawMessage) error {
	answer := d.facts()
	key := "cells"
	if d.svg {
		key = "cells_xyfillTV"
	}
	var want map[string]json.RawMessage
	if err := json.Unmarshal(expect, &want); err != nil {
		return fmt.Errorf("expect: %w", err)
	}
	var recorded []json.RawMessage
	if err := json.Unmarshal(want[key], &recorded); err != nil {
		return fmt.Errorf("expect: %s: %w", key, err)
	}
	cells := answer[key].([][]any)
	const least = 64 // cells that every recording has, if the picture has as many
	if len(recorded) < min(len(cells), least) {
		return fmt.Errorf("%s has %d cells, the picture %d", key, len(recorded), len(cells))
	}
	answer["cells_complete"] = len(recorded) == len(cells)
	answer[key] = cells[:min(len(recorded), len(cells))]
	return compare(answer, expect, nil)
}

var (
	svgView  = regexp.MustCompile(`viewBox="([^"]*)"`)
	svgCell  = regexp.MustCompile(`<rect x="(\d+)" y="(\d+)" width="20" height="20" fill="rgb\(([^)]*)\)" stroke="black" ?/>\n<text [^>]*font-size="8">T(\d+)</text>\n<text [^>]*font-size="8">V(\d+)</text>`)
	svgLabel = regexp.MustCompile(`font-size="12">\d+</text>`)
	texCell  = regexp.MustCompile(`(?m)^\\node\[fill=(.*)\] at \((-?\d+),(-?\d+)\) \{(.*)\};$`)
	texLabel = regexp.MustCompile(`(?m)^\\node at .*\\Large`)
	texStack = regexp.MustCompile(`\\shortstack\{(\S+) \\\\ (\S+)\}`)
)

// facts are read out of the text, as a reader of CuTe's would.
func (d document) facts() map[string]any {
	sum := sha256.Sum256([]byte(d.text))
	digest := hex.EncodeToString(sum[:])
	cells := [][]any{}
	number := func(s string) int {
		n, _ := strconv.Atoi(s) // digits by the pattern
		return n
	}
	if d.svg {
		for _, m := range svgCell.FindAllStringSubmatch(d.text, -1) {
			cells = append(cells, []any{number(m[1]), number(m[2]), m[3], number(m[4]), number(m[5])})
		}
		return map[string]any{"viewBox": svgView.FindStringSubmatch(d.text)[1], "n_cells": len(cells),
			"n_axis_labels": len(svgLabel.FindAllString(d.text, -1)), "sha256_without_comments": digest, "cells_xyfillTV": cells}
	}
	for _, m := range texCell.FindAllStringSubmatch(d.text, -1) {
		s := m[4]
		if t := texStack.FindStringSubmatch(s); t != nil {
			s = t[1] + " " + t[2]
		}
		cells = append(cells, []any{m[1], number(m[2]), number(m[3]), s})
	}
	first, _, _ := strings.Cut(d.text, "\n")
	return map[string]any{"first_line": first, "n_cells": len(cells), "n_axis_labels": len(texLabel.FindAllString(d.text, -1)),
		"sha256": digest, "cells": cells}
}

// renderOperands reads the name of an instruction, or of one spread over threads.
func renderOperands(expr string) (cuteprint.Operands, error) {
	words := strings.Fields(expr)
	if len(words) > 0 && words[0] == "tiled_mma" {
		words = words[1:]
	}
	m, rest, err := cuteTiled(words)
	if err != nil {
		return cuteprint.Operands{}, err
	}
	if len(rest) > 0 {
		return cuteprint.Operands{}, fmt.Errorf("%q is not understood", rest)
	}
	return cuteprint.OperandsOf(m)
}

func renderSVG(expr string) (document, string, error) {
	ops, err := renderOperands(expr)
	if err != nil {
		return document{}, "", err
	}
	text, err := cuteprint.MMASVG(ops)
	return document{string(text), true}, "", err
}

func renderMMA(expr string) (document, string, error) {
	ops, err := renderOperands(expr)
	if err != nil {
		return document{}, "", err
	}
	text, err := cuteprint.MMATeX(ops)
	return document{text, false}, "", err
}

func renderLayout(expr string) (document, string, error) {
	v, err := cute.Eval(expr)
	if err != nil {
		return document{}, "", err
	}
	c, ok := v.Composed()
	if !ok {
		return document{}, "", fmt.Errorf("%s is a %s, not a layout", expr, v.Kind())
	}
	text, err := cuteprint.GridTeX(c)
	return document{text, false}, "", err
}

// copyLabels are recordings whose label names other threads than those that are
// drawn: the tile of the label has more cells than LaTeX takes.
var copyLabels = map[string]string{"u128 f32 thr(32,8) val(4,1)": "u128 f32 thr(8,4) val(4,1)"}

// renderCopy reads "ATOM TYPE thr(…) val(…)".
func renderCopy(expr string) (document, string, error) {
	note := ""
	if drawn := copyLabels[expr]; drawn != "" {
		note = "the label says " + expr + ", but what is drawn is " + drawn
		expr = drawn
	}
	words, named := cuteParts(expr)
	if len(words) > 0 && words[0] == "tiled_copy" {
		words = words[1:]
	}
	if len(words) != 2 {
		return document{}, "", fmt.Errorf("%q is not understood", expr)
	}
	bits, err := typeBits(words[1])
	if err != nil {
		return document{}, "", err
	}
	atom, err := cuteCopyAtom(words[0])
	if err == nil {
		atom, err = atom.InElements(bits)
	}
	if err != nil {
		return document{}, "", err
	}
	tv, err := cuteTV(named)
	if err != nil {
		return document{}, "", err
	}
	c, err := cute.NewTiledCopy(atom, tv.Layout, tv.Tile)
	if err != nil {
		return document{}, "", err
	}
	text, err := cuteprint.TiledCopyTeX(c)
	return document{text, false}, note, err
}
