package lab

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/display"
	"github.com/tilus-lab/tilus-lab/vm/array"
)

const softplus = `program softplus<1>(x: *f32, y: *f16) {
	gx = ViewGlobal(x) : global f32[32]
	gy = ViewGlobal(y) : global f16[32]
	r = LoadGlobal(gx, offset=[0]) : register f32[32] spatial(32)
	e = Exp(r) : register f32[32] spatial(32)
	s = Add(e, 1.0) : register f32[32] spatial(32)
	h = Cast(s) : register f16[32] spatial(32)
	StoreGlobal(gy, h, offset=[0])
}`

func TestClosuresStandForInstructions(t *testing.T) {
	p := program(t, softplus)
	x, err := array.Generate("rand:f32[32]:seed=3")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Interp(p).Run(x, "zeros:f16[32]")
	if err != nil {
		t.Fatal(err)
	}
	device, err := RunOn("interp", p, x, "zeros:f16[32]")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := plain.Out("y").String(), device.Out("y").String(); got != want {
		t.Errorf("without functions: %s, on the device %s", got, want)
	}
	// By the name of the op, of the variable, and of a cast, whose operand has another type.
	got, err := Interp(p).
		Map("Exp", func(x float64) float64 { return x * 3 }).
		Map2("s", func(x, y float64) float64 { return x - y }).
		Map("h", func(x float64) float64 { return -x }).
		Run(x, "zeros:f16[32]")
	if err != nil {
		t.Fatal(err)
	}
	for k := range 32 {
		v := float64(float32(float64(float32(x.At(k)*3)) - 1))
		if want := got.Out("y").Type.Decode(got.Out("y").Type.Encode(-v, false)); got.Out("y").At(k) != want {
			t.Errorf("y[%d] is %v, want %v", k, got.Out("y").At(k), want)
		}
	}
	for name, run := range map[string]func() error{
		"did you mean Exp?": func() error {
			_, err := Interp(p).Map("Exq", math.Exp).Run(x, "zeros:f16[32]")
			return err
		},
		"takes 2 operands, and Exp has 1": func() error {
			_, err := Interp(p).Map2("e", math.Pow).Run(x, "zeros:f16[32]")
			return err
		},
	} {
		if err := run(); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "Run.E29") {
			t.Errorf("%v, want %s", err, name)
		}
	}
}

func TestStepHooksSeeValues(t *testing.T) {
	p := program(t, double)
	var lines []int
	var tile *array.Array
	r, err := Interp(p).OnStep(func(s *Step) bool {
		lines = append(lines, s.Line)
		if len(s.Names()) == 1 && s.Names()[0] == "r2" && s.Block[0] == 1 {
			tile = s.Tile("r2")
			if s.Float("alpha") != 2 || s.Int("i") != 1 || s.Has("nothing") || !strings.Contains(s.Text(), "Mul(r, alpha)") {
				t.Errorf("step %s: alpha %v, i %v", s, s.Float("alpha"), s.Int("i"))
			}
			if got := s.Memory("y").At(0); got != 2 {
				t.Errorf("block 0 has stored %v", got)
			}
			if pic := s.Picture("r2"); !strings.Contains(string(pic.SVG), ">T31<") || !strings.Contains(pic.Desc, "from 2 to 2") {
				t.Errorf("picture: %s", pic.Desc)
			}
			return false
		}
		return true
	}).Run(2.0, "ones:f32[64]", "zeros:f32[64]", 64)
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 11 || lines[0] != 2 || lines[10] != 6 || tile.At(31) != 2 {
		t.Errorf("lines %v, tile %v", lines, tile)
	}
	if y := r.Out("y"); y.At(31) != 2 || y.At(32) != 0 {
		t.Errorf("the run was ended before the second block stored, and y is %v", y)
	}
}

// A program that runs a while is drawn at least ten times a second, and drawing takes
// the smaller part of the time.
func TestLiveDrawsWhileItRuns(t *testing.T) {
	p, err := Load("matmul_f16_i6")
	if err != nil {
		t.Fatal(err)
	}
	var at []time.Time
	var last display.Data
	defer display.Attach(func(d display.Data) error {
		at, last = append(at, time.Now()), d
		return nil
	})()
	slow := func(*Step) bool { time.Sleep(2 * time.Millisecond); return true }
	start := time.Now()
	r, err := Interp(p).OnStep(slow).Live().Run("randint:f16[64, 128]", "rand:u8[8, 4, 96]", "zeros:f16[64, 32]", 64, 32, 128)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start).Seconds()
	if rate := float64(len(at)) / took; rate < 10 {
		t.Errorf("%d drawings in %.2f s: %.1f a second, want at least 10", len(at), took, rate)
	}
	svg := last.Data["image/svg+xml"].(string)
	if !strings.Contains(svg, "all 16 blocks have ended") || last.Transient["update"] != true || r.Out("c") == nil {
		t.Errorf("the last drawing: %.300s", svg)
	}
	if dir := os.Getenv("TILUS_LAB_SHOTS"); dir != "" {
		os.WriteFile(dir+"/live.svg", []byte(svg), 0o644)
	}
}
