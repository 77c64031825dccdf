package main

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
)

// The program with which the manual begins is right, at every width.
func TestManualProgram(t *testing.T) {
	_, rest, _ := strings.Cut(programText, "```\n")
	src, _, ok := strings.Cut(rest, "```")
	if !ok || !strings.HasPrefix(src, "program ") {
		t.Fatal("the manual does not begin with a program")
	}
	for _, w := range []string{"u1", "u3", "i5", "f6e3m2", "u8"} {
		p, err := compile.Parse("manual.md", src, map[string]string{"W": w})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := compile.Program(p, compile.Options{}); err != nil {
			t.Errorf("%s: %v", w, err)
		}
	}
}

// A person who knows the manual alone finds how layouts of shared memory are swizzled, and what a word is part of.
func TestManualFinds(t *testing.T) {
	if page := textManual(); !strings.Contains(page, "`apply_swizzle(") || !strings.Contains(page, "`column_spatial(") || !strings.Contains(page, " f6e3m2 ") {
		t.Error("the manual lacks layouts or types")
	}
	for word, want := range map[string]string{"Permute": "did you mean PermuteShared?", "Vieww": "did you mean View?", "Zzzz": "manual text", "barrier": "WaitBarrier"} {
		if err := noInstruction(word); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", word, err)
		}
	}
}
