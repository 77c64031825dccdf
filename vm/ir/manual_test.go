package ir_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/ir"
)

var update = flag.Bool("update", false, "write testdata/manual.md")

func TestManual(t *testing.T) {
	const golden = "testdata/manual.md"
	got := ir.Manual()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the manual changed; look at it after go test ./vm/ir -update\n%s", got)
	}
	for _, op := range ir.Ops() {
		if !strings.Contains(got, op.Manual()) {
			t.Errorf("%s has no section", op.Name)
		}
	}
}
