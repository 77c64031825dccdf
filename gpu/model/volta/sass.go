package volta

import "fmt"

// Pair is two registers that an instruction names by the first: "R8:R9".
type Pair int

func (p Pair) String() string { return fmt.Sprintf("R%d:R%d", int(p), int(p)+1) }

// Instr is one HMMA.884 with its registers and cycles.
type Instr struct {
	Step
	Number  int  // from 0
	A, B, D Pair // the sums are read from D and written to D
	Reuse   bool // the operands stay in the reuse cache for the next step
	Issue   int  // cycle
	Done    int  // cycle at which the sums are written
	Text    string
	Seen    int // cycle at which the first Number+1 instructions were seen complete
}

// Listing is the instructions of a product. The registers of row-by-column with
// f32 sums are those of public listings, the others follow the same rule.
func (s Setup) Listing(pace Pace) ([]Instr, error) {
	issues, _, err := Issues(s.Sums, pace)
	if err != nil {
		return nil, err
	}
	seen := Cycles(s.Sums)
	var out []Instr
	for n, step := range HMMA(s.Sums) {
		x := Instr{Step: step, Number: n, Issue: issues[n], Done: issues[n] + s.Sums.Latency(), Seen: seen[n]}
		x.A, x.B = Pair(s.Register("A", step.K.First)), Pair(s.Register("B", step.K.First))
		x.D = Pair(s.Register("D", step.Registers.First))
		x.Reuse = step.Step < s.Sums.Steps()-1
		reuse := ""
		if x.Reuse {
			reuse = ".reuse"
		}
		t := map[Sums]string{F32: "F32", F16: "F16"}[s.Sums]
		word := map[Major]string{Row: "ROW", Column: "COL"}
		x.Text = fmt.Sprintf("HMMA.884.%s.%s.STEP%d R%d, R%d%s.%s, R%d%s.%s, R%d", t, t, step.Step, x.D, x.A, reuse, word[s.A], x.B, reuse, word[s.B], x.D)
		out = append(out, x)
	}
	return out, nil
}

// MemoryStep is how far, in elements of a row-major matrix 16 wide, the first sum
// of each step of a set lies from that of step 0 for one lane.
func (s Setup) MemoryStep() ([]int, error) {
	atom, err := s.Atom()
	if err != nil {
		return nil, err
	}
	c, _ := atom.Operand("C")
	at := func(slot int) int {
		x := c.Layout.Index(0, slot)
		return x[0]*Size + x[1]
	}
	var out []int
	for _, step := range HMMA(s.Sums)[:s.Sums.Steps()] {
		out = append(out, at(step.Registers.First)-at(0))
	}
	return out, nil
}
