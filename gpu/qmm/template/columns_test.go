package template

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestGather brings columns into any order, whatever ends of blocks they come to; indices outside are taken for the nearest inside.
func TestGather(t *testing.T) {
	for i, c := range [][2]int{{1, 1}, {3, 7}, {8, 64}, {9, 4095}, {17, 4104}, {2, 8197}} {
		m, k, act := c[0], c[1], []dtype.Type{dtype.F16, dtype.BF16}[i%2]
		p, err := Gather(act)
		if err != nil {
			t.Fatal(err)
		}
		x, order, want := generate(t, "randn:%s[%d, %d]", act, m, k), array.New(dtype.I32, k), array.New(act, m, k)
		for j, from := range rand.New(rand.NewPCG(uint64(k), 3)).Perm(k) {
			if from%5 == 1 {
				from += (i - 2) * k
			}
			order.SetCode(j, uint64(from)&order.Type.Mask())
			for row := range m {
				want.SetCode(row*k+j, x.Code(row*k+min(max(from, 0), k-1)))
			}
		}
		for _, name := range []string{"interp", "sim"} {
			t.Run(fmt.Sprintf("%s[%d, %d] %s", act, m, k, name), func(t *testing.T) {
				res, err := machine(t, name).Run(t.Context(), p, launchArgs(x, order, array.New(act, m, k), m, k))
				if err != nil {
					t.Fatal(err)
				}
				if r := array.Compare(res.Args[2].Array, want); !r.Equal() {
					t.Error(r)
				}
			})
		}
	}
}

// TestGatherTypes: x is of a type of activations.
func TestGatherTypes(t *testing.T) {
	for _, act := range []dtype.Type{0, dtype.I4, dtype.F32} {
		if _, err := Gather(act); err == nil || !strings.Contains(err.Error(), "f16 or bf16") {
			t.Errorf("columns of %s: %v", act, err)
		}
	}
}

// TestGatherOverlap holds that what follows a launch may begin at once, and that a launch itself is none that begins before what is in
// front of it has ended.
func TestGatherOverlap(t *testing.T) {
	p, err := Gather(dtype.F16)
	if err != nil {
		t.Fatal(err)
	}
	c, err := compile.Program(p, compile.Options{Divisible: map[string]int64{"K": 128}})
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range c.Func.Body.Instrs {
		if in.Op == code.OpGridDepLaunch {
			break
		}
		if class := in.Row().Class; class == code.Load || class == code.Store {
			t.Errorf("%s stands before the next launch may begin", in.Row().Name)
		}
	}
	if c.Func.Launch.PDL {
		t.Error("a launch begins before what is in front of it has ended")
	}
}
