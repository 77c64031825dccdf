package record

import (
	"fmt"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	whole := Row{What: "program", Name: "a", Hash: "1", Result: "equal", Of: 8, GPU: "G", Driver: "D", Target: "T", Commit: "C", Binary: "B", Written: "W"}
	change := func(f func(*Row)) Row { r := whole; f(&r); return r }
	now := map[string]string{"a": "1"}
	for _, c := range []struct {
		name          string
		rows          []Row
		now           map[string]string
		stale, proved int
		want          string // in the problems; "" for none
	}{
		{"whole", []Row{whole}, now, 0, 1, ""},
		{"empty", nil, now, 0, 0, "empty; run it"},
		{"no row", []Row{whole}, map[string]string{"a": "1", "c": "3", "b": "2"}, 2, 1, ""},
		{"stale", []Row{whole}, map[string]string{"a": "2"}, 1, 0, ""},
		{"stale, and differed then", []Row{change(func(r *Row) { r.Differ = 3 })}, map[string]string{"a": "2"}, 1, 0, ""},
		{"stale, and failed then", []Row{change(func(r *Row) { r.Result = "launch failed" })}, map[string]string{"a": "2"}, 1, 0, ""},
		{"a thing that is gone", []Row{whole, change(func(r *Row) { r.Name = "z" })}, now, 1, 1, ""},
		{"twice", []Row{whole, whole}, now, 0, 1, "two rows"},
		{"differs", []Row{change(func(r *Row) { r.Differ = 3 })}, now, 0, 0, "differed on G"},
		{"failed", []Row{change(func(r *Row) { r.Result = "launch failed" })}, now, 0, 0, "launch failed"},
		{"equal but for NaNs", []Row{change(func(r *Row) { r.Result = "equal but for the codes of NaNs" })}, now, 0, 1, ""},
		{"no commit", []Row{change(func(r *Row) { r.Commit = "" })}, now, 0, 0, "incomplete"},
		{"nothing compared", []Row{change(func(r *Row) { r.Of = 0 })}, now, 0, 0, "incomplete"},
		{"of something else", []Row{change(func(r *Row) { r.What = "row" })}, now, 0, 0, "incomplete"},
	} {
		stale, proved, problems := Check(c.rows, "program", c.now, "run it")
		if len(stale) != c.stale || len(proved) != c.proved {
			t.Errorf("%s: stale %v, proved %v", c.name, stale, proved)
		}
		if told := strings.Contains(fmt.Sprint(stale), "differed when last run"); told != strings.HasPrefix(c.name, "stale, and") {
			t.Errorf("%s: stale is %v", c.name, stale)
		}
		if got := fmt.Sprint(problems); c.want == "" && len(problems) > 0 || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %q", c.name, got, c.want)
		}
	}
}

// TestStamp holds that a row knows its binary.
func TestStamp(t *testing.T) {
	to, commit := "", "abc"
	w := Writer{&to, &commit}
	r, err := w.Stamp("program")
	if err != nil || len(r.Binary) != 64 || r.Commit != "abc" || r.Written == "" {
		t.Errorf("%+v, %v", r, err)
	}
	if err := w.Write([]Row{r}); err != nil {
		t.Error(err)
	}
	to = t.TempDir() + "/rows.json"
	if err := w.Write([]Row{r}); err != nil {
		t.Error(err)
	}
}

// TestDifferences holds that every file which says whether machines agreed is read, and that
// its rows are such.
func TestDifferences(t *testing.T) {
	for _, file := range Matched {
		for _, r := range Read[Row](t, file) {
			if r.Name == "" || r.Hash == "" || r.Result == "" {
				t.Errorf("%s: %+v", file, r)
			}
		}
	}
	for file, rows := range Differences(t) {
		for _, r := range rows {
			t.Logf("%s: %s differed when last run: %s", file, r.Name, r.Result)
			if strings.HasPrefix(r.Result, "equal") && r.Differ == 0 {
				t.Errorf("%s: %+v", file, r)
			}
		}
	}
}
