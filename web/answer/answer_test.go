package answer

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/web/pane"
)

func TestCopies(t *testing.T) {
	find := func(all []Copy, name string) Copy {
		for _, c := range all {
			if c.Name == name {
				return c
			}
		}
		return Copy{Error: "missing"}
	}
	for _, c := range []struct{ pane, param, text, form, want string }{
		{"layout", "e", "local(2, 1).column_spatial(4, 8)", "go", "layout.Local(2, 1).ColumnSpatial(4, 8)"},
		{"layout", "e", " spatial(8, 4) ", "text", "x = AllocateRegister() : register f32[8, 4] spatial(8, 4)"},
		{"layout", "e", "local(2, 1).spatial(8, 4).local(1, 2)", "chain", "local(2, 1).spatial(8, 4).local(1, 2)"},
		{"layout", "e", "reduce(spatial(8, 4), dims=[0])", "go", `layout.Parse("replicated(1, num_workers=8).spatial(4)")`},
		{"layout", "e", "$x@s", "go", "layout.Spatial(4)"},
		{"see", "x", "spatial(8, 4)", "go", "layout.Spatial(8, 4)"},
		{"banks", "b", "2", "cute", "Swizzle<2,4,3>"},
		{"banks", "b", "3", "text", ".apply_swizzle(base=3, bits=3, shift=3)"},
		{"banks", "b", "3", "go", "layout.NewSwizzle(3, 4, 3)"},
		{"mma", "i", "mma.m16n8k16.f32.f16", "B.go", "layout.Local(2, 1).ColumnSpatial(4, 8).Local(2, 1)"},
		{"mma", "i", "mma.m16n8k16.f32.f16", "A.chain", "column_local(2, 2).spatial(8, 4).local(1, 2)"},
		{"catalogue", "i", "SM80_16x8x16_F32F16F16F32_TN", "text", "mma.m16n8k16.f32.f16"},
		{"program", "src", "program p<1>() warps=1 {\n}\n", "text", "program p<1>() warps=1 {\n}\n"},
		{"program", "src", "program p<1>() warps=1 {\n}\n", "go", "p, err := lab.Parse(`program p<1>() warps=1 {\n}\n`)"},
	} {
		all, err := Copies(c.pane, pane.Values{c.param: c.text}, func(string) (string, error) { return "spatial(4)", nil })
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := find(all, c.form); got.Text != c.want {
			t.Errorf("%s as %s: %+v, want %s", c.text, c.form, got, c.want)
		}
	}
	// Every way of writing has a text or says why not; CuTe and linear are there.
	all, err := Copies("layout", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if (c.Text == "") == (c.Error == "") || c.Title == "" {
			t.Errorf("%+v", c)
		}
	}
	for _, name := range []string{"cute", "linear"} {
		if find(all, name).Text == "" {
			t.Errorf("the start layout has no form %s", name)
		}
	}
	for _, p := range pane.All() {
		if _, err := Copies(p.Name, nil, nil); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	if _, err := Copies("layout", pane.Values{"e": "locl(2)"}, nil); err == nil {
		t.Error("a wrong layout has copies")
	}
}

// A shared page holds its state and picture, and runs nothing but its own script.
func TestSharedPage(t *testing.T) {
	const query = "v=1&p=layout&e=spatial(8,+4).local(1,+2)&name=threads&as=html"
	f, err := Picture(query)
	if err != nil {
		t.Fatal(err)
	}
	text := string(f.Data)
	if f.Name != "layout.html" || !strings.HasPrefix(f.MIME, "text/html") || strings.Count(text, "<svg") != 1 || strings.Contains(text, "<?xml") {
		t.Fatalf("%s %s: %.200s", f.Name, f.MIME, text)
	}
	if got, err := State(text); err != nil || got != query {
		t.Errorf("the page's state is %q, %v", got, err)
	}
	for _, want := range []string{"default-src &#39;none&#39;", "script-src &#39;sha256-", "<title>", `id="stage"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if n := strings.Count(text, "<script"); n != 2 || regexp.MustCompile(`(src|href)="`).MatchString(text) || regexp.MustCompile(`\son\w+=`).MatchString(text) {
		t.Errorf("%d scripts, or something from elsewhere", n)
	}
	// Text of a program cannot leave the place that it stands in.
	evil := "v=1&p=program&src=" + strings.ReplaceAll("//+</script><script>alert(1)</script>%0A"+strings.ReplaceAll(pane.StartProgram, "\n", "%0A"), " ", "+") + "&as=html"
	f, err = Picture(evil)
	if err != nil {
		t.Fatal("the pane refuses such a program: ", err)
	}
	if strings.Contains(string(f.Data), "<script>alert") {
		t.Error("a program's text became a script")
	}
}

func TestState(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:7717/?v=1&p=layout&e=local(2)":                   "v=1&p=layout&e=local(2)",
		"https://hub.example/user/a/proxy/7717/?token=abc&v=1&p=banks#run": "v=1&p=banks",
		"?v=1&p=volta":                      "v=1&p=volta",
		"v=1&p=volta":                       "v=1&p=volta",
		` {"v": 1, "query": "v=1&p=banks"}`: "v=1&p=banks",
	} {
		if got, err := State(text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"nothing", "slides/banks.html", "{}", "{", "<html></html>", "v=0", "v=1&p=%zz", `{"query": 5}`, `{"query":"v=1&p=` + strings.Repeat("x", MaxQuery) + `"}`} {
		if got, err := State(text); err == nil {
			t.Errorf("%.40q: %q", text, got)
		}
	}
}

// Without a server the same answers come, and what is not there says so.
func TestOffline(t *testing.T) {
	ask := func(text string) Message {
		var m Message
		if err := json.Unmarshal(Offline([]byte(text)), &m); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return m
	}
	if m := ask(`{"v":1,"id":7,"type":"hello"}`); m.ID != 7 || m.Type != "ok" || !strings.Contains(string(m.Body), `"offline":true`) || !strings.Contains(string(m.Body), `"name":"volta"`) {
		t.Errorf("hello: %s %.200s", m.Type, m.Body)
	}
	r, err := Run("layout", pane.Values{"e": "spatial(8, 4)"})
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(Result(r)) // compacted, as the message is
	if err != nil {
		t.Fatal(err)
	}
	if m := ask(`{"v":1,"id":8,"type":"render","body":{"pane":"layout","values":{"e":"spatial(8, 4)"}}}`); m.Type != "ok" || string(m.Body) != string(want) {
		t.Errorf("render: %s %.200s", m.Type, m.Body)
	}
	for _, q := range []string{"palette", "devices"} {
		if m := ask(`{"v":1,"id":9,"type":"` + q + `"}`); m.Type != "ok" {
			t.Errorf("%s: %s %s", q, m.Type, m.Body)
		}
	}
	for text, want := range map[string]string{
		`{"v":1,"id":1,"type":"run","body":{}}`:                                            "tilus-lab up",
		`{"v":1,"id":1,"type":"nb.open","body":{}}`:                                        "tilus-lab up",
		`{"v":1,"id":1,"type":"render","body":{"pane":"layout","values":{"e":"$x@s"}}}`:    "notebooks",
		`{"v":1,"id":1,"type":"render","body":{"pane":"layout","values":{"e":"locl(2)"}}}`: `"param":"e"`,
		"[": "message must be JSON",
	} {
		if m := ask(text); m.Type != "error" || !strings.Contains(string(m.Body), want) {
			t.Errorf("%s: %s %s", text, m.Type, m.Body)
		}
	}
}

// A pane that panics is one error.
func TestPanic(t *testing.T) {
	err := error(&Panic{Pane: "layout", Value: "index out of range", Stack: "secret"})
	if p := Problems(err); len(p) != 1 || !strings.Contains(p[0].Msg, "mistake of Tilus Lab") || strings.Contains(p[0].Msg, "secret") {
		t.Errorf("%+v", p)
	}
}

func TestAppendString(t *testing.T) {
	for _, s := range []string{"", "plain", `<svg a="b">&amp;</svg>`, "a\\b\"c\n\t\r\x00\x1f\x7f", "größer → 𝄞", "\u2028\u2029", "bad \xff\xfe utf8 \xe2\x82"} {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var a, b string
		if err := json.Unmarshal(AppendString(nil, s), &a); err != nil {
			t.Errorf("%q: %v", s, err)
		}
		if err := json.Unmarshal(want, &b); err != nil || a != b {
			t.Errorf("%q is read as %q, not %q", s, a, b)
		}
	}
}
