package template

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// hopperCases are schedules with lengths that no tile divides, and what they mean.
var hopperCases = []struct {
	o HopperOptions
	w wave
}{
	{HopperOptions{Head: 64, Consumers: 1, Keys: 16}, wave{1, 1, 64, 16}},
	{HopperOptions{Head: 64, Consumers: 2, Keys: 32, Group: 2}, wave{1, 2, 70, 100}},
	{HopperOptions{Head: 64, Consumers: 2, Keys: 48, Causal: true, Elem: dtype.BF16}, wave{1, 1, 130, 131}},
	{HopperOptions{Consumers: 2, Keys: 32, Causal: true, Free: true, Stages: 1}, wave{1, 1, 40, 90}},
}

// flash is what the options mean, however it is done.
func (o HopperOptions) flash() FlashOptions {
	return FlashOptions{Elem: o.Elem, Head: o.Head, Causal: o.Causal, Group: o.Group}
}

// TestHopper runs small instances on the interpreter and the simulator.
func TestHopper(t *testing.T) {
	for _, name := range []string{"interp", "sim"} {
		d, err := device.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for _, c := range hopperCases {
			t.Run(fmt.Sprintf("%s %+v %+v", name, c.o, c.w), func(t *testing.T) {
				p, err := FlashHopper(c.o)
				if err != nil {
					t.Fatal(err)
				}
				args := flashArgs(t, c.o.flash(), c.w)
				res, err := d.Run(t.Context(), p, args)
				if err != nil {
					t.Fatal(err)
				}
				if far := farFlash(t, c.o.flash(), c.w, args, res.Args[3].Array); far > 1 {
					t.Errorf("off by %.2f of what is allowed", far)
				}
			})
		}
	}
}

// chosen are the schedules of heads, of which the GPU test times the better.
var chosen = map[int][]HopperOptions{64: {{}}, 128: {{}, {Free: true}}}

// TestHopperAssembles holds the schedules that are timed to products that nothing waits
// for, and to no spills where heads have 128 elements.
func TestHopperAssembles(t *testing.T) {
	for head, all := range chosen {
		for _, o := range all {
			for _, o.Causal = range []bool{false, true} {
				o.Head = head
				p, err := FlashHopper(o)
				if err != nil {
					t.Fatal(err)
				}
				done, err := compile.Program(p, compile.Options{Arch: "sm_90a"})
				if err != nil {
					t.Fatal(err)
				}
				ptx, err := done.PTX()
				if err != nil {
					t.Fatal(err)
				}
				made, err := need.Assemble(t, "sm_90a", ptx)
				if err != nil || strings.Contains(made.Said, "serializ") || strings.Contains(made.Said, "injected") || made.Spills() > 0 {
					t.Errorf("%+v: %v\n%s", o, err, made.Said)
				}
			}
		}
	}
}

// TestGPUHopper holds results on the GPU to the float64 reference, and times.
func TestGPUHopper(t *testing.T) {
	r := openGPU(t)
	d, err := device.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.Describe().Arch != "sm_90a" {
		t.Skipf("%s is no Hopper GPU", d.Describe().Title)
	}
	cases := hopperCases
	for _, head := range []int{64, 128} {
		for _, o := range chosen[head] {
			for _, o.Causal = range []bool{false, true} {
				o.Head = head
				cases = append(cases, struct {
					o HopperOptions
					w wave
				}{o, wave{1, 2, 700, 1100}})
			}
		}
	}
	for _, c := range cases {
		p, err := FlashHopper(c.o)
		if err != nil {
			t.Fatal(err)
		}
		args := flashArgs(t, c.o.flash(), c.w)
		res, err := d.Run(t.Context(), p, args)
		if err != nil {
			t.Fatalf("%+v %+v: %v", c.o, c.w, err) // the context may be lost
		}
		far := farFlash(t, c.o.flash(), c.w, args, res.Args[3].Array)
		t.Logf("%+v %+v: %.3g", c.o, c.w, far)
		if !(far < 1) {
			t.Errorf("%+v %+v: %.3g of what is allowed", c.o, c.w, far)
		}
	}
	schedules := chosen
	if *sweep {
		schedules = map[int][]HopperOptions{
			64:  {{}, {Keys: 96}, {Keys: 112}, {Keys: 80}, {Free: true}, {Keys: 96, Stages: 3}, {Consumers: 2}, {Consumers: 2, Keys: 192}, {Consumers: 2, Keys: 160}, {Consumers: 2, Free: true}},
			128: {{}, {Keys: 112}, {Keys: 144}, {Keys: 160}, {Keys: 176}, {Keys: 96}, {Free: true}, {Keys: 96, Free: true}, {Keys: 64, Stages: 3}, {Consumers: 3, Keys: 80}, {Consumers: 3, Keys: 64}},
		}
	}
	for _, head := range []int{64, 128} {
		for _, seq := range []int{2048, 4096, 8192, 16384} {
			if *sweep && seq != 4096 {
				continue
			}
			for _, causal := range []bool{false, true} {
				w := wave{16384 / seq, 2048 / head, seq, seq}
				kernel := fmt.Sprintf("flash_hopper_%d", head)
				flops := 4 * float64(w.b) * float64(w.h) * float64(w.m) * float64(w.n) * float64(head)
				if causal {
					kernel += "_causal"
					flops /= 2
				}
				if !r.choose.MatchString(fmt.Sprintf("%s[%d]", kernel, seq)) {
					continue
				}
				for _, o := range schedules[head] {
					o.Head, o.Causal = head, causal
					if err := o.defaults(); err != nil {
						t.Fatal(err)
					}
					p, err := FlashHopper(o)
					if err != nil {
						t.Fatal(err)
					}
					args := flashArgs(t, o.flash(), w)
					r.time(kernel, []int{w.b, w.h, w.m, w.n, head}, o, p, args, flops, tune.Options{WorkingSet: 1 << 20})
				}
			}
		}
	}
	r.write(".hopper")
}
