package volta

import (
	"fmt"
	"math"
	"math/big"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Matrix is a 16×16 matrix of numbers, [row][column].
type Matrix [Size][Size]float64

// Integers are small integers whose sums are exact in every type and way to add:
// the matrices of the facts' product.
func Integers() (a, b, c Matrix) {
	for i := range Size {
		for j := range Size {
			a[i][j] = float64((3*i+5*j)%7 - 3)
			b[i][j] = float64((2*i+3*j)%5 - 2)
			c[i][j] = float64(i - j)
		}
	}
	return a, b, c
}

// Dot is one four-element dot product: a unit adds four products to a sum.
type Dot struct {
	Instr       int // number of the instruction
	Octet       int
	High        bool // in threadgroup x+4
	Unit        int  // of the threadgroup, from 0: the one of its column
	Turn        int  // which row of the step: the cycle in which the unit takes it
	Row, Column int  // of D
	K           int  // the first of four
	Lane, Slot  int  // where the sum lies
	A, B        [4]float64
	C           float64
	Sum         Sum
}

// Threadgroup is the number of the unit's threadgroup.
func (d Dot) Threadgroup() int {
	if d.High {
		return d.Octet + 4
	}
	return d.Octet
}

// Run is one product: everything that happened. It does not change.
type Run struct {
	Setup   Setup
	Pace    Pace
	A, B, C Matrix // as loaded: rounded to their types
	D       Matrix // as stored
	Instrs  []Instr
	Total   int // cycles
	Dots    []Dot
	Events  []Event

	files   [][32][Registers]uint32 // the registers after 0, 1, … instructions
	layouts map[string]layout.Layout
	writers map[[2]int][]int // by lane and register: the events that wrote it, in order
	first   []int            // by instruction: its first dot; one more for the end
}

// New runs D = A·B + C on the model. Matrices are rounded to their types; they
// must be finite.
func New(s Setup, pace Pace, a, b, c Matrix) (*Run, error) {
	if s.Numerics == "" {
		s.Numerics = AsV100
	}
	if pace == "" {
		pace = Measured
	}
	r := &Run{Setup: s, Pace: pace, layouts: map[string]layout.Layout{}, writers: map[[2]int][]int{}}
	atom, err := s.Atom()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"A", "B", "C", "D"} {
		o, _ := atom.Operand(name)
		r.layouts[name] = o.Layout
	}
	if r.Instrs, err = s.Listing(pace); err != nil {
		return nil, err
	}
	if _, r.Total, err = Issues(s.Sums, pace); err != nil {
		return nil, err
	}
	for _, x := range []struct {
		name     string
		from, to *Matrix
		t        dtype.Type
	}{{"A", &a, &r.A, dtype.F16}, {"B", &b, &r.B, dtype.F16}, {"C", &c, &r.C, s.Sums.Type()}} {
		for i, row := range x.from {
			for j, v := range row {
				w := x.t.Decode(x.t.Encode(v, false))
				if math.IsInf(w, 0) || math.IsNaN(w) {
					return nil, fmt.Errorf("volta: %s[%d,%d] is %v, which is no finite %s", x.name, i, j, v, x.t)
				}
				x.to[i][j] = w
			}
		}
	}
	return r, r.run()
}

// run is loads, instructions, store.
func (r *Run) run() error {
	var file [32][Registers]uint32
	t := &teller{r: r}
	for _, m := range []struct {
		name string
		from *Matrix
	}{{"C", &r.C}, {"A", &r.A}, {"B", &r.B}} {
		moves, err := r.Setup.Moves(m.name, Size)
		if err != nil {
			return err
		}
		for _, mv := range moves {
			for i, cell := range mv.Cells {
				r.put(&file, m.name, mv.Lane, mv.Slot+i, m.from[cell.Row][cell.Col])
			}
			t.load(mv)
		}
	}
	r.files = append(r.files, file)
	var exact [Size][Size]*big.Int // whole sums of the exact mode
	if r.Setup.Numerics == Exact {
		for i := range Size {
			for j := range Size {
				exact[i][j] = fixed(r.C[i][j])
			}
		}
	}
	for _, in := range r.Instrs {
		r.first = append(r.first, len(r.Dots))
		for q := range Octets() {
			a, b := r.buffers(&file, in, q)
			r.Dots = append(r.Dots, r.dots(&file, in, q, a, b)...)
		}
		// All units have read their sums before any of them writes one.
		for i := r.first[in.Number]; i < len(r.Dots); i++ {
			d := &r.Dots[i]
			var p []float64
			for k := range 4 {
				p = append(p, d.A[k]*d.B[k])
			}
			var err error
			if d.Sum, err = r.Setup.Numerics.Explain(r.Setup.Sums, d.C, p); err != nil {
				return err
			}
			if e := exact[d.Row][d.Column]; e != nil {
				for _, v := range p {
					e.Add(e, fixed(v))
				}
				d.Sum.Result = r.Setup.Sums.Round(float(e))
			}
			r.put(&file, "D", d.Lane, d.Slot, d.Sum.Result)
		}
		t.instr(in, r.Dots[r.first[in.Number]:])
		r.files = append(r.files, file)
	}
	r.first = append(r.first, len(r.Dots))
	moves, err := r.Setup.Moves("D", Size)
	if err != nil {
		return err
	}
	for _, mv := range moves {
		for i, cell := range mv.Cells {
			r.D[cell.Row][cell.Col] = r.get(&file, "D", mv.Lane, mv.Slot+i)
		}
		t.store(mv)
	}
	r.Events = t.events
	return nil
}

