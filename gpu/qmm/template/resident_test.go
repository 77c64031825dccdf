package template

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// assembled is what ptxas makes of a program for sm_90a, of layers of whole tiles.
func assembled(t *testing.T, program *ir.Program) (need.Code, error) {
	t.Helper()
	c, err := compile.Program(program, compile.Options{Arch: "sm_90a", Divisible: map[string]int64{"N": 128, "K": 128}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.PTX()
	if err != nil {
		t.Fatal(err)
	}
	return need.Assemble(t, "sm_90a", text)
}

// TestResident has ptxas know how many blocks a multiprocessor holds: threads have the
// registers of so many and no more, with which they need no memory of their own, and more of
// them than ptxas takes without knowing.
func TestResident(t *testing.T) {
	for _, c := range []struct {
		types []dtype.Type
		s     Schedule
	}{
		{[]dtype.Type{dtype.U4}, Schedule{Depth: 2, Sides: 2, Parts: 8, Resident: 2}},
		{[]dtype.Type{dtype.I3}, Schedule{Depth: 2, Splits: 2, Parts: 4, Direct: true, Resident: 3}},
		{[]dtype.Type{dtype.F6E3M2, dtype.F6E2M3}, Schedule{Depth: 2, Parts: 4, Resident: 4}},
		{[]dtype.Type{dtype.U1}, Schedule{Warps: 4, Stages: 4, Blocks: 132, Digits: true, Long: true, Resident: 2}},
	} {
		for _, w := range c.types {
			f := Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128}
			p, err := PlanOf(f)
			if err != nil {
				t.Fatal(err)
			}
			if c.s, err = c.s.fill(p); err != nil {
				t.Fatal(err)
			}
			took := func(s Schedule) need.Code {
				s.PDL = true
				program, err := Decode(f, s)
				if err != nil {
					t.Fatal(err)
				}
				made, err := assembled(t, program)
				if err != nil {
					t.Fatal(err)
				}
				return made
			}
			plain := c.s
			plain.Resident = 0
			without, with := took(plain), took(c.s)
			warps := c.s.Resident * (c.s.Warps*max(c.s.Parts, 1) + c.s.extra())
			if room := 65536 / 32 / warps / 8 * 8; with.Spills() > 0 || with.Registers > room || with.Registers < without.Registers {
				t.Errorf("%s, %v: %d registers and %d bytes in memory, of %d registers; %d without", w, c.s, with.Registers, with.Spills(), room, without.Registers)
			}
			t.Logf("%s, %v: %d registers, %d without", w, c.s, with.Registers, without.Registers)
		}
	}
	p, err := PlanOf(Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Schedule{{Resident: -1}, {Parts: 8, Resident: 9}, {Rows: 16, Warps: 4, Stages: 4, Warpgroups: true, Resident: 1}} {
		if _, err := s.Filled(p); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}
