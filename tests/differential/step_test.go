package differential

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/launch"
	"github.com/tilus-lab/tilus-lab/vm/debug"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// stepper is a session on the simulator.
func stepper(t *testing.T, l Launch) *debug.Session {
	t.Helper()
	m, err := launch.Step(l.Target("sm_80"), l.Program, l.Args)
	if err != nil {
		t.Errorf("%s: %v", l.Name, err)
		return nil
	}
	return debug.On(m)
}

// TestSteppingIsARun runs the corpus on the simulator statement by statement: it ends
// with what a run gives, and goes through the statements that the interpreter goes
// through, with the same values of variables, bit for bit.
func TestSteppingIsARun(t *testing.T) {
	interp := open(t, "interp")
	for _, l := range launches(t) {
		s := stepper(t, l)
		if s == nil {
			continue
		}
		// Groups and clusters take turns in an order of each machine's own.
		alone := len(l.Program.Cluster) == 0
		l.Program.Body.Walk(func(x ir.Stmt) bool {
			_, group := x.(*ir.Group)
			alone = alone && !group
			return true
		})
		var other *debug.Session
		if alone {
			var err error
			if other, err = debug.New(l.Program, l.Args); err != nil {
				t.Fatal(err)
			}
		}
		for n := 0; ; n++ {
			if other != nil && (s.Position() != other.Position() || s.Machine().BlockIndex() != other.Machine().BlockIndex()) {
				t.Errorf("%s, step %d: at %v of block %v, the interpreter at %v of %v", l.Name, n, s.Position(), s.Machine().BlockIndex(), other.Position(), other.Machine().BlockIndex())
				break
			}
			if other != nil && (n < 24 || n < 600 && n%40 == 0) {
				if d := differ(s, other); d != "" {
					t.Errorf("%s, step %d, %v: %s", l.Name, n, s.Position(), d)
					break
				}
			}
			why := s.In(t.Context())
			if other != nil {
				other.In(t.Context())
			}
			if why == debug.Stepped {
				continue
			}
			if why != debug.Terminated {
				t.Errorf("%s: %s at %v: %v", l.Name, why, s.Position(), s.Err())
				break
			}
			if other != nil {
				same(t, l, "stepping", s.Machine().Args(), other.Machine().Args())
				break
			}
			res, err := interp.Run(t.Context(), l.Program, l.Args)
			if err != nil {
				t.Fatal(err)
			}
			same(t, l, "stepping", s.Machine().Args(), res.Args)
			break
		}
	}
}

// differ compares the variables that both machines have.
func differ(a, b *debug.Session) string {
	have := map[*ir.Var]debug.Variable{}
	for _, v := range a.Variables() {
		have[v.Var] = v
	}
	for _, v := range b.Variables() {
		x, ok := have[v.Var]
		if !ok {
			continue
		}
		// An argument of the interpreter is not yet rounded to its type.
		if e := v.Var.Type.Elem; x.Int != v.Int || v.Var.Type.Kind == ir.Scalar && e.IsFloat() && e.Encode(x.Float, false) != e.Encode(v.Float, false) {
			return fmt.Sprintf("%s is %d %v, the interpreter's %d %v", v.Var.Name, x.Int, x.Float, v.Int, v.Float)
		}
		if v.Tile == nil {
			continue
		}
		for k := range v.Tile.Len() {
			if x.Tile.Code(k) != v.Tile.Code(k) {
				return fmt.Sprintf("element %d of %s is %#x, the interpreter's %#x", k, v.Var.Name, x.Tile.Code(k), v.Tile.Code(k))
			}
		}
	}
	return ""
}

// TestSteppingFindsPlantedBugs stops at each bug that the simulator finds. Threads take
// turns by statement, so that where several things are wrong another one than in a run
// may come first.
func TestSteppingFindsPlantedBugs(t *testing.T) {
	bugs, err := Bugs()
	if err != nil {
		t.Fatal(err)
	}
	all, exact := 0, 0
	for _, l := range bugs {
		want := map[string]int{}
		for i, line := range strings.Split(l.Program.Source, "\n") {
			_, list, _ := strings.Cut(line, "// want ")
			for _, code := range strings.Fields(list) {
				if strings.HasPrefix(code, "Sim.") {
					want[code] = i + 1
				}
			}
		}
		if len(want) == 0 {
			continue
		}
		all++
		s := stepper(t, l)
		if s == nil {
			continue
		}
		why := s.Continue(t.Context())
		var list diag.List
		if why != debug.Fault || !errors.As(s.Err(), &list) || !strings.HasPrefix(list[0].Code, "Sim.") || s.Position().Line == 0 {
			t.Errorf("%s: %s at line %d: %v, not %v", l.Name, why, s.Position().Line, s.Err(), want)
			continue
		}
		if want[list[0].Code] == s.Position().Line {
			exact++
		} else {
			t.Logf("%s: %v, not %v", l.Name, s.Err(), want)
		}
		if s.Back(); s.Err() != nil {
			t.Errorf("%s: back from the bug: %v", l.Name, s.Err())
		}
	}
	if exact < all*3/4 {
		t.Errorf("%d of %d bugs at the line and with the code of a run", exact, all)
	}
}
