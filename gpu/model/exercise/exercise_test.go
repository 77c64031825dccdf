package exercise

import (
	"strings"
	"testing"
)

// TestKinds holds for many seeds that the model's own answer is right, that it is not
// in the question, that the same seed asks the same, and that others are not right.
func TestKinds(t *testing.T) {
	for _, k := range Kinds() {
		texts := map[string]bool{}
		for seed := range uint64(60) {
			q, err := New(k.Name, seed)
			if err != nil {
				t.Fatal(err)
			}
			again, err := New(k.Name, seed)
			if err != nil || again.String() != q.String() {
				t.Fatalf("%s %d asks something else: %v\n%s\n%s", k.Name, seed, err, q, again)
			}
			texts[q.Text] = true
			answer, why := q.Answer()
			if v := q.Grade(answer); !v.Right || !strings.HasPrefix(v.String(), "right: ") {
				t.Errorf("%s %d: the model's answer %q is %v\n%s", k.Name, seed, answer, v, q)
			}
			if why == "" || strings.Contains(q.String(), why) {
				t.Errorf("%s %d tells %q in\n%s", k.Name, seed, why, q)
			}
			for _, wrong := range []string{"", "?", "z", "999999999999", "1, 2, 3, 4, 5, 6", strings.Repeat("1 ", 2000), "x", "<script>"} {
				if v := q.Grade(wrong); v.Right || !strings.HasPrefix(v.String(), "not yet: ") {
					t.Errorf("%s %d: %q is %v\n%s", k.Name, seed, wrong, v, q)
				}
			}
		}
		if len(texts) < 4 {
			t.Errorf("%s: %d questions", k.Name, len(texts))
		}
	}
	if _, err := New("riddle", 1); err == nil || !strings.Contains(err.Error(), "there are owner") {
		t.Error(err)
	}
}

// TestOneChoiceIsRight holds for every statement that the model has an answer among
// the choices, once, and that only that is right.
func TestOneChoiceIsRight(t *testing.T) {
	for _, name := range Claims() {
		q, err := NewMistake(name)
		if err != nil {
			t.Error(err)
			continue
		}
		right := 0
		for i := range q.Choices {
			if q.Grade(string(rune('a' + i))).Right {
				right++
			}
		}
		if right != 1 {
			t.Errorf("%s: %d of %d choices are right", name, right, len(q.Choices))
		}
	}
	if _, err := NewMistake("none"); err == nil {
		t.Error("a statement that is not there")
	}
}

// TestKnown holds answers that are written in papers and facts, not made by us.
func TestKnown(t *testing.T) {
	for name, want := range map[string]string{
		"cores": "8", "loads": "1024", "fp16": "8 in 64", "rhythm": "54", "loader": "lanes 0–3", "shared": "B", "octets": "1", "pair": "R8:R9", "padding": "2", "both": "8",
		"bms": "2", "column": "its column", "talk": "256", "sixteenth": "256", "pool": "8", "wait": "block 1 waits for block 0", "bits": "8 0 0 0", "deps": "2",
	} {
		q, err := NewMistake(name)
		if err != nil {
			t.Error(err)
			continue
		}
		answer, _ := q.Answer()
		if got := q.Choices[answer[0]-'a']; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestHints holds that wrong answers are told what they would mean.
func TestHints(t *testing.T) {
	for seed := range uint64(40) {
		q, err := New(Mask, seed)
		if err != nil {
			t.Fatal(err)
		}
		if v := q.Grade("0x1"); v.Right || !strings.Contains(v.Say, "has 1 units, [1 0 0 0] by engine") {
			t.Fatalf("%v", v)
		}
		q, err = New(Swizzle, seed)
		if err != nil {
			t.Fatal(err)
		}
		if v := q.Grade("3, 0, 3"); v.Right || !strings.Contains(v.Say, "within a group of 16") {
			t.Fatalf("%v", v)
		}
		if v := q.Grade("0, 4, 3"); v.Right || !strings.Contains(v.Say, "wavefronts") {
			t.Fatalf("%v", v)
		}
	}
}
