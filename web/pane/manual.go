package pane

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func manualPane() Pane {
	return Pane{
		Name:  "manual",
		Title: "Manual",
		Doc:   "What each instruction of programs takes, gives and demands, with an example.",
		Params: []Param{
			{Name: "op", Title: "Instruction", Kind: Choice, Default: "Dot", Choices: ir.OpNames(), Doc: "The instruction."},
		},
		Render: func(v Values) (Result, error) {
			op := ir.OpByName(v["op"])
			text := strings.NewReplacer("### ", "", "```\n", "", "```", "", "**", "").Replace(op.Manual())
			r := Result{Sentence: fmt.Sprintf("%s belongs to the family %s.", op.Name, op.Family), Text: strings.TrimSpace(text) + "\n"}
			name, src := exampleOf(op.Name)
			if src == "" {
				return r, nil
			}
			p, err := compile.Parse("op", src, nil)
			if err != nil {
				return Result{}, err
			}
			// The lines of the example that have the instruction.
			l := layoutviz.Listing{Title: "example: " + name, Text: src, Keys: make([]int, strings.Count(src, "\n")+1)}
			p.Body.Walk(func(s ir.Stmt) bool {
				if in, ok := s.(*ir.Instr); ok && in.Op == op {
					if line := in.Pos.Line; line > 0 && line <= len(l.Keys) {
						l.Keys[line-1] = 1
						if l.At == 0 {
							l.At = line
						}
					}
				}
				return true
			})
			pic, err := layoutviz.Program(l, v.look())
			if err != nil {
				return Result{}, err
			}
			pic.Desc = "An example program with " + op.Name + "."
			r.Pictures = []Picture{{Name: name, Picture: pic}}
			return r, nil
		},
	}
}

// exampleOf is the shortest example program with an instruction.
func exampleOf(op string) (name, src string) {
	for _, n := range corpus.Names() {
		if s := corpus.Program(n); strings.Contains(s, op+"(") && (src == "" || len(s) < len(src)) && hasWord(s, op) {
			name, src = n, s
		}
	}
	return name, src
}

// hasWord reports that a program calls the instruction itself, not one whose name ends so.
func hasWord(src, op string) bool {
	for rest := src; ; {
		i := strings.Index(rest, op+"(")
		if i < 0 {
			return false
		}
		if i == 0 || strings.ContainsRune(" \t", rune(rest[i-1])) {
			return true
		}
		rest = rest[i+1:]
	}
}
