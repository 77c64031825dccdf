package notebooks

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

var (
	keep   = flag.Bool("keep", false, "with -executed: keep what that machine printed in tests/record/lessons.json")
	commit = flag.String("commit", "", "commit that the binary was built from")
	binary = flag.String("binary", "", "the binary that executed the lesson")
)

// lessonRow is what a lesson printed on a machine with a GPU.
type lessonRow struct {
	What    string            `json:"what"` // "lesson"
	Name    string            `json:"name"`
	Hash    string            `json:"hash"` // of the cells
	Machine string            `json:"machine"`
	Device  string            `json:"device"`
	JITms   []float64         `json:"jit_ms"`
	Commit  string            `json:"commit"`
	Binary  string            `json:"binary_sha256"`
	Printed map[string]string `json:"printed"` // text of each code cell, by its number
}

// cellsHash names the lesson's code and text.
func cellsHash(nb *notebook) string {
	h := sha256.New()
	for _, c := range nb.cells {
		fmt.Fprintf(h, "%v\n", c["cell_type"])
		switch s := c["source"].(type) {
		case string:
			io.WriteString(h, s)
		case []any:
			for _, line := range s {
				fmt.Fprint(h, line)
			}
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:12])
}

var (
	deviceLine = regexp.MustCompile(`(?m)^device: (cuda.*)$`)
	jitTime    = regexp.MustCompile(`JIT ([0-9.]+) ms`)
)

// rowOf reads an executed lesson.
func rowOf(name string, nb *notebook) lessonRow {
	r := lessonRow{What: "lesson", Name: name, Hash: cellsHash(nb), Printed: map[string]string{}}
	n := 0
	for _, c := range nb.cells {
		if c["cell_type"] != "code" {
			continue
		}
		n++
		var text strings.Builder
		for _, o := range outputs(c) {
			text.WriteString(o.data["text/plain"] + "\n")
		}
		s := text.String()
		r.Printed[fmt.Sprintf("%02d", n)] = s
		if m := machineLine.FindStringSubmatch(s); m != nil {
			r.Machine = m[1] + ", " + m[2]
		}
		if m := deviceLine.FindStringSubmatch(s); m != nil {
			r.Device = m[1]
		}
		for _, m := range jitTime.FindAllStringSubmatch(s, -1) {
			var ms float64
			fmt.Sscan(m[1], &ms)
			r.JITms = append(r.JITms, ms)
		}
	}
	return r
}

func recordFile(t *testing.T) string {
	return filepath.Join(need.Root(t), "tests", "record", "lessons.json")
}

// keepRecord writes the row of one executed lesson.
func keepRecord(t *testing.T, name string, nb *notebook) {
	r := rowOf(name, nb)
	r.Commit = *commit
	if data, err := os.ReadFile(*binary); err == nil {
		r.Binary = fmt.Sprintf("%x", sha256.Sum256(data))
	} else {
		t.Fatalf("-binary: %v", err)
	}
	data, err := json.MarshalIndent([]lessonRow{r}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recordFile(t), append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRecord reads what the lessons printed on a GPU: complete, without a
// differing element, and within the error that the lesson claims.
func TestRecord(t *testing.T) {
	data, err := os.ReadFile(recordFile(t))
	if err != nil {
		t.Fatal(err)
	}
	var rows []lessonRow
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Fatal("no lesson was ever run on a GPU")
	}
	relative := regexp.MustCompile(`(?m)^cuda:\d+ +‖c − ref‖F / ‖ref‖F = ([0-9.e+-]+)$`)
	for _, r := range rows {
		all := ""
		for _, s := range r.Printed {
			all += s + "\n"
		}
		m := relative.FindStringSubmatch(all)
		var rel float64 = 1
		if m != nil {
			fmt.Sscan(m[1], &rel)
		}
		switch {
		case r.Commit == "" || r.Binary == "" || r.Device == "" || r.Machine == "" || len(r.JITms) == 0:
			t.Errorf("%s: incomplete: %+v", r.Name, r)
		case !strings.Contains(all, "interp = sim = cuda, 0 of"):
			t.Errorf("%s: the machines did not agree on %s", r.Name, r.Device)
		case !(rel < 1e-3):
			t.Errorf("%s: relative error %g on %s", r.Name, rel, r.Device)
		}
		nb, err := read(filepath.Join(need.Root(t), "notebooks", r.Name))
		if err != nil {
			t.Fatal(err)
		}
		if cellsHash(nb) != r.Hash {
			t.Logf("%s is stale: its cells have changed since", r.Name)
		}
	}
}
