package arch

import (
	"fmt"
	"slices"
	"strings"
)

// Query looks for instructions: all words stand in their names, types or first
// architecture. Vendor and Family are ones of the catalogue, or "" for any.
type Query struct {
	Words          string
	Vendor, Family string
}

// Count is how many instructions have a value.
type Count struct {
	Value string
	N     int
}

// Facet is what one choice can still be, given the others.
type Facet struct {
	Name   string // "vendor", "family", "since" or "type"
	Values []Count
}

// Search lists the instructions that a query finds, in the order of the catalogue.
func Search(q Query) []Atom {
	var found []Atom
	words := strings.Fields(strings.ToLower(q.Words))
	for _, a := range Atoms() {
		if q.Vendor != "" && a.Vendor != q.Vendor || q.Family != "" && a.Family != q.Family {
			continue
		}
		text := describe(a)
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			found = append(found, a)
		}
	}
	return found
}

// Facets are the values that each choice has under the others; those that would find
// nothing are left out.
func Facets(q Query) []Facet {
	count := func(name string, q Query, values func(a Atom) []string) Facet {
		f := Facet{Name: name}
		at := map[string]int{}
		for _, a := range Search(q) {
			for _, v := range values(a) {
				i, ok := at[v]
				if !ok {
					i = len(f.Values)
					at[v] = i
					f.Values = append(f.Values, Count{Value: v})
				}
				f.Values[i].N++
			}
		}
		slices.SortStableFunc(f.Values, func(a, b Count) int { return b.N - a.N })
		return f
	}
	anyVendor, anyFamily := q, q
	anyVendor.Vendor, anyFamily.Family = "", ""
	return []Facet{
		count("vendor", anyVendor, func(a Atom) []string { return []string{a.Vendor} }),
		count("family", anyFamily, func(a Atom) []string { return []string{a.Family} }),
		count("since", q, func(a Atom) []string { return []string{a.Since} }),
		count("type", q, func(a Atom) []string {
			var types []string
			for _, o := range a.Operands {
				if t := o.Type.String(); o.Type != 0 && !slices.Contains(types, t) {
					types = append(types, t)
				}
			}
			return types
		}),
	}
}

// describe is what a search looks through.
func describe(a Atom) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s %s m%dn%dk%d", strings.Join(a.Names(), " "), a.Vendor, a.Family, a.Since, a.M, a.N, a.K)
	for _, o := range a.Operands {
		b.WriteString(" " + o.Type.String())
	}
	return strings.ToLower(b.String())
}
