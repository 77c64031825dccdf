package volta

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// setups are all ways that matrices can lie, with both kinds of sums.
func setups() []Setup {
	var out []Setup
	for i := range 16 {
		out = append(out, Setup{Sums: Sums(i & 1), A: Major(i >> 1 & 1), B: Major(i >> 2 & 1), C: Major(i >> 3)})
	}
	return out
}

func product(a, b, c Matrix) Matrix {
	for i := range Size {
		for j := range Size {
			for k := range Size {
				c[i][j] += a[i][k] * b[k][j]
			}
		}
	}
	return c
}

func mustRun(t *testing.T, s Setup, a, b, c Matrix) *Run {
	t.Helper()
	r, err := New(s, "", a, b, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestIntegers multiplies small integers, where no way to add can be wrong, with
// matrices that lie in every way.
func TestIntegers(t *testing.T) {
	a, b, c := Integers()
	for _, s := range setups() {
		for _, s.Numerics = range AllNumerics() {
			if r := mustRun(t, s, a, b, c); r.D != product(a, b, c) {
				t.Errorf("%s, %s: %v", s, s.Numerics, r.D)
			}
		}
	}
}

// TestEachOnce has every one of the 4096 multiply-adds happen once, on the operands
// that it names, in units that take one row a cycle.
func TestEachOnce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var a, b, c Matrix
	for i := range Size {
		for j := range Size {
			a[i][j], b[i][j], c[i][j] = float64(rnd.IntN(9)-4), float64(rnd.IntN(9)-4), float64(rnd.IntN(9)-4)
		}
	}
	for _, s := range setups() {
		r := mustRun(t, s, a, b, c)
		done := map[[3]int]int{}
		for n := range r.Instrs {
			dots := r.Of(n)
			if want := 64; s.Sums == F32 && len(dots) != want || s.Sums == F16 && len(dots) != 2*want {
				t.Errorf("%s: instruction %d has %d sums", s, n, len(dots))
			}
			busy := map[[3]int]bool{}
			for _, d := range dots {
				at := [3]int{d.Threadgroup(), d.Unit, d.Turn}
				if busy[at] || d.Turn >= s.Sums.Feed() {
					t.Errorf("%s: instruction %d: unit %v is busy", s, n, at)
				}
				busy[at] = true
				for k := range 4 {
					done[[3]int{d.Row, d.Column, d.K + k}]++
					if d.A[k] != a[d.Row][d.K+k] || d.B[k] != b[d.K+k][d.Column] {
						t.Fatalf("%s: D[%d,%d] is made of other operands", s, d.Row, d.Column)
					}
				}
				if d.Lane/4 != d.Threadgroup() {
					t.Errorf("%s: threadgroup %d adds to a sum of lane %d", s, d.Threadgroup(), d.Lane)
				}
				in := r.Instrs[n]
				if g := s.Register("D", d.Slot); g < int(in.D) || g > int(in.D)+1 {
					t.Errorf("%s: %s adds to R%d", s, in.Text, g)
				}
			}
		}
		if len(done) != 4096 {
			t.Errorf("%s: %d multiply-adds", s, len(done))
		}
		for at, n := range done {
			if n != 1 {
				t.Fatalf("%s: %v happens %d times", s, at, n)
			}
		}
	}
}

// TestExact rounds once: against sums of 600 bits.
func TestExact(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, sums := range []Sums{F32, F16} {
		var a, b, c Matrix
		for i := range Size {
			for j := range Size {
				a[i][j], b[i][j], c[i][j] = rnd.NormFloat64(), rnd.NormFloat64()*math.Ldexp(1, rnd.IntN(8)-8), rnd.NormFloat64()
			}
		}
		r := mustRun(t, Setup{Sums: sums, Numerics: Exact}, a, b, c)
		for i := range Size {
			for j := range Size {
				total := fixed(r.C[i][j])
				for k := range Size {
					total.Add(total, fixed(r.A[i][k]*r.B[k][j]))
				}
				if want := sums.Round(float(total)); r.D[i][j] != want {
					t.Errorf("%s: D[%d,%d] is %x, want %x", sums, i, j, r.D[i][j], want)
				}
			}
		}
		if v := mustRun(t, Setup{Sums: sums}, a, b, c); v.D == r.D {
			t.Errorf("%s: V100 cuts nothing", sums)
		}
	}
}

// TestLoads are the moves of public listings: two of 128 bits, or four of 64.
func TestLoads(t *testing.T) {
	for _, x := range []struct {
		s       Setup
		matrix  string
		bytes   int
		offsets []int
	}{
		{Setup{A: Row}, "A", 16, []int{0, 16}},
		{Setup{A: Column}, "A", 8, []int{0, 128, 256, 384}},
		{Setup{B: Column}, "B", 16, []int{0, 16}},
		{Setup{B: Row}, "B", 8, []int{0, 128, 256, 384}},
		{Setup{}, "C", 8, []int{0, 128, 16, 144}},
		{Setup{Sums: F16}, "D", 16, []int{0}},
	} {
		moves, err := x.s.Moves(x.matrix, Size)
		if err != nil {
			t.Fatal(err)
		}
		lanes := map[int][]int{}
		times := map[Cell]int{}
		for _, m := range moves {
			lanes[m.Lane] = append(lanes[m.Lane], m.Offset)
			if m.Bytes != x.bytes || m.Address%m.Bytes != 0 {
				t.Errorf("%s: %d bytes at %d, want %d", x.matrix, m.Bytes, m.Address, x.bytes)
			}
			for _, c := range m.Cells {
				times[c]++
			}
		}
		for lane, got := range lanes {
			if !slices.Equal(got, x.offsets) {
				t.Errorf("%s of lane %d: %v, want %v", x.matrix, lane, got, x.offsets)
			}
		}
		want := 2
		if x.matrix > "B" {
			want = 1
		}
		if len(times) != 256 {
			t.Errorf("%s: %d elements", x.matrix, len(times))
		}
		for c, n := range times {
			if n != want {
				t.Errorf("%s is moved %d times, want %d", c, n, want)
			}
		}
	}
	for _, ld := range []int{8, 17} {
		if _, err := (Setup{}).Moves("A", ld); err == nil {
			t.Errorf("rows %d apart", ld)
		}
	}
	if _, err := (Setup{}).Moves("E", 16); err == nil {
		t.Error("matrix E")
	}
}

// TestFrames looks at partial sums: a set adds one product of four k to every sum.
func TestFrames(t *testing.T) {
	a, b, c := Integers()
	for _, s := range setups() {
		r := mustRun(t, s, a, b, c)
		for n := range len(r.Instrs) + 1 {
			f, err := r.Frame(n)
			if err != nil {
				t.Fatal(err)
			}
			for i := range Size {
				for j := range Size {
					want := c[i][j]
					for k := range 4 * f.Sets[i][j] {
						want += a[i][k] * b[k][j]
					}
					if f.Sums[i][j] != want {
						t.Fatalf("%s: after %d, sum (%d, %d) is %v, want %v", s, n, i, j, f.Sums[i][j], want)
					}
				}
			}
			for _, d := range f.Dots {
				o := Octets()[d.Octet]
				if f.A[d.Threadgroup()][d.Row%4] != d.A || f.B[d.Octet][d.Column%4] != d.B || d.Row < o.Rows.First {
					t.Fatalf("%s: frame %d: the buffers do not hold what %+v takes", s, n, d)
				}
			}
		}
		if _, err := r.Frame(len(r.Instrs) + 1); err == nil {
			t.Error("a frame too many")
		}
	}
}

// TestEvents follows every event back to loads, in time.
func TestEvents(t *testing.T) {
	a, b, c := Integers()
	for _, s := range setups() {
		for _, pace := range []Pace{Measured, Throughput} {
			r, err := New(s, pace, a, b, c)
			if err != nil {
				t.Fatal(err)
			}
			fed := make([]bool, len(r.Events))
			for i, e := range r.Events {
				if e.ID != i || e.End < e.Start || e.Text == "" || e.Tag.Say() == "" {
					t.Fatalf("%s: %+v", s, e)
				}
				if len(e.From) == 0 && e.What != "load" && e.Instr != 0 {
					t.Errorf("%s: %s comes from nothing", s, e.Text)
				}
				for _, f := range e.From {
					fed[f] = true
					// A pace of full throughput does not wait for sums.
					if f >= i || pace == Measured && r.Events[f].End > e.Start && e.What != "issue" {
						t.Fatalf("%s: %q at %d needs %q, done at %d", s, e.Text, e.Start, r.Events[f].Text, r.Events[f].End)
					}
				}
				if e.Dot >= 0 && (r.Dots[e.Dot].Row != e.Cells[0].Row || r.Dots[e.Dot].Column != e.Cells[0].Col || r.Dots[e.Dot].Instr != e.Instr) {
					t.Fatalf("%s: %q is dot %+v", s, e.Text, r.Dots[e.Dot])
				}
			}
			for i, e := range r.Events {
				if !fed[i] && e.What != "store" && !(e.What == "issue" && e.Instr == len(r.Instrs)-1) {
					t.Errorf("%s: nothing comes of %q", s, e.Text)
				}
			}
			if s.A == Column || s.C == Column {
				continue
			}
			one, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			again, _ := New(s, pace, a, b, c)
			if two, _ := json.Marshal(again); !bytes.Equal(one, two) {
				t.Errorf("%s: two streams", s)
			}
		}
	}
}

func TestWho(t *testing.T) {
	a, b, c := Integers()
	r := mustRun(t, Setup{B: Column}, a, b, c)
	for _, x := range []struct {
		lane, register, cycle int
		has                   string
	}{
		{0, 8, 0, "lane 0 loads 8 bytes of C at byte 0"},
		{0, 8, 9, "lane 0 loads"},
		{0, 8, 10, "R8:R9 of lane 0 get D[0,0], D[0,1]"},
		{31, 7, 54, "R6:R7 of lane 31 get D[15,14], D[15,15]"},
		{5, 24, 54, "lane 5 loads 16 bytes of A at byte 288"},
	} {
		e, err := r.Who(x.lane, x.register, x.cycle)
		if err != nil || !strings.Contains(e.Text, x.has) {
			t.Errorf("lane %d R%d cycle %d: %q, %v; want %q", x.lane, x.register, x.cycle, e.Text, err, x.has)
		}
	}
	for _, x := range [][3]int{{0, 0, 54}, {32, 8, 0}, {0, 8, -1}} {
		if e, err := r.Who(x[0], x[1], x[2]); err == nil {
			t.Errorf("%v: %q", x, e.Text)
		}
	}
	e, _ := r.Who(0, 8, 10)
	why := r.Why(e.ID, 2)
	for _, has := range []string{"threadgroup 0", "multiplexer of octet 0 selects threadgroup 0", "lane 0 loads 8 bytes of C"} {
		if !strings.Contains(why, has) {
			t.Errorf("why does not say %q:\n%s", has, why)
		}
	}
	if h := r.History(3, 9); len(h) != 4 || h[3].Sum.Result != r.D[3][9] {
		t.Errorf("history of (3, 9): %+v", h)
	}
}

// TestPace is the totals: as measured, and what the datapath allows.
func TestPace(t *testing.T) {
	for _, x := range []struct {
		sums  Sums
		pace  Pace
		total int
	}{{F32, Measured, 54}, {F16, Measured, 64}, {F32, Throughput, 40}, {F16, Throughput, 40}} {
		if _, total, err := Issues(x.sums, x.pace); err != nil || total != x.total {
			t.Errorf("%s %s: %d, %v", x.sums, x.pace, total, err)
		}
		if x.sums.Latency() != Cycles(x.sums)[0] {
			t.Errorf("%s: latency %d", x.sums, x.sums.Latency())
		}
	}
	if _, _, err := Issues(F32, "slow"); err == nil {
		t.Error("pace slow")
	}
}

func TestListing(t *testing.T) {
	list, err := Setup{B: Column}.Listing("")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{
		0:  "HMMA.884.F32.F32.STEP0 R8, R24.reuse.ROW, R16.reuse.COL, R8",
		7:  "HMMA.884.F32.F32.STEP3 R6, R26.ROW, R18.COL, R6",
		10: "HMMA.884.F32.F32.STEP2 R4, R20.reuse.ROW, R12.reuse.COL, R4",
	} {
		if list[n].Text != want {
			t.Errorf("%d: %s, want %s", n, list[n].Text, want)
		}
	}
}

func TestGenerations(t *testing.T) {
	list, err := Generations()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Generation{
		{Name: "Volta", Count: 16, PerSM: 512, BytesA: 1024, BytesB: 1024},
		{Name: "Turing", Count: 4, PerSM: 512, BytesA: 512, BytesB: 512},
		{Name: "Ampere", Count: 2, PerSM: 1024, BytesA: 512, BytesB: 512},
		{Name: "Hopper", Count: 0.25, PerSM: 2048, BytesA: 512, BytesB: 0},
	} {
		g := list[i]
		if g.Name != want.Name || g.Count != want.Count || g.PerSM != want.PerSM || g.BytesA != want.BytesA || g.BytesB != want.BytesB {
			t.Errorf("%+v, want %+v", g, want)
		}
	}
	if v := V100Machine.Teraflops(); math.Abs(v-125.34) > 0.005 {
		t.Error(v)
	}
}

func TestBadInput(t *testing.T) {
	a, b, c := Integers()
	a[3][4] = math.Inf(1)
	if _, err := New(Setup{}, "", a, b, c); err == nil || !strings.Contains(err.Error(), "A[3,4]") {
		t.Error(err)
	}
	a[3][4] = 0
	if _, err := New(Setup{Numerics: "fast"}, "", a, b, c); err == nil {
		t.Error("numerics fast")
	}
	if _, err := New(Setup{}, "slow", a, b, c); err == nil {
		t.Error("pace slow")
	}
	// Sums of f16 may overflow: that is a result, not an error.
	a[0][0], b[0][0] = 60000, 60000
	if r := mustRun(t, Setup{Sums: F16}, a, b, c); !math.IsInf(r.D[0][0], 1) {
		t.Error(r.D[0][0])
	} else if raw, err := json.Marshal(r); err != nil || !bytes.Contains(raw, []byte(`"+Inf"`)) {
		t.Error(err)
	}
}

func TestParseSetup(t *testing.T) {
	s, err := ParseSetup("fp16", "col.row.col", "exact")
	if want := (Setup{Sums: F16, A: Column, B: Row, C: Column, Numerics: Exact}); err != nil || s != want {
		t.Errorf("%+v, %v", s, err)
	}
	for _, x := range [][3]string{{"tf32", "row.col", ""}, {"mixed", "row", ""}, {"mixed", "row.diag", ""}, {"mixed", "row.col.row.col", ""}, {"mixed", "row.col", "fast"}} {
		if s, err := ParseSetup(x[0], x[1], x[2]); err == nil {
			t.Errorf("%v is %+v", x, s)
		}
	}
}
