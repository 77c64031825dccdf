package trace

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func example() *Trace {
	t := New("two blocks", "a machine", Measurement, "ns")
	a := t.Add("SM", "SM 0", Event{Kind: "block", Start: 5, End: 10, Text: "block 0 runs", Tag: Measured, About: map[string]string{"block": "0"}})
	t.Add("SM", "SM 0", Event{Kind: "block", Start: 12, End: 20, Text: "block 1 runs", Tag: Derived, Causes: []int{a}, Where: &Place{Side: "hardware", Component: "SM"}})
	return t
}

func TestRoundTrip(t *testing.T) {
	a := example()
	var one, two bytes.Buffer
	if err := a.Write(&one); err != nil {
		t.Fatal(err)
	}
	b, err := Read(bytes.NewReader(one.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Write(&two); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Errorf("written again it is\n%s\nnot\n%s (%v)", &two, &one, err)
	}
	// A trace that was read goes on with the tracks that it has.
	b.Add("SM", "SM 0", Event{Kind: "block", Start: 20, End: 30, Tag: Measured})
	if len(b.Tracks) != 1 || b.End != 30 {
		t.Errorf("%d tracks, end %d", len(b.Tracks), b.End)
	}
	if c := a.Chain(1); len(c) != 2 || c[0].ID != 0 || c[1].ID != 1 {
		t.Errorf("chain %v", c)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ from, to, says string }{
		{`"version":1`, `"version":2`, "version 2"},
		{`tilus-lab-trace`, `other`, "format"},
		{`"causes":[0]`, `"causes":[1]`, "before it"},
		{`"causes":[0]`, `"causes":[-1]`, "before it"},
		{`"track":0`, `"track":7`, "track 7"},
		{`"start":12`, `"start":21`, "from 21 to 20"},
		{`"tag":"derived"`, `"tag":"guess"`, "guess"},
		{`"unit":"ns"`, `"unit":"s"`, "unit"},
		{`"origin":"measurement"`, `"origin":"dream"`, "origin"},
		{`"id":1`, `"id":3`, "number 3"},
	} {
		var b bytes.Buffer
		if err := example().Write(&b); err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(b.String(), c.from, c.to, 1)
		if text == b.String() {
			t.Fatalf("%s is not in the text", c.from)
		}
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.to, err)
		}
	}
}

func TestChrome(t *testing.T) {
	var b bytes.Buffer
	if err := example().Chrome(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		TraceEvents []struct {
			Ph      string
			Ts, Dur float64
			Pid     int
			ID      int
		}
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range got.TraceEvents {
		count[e.Ph]++
		if e.Ph == "X" && e.Dur != 0.005 && e.Dur != 0.008 {
			t.Errorf("a bar of %v µs", e.Dur)
		}
	}
	if want := map[string]int{"M": 2, "X": 2, "s": 1, "f": 1}; !reflect.DeepEqual(count, want) {
		t.Errorf("phases %v, want %v", count, want)
	}
}

// TestSchema holds the schema to the types: the same names, the same ones required.
func TestSchema(t *testing.T) {
	type node struct {
		Required   []string
		Properties map[string]*node
		Items      *node
	}
	var root node
	if err := json.Unmarshal([]byte(Schema), &root); err != nil {
		t.Fatal(err)
	}
	event := root.Properties["events"].Items
	for _, c := range []struct {
		n *node
		t reflect.Type
	}{{&root, reflect.TypeFor[Trace]()}, {event, reflect.TypeFor[Event]()}, {root.Properties["tracks"].Items, reflect.TypeFor[Track]()}, {event.Properties["where"], reflect.TypeFor[Place]()}} {
		var required, all []string
		for i := range c.t.NumField() {
			tag := c.t.Field(i).Tag.Get("json")
			if tag == "" {
				continue
			}
			name, options, _ := strings.Cut(tag, ",")
			all = append(all, name)
			if options == "" {
				required = append(required, name)
			}
		}
		if !reflect.DeepEqual(required, c.n.Required) {
			t.Errorf("%v: required are %v, the schema says %v", c.t, required, c.n.Required)
		}
		if len(all) != len(c.n.Properties) {
			t.Errorf("%v has %v, the schema %d properties", c.t, all, len(c.n.Properties))
		}
		for _, name := range all {
			if c.n.Properties[name] == nil {
				t.Errorf("%v: the schema has no %q", c.t, name)
			}
		}
	}
}

// A trace that is read is one that can be written, and is then the same.
func FuzzRead(f *testing.F) {
	var seed bytes.Buffer
	if err := example().Write(&seed); err != nil {
		f.Fatal(err)
	}
	f.Add(seed.Bytes())
	f.Add([]byte(`{"format":"x"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := Read(bytes.NewReader(raw))
		if err != nil {
			return
		}
		var one, two bytes.Buffer
		if err := a.Write(&one); err != nil {
			t.Fatal(err)
		}
		b, err := Read(bytes.NewReader(one.Bytes()))
		if err != nil {
			t.Fatalf("%s: %v", &one, err)
		}
		if err := b.Write(&two); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Fatalf("%s\n%s %v", &one, &two, err)
		}
	})
}
