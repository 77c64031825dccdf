package qmm

import (
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/tests/record"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestTypesRecord holds what a GPU made of all types to be whole: both types of activations,
// all forms of groups and of scales, all plans; and says whose programs changed since.
func TestTypesRecord(t *testing.T) {
	rows := map[string]typesRow{}
	for _, r := range record.Read[typesRow](t, "lowbit_types.json") {
		rows[r.Weight+" "+r.Act] = r
	}
	stale := 0
	for _, act := range []dtype.Type{dtype.F16, dtype.BF16} {
		var names []string
		for _, w := range weightTypes() {
			names = append(names, w.String())
		}
		for _, name := range append(names, Presets()...) {
			r, ok := rows[name+" "+act.String()]
			preset := slices.Contains(Presets(), name)
			switch {
			case !ok:
				t.Errorf("%s × %s: nothing is recorded", act, name)
			case r.Result != "equal" || r.Of == 0 || !(r.Ratio <= 1.1) || r.GPU == "" || r.Commit == "":
				t.Errorf("%s × %s: %+v", act, name, r)
			case !preset && (len(r.Groups) != 4 || len(r.Scales) != 3) || r.Products[Decode] == 0 || r.Products[Wide] == 0 || r.Products[Prefill] == 0 || r.Products[Expand] == 0:
				t.Errorf("%s × %s: groups %v, scales %v, products %v", act, name, r.Groups, r.Scales, r.Products)
			}
			if testing.Short() {
				continue
			}
			l := kind(t, name, 37, 333)
			l.ActType = act
			if hash, err := programHash(l); err != nil || hash != r.Hash {
				stale++
			}
		}
	}
	if stale > 0 {
		t.Logf("programs of %d of %d types changed since", stale, len(rows))
	}
}

// exportRow is a row of tests/peers/export_check.py.
type exportRow struct {
	record.Row
	Kind  string  `json:"kind"`
	How   string  `json:"how"`
	Ratio float64 `json:"error_of_f32"`
}

// TestExportRecord holds what exported layers gave beside torch.
func TestExportRecord(t *testing.T) {
	rows := record.Read[exportRow](t, "export.json")
	hows, kinds := map[string]bool{}, map[string]bool{}
	for _, r := range rows {
		if !strings.HasPrefix(r.Result, "equal") || r.GPU == "" || r.Commit == "" || !(r.Ratio <= 1.1) || r.Of == 0 {
			t.Errorf("%s: %+v", r.Name, r)
		}
		hows[r.How], kinds[r.Kind] = true, true
	}
	if len(hows) < 4 || len(kinds) < 4 {
		t.Errorf("the record has %d kinds of layers, called in %d ways", len(kinds), len(hows))
	}
}
