// Package record is what GPU runs proved, kept as JSON files in this folder: a row
// for each thing that ran, written by the test binary that ran it, with the hash
// of what it proves something about. Where that hash has changed since, the row
// is stale: it holds no more, and waits for the next run on a GPU. A stale row that
// says that machines differed still says so: nothing shows that the change helped.
package record

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

// Row is what every row says. Files have rows with more fields, which embed it.
type Row struct {
	What    string `json:"what"` // the kind of thing: "program", "row"
	Name    string `json:"name"`
	Hash    string `json:"hash"`   // of the thing
	Result  string `json:"result"` // begins with "equal", or says what went wrong
	Differ  int    `json:"differ"` // elements that are not as they must be
	Of      int    `json:"of"`     // elements compared
	GPU     string `json:"gpu"`
	Driver  string `json:"driver"`
	Target  string `json:"target"`
	Commit  string `json:"commit"`
	Binary  string `json:"binary_sha256"`
	Written string `json:"utc"`
}

// Base is the row itself, for those that embed it.
func (r Row) Base() Row { return r }

// Differed says whether machines did not agree when the thing last ran.
func (r Row) Differed() bool { return !strings.HasPrefix(r.Result, "equal") || r.Differ != 0 }

// Writer writes the rows of one test binary to the file that its -record flag names.
type Writer struct {
	to     *string
	Commit *string // that the test binary was built from, or ""
}

// Flags adds -record and -commit to the flags of the test binary.
func Flags() Writer {
	return Writer{
		flag.String("record", "", "write what the GPU proved to this file"),
		flag.String("commit", "", "commit that the test binary was built from"),
	}
}

// Stamp is a row of this binary, commit and time; the rest is the caller's.
func (w Writer) Stamp(what string) (Row, error) {
	r := Row{What: what, Commit: *w.Commit, Written: time.Now().UTC().Format(time.RFC3339)}
	exe, err := os.Executable()
	if err != nil {
		return r, fmt.Errorf("record: %w", err)
	}
	data, err := os.ReadFile(exe)
	if err != nil {
		return r, fmt.Errorf("record: %w", err)
	}
	r.Binary = fmt.Sprintf("%x", sha256.Sum256(data))
	if info, ok := debug.ReadBuildInfo(); ok && r.Commit == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				r.Commit = s.Value
			}
		}
	}
	return r, nil
}

// Write writes the rows, a list of structs, when -record asks for it.
func (w Writer) Write(rows any) error {
	if *w.to == "" {
		return nil
	}
	data, err := json.MarshalIndent(rows, "", "\t")
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return os.WriteFile(*w.to, append(data, '\n'), 0o644)
}

// Beside is a writer of another file of the same folder: a test binary may prove
// several kinds of things in one run.
func (w Writer) Beside(file string) Writer {
	to := *w.to
	if to != "" {
		to = filepath.Join(filepath.Dir(to), file)
	}
	return Writer{&to, w.Commit}
}

// Read reads a file of this folder.
func Read[T any](t testing.TB, file string) []T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(need.Root(t), "tests", "record", file))
	if err != nil {
		t.Fatal(err)
	}
	var rows []T
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return rows
}

// Matched are the files of this folder whose rows say whether machines agreed.
var Matched = []string{"programs.json", "random.json", "rows.json", "proxyrows.json", "banks.json", "parallel.json", "fusions.json"}

// Differences are the rows of [Matched] that say that machines differed, by file.
func Differences(t testing.TB) map[string][]Row {
	t.Helper()
	out := map[string][]Row{}
	for _, file := range Matched {
		for _, r := range Read[Row](t, file) {
			if r.Differed() {
				out[file] = append(out[file], r)
			}
		}
	}
	return out
}

// Check holds rows against the things that there are now, hash by name. It
// returns the names that wait for a GPU, because they changed since or are new,
// with what they differed in when they last ran; those proved; and what is wrong with the record itself: rows that are missing
// altogether, incomplete or twice there, or say that machines differed. howTo
// says how rows are written.
func Check[T interface{ Base() Row }](rows []T, what string, now map[string]string, howTo string) (stale, proved []string, problems []error) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if len(rows) == 0 {
		bad("the record is empty; %s", howTo)
		return
	}
	seen := map[string]bool{}
	for _, x := range rows {
		r := x.Base()
		switch {
		case seen[r.Name]:
			bad("%s has two rows", r.Name)
		case r.What != what || r.Name == "" || r.Hash == "" || r.Result == "" || r.Of == 0 || r.GPU == "" || r.Driver == "" || r.Target == "" || r.Commit == "" || r.Binary == "" || r.Written == "":
			bad("the row of %s is incomplete: %+v", r.Name, r)
		case now[r.Name] != r.Hash && r.Differed():
			stale = append(stale, fmt.Sprintf("%s (differed when last run, in %d of %d elements; changed since)", r.Name, r.Differ, r.Of))
		case now[r.Name] != r.Hash:
			stale = append(stale, r.Name)
		case r.Differed():
			bad("%s differed on %s: %s", r.Name, r.GPU, r.Result)
		default:
			proved = append(proved, r.Name)
		}
		seen[r.Name] = true
	}
	for name := range now {
		if !seen[name] {
			stale = append(stale, name+" (never run)")
		}
	}
	sort.Strings(stale)
	return stale, proved, problems
}
