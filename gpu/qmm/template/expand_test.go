package template

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestExpands holds that what is said to hold all weights does, by every code with every
// scale within what f32 holds as normal numbers, and that there are weights which the next
// form rounds.
func TestExpands(t *testing.T) {
	held := 0
	for _, w := range weights() {
		for _, scale := range []dtype.Type{dtype.F16, dtype.BF16, dtype.F8E8M0, dtype.F8E4M3} {
			f := Form{Weight: w, Act: dtype.BF16, Scale: scale, Group: 128}
			lost := false
			for c := range uint64(1) << w.Bits() {
				v := w.Decode(c)
				if v-v != 0 {
					continue
				}
				for e := range uint64(1) << min(scale.Bits(), 10) {
					// Of 16 bits, all last digits at a few exponents.
					code := e
					if scale.Bits() == 16 {
						code = uint64(0x3c00) + e
					}
					p := v * scale.Decode(code)
					if a := math.Abs(p); p-p != 0 || a < 0x1p-126 || a > 0x1p127 {
						continue
					}
					lost = lost || dtype.BF16.Decode(dtype.BF16.Encode(p, false)) != p
				}
			}
			if f.Expands(0) && lost {
				t.Errorf("%+v: weights are rounded", f)
			}
			if f.Expands(0) {
				held++
			} else if !lost {
				t.Errorf("%+v: no weight is rounded", f)
			}
			if f.Act = dtype.F16; f.Expands(0) {
				t.Errorf("%+v: f16 has too few exponents to be sure", f)
			}
		}
	}
	if held < 50 {
		t.Errorf("%d forms hold all weights", held)
	}
}

// TestReach holds that scales of the bits with which a form expands, at both ends of what is
// in reach, make no weight that the type of the activations rounds: every code, less every
// zero point, with every scale of so many bits. One bit more, half the least or twice the
// greatest scale, and there is such a weight.
func TestReach(t *testing.T) {
	for _, w := range weights() {
		for _, act := range []dtype.Type{dtype.F16, dtype.BF16} {
			f := Form{Weight: w, Act: act, Scale: dtype.F16, Group: 128, Zero: w.IsInt() && !w.Signed()}
			values := map[float64]bool{}
			for c := range uint64(1) << w.Bits() {
				v := w.Decode(c)
				if !f.Counts(v) {
					continue
				}
				if values[v] = true; f.Zero {
					values[-v] = true
				}
			}
			least, most := f.Reach()
			// rounds counts weights that are rounded with all scales of so many bits whose
			// last one is 2^unit.
			rounds := func(bits, unit int, past float64) (n int) {
				for s := 1; s < 1<<bits; s++ {
					scale := math.Ldexp(float64(s), unit)
					if scale > past {
						break
					}
					for v := range values {
						if p := v * scale; act.Decode(act.Encode(p, false)) != p {
							n++
						}
					}
				}
				return n
			}
			bits, found := 0, 0
			for n := 1; n <= 11; n++ {
				// In the middle exponents do not count.
				middle := (least + math.Ilogb(most) - n) / 2
				if math.Ilogb(most)-least < 14 {
					break // nothing is in the middle
				}
				if rounds(n, middle, most) == 0 {
					found = n
				}
			}
			bits = f.ExpandBits()
			if found > 0 && bits != found {
				t.Errorf("%+v: expands with %d bits, and is found to with %d", f, bits, found)
			}
			if n := rounds(bits, least, most); n > 0 {
				t.Errorf("%+v: scales from 2^%d on round %d weights", f, least, n)
			}
			if n := rounds(bits, math.Ilogb(most)+1-bits, most); n > 0 && math.Ilogb(most)+1-bits >= least {
				t.Errorf("%+v: scales up to %g round %d weights", f, most, n)
			}
			if math.Ldexp(1, least) <= most && rounds(1, least-1, most) == 0 {
				t.Errorf("%+v: scales from 2^%d on round no weight", f, least-1)
			}
			top := 0.0
			for v := range values {
				top = max(top, math.Abs(v))
			}
			if p := top * most * (1 + 0x1p-12); act == dtype.F16 && p <= act.Max() {
				t.Errorf("%+v: scales beyond %g are in reach", f, most)
			}
		}
	}
}

// TestExpandRounds holds weights of every code and of scales with all bits that f16 has, down to its
// least numbers and up to what makes its greatest ones, to the product rounded once, on interpreter and
// simulator.
func TestExpandRounds(t *testing.T) {
	const n, k = 40, 256
	for i, w := range weights() {
		f := Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128}
		l := &layer{form: f, factor: 1, n: n, k: k, q: array.New(w, n, k), s: array.New(f.Scale, k/f.Group, n)}
		top := 0.0
		for j := range n * k {
			code := uint64(j*5+j/128) & w.Mask()
			if v := w.Decode(code); v == 0 || !f.Holds(v) {
				code = 0 // a -0 may come back as 0
			}
			l.q.SetCode(j, code)
			top = max(top, math.Abs(w.Decode(code)))
		}
		r := rand.New(rand.NewPCG(uint64(i), 3))
		rounded := 0
		for j := range l.s.Len() {
			v := f.Scale.Decode(r.Uint64N(0x7c00))
			for v*top > f.Act.Max() {
				v /= 2
			}
			l.s.SetCode(j, f.Scale.Encode(v, false))
		}
		for j := range n {
			for c := range k {
				if v := l.weight(j, c); f.Act.Decode(f.Act.Encode(v, false)) != v {
					rounded++
				}
			}
		}
		if rounded == 0 && digitsOf(w) > 0 {
			t.Errorf("%s: no weight is rounded", w)
		}
		plan, err := PlanOf(f)
		if err != nil {
			t.Fatal(err)
		}
		pack, err := Pack(f)
		if err != nil {
			t.Fatal(err)
		}
		expand, err := Expand(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"interp", "sim"} {
			d, err := device.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			sizes := []ir.Arg{{Int: n}, {Int: k}}
			res, err := d.Run(t.Context(), pack, append([]ir.Arg{{Array: l.q}, {Array: array.New(dtype.U8, plan.PackedShape(n, k)...)}}, sizes...))
			if err != nil {
				t.Fatal(err)
			}
			res, err = d.Run(t.Context(), expand, append([]ir.Arg{{Array: res.Args[1].Array}, {Array: ordered(plan, l.s)}, {Array: array.New(f.Act, n, k)}}, sizes...))
			if err != nil {
				t.Fatal(err)
			}
			if r := array.Compare(res.Args[2].Array, l.plain()); r.Differ > 0 {
				t.Errorf("%s by %s: %v", w, name, r)
			}
			d.Close()
		}
	}
}
