// Package status generates the status matrix: for each instruction, how far each
// part of the project is with it, and what shows it. `tilus-lab status` prints it.
package status

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/lower"
	"github.com/tilus-lab/tilus-lab/tests/differential"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/tests/record"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/infer"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

var update = flag.Bool("update", false, "write vm/ir/STATUS.md and the files of web/facts")

// columns of the matrix.
var columns = []string{"rules", "example", "interp", "inference", "lower", "sim", "PTX", "CUDA C", "GPU"}

// line is an instruction of the matrix. A cell is "proved on GPU", "simulated",
// "assembles" or "not built", with what shows it, or why not, behind a colon.
type line struct {
	Op     string            `json:"op"`
	Family string            `json:"family"`
	Cells  map[string]string `json:"cells"`
}

// broken has the archive that breaks a rule, by the rule's code.
func broken() map[string]string {
	codes := map[string]string{}
	for _, name := range corpus.Errors() {
		for _, f := range corpus.Broken(name) {
			for text := range strings.Lines(string(f.Data)) {
				if _, want, ok := strings.Cut(text, "// want "); ok {
					for _, code := range strings.Fields(want) {
						codes[code] = name
					}
				}
			}
		}
	}
	return codes
}

// inferred says which rules of inference find the layouts of an op's tiles.
func inferred(op *ir.Op) string {
	tiles := false
	for _, p := range slices.Concat(op.In, op.Out) {
		tiles = tiles || p.Accept&(ir.AcceptRegister|ir.AcceptShared) != 0
	}
	if !tiles {
		return "simulated: it has no tiles whose layouts could be left out"
	}
	names := []string{op.Name}
	if op.Class == ir.ClassElementwise || op.Name == "CastDeferred" {
		names = append(names, infer.OpUnary, infer.OpBinary, infer.OpWhere)
	}
	var rules []string
	for _, r := range infer.Rules() {
		if slices.ContainsFunc(r.Ops, func(o string) bool { return slices.Contains(names, o) }) {
			rules = append(rules, r.Name)
		}
	}
	if len(rules) == 0 {
		return "not built: no rule of vm/infer names it"
	}
	return "simulated: by the rules " + strings.Join(rules, ", ") + " of vm/infer"
}

