package conform

import (
	"slices"
	"strings"
	"testing"
)

// TestBrokenFusionCasesFail: each recorded answer about fusions fails when it is another.
func TestBrokenFusionCasesFail(t *testing.T) {
	kinds := []string{"indexing_output_to_input", "indexing_input_to_output", "partition", "function_signature", "epilogue_map",
		"thread_map", "emitter_facts", "reduction_split", "vectorise_decision"}
	n := map[string]int{}
	for _, c := range load(t, "xla.json") {
		if !slices.Contains(kinds, c.Kind) {
			continue
		}
		if r := Check(c); r.Outcome != Passed {
			t.Errorf("%s: %s %s", c.Name, r.Outcome, r.Note)
			continue
		}
		if c.Kind == "thread_map" && n[c.Kind] > 12 {
			continue // each copy enumerates tensors
		}
		n[c.Kind] += brokenCopies(t, c, func(key string, v any) (any, bool) { return spoilFusion(c.Kind, key, v) })
	}
	for _, k := range kinds {
		if n[k] == 0 {
			t.Errorf("no broken copy of kind %s", k)
		}
	}
}

// spoilFusion is another answer than v, where one is sure to be wrong.
func spoilFusion(kind, key string, v any) (any, bool) {
	switch v := v.(type) {
	case bool:
		return !v, true
	case float64:
		return v + 1, true
	case string:
		if strings.Contains(v, "-> (") {
			return strings.Replace(v, "-> (", "-> (1 + ", 1), true
		}
		return v + "x", true
	case []any:
		switch {
		case key == "bijective" || key == "absent" || key == "operand_loops":
			return nil, false
		case len(v) == 0:
			return []any{7}, true
		}
		switch first := v[0].(type) {
		case float64:
			return append([]any{first + 1}, v[1:]...), true
		case string:
			return append([]any{first + "x"}, v[1:]...), true
		case map[string]any:
			for _, name := range []string{"maps", "instructions"} {
				if list, ok := first[name].([]any); ok && len(list) > 0 {
					first[name] = list[:len(list)-1]
					return v, true
				}
			}
		}
	}
	return nil, false
}

// TestUnknownFusionKeyFails: what cannot be checked is not passed over.
func TestUnknownFusionKeyFails(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range load(t, "xla.json") {
		if seen[c.Kind] || strings.HasPrefix(c.Kind, "simplify") {
			continue
		}
		seen[c.Kind] = true
		c.Expect = []byte(strings.Replace(string(c.Expect), "{", `{"colour": "blue", `, 1))
		if r := Check(c); r.Outcome != Failed {
			t.Errorf("%s with an unknown answer: %s", c.Name, r.Outcome)
		}
	}
}
