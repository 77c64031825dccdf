// Package conform checks Tilus Lab against conformance cases: facts recorded
// from independent implementations, each a JSON object
//
//	{"name": …, "kind": …, "input": {…}, "expect": {…}, "source": …}
//
// A file is a list of such cases (the kind may stand in the input), or an object
// of lists of facts about element types. For each kind there is an adapter, a
// row of [Kinds], that asks our packages the question of the input and compares
// the answer with what is expected, key by key. A kind without an adapter is
// reported by its name and never counts as passed.
package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Limits of one case file.
const (
	MaxBytes = 64 << 20
	MaxCases = 1 << 20
)

// Case is one question with its recorded answer.
type Case struct {
	File   string
	Name   string
	Kind   string
	Input  json.RawMessage
	Expect json.RawMessage
}

// Outcome says what became of a case.
type Outcome uint8

// The outcomes. Skipped is a case whose kind has no adapter.
const (
	Passed Outcome = iota
	Failed
	Skipped
)

func (o Outcome) String() string { return [...]string{"pass", "FAIL", "skip"}[o] }

// Result is the outcome of one case. Note says why it failed or was skipped, or
// where a passed case records a defect that we do not share.
type Result struct {
	Case    Case
	Outcome Outcome
	Note    string
}

// Kind is one adapter.
type Kind struct {
	Name string
	Doc  string
	// check answers the input and compares; a failed comparison is an error. The
	// note is empty or names a recorded defect that the case expects.
	check func(input, expect json.RawMessage) (note string, err error)
}

// Kinds lists what can be checked, by name.
func Kinds() []Kind {
	all := slices.Concat(layoutKinds(), dtypeKinds(), amdKinds(), bankKinds(), cuteKinds(), renderKinds(), affineKinds(), f2Kinds(), mmaKinds(), voltaKinds(), dispatchKinds(), indexKinds(), partKinds(), fusionPlanKinds())
	slices.SortFunc(all, func(a, b Kind) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Read reads a case file; name stands in messages. It reads at most [MaxBytes].
func Read(name string, r io.Reader) ([]Case, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("conform: %s: %w", name, err)
	}
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("conform: %s: more than %d MiB", name, MaxBytes>>20)
	}
	var cases []Case
	if bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("[")) {
		var list []json.RawMessage
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, fmt.Errorf("conform: %s: no list of cases: %w", name, err)
		}
		for i, raw := range list {
			c, err := readCase(raw)
			if err != nil {
				return nil, fmt.Errorf("conform: %s: case %d: %w", name, i+1, err)
			}
			cases = append(cases, c)
		}
	} else {
		var tables map[string]json.RawMessage
		if err := json.Unmarshal(text, &tables); err != nil {
			return nil, fmt.Errorf("conform: %s: neither a list of cases nor an object of fact lists: %w", name, err)
		}
		cases = readTables(tables)
	}
	switch {
	case len(cases) == 0:
		return nil, fmt.Errorf("conform: %s: holds no cases", name)
	case len(cases) > MaxCases:
		return nil, fmt.Errorf("conform: %s: more than %d cases", name, MaxCases)
	}
	for i := range cases {
		cases[i].File = name
		if cases[i].Name == "" {
			cases[i].Name = fmt.Sprintf("#%d", i+1)
		}
	}
	return cases, nil
}

func readCase(raw json.RawMessage) (Case, error) {
	var c struct {
		Name   string
		Kind   string
		Input  json.RawMessage
		Expect json.RawMessage
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return Case{}, err
	}
	if len(c.Input) == 0 || len(c.Expect) == 0 {
		return Case{}, fmt.Errorf("%q has no input or no expect", c.Name)
	}
	if c.Kind == "" {
		// Some recordings name the kind inside the input, as kind, operation or query.
		var in struct{ Kind, Op, Query string }
		if json.Unmarshal(c.Input, &in) == nil {
			switch {
			case in.Kind != "":
				c.Kind = in.Kind
			case in.Op != "":
				c.Kind = "op:" + in.Op
			case in.Query != "":
				c.Kind = "query:" + in.Query
			}
		}
	}
	return Case{Name: c.Name, Kind: c.Kind, Input: c.Input, Expect: c.Expect}, nil
}

