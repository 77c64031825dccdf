package plan

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// Body is what there is to plan of a module: its entry, or the computation of the fusion
// that its entry consists of.
func Body(m *hlo.Module) (*hlo.Computation, error) {
	c := m.Entry
	for _, in := range c.Instructions {
		if in.Op == hlo.Fusion && in != c.Root {
			return nil, fmt.Errorf("plan: the entry %s has several fusions; plan one at a time", c.Name)
		}
	}
	if c.Root.Op == hlo.Fusion {
		for _, in := range c.Instructions {
			if in.Op != hlo.Parameter && in != c.Root {
				return nil, fmt.Errorf("plan: the entry %s computes %s beside its fusion", c.Name, in.Name)
			}
		}
		return c.Root.Apply, nil
	}
	return c, nil
}

func names(list []*hlo.Instruction) string {
	var out []string
	for _, in := range list {
		out = append(out, in.Name)
	}
	return strings.Join(out, ", ")
}

// String tells the kernels of the plan: what each reads and writes, how it is launched and
// why that way.
func (p *Plan) String() string {
	var b strings.Builder
	for i, k := range p.Kernels {
		fmt.Fprintf(&b, "kernel %d  %s  (%s)\n", i, k.Computation.Name, k.Emitter)
		list := func(what string, at []int) {
			for _, n := range at {
				buffer := p.Buffers[n]
				in := ""
				if what == "writes" && buffer.From >= 0 {
					in = ", begins as " + p.Buffers[buffer.From].Name
				}
				fmt.Fprintf(&b, "  %-8s %-10s %-9s %s%s\n", what, buffer.Name, buffer.Role, buffer.Shape, in)
			}
		}
		list("reads", k.Args)
		list("writes", k.Results)
		list("shares", k.Work)
		if len(k.Heroes) > 0 {
			fmt.Fprintf(&b, "  heroes   %s\n", names(k.Heroes))
		}
		if len(k.SideOutputs) > 0 {
			fmt.Fprintf(&b, "  beside   %s\n", names(k.SideOutputs))
		}
		for j, s := range k.Stages {
			text := "writes the results"
			if len(s.Reduces) > 0 {
				text = "reduces " + names(s.Reduces)
				if len(s.Held) > 0 {
					text = "holds " + names(s.Held) + ", " + text
				}
			}
			fmt.Fprintf(&b, "  stage %d  %s\n", j, text)
		}
		fmt.Fprintf(&b, "  launch   %d × %d × %d blocks of %d threads, vectors of %d", k.Blocks[0], max(1, k.Blocks[1]), max(1, k.Blocks[2]), k.Threads, max(1, k.Vector))
		if len(k.Shared) > 0 && k.SharedTiles > 0 {
			b.WriteString(diag.Sprintf(", %d shared tiles of %v", k.SharedTiles, k.Shared))
		}
		fmt.Fprintf(&b, ", indices of %d bits\n", k.IndexBits)
		for _, w := range k.Why {
			fmt.Fprintf(&b, "  because  %s\n", w)
		}
	}
	return b.String()
}
