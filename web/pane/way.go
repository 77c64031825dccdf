package pane

import (
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/follow"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/theatre"
	"github.com/tilus-lab/tilus-lab/vm/infer"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/web/pane/given"
)

// following is the parameter of panes that follow an element of their program.
func following() Param {
	return Param{Name: "el", Title: "Follow", Kind: Text, Hint: "ra[3, 5], or choose a cell",
		Doc: "An element to be followed from global memory to the store: a tensor or parameter and an index; acc[0, 1] @ 12 is what it is after 12 statements."}
}

// varKey tells the elements of a program's tensors apart: element n of v has the key
// varKey(p, v)+n in every pane that shows p. Lines have their number.
func varKey(p *ir.Program, v *ir.Var) int {
	at, found := 1, 0
	p.Body.Walk(func(s ir.Stmt) bool {
		if in, ok := s.(*ir.Instr); ok {
			for _, x := range in.Out {
				if at++; x == v && found == 0 {
					found = at
				}
			}
		}
		return true
	})
	return found << 25
}

// way draws the way of an element. Choosing a station leads to where the program stands
// when the element is there, where debug says that the pane has steps.
func way(p *ir.Program, args []ir.Arg, el string, debug bool, o layoutviz.Options) (Picture, error) {
	from, err := follow.ParseStart(el, at("el"))
	if err != nil {
		return Picture{}, placed(err, "el", el)
	}
	w, err := follow.Trace(p, args, from, follow.Limits{Steps: debugSteps, Time: debugTime})
	if err != nil {
		return Picture{}, placed(err, "el", el)
	}
	pic, err := theatre.Way(w, o)
	if err != nil {
		return Picture{}, err
	}
	to := map[string]Values{}
	for i, s := range w.Stations {
		e := &pic.IDs[i]
		if v := s.Var(); v != nil && v.Type.IsRegister() {
			e.Keys = append(e.Keys, varKey(p, v)+s.Number())
		}
		if !debug || s.Step > 1000 {
			continue
		}
		n := s.Step
		if i > 0 && s.Kind == follow.Global {
			s, n = w.Stations[i-1], n-1 // while the tile is still there
		}
		to[e.ID] = Values{"n": strconv.FormatInt(n, 10)}
		if v := s.Var(); v != nil && v.Type.IsRegister() {
			to[e.ID]["x"] = v.Name
		}
	}
	return Picture{Name: "way", Picture: pic}.going(func(e layoutviz.Element) Values { return to[e.ID] }), nil
}

// followed makes choosing an element of a tensor follow it, as it is after a step.
func followed(name string, step int64) func(e layoutviz.Element) Values {
	return func(e layoutviz.Element) Values {
		if len(e.At) == 0 {
			return nil
		}
		return Values{"el": follow.Start{Name: name, Index: e.At, Step: step}.String()}
	}
}

// renderProgramPane is a program with its code, its layouts and the way of an element.
func renderProgramPane(v Values) (Result, error) {
	r, err := renderProgram("src", v["src"], v.look())
	if err != nil {
		return r, err
	}
	p, trace, err := infer.Parse("src", v["src"], nil, compile.Layouts())
	if err != nil {
		return Result{}, err
	}
	if v["b"] != formNone {
		pic, _, _, err := lowered(p, v["b"], compile.DefaultArch, false, v)
		if err != nil {
			// The program is right, and other targets may run it.
			r.Sentence += " It has no code for " + compile.DefaultArch + ": " + strings.SplitN(err.Error(), "\n", 2)[0]
		} else {
			r.Pictures = append([]Picture{pic}, r.Pictures...)
		}
	}
	if err := r.withProducts(1, p, trace.Notes(), compile.DefaultArch, v.look()); err != nil {
		return Result{}, err
	}
	if strings.TrimSpace(v["el"]) == "" {
		return r, nil
	}
	text := v["a"]
	if strings.TrimSpace(text) == "" {
		text = given.Suppose(p)
	}
	args, err := given.Args(p, text)
	if err != nil {
		return Result{}, err
	}
	pic, err := way(p, args, v["el"], false, v.look())
	if err != nil {
		return Result{}, err
	}
	r.Pictures = append([]Picture{pic}, r.Pictures...)
	return r, nil
}
