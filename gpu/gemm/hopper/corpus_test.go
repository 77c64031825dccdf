package hopper

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

var update = flag.Bool("update", false, "write the instances into vm/corpus")

// printed are the instances in the corpus: small ones, which all machines run quickly.
var printed = map[string]struct {
	step int
	s    Schedule
}{
	"matmul_hopper_v0": {0, Schedule{M: 64, N: 64}}, "matmul_hopper_v1": {1, Schedule{M: 64, N: 64}}, "matmul_hopper_v2": {2, Schedule{M: 64, N: 64, Stages: 3}},
	"matmul_hopper_v3": {3, Schedule{M: 128, N: 64, Stages: 3}}, "matmul_hopper_v4": {4, Schedule{M: 128, N: 64, Stages: 3}},
	"matmul_hopper_v5": {5, Schedule{M: 128, N: 64, Stages: 3, Cluster: 2}}, "matmul_hopper_pingpong": {5, Schedule{M: 64, N: 64, Stages: 3, Cluster: 2, PingPong: true}},
	"matmul_hopper_f8": {3, Schedule{Type: dtype.F8E4M3, Out: dtype.BF16, M: 128, N: 64, Stages: 2}},
}

func TestInstancesAreTheCorpus(t *testing.T) {
	for name, c := range printed {
		p, err := Matmul(c.step, c.s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p.Name = name
		if *update {
			path := filepath.Join(need.Root(t), "vm", "corpus", name+".txtar")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			a := txtar.Parse(data)
			i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == corpus.ProgramFile })
			if i < 0 {
				i = 0
				a.Files = slices.Insert(a.Files, 0, txtar.File{Name: corpus.ProgramFile})
			}
			a.Files[i].Data = []byte(text.Format(p))
			if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(corpus.Program(name), text.Format(p)); diff != "" {
			t.Errorf("%s is not the corpus program (-corpus +template); go test ./gpu/gemm/hopper -update writes it:\n%s", name, diff)
		}
	}
}
