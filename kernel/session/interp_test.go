package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// Functions of cells compute elements and follow the steps of the interpreter.
func TestClosuresOfCells(t *testing.T) {
	b := open(t)
	b.ok("%%tile p\n"+`program act<n/32>(x: *f32, y: *f32, n: i32) {
	i = BlockIndices()
	gx = ViewGlobal(x) : global f32[n]
	gy = ViewGlobal(y) : global f32[n]
	r = LoadGlobal(gx, offset=[i*32]) : register f32[32] spatial(32)
	e = Abs(r) : register f32[32] spatial(32)
	s = Add(e, r) : register f32[32] spatial(32)
	StoreGlobal(gy, s, offset=[i*32])
}`, "")
	b.ok(`import "fmt"
slope := 0.25
calls := 0
leaky := func(x float64) float64 { calls++; if x < 0 { return slope * x }; return x }
r, err := lab.Interp(p).Map("Abs", leaky).Map2("s", func(x, y float64) float64 { return 100 * x }).Run("iota:f32[64]", "zeros:f32[64]", 64)
fmt.Println(err, calls, r.Out("y").At(0), r.Out("y").At(63))`, "<nil> 64 0 6300\n")
	b.ok(`slope = 0.5
r, err = lab.Interp(p).Map("e", leaky).Map2("s", func(x, y float64) float64 { return x }).Run("const=-8:f32[32]", "zeros:f32[32]", 32)
fmt.Println(err, r.Out("y").At(5))`, "<nil> -4\n")
	b.ok(`var seen []string
r, err = lab.Interp(p).OnStep(func(s *lab.Step) bool {
	for _, n := range s.Names() {
		if n == "s" {
			seen = append(seen, fmt.Sprint(s.Line, s.Block, s.Tile("s").At(1), s.Memory("y").At(0)))
		}
	}
	return len(seen) < 2
}).Run("ones:f32[96]", "const=9:f32[96]", 96)
fmt.Println(err, len(seen), seen[0], seen[1], r.Out("y").At(0), r.Out("y").At(32))`, "<nil> 2 8 [0 0 0] 2 9 8 [1 0 0] 2 2 2 9\n")

	// A panic of a function ends the cell and nothing else; so does an interrupt, soon.
	if r, _ := b.run(`lab.Interp(p).Map("Abs", func(x float64) float64 { panic("no such value") }).Run("ones:f32[32]", "ones:f32[32]", 32)`); r.Status != "error" || r.Lost || !strings.Contains(r.EValue, "no such value") {
		t.Errorf("%+v", r)
	}
	done := b.ahead(t.Context(), `lab.Interp(p).OnStep(func(*lab.Step) bool { println("begun"); for { }; return true }).Run("ones:f32[32]", "ones:f32[32]", 32)`)
	start := time.Now()
	b.Interrupt()
	if r := b.end(done); r.EName != "Interrupted" || r.Tainted || time.Since(start) > 5*time.Second {
		t.Errorf("%+v after %v", r, time.Since(start))
	}
	b.ok("calls", "=> 96\n")
}

// While a program runs its cell shows SVG that changes at least ten times a second, in one display; here a quarter of that will do,
// for busy machines.
func TestLivePictures(t *testing.T) {
	b := open(t)
	b.ok(`p, err := lab.Load("matmul_f16_i6")
err`, "")
	start := time.Now()
	b.run(`lab.Interp(p).Live().Run("randint:f16[512, 256]", "rand:u8[16, 32, 96]", "zeros:f16[512, 256]", 512, 256, 256)
"ended"`)
	took := time.Since(start)
	ids := map[string]bool{}
	updates, last, ended := 0, "", false
	for _, e := range b.ev {
		switch {
		case e.Kind == proto.KindResult:
			ended = true
		case e.Bundle != nil && e.Bundle.DisplayID != "":
			if ended {
				t.Error("a drawing came after the result of the cell")
			}
			ids[e.Bundle.DisplayID] = true
			if e.Bundle.Update {
				updates++
			}
			last, _ = e.Bundle.Data["image/svg+xml"].(string)
			if !strings.HasPrefix(strings.TrimSpace(last), "<?xml") && !strings.HasPrefix(strings.TrimSpace(last), "<svg") {
				t.Fatalf("no SVG: %.80s", last)
			}
		}
	}
	rate := float64(updates) / took.Seconds()
	t.Logf("%d updates in %v: %.1f a second", updates, took.Round(time.Millisecond), rate)
	if len(ids) != 1 || rate < 10./4 || updates < 5 || !strings.Contains(last, "all 1024 blocks have ended") || !ended {
		t.Errorf("%d displays, %d updates, %.1f a second", len(ids), updates, rate)
	}
}

func TestProgressOfALaunch(t *testing.T) {
	b := open(t)
	b.ok(`p, err := lab.Load("axpy")
err`, "")
	b.run(`lab.Interp(p).Progress().Run(2.0, "zeros:f32[4096]", "ones:f32[4096]", 4096)`)
	bars, last := 0, ""
	for _, e := range b.ev {
		if e.Bundle != nil && e.Bundle.DisplayID != "" {
			bars++
			last, _ = e.Bundle.Data["text/plain"].(string)
		}
	}
	if bars < 2 || !strings.Contains(last, "/") || strings.Contains(last, "░") {
		t.Errorf("%d bars, last %q", bars, last)
	}
}
