package exercise

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

// newIndexing asks which element of a parameter an element of a result is made of.
func newIndexing(r *rand.Rand) (*Question, error) {
	b := hlo.NewBuilder("fusion")
	rows, columns := pick(r, 4, 6, 8, 12), pick(r, 6, 8, 10, 12)
	p := b.Param(hlo.Array(hlo.F32, rows, columns))
	x, last := p, ""
	for range 2 + r.IntN(2) {
		kind := pick(r, "transpose", "reverse", "slice", "reshape")
		for kind == last {
			kind = pick(r, "transpose", "reverse", "slice", "reshape")
		}
		last = kind
		d := x.Shape.Dims
		switch kind {
		case "transpose":
			x = b.Transpose(x, 1, 0)
		case "reverse":
			x = b.Reverse(x, r.IntN(2))
		case "slice":
			start := 1 + r.IntN(2)
			x = b.Slice(x, hlo.SliceDim{Start: start, Limit: d[0], Stride: 1}, hlo.SliceDim{Start: 0, Limit: d[1], Stride: 2})
		case "reshape":
			if d[0]%2 == 0 {
				x = b.Reshape(x, d[0]/2, d[1]*2)
			} else {
				x = b.Reverse(x, 0)
			}
		}
	}
	m, err := b.Done(x)
	if err != nil {
		return nil, err
	}
	c := m.Entry
	maps := index.Group(c, c.Root)[c.Params[0]]
	if len(maps) != 1 {
		return nil, fmt.Errorf("%d maps", len(maps))
	}
	d := c.Root.Shape.Dims
	at := []int64{int64(r.IntN(d[0])), int64(r.IntN(d[1]))}
	to, err := maps[0].Map.Eval(at, nil)
	if err != nil {
		return nil, err
	}
	text := hlo.Format(m)
	text = text[strings.Index(text, "ENTRY"):]
	q := &Question{
		Text:   fmt.Sprintf("%s\nOf which element of %s is element (%d, %d) of the result made?", strings.TrimSpace(text), c.Params[0].Name, at[0], at[1]),
		Form:   `an answer is "row, column"`,
		answer: fmt.Sprintf("%d, %d", to[0], to[1]),
		why:    fmt.Sprintf("the maps of the operations, one after the other, are %s", maps[0].Map),
	}
	q.grade = func(answer string) (Verdict, error) {
		n := numbers(answer)
		if len(n) != 2 || n[0] >= rows || n[1] >= columns {
			return Verdict{}, fmt.Errorf("%.40q is no element of [%d, %d]", answer, rows, columns)
		}
		if int64(n[0]) == to[0] && int64(n[1]) == to[1] {
			return Verdict{true, q.why}, nil
		}
		return Verdict{Say: "follow the element upwards, through one operation after the other: what does each read?"}, nil
	}
	return q, nil
}

