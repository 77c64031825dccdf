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
	Arch    string            // "sm_90a"
	Thread  string            // thread code, what the simulator runs
	PTX     string            // what the driver takes
	made    map[string]string // position in the program → instruction that stands there
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
	out.made = map[string]string{}
	p.Body.Walk(func(s ir.Stmt) bool {
		if in, ok := s.(*ir.Instr); ok {
			out.made[in.Pos.String()] = in.Op.Name
		}
		return true
	})
	return out, nil
}

func (c *Code) String() string { return c.PTX }

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

// Of is the PTX that instructions of the given names became, such as "Cast" and
// "Dot", in the order in which it runs. Positions and labels are left out.
func (c *Code) Of(ops ...string) string {
	var b strings.Builder
	take := false
	for line := range strings.Lines(c.PTX) {
		if pos, ok := strings.CutPrefix(strings.TrimSpace(line), "// "); ok {
			take = slices.ContainsFunc(ops, func(op string) bool { return c.made[pos] == op })
		} else if take && strings.HasSuffix(strings.TrimSpace(line), ";") {
			b.WriteString(strings.TrimSpace(line) + "\n")
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