// matrix computes the table from the tree as it is.
func matrix(t *testing.T) []line {
	launches, err := differential.Launches()
	if err != nil {
		t.Fatal(err)
	}
	hash := map[string]string{}
	uses := map[string][]differential.Launch{}
	lowered := map[string]bool{}
	for _, l := range launches {
		hash[l.Name] = l.Hash()
		seen := map[string]bool{}
		l.Program.Body.Walk(func(s ir.Stmt) bool {
			if in, ok := s.(*ir.Instr); ok && !seen[in.Op.Name] {
				seen[in.Op.Name] = true
				uses[in.Op.Name] = append(uses[in.Op.Name], l)
			}
			return true
		})
		for _, target := range []string{"sm_80", compile.DefaultArch, "sm_100a"} {
			if _, err := compile.Program(l.Program, compile.Options{Arch: target}); err == nil {
				lowered[l.Name] = true
				break
			}
		}
	}
	rows := map[string]differential.Row{}
	for _, r := range record.Read[differential.Row](t, "programs.json") {
		rows[r.Name] = r
	}
	examples := broken()
	var out []line
	for _, op := range ir.Ops() {
		c := map[string]string{}
		out = append(out, line{op.Name, op.Family, c})
		var never []string
		where := map[string]bool{}
		for i := range op.Rules {
			if name, ok := examples[op.Code(i)]; ok {
				where[name] = true
			} else {
				never = append(never, op.Code(i))
			}
		}
		switch {
		case len(never) > 0:
			c["rules"] = "not built: no example breaks " + strings.Join(never, ", ")
		case len(op.Rules) == 0:
			c["rules"] = "simulated: Op.G1 to Op.G7, which hold for every instruction, are all that can be wrong"
		default:
			c["rules"] = "simulated: each refuses a text of " + strings.Join(slices.Sorted(maps.Keys(where)), ", ")
		}
		c["inference"] = inferred(op)
		// The launch that shows most: proved on a GPU, of the instruction's own archive.
		var best *differential.Launch
		score := func(l differential.Launch) int {
			n := 0
			if r, ok := rows[l.Name]; ok && r.Hash == hash[l.Name] && strings.HasPrefix(r.Result, "equal") && r.Differ == 0 {
				n = 4
				if r.Also["nvrtc"] == "equal" {
					n += 4
				}
			}
			if l.File == corpus.Of(op.Name) {
				n += 2
			}
			if lowered[l.Name] {
				n++
			}
			return n
		}
		for _, l := range uses[op.Name] {
			if best == nil || score(l) > score(*best) {
				best = &l
			}
		}
		machines := []string{"interp", "lower", "sim", "PTX", "CUDA C", "GPU"}
		if best == nil || !lowered[best.Name] {
			why := "not built: no program of vm/corpus uses it"
			if best != nil {
				why = "not built: no program with it lowers"
			}
			for _, m := range append(machines, "example") {
				c[m] = why
			}
			continue
		}
		row := rows[best.Name]
		proved, nvrtc := score(*best) >= 4, row.Also["nvrtc"] == "equal"
		of := fmt.Sprintf("%s, %s, %s", row.GPU, best.Name, row.Hash)
		for _, m := range append(machines, "example") {
			switch {
			case proved && m == "CUDA C" && nvrtc:
				c[m] = "proved on GPU: through NVRTC, " + of
			case m == "CUDA C":
				c[m] = "assembles: NVRTC takes " + best.Name
			case proved:
				c[m] = "proved on GPU: " + of
			case m == "PTX":
				c[m] = "assembles: ptxas takes " + best.Name
			case m == "GPU" && row.Name != "" && row.Differed():
				why := "the same text"
				if row.Hash != hash[best.Name] {
					why = "changed since"
				}
				c[m] = fmt.Sprintf("not built: %s differed when last run, %s; %s", best.Name, row.Result, why)
			case m == "GPU" && row.Name != "":
				c[m] = fmt.Sprintf("not built: stale, %s was proved with hash %s and has %s", best.Name, row.Hash, hash[best.Name])
			case m == "GPU":
				c[m] = "not built: no GPU has run a program with it"
			default:
				c[m] = "simulated: equal bits on interpreter and simulator, " + best.Name
			}
		}
		if !interp.Has(op.Name) {
			c["interp"] = "not built: vm/interp has no meaning for it"
		}
		if !lower.Has(op.Name) {
			c["lower"] = "not built: gpu/lower has no code for it"
		}
	}
	return out
}

