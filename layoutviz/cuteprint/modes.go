package cuteprint

import (
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
)

// axis is the part of a layout that a grid counts along its rows (0) or columns (1):
// its first mode, and all others.
func axis(l cute.Layout, d int) (leaves []int, text string) {
	if l.Rank() < 2 {
		if d == 1 {
			return nil, ""
		}
		return shapeLeaves(l.Shape()), l.Shape().String()
	}
	var parts []string
	for i := range l.Rank() {
		if (i > 0) == (d == 1) {
			leaves = append(leaves, shapeLeaves(l.Mode(i).Shape())...)
			parts = append(parts, l.Mode(i).Shape().String())
		}
	}
	text = strings.Join(parts, ",")
	if len(parts) > 1 {
		text = "(" + text + ")"
	}
	return leaves, text
}

func shapeLeaves(t cute.Tuple) (out []int) {
	for _, x := range t.Leaves() {
		out = append(out, x.Int())
	}
	return out
}

// Modes are the shapes along the rows and the columns.
func Modes(l cute.Layout) (rows, cols string) {
	_, rows = axis(l, 0)
	_, cols = axis(l, 1)
	return rows, cols
}

// Group is how many rows or columns the fastest part of a nested mode counts; 0
// where the mode is not nested.
func Group(l cute.Layout, d int) int {
	leaves, _ := axis(l, d)
	leaves = slices.DeleteFunc(leaves, func(n int) bool { return n == 1 })
	if len(leaves) < 2 {
		return 0
	}
	return leaves[0]
}

// Parameters are the names of an operation's operands.
func Parameters(name string) []string {
	for _, f := range cute.Functions() {
		if f.Name == name {
			_, args := Call(f.Signature)
			return args
		}
	}
	return nil
}

// Call cuts "name(a, b)" into its name and arguments; a text that is no call is
// one argument of no name.
func Call(text string) (name string, args []string) {
	text = strings.TrimSpace(text)
	open := strings.IndexByte(text, '(')
	if open <= 0 || !strings.HasSuffix(text, ")") {
		return "result", nil
	}
	name = text[:open]
	depth, from := 0, open+1
	for i := open + 1; i < len(text)-1; i++ {
		switch text[i] {
		case '(', '<':
			depth++
		case ')', '>':
			depth--
		case ',':
			if depth == 0 {
				args = append(args, strings.TrimSpace(text[from:i]))
				from = i + 1
			}
		}
	}
	return name, append(args, strings.TrimSpace(text[from:len(text)-1]))
}
