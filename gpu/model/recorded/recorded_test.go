package recorded

import (
	"strings"
	"testing"
)

const howTo = "on a GPU machine: CGO_ENABLED=0 go test -c -o blocks.test ./gpu/blocktrace && ./blocks.test -test.run GPU -test.v -record gpu/model/recorded"

// TestRecorded holds that the recorded traces are of the examples as they are now.
func TestRecorded(t *testing.T) {
	for _, x := range Launches() {
		r, err := Trace(x.Name)
		if err != nil {
			t.Fatalf("%s: %v; %s", x.Name, err, howTo)
		}
		want := map[string]int{}
		for _, l := range x.Program.Launches {
			want[l.Name] = l.Blocks
		}
		for _, e := range r.Events {
			if e.Kind == "block" {
				want[e.About["kernel"]]--
			}
		}
		for name, n := range want {
			if n != 0 {
				t.Errorf("%s: %d blocks of %s are not in the record; %s", x.Name, n, name, howTo)
			}
		}
		if r.Made == "" || !strings.Contains(r.Machine, "NVIDIA") {
			t.Errorf("%s: measured on %q at %q", x.Name, r.Machine, r.Made)
		}
	}
}
