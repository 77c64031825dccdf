package answer

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

// Limits of addresses.
const (
	MaxQuery = 8 << 10 // bytes of a query
	MaxViews = 16      // panes of a page
)

// View is one pane of an address.
type View struct {
	Pane   string      `json:"pane"`
	Values pane.Values `json:"values"`
}

// ParseQuery reads address grammar 1: v=1, then for each pane p=NAME followed by
// its values. Without any p the values are those of the layout pane. Names that
// are not known are kept: what they mean is the pane's business, and panes ignore
// what they do not know; the values of names that they know, they check.
func ParseQuery(query string) ([]View, error) {
	if len(query) > MaxQuery {
		return nil, fmt.Errorf("the address has %d bytes; the limit is %d", len(query), MaxQuery)
	}
	var out []View
	first := pane.Values{} // values before any pane
	for _, part := range strings.Split(query, "&") {
		k, v, _ := strings.Cut(part, "=")
		k, err1 := url.QueryUnescape(k)
		v, err2 := url.QueryUnescape(v)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("the address has a broken %% escape in %.40q", part)
		}
		switch {
		case k == "v" && len(out) == 0:
			// Newer versions only add fields.
			if n, err := strconv.Atoi(v); err != nil || n < 1 {
				return nil, fmt.Errorf("the address has version %.20q; versions are numbers from 1", v)
			}
		case k == "p":
			if len(out) == MaxViews {
				return nil, fmt.Errorf("the address has more than %d panes", MaxViews)
			}
			out = append(out, View{Pane: v, Values: pane.Values{}})
		case len(out) > 0:
			out[len(out)-1].Values[k] = v
		default:
			first[k] = v
		}
	}
	if len(out) == 0 {
		out = []View{{Pane: "layout", Values: first}}
	}
	return out, nil
}

// File is a picture as a file.
type File struct {
	Name string // for saving: "layout.png"
	MIME string
	Data []byte
}

// NoPicture is the error of an address that names a picture or form that is not
// there.
type NoPicture struct {
	Form bool // it is the form that is not there
	msg  string
}

func (e *NoPicture) Error() string { return e.msg }

// Encode makes the file of one picture of a view's result. The value "name" of the
// view says which picture, the first where it says none; "as" says in which of
// [Forms], SVG where it says none. query is the address, which a page of the
// picture keeps.
func (v View) Encode(r pane.Result, query string) (File, error) {
	as := v.Values["as"]
	if as == "" {
		as = "svg"
	}
	var names []string
	for _, p := range r.Pictures {
		names = append(names, p.Name)
		if name := v.Values["name"]; name != "" && p.Name != name {
			continue
		}
		if as == page {
			return File{v.Pane + "." + page, "text/html; charset=utf-8", sharedPage(p, r.Sentence, query)}, nil
		}
		i := slices.IndexFunc(layoutviz.Formats(), func(f layoutviz.Format) bool { return f.Name == as })
		if i < 0 {
			return File{}, &NoPicture{true, fmt.Sprintf("there is no form %.20q; there are %s", as, strings.Join(Forms(), ", "))}
		}
		form := layoutviz.Formats()[i]
		f := File{Name: v.Pane + "." + form.Name, MIME: form.MIME, Data: p.SVG}
		if strings.HasPrefix(form.MIME, "text/") {
			f.MIME += "; charset=utf-8"
		}
		if form.Name == "svg" {
			return f, nil
		}
		var err error
		f.Data, err = form.Encode(p.Picture)
		return f, err
	}
	msg := "this pane has no pictures here, only text"
	if len(names) > 0 {
		msg = fmt.Sprintf("there is no such picture here as %.60q; there are %s", v.Values["name"], strings.Join(names, ", "))
	}
	return File{}, &NoPicture{false, msg}
}
