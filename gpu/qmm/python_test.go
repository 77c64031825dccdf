package qmm

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// TestPython has Python read modules of layers.
func TestPython(t *testing.T) {
	python := need.Jupyter(t)
	for _, text := range append(Presets(), "i4", "u3 zero group=64", "f6e3m2 group=channel act=bf16", "f8e7m0", "u1 scale=bf16") {
		l := kind(t, text, 200, 330)
		s, err := l.ChoosePlain(2)
		if err != nil {
			t.Fatal(err)
		}
		data, err := l.Python("linear", "pack", "decode", s)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		cmd := exec.Command(python, "-c", "import ast, sys; ast.parse(sys.stdin.read())")
		cmd.Stdin = strings.NewReader(string(data))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", text, err, out)
		}
		if plain := strings.Contains(string(data), "def quantize("); plain != (l.ScaleType.Bits() == 16 && !l.Factor) {
			t.Errorf("%s: quantises by itself: %v", text, plain)
		}
	}
	for _, s := range []template.Schedule{{Stages: 4, Blocks: 132}, {Parts: 4, Splits: 2, Joint: true}} {
		if _, err := kind(t, "u4", 200, 330).Python("linear", "pack", "decode", s); err == nil || !strings.Contains(err.Error(), "ChoosePlain") {
			t.Errorf("a module launches %s: %v", s, err)
		}
	}
}
