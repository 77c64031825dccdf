// Package diag is how every part of Tilus Lab says that a user's text is wrong:
// a position, what is there, what must be there, the number of the rule, and a
// way out. Parsers, verifiers and lowering all collect problems in a [List] and
// return it as an ordinary error.
//
// A problem prints as
//
//	matmul.tile:10:8: i6[16, 8] has 24 bits per thread, u8[64] has 16; they must be equal [View.C2]
//		help: …
package diag

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// MaxShown is how many problems [List.Error] prints before it counts the rest.
const MaxShown = 10

// Pos is a place in a text. Line and Col count from 1; Col counts bytes. A zero
// Line means the position is unknown, a zero Col that only the line is known.
type Pos struct {
	File string
	Line int
	Col  int
}

// String is "file:line:col" with the unknown parts left out.
func (p Pos) String() string {
	b := append(make([]byte, 0, len(p.File)+12), p.File...)
	for _, n := range [...]int{p.Line, p.Col} {
		if n <= 0 {
			break
		}
		if len(b) > 0 {
			b = append(b, ':')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(b)
}

// Known reports whether the position names at least a line.
func (p Pos) Known() bool { return p.Line > 0 }

// Before orders positions of one file in reading order.
func (p Pos) Before(q Pos) bool {
	if p.File != q.File {
		return p.File < q.File
	}
	if p.Line != q.Line {
		return p.Line < q.Line
	}
	return p.Col < q.Col
}

// Problem is one located complaint. End is the first position after the text
// that is wrong, or zero where only the start is known. Code names a numbered
// rule ("View.C2") that `tilus-lab explain` describes.
type Problem struct {
	Pos  Pos
	End  Pos
	Code string
	Msg  string
	Help string
}

// Error prints the problem on one line, and its help on a second, indented one.
func (p Problem) Error() string {
	var b strings.Builder
	if s := p.Pos.String(); s != "" {
		b.WriteString(s)
		b.WriteString(": ")
	}
	b.WriteString(p.Msg)
	if p.Code != "" {
		fmt.Fprintf(&b, " [%s]", p.Code)
	}
	if p.Help != "" {
		b.WriteString("\n\thelp: ")
		b.WriteString(strings.ReplaceAll(p.Help, "\n", "\n\t      "))
	}
	return b.String()
}

// Rule is what a code stands for: what must be, and why, which may be empty.
// Packages keep theirs in a table beside the messages that name them.
type Rule struct{ Code, Text, Why string }

// List is a set of problems; it is the error that parsers and verifiers return.
type List []Problem

// Addf appends a problem, its message made by [Sprintf]. help may be empty.
func (l *List) Addf(pos Pos, code, help, format string, args ...any) {
	*l = append(*l, Problem{Pos: pos, Code: code, Msg: Sprintf(format, args...), Help: help})
}

// Sprintf is fmt.Sprintf, but writes shapes and indices as program text does: [16, 8].
func Sprintf(format string, args ...any) string {
	own := slices.Clone(args)
	for i, a := range own {
		switch a := a.(type) {
		case []int:
			own[i] = numbers[int](a)
		case []int64:
			own[i] = numbers[int64](a)
		}
	}
	return fmt.Sprintf(format, own...)
}

// numbers are printed by any verb.
type numbers[T int | int64] []T

func (n numbers[T]) Format(s fmt.State, _ rune) {
	for i, x := range n {
		fmt.Fprint(s, []string{"[", ", "}[min(i, 1)], x)
	}
	if len(n) == 0 {
		fmt.Fprint(s, "[")
	}
	fmt.Fprint(s, "]")
}

// Add appends a whole problem.
func (l *List) Add(p Problem) { *l = append(*l, p) }

// Sort puts the problems in reading order, keeping the order of equal positions.
func (l List) Sort() {
	sort.SliceStable(l, func(i, j int) bool { return l[i].Pos.Before(l[j].Pos) })
}

// Err is the list as an error, sorted, or nil when it is empty.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	l.Sort()
	return l
}

// Error prints up to [MaxShown] problems in the order of the list.
func (l List) Error() string {
	var b strings.Builder
	for i, p := range l {
		if i == MaxShown {
			fmt.Fprintf(&b, "\n… and %d more", len(l)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Error())
	}
	return b.String()
}

// Suggest returns the known name that word most likely meant: the nearest one
// within two edits (one for words of up to three letters), compared without
// regard to case, or "" if there is none. One letter is not meant by another.
func Suggest(word string, known []string) string {
	limit := 2
	if len(word) <= 3 {
		limit = 1
	}
	best, bestDist := "", limit+1
	if len(word) > 200 {
		return best // no name is so long
	}
	lower := strings.ToLower(word)
	for _, k := range known {
		if len(word) == 1 && len(k) == 1 && !strings.EqualFold(word, k) {
			continue
		}
		if d := editDistance(lower, strings.ToLower(k), bestDist); d < bestDist {
			best, bestDist = k, d
		}
	}
	return best
}

// Listed are names, of many the first and how many more there are.
func Listed(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// DidYouMean is Suggest as a help line, or "" when nothing is near.
func DidYouMean(word string, known []string) string {
	if s := Suggest(word, known); s != "" {
		return fmt.Sprintf("did you mean %s?", s)
	}
	return ""
}

// editDistance counts insertions, deletions, substitutions and swaps of
// neighbours; it gives up at stop.
func editDistance(a, b string, stop int) int {
	if d := len(a) - len(b); d >= stop || -d >= stop {
		return stop
	}
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
