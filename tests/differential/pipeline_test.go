package differential

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
)

// TestPipelineIsItsBarriers: a program with AllocatePipeline becomes the instructions of
// the program whose barriers are written by hand, so what a GPU has proved of that one
// holds of it.
func TestPipelineIsItsBarriers(t *testing.T) {
	body := map[string]string{}
	for _, l := range launches(t) {
		if l.Name != "matmul_hopper_pipeline" && l.Name != "matmul_hopper_v3" {
			continue
		}
		for _, special := range []bool{false, true} {
			o := compile.Options{Arch: "sm_90a"}
			if special {
				o.Divisible = compile.Divisors(l.Program, l.Args)
			}
			c, err := compile.Program(l.Program, o)
			if err != nil {
				t.Fatal(err)
			}
			c.Func.Name = "product"
			text, err := c.PTX()
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, line := range strings.Split(text, "\n") {
				if s := strings.TrimSpace(line); !strings.HasPrefix(s, ".loc") && !strings.HasPrefix(s, ".file") && !strings.HasPrefix(s, "//") {
					lines = append(lines, line)
				}
			}
			key := map[bool]string{true: "specialised", false: "general"}[special]
			if was, ok := body[key]; ok && was != strings.Join(lines, "\n") {
				t.Errorf("%s: the two programs become different PTX", key)
			} else if ok {
				delete(body, key)
				continue
			}
			body[key] = strings.Join(lines, "\n")
		}
	}
	if len(body) > 0 {
		t.Errorf("compared nothing: %d texts are left", len(body))
	}
}
