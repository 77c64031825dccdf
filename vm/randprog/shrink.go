package randprog

import (
	"errors"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Without is the program less the statements on some lines of its text, those in
// them, and those that then have no meaning. ok is false if nothing sensible stays.
func (p *Program) Without(lines ...int) (*Program, bool) {
	src := strings.Split(text.Format(p.Program), "\n")
	drop := map[int]bool{}
	for _, n := range lines {
		for i := range extent(src, n) {
			drop[n+i] = true
		}
	}
	return p.less(src, drop)
}

// unwrapped is the program with the statements of the block that begins on a line
// in its place; of both branches of an if, where it has two.
func (p *Program) unwrapped(n int) (*Program, bool) {
	src := strings.Split(text.Format(p.Program), "\n")
	if n >= len(src) || !strings.HasSuffix(src[n-1], "{") || strings.HasPrefix(strings.TrimSpace(src[n-1]), "}") {
		return nil, false
	}
	indent := src[n-1][:len(src[n-1])-len(strings.TrimLeft(src[n-1], "\t"))]
	drop := map[int]bool{n: true}
	for i := n + 1; i < n+extent(src, n); i++ {
		if strings.HasPrefix(src[i-1], indent+"}") {
			drop[i] = true
		}
	}
	return p.less(src, drop)
}

// less is the program without some lines and what then has no meaning.
func (p *Program) less(src []string, drop map[int]bool) (*Program, bool) {
	for range 40 {
		var kept []string
		var number []int
		for i, line := range src {
			if !drop[i+1] {
				kept, number = append(kept, line), append(number, i+1)
			}
		}
		q, err := text.Parse(p.Program.Pos.File, strings.Join(kept, "\n"), nil)
		if err == nil {
			return p.with(q)
		}
		var list diag.List
		if !errors.As(err, &list) {
			return nil, false
		}
		before := len(drop)
		for _, bad := range list {
			if k := bad.Pos.Line - 1; k > 0 && k < len(number)-2 {
				for i := range extent(src, number[k]) {
					drop[number[k]+i] = true
				}
			}
		}
		if len(drop) == before {
			return nil, false
		}
	}
	return nil, false
}

// with is the program with another tree, less the arrays that it does not use.
func (p *Program) with(tree *ir.Program) (*Program, bool) {
	q := &Program{Seed: p.Seed, Placed: map[string]int{}}
	used := map[string]bool{}
	tree.Body.Walk(func(s ir.Stmt) bool {
		if in, ok := s.(*ir.Instr); ok {
			q.Placed[in.Op.Name]++
			for _, o := range in.In {
				if v := o.Var(); v != nil {
					used[v.Name] = true
				}
			}
		}
		return true
	})
	var params []*ir.Var
	for i, v := range tree.Params {
		if v.Type.Kind == ir.Scalar || used[v.Name] {
			params, q.Args = append(params, v), append(q.Args, p.Args[i])
		}
	}
	tree.Params = params
	src := text.Format(tree)
	var err error
	q.Program, err = text.Parse(p.Program.Pos.File, src, nil)
	return q, err == nil
}

// extent is how many lines the statement that begins on line n takes. The last
// line of a block goes with its first.
func extent(src []string, n int) int {
	line := src[n-1]
	if strings.HasPrefix(strings.TrimSpace(line), "}") {
		return 0
	}
	if !strings.HasSuffix(line, "{") {
		return 1
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, "\t"))]
	for i := n; i < len(src); i++ {
		if strings.HasPrefix(src[i], indent+"}") && !strings.HasSuffix(src[i], "{") {
			return i - n + 2
		}
	}
	return 1
}

// Shrink drops statements as long as the program still fails, and gives the
// smallest it found. fails must give the same answer each time; it is asked at most
// tries times.
func Shrink(p *Program, tries int, fails func(*Program) bool) *Program {
	length := func(p *Program) int { return strings.Count(text.Format(p.Program), "\n") }
	again := true
	try := func(q *Program, ok bool) {
		if !ok || tries <= 0 || length(q) >= length(p) {
			return
		}
		if tries--; fails(q) {
			p, again = q, true
		}
	}
	for again && tries > 0 {
		again = false
		for size := max(1, length(p)/4); size >= 1; size /= 2 {
			for at := length(p) - 1; at > 1; at -= size {
				var drop []int
				for n := max(2, at-size+1); n <= min(at, length(p)-1); n++ {
					drop = append(drop, n)
				}
				try(p.Without(drop...))
			}
		}
		for at := length(p) - 1; at > 1; at-- {
			try(p.unwrapped(at))
		}
	}
	return p
}
