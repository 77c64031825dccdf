package session_test

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// TestNative compiles cells: variables go in and come back, functions and types are the
// cell's own, and mistakes are at their places.
func TestNative(t *testing.T) {
	b := open(t)
	b.ok("n, xs, total := 1000, []float64{1, 2, 3}, 0.0\nnames := map[string]int{\"a\": 1}\ntype point struct{ x, y int }\np := point{1, 2}", "")
	b.ok("%%native\nimport \"fmt\"\n\ntype acc struct{ sum float64 }\n\nfunc (a *acc) add(x float64) { a.sum += x + float64(n) }\n\nvar a acc\nfor _, x := range xs {\n\ta.add(x)\n}\ntotal = a.sum\nxs = append(xs, 4)\nnames[\"b\"] = n\ncounts := [2]int32{1, -1}\nfmt.Println(\"done\", n)",
		"done 1000\nnote: a stays behind: main.acc is a type of a package\n")
	b.ok("total", "=> 3006\n")
	b.ok("xs", "=> [1 2 3 4]\n")
	b.ok("names[\"b\"]", "=> 1000\n")
	b.ok("counts", "=> [1 -1]\n")
	for code, want := range map[string]string{
		"%%native\n\nx := 1\n  y := nope(x)":                  "4:8: undefined: nope [Cell.E13]",
		"%%native\nfmt.Println(1)":                            "2:1: undefined: fmt [Cell.E13]",
		"%%native\nx := 1 +":                                  "[Cell.E13]",
		"%%native\np.x = 3":                                   "p cannot go into a native cell",
		"%%native fast\nx := 1":                               "takes nothing on its line",
		"%%native\nimport \"os\"\nos.Exit(3)":                 "the native program ended: exit status 3",
		"%%native\nvar m map[string]int\nm[\"a\"] = 1":        "the native program ended: exit status 2",
		"%%native\nimport \"github.com/nope/nope\"\nnope.X()": "[Cell.E13]",
	} {
		r, _ := b.run(code)
		if r.Status != "error" || !strings.Contains(r.EValue+strings.Join(r.Traceback, "\n"), want) {
			t.Errorf("%q: %s %s %q, want %q", code, r.Status, r.EValue, r.Traceback, want)
		}
	}
	b.ok("total", "=> 3006\n")
	time.AfterFunc(2*time.Second, func() { b.Interrupt() })
	start := time.Now()
	if r, _ := b.run("%%native\nfor {\n\tn++\n}"); r.EName != "Interrupted" || time.Since(start) > 10*time.Second {
		t.Errorf("%+v after %v", r, time.Since(start))
	}
	b.ok("n", "=> 1000\n")
}

// TestNativeWithoutToolchain says what is missing, and what to do.
func TestNativeWithoutToolchain(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	b := open(t)
	r, _ := b.run("%%native\nx := 1")
	if r.Status != "error" || !strings.Contains(r.EValue, "no go is on PATH") || !strings.Contains(r.EValue, "without %%native") {
		t.Errorf("%+v", r)
	}
	b.ok("x := 1\nx", "=> 1\n")
}

// recordNative measures the loop of TestNativeIsFast on a quiet machine and writes
// what it took:
//
//	go test ./kernel/session -run TestNativeIsFast -record-native
var recordNative = flag.Bool("record-native", false, "write tests/record/native.json")

const nativeRecord = "../../tests/record/native.json"

// nativeRun is a loop of 1e9 additions. Interpreted is worked out from fewer.
type nativeRun struct {
	Interpreted float64 `json:"interpreted_s"`
	Native      float64 `json:"native_s"` // with its compilation
	Times       float64 `json:"times"`
}

// TestNativeRecord holds the record to the limit of the issue.
func TestNativeRecord(t *testing.T) {
	raw, err := os.ReadFile(nativeRecord)
	if err != nil {
		t.Fatal(err)
	}
	var r nativeRun
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	if r.Native <= 0 || r.Times < 40 || math.Abs(r.Times-r.Interpreted/r.Native) > 1 {
		t.Errorf("%+v: a native cell is at least 40 times as fast", r)
	}
}

// TestNativeIsFast compares a loop with the interpreted one, as [TestNativeRecord] does
// on a quiet machine; here a quarter of its factor will do.
func TestNativeIsFast(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds")
	}
	b := open(t)
	const slow, fast = 5_000_000, 1_000_000_000
	start := time.Now()
	b.ok("s := 0\nfor i := 0; i < 5000000; i++ {\n\ts += i\n}", "")
	interpreted := time.Since(start) * (fast / slow)
	start = time.Now()
	b.ok("%%native\ns = 0\nfor i := 0; i < 1000000000; i++ {\n\ts += i\n}", "")
	native := time.Since(start)
	b.ok("s", "=> 499999999500000000\n")
	ratio := interpreted.Seconds() / native.Seconds()
	t.Logf("1e9 additions: %.1f s interpreted (from %d), %.2f s native with its compilation: %.0f times", interpreted.Seconds(), slow, native.Seconds(), ratio)
	if *recordNative {
		round := func(x float64) float64 { return math.Round(x*100) / 100 }
		raw, err := json.Marshal(nativeRun{round(interpreted.Seconds()), round(native.Seconds()), round(ratio)})
		if err == nil {
			err = os.WriteFile(nativeRecord, append(raw, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if ratio < 10 {
		t.Errorf("native cells are %.0f times as fast", ratio)
	}
}
