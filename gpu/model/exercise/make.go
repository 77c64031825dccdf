package exercise

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// newOwner asks who holds an element, or what a lane holds.
func newOwner(r *rand.Rand) (*Question, error) {
	setup, err := volta.ParseSetup(pick(r, "mixed", "fp16"), pick(r, "row.col", "row.row", "col.col", "col.row"), "")
	if err != nil {
		return nil, err
	}
	atom, err := setup.Atom()
	if err != nil {
		return nil, err
	}
	matrix := pick(r, "A", "B", "D")
	o, ok := atom.Operand(matrix)
	if !ok {
		return nil, fmt.Errorf("no operand %s", matrix)
	}
	l := o.Layout
	q := &Question{}
	if r.IntN(3) == 0 {
		lane, slot := r.IntN(32), r.IntN(l.Slots())
		at := l.Index(lane, slot)
		q.Text = fmt.Sprintf("In the product %s on Volta, which element of %s does lane %d hold in slot %d of its fragment?", setup, matrix, lane, slot)
		q.Form = `an answer is "row, column"`
		q.answer = fmt.Sprintf("%d, %d", at[0], at[1])
		q.why = fmt.Sprintf("lane %d is at place %d of threadgroup %d, in octet %d; its slot %d is %s[%d,%d] in R%d", lane, lane%4, lane/4, lane/4%4, slot, matrix, at[0], at[1], setup.Register(matrix, slot))
		q.grade = func(answer string) (Verdict, error) {
			n := numbers(answer)
			if len(n) != 2 || n[0] >= volta.Size || n[1] >= volta.Size {
				return Verdict{}, fmt.Errorf("%.40q is no element", answer)
			}
			if n[0] == at[0] && n[1] == at[1] {
				return Verdict{true, q.why}, nil
			}
			return Verdict{Say: fmt.Sprintf("%s[%d,%d] is %s", matrix, n[0], n[1], holders(l, n[0], n[1]))}, nil
		}
		return q, nil
	}
	row, col := r.IntN(volta.Size), r.IntN(volta.Size)
	var want []int
	for _, h := range l.Holders(row, col) {
		want = append(want, h.Thread)
	}
	slices.Sort(want)
	q.Text = fmt.Sprintf("In the product %s on Volta, which lanes hold %s[%d,%d]?", setup, matrix, row, col)
	q.Form = "an answer is the numbers of all lanes that hold it"
	q.answer = strings.Trim(strings.ReplaceAll(fmt.Sprint(want), " ", ", "), "[]")
	q.why = fmt.Sprintf("%s[%d,%d] is %s", matrix, row, col, holders(l, row, col))
	switch {
	case matrix == "A":
		q.why += "; an element of A is held twice, by lane and lane xor 8, which are in octets of the same rows"
	case matrix == "B":
		q.why += "; an element of B is held twice, by lane and lane xor 4, which are in octets of the same columns"
	}
	q.grade = func(answer string) (Verdict, error) {
		n := numbers(answer)
		slices.Sort(n)
		n = slices.Compact(n)
		if len(n) == 0 || n[len(n)-1] > 31 {
			return Verdict{}, fmt.Errorf("%.40q is no list of lanes", answer)
		}
		if slices.Equal(n, want) {
			return Verdict{true, q.why}, nil
		}
		for _, lane := range n {
			if !slices.Contains(want, lane) {
				rows, cols := map[int]bool{}, map[int]bool{}
				for s := range l.Slots() {
					at := l.Index(lane, s)
					rows[at[0]], cols[at[1]] = true, true
				}
				return Verdict{Say: fmt.Sprintf("lane %d holds rows %s and columns %s of %s", lane, list(rows), list(cols), matrix)}, nil
			}
		}
		return Verdict{Say: "what you name holds it, but it does so not alone"}, nil
	}
	return q, nil
}

func list(set map[int]bool) string {
	var all []int
	for n := range set {
		all = append(all, n)
	}
	slices.Sort(all)
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(all), " ", ", "), "[]")
}

func holders(l layout.Layout, row, col int) string {
	var s []string
	for _, h := range l.Holders(row, col) {
		s = append(s, fmt.Sprintf("lane %d, slot %d", h.Thread, h.Slot))
	}
	return "in " + strings.Join(s, " and in ")
}

