package ir

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// The rows of this file print. What a launch printed is a text in a fixed order, the
// same on all machines: block by block in the order of their numbers, the first grid
// dimension fastest, and in each block as it came to the instructions. [PlanPrints]
// bounds it.

var rulePrintPlace = Rule{
	Text: "It stands in no thread group.", Why: "The order of groups that run side by side is open, and a block's prints have one.",
	Check: func(p *Program, in *Instr) *Violation {
		if p == nil {
			return nil
		}
		bad := false
		p.Body.Walk(func(s Stmt) bool {
			if g, ok := s.(*Group); ok {
				g.Body.Walk(func(s Stmt) bool { bad = bad || s == Stmt(in); return true })
				return false
			}
			return true
		})
		if bad {
			return &Violation{Msg: "a thread group prints", Help: "store what it has to shared memory, and load and print it behind the groups"}
		}
		return nil
	},
}

const printDoc = " The output is that of the launch: blocks in the order of their numbers, each as it came to it, with the block before every line. Of a block at most 64 prints of one instruction are shown, of large tiles and of large grids fewer; a line says how many are missing."

// printScalars is how many scalars one Print takes.
const printScalars = 8

var printRows = []*Op{
	{
		Name: "Print", Aliases: []string{"FormatPrint"}, Family: "print",
		Doc: "Prints scalars: each {} in text is one of them, in order; without text they are separated by spaces." + printDoc + " Example of the output: block 3: k = 2 of 8.",
		In: func() []Port {
			ports := make([]Port, printScalars)
			for i := range ports {
				ports[i] = Port{Name: string(rune('a' + i)), Accept: AcceptScalar, Optional: true}
			}
			return ports
		}(),
		Attrs: []AttrSpec{{Name: "text", Kind: AttrText, Doc: "what is printed, with {} for each scalar"}},
		Rules: []Rule{
			{Text: "text has a {} for each scalar and no other braces.", Check: func(p *Program, in *Instr) *Violation {
				a := in.Attr("text")
				if a == nil {
					return nil
				}
				if n := strings.Count(a.Word, "{}"); n != len(in.In) || strings.ContainsAny(strings.ReplaceAll(a.Word, "{}", ""), "{}") {
					return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("text has %d {} for %d scalars, or other braces", n, len(in.In)), Help: `Print(i, j, text="i = {}, j = {}")`}
				}
				return nil
			}},
			{Text: "It has a scalar or a text.", Check: func(p *Program, in *Instr) *Violation {
				if len(in.In) == 0 && in.Attr("text") == nil {
					return &Violation{Msg: "there is nothing to print", Help: `Print(i), or Print(text="here")`}
				}
				return nil
			}},
			{Text: "Its scalars are numbers, not bools.", Check: func(p *Program, in *Instr) *Violation {
				for _, o := range in.In {
					if t, _ := TypeOf(o.Expr, func(diag.Pos, string, string, string) {}); t == dtype.Bool {
						return &Violation{Pos: o.Pos, Msg: fmt.Sprintf("%s is a bool", o.Expr), Help: "print from the branches of an if"}
					}
				}
				return nil
			}},
			rulePrintPlace,
		},
		Since: "0.5", Source: tilusDoc, Example: `Print(bi, k, text="block row {}, step {}")`,
	},
	{
		Name: "PrintTensor", Family: "print",
		Doc:   "Prints a register tensor: its type with the layout, and its elements, of large ones the corners. LoadShared brings shared memory there first." + printDoc,
		In:    []Port{{Name: "x", Accept: AcceptRegister}},
		Attrs: []AttrSpec{{Name: "text", Kind: AttrText, Doc: "what stands before; the variable's name if left out"}},
		Rules: []Rule{
			{Text: "The tensor has at most 1048576 elements and a rank of at most 5.", Why: "What is printed is kept in a tensor with three dimensions more.", Check: func(p *Program, in *Instr) *Violation {
				if n := len(in.In[0].Var().Type.Shape); n > 5 {
					return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("%s has rank %d", in.In[0].Var().Name, n), Help: "Reshape it first"}
				}
				return nil
			}},
			rulePrintPlace,
		},
		Since: "0.5", Source: tilusDoc, Example: `PrintTensor(acc, text="the sums")`,
	},
}

// Bounds of what one launch prints.
const (
	printBlocks   = 1024    // blocks of the grid whose prints are shown
	printTimes    = 64      // prints of one instruction by one block
	printElements = 1 << 20 // elements kept for one instruction
)

