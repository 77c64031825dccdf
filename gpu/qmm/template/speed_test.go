package template

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// compiled are schedules whose way from text to PTX is timed, with the longest it
// should take on a core of 2024.
var compiled = []struct {
	o    DecodeOptions
	most time.Duration
}{
	{DecodeOptions{}, 8 * time.Millisecond},
	{DecodeOptions{Splits: 2}, 15 * time.Millisecond},
	{DecodeOptions{Splits: 4, Warps: 2, Group: 64, PDL: true}, 15 * time.Millisecond},
	{DecodeOptions{Splits: 5, Depth: 3, KeepL1: true}, 15 * time.Millisecond},
}

// source is the text of a schedule, and toPTX what compiles it.
func source(t testing.TB, o DecodeOptions) string {
	p, err := DecodeU4(o)
	if err != nil {
		t.Fatal(err)
	}
	return text.Format(p)
}

func toPTX(t testing.TB, src string) {
	p, err := compile.Parse("decode", src, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := compile.Program(p, compile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.PTX(); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, c := range compiled {
		src := source(b, c.o)
		b.Run(fmt.Sprintf("%+v", c.o), func(b *testing.B) {
			for b.Loop() {
				toPTX(b, src)
			}
		})
	}
}

// TestCompileIsQuick allows four times what BenchmarkCompile should show, for machines
// that do other things beside.
func TestCompileIsQuick(t *testing.T) {
	for _, c := range compiled {
		src := source(t, c.o)
		var times []time.Duration
		for range 5 {
			start := time.Now()
			toPTX(t, src)
			times = append(times, time.Since(start))
		}
		if least := slices.Min(times); least > 4*c.most {
			t.Errorf("%+v takes %v from text to PTX, more than four times %v", c.o, least, c.most)
		}
	}
}
