package answer

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAssist(t *testing.T) {
	for _, c := range []struct {
		about    string
		q        Assist
		describe bool
		want     string // part of the answer's JSON
		not      string
	}{
		{"an instruction", Assist{"program", "x = LoadGl", ""}, false, `"text":"LoadGlobal"`, "StoreGlobal"},
		{"the word that goes", Assist{"program", "x = LoadGl", ""}, false, `"word":"LoadGl"`, ""},
		{"a factor", Assist{"layout", "local(2, 1).sp", ""}, false, `"text":"spatial"`, ""},
		{"the manual", Assist{"program", "x = Load", "Global(a)"}, true, "LoadGlobal", ""},
		{"a factor's meaning", Assist{"layout", "local(2, 1).spatial", "(8, 4)"}, true, "spatial", ""},
		{"nothing", Assist{"program", "zzz", ""}, true, `"html":""`, ""},
	} {
		f := c.q.Complete
		if c.describe {
			f = c.q.Describe
		}
		got, err := f()
		raw, _ := json.Marshal(got)
		if err != nil || !strings.Contains(string(raw), c.want) || c.not != "" && strings.Contains(string(raw), c.not) {
			t.Errorf("%s: %.300s, %v", c.about, raw, err)
		}
	}
	if _, err := (Assist{Kind: "song"}).Complete(); err == nil {
		t.Error("a kind that there is not is answered")
	}
	html, err := Markdown("a <script>x</script> [b](javascript:c) `d`")
	if err != nil || strings.Contains(html, "<script") || strings.Contains(html, "javascript") || !strings.Contains(html, "<code>d</code>") {
		t.Errorf("Markdown gives %q, %v", html, err)
	}
}
