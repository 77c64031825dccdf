package answer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

// Pictures with at least this many elements go to the page as an SVG without
// texts, and the texts, which the page draws on a canvas of at most maxCanvas
// pixels each way.
const (
	splitFrom = 400
	maxCanvas = 8192
)

// Result is the answer to a [Drawing]. It writes the pictures' element tables as short arrays,
// [id, x, y, w, h, [keys], label, thread, slot, [place in the tensor]], which is most of the message, and
// the last two only where there is a place; and texts as [y, size, colour, anchor, bold, [x, word, x, word, …]].
func Result(r pane.Result) json.RawMessage {
	size := 1 << 10
	for _, p := range r.Pictures {
		size += len(p.SVG) + 90*len(p.IDs)
	}
	b := append(make([]byte, 0, size), `{"sentence":`...)
	b = AppendString(b, r.Sentence)
	b = append(b, `,"text":`...)
	b = AppendString(b, r.Text)
	b = append(b, `,"pictures":[`...)
	for i, p := range r.Pictures {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = AppendString(b, p.Name)
		b = append(b, `,"title":`...)
		b = AppendString(b, p.Title)
		b = append(b, `,"desc":`...)
		b = AppendString(b, p.Desc)
		b = append(b, `,"width":`...)
		b = strconv.AppendInt(b, int64(p.Width), 10)
		b = append(b, `,"height":`...)
		b = strconv.AppendInt(b, int64(p.Height), 10)
		svg, texts := p.SVG, []layoutviz.Text(nil)
		if len(p.IDs) >= splitFrom && p.Width <= maxCanvas && p.Height <= maxCanvas {
			svg, texts = p.Split()
		}
		b = append(b, `,"svg":`...)
		b = AppendString(b, string(svg))
		b = append(b, `,"texts":[`...)
		for j, t := range texts {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendText(b, t)
		}
		b = append(b, ']')
		b = append(b, `,"ids":[`...)
		for j, e := range p.IDs {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendElement(b, e)
		}
		b = append(b, ']')
		if len(p.Go) > 0 {
			// The error cannot happen: these are strings.
			raw, _ := json.Marshal(p.Go)
			b = append(append(b, `,"go":`...), raw...)
		}
		b = append(b, '}')
	}
	return append(b, `]}`...)
}

func appendText(b []byte, t layoutviz.Text) []byte {
	b = append(b, '[')
	b = strconv.AppendInt(b, int64(t.Y), 10)
	b = append(b, ',')
	b = strconv.AppendFloat(b, t.Size, 'f', -1, 64)
	b = append(b, ',')
	b = AppendString(b, t.Color)
	b = append(b, ',')
	b = AppendString(b, t.Anchor)
	b = append(b, ',')
	b = strconv.AppendBool(b, t.Bold)
	b = append(b, ",["...)
	for i, w := range t.Words {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(w.X), 10)
		b = append(b, ',')
		b = AppendString(b, w.S)
	}
	return append(b, "]]"...)
}

func appendElement(b []byte, e layoutviz.Element) []byte {
	b = append(b, '[')
	b = AppendString(b, e.ID)
	for _, n := range []int{e.X, e.Y, e.W, e.H} {
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(n), 10)
	}
	b = append(b, ",["...)
	for i, k := range e.Keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(k), 10)
	}
	b = append(b, "],"...)
	b = AppendString(b, e.Label)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(e.Thread), 10)
	if len(e.At) > 0 {
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(e.Slot), 10)
		b = append(b, ",["...)
		for i, n := range e.At {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(n), 10)
		}
		b = append(b, ']')
	}
	return append(b, ']')
}

// AppendString writes a string as JSON. Unlike json.Marshal it leaves < and & as
// they are, which pictures are full of; what it writes is for websockets, not for
// the middle of a page.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), `\ufffd`...)
				from = i + 1
			}
			i += n
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = fmt.Appendf(b, `\u%04x`, c)
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}
