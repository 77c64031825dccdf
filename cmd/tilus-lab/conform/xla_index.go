package conform

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

// fusionInput is what cases about fusions give.
type fusionInput struct {
	HLO         string `json:"hlo"`
	OutputID    int    `json:"output_id"`
	InputID     int    `json:"input_id"`
	Layout      string
	Simplify    bool
	Hero, Root  string
	Computation string
	ForcedOps   []string `json:"forced_root_ops"`
	Function    string
	Device      string
}

// fusionKind is an adapter that reads a fusion. Keys in notes say what upstream got
// wrong; they are passed on and not compared.
func fusionKind(name, doc string, answer func(in fusionInput, m *hlo.Module) (map[string]any, error), same func(key string, got, want any) bool) Kind {
	return Kind{name, doc, func(input, expect json.RawMessage) (string, error) {
		var in fusionInput
		if err := exactJSON("input", input, &in); err != nil {
			return "", err
		}
		m, err := hlo.Parse("hlo", in.HLO)
		if err != nil {
			return "", err
		}
		got, err := answer(in, m)
		if err != nil {
			return "", err
		}
		rest, note := withoutUpstream(expect)
		return note, compare(got, rest, same)
	}}
}

// withoutUpstream takes the recorded mistakes of theirs out of what is expected.
func withoutUpstream(expect json.RawMessage) (json.RawMessage, string) {
	var all map[string]json.RawMessage
	if json.Unmarshal(expect, &all) != nil {
		return expect, ""
	}
	note := ""
	for _, key := range []string{"upstream_map", "upstream_rt_vars"} {
		if v, ok := all[key]; ok {
			note = "upstream says " + short(v)
			delete(all, key)
		}
	}
	rest, err := json.Marshal(all)
	if err != nil {
		return expect, ""
	}
	return rest, note
}

func indexKinds() []Kind {
	return []Kind{
		fusionKind("indexing_output_to_input", "the elements of operands that an element of an output is computed from", func(in fusionInput, m *hlo.Module) (map[string]any, error) {
			root := m.Entry.Root
			if n := len(root.Shape.Outputs()); in.OutputID < 0 || in.OutputID >= n {
				return nil, fmt.Errorf("there is no output %d of %d", in.OutputID, n)
			}
			list := []map[string]any{}
			for k, set := range index.OutputToInput(root, in.OutputID) {
				if in.Layout == "physical" {
					set = index.Physical(set, root.Shape.Outputs()[in.OutputID], root.Operands[k].Shape)
				}
				list = append(list, setAnswer("operand", k, set, in.Simplify))
			}
			return map[string]any{"operands": list}, nil
		}, sameSets),
		fusionKind("indexing_input_to_output", "the elements of outputs that depend on an element of an input", func(in fusionInput, m *hlo.Module) (map[string]any, error) {
			root := m.Entry.Root
			if n := len(root.Operands); in.InputID < 0 || in.InputID >= n {
				return nil, fmt.Errorf("there is no input %d of %d", in.InputID, n)
			}
			var outputs, operands []map[string]any
			for k, set := range index.InputToOutput(root, in.InputID) {
				if in.Layout == "physical" {
					set = index.Physical(set, root.Operands[in.InputID].Shape, root.Shape.Outputs()[k])
				}
				outputs = append(outputs, setAnswer("output", k, set, in.Simplify))
			}
			for k, set := range index.InputToOutput(root, in.InputID) { // some cases call the outputs operands
				operands = append(operands, setAnswer("operand", k, set, in.Simplify))
			}
			return map[string]any{"outputs": outputs, "operands": operands}, nil
		}, sameSets),
	}
}

// setAnswer is one operand or output with its maps, in our text.
func setAnswer(label string, k int, set []index.Indexing, simplify bool) map[string]any {
	texts, unclamped := []string{}, []string{}
	runtime := []map[string]any{}
	for _, x := range set {
		if simplify {
			x = x.Simplify()
		}
		text := x.Map.String()
		if x.Map.Undefined() {
			text = "UNKNOWN"
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
		unclamped = append(unclamped, x.Unclamped().Map.String())
		for i, r := range x.Runtime {
			source, value := r.Source.Name, ""
			if r.Source.Op == hlo.Parameter {
				source = fmt.Sprintf("parameter(%d)", r.Source.Number)
			}
			if r.Source.Op == hlo.Constant && r.Source.Value != nil && len(r.Source.Shape.Dims) == 0 && r.Source.Shape.Type.IsInt() {
				value = fmt.Sprintf("constant(%d)", r.Source.Shape.Type.Elem().DecodeInt(r.Source.Value.Code(0)))
			}
			runtime = append(runtime, map[string]any{"var": fmt.Sprintf("rt%d", i), "source": source, "value": value, "map": r.At.Map.String()})
		}
	}
	out := map[string]any{label: k, "maps": texts, "unclamped": unclamped}
	out["rt_vars"] = runtime
	return out
}

// canonicalMap is the text of a map as we write it; what is no map stays.
func canonicalMap(text string) string {
	if m, err := affine.ParseMap(text); err == nil {
		return m.String()
	}
	return text
}

// placeMap is the text of a map without the symbols that it does not need.
func placeMap(text string) string {
	m, err := affine.ParseMap(text)
	if err != nil {
		return text
	}
	m, _ = m.Simplify(true)
	return m.RemoveUnusedSymbols().String()
}

// sameSets compares operands and outputs: their maps as sets. Theirs takes a start that an
// iota gives for what it is, also where it is out of range and clamped when the program
// runs. Where a start is read does not depend on symbols that the map does not use.
func sameSets(_ string, got, want any) bool {
	g, ok := got.([]any)
	w, ok2 := want.([]any)
	if !ok || !ok2 || len(g) != len(w) {
		return false
	}
	strings := func(v any) []string {
		var out []string
		list, _ := v.([]any)
		for _, s := range list {
			out = append(out, canonicalMap(fmt.Sprint(s)))
		}
		slices.Sort(out)
		return out
	}
	for i := range w {
		a, _ := g[i].(map[string]any)
		b, _ := w[i].(map[string]any)
		for key, want := range b {
			switch key {
			case "maps":
				if !slices.Equal(strings(a[key]), strings(want)) && !slices.Equal(strings(a["unclamped"]), strings(want)) {
					return false
				}
			case "rt_vars":
				x, _ := a[key].([]any)
				y, _ := want.([]any)
				if len(x) != len(y) {
					return false
				}
				for j := range y {
					p, _ := x[j].(map[string]any)
					q, _ := y[j].(map[string]any)
					for k, v := range q {
						switch {
						case k == "map" && placeMap(fmt.Sprint(p[k])) == placeMap(fmt.Sprint(v)):
						case k == "source" && v == p["value"]:
						case fmt.Sprint(p[k]) != fmt.Sprint(v):
							return false
						}
					}
				}
			case "upstream_rt_vars":
			default:
				if fmt.Sprint(a[key]) != fmt.Sprint(want) {
					return false
				}
			}
		}
	}
	return true
}
