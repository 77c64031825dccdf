package exercise

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// claim is a statement that texts make, and a question whose answer shows what is
// wrong with it. right asks the model; it is among the choices.
type claim struct {
	name    string
	says    string
	ask     string
	choices []string
	right   func() (string, error)
	why     string
}

// claims are the statements. Each answer is computed.
func claims() []claim {
	return []claim{
		{"cores", "A Volta SM has two tensor cores.", "How many has it?", []string{"2", "4", "8", "16"},
			func() (string, error) { return fmt.Sprint(volta.V100Machine.CoresPerSM), nil },
			"two is the number of a sub-core (processing block); an SM has four of those"},
		{"loads", "For wmma's A each thread does one load of 128 bits: 32 × 128 bits are 16 × 16 halves.", "How many bytes does a warp load for A, which has 512?", []string{"512", "1024", "2048", "4096"},
			func() (string, error) {
				moves, err := volta.Setup{}.Moves("A", volta.Size)
				n := 0
				for _, m := range moves {
					n += m.Bytes
				}
				return fmt.Sprint(n), err
			}, "each thread does two such loads: two threadgroups hold the same rows, so every element is loaded twice"},
		{"fp16", "The machine code with sums in f16 is the same as with sums in f32.", "How many HMMA, and how many cycles, does a 16×16×16 product with f16 sums take?", []string{"16 in 54", "16 in 64", "8 in 54", "8 in 64"},
			func() (string, error) {
				s := volta.Setup{Sums: volta.F16}
				list, err := s.Listing(volta.Measured)
				c := volta.Cycles(volta.F16)
				return fmt.Sprintf("%d in %d", len(list), c[len(c)-1]), err
			}, "two steps a set instead of four: fewer instructions, each of more work, and more cycles than the 54 with f32 sums"},
		{"rhythm", "After the first 10 cycles each HMMA takes about 2.", "When are all 16 complete?", []string{"40", "42", "54", "64"},
			func() (string, error) { c := volta.Cycles(volta.F32); return fmt.Sprint(c[len(c)-1]), nil },
			"10 + 15 · 2 would be 40; every fourth one takes 2 more, and the last 6 more to drain the pipeline"},
		{"loader", "In steps 0 and 1, threadgroups 0 and 4 share the A that thread 0 loaded.", "Which lanes give octet 0 its columns of B in step 0?", []string{"lane 0", "lanes 0–3", "lanes 0–3 and 16–19", "lanes 16–19"},
			func() (string, error) {
				s := volta.HMMA(volta.F32)[0]
				o := volta.Octets()[0]
				from := o.Lanes[:4]
				if s.BFromHigh {
					from = o.Lanes[4:]
				}
				return fmt.Sprintf("lanes %d–%d", from[0], from[3]), nil
			}, "it is threadgroup 0, four lanes, that loads block A of the paper's letters, and threadgroup 4 that loads E"},
		{"shared", "An octet's threadgroups share a matrix buffer.", "Of which operand?", []string{"A", "B", "C", "A and B"},
			func() (string, error) {
				r, err := integers(volta.F32)
				if err != nil {
					return "", err
				}
				// The one that dot products of both threadgroups of an octet take alike.
				a, b := map[[4]float64]bool{}, map[[4]float64]bool{}
				var rows, cols [2]map[int]bool
				for i := range 2 {
					rows[i], cols[i] = map[int]bool{}, map[int]bool{}
				}
				for _, d := range r.Of(0) {
					if d.Octet != 0 {
						continue
					}
					i := 0
					if d.High {
						i = 1
					}
					rows[i][d.Row], cols[i][d.Column] = true, true
					a[d.A], b[d.B] = true, true
				}
				same := func(x, y map[int]bool) bool {
					for n := range x {
						if !y[n] {
							return false
						}
					}
					return len(x) == len(y)
				}
				var out []string
				if same(rows[0], rows[1]) {
					out = append(out, "A")
				}
				if same(cols[0], cols[1]) {
					out = append(out, "B")
				}
				return strings.Join(out, " and "), nil
			}, "each threadgroup multiplies rows of its own A with the same columns of B; so one B buffer and a multiplexer serve both"},
		{"octets", "D is the sum of what threadgroups 0 and 4 and what threadgroups 2 and 6 make.", "How many octets work for D[0,0]?", []string{"1", "2", "4", "8"},
			func() (string, error) {
				r, err := integers(volta.F32)
				if err != nil {
					return "", err
				}
				seen := map[int]bool{}
				for _, d := range r.History(0, 0) {
					seen[d.Octet] = true
				}
				return fmt.Sprint(len(seen)), nil
			}, "each octet makes an 8×8 quarter of D over all of k; nothing is summed between octets"},
		{"pair", "The first HMMA writes the register pair R8,R7.", "Which pair does it write?", []string{"R7:R8", "R8:R9", "R6:R7", "R8:R7"},
			func() (string, error) {
				list, err := volta.Setup{}.Listing(volta.Measured)
				if err != nil {
					return "", err
				}
				return list[0].D.String(), nil
			}, "a pair begins at an even register and goes up"},
		{"padding", "Padding rows of wmma's A in shared memory removes all bank conflicts, as elsewhere.", "What is the least degree of conflict of a phase, over all paddings of 16 bytes up to 512-byte rows?", []string{"1", "2", "4", "8"},
			func() (string, error) {
				least := 99
				for ld := 16; ld <= 256; ld += 8 {
					worst := 0
					moves, err := volta.Setup{}.Moves("A", ld)
					if err != nil {
						return "", err
					}
					a := bank.Access{Kind: bank.Load, Width: moves[0].Bytes}
					for lane := range 32 {
						a.Addrs = append(a.Addrs, moves[lane*len(moves)/32].Address)
					}
					rep, err := bank.Count(bank.Nvidia(), a)
					if err != nil {
						return "", err
					}
					for _, d := range rep.Degrees() {
						worst = max(worst, d)
					}
					least = min(least, worst)
				}
				return fmt.Sprint(least), nil
			}, "a phase holds rows r to r+3 and r+8 to r+11: two sets of rows that no multiple of 16 bytes tells apart"},
		{"both", "Padding and a swizzle help twice.", "Rows of 144 bytes read by ldmatrix have no conflicts. What is the degree with Swizzle<3,4,3> on top?", []string{"1", "2", "4", "8"},
			func() (string, error) {
				a := bank.Access{Kind: bank.LdMatrix, Width: 16}
				s := layout.Swizzle{Bits: 3, Base: 4, Shift: 3}
				for i := range 8 {
					a.Addrs = append(a.Addrs, s.Apply(144*i))
				}
				rep, err := bank.Count(bank.Nvidia(), a)
				if err != nil {
					return "", err
				}
				return fmt.Sprint(rep.Degrees()[0]), nil
			}, "both shift a row by one chunk against the one before, in opposite directions: together they undo each other"},
		{"bms", "A swizzle of <B,M,S> has 2^B rows, 2^S columns and groups of 2^M elements, whatever B and S are.", "How many address bits does Swizzle<2,4,3> change?", []string{"2", "3", "4", "7"},
			func() (string, error) {
				s := layout.Swizzle{Bits: 2, Base: 4, Shift: 3}
				changed := 0
				for i := range 1 << 12 {
					changed |= i ^ s.Apply(i)
				}
				n := 0
				for ; changed > 0; changed >>= 1 {
					n += changed & 1
				}
				return fmt.Sprint(n), nil
			}, "B counts the bits that are XORed; S is only how far away those are that they are XORed with, at least B"},
		{"column", "In TMA's 128-byte swizzle, swz_y16 = y16 ^ x16 and x stays.", "What does the swizzle change of a chunk's place?", []string{"its row", "its column", "both", "neither"},
			func() (string, error) {
				m, err := bank.FindTMAMode("128B")
				if err != nil {
					return "", err
				}
				row, column := false, false
				for a := 0; a < m.Repeat; a += 16 {
					b := m.Apply(a)
					row, column = row || a/128 != b/128, column || a%128 != b%128
				}
				switch {
				case row && column:
					return "both", nil
				case row:
					return "its row", nil
				case column:
					return "its column", nil
				}
				return "neither", nil
			}, "the names have changed places: the column becomes y16 ^ x16, and the row stays"},
		{"talk", "The formula of the talk for TMA's swizzled column holds for every row length.", "In a tile of 64 columns of 4 bytes, rows of 256 bytes, 8 rows: for how many of the 512 elements is it wrong?", []string{"0", "64", "256", "512"},
			func() (string, error) {
				m, err := bank.FindTMAMode("128B")
				if err != nil {
					return "", err
				}
				wrong := 0
				for y := range 8 {
					for x := range 64 {
						if (m.Apply((y*64+x)*4)/4)%64 != bank.TalkFormula(4, 64, x, y, true) {
							wrong++
						}
					}
				}
				return fmt.Sprint(wrong), nil
			}, "it holds where a row is as wide as the mode; wider tiles are cut into boxes of 128 bytes"},
		{"sixteenth", "A kernel with one more compute unit is never slower.", "1024 blocks on 15 units of one shader engine take 35 ticks. And with one unit of a second engine as well?", []string{"33", "35", "64", "256"},
			func() (string, error) {
				s, err := dispatch.StairAt(dispatch.RadeonVII(), dispatch.Kernel{Name: "k", Blocks: 1024, Threads: 1024, Ticks: 1}, dispatch.Options{}, 16)
				return fmt.Sprint(s.Packed), err
			}, "blocks are dealt to engines in turn, so half of them go to the single unit of the second"},
		{"pool", "ROCm has four hardware queues for a process.", "Five streams of normal and five of high priority: how many HSA queues do they get?", []string{"4", "8", "10", "2"},
			func() (string, error) {
				p := dispatch.NewPool(dispatch.ROCm6, 0)
				seen := map[*dispatch.PoolQueue]bool{}
				for i := range 10 {
					q, err := p.Create(fmt.Sprint("s", i), []dispatch.Priority{dispatch.Normal, dispatch.High}[i%2], false, false)
					if err != nil {
						return "", err
					}
					seen[q] = true
				}
				return fmt.Sprint(len(seen)), nil
			}, "the limit of four is for each priority; masked and cooperative streams come on top"},
		{"wait", "Block 1 may wait for block 0, so blocks may wait for each other.", "There is room for one block. Which of these ends?", []string{"block 1 waits for block 0", "block 0 waits for block 1", "both", "neither"},
			func() (string, error) {
				ends := map[string]bool{}
				for _, name := range []string{"wait-lower", "deadlock"} {
					x, err := dispatch.FindExample(name)
					if err != nil {
						return "", err
					}
					r, err := x.Program.Run()
					if err != nil {
						return "", err
					}
					ends[name] = r.Deadlock == nil
				}
				switch {
				case ends["wait-lower"] && ends["deadlock"]:
					return "both", nil
				case ends["wait-lower"]:
					return "block 1 waits for block 0", nil
				case ends["deadlock"]:
					return "block 0 waits for block 1", nil
				}
				return "neither", nil
			}, "only a block of a lower flattened number is sure to have started; that is why blocks are dealt in order"},
		{"bits", "The mask 0x11111111 spreads 8 compute units over the GPU.", "On 4 shader engines, how many units does each get?", []string{"2 2 2 2", "8 0 0 0", "1 1 1 1", "4 4 0 0"},
			func() (string, error) {
				m := dispatch.RadeonVII()
				words, err := dispatch.ParseMask("0x11111111")
				if err != nil {
					return "", err
				}
				se, err := m.MapCUMask(words, dispatch.MapOptions{})
				if err != nil {
					return "", err
				}
				return strings.Trim(fmt.Sprint(m.FromSEMask(se).Count()), "[]"), nil
			}, "bit i is a unit of engine i mod 4, and 0, 4, 8 … are all of engine 0"},
		{"deps", "A barrier packet waits for any number of signals.", "A launch waits for seven events. How many barrier packets stand before it?", []string{"1", "2", "5", "7"},
			func() (string, error) {
				return fmt.Sprint(len(dispatch.WaitPackets([]uint64{1, 2, 3, 4, 5, 6, 7}, 0))), nil
			}, "a packet of 64 bytes has room for five signals"},
	}
}

