package conform

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/part"
)

// findComputation is the computation of that name, or the entry.
func findComputation(m *hlo.Module, name string) (*hlo.Computation, error) {
	if name == "" {
		return m.Entry, nil
	}
	if c := m.Find(name); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("there is no computation %s", name)
}

func instructionNames(list []*hlo.Instruction) []string {
	names := []string{}
	for _, in := range list {
		names = append(names, in.Name)
	}
	return names
}

// fusedBody is the computation of an entry that is one fusion, else the entry.
func fusedBody(m *hlo.Module) *hlo.Computation {
	if r := m.Entry.Root; r.Op == hlo.Fusion && r.Apply != nil {
		return r.Apply
	}
	return m.Entry
}

func partKinds() []Kind {
	return []Kind{
		fusionKind("partition", "the functions into which a computation is split", func(in fusionInput, m *hlo.Module) (map[string]any, error) {
			c, err := findComputation(m, in.Computation)
			if err != nil {
				return nil, err
			}
			var forced []*hlo.Instruction
			for _, i := range c.Instructions {
				if slices.Contains(in.ForcedOps, i.Op.String()) {
					forced = append(forced, i)
				}
			}
			p := part.Split(c, forced...)
			list := []map[string]any{}
			for _, q := range p.Parts {
				item := map[string]any{"roots": instructionNames(q.Roots), "instructions": instructionNames(q.Instructions), "no_compute": q.NoCompute}
				if last := q.Instructions[len(q.Instructions)-1]; last.Op == hlo.Tuple {
					item["tuple"] = last.Name
				}
				list = append(list, item)
			}
			return map[string]any{"num_subgraphs": len(list), "subgraphs": list}, nil
		}, sameParts),
		fusionKind("epilogue_map", "from an index of a hero to that of the root", func(in fusionInput, m *hlo.Module) (map[string]any, error) {
			c := fusedBody(m)
			hero, root := c.Find(in.Hero), c.Find(in.Root)
			if hero == nil || root == nil {
				return nil, fmt.Errorf("there is no %s or no %s in %s", in.Hero, in.Root, c.Name)
			}
			return map[string]any{"map": part.EpilogueMap(c, hero, root).String()}, nil
		}, sameMapTexts),
		{"function_signature", "the parameters and results of the function of a part", checkSignature},
	}
}

// sameMapTexts compares maps as texts after both have been read by us.
func sameMapTexts(_ string, got, want any) bool {
	return canonicalMap(fmt.Sprint(got)) == canonicalMap(fmt.Sprint(want))
}

// sameParts compares parts as sets: neither their order nor that of their
// instructions matters. Theirs calls a tuple at the end of a part its root, ours what
// stands in the tuple; both are taken.
func sameParts(key string, got, want any) bool {
	if key != "subgraphs" {
		return false
	}
	tuples := map[any]bool{} // the only roots of a part that is wanted
	texts := func(v any) []string {
		list, _ := v.([]any)
		var out []string
		for _, item := range list {
			q, _ := item.(map[string]any)
			if tuple := q["tuple"]; tuple != nil {
				delete(q, "tuple")
				if tuples[tuple] {
					q["roots"] = []any{tuple}
				}
			}
			if roots, ok := q["roots"].([]any); ok && len(roots) == 1 {
				tuples[roots[0]] = true
			}
			for key, v := range q {
				if names, ok := v.([]any); ok {
					slices.SortFunc(names, func(a, b any) int { return compareStrings(fmt.Sprint(a), fmt.Sprint(b)) })
					q[key] = names
				}
			}
			raw, _ := json.Marshal(q)
			out = append(out, string(raw))
		}
		slices.Sort(out)
		return out
	}
	wanted := texts(want)
	return slices.Equal(texts(got), wanted)
}

func compareStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func checkSignature(input, expect json.RawMessage) (string, error) {
	var in struct {
		HLO         string `json:"hlo"`
		Computation string
		Function    string
		Heroes      []string
		Roots       []string
		Hero        string
		IndexRanges []int64 `json:"index_ranges"`
	}
	if err := exactJSON("input", input, &in); err != nil {
		return "", err
	}
	m, err := hlo.Parse("hlo", in.HLO)
	if err != nil {
		return "", err
	}
	c, err := findComputation(m, in.Computation)
	if err != nil {
		return "", err
	}
	if in.Hero != "" {
		in.Heroes = append(in.Heroes, in.Hero)
	}
	var q *part.Part
	switch {
	case in.Function == "epilogue":
		find := func(names []string) (out []*hlo.Instruction, err error) {
			for _, n := range names {
				i := c.Find(n)
				if i == nil {
					return nil, fmt.Errorf("there is no %s in %s", n, c.Name)
				}
				out = append(out, i)
			}
			return out, nil
		}
		heroes, err := find(in.Heroes)
		if err != nil {
			return "", err
		}
		roots, err := find(in.Roots)
		if err != nil {
			return "", err
		}
		if len(roots) == 0 {
			roots = c.Roots()
		}
		var ranges []affine.Range
		for _, n := range in.IndexRanges {
			ranges = append(ranges, affine.Range{Lo: 0, Hi: n - 1})
		}
		q = part.Epilogue(c, heroes, roots, ranges, nil)
	case in.Function == "root":
		q = part.Split(c).Parts[0]
	default:
		for _, p := range part.Split(c).Parts {
			if p.Name == in.Function || slices.Contains(instructionNames(p.Roots), in.Function) {
				q = p
			}
		}
		if q == nil {
			return "", fmt.Errorf("there is no function %q of %s", in.Function, c.Name)
		}
	}
	s := part.SignatureOf(m, c, q)
	return "", compare(map[string]any{"name": s.Name, "params": s.Params, "results": s.Results}, expect, nil)
}
