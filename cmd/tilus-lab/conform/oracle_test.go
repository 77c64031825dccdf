package conform

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOracles checks answers of other programs to questions that no file of
// tests/testdata/cases asks. What made a file stands beside it under the same name.
func TestOracles(t *testing.T) {
	files, err := filepath.Glob("testdata/oracle/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		list, err := Read(name, f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if s, err := Run(&out, list, false); err != nil || !s.OK() {
			t.Errorf("%v\n%s", err, out.String())
		}
		if _, err := os.Stat(strings.TrimSuffix(name, "json") + "py"); err != nil {
			t.Errorf("what made %s: %v", name, err)
		}
	}
}
