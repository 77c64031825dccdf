package tune

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestOverlap holds launches that store before they wait to memory that none in front still uses.
func TestOverlap(t *testing.T) {
	programs := map[string]*ir.Program{}
	for name, steps := range map[string][3]string{ // behind the indices, behind the loads, at the end
		"fill":   {"GridDependencyLaunch()", "", "GridDependencyWait(blocks=first)"}, // stores early
		"shy":    {"", "", "GridDependencyWait(blocks=first)"},                       // as fill, but asks for nothing
		"after":  {"GridDependencyWait()", "GridDependencyLaunch()", ""},             // waits, then asks
		"before": {"GridDependencyLaunch()", "GridDependencyWait()", ""},             // asks, then waits
		"plain":  {"", "", ""},
		"giver":  {"GridDependencyLaunch()", "", ""}, // does not wait itself
	} {
		p, err := text.Parse(name+".tile", "program "+name+`<4>(a: *f32, b: *f32) warps=1 {
	bi = BlockIndices()
	`+steps[0]+`
	ga = ViewGlobal(a) : global f32[128]
	gb = ViewGlobal(b) : global f32[128]
	r = LoadGlobal(ga, offset=[bi*32]) : register f32[32] spatial(32)
	`+steps[1]+`
	StoreGlobal(gb, r, offset=[bi*32])
	`+steps[2]+`
}`, nil)
		if err != nil {
			t.Fatal(err)
		}
		programs[name] = p
	}
	memory := map[string]*array.Array{}
	for _, c := range []struct {
		launches string // PROGRAM:READ>WRITTEN
		want     string
	}{
		{"fill:w>A after:A>y fill:w>B after:B>y fill:w>A after:A>y", ""},
		{"fill:w>A after:A>y fill:w>A after:A>y", "launch 2, fill, uses b before it waits for launch 1, after, which has the same memory as a"},
		// Without a word, the next launch begins when this one has ended.
		{"fill:w>A plain:A>y fill:w>A plain:A>y", ""},
		{"shy:w>A shy:w>A", ""},
		{"fill:w>A fill:w>A", "launch 1, fill, uses b"},
		{"giver:w>A fill:w>A", "launch 1, fill, uses b"},
		// Who asks before it waits may be a launch further behind than it seems.
		{"fill:w>A before:A>y fill:w>B before:B>y fill:w>A", "launch 4, fill, uses b before it waits for launch 0, fill"},
		{"fill:w>A before:A>y fill:w>B", ""},
		{"fill:w>A after:A>y before:w>z fill:w>A", "launch 3, fill, uses b before it waits for launch 1, after"},
		{"fill:w>A after:A>y before:w>z fill:w>B", ""},
		{"fill:w>A after:A>y after:y>z fill:w>A", ""},
		// What is read must not be stored beside, either.
		{"after:x>w fill:w>A", "launch 1, fill, uses a before it waits for launch 0, after, which has the same memory as b"},
		{"plain:x>w fill:w>A", ""},
		// Others store behind their wait.
		{"after:A>y before:x>A after:A>y before:x>A", ""},
	} {
		var all []Launch
		for _, s := range strings.Fields(c.launches) {
			name, rest, _ := strings.Cut(s, ":")
			from, to, _ := strings.Cut(rest, ">")
			var args []ir.Arg
			for _, m := range []string{from, to} {
				if memory[m] == nil {
					memory[m] = array.New(dtype.F32, 128)
				}
				args = append(args, ir.Arg{Array: memory[m]})
			}
			all = append(all, Launch{programs[name], args})
		}
		err := Overlap(all)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.launches, err, c.want)
		}
	}
	if err := Overlap([]Launch{{programs["fill"], nil}}); err == nil {
		t.Error("a launch without arguments is none")
	}
}
