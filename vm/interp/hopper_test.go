package interp

import (
	"bytes"
	"context"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestSnapshotsOfPipelines goes back in time while copies and products are on their way
// and blocks of a cluster wait for each other.
func TestSnapshotsOfPipelines(t *testing.T) {
	for _, name := range []string{"matmul_hopper_v3", "matmul_hopper_v4", "matmul_hopper_v5", "matmul_hopper_pingpong"} {
		p, err := text.Parse(name, corpus.Program(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		args := make([]ir.Arg, 0, 7)
		for _, spec := range []string{"randint:f16[136, 208]:seed=1:lo=-3:hi=3", "randint:f16[72, 208]:seed=2:lo=-3:hi=3", "ones:f16[136, 72]"} {
			a, err := array.Generate(spec)
			if err != nil {
				t.Fatal(err)
			}
			args = append(args, ir.Arg{Array: a})
		}
		for _, n := range []int64{136, 72, 208, 4}[:len(p.Params)-3] {
			args = append(args, ir.Arg{Int: n})
		}
		m, err := New(p, args)
		if err != nil {
			t.Fatal(err)
		}
		var shots []*Snapshot
		for n := 0; !m.Done(); n++ {
			if n%97 == 60 {
				shots = append(shots, m.Snapshot())
			}
			if err := m.Step(); err != nil {
				t.Fatal(err)
			}
		}
		want := bytes.Clone(m.Args()[2].Array.Data)
		for i, s := range shots {
			if i%(len(shots)/3+1) != 0 {
				continue
			}
			m.Restore(s)
			if err := m.Run(context.Background()); err != nil {
				t.Fatalf("%s, snapshot %d: %v", name, i, err)
			}
			if !bytes.Equal(m.Args()[2].Array.Data, want) {
				t.Errorf("%s, snapshot %d: another result", name, i)
			}
		}
	}
}
