package facts_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/web/facts"
)

var update = flag.Bool("update", false, "rewrite cases.txt")

// TestCases holds cases.txt against the recorded facts and the catalogue.
func TestCases(t *testing.T) {
	byName := map[string][]string{}
	holders := map[string]string{} // whose layouts an atom of CuTe has
	for _, file := range []string{"cute.json", "amd.json"} {
		raw, err := os.ReadFile(filepath.Join(need.Root(t), "tests", "testdata", "cases", file))
		if err != nil {
			t.Fatal(err)
		}
		type fact struct {
			Name   string
			Expect json.RawMessage
		}
		var list []fact
		var doc struct{ Cases []fact }
		if err := json.Unmarshal(raw, &list); err != nil {
			if err := json.Unmarshal(raw, &doc); err != nil {
				t.Fatal(err)
			}
			list = doc.Cases
		}
		for _, c := range list {
			parts := strings.Split(c.Name, "/")
			switch {
			case c.Name == "catalog/mma_atoms":
				// All products of CuTe: shape, types, and whose layouts each has.
				var e struct{ Atoms map[string][]any }
				if err := json.Unmarshal(c.Expect, &e); err != nil {
					t.Fatal(err)
				}
				for name, row := range e.Atoms {
					byName[name] = append(byName[name], file+" "+c.Name)
					if of, ok := row[len(row)-1].(string); ok && of != name {
						holders[name] = of
					}
				}
			case file == "cute.json" && (parts[0] == "mma_atom" || parts[0] == "copy_atom"):
				byName[parts[1]] = append(byName[parts[1]], file+" "+c.Name)
			case file == "amd.json" && parts[0] == "layout" && len(parts) > 2:
				// Of the operands of an instruction on one generation, the first stands for all.
				name := strings.ToLower(parts[1]) + "/" + parts[2]
				if byName[name] == nil {
					byName[name] = []string{file + " " + c.Name}
				}
			}
		}
	}
	var b strings.Builder
	used := map[string]bool{}
	for _, a := range arch.Atoms() {
		var list []string
		names := append([]string{a.Name}, a.Names()...)
		for _, n := range names {
			if of := holders[n]; of != "" && !slices.Contains(names, of) {
				names = append(names, of)
			}
		}
		for _, n := range names {
			for _, c := range byName[n] {
				if !slices.Contains(list, c) {
					list = append(list, c)
				}
				used[n] = true
			}
		}
		if list != nil {
			b.WriteString(a.Name + "\t" + strings.Join(list, "\t") + "\n")
		}
	}
	for n, c := range byName {
		if !used[n] {
			t.Logf("no instruction is checked by %s (%s)", c[0], n)
		}
	}
	if *update {
		if err := os.WriteFile("cases.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile("cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Error("cases.txt is out of date; rewrite it with go test ./web/facts -update")
	}
	if c := facts.CasesOf("mma.m16n8k16.f32.f16"); len(c) == 0 || !strings.HasPrefix(c[0], "cute.json ") {
		t.Errorf("mma.m16n8k16.f32.f16 is checked by %v", c)
	}
}
