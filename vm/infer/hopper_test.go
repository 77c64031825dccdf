package infer_test

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/infer"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// The ladder of products for Hopper needs no layouts: swizzles and accumulators follow
// from tensor copies and products of warpgroups, in thread groups too.
func TestFindsLayoutsOfHopper(t *testing.T) {
	for _, name := range []string{"matmul_hopper_v1", "matmul_hopper_v2", "matmul_hopper_v3", "matmul_hopper_v4", "matmul_hopper_f8"} {
		want, err := text.Parse(name, corpus.Program(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		bare := strip(want)
		got, trace, err := infer.Parse(name, bare, nil, compile.Layouts())
		if err != nil {
			t.Errorf("%v\n%s", err, trace)
			continue
		}
		if text.Format(got) != text.Format(want) {
			t.Errorf("%s, found:\n%s\nwritten:\n%s", name, text.Format(got), text.Format(want))
		}
	}
}
