package cell

import (
	"strings"
	"unicode/utf8"

	"github.com/tilus-lab/tilus-lab/gpu/assist"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// Program text in %%tile cells, and the texts that Go code gives to lab (notations, names of the catalogue), are completed and inspected as gpu/assist says.

// isTile reports whether a cell is program text.
func isTile(code string) bool { return strings.HasPrefix(strings.TrimLeft(code, " \t\r\n"), "%%tile") }

// completed is a list of what may replace a word in front of the cursor, in code points.
func completed(items []assist.Item, word string, cursor int) proto.Completed {
	out := proto.Completed{Matches: []proto.Match{}, Start: cursor - utf8.RuneCountInString(word), End: cursor}
	for _, x := range items {
		out.Matches = append(out.Matches, proto.Match{Text: x.Text, Kind: x.Kind, Sig: x.Doc})
	}
	return out
}

func markdown(s string) proto.Inspected {
	return proto.Inspected{Found: s != "", Text: s, Markdown: s}
}

// inString reports whether Go code ends inside a string on its last line or in a raw string.
func inString(before string) bool {
	var quote byte
	for i := 0; i < len(before); i++ {
		b := before[i]
		switch {
		case quote == 0 && strings.HasPrefix(before[i:], "//"):
			end := strings.IndexByte(before[i:], '\n')
			if end < 0 {
				return false
			}
			i += end
		case quote == 0 && (b == '"' || b == '`' || b == '\''):
			quote = b
		case quote != 0 && quote != '`' && b == '\\':
			i++
		case quote != 0 && (b == quote || b == '\n' && quote != '`'):
			quote = 0
		}
	}
	return quote == '"' || quote == '`'
}