// newSwizzle asks for a swizzle of a tile of halves that is stored by rows and read
// by ldmatrix.
func newSwizzle(r *rand.Rand) (*Question, error) {
	row := pick(r, 32, 64, 128, 256)
	store := bank.Access{Kind: bank.Store, Width: 16}
	read := bank.Access{Kind: bank.LdMatrix, Width: 16}
	for lane := range 32 {
		store.Addrs = append(store.Addrs, 16*lane)
		// Matrix m of four is rows 0–7 or 8–15 of chunk 0 or 1.
		read.Addrs = append(read.Addrs, (lane%16)*row+lane/16*16)
	}
	cost := func(s layout.Swizzle) (waves, ideal int, err error) {
		for _, a := range []bank.Access{store, read} {
			b := a
			b.Addrs = nil
			for _, x := range a.Addrs {
				b.Addrs = append(b.Addrs, s.Apply(x))
			}
			rep, err := bank.Count(bank.Nvidia(), b)
			if err != nil {
				return 0, 0, err
			}
			waves, ideal = waves+rep.Wavefronts, ideal+rep.Ideal
		}
		return waves, ideal, nil
	}
	plain, ideal, err := cost(layout.Swizzle{})
	if err != nil {
		return nil, err
	}
	// Fewest bits first, then the shortest shift.
	var best *layout.Swizzle
	for bits := 1; bits <= 3 && best == nil; bits++ {
		for shift := bits; shift <= 6 && best == nil; shift++ {
			s := layout.Swizzle{Bits: bits, Base: 4, Shift: shift}
			if n, _, err := cost(s); err != nil {
				return nil, err
			} else if n == ideal {
				best = &s
			}
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no swizzle serves rows of %d bytes", row)
	}
	q := &Question{
		Text: fmt.Sprintf("A tile of 16 rows of %d bytes lies in shared memory. A warp stores it row after row, 16 bytes a lane, and reads it with ldmatrix.x4: lane l gives the address of row l mod 16, chunk l div 16. As it lies this takes %d wavefronts instead of %d. Which swizzle on byte addresses makes both accesses free of conflicts?", row, plain, ideal),
		Form: "an answer is B, M, S of Swizzle<B,M,S>: B bits from bit M+S are XORed onto those from bit M",
	}
	q.answer = fmt.Sprintf("%d, %d, %d", best.Bits, best.Base, best.Shift)
	q.why = fmt.Sprintf("%s needs %d wavefronts, the fewest there can be: eight rows of the same chunk land in eight different groups of banks", best, ideal)
	q.grade = func(answer string) (Verdict, error) {
		n := numbers(answer)
		if len(n) != 3 {
			return Verdict{}, fmt.Errorf("%.40q is not three numbers", answer)
		}
		if strings.Contains(answer, "-") {
			n[2] = -n[2]
		}
		s, err := layout.NewSwizzle(n[0], n[1], n[2])
		if err != nil {
			return Verdict{}, err
		}
		if s.Base < 4 && s.Bits > 0 {
			return Verdict{Say: fmt.Sprintf("%s moves bytes within a group of 16, which a lane wants in one piece", s)}, nil
		}
		waves, _, err := cost(s)
		if err != nil {
			return Verdict{}, err
		}
		if waves > ideal {
			return Verdict{Say: fmt.Sprintf("with %s it takes %d wavefronts", s, waves)}, nil
		}
		say := fmt.Sprintf("with %s it takes %d wavefronts, the fewest there can be", s, waves)
		if s.Bits > best.Bits {
			say += fmt.Sprintf("; B = %d would do", best.Bits)
		}
		return Verdict{true, say}, nil
	}
	return q, nil
}

// newMask asks for a mask of as many units that lets a kernel end as early as it can.
func newMask(r *rand.Rand) (*Question, error) {
	m := dispatch.RadeonVII()
	n := 5 + r.IntN(50)
	k := dispatch.Kernel{Name: "k", Blocks: 64 * (2 + r.IntN(12)), Threads: 1024, Ticks: 1}
	ticks := func(mask dispatch.Mask) (int, error) {
		k := k
		k.Mask = mask
		return dispatch.Makespan(m, k, dispatch.Options{})
	}
	packed, err := ticks(m.Packed(n))
	if err != nil {
		return nil, err
	}
	// Only how many units each engine has matters; and in which order does not.
	best, bestMask := packed, m.Packed(n)
	var counts [4]int
	var try func(engine, left int) error
	try = func(engine, left int) error {
		if engine == 3 {
			if left > m.CUs || engine > 0 && left > counts[2] {
				return nil
			}
			counts[3] = left
			mask := make(dispatch.Mask, 4)
			for i, c := range counts {
				mask[i] = 1<<c - 1
			}
			t, err := ticks(mask)
			if err == nil && t < best {
				best, bestMask = t, mask
			}
			return err
		}
		most := min(left, m.CUs)
		if engine > 0 {
			most = min(most, counts[engine-1])
		}
		for c := 0; c <= most; c++ {
			counts[engine] = c
			if err := try(engine+1, left-c); err != nil {
				return err
			}
		}
		return nil
	}
	if err := try(0, n); err != nil {
		return nil, err
	}
	hip, err := hipMask(m, bestMask)
	if err != nil {
		return nil, err
	}
	low, err := hipMask(m, m.Packed(n))
	if err != nil {
		return nil, err
	}
	q := &Question{
		Text: fmt.Sprintf("On a Radeon VII, 4 shader engines of 15 compute units, a kernel of %d blocks of 1024 work-items may use %d units: the mask %s, which is %v units by engine. It takes %d ticks. Which mask of %d units lets it end earliest?", k.Blocks, n, low, m.Packed(n).Count(), packed, n),
		Form: "an answer is a mask as HIP takes it, such as 0x1f, or the units of each engine, such as 4 4 4 3",
	}
	q.answer = hip
	q.why = fmt.Sprintf("%v units by engine are as good as %d to a dealer that goes in order, and take %d ticks; no mask of %d units takes fewer", bestMask.Count(), bestMask.Balanced(), best, n)
	q.grade = func(answer string) (Verdict, error) {
		mask, err := readMask(m, answer)
		if err != nil {
			return Verdict{}, err
		}
		have := 0
		for _, c := range mask.Count() {
			have += c
		}
		if have != n {
			return Verdict{Say: fmt.Sprintf("that mask has %d units, %v by engine; it must have %d", have, mask.Count(), n)}, nil
		}
		// The simulation grades; the formula only found what is best.
		k := k
		k.Mask = mask
		res, err := dispatch.Run(dispatch.Scenario{Machine: m, Options: dispatch.Options{Events: -1}, Queues: []dispatch.Queue{{Name: "q", Commands: []dispatch.Command{{Kernel: &k}}}}})
		if err != nil {
			return Verdict{}, err
		}
		say := fmt.Sprintf("%v units by engine take %d ticks", mask.Count(), res.Ticks)
		if res.Ticks > best {
			return Verdict{Say: fmt.Sprintf("%s, as good as %d units", say, mask.Balanced())}, nil
		}
		return Verdict{true, say + ", and no mask of as many takes fewer"}, nil
	}
	return q, nil
}

// hipMask is a mask as HIP takes it: bit i is unit i div 4 of engine i mod 4.
func hipMask(m dispatch.Machine, mask dispatch.Mask) (string, error) {
	words := make([]uint32, 2)
	for i := range m.SEs * m.CUs {
		if mask[i%m.SEs]>>(i/m.SEs)&1 == 1 {
			words[i/32] |= 1 << (i % 32)
		}
	}
	// What the driver makes of it must be the mask again.
	se, err := m.MapCUMask(words, dispatch.MapOptions{})
	if err != nil {
		return "", err
	}
	if !slices.Equal(m.FromSEMask(se), mask) {
		return "", fmt.Errorf("the mask %v does not come back", mask)
	}
	return dispatch.FormatMask(words), nil
}

func readMask(m dispatch.Machine, answer string) (dispatch.Mask, error) {
	if !strings.Contains(strings.ToLower(answer), "0x") {
		n := numbers(answer)
		if len(n) != m.SEs {
			return nil, fmt.Errorf("%.40q is no mask", answer)
		}
		mask := make(dispatch.Mask, m.SEs)
		for i, c := range n {
			if c > m.CUs {
				return nil, fmt.Errorf("an engine has %d units, not %d", m.CUs, c)
			}
			mask[i] = 1<<c - 1
		}
		return mask, nil
	}
	words, err := dispatch.ParseMask(answer)
	if err != nil {
		return nil, err
	}
	se, err := m.MapCUMask(words, dispatch.MapOptions{})
	if err != nil {
		return nil, err
	}
	return m.FromSEMask(se), nil
}