// readTables turns {"floats": [fact, …], …} into one case a fact, whose kind is
// the list's name. Members that are no lists are comments.
func readTables(tables map[string]json.RawMessage) []Case {
	var cases []Case
	for _, key := range slices.Sorted(maps.Keys(tables)) {
		var facts []json.RawMessage
		if json.Unmarshal(tables[key], &facts) != nil {
			continue
		}
		for i, raw := range facts {
			var named struct{ Name string }
			_ = json.Unmarshal(raw, &named) // a fact need not have a name
			if named.Name == "" {
				named.Name = fmt.Sprintf("%s/%d", key, i+1)
			} else {
				named.Name = key + "/" + named.Name
			}
			cases = append(cases, Case{Name: named.Name, Kind: key, Input: raw, Expect: raw})
		}
	}
	return cases
}

// Check runs one case.
func Check(c Case) Result { return check(kindsByName(), c) }

func kindsByName() map[string]Kind {
	out := map[string]Kind{}
	for _, k := range Kinds() {
		out[k.Name] = k
	}
	return out
}

func check(kinds map[string]Kind, c Case) (r Result) {
	r = Result{Case: c, Outcome: Skipped}
	k, ok := kinds[c.Kind]
	if !ok {
		r.Note = fmt.Sprintf("unknown kind %q", c.Kind)
		if c.Kind == "" {
			r.Note = "the case names no kind"
		}
		return r
	}
	// A case is somebody's file: what our packages take for a broken invariant
	// must fail this case and leave the others.
	defer func() {
		if p := recover(); p != nil {
			r.Outcome, r.Note = Failed, fmt.Sprintf("panic: %v", p)
		}
	}()
	note, err := k.check(c.Input, c.Expect)
	r.Outcome, r.Note = Passed, note
	if err != nil {
		r.Outcome, r.Note = Failed, err.Error()
	}
	return r
}

// Summary counts the outcomes of a run.
type Summary struct {
	Passed, Failed, Skipped int
	Unknown                 map[string]int // kinds without adapter and how many cases they have
}

// OK reports that every case was checked and passed.
func (s Summary) OK() bool { return s.Failed == 0 && s.Skipped == 0 }

func (s Summary) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", s.Passed, s.Failed, s.Skipped)
}

// Run checks cases in order and writes to w one line for each that failed or
// that notes a defect upstream, then the unknown kinds, then the counts as the
// closing line. With verbose every case gets a line.
func Run(w io.Writer, cases []Case, verbose bool) (Summary, error) {
	s := Summary{Unknown: map[string]int{}}
	kinds := kindsByName()
	var out error
	say := func(format string, args ...any) {
		if _, err := fmt.Fprintf(w, format, args...); err != nil && out == nil {
			out = err
		}
	}
	for _, c := range cases {
		r := check(kinds, c)
		switch r.Outcome {
		case Passed:
			s.Passed++
		case Failed:
			s.Failed++
		case Skipped:
			s.Skipped++
			s.Unknown[c.Kind]++
		}
		if verbose || r.Outcome == Failed || r.Outcome == Passed && r.Note != "" {
			line := fmt.Sprintf("%s %s: %s", r.Outcome, c.File, c.Name)
			if r.Note != "" {
				line += ": " + r.Note
			}
			say("%s\n", line)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.Unknown)) {
		name := fmt.Sprintf("unknown kind %q", k)
		if k == "" {
			name = "no kind given"
		}
		say("skip %s: %d case(s)\n", name, s.Unknown[k])
	}
	say("%s\n", s)
	return s, out
}

// prose are keys of expect that comment on it.
var prose = []string{"rule", "note", "lesson", "story", "meaning", "error_kind", "upstream_returns"}

// compare holds an answer against expect, key by key. Keys of the answer that
// expect has not are not compared; keys of expect that the answer has not are
// an error, so that nothing recorded goes unchecked.
func compare(answer map[string]any, expect json.RawMessage, same func(key string, got, want any) bool) error {
	raw, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	var got, want map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		return err
	}
	if err := json.Unmarshal(expect, &want); err != nil {
		return fmt.Errorf("expect is no object: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[key]
		switch {
		case slices.Contains(prose, key):
		case !ok:
			return fmt.Errorf("expect.%s cannot be checked", key)
		case reflect.DeepEqual(g, want[key]) || same != nil && same(key, g, want[key]):
		default:
			return fmt.Errorf("%s is %s, want %s", key, short(g), short(want[key]))
		}
	}
	return nil
}

// short is a value as JSON, cut to a line.
func short(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(raw) > 160 {
		return string(raw[:160]) + "…"
	}
	return string(raw)
}
