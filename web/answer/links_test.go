package answer

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/web/pane"
)

var update = flag.Bool("update", false, "write testdata/links.txt anew")

// says is a hash of what a link shows: each pane's pictures by name, with the
// labels, threads, slots and places of their elements. How they are painted may
// change; what an old link means may not.
func says(query string) (string, error) {
	views, err := ParseQuery(query)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, v := range views {
		r, err := Run(v.Pane, v.Values)
		if err != nil {
			return "", err
		}
		if len(r.Pictures) == 0 {
			io.WriteString(h, v.Pane+"\n"+r.Sentence+r.Text)
			continue
		}
		p := r.Pictures[0]
		io.WriteString(h, v.Pane+"\n"+p.Name+"\n")
		if grows[v.Pane] {
			continue
		}
		for _, e := range p.IDs {
			fmt.Fprintln(h, e.ID, e.Label, e.Thread, e.Slot, e.At)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// An address tells its own names from those of values by where they stand, so no
// value may have one of these names.
func TestNamesOfValues(t *testing.T) {
	for _, p := range pane.All() {
		for _, param := range p.Params {
			switch param.Name {
			case "p", "name", "as", "embed", "token":
				t.Errorf("pane %s has a parameter %s, which addresses use for themselves", p.Name, param.Name)
			}
			if strings.HasPrefix(param.Name, "_") {
				t.Errorf("pane %s has a parameter %s; such names are the page's", p.Name, param.Name)
			}
		}
	}
}

// grows are panes of records and documentation, which say more with every day.
var grows = map[string]bool{"bench": true, "status": true, "manual": true}

// Links of every version and pane show today what they have shown. A line of the
// corpus is the hash and the query; lines are added, and changed only where what
// they show was wrong. "refused" stands for links that must not open.
func TestOldLinks(t *testing.T) {
	raw, err := os.ReadFile("testdata/links.txt")
	if err != nil {
		t.Fatal(err)
	}
	panes := map[string]bool{}
	var b strings.Builder
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		want, query, ok := strings.Cut(line, " ")
		if strings.HasPrefix(line, "#") || !ok {
			b.WriteString(line + "\n")
			continue
		}
		got, err := says(query)
		if err != nil {
			got = "refused"
		}
		if got != want && !*update {
			t.Errorf("%s: shows %s, not %s any more (%v)", query, got, want, err)
		}
		if *update && want == "refused" && got != want {
			t.Errorf("%s: is not refused any more", query)
			got = want
		}
		b.WriteString(got + " " + query + "\n")
		if views, err := ParseQuery(query); err == nil && got != "refused" {
			for _, v := range views {
				panes[v.Pane] = true
			}
		}
	}
	for _, p := range pane.All() {
		if !panes[p.Name] {
			t.Errorf("no link of pane %s is in testdata/links.txt; add one", p.Name)
		}
	}
	if *update {
		if err := os.WriteFile("testdata/links.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
