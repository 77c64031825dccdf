package pane

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/infer"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// The forms of code.
const (
	formPTX    = "PTX"
	formThread = "thread code"
	formCUDA   = "CUDA C++"
	formNone   = "nothing" // in the pane of programs
)

func codePane() Pane {
	return Pane{
		Name:  "code",
		Title: "Generated code",
		Doc:   "A program beside what it becomes: point at a line to see where it went, or where an instruction is from.",
		Params: []Param{
			{Name: "src", Title: "Program", Kind: Program, Default: StartProgram, Doc: "Program text."},
			{Name: "f", Title: "Form", Kind: Choice, Default: formPTX, Choices: []string{formPTX, formThread, formCUDA}, Doc: "What the driver takes; what the simulator runs; the same to read."},
			{Name: "t", Title: "Target", Kind: Choice, Default: compile.DefaultArch, Choices: arch.Names(), Doc: "The GPU that it is for."},
			{Name: "o", Title: "Passes", Kind: Choice, Default: "all", Choices: []string{"all", "none"}, Doc: "Whether the passes over thread code run."},
		},
		Render: renderCode,
	}
}

// placeMark is a comment that says which line of the program asked for what follows.
var placeMark = regexp.MustCompile(`\s*// src:(\d+):\d+\s*$`)

func renderCode(v Values) (Result, error) {
	p, trace, err := infer.Parse("src", v["src"], nil, compile.Layouts())
	if err != nil {
		return Result{}, err
	}
	right, became, c, err := lowered(p, v["f"], v["t"], v["o"] == "none", v)
	if err != nil {
		return Result{}, err
	}
	mine := make([]int, strings.Count(v["src"], "\n")+1)
	for i := range mine {
		if became[i+1] > 0 {
			mine[i] = i + 1
		}
	}
	o := v.look()
	o.NoCaption = true
	left, err := layoutviz.Program(layoutviz.Listing{Title: p.Name, Text: v["src"], Keys: mine, Max: 1000}, o)
	if err != nil {
		return Result{}, err
	}
	for i := range left.IDs {
		e := &left.IDs[i]
		e.ID = "s." + e.ID
		e.Label = fmt.Sprintf("line %d became %d lines of %s", i+1, became[i+1], v["f"])
	}
	out := Result{
		Pictures: []Picture{{Name: "program", Picture: left}, right},
		Sentence: fmt.Sprintf("%s is %d lines of %s for %s; a block has %d threads and %d bytes of shared memory.", p.Name, len(right.IDs), v["f"], c.Arch.Name, c.Func.Launch.Block, c.Func.Launch.SharedBytes),
	}
	err = out.withProducts(2, p, trace.Notes(), v["t"], v.look())
	return out, err
}

// lowered is what a program becomes in a form, with the lines that each line of it became.
func lowered(p *ir.Program, form, target string, plain bool, v Values) (Picture, map[int]int, *compile.Compiled, error) {
	fail := func(err error) (Picture, map[int]int, *compile.Compiled, error) { return Picture{}, nil, nil, err }
	c, err := compile.Program(p, compile.Options{Arch: target, NoOpt: plain})
	if err != nil {
		return fail(placed(err, "src", v["src"]))
	}
	text := ""
	switch form {
	case formPTX:
		if text, err = c.PTX(); err != nil {
			return fail(located(err, "t", target))
		}
	case formThread:
		text = code.Format(c.Func)
	default:
		text = c.CUDA()
	}
	var lines []string
	var keys []int
	line := 0 // of the program
	for _, s := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if m := placeMark.FindStringSubmatch(s); m != nil {
			line, _ = strconv.Atoi(m[1])
			if s = s[:len(s)-len(m[0])]; strings.TrimSpace(s) == "" {
				continue
			}
		}
		lines, keys = append(lines, s), append(keys, line)
	}
	became := map[int]int{}
	for _, k := range keys {
		became[k]++
	}
	o := v.look()
	o.NoCaption = true
	pic, err := layoutviz.Program(layoutviz.Listing{Title: form, Text: strings.Join(lines, "\n"), Keys: keys, Max: 2000}, o)
	return Picture{Name: form, Picture: pic}, became, c, err
}
