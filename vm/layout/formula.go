package layout

import (
	"fmt"
	"strings"
)

// Formula is how the index of an element follows from its thread T and its slot S, for
// each dimension with the numbers of one element filled in:
//
//	T/4 + 8·(S/2) = 1 + 8·1 = 9
//
// Division rounds down, % is the remainder. It is what [Layout.Digits] say.
func (l Layout) Formula(thread, slot int) []string {
	spatial, local := l.Digits()
	at := l.Index(thread, slot)
	words := make([][]string, len(at))
	numbers := make([][]string, len(at))
	add := func(digits []Digit, name string, n int) {
		below := 1 // product of the sizes of faster digits
		for i := len(digits) - 1; i >= 0; i-- {
			g := digits[i]
			word := name
			if below > 1 {
				word = fmt.Sprintf("%s/%d", name, below)
			}
			slowest := true
			for _, h := range digits[:i] {
				slowest = slowest && h.Size == 1
			}
			if !slowest {
				word += fmt.Sprintf("%%%d", g.Size)
			}
			value := fmt.Sprint(n / below % g.Size)
			below *= g.Size
			if g.Dim < 0 || g.Size == 1 {
				continue
			}
			if g.Stride > 1 {
				if word != name {
					word = "(" + word + ")"
				}
				word, value = fmt.Sprintf("%d·%s", g.Stride, word), fmt.Sprintf("%d·%s", g.Stride, value)
			}
			words[g.Dim] = append(words[g.Dim], word)
			numbers[g.Dim] = append(numbers[g.Dim], value)
		}
	}
	add(spatial, "T", thread)
	add(local, "S", slot)
	out := make([]string, len(at))
	for d := range out {
		if words[d] == nil {
			out[d] = "0"
			continue
		}
		out[d] = strings.Join(words[d], " + ")
		if n := strings.Join(numbers[d], " + "); n != fmt.Sprint(at[d]) {
			out[d] += " = " + n
		}
		out[d] += fmt.Sprintf(" = %d", at[d])
	}
	return out
}
