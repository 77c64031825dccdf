package template

import (
	"encoding/json"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestGrid holds that the grid of a schedule is that of its program: one schedule of each form of grid.
func TestGrid(t *testing.T) {
	p, err := PlanOf(Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128})
	if err != nil {
		t.Fatal(err)
	}
	type like struct {
		streams, joint, splits, digits, warpgroups, parts bool
		rows, sides                                       int
	}
	seen := map[like]bool{}
	all := []Schedule{p.Soon()}
	for _, size := range [][2]int{{8192, 8192}, {1024, 8192}, {10240, 8192}} {
		for _, m := range []int{1, 16, 32} {
			all = append(all, Candidates(p, m, size[0], size[1], H200())...)
		}
	}
	const m, n, k = 77, 1000, 8192
	for _, s := range all {
		if s, err = s.Filled(p); err != nil {
			t.Fatal(err)
		}
		key := like{s.Streams(), s.Joint, s.Splits > 1, s.Digits, s.Warpgroups, s.Parts > 1, s.Rows, s.Sides}
		if seen[key] {
			continue
		}
		seen[key] = true
		program, err := Decode(p.Form, s)
		if err != nil {
			t.Fatal(err)
		}
		var want []int
		for _, e := range program.Grid {
			blocks, err := ir.EvalInt(e, func(v *ir.Var) (int64, bool) { return map[string]int64{"M": m, "N": n, "K": k}[v.Name], true })
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, int(blocks))
		}
		if got := s.Grid(p, m, n); !slices.Equal(got, want) {
			t.Errorf("%s: %v, its program's is %v", s, got, want)
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %v", seen)
	}
}

func TestChoose(t *testing.T) {
	on := H200()
	for _, c := range []struct {
		m, n, k       int
		splits, warps int
	}{
		{1, 57344, 8192, 1, 1}, // gate_up, qkv, o and down of Llama-3.3-70B
		{8, 57344, 8192, 1, 1},
		{1, 10240, 8192, 4, 4}, // 5 would give a few SMs a seventh block
		{8, 10240, 8192, 4, 4},
		{1, 8192, 8192, 8, 4}, // 8 share the turns out evenly, so that all blocks fit
		{8, 8192, 8192, 8, 4},
		{1, 8192, 28672, 8, 4},
		{8, 8192, 28672, 8, 4},
		{1, 1024, 8192, 16, 4},    // two turns each
		{1, 16, 1 << 20, 64, 1},   // one column
		{1, 4096, 128, 1, 1},      // one group
		{1, 4096, 512, 1, 1},      // one turn each would be less than that
		{1, 1 << 20, 8192, 1, 1},  // more than the machine holds
		{8, 16 * 397, 8192, 8, 1}, // an odd number of columns
	} {
		o, err := Choose(DecodeOptions{PDL: true}, c.m, c.n, c.k, on)
		if err != nil || o.Splits != c.splits || o.Warps != c.warps || !o.PDL || o.Group != 128 {
			t.Errorf("%+v: %+v, %v", c, o, err)
		}
	}
	for _, bad := range []struct{ group, m, n, k, sms int }{{5, 1, 16, 128, 1}, {0, 0, 16, 128, 1}, {0, 1, 17, 128, 1}, {0, 1, 16, 100, 1}, {0, 1, 16, 128, 0}} {
		if o, err := Choose(DecodeOptions{Group: bad.group}, bad.m, bad.n, bad.k, Machine{SMs: bad.sms}); err == nil {
			t.Errorf("%+v gives %+v", bad, o)
		}
	}
}

// TestChooseRule holds what the choice promises, for shapes and machines of all
// kinds: the program can be made, blocks that share k run at the same time, with two
// turns each, and no split product is estimated slower than the whole one.
func TestChooseRule(t *testing.T) {
	for _, sms := range []int{1, 20, 108, 132, 148} {
		on := H200()
		on.SMs = sms
		for _, m := range []int{1, 8} {
			for n := 16; n < 1<<17; n = n*7/4 + 16 - n*7/4%16 {
				for k := 128; k < 1<<17; k *= 2 {
					o, err := Choose(DecodeOptions{}, m, n, k, on)
					if err != nil {
						t.Fatal(err)
					}
					if o.Splits == 1 {
						continue
					}
					time, _ := on.estimate(o, m, n, k)
					whole := o
					whole.Splits, whole.Warps = 1, 1
					alone, _ := on.estimate(whole, m, n, k)
					if blocks := n / 16 / o.Warps * o.Splits; n%(16*o.Warps) != 0 || ceil(blocks, sms)*o.Warps > on.Warps ||
						k < 2*o.Splits*o.Depth*o.Group || time > alone {
						t.Errorf("%d SMs, [%d, %d]·[%d]: %+v, %.2f of %.2f µs", sms, m, k, n, o, time, alone)
					}
				}
			}
		}
	}
}

// TestEstimate holds the estimate to what was measured.
func TestEstimate(t *testing.T) {
	data, err := os.ReadFile("../../../tests/record/timings.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Name    string
		Result  string
		Median  float64 `json:"median_us"`
		Grid    [3]int
		Threads int
		GPU     string
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`^decode_u4(_splitk)?_(?:gate_up|qkv|o|down)_(\d+)x(\d+)x(\d+)$`)
	checked := 0
	for _, r := range rows {
		at := form.FindStringSubmatch(r.Name)
		if at == nil || r.Result != "equal" || r.GPU != "NVIDIA H200" {
			continue
		}
		number := func(i int) int {
			n, _ := strconv.Atoi(at[i])
			return n
		}
		o := DecodeOptions{Warps: r.Threads / 32}
		if at[1] != "" {
			o.Splits = r.Grid[0]
		}
		if err := o.defaults(); err != nil {
			t.Fatal(err)
		}
		checked++
		time, _ := H200().estimate(o, number(2), number(3), number(4))
		t.Logf("%-40s %d blocks of %d warps share k: %6.2f µs, estimated %6.2f", r.Name, o.Splits, o.Warps, r.Median, time)
		if math.Abs(time/r.Median-1) > 0.25 {
			t.Errorf("%s took %.2f µs, estimated are %.2f", r.Name, r.Median, time)
		}
	}
	if checked < 5 {
		t.Errorf("%d rows of the record are checked", checked)
	}
}

// TestNoRows has whoever asks what suits no rows, or fewer, hear what suits one.
func TestNoRows(t *testing.T) {
	for _, w := range []dtype.Type{dtype.U1, dtype.U4, dtype.F6E3M2} {
		p, err := PlanOf(Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []int{0, -1, -1000} {
			if a, b := Candidates(p, m, 64, 512, H200()), Candidates(p, 1, 64, 512, H200()); !slices.Equal(a, b) {
				t.Errorf("%s, %d rows: %v, not %v", w, m, a, b)
			}
			if a, b := Pick(p, m, 64, 512, H200()), Pick(p, 1, 64, 512, H200()); a != b {
				t.Errorf("%s, %d rows: %v, not %v", w, m, a, b)
			}
			if a, b := PickPlain(p, m, 64, 512, H200()), PickPlain(p, 1, 64, 512, H200()); a != b {
				t.Errorf("%s, %d rows: %v, not %v", w, m, a, b)
			}
			for _, stay := range []bool{false, true} {
				if all := WideCandidates(p, m, 64, 512, stay, true, H200()); len(all) == 0 {
					t.Errorf("%s, %d rows: no schedule", w, m)
				}
			}
		}
	}
}
