package differential

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cost"
	"github.com/tilus-lab/tilus-lab/gpu/ptx"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// compiled compiles a launch as a device would, for sm_90a or what it needs.
func compiled(t *testing.T, l Launch) *compile.Compiled {
	t.Helper()
	c, err := compile.Program(l.Program, compile.Options{Arch: l.Target(compile.DefaultArch), Divisible: compile.Divisors(l.Program, l.Args)})
	if err != nil {
		t.Fatalf("%s: %v", l.Name, err)
	}
	return c
}

// loopTexts are the innermost loops of PTX text, labels and the jump back
// included.
func loopTexts(t *testing.T, c *compile.Compiled) []string {
	t.Helper()
	text, err := ptx.Print(c.Func, ptx.Options{Arch: c.Arch.Name, NoPos: true})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	lines := slices.Collect(strings.Lines(text))
	begin := map[string]int{}
	last := 0 // where the last loop began
	for i, line := range lines {
		if m := regexp.MustCompile(`^(\$L\d+):`).FindStringSubmatch(line); m != nil {
			begin[m[1]] = i
		}
		if m := regexp.MustCompile(` bra (\$L\d+);\n$`).FindStringSubmatch(line); m != nil {
			if at, back := begin[m[1]]; back && at >= last {
				out, last = append(out, strings.Join(lines[at:i+1], "")), at
			}
		}
	}
	return out
}

// lowered is the text of a launch for the first target that has what it needs.
func lowered(t *testing.T, l Launch) string {
	t.Helper()
	c, err := compile.Program(l.Program, compile.Options{Arch: l.Target("sm_80"), Divisible: compile.Divisors(l.Program, l.Args)})
	if err != nil {
		t.Fatalf("%s: %v", l.Name, err)
	}
	text, err := ptx.Print(c.Func, ptx.Options{Arch: c.Arch.Name, NoPos: true})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestEveryInstructionHasAnArchive: every instruction that sm_80 can run has an
// archive of its name, whose program has it, with its rules broken, arguments and
// results. Instructions of later targets may share one.
func TestEveryInstructionHasAnArchive(t *testing.T) {
	first := map[string]string{} // program that sm_80 runs, by instruction
	for _, l := range launches(t) {
		if l.Needs != "" {
			continue
		}
		l.Program.Body.Walk(func(s ir.Stmt) bool {
			if in, ok := s.(*ir.Instr); ok && (first[in.Op.Name] == "" || l.File == corpus.Of(in.Op.Name)) {
				first[in.Op.Name] = l.File
			}
			return true
		})
	}
	for _, op := range ir.Ops() {
		name := first[op.Name]
		if name == "" {
			continue // of later targets
		}
		if name != corpus.Of(op.Name) {
			t.Errorf("%s has no archive %s of its own with a launch; %s uses it", op.Name, corpus.Of(op.Name), name)
			continue
		}
		var broken strings.Builder
		for _, f := range corpus.Broken(name) {
			broken.Write(f.Data)
		}
		for i := range op.Rules {
			if !regexp.MustCompile(`// want [^\n]*\b` + regexp.QuoteMeta(op.Code(i)) + `\b`).MatchString(broken.String()) {
				t.Errorf("%s: no section errors of the archive breaks %s", op.Name, op.Code(i))
			}
		}
	}
}

// TestGoldenLoops compares the lowered text of the archives of instructions, and the
// innermost loops and the statistics of the programs that have sections ptx and stats,
// compiled for their first launch. With -update it writes them, also into files where
// a section is empty.
func TestGoldenLoops(t *testing.T) {
	files := map[string]bool{}
	for _, op := range ir.Ops() {
		files[corpus.Of(op.Name)] = true
	}
	golden := 0
	for _, l := range launches(t) {
		if l.Section != "in" {
			continue
		}
		c := compiled(t, l)
		got := map[string]string{"ptx": strings.Join(loopTexts(t, c), ""), "stats": cost.Report(c.Func)}
		if files[l.File] {
			got["lowered"] = lowered(t, l)
		}
		path := filepath.Join("..", "..", "vm", "corpus", l.File+".txtar")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// The file as it is now: -update may just have written other sections.
		a := txtar.Parse(data)
		if files[l.File] && !slices.ContainsFunc(a.Files, func(f txtar.File) bool { return f.Name == "lowered" }) {
			at := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "in" })
			a.Files = slices.Insert(a.Files, at, txtar.File{Name: "lowered"})
		}
		for i, f := range a.Files {
			text, ok := got[f.Name]
			if !ok {
				continue
			}
			golden++
			if !*update {
				if diff := cmp.Diff(string(f.Data), text); diff != "" {
					t.Errorf("%s, section %s (-corpus +now); go test ./tests/differential -update writes it:\n%s", l.File, f.Name, diff)
				}
			}
			a.Files[i].Data = []byte(text)
		}
		if *update {
			if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if golden < 2 {
		t.Errorf("%d golden sections", golden)
	}
}

var copies = regexp.MustCompile(`(?m)^\s+mov\.b\d+ %\w+, [%\w]+;$`)

// moves are the copies that products have for a reason: attention keeps the largest
// score so far beside the new one, and takes a tile of scores through the branch that
// masks it. An assembler gives both sides of the branch one register. Digits of four groups
// in one product keep scales and sums through the branch in which the fourth group takes them;
// where two groups share one, a turn alone takes another branch to the outputs.
var moves = map[string]int{"flash_attention": 68, "flash_attention_causal": 84, "decode_attention": 2, "digits_fixed_u2_f16": 27, "digits_long_u2_f16": 4}

// TestProductLoops looks at every loop of the corpus with a matrix instruction: it
// copies no register to another, only constants into what guarded loads leave
// alone; and an address that moves in equal steps takes one addition. Addresses that go round
// stages, or stay at a border, take more.
func TestProductLoops(t *testing.T) {
	n := 0
	for _, l := range launches(t) {
		c := compiled(t, l)
		for _, loop := range cost.Loops(c.Func) {
			if loop.Classes[code.Matrix] == 0 {
				continue
			}
			n++
			if loop.Moves > moves[l.File] {
				t.Errorf("%s: %d register moves in the loop at %s", l.Name, loop.Moves, loop.Pos)
			}
			t.Logf("%s: loop at %s: %d matrix instructions of %d, %d pointers, %d additions and %d other instructions for them, %d constants moved",
				l.Name, loop.Pos, loop.Classes[code.Matrix], loop.Instrs, loop.Pointers, loop.Adds, loop.Steps, loop.Fills)
			if loop.Guarded == 0 && !strings.ContainsAny(corpus.Program(l.File), "%") && !strings.Contains(corpus.Program(l.File), "min(") && loop.Adds+loop.Steps > loop.Pointers {
				t.Errorf("%s: %d additions and %d other instructions for %d pointers of the loop at %s", l.Name, loop.Adds, loop.Steps, loop.Pointers, loop.Pos)
			}
		}
		// The text says the same as the count, of mma; those of warpgroups have tests of their own.
		moved := 0
		for _, text := range loopTexts(t, c) {
			if strings.Contains(text, "mma.sync") {
				moved += len(copies.FindAllString(text, -1))
			}
		}
		counted := 0
		for _, loop := range cost.Loops(c.Func) {
			if loop.Classes[code.Matrix] > 0 {
				counted += loop.Moves + loop.Fills
			}
		}
		if moved != counted {
			t.Errorf("%s: %d copies in the text of the loops with matrix instructions, %d counted", l.Name, moved, counted)
		}
	}
	if n < 10 {
		t.Errorf("%d loops with matrix instructions", n)
	}
}
