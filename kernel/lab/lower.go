package lab

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Code is a program in the forms that it has on its way to a GPU. As text it is
// the PTX.
type Code struct {
	Program string
	Arch    string              // "sm_90a"
	Thread  string              // thread code, what the simulator runs
	PTX     string              // what the driver takes
	sets    map[string][]string // position in the program → variables that the instruction there assigns
}

// Lower compiles a program for the usual target. Arguments, if given, are those
// of [Run]: the code is then the one for their sizes, with the wide accesses
// that their divisors allow.
func Lower(p *ir.Program, args ...any) (*Code, error) {
	return LowerFor(compile.DefaultArch, p, args...)
}

// LowerFor is [Lower] for a target: "sm_80", "sm_89", "sm_90a".
func LowerFor(arch string, p *ir.Program, args ...any) (*Code, error) {
	if p == nil {
		return nil, errors.New("lab: there is no program")
	}
	o := compile.Options{Arch: arch}
	if len(args) > 0 {
		launch, err := launchArgs(p, args)
		if err != nil {
			return nil, err
		}
		o.Divisible = compile.Divisors(p, launch)
	}
	c, err := compile.Program(p, o)
	if err != nil {
		return nil, err
	}
	out := &Code{Program: p.Name, Arch: c.Arch.Name, Thread: code.Format(c.Func)}
	if out.PTX, err = c.PTX(); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	out.sets = map[string][]string{}
	p.Body.Walk(func(s ir.Stmt) bool {
		if in, ok := s.(*ir.Instr); ok {
			for _, v := range in.Out {
				out.sets[in.Pos.String()] = append(out.sets[in.Pos.String()], v.Name)
			}
		}
		return true
	})
	return out, nil
}

func (c *Code) String() string {
	if c == nil {
		return "<nil>" // beside an error
	}
	return c.PTX
}

// Count is how often each word, an instruction such as "mma.sync" or
// "ld.global", begins one in the PTX.
func (c *Code) Count(words ...string) string {
	parts := make([]string, len(words))
	for i, w := range words {
		n := 0
		for line := range strings.Lines(c.PTX) {
			if strings.HasPrefix(instruction(line), w) {
				n++
			}
		}
		parts[i] = fmt.Sprintf("%d %s", n, w)
	}
	return strings.Join(parts, ", ")
}

// Of is the PTX that the instructions assigning the given variables became, in
// the order in which it runs, without positions and labels. What has no position
// of its own, such as the end of a loop, counts to the instruction before it.
func (c *Code) Of(variables ...string) string {
	var b strings.Builder
	take := false
	for line := range strings.Lines(c.PTX) {
		line = strings.TrimSpace(line)
		if pos, ok := strings.CutPrefix(line, "// "); ok {
			take = slices.ContainsFunc(c.sets[pos], func(name string) bool { return slices.Contains(variables, name) })
		} else if take && strings.HasSuffix(line, ";") {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// instruction is a line of PTX without indent and guard.
func instruction(line string) string {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "@") {
		_, line, _ = strings.Cut(line, " ")
	}
	return line
}