// put and get move one element into and out of a lane's registers.
func (r *Run) put(file *[32][Registers]uint32, matrix string, lane, slot int, v float64) {
	w := &file[lane][r.Setup.Register(matrix, slot)]
	if r.Setup.bytes(matrix) == 4 {
		*w = uint32(dtype.F32.Encode(v, false))
		return
	}
	shift := 16 * (slot % 2)
	*w = *w&^(0xffff<<shift) | uint32(dtype.F16.Encode(v, false))<<shift
}

func (r *Run) get(file *[32][Registers]uint32, matrix string, lane, slot int) float64 {
	w := file[lane][r.Setup.Register(matrix, slot)]
	if r.Setup.bytes(matrix) == 4 {
		return dtype.F32.Decode(uint64(w))
	}
	return dtype.F16.Decode(uint64(w >> (16 * (slot % 2)) & 0xffff))
}

// Buffer is the four by four numbers of an operand that a threadgroup gives to the
// units: of A [row][k], of B [column][k], counted within the threadgroup's.
type Buffer [4][4]float64

// buffers reads the operands of an instruction out of an octet's registers: A of
// each threadgroup, and B of the one that the multiplexer selects.
func (r *Run) buffers(file *[32][Registers]uint32, in Instr, octet int) (a [2]Buffer, b Buffer) {
	o := Octets()[octet]
	for i, lane := range o.Lanes {
		high := i / 4
		for slot := in.K.First; slot <= in.K.Last; slot++ {
			at := r.layouts["A"].Index(lane, slot)
			a[high][at[0]-o.Rows.First-4*high][at[1]-in.K.First] = r.get(file, "A", lane, slot)
			if (high == 1) == in.BFromHigh {
				at = r.layouts["B"].Index(lane, slot)
				b[at[1]-o.Columns.First-4*high][at[0]-in.K.First] = r.get(file, "B", lane, slot)
			}
		}
	}
	return a, b
}

// dots hands rows of A and columns of B to the units of an octet.
func (r *Run) dots(file *[32][Registers]uint32, in Instr, octet int, a [2]Buffer, b Buffer) []Dot {
	o := Octets()[octet]
	var out []Dot
	for high, rows := range []Range{in.Low, in.High} {
		for m := rows.First; m <= rows.Last; m++ {
			for unit := range 4 {
				n := in.Columns.First + unit
				d := Dot{Instr: in.Number, Octet: octet, High: high == 1, Unit: unit, Turn: m - rows.First,
					Row: o.Rows.First + m, Column: o.Columns.First + n, K: in.K.First, A: a[high][m-4*high], B: b[unit]}
				h := r.layouts["D"].Holders(d.Row, d.Column)[0]
				d.Lane, d.Slot = h.Thread, h.Slot
				d.C = r.get(file, "D", d.Lane, d.Slot)
				out = append(out, d)
			}
		}
	}
	return out
}

// Of are the dot products of an instruction, octet after octet.
func (r *Run) Of(instr int) []Dot { return r.Dots[r.first[instr]:r.first[instr+1]] }

// History are the dot products that made an element of D, in order: one of each set.
func (r *Run) History(row, column int) []Dot {
	var out []Dot
	for _, d := range r.Dots {
		if d.Row == row && d.Column == column {
			out = append(out, d)
		}
	}
	return out
}

// Holders are the lanes and slots that hold an element of A, B, C or D.
func (r *Run) Holders(c Cell) []layout.Holder { return r.layouts[c.Matrix].Holders(c.Row, c.Col) }

// Register is what a lane's register holds after so many instructions.
func (r *Run) Register(after, lane, register int) (uint32, error) {
	if after < 0 || after >= len(r.files) || lane < 0 || lane > 31 || register < 0 || register >= Registers {
		return 0, fmt.Errorf("volta: no register R%d of lane %d after %d instructions; there are R0 to R%d, 32 lanes, %d instructions", register, lane, after, Registers-1, len(r.files)-1)
	}
	return r.files[after][lane][register], nil
}

// Sums are the partial sums after so many instructions, where they lie in D.
func (r *Run) Sums(after int) Matrix {
	var m Matrix
	l := r.layouts["D"]
	for lane := range l.Threads() {
		for slot := range l.Slots() {
			at := l.Index(lane, slot)
			m[at[0]][at[1]] = r.get(&r.files[after], "D", lane, slot)
		}
	}
	return m
}

// Frame is the state after some instructions: what a picture shows.
type Frame struct {
	Number int    // instructions that are done
	Instr  *Instr // the last of them; nil before the first
	// A are the operand buffers of the threadgroups, B of the octets; of frame 0 empty.
	A    [8]Buffer
	B    [4]Buffer
	Dots []Dot // of the last instruction
	Sums Matrix
	Sets [Size][Size]int // how many of the four products sets are in a sum
}

// Frame is the state after n instructions, from 0 to all of them.
func (r *Run) Frame(n int) (Frame, error) {
	if n < 0 || n > len(r.Instrs) {
		return Frame{}, fmt.Errorf("volta: no frame %d; there are 0 to %d", n, len(r.Instrs))
	}
	f := Frame{Number: n, Sums: r.Sums(n)}
	for i := range r.first[n] {
		f.Sets[r.Dots[i].Row][r.Dots[i].Column]++
	}
	if n == 0 {
		return f, nil
	}
	in := r.Instrs[n-1]
	f.Instr, f.Dots = &in, r.Of(n-1)
	for q := range 4 {
		var a [2]Buffer
		a, f.B[q] = r.buffers(&r.files[n-1], in, q)
		f.A[q], f.A[q+4] = a[0], a[1]
	}
	return f, nil
}
