package scene

import (
	"bytes"
	"fmt"
	"strings"
)

// Grid is a table of texts: the first column and Head are the numbers along it.
type Grid struct {
	Title string
	Head  []string
	Rows  [][]string
}

// Markdown writes grids as tables.
func Markdown(title, desc string, grids []Grid) []byte {
	cell := strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`)
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n%s\n", cell.Replace(title), cell.Replace(desc))
	for _, g := range grids {
		if g.Title != "" {
			fmt.Fprintf(&b, "\n## %s\n", cell.Replace(g.Title))
		}
		b.WriteString("\n|")
		for _, h := range g.Head {
			fmt.Fprintf(&b, " %s |", cell.Replace(h))
		}
		b.WriteString("\n|" + strings.Repeat(" --: |", len(g.Head)) + "\n")
		for _, row := range g.Rows {
			b.WriteByte('|')
			for _, s := range row {
				fmt.Fprintf(&b, " %s |", cell.Replace(s))
			}
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// Plain writes grids as text and aligns the cells to the right.
func Plain(title, desc string, grids []Grid) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%s\n", title, desc)
	for _, g := range grids {
		b.WriteByte('\n')
		if g.Title != "" {
			fmt.Fprintln(&b, g.Title)
		}
		var wide []int
		lines := append([][]string{g.Head}, g.Rows...)
		for _, row := range lines {
			for i, s := range row {
				if i == len(wide) {
					wide = append(wide, 0)
				}
				wide[i] = max(wide[i], len([]rune(s)))
			}
		}
		for _, row := range lines {
			var line strings.Builder
			for i, s := range row {
				if i > 0 {
					line.WriteString("  ")
				}
				line.WriteString(strings.Repeat(" ", wide[i]-len([]rune(s))) + s)
			}
			fmt.Fprintln(&b, strings.TrimRight(line.String(), " "))
		}
	}
	return b.Bytes()
}

// Wrap breaks a line that is longer than n characters before a dot of a chain if
// there is one, else at a space.
func Wrap(line string, n int) []string {
	n = max(n, 12)
	var out []string
	for len([]rune(line)) > n {
		r := []rune(line)
		cut := n
		for i := n; i > n/3; i-- {
			if r[i] == '.' && i+1 < len(r) && r[i+1] != ' ' {
				cut = i
				break
			}
			if r[i] == ' ' && cut == n {
				cut = i
			}
		}
		out = append(out, strings.TrimRight(string(r[:cut]), " "))
		line = strings.TrimLeft(string(r[cut:]), " ")
	}
	return append(out, line)
}