func integers(sums volta.Sums) (*volta.Run, error) {
	a, b, c := volta.Integers()
	return volta.New(volta.Setup{Sums: sums}, volta.Measured, a, b, c)
}

// Claims are the names of the statements that [Mistake] asks about, for choosing one
// with [NewMistake].
func Claims() []string {
	var out []string
	for _, c := range claims() {
		out = append(out, c.name)
	}
	return out
}

// NewMistake asks about the statement of that name.
func NewMistake(name string) (*Question, error) {
	for i, c := range claims() {
		if c.name == name {
			q, err := c.question(rand.New(rand.NewPCG(uint64(i), 0x7e12)))
			if err != nil {
				return nil, fmt.Errorf("exercise: %s: %w", name, err)
			}
			q.Kind = Mistake
			return q, nil
		}
	}
	return nil, fmt.Errorf("exercise: no statement %.40q; there are %s", name, strings.Join(Claims(), ", "))
}

func newMistake(r *rand.Rand) (*Question, error) {
	list := claims()
	return list[r.IntN(len(list))].question(r)
}

func (c claim) question(r *rand.Rand) (*Question, error) {
	right, err := c.right()
	if err != nil {
		return nil, err
	}
	choices := append([]string(nil), c.choices...)
	r.Shuffle(len(choices), func(i, j int) { choices[i], choices[j] = choices[j], choices[i] })
	at := -1
	for i, x := range choices {
		if x == right {
			at = i
		}
	}
	if at < 0 {
		return nil, fmt.Errorf("the model says %q, which is no choice of %q", right, c.name)
	}
	q := &Question{
		Text:    fmt.Sprintf("A text says: “%s” It is not so. %s", c.says, c.ask),
		Choices: choices,
		Form:    fmt.Sprintf("an answer is a letter from a to %c", 'a'+len(choices)-1),
		answer:  string(rune('a' + at)),
		why:     fmt.Sprintf("%s: %s", right, c.why),
	}
	q.grade = func(answer string) (Verdict, error) {
		n, err := letter(answer, len(choices))
		if err != nil {
			return Verdict{}, err
		}
		if n == at {
			return Verdict{true, q.why}, nil
		}
		return Verdict{Say: fmt.Sprintf("the model says something else than %s", choices[n])}, nil
	}
	return q, nil
}
