package diag

import (
	"strings"
	"testing"
)

func TestProblemPrintsPlaceRuleAndWayOut(t *testing.T) {
	var l List
	l.Addf(Pos{"a.tile", 3, 4}, "View.C2", "use u8[96]", "%d bits, %d bits", 24, 16)
	l.Addf(Pos{"a.tile", 1, 9}, "Text.E1", "", "no such name")
	want := "a.tile:1:9: no such name [Text.E1]\na.tile:3:4: 24 bits, 16 bits [View.C2]\n\thelp: use u8[96]"
	if got := l.Err().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if (List{}).Err() != nil {
		t.Error("an empty list must be a nil error")
	}
}

func TestListStopsAtTen(t *testing.T) {
	var l List
	for i := range 13 {
		l.Addf(Pos{"f", i + 1, 1}, "X.1", "", "p")
	}
	if s := l.Error(); !strings.HasSuffix(s, "… and 3 more") || strings.Count(s, "[X.1]") != MaxShown {
		t.Errorf("got %s", s)
	}
}

func TestPos(t *testing.T) {
	for want, p := range map[string]Pos{"f:1:2": {"f", 1, 2}, "f:1": {"f", 1, 0}, "f": {File: "f"}, "3:1": {Line: 3, Col: 1}, "": {}} {
		if got := p.String(); got != want {
			t.Errorf("%#v prints %q, want %q", p, got, want)
		}
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"local", "spatial", "column_local", "u8", "LoadGlobal"}
	for word, want := range map[string]string{
		"locl": "local", "sptaial": "spatial", "loadglobal": "LoadGlobal", "u9": "u8", "zebra": "", "colum_locl": "column_local", "": "", "q": "", "U": "u8",
	} {
		if got := Suggest(word, known); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := DidYouMean("locl", known); got != "did you mean local?" {
		t.Error(got)
	}
}

func TestSprintf(t *testing.T) {
	args := []any{[]int{16, 8}, []int64{-1}, []int{}, 3, "x"}
	if got, want := Sprintf("%v %d %v %d %s", args...), "[16, 8] [-1] [] 3 x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, ok := args[0].([]int); !ok {
		t.Error("the caller's arguments were changed")
	}
}
