package lower_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower"
	"github.com/tilus-lab/tilus-lab/gpu/lower/cast"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
	"github.com/tilus-lab/tilus-lab/vm/recipe"
)

// stored is a program that views words as placed elements, casts them and stores
// the results, and its arguments: every code at every element of some thread.
func stored(t *testing.T, r *recipe.Recipe, place bits.Placement, deferred bool, domain string) (*ir.Program, []ir.Arg) {
	t.Helper()
	n, w := place.Elements(), r.From.Bits()
	lay := layout.Local(1, n).Spatial(32, 1)
	if deferred {
		lay = fragment(r, place)
	}
	back, err := lay.ReduceTo([]int{lay.Shape()[0], 1})
	if err != nil {
		t.Fatal(err)
	}
	from, to := ir.RegisterOf(r.From, lay), ir.RegisterOf(r.To, lay)
	from.Place, from.HasPlace = place, true
	c := ir.RegisterOf(dtype.F32, back)
	blocks := max(1, (1<<w)/32)
	words := array.New(dtype.U32, blocks, 32*place.Words())
	for b := range blocks {
		for th := range 32 {
			codes := make([]uint64, n)
			for e := range codes {
				codes[e] = uint64(b*32+th+e*5) & r.From.Mask()
				if domain != "" {
					for v := r.From.Decode(codes[e]); v-v != 0 || r.To.Decode(dtype.Cast(r.To, r.From, codes[e]))*0 != 0; v = r.From.Decode(codes[e]) {
						codes[e] = (codes[e] + 1) & r.From.Mask()
					}
				}
			}
			for j, x := range place.Pack(codes) {
				words.SetCode(b*32*place.Words()+th*place.Words()+j, uint64(x))
			}
		}
	}
	var s strings.Builder
	rows, columns := lay.Shape()[0], lay.Shape()[1]
	fmt.Fprintf(&s, "program p<%d>(a: *u32, y: *%s, z: *f32) warps=1 {\n\tb = BlockIndices()\n", blocks, r.To)
	fmt.Fprintf(&s, "ga = ViewGlobal(a) : global u32[%d, %d]\ngy = ViewGlobal(y) : global %s[%d, %d]\ngz = ViewGlobal(z) : global f32[%d, 1]\n", blocks, 32*place.Words(), r.To, blocks*rows, columns, blocks*rows)
	fmt.Fprintf(&s, "ra = LoadGlobal(ga, offset=[b, 0], dims=[1]) : register u32[%d] spatial(32).local(%d)\n", 32*place.Words(), place.Words())
	fmt.Fprintf(&s, "x = View(ra) : %s\n", from)
	if deferred {
		fmt.Fprintf(&s, "v, c = CastDeferred(x%s, least=%d) : %s, %s\nStoreGlobal(gz, c, offset=[b*%d, 0])\n", domain, r.Least(), to, c, rows)
	} else {
		fmt.Fprintf(&s, "v = Cast(x%s) : %s\n", domain, to)
	}
	fmt.Fprintf(&s, "StoreGlobal(gy, v, offset=[b*%d, 0])\n}\n", rows)
	return parse(t, s.String()), []ir.Arg{{Array: words}, {Array: array.New(r.To, blocks*rows, columns)}, {Array: array.New(dtype.F32, blocks*rows, 1)}}
}

// fragment lays slots out as in operand a of m16n8k16: words take turns between the
// rows g and g+8, and four words are a fragment. Fragments lie under each other.
func fragment(r *recipe.Recipe, place bits.Placement) layout.Layout {
	if n := place.Elements(); n%8 == 0 && len(r.Out)%4 == 0 {
		return layout.Local(n/8, 1).ColumnLocal(2, 2).Spatial(8, 4).Local(1, 2)
	}
	return layout.Local(1, place.Elements()).Spatial(32, 1)
}

