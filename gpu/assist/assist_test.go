package assist

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const program = `program p<1>(a: *f16, n: i32) warps=1 {
	ga = ViewGlobal(a) : global f16[n, 16]
	x = LoadGlobal(ga, offset=[0, 0]) : register f16[16, 16] local(2, 1).spatial(8, 4).local(1, 4)
}
`

func texts(items []Item) (out []string) {
	for _, x := range items {
		out = append(out, x.Text)
	}
	return out
}

func TestComplete(t *testing.T) {
	for end, want := range map[string]string{
		"LoadGlobal(ga, off":  "offset=",
		"\tx = LoadGl":        "LoadGlobal",
		"offset=[0, 0]) : re": "register",
		".spa":                "spatial",
		"= LoadGlobal(g":      "ga",
		": register f1":       "f16",
	} {
		i := strings.Index(program, end)
		if i < 0 {
			t.Fatalf("%q is not in the program", end)
		}
		items, word := Complete(program[:i+len(end)])
		if got := texts(items); !slices.Contains(got, want) || !strings.HasPrefix(want, word) {
			t.Errorf("behind %q: %v for %q, without %s", end, got, word, want)
		}
	}
	if items, word := CompleteNotation("mma.m16n8k16.f"); len(items) == 0 || word != "mma.m16n8k16.f" {
		t.Errorf("%v for %q", texts(items), word)
	}
}

func TestDescribe(t *testing.T) {
	for word, want := range map[string]string{"LoadGlobal(": "Loads", "offset=": "attribute `offset` of LoadGlobal", "spatial(8": "spatial", "f16[16": "16 bits", "ga = ": "ViewGlobal(a)", "warps": ""} {
		i := strings.Index(program, word)
		if got := Describe(program, i+1); !strings.Contains(got, want) {
			t.Errorf("%s: %q does not say %q", word, got, want)
		}
	}
	if got := Describe("", 5); got != "" {
		t.Errorf("nothing is %q", got)
	}
}

func FuzzAssist(f *testing.F) {
	f.Add(program, 40)
	f.Fuzz(func(t *testing.T, text string, at int) {
		at = min(max(at, 0), len(text))
		Complete(text[:at])
		CompleteNotation(text[:at])
		Describe(text, at)
		DescribeNotation(text, at)
	})
}

// TestGrammar colours words by their tables, with expressions that Go can read too.
func TestGrammar(t *testing.T) {
	var g struct {
		Patterns []struct{ Name, Match string }
	}
	if err := json.Unmarshal(Grammar(), &g); err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]string{"LoadGlobal": "instruction", "f16": "element", "spatial": "layout", "for": "control", "register": "storage", "bf16": "element", "// x": "comment", "12.5": "numeric"} {
		found := ""
		for _, p := range g.Patterns {
			re, err := regexp.Compile(p.Match)
			if err != nil {
				continue // look-ahead, which Go has not
			}
			if m := re.FindString(word); m == word {
				found = p.Name
				break
			}
		}
		if !strings.Contains(found, want) {
			t.Errorf("%s is %q", word, found)
		}
	}
}
