package lab

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Comparison is what [Compare] found. As text it is one line, "interp = sim =
// cuda, 0 of 128 differ", and a line for each output that differs.
type Comparison struct {
	Results []*Result // by device, the interpreter first
	Absent  []string  // devices that this machine has not, with the reason
	N       int       // elements of all outputs
	Differ  int       // elements that differ from the interpreter's on any one device, at most
	Notes   []string  // where and by how much, one line for each output and device
	equal   []bool    // by result
}

// Compare runs a program on every kind of device there is and compares what it
// stored, bit by bit, with what the interpreter stored. Arguments are those of
// [Run].
func Compare(p *ir.Program, args ...any) (*Comparison, error) {
	if p == nil {
		return nil, errors.New("lab: there is no program")
	}
	launch, err := launchArgs(p, args)
	if err != nil {
		return nil, err
	}
	c := &Comparison{}
	for _, name := range []string{"interp", "sim", "cuda"} {
		r, err := run(Context(), name, p, launch)
		if errors.Is(err, device.ErrNoGPU) {
			c.Absent = append(c.Absent, fmt.Sprintf("%s: none here", name))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("lab: on %s: %w", name, err)
		}
		c.add(r)
	}
	return c, nil
}

func (c *Comparison) add(r *Result) {
	c.Results = append(c.Results, r)
	want := c.Results[0]
	n, differ := 0, 0
	for _, name := range want.Names {
		report := array.Compare(r.Out(name), want.Out(name))
		n += report.N
		differ += report.Differ
		if !report.Equal() {
			c.Notes = append(c.Notes, fmt.Sprintf("%s: %s: %s", kind(r), name, report))
		}
	}
	c.N, c.Differ = n, max(c.Differ, differ)
	c.equal = append(c.equal, differ == 0)
}

// Equal reports that all devices stored the same bits.
func (c *Comparison) Equal() bool { return c.Differ == 0 }

func kind(r *Result) string {
	name, _, _ := strings.Cut(r.Device, ":")
	return name
}

func (c *Comparison) String() string {
	if c == nil {
		return "<nil>" // beside an error
	}
	var b strings.Builder
	for i, r := range c.Results {
		if i > 0 {
			b.WriteString(map[bool]string{true: " = ", false: " ≠ "}[c.equal[i]])
		}
		b.WriteString(kind(r))
	}
	fmt.Fprintf(&b, ", %d of %d differ", c.Differ, c.N)
	if len(c.Absent) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(c.Absent, "; "))
	}
	for _, note := range c.Notes {
		b.WriteString("\n" + note)
	}
	return b.String()
}
