package arch

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Every value that a facet offers finds as many instructions as it says.
func TestFacets(t *testing.T) {
	for _, q := range []Query{{}, {Words: "m16n8 f16"}, {Words: "f16", Vendor: "amd"}, {Family: "wgmma"}, {Words: "nosuch"}} {
		all := len(Search(q))
		for _, f := range Facets(q) {
			sum := 0
			for _, v := range f.Values {
				sum += v.N
				with := q
				switch f.Name {
				case "vendor":
					with.Vendor = v.Value
				case "family":
					with.Family = v.Value
				default:
					continue
				}
				if n := len(Search(with)); n != v.N || n == 0 {
					t.Errorf("%v: %s %s is said to have %d instructions, it has %d", q, f.Name, v.Value, v.N, n)
				}
			}
			if f.Name == "since" && sum != all {
				t.Errorf("%v: %d instructions, by their age %d", q, all, sum)
			}
		}
	}
	if found := Search(Query{Words: "M16N8K16 f32.f16 nvidia"}); len(found) == 0 || !slices.ContainsFunc(found, func(a Atom) bool { return a.Name == "mma.m16n8k16.f32.f16" }) {
		t.Error("mma.m16n8k16.f32.f16 is not found by its words")
	}
}

// The tests that are named are tests of this package.
func TestOracleTests(t *testing.T) {
	source := ""
	for _, name := range []string{"nvidia_test.go", "catalog_test.go", "amd_oracle_test.go"} {
		source += read(t, name)
	}
	for _, a := range Atoms() {
		for _, name := range a.OracleTests() {
			if !strings.Contains(source, "func "+name+"(t *testing.T)") {
				t.Fatalf("%s: there is no %s", a.Name, name)
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