// newSimplify asks what an expression equals for all values of its variables.
func newSimplify(r *rand.Rand) (*Question, error) {
	v := pick(r, 2, 4, 8)
	n := v * pick(r, 2, 4, 8, 16)
	threads := pick(r, 32, 64, 128, 256)
	base := affine.Var("t").MulConst(int64(v)).Add(affine.Var("s"))
	constant := affine.Const(int64(n))
	e := base.Mod(constant)
	if r.IntN(2) == 0 {
		e = base.FloorDiv(constant)
	}
	domain := []affine.Variable{{Name: "t", Range: affine.Range{Hi: int64(threads) - 1}}, {Name: "s", Range: affine.Range{Hi: int64(v) - 1}}}
	build := func(e affine.Expr) (affine.Map, error) {
		return affine.NewMap(domain, nil, nil, []affine.Expr{e}, nil)
	}
	m, err := build(e)
	if err != nil {
		return nil, err
	}
	simple, _ := m.Simplify(false)
	right := simple.Results[0]
	// What one would say who drops s too early, keeps a factor, or takes the wrong divisor.
	t, s := affine.Var("t"), affine.Var("s")
	k := int64(n / v)
	wrong := []affine.Expr{
		t.Mod(affine.Const(k)).MulConst(int64(v)), t.Mod(constant).MulConst(int64(v)).Add(s), t.Mod(affine.Const(k)).Add(s), t.FloorDiv(constant), t.FloorDiv(affine.Const(k)).Add(s),
		t.FloorDiv(affine.Const(k)), t.Mod(affine.Const(k)).MulConst(int64(v)).Add(s),
	}
	var choices []affine.Expr
	for _, i := range r.Perm(len(wrong)) {
		w, err := build(wrong[i])
		if err != nil {
			return nil, err
		}
		distinct := affine.Same(m, w) != nil
		for _, c := range choices {
			distinct = distinct && !c.Equal(wrong[i])
		}
		if distinct && len(choices) < 3 {
			choices = append(choices, wrong[i])
		}
	}
	place := r.IntN(len(choices) + 1)
	choices = append(choices[:place], append([]affine.Expr{right}, choices[place:]...)...)
	q := &Question{
		Text:   fmt.Sprintf("t runs from 0 to %d, s from 0 to %d. What does %s equal for all of them?", threads-1, v-1, e.MapText("t", "s")),
		Form:   "an answer is a letter",
		answer: string(rune('a' + place)),
		why:    fmt.Sprintf("s stays below %d, which divides t * %d and %d, so it never carries: %s", v, v, n, simple),
	}
	for _, c := range choices {
		q.Choices = append(q.Choices, c.MapText("t", "s"))
	}
	q.grade = func(answer string) (Verdict, error) {
		i, err := letter(answer, len(choices))
		if err != nil {
			return Verdict{}, err
		}
		if i == place {
			return Verdict{true, q.why}, nil
		}
		w, err := build(choices[i])
		if err != nil {
			return Verdict{}, err
		}
		say := "it is another one somewhere"
		stop := fmt.Errorf("found")
		_ = m.Points(1<<20, func(dims, _, results []int64) error { // the error only ends the search
			if x, err := w.Eval(dims, nil); err == nil && x[0] != results[0] {
				say = fmt.Sprintf("at t = %d, s = %d it gives %d, not %d", dims[0], dims[1], x[0], results[0])
				return stop
			}
			return nil
		})
		return Verdict{Say: say}, nil
	}
	return q, nil
}

// newCoalesce asks how many sectors an access of a warp to global memory touches.
func newCoalesce(r *rand.Rand) (*Question, error) {
	width := pick(r, 2, 4, 8, 16)
	var addrs []int
	var text string
	switch r.IntN(3) {
	case 0:
		step := width * pick(r, 1, 2, 3, 4, 8)
		for lane := range 32 {
			addrs = append(addrs, lane*step)
		}
		text = fmt.Sprintf("Lane l of a warp loads the %d bytes at byte %d · l of a tensor that begins at a multiple of 128.", width, step)
	case 1:
		row := pick(r, 64, 96, 128, 256, 1024)
		side := pick(r, 4, 8, 16)
		for lane := range 32 {
			addrs = append(addrs, lane/side*row+lane%side*width)
		}
		text = fmt.Sprintf("A tensor has rows of %d bytes. Lane l of a warp loads the %d bytes of element l mod %d of row l / %d.", row, width, side, side)
	case 2:
		begin := width * pick(r, 1, 2, 3)
		for lane := range 32 {
			addrs = append(addrs, begin+lane*width)
		}
		text = fmt.Sprintf("Lane l of a warp loads the %d bytes at byte %d + %d · l of a tensor that begins at a multiple of 128.", width, begin, width)
	}
	g, err := bank.Global(width, addrs)
	if err != nil {
		return nil, err
	}
	q := &Question{
		Text:   text + " How many sectors of 32 bytes are moved?",
		Form:   "an answer is a number",
		answer: fmt.Sprint(len(g.Sectors)),
		why:    fmt.Sprintf("%d sectors, where the %d bytes would fit into %d", len(g.Sectors), 32*width, g.Ideal),
	}
	q.grade = func(answer string) (Verdict, error) {
		n := numbers(answer)
		if len(n) != 1 || n[0] > 1<<10 {
			return Verdict{}, fmt.Errorf("%.40q is no number of sectors", answer)
		}
		switch {
		case n[0] == len(g.Sectors):
			return Verdict{true, q.why}, nil
		case n[0] < g.Ideal:
			return Verdict{Say: fmt.Sprintf("the lanes ask for %d bytes, which do not fit into %d sectors", 32*width, n[0])}, nil
		}
		return Verdict{Say: "count which of the bytes 0–31, 32–63, … any lane wants"}, nil
	}
	return q, nil
}