// markdown is the matrix for people; the reasons follow it as a list.
func markdown(lines []line, differed map[string][]record.Row) string {
	var b strings.Builder
	b.WriteString("# Status of the instructions\n\nWritten by `go test ./tests/status -update`; `tilus-lab status` prints it. *simulated*: tests without a GPU hold it: the verifier refuses what breaks a rule, layouts that are left out are found, the interpreter and the simulator of lowered code give the same bits. " +
		"*assembles*: NVIDIA's assembler takes the PTX, its run-time compiler the CUDA C++. *proved*: a GPU gave the bits of interpreter and simulator for a program with it, recorded in tests/record. *stale*: proved for another text. –: not built, for the reason below.\n\n")
	fmt.Fprintf(&b, "| instruction | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	reasons := map[string][]string{}
	for _, l := range lines {
		fmt.Fprintf(&b, "| %s |", l.Op)
		for _, c := range columns {
			cell, reason, _ := strings.Cut(l.Cells[c], ": ")
			switch {
			case cell == "proved on GPU":
				cell = "proved"
			case strings.HasPrefix(reason, "stale"):
				cell = "stale"
			case cell == "not built":
				cell = "–"
				reasons[c+": "+reason] = append(reasons[c+": "+reason], l.Op)
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n## Not built\n\n")
	for _, r := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(&b, "- %s – %s\n", r, strings.Join(reasons[r], ", "))
	}
	if len(differed) > 0 {
		b.WriteString("\n## Differed when last run\n\nWhat a GPU did not compute as it must, in the last run that tests/record holds. Some changed since, as the tests of the record say; none counts as proved before the next run.\n\n")
		for _, file := range slices.Sorted(maps.Keys(differed)) {
			for _, r := range differed[file] {
				fmt.Fprintf(&b, "- %s, %s – %d of %d elements on %s, commit %.7s\n", file, r.Name, r.Differ, r.Of, r.GPU, r.Commit)
			}
		}
	}
	return b.String()
}

// TestStatusIsFresh holds the files to the tree.
func TestStatusIsFresh(t *testing.T) {
	lines := matrix(t)
	data, err := json.MarshalIndent(struct {
		Columns []string `json:"columns"`
		Lines   []line   `json:"instructions"`
	}{columns, lines}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	root := need.Root(t)
	for file, want := range map[string]string{"vm/ir/STATUS.md": markdown(lines, record.Differences(t)), "web/facts/status.json": string(data) + "\n", "web/facts/benchmarks.json": benchmarks(t, root)} {
		path := filepath.Join(root, filepath.FromSlash(file))
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is stale: go test ./tests/status -update", file)
		}
	}
}

// TestCellsAreOfTheList holds that no cell says anything else.
func TestCellsAreOfTheList(t *testing.T) {
	for _, l := range matrix(t) {
		for _, c := range columns {
			kind, reason, _ := strings.Cut(l.Cells[c], ": ")
			if !slices.Contains([]string{"simulated", "assembles", "proved on GPU", "not built"}, kind) || kind == "not built" && reason == "" {
				t.Errorf("%s, %s: %q", l.Op, c, l.Cells[c])
			}
		}
	}
}

// spilled are the bytes of local memory that a program takes on a target where all of
// them are for a reason: this one has the tile that is fastest where it was measured,
// and 254 registers there.
var spilled = map[string]int{"flash_attention_causal sm_80": 16}

// TestCorpusAssembles gives the PTX of every launch of the corpus, for each target
// that has what it needs, to NVIDIA's assembler: what a cell that says "assembles"
// rests on. No product spills registers, nor does anything else, and products of
// warpgroups do not wait for each other.
func TestCorpusAssembles(t *testing.T) {
	launches, err := differential.Launches()
	if err != nil {
		t.Fatal(err)
	}
	archs := []string{"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}
	if testing.Short() {
		archs = archs[:1]
	}
	seen, n := map[string]bool{}, 0
	for _, l := range launches {
		for _, arch := range archs {
			if !l.Runs(arch) {
				continue
			}
			o := compile.Options{Arch: arch, Divisible: compile.Divisors(l.Program, l.Args)}
			if key := compile.Key(l.Program, o); seen[key] {
				continue
			} else {
				seen[key] = true
			}
			c, err := compile.Program(l.Program, o)
			var list diag.List
			if errors.As(err, &list) && strings.HasPrefix(list[0].Code, "Lower.") || err != nil && strings.Contains(err.Error(), "no target") {
				continue // refused by a numbered rule
			}
			if err != nil {
				t.Fatal(err)
			}
			ptx, err := c.PTX()
			if err != nil {
				t.Fatal(err)
			}
			if made, err := need.Assemble(t, arch, ptx); err != nil || strings.Contains(made.Said, "serializ") || max(made.Frame, made.Spills()) > spilled[l.File+" "+arch] {
				t.Errorf("%s, %s: %v\n%s", l.Name, arch, err, made.Said)
			}
			n++
		}
	}
	t.Logf("%d compilations assemble", n)
}
