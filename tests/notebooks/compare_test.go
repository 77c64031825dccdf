package notebooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strings"
)

// notebook is an .ipynb file of format 4.
type notebook struct {
	doc   map[string]any
	cells []map[string]any
}

func read(path string) (*notebook, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	nb := &notebook{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&nb.doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	list, _ := nb.doc["cells"].([]any)
	for _, c := range list {
		m, _ := c.(map[string]any)
		nb.cells = append(nb.cells, m)
	}
	return nb, nil
}

// write stores the file as Jupyter does: sorted keys, one space of indent.
func (nb *notebook) write(path string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(nb.doc); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

func (nb *notebook) metadata(name string) map[string]any {
	meta, _ := nb.doc["metadata"].(map[string]any)
	m, _ := meta[name].(map[string]any)
	return m
}

// mask are the patterns of metadata.tilus_lab.mask: what they match, times and
// machines, is left out before outputs are compared.
func (nb *notebook) mask() ([]*regexp.Regexp, error) {
	list, _ := nb.metadata("tilus_lab")["mask"].([]any)
	var out []*regexp.Regexp
	for _, p := range list {
		s, _ := p.(string)
		re, err := regexp.Compile(s)
		if err != nil {
			return nil, err
		}
		out = append(out, re)
	}
	return out, nil
}

// output is one output in a form that can be compared: what it is, and its text
// by MIME type.
type output struct {
	kind string // "stdout", "stderr", "display_data", "execute_result", "error"
	data map[string]string
}

// outputs lists those of a cell. Neighbouring parts of a stream are one.
func outputs(cell map[string]any) []output {
	list, _ := cell["outputs"].([]any)
	var out []output
	for _, x := range list {
		m, _ := x.(map[string]any)
		kind, _ := m["output_type"].(string)
		o := output{kind, map[string]string{}}
		switch kind {
		case "stream":
			o.kind, _ = m["name"].(string)
			o.data["text/plain"] = joined(m["text"])
			if n := len(out); n > 0 && out[n-1].kind == o.kind {
				out[n-1].data["text/plain"] += o.data["text/plain"]
				continue
			}
		case "error":
			o.data["text/plain"] = fmt.Sprint(m["ename"], ": ", m["evalue"])
		default:
			data, _ := m["data"].(map[string]any)
			for mime, v := range data {
				o.data[mime] = joined(v)
			}
		}
		out = append(out, o)
	}
	return out
}

// joined is nbformat's text: a string or a list of its lines.
func joined(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var b strings.Builder
		for _, x := range v {
			s, _ := x.(string)
			b.WriteString(s)
		}
		return b.String()
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}

// controlMIME is the form of a slider that a running kernel gives it. It names a model
// of that one run, so it is neither stored nor compared; its text is.
const controlMIME = "application/vnd.jupyter.widget-view+json"

// text is the output with what mask matches left out. Of a PNG only the fact is
// kept: its bytes are those of a version of Go's compressor, and the same picture
// stands beside it as SVG.
func (o output) text(mask []*regexp.Regexp) string {
	var mimes []string
	for m := range o.data {
		if m != controlMIME {
			mimes = append(mimes, m)
		}
	}
	sort.Strings(mimes)
	var b strings.Builder
	for _, m := range mimes {
		s := o.data[m]
		if m == "image/png" {
			s = "a picture"
		}
		for _, re := range mask {
			s = re.ReplaceAllString(s, "")
		}
		fmt.Fprintf(&b, "[%s %s]\n%s\n", o.kind, m, strings.TrimRight(s, "\n"))
	}
	return b.String()
}

// differences compares the outputs of two runs of one notebook, cell by cell.
func differences(got, want *notebook, mask []*regexp.Regexp) []string {
	var list []string
	add := func(i int, format string, args ...any) {
		id, _ := want.cells[min(i, len(want.cells)-1)]["id"].(string)
		list = append(list, fmt.Sprintf("cell %d (%s): ", i+1, id)+fmt.Sprintf(format, args...))
	}
	if len(got.cells) != len(want.cells) {
		return []string{fmt.Sprintf("%d cells, want %d", len(got.cells), len(want.cells))}
	}
	for i, w := range want.cells {
		g := got.cells[i]
		if joined(g["source"]) != joined(w["source"]) {
			add(i, "another source")
		}
		if fmt.Sprint(g["execution_count"]) != fmt.Sprint(w["execution_count"]) {
			add(i, "execution count %v, want %v", g["execution_count"], w["execution_count"])
		}
		og, ow := outputs(g), outputs(w)
		if len(og) != len(ow) {
			add(i, "%d outputs, want %d", len(og), len(ow))
		}
		for k := range max(len(og), len(ow)) {
			var a, b string
			if k < len(og) {
				a = og[k].text(mask)
			}
			if k < len(ow) {
				b = ow[k].text(mask)
			}
			if a != b {
				add(i, "output %d\n%s", k+1, firstDifference(a, b))
			}
		}
	}
	return list
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return fmt.Sprintf("line %d\n\tgot  %.300s\n\twant %.300s", i+1, a, b)
		}
	}
	return "equal"
}
