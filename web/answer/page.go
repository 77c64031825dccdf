package answer

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"regexp"
	"strings"

	"github.com/tilus-lab/tilus-lab/web/pane"
)

// page is the form of a picture that is a whole page: one file with the picture,
// its state, title and elements to point at, which needs nothing else.
const page = "html"

//go:embed page.html
var pageText string

//go:embed page.js
var pageScript string

//go:embed page.css
var pageStyle string

// stateMark stands before the address in a shared page, where [State] finds it.
const stateMark = `<script type="application/json" id="tilus-lab">`

// sharedPage writes the page of a picture. Its policy lets nothing run but its own
// script, by hash, and lets nothing be fetched.
func sharedPage(p pane.Picture, sentence, query string) []byte {
	type element struct {
		Box   [4]int `json:"b"`
		Keys  []int  `json:"k"`
		Label string `json:"l"`
	}
	elements := make([]element, 0, len(p.IDs))
	for _, e := range p.IDs {
		elements = append(elements, element{[4]int{e.X, e.Y, e.W, e.H}, append([]int{}, e.Keys...), e.Label})
	}
	// Marshal writes < as \u003c, so nothing in it ends the script element.
	state, err := json.Marshal(map[string]any{"v": Version, "query": query, "elements": elements})
	if err != nil {
		panic(err) // numbers and strings
	}
	svg := p.SVG
	if i := bytes.Index(svg, []byte("<svg")); i > 0 {
		svg = svg[i:] // without the XML declaration, which HTML does not have
	}
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	var b bytes.Buffer
	err = template.Must(template.New("page").Parse(pageText)).Execute(&b, map[string]any{
		"Policy":   "default-src 'none'; script-src " + hash(pageScript) + "; style-src " + hash(pageStyle) + "; img-src data:; base-uri 'none'; form-action 'none'",
		"Title":    p.Title,
		"Sentence": sentence,
		"Desc":     p.Desc,
		"Script":   template.HTML("<script>" + pageScript + "</script>"),
		"Style":    template.HTML("<style>" + pageStyle + "</style>"),
		"State":    template.HTML(stateMark + string(state) + "</script>"),
		"SVG":      template.HTML(svg),
	})
	if err != nil {
		panic(err) // the template is embedded
	}
	return b.Bytes()
}

var stateIn = regexp.MustCompile(regexp.QuoteMeta(stateMark) + `(\{[^<]*\})</script>`)

// State finds the address in something that was shared: a page of the form html,
// JSON with a member "query", a link, or a query by itself. The address is checked
// to be one; nothing of it is run.
func State(text string) (query string, err error) {
	text = strings.TrimSpace(text)
	if m := stateIn.FindStringSubmatch(text); m != nil {
		text = m[1]
	}
	switch {
	case strings.HasPrefix(text, "{"):
		var doc struct{ Query string }
		if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.Query == "" {
			return "", errors.New(`this JSON has no member "query" with an address`)
		}
		query = doc.Query
	case strings.HasPrefix(text, "<"):
		return "", errors.New("this page holds no address; was it made by Share?")
	case text != "" && !strings.ContainsAny(text, "=?") && !strings.Contains(text, "://"):
		return "", fmt.Errorf("%.60q is no link to the explorer, and no file that Share made", text)
	default:
		query = text
		if i := strings.IndexByte(query, '?'); i >= 0 {
			query = query[i+1:]
		} else if strings.Contains(query, "://") {
			query = ""
		}
		query, _, _ = strings.Cut(query, "#")
	}
	query = strings.TrimPrefix(query, "?")
	var keep []string
	for _, part := range strings.Split(query, "&") {
		// A token is no state, and what one person was let in with is nobody else's.
		if !strings.HasPrefix(part, "token=") && part != "" {
			keep = append(keep, part)
		}
	}
	query = strings.Join(keep, "&")
	_, err = ParseQuery(query)
	return query, err
}
