package hopper

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// rung is one product of the recorded ladder.
type rung struct {
	Name string
	Step int
	S    Schedule
}

// rungs are the products of tests/record/hopper.json: the steps in f16, and the last one
// in the other types.
func rungs() []rung {
	list := []rung{{"v0 f16", 0, Schedule{M: 128, N: 128}}}
	for step := 1; step < len(Steps); step++ {
		list = append(list, rung{fmt.Sprintf("v%d f16", step), step, Schedule{}})
	}
	return append(list, rung{"v5 bf16", 5, Schedule{Type: dtype.BF16}}, rung{"v5 f8e4m3", 5, Schedule{Type: dtype.F8E4M3, Out: dtype.BF16}})
}

var turns = flag.String("turns", "", "let TestGPUTurns time what standard input names, line by line, and keep PTX in this folder")

// TestGPUTurns is our side of tests/peers/hopper_peer.py: for each line of standard
// input, the name of a rung, it writes a line of JSON with a row of its time. The
// first time a rung comes its sums are checked.
func TestGPUTurns(t *testing.T) {
	if *turns == "" {
		t.Skip("a child of tests/peers/hopper_peer.py")
	}
	d, g := openHopper(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	byName := map[string]rung{}
	for _, r := range rungs() {
		byName[r.Name] = r
	}
	data, checked := map[dtype.Type][2]*array.Array{}, map[string]bool{}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		r, ok := byName[in.Text()]
		if !ok {
			t.Fatalf("no rung %q", in.Text())
		}
		row, err := turn(ctx, d, g, r, data, !checked[r.Name])
		if err != nil {
			t.Fatalf("%s: %v", r.Name, err)
		}
		checked[r.Name] = true
		line, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("row %s\n", line)
	}
}

func turn(ctx context.Context, d device.Device, g *tune.GPU, r rung, data map[dtype.Type][2]*array.Array, check bool) (tune.Row, error) {
	n := *size
	p, err := Matmul(r.Step, r.S)
	if err != nil {
		return tune.Row{}, err
	}
	s, err := r.S.fill(r.Step)
	if err != nil {
		return tune.Row{}, err
	}
	x, ok := data[s.Type]
	if !ok {
		x = [2]*array.Array{noise(s.Type, 1, n, n), noise(s.Type, 2, n, n)}
		data[s.Type] = x
	}
	args := []ir.Arg{{Array: x[0]}, {Array: x[1]}, {Array: array.New(s.Out, n, n)}, {Int: int64(n)}, {Int: int64(n)}, {Int: int64(n)}}
	if p.Param("P") != nil {
		args = append(args, ir.Arg{Int: int64(132 / s.Cluster * s.Cluster)})
	}
	origin := tune.Origin(g, *commit)
	if check {
		res, err := d.Run(ctx, p, args)
		if err != nil {
			return tune.Row{}, err
		}
		if origin.RelError = spot(x[0], x[1], res.Args[2].Array); !(origin.RelError <= 1e-2) {
			return tune.Row{}, fmt.Errorf("sums are off by %g of the largest", origin.RelError)
		}
		c, err := compile.Program(p, compile.Options{Arch: g.Target, Divisible: compile.Divisors(p, args)})
		if err != nil {
			return tune.Row{}, err
		}
		ptx, err := c.PTX()
		if err != nil {
			return tune.Row{}, err
		}
		if err := os.WriteFile(filepath.Join(*turns, strings.ReplaceAll(r.Name, " ", "_")+".ptx"), []byte(ptx), 0o644); err != nil {
			return tune.Row{}, err
		}
	}
	timing, err := tune.Time(ctx, g, p, args, tune.Options{Replays: 7, Launches: 4, WorkingSet: 1})
	if err != nil {
		return tune.Row{}, err
	}
	row := origin.Row(r.Name, tune.Hash(p), timing, nil)
	if check {
		row.Result, row.RelError = "close", origin.RelError
	}
	return row, nil
}

// tflops is the rate of a product of this size.
func tflops(n int, us float64) float64 { return 2 * math.Pow(float64(n), 3) / us / 1e6 }