// PrintSite is one Print or PrintTensor of a program.
type PrintSite struct {
	Instr *Instr
	Types []dtype.Type // of the scalars, or of the tensor
	Shape []int        // of the tensor; nil for scalars
	Times int          // how often one block's are shown
}

// elements is how many elements one print has at most in one value.
func (s PrintSite) elements() int { return max(1, product(s.Shape)) }

// PrintPlan says what is shown of a program's prints.
type PrintPlan struct {
	Sites  []PrintSite
	Blocks []int  // how many blocks per dimension of the grid are shown
	Prefix string // of names that the program does not have
}

// PlanPrints is the plan of a program's prints, nil if it has none.
func PlanPrints(p *Program) *PrintPlan {
	plan := &PrintPlan{Prefix: "print"}
	used := map[string]bool{}
	for _, v := range p.Params {
		used[v.Name] = true
	}
	most := 1
	p.Body.Walk(func(s Stmt) bool {
		switch s := s.(type) {
		case *Let:
			used[s.Var.Name] = true
		case *For:
			used[s.Var.Name] = true
		case *Instr:
			for _, v := range s.Out {
				used[v.Name] = true
			}
			site := PrintSite{Instr: s}
			switch s.Op.Name {
			case "Print":
				for _, o := range s.In {
					t, _ := TypeOf(o.Expr, func(diag.Pos, string, string, string) {})
					site.Types = append(site.Types, t)
				}
			case "PrintTensor":
				t := s.In[0].Var().Type
				site.Types = []dtype.Type{t.Elem}
				site.Shape, _ = t.Dims()
			default:
				return true
			}
			most = max(most, site.elements())
			plan.Sites = append(plan.Sites, site)
		}
		return true
	})
	if plan.Sites == nil {
		return nil
	}
	for slices.ContainsFunc(slices.Collect(func(yield func(string) bool) {
		for n := range used {
			if !yield(n) {
				return
			}
		}
	}), func(n string) bool { return strings.HasPrefix(n, plan.Prefix+"_") }) {
		plan.Prefix += "_"
	}
	blocks := float64(min(printBlocks, max(1, printElements/most)))
	each := max(1, int(math.Pow(blocks, 1/float64(max(1, len(p.Grid))))+1e-9))
	all := 1
	for range p.Grid {
		plan.Blocks = append(plan.Blocks, each)
		all *= each
	}
	for i := range plan.Sites {
		s := &plan.Sites[i]
		s.Times = max(1, min(printTimes, printElements/(s.elements()*all)))
	}
	return plan
}

// Times is how many prints of one block are shown at most.
func (p *PrintPlan) Times() int {
	n := 0
	for _, s := range p.Sites {
		n += s.Times
	}
	return n
}

// Shows says whether prints of a block are shown.
func (p *PrintPlan) Shows(block [3]int) bool {
	for d, n := range p.Blocks {
		if block[d] >= n {
			return false
		}
	}
	return true
}

// PrintLog collects what a launch printed.
type PrintLog struct {
	plan   *PrintPlan
	grid   [3]int
	blocks map[int][]string
	count  map[[2]int]int // by block and site
}

// NewLog is an empty log of a launch over a grid.
func (p *PrintPlan) NewLog(grid [3]int) *PrintLog {
	return &PrintLog{p, grid, map[int][]string{}, map[[2]int]int{}}
}

// Block is the index of a block by its number.
func (l *PrintLog) Block(n int) [3]int {
	return [3]int{n % l.grid[0], n / l.grid[0] % l.grid[1], n / l.grid[0] / l.grid[1]}
}

// Add logs one print of a block; values has an array for each scalar, or the tensor.
// Beyond what is shown it only counts.
func (l *PrintLog) Add(block, site int, values []*array.Array) {
	key := [2]int{block, site}
	l.count[key]++
	if s := l.plan.Sites[site]; l.plan.Shows(l.Block(block)) && l.count[key] <= s.Times {
		l.blocks[block] = append(l.blocks[block], l.name(block)+s.text(values))
	}
}

// Missing counts prints of a block that are not shown.
func (l *PrintLog) Missing(block, site, n int) { l.count[[2]int{block, site}] += n }

func (l *PrintLog) name(block int) string {
	b := l.Block(block)
	switch len(l.plan.Blocks) {
	case 1:
		return fmt.Sprintf("block %d: ", b[0])
	case 2:
		return fmt.Sprintf("block %d, %d: ", b[0], b[1])
	}
	return fmt.Sprintf("block %d, %d, %d: ", b[0], b[1], b[2])
}