// TestPlacedCasts casts every code of every recipe of the table, exactly and
// deferred, on the interpreter and the simulator.
func TestPlacedCasts(t *testing.T) {
	all, err := recipe.Table()
	if err != nil {
		t.Fatal(err)
	}
	casts, deferrals, seen := 0, 0, map[string]bool{}
	for _, r := range all {
		if testing.Short() && r.From.Bits() > 4 || r.Recode {
			continue
		}
		place := r.Place
		if place.Words() == 1 {
			if place, err = place.Repeat(2); err != nil {
				t.Fatal(err)
			}
		}
		for _, domain := range []string{"", ", domain=finite"} {
			if domain != "" && !r.From.HasNaN() && !r.Domain.Finite {
				continue
			}
			p, args := stored(t, r, place, false, domain)
			agree(t, p, nil, args)
			if slices.ContainsFunc(r.Steps, func(s recipe.Step) bool { return s.Op == recipe.CvtE4M3 }) {
				agreeOn(t, "sm_90a", p, nil, args)
			}
			casts++
		}
		x := ir.RegisterOf(r.From, fragment(r, place))
		x.Place, x.HasPlace = place, true
		d, err := ir.DeferralOf(x, r.To, r.Least())
		if err != nil {
			continue // offsets, and no exact recipe for the placement
		}
		domain := ""
		if d.Partial() {
			domain = ", domain=finite"
		}
		p, args := stored(t, r, place, true, domain)
		agree(t, p, nil, args)
		if slices.ContainsFunc(d.Recipe.Steps, func(s recipe.Step) bool { return s.Op == recipe.CvtE4M3 }) {
			agreeOn(t, "sm_90a", p, nil, args)
		}
		if d.Powers[0] != 0 {
			seen[r.From.String()+" "+r.To.String()] = true
		}
		deferrals++
	}
	t.Logf("%d casts, %d deferred", casts, deferrals)
	for _, name := range []string{"u1 f16", "u2 f16", "u4 f16", "f4e2m1 f16"} {
		if !seen[name] {
			t.Errorf("no power is deferred from %s", name)
		}
	}
}

// TestThroughBF16 casts every code of the floats with more exponents than f16 has, those
// that it rounds, to 0 or to infinity among them, and counts their roundings: one for a pair.
func TestThroughBF16(t *testing.T) {
	all, err := recipe.Table()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range all {
		if !cast.Through(r) {
			continue
		}
		names = append(names, r.From.String())
		to := *r
		to.To = dtype.F16
		p, args := stored(t, &to, r.Place, false, "")
		agree(t, p, nil, args)
		agreeOn(t, "sm_90a", p, nil, args)
		n := 0
		lowered(t, p, nil).Body.Walk(func(in *code.Instr) {
			if in.Op == code.OpF32x2ToF16x2 {
				n++
			}
		})
		if n != r.Elements()/2 {
			t.Errorf("%s: %d roundings of pairs, want %d", r.From, n, r.Elements()/2)
		}
	}
	slices.Sort(names)
	if want := []string{"f7e6m0", "f8e6m1", "f8e7m0"}; !slices.Equal(names, want) {
		t.Errorf("through bf16 go %v, want %v", names, want)
	}
}

// TestDeferredDecodeIsFiveInstructionsAWord counts what makes the operands of
// decode_u4_deferred: for each word of eight codes four masks and a shift.
func TestDeferredDecodeIsFiveInstructionsAWord(t *testing.T) {
	f := lowered(t, parse(t, corpus.Program("decode_u4_deferred")), map[string]int64{"K": 128, "N": 16})
	n, codes, masks := map[code.Op]int{}, map[code.Value]bool{}, 0
	f.Body.Walk(func(in *code.Instr) {
		n[in.Op]++
		switch {
		case in.Op == code.OpConst32 && (in.Imm[0] == 0xf000f || in.Imm[0] == 0xf000f0):
			codes[in.Out[0]] = true
		case in.Op == code.OpAnd32 && codes[in.In[1]]:
			masks++
		}
	})
	// Two groups of eight words.
	if masks != 64 || n[code.OpLop3]+n[code.OpFmaF16x2]+n[code.OpSubF16x2]+n[code.OpMulF16x2] != 0 {
		t.Errorf("%d masks, %d bitwise functions of three words, and %d, %d, %d steps of arithmetic on pairs", masks, n[code.OpLop3], n[code.OpFmaF16x2], n[code.OpSubF16x2], n[code.OpMulF16x2])
	}
}

func refused(t *testing.T, p *ir.Program, code string) {
	t.Helper()
	a, err := arch.Lookup("sm_80")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lower.Lower(p, lower.Options{Arch: a}); err == nil || !strings.Contains(err.Error(), "["+code+"]") {
		t.Errorf("got %v, want %s", err, code)
	}
}
