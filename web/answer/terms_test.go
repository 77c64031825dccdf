package answer

import (
	"encoding/json"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

func TestTerms(t *testing.T) {
	for _, c := range []struct {
		q    Terms
		want string
	}{
		{Terms{"local(2, 1).spatial(8, 4).local(1, 2)", 5, 3, 0},
			`{"terms":[{"from":0,"to":11,"text":"(1, 0)","moves":true},{"from":12,"to":25,"text":"(1, 1)","moves":true},{"from":26,"to":37,"text":"(0, 1)","moves":true}]}`},
		{Terms{"spatial(2, 2).local(1, 2)", 3, 0, 2},
			`{"terms":[{"from":0,"to":13,"text":"(1, 1)","moves":true},{"from":14,"to":25,"text":"(0, 0)","moves":false}],"members":[[3,0],[3,1]]}`},
		{Terms{"column_spatial(2, 2)", 1, 0, 1},
			`{"terms":[{"from":0,"to":20,"text":"(1, 0)","moves":true}],"members":[[0,0],[1,0],[2,0],[3,0]]}`},
		{Terms{"((4,8),(2,2)):((32,1),(16,8)) on 16x8", 0, 0, 0}, `{"terms":[]}`},
		{Terms{"local(2", 0, 0, 0}, `{"terms":[]}`},
	} {
		got, err := c.q.Answer()
		raw, _ := json.Marshal(got)
		if err != nil || string(raw) != c.want {
			t.Errorf("%+v: %s, %v; want %s", c.q, raw, err, c.want)
		}
	}
	if _, err := (Terms{"local(2)", 0, 9, 0}).Answer(); err == nil {
		t.Error("a slot that there is not is answered")
	}
}

// TestTermsLeadToElements holds that members differ in one factor only.
func TestTermsLeadToElements(t *testing.T) {
	const text = "local(2, 1).column_spatial(4, 8).spatial(1, 2).local(4, 1)"
	l, err := layout.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for term := 1; term <= 4; term++ {
		got, err := Terms{text, l.Threads() - 1, l.Slots() - 1, term}.Answer()
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(got)
		var a struct {
			Terms   []Term
			Members [][2]int
		}
		if err := json.Unmarshal(raw, &a); err != nil {
			t.Fatal(err)
		}
		if len(a.Terms) != 4 {
			t.Fatalf("%s has %d terms", text, len(a.Terms))
		}
		for _, m := range a.Members {
			other, err := Terms{text, m[0], m[1], 0}.Answer()
			if err != nil {
				t.Fatalf("term %d leads to %v: %v", term, m, err)
			}
			raw, _ := json.Marshal(other)
			var b struct{ Terms []Term }
			if err := json.Unmarshal(raw, &b); err != nil {
				t.Fatal(err)
			}
			for i := range b.Terms {
				if i != term-1 && b.Terms[i].Text != a.Terms[i].Text {
					t.Errorf("term %d leads to %v, which differs in term %d", term, m, i+1)
				}
			}
		}
	}
}