// text is one print without its block.
func (s PrintSite) text(values []*array.Array) string {
	words := make([]string, len(values))
	if s.Instr.Op.Name == "PrintTensor" {
		v := s.Instr.In[0].Var()
		head := v.Name
		if a := s.Instr.Attr("text"); a != nil {
			head = a.Word
		}
		_, grid, _ := strings.Cut(values[0].String(), "\n")
		return fmt.Sprintf("%s: %s\n%s", head, v.Type, grid)
	}
	for i, x := range values {
		words[i] = s.Types[i].Format(x.Code(0))
	}
	a := s.Instr.Attr("text")
	if a == nil {
		return strings.Join(words, " ")
	}
	out := a.Word
	for _, w := range words {
		out = strings.Replace(out, "{}", w, 1)
	}
	return out
}

// String is everything in order, each print ended by a line break, and notices of what
// is missing.
func (l *PrintLog) String() string {
	if l == nil {
		return ""
	}
	var b strings.Builder
	numbers := make([]int, 0, len(l.blocks))
	for n := range l.blocks {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		for _, text := range l.blocks[n] {
			b.WriteString(text + "\n")
		}
	}
	missing := make([]int, len(l.plan.Sites))
	for key, n := range l.count {
		if l.plan.Shows(l.Block(key[0])) {
			missing[key[1]] += max(0, n-l.plan.Sites[key[1]].Times)
		}
	}
	for i, n := range missing {
		if n > 0 {
			fmt.Fprintf(&b, "… %d more prints of line %d: at most %d of a block are shown\n", n, l.plan.Sites[i].Instr.Pos.Line, l.plan.Sites[i].Times)
		}
	}
	for d, n := range l.plan.Blocks {
		if l.grid[d] > n {
			fmt.Fprintf(&b, "… what blocks beyond %d along dimension %d of the grid print is not shown\n", n, d)
		}
	}
	return b.String()
}

// ReadPrints is the log of a launch whose prints were turned into stores, as vm/pass
// does it: get gives the tensor of a name, all of it, with the blocks' rows first.
func (p *PrintPlan) ReadPrints(grid [3]int, get func(name string, t dtype.Type, shape []int) *array.Array) *PrintLog {
	log := p.NewLog(grid)
	shown, all := [3]int{1, 1, 1}, 1
	var rows []int
	for d, n := range p.Blocks {
		shown[d] = min(grid[d], n)
		rows, all = append(rows, shown[d]), all*shown[d]
	}
	tensor := func(name string, t dtype.Type, rest ...int) *array.Array {
		return get(p.Prefix+"_"+name, t, append(slices.Clone(rows), rest...))
	}
	times := p.Times()
	order, counts := tensor("log", dtype.I32, times), tensor("count", dtype.I32, len(p.Sites))
	values := make([][]*array.Array, len(p.Sites))
	for i, s := range p.Sites {
		for k, t := range s.Types {
			shape := s.Shape
			if s.Instr.Op.Name == "Print" {
				shape = []int{1}
			}
			values[i] = append(values[i], tensor(fmt.Sprintf("%d_%d", i, k), t, append([]int{s.Times}, shape...)...))
		}
	}
	for row := range all {
		// Rows are in row-major order, blocks count the first dimension fastest.
		var at [3]int
		for d, rest := len(p.Blocks)-1, row; d >= 0; d-- {
			at[d], rest = rest%shown[d], rest/shown[d]
		}
		block := at[0] + grid[0]*(at[1]+grid[1]*at[2])
		seen := make([]int, len(p.Sites))
		for n := range times {
			site := int(order.Code(row*times+n)) - 1
			if site < 0 || site >= len(p.Sites) || seen[site] >= p.Sites[site].Times {
				continue
			}
			s := p.Sites[site]
			var one []*array.Array
			for k, t := range s.Types {
				a := array.New(t, s.Shape...)
				if s.Shape == nil {
					a = array.New(t, 1)
				}
				for e := range a.Len() {
					a.SetCode(e, values[site][k].Code((row*s.Times+seen[site])*a.Len()+e))
				}
				one = append(one, a)
			}
			log.Add(block, site, one)
			seen[site]++
		}
		for i := range p.Sites {
			if n := int(counts.Code(row*len(p.Sites)+i)) - seen[i]; n > 0 {
				log.Missing(block, i, n)
			}
		}
	}
	return log
}
