package need

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// Code is what ptxas made of PTX: of several functions the largest numbers.
type Code struct {
	Registers                      int // of a thread
	Frame, SpillStores, SpillLoads int // bytes of a thread
	Said                           string
}

// Spills is how many bytes of local memory a thread uses for what registers do not hold.
func (c Code) Spills() int { return max(c.SpillStores, c.SpillLoads) }

var (
	usedRegisters = regexp.MustCompile(`Used (\d+) registers`)
	frames        = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
)

// Assemble gives PTX to ptxas for a target; the error is what it complains of. Without ptxas the test ends as [Ptxas] says.
func Assemble(t testing.TB, target, ptx string) (Code, error) {
	t.Helper()
	ptxas, file := Ptxas(t), filepath.Join(t.TempDir(), "program.ptx")
	if err := os.WriteFile(file, []byte(ptx), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), ptxas, "-v", "-arch="+target, "-o", os.DevNull, file).CombinedOutput()
	if err != nil {
		return Code{}, fmt.Errorf("ptxas for %s: %w\n%s", target, err, out)
	}
	return said(string(out))
}

// said reads what ptxas -v prints.
func said(text string) (Code, error) {
	c := Code{Said: text}
	used, frame := usedRegisters.FindAllStringSubmatch(text, -1), frames.FindAllStringSubmatch(text, -1)
	if len(used) == 0 || len(frame) != len(used) {
		return c, fmt.Errorf("ptxas says nothing of registers:\n%s", text)
	}
	most := func(to *int, digits string) {
		n, _ := strconv.Atoi(digits)
		*to = max(*to, n)
	}
	for i := range used {
		most(&c.Registers, used[i][1])
		most(&c.Frame, frame[i][1])
		most(&c.SpillStores, frame[i][2])
		most(&c.SpillLoads, frame[i][3])
	}
	return c, nil
}
