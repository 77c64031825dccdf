package emit

import (
	"context"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/eval"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// TestFar reads behind element 2^31 and writes there: an address of 64 bits of indices of
// 32. The memory that no thread touches is never there.
func TestFar(t *testing.T) {
	if testing.Short() {
		t.Skip("asks for 2 GB of addresses")
	}
	for _, c := range []struct {
		name, text string
		in, out    int // bytes
		from, to   int // first byte that changes, and where it comes from
	}{
		{"slice", `ENTRY e {
  x = u8[33554440,64] parameter(0)
  ROOT r = u8[4,64] slice(x), slice={[33554434:33554438],[0:64]}
}`, 33554440 * 64, 256, 33554434 * 64, 0},
		{"update", `ENTRY e {
  x = u8[33554440,64] parameter(0)
  u = u8[4,64] parameter(1)
  i = s64[] constant(33554434)
  z = s64[] constant(0)
  ROOT r = u8[33554440,64] dynamic-update-slice(x, u, i, z)
}`, 256, 33554440 * 64, 0, 33554434 * 64},
	} {
		m, err := hlo.Parse("far", "HloModule m\n"+c.text+"\n")
		if err != nil {
			t.Fatal(err)
		}
		p, err := Compile(m, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		k := p.Kernels[len(p.Kernels)-1]
		small := make([]byte, 256)
		for i := range small {
			small[i] = byte(i*7 + 1)
		}
		big := make([]byte, max(c.in, c.out))
		launch := sim.Launch{Grid: [3]int{k.Tensor.Blocks[0], 1, 1}}
		for i, b := range k.Args {
			s := p.Buffers[b].Shape
			switch {
			case s.Elements() > 1<<30:
				launch.Args = append(launch.Args, sim.Arg{Buffer: big})
			case c.in == 256 && i < len(k.Computation.Params) && s.Elements() == 256:
				launch.Args = append(launch.Args, sim.Arg{Buffer: small})
			case s.Elements() == 256:
				launch.Args = append(launch.Args, sim.Arg{Buffer: make([]byte, 256)})
			default:
				launch.Args = append(launch.Args, sim.Arg{Buffer: Pack(s, p.Buffers[b].Data)})
			}
		}
		if c.name == "slice" {
			copy(big[c.from:], small)
		}
		if _, err := sim.Run(context.Background(), k.Code, launch, sim.Options{}); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := big
		if c.name == "slice" {
			got = launch.Args[len(launch.Args)-1].Buffer
		}
		for i := range 256 {
			if got[c.to+i] != small[i] {
				t.Errorf("%s: byte %d is %d, not %d", c.name, i, got[c.to+i], small[i])
				break
			}
		}
	}
}

// TestManyItems: loops over more than one index may count give what other loops do.
func TestManyItems(t *testing.T) {
	for _, text := range []string{
		"ENTRY e {\n x = s8[7,11,13] parameter(0)\n v = s8[13] parameter(1)\n b = s8[7,11,13] broadcast(v), dimensions={2}\n ROOT r = s8[7,11,13] add(x, b)\n}",
		"ENTRY e {\n x = s8[1003] parameter(0)\n ROOT r = s8[1003] negate(x)\n}",
		"ENTRY e {\n x = f32[1024] parameter(0)\n ROOT r = f32[1024] negate(x)\n}",
		"ENTRY e {\n x = s4[31,18] parameter(0)\n ROOT r = s4[31,18] negate(x)\n}",
		"ENTRY e {\n x = s8[5,211]{0,1} parameter(0)\n ROOT r = s8[5,211]{0,1} negate(x)\n}",
		"ENTRY e {\n x = s8[41,33] parameter(0)\n y = s8[17,33] parameter(1)\n ROOT r = s8[58,33] concatenate(x, y), dimensions={0}\n}",
		"ENTRY e {\n x = s8[41,33] parameter(0)\n a = s8[20,33] slice(x), slice={[0:20], [0:33]}\n b = s8[41,16] slice(x), slice={[0:41], [17:33]}\n ROOT t = (s8[20,33], s8[41,16]) tuple(a, b)\n}",
	} {
		m, err := hlo.Parse("many", "HloModule m\n"+text+"\n")
		if err != nil {
			t.Fatal(err)
		}
		var args []*array.Array
		for i, p := range m.Entry.Params {
			a := array.New(p.Shape.Type.Elem(), p.Shape.Dims...)
			for k := range a.Len() {
				a.SetCode(k, a.Type.EncodeInt(int64(k*7+i)%5, true))
				if a.Type.IsFloat() {
					a.SetCode(k, a.Type.Encode(float64(k*7%31), true))
				}
			}
			args = append(args, a)
		}
		want, err := eval.Run(m, args)
		if err != nil {
			t.Fatal(err)
		}
		for _, items := range []int{50, 300} {
			p, err := Compile(m, Options{Device: plan.Device{SMs: 1, ThreadsPerSM: 32, Warp: 32}, Tune: Tuning{Items: items, Threads: 32}})
			if err != nil {
				t.Errorf("%v\n%s", err, text)
				continue
			}
			got, err := p.Simulate(context.Background(), args)
			if err != nil {
				t.Errorf("%v\n%s", err, text)
				continue
			}
			for i := range want {
				if r := array.Compare(got[i], want[i]); r.Differ > 0 {
					t.Errorf("%d of %d elements differ with at most %d items\n%s\n%s", r.Differ, r.N, items, text, p.Kernels[0].Tensor)
				}
			}
		}
	}
}

// TestFarKernels: kernels over more than 2^31 elements compile, with addresses of 64 bits.
func TestFarKernels(t *testing.T) {
	for _, text := range []string{
		"ENTRY e {\n x = f32[4294967552] parameter(0)\n ROOT r = f32[4294967552] negate(x)\n}",
		"ENTRY e {\n x = bf16[3,1431655808] parameter(0)\n v = bf16[1431655808] parameter(1)\n b = bf16[3,1431655808] broadcast(v), dimensions={1}\n ROOT r = bf16[3,1431655808] add(x, b)\n}",
		"s { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b)\n}\nENTRY e {\n x = f32[1048576,4096] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[1048576] reduce(x, z), dimensions={1}, to_apply=s\n}",
		"ENTRY e {\n x = s8[70000,70001] parameter(0)\n v = s8[70001] parameter(1)\n b = s8[70000,70001] broadcast(v), dimensions={1}\n ROOT r = s8[70000,70001] add(x, b)\n}",
		"ENTRY e {\n x = s8[4294967559] parameter(0)\n ROOT r = s8[4294967559] negate(x)\n}",
		"ENTRY e {\n x = f32[65536,65536] parameter(0)\n ROOT r = f32[65536,65536] transpose(x), dimensions={1,0}\n}",
	} {
		m, err := hlo.Parse("far", "HloModule m\n"+text+"\n")
		if err != nil {
			t.Fatal(err)
		}
		p, err := Compile(m, Options{})
		if err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		if k := p.Kernels[0]; k.Plan.IndexBits != 64 {
			t.Errorf("%s: indices of %d bits", k.Name, k.Plan.IndexBits)
		}
	}
}
