package exercise

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/gpu/model/pipeline"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// newConflicts asks how long a warp's access to shared memory takes.
func newConflicts(r *rand.Rand) (*Question, error) {
	var a bank.Access
	var text string
	switch r.IntN(4) {
	case 0:
		row := pick(r, 32, 64, 128, 132, 136, 256)
		a = bank.ColumnWise(bank.Load, 4, 32, row, 0)
		text = fmt.Sprintf("A tile of f32 has rows of %d bytes. Lane l of a warp loads the first element of row l.", row)
	case 1:
		stride := pick(r, 2, 3, 4, 5, 6, 8, 12, 16)
		a = bank.Access{Kind: bank.Load, Width: 4}
		for lane := range 32 {
			a.Addrs = append(a.Addrs, 4*stride*lane)
		}
		text = fmt.Sprintf("Lane l of a warp loads the 4 bytes at %d · l.", 4*stride)
	case 2:
		row := pick(r, 32, 64, 80, 128, 144, 256)
		a = bank.LdMatrixTile(bank.LdMatrix, 4, row)
		text = fmt.Sprintf("A tile of f16 has rows of %d bytes. A warp reads 16 × 16 elements of it with ldmatrix.x4.", row)
	case 3:
		row, shift := pick(r, 64, 128, 256), pick(r, 2, 3)
		s := layout.Swizzle{Bits: shift, Base: 4, Shift: 3}
		a = bank.LdMatrixTile(bank.LdMatrix, 4, row)
		for i, x := range a.Addrs {
			a.Addrs[i] = s.Apply(x)
		}
		text = fmt.Sprintf("A tile of f16 has rows of %d bytes and lies swizzled by Swizzle<%d,4,3> on byte addresses. A warp reads 16 × 16 elements of it with ldmatrix.x4.", row, shift)
	}
	rep, err := bank.Count(bank.Nvidia(), a)
	if err != nil {
		return nil, err
	}
	q := &Question{
		Text:   text + " How many wavefronts does the access take?",
		Form:   "an answer is a number",
		answer: fmt.Sprint(rep.Wavefronts),
		why:    fmt.Sprintf("%d wavefronts, where %d would do: %s", rep.Wavefronts, rep.Ideal, rep.Phases[0].Why),
	}
	q.grade = func(answer string) (Verdict, error) {
		n := numbers(answer)
		if len(n) != 1 || n[0] > 1<<10 {
			return Verdict{}, fmt.Errorf("%.40q is no number of wavefronts", answer)
		}
		switch {
		case n[0] == rep.Wavefronts:
			return Verdict{true, q.why}, nil
		case n[0] < rep.Ideal:
			return Verdict{Say: fmt.Sprintf("without any conflict it takes %d", rep.Ideal)}, nil
		case n[0] == rep.Conflicts && rep.Conflicts > 0:
			return Verdict{Say: "so many are conflicts; those that would be needed anyway are missing"}, nil
		}
		return Verdict{Say: "find the bank (word mod 32) of each lane of one phase, and count the different words of the fullest"}, nil
	}
	return q, nil
}

// newPrints asks what a small program prints; the interpreter knows.
func newPrints(r *rand.Rand) (*Question, error) {
	var src string
	switch r.IntN(4) {
	case 0:
		n, m := 2+r.IntN(3), 2+r.IntN(4)
		src = fmt.Sprintf("program p<2>() warps=1 {\n\tb = BlockIndices()\n\tfor k in 0..%d {\n\t\tif k %% 2 == b {\n\t\t\tPrint(k*%d + b)\n\t\t}\n\t}\n}\n", n, m)
	case 1:
		step, from := 2+r.IntN(4), 10+r.IntN(30)
		src = fmt.Sprintf("program p<3>() warps=1 {\n\tb = BlockIndices()\n\tPrint((%d - b)/%d, (%d - b) %% %d)\n}\n", from, step, from, step)
	case 2:
		op, dim := pick(r, "sum", "max"), r.IntN(2)
		shape := []string{"spatial(4).replicated(1, num_workers=8)", "replicated(1, num_workers=4).spatial(8)"}[dim]
		size := []int{4, 8}[dim]
		src = fmt.Sprintf("program p<1>(a: *i32) warps=1 {\n\tga = ViewGlobal(a) : global i32[4, 8]\n\tx = LoadGlobal(ga, offset=[0, 0]) : register i32[4, 8] spatial(4, 8)\n\ty = Reduce(x, op=%s, dim=[%d]) : register i32[%d] %s\n\tPrintTensor(y)\n}\n", op, 1-dim, size, shape)
	case 3:
		k := 1 + r.IntN(3)
		src = fmt.Sprintf("program p<1>() warps=1 {\n\tn = %d\n\twhile n != 1 {\n\t\tPrint(n)\n\t\tif n %% 2 == 0 {\n\t\t\tn = n/2\n\t\t} else {\n\t\t\tn = 3*n + 1\n\t\t}\n\t}\n}\n", 2*k+1)
	}
	p, err := text.Parse("p.tile", src, nil)
	if err != nil {
		return nil, err
	}
	var args []ir.Arg
	note := ""
	if strings.Contains(src, "a: *i32") {
		a, err := array.Generate("iota:i32[4, 8]")
		if err != nil {
			return nil, err
		}
		args = append(args, ir.Arg{Array: a})
		note = " (a holds 0, 1, 2, … in rows of 8)"
	}
	m, err := interp.New(p, args, interp.MaxSteps(10_000))
	if err != nil {
		return nil, err
	}
	if err := m.Run(context.Background()); err != nil {
		return nil, err
	}
	printed := m.Printed()
	want := printedNumbers(printed)
	q := &Question{
		Text:   fmt.Sprintf("What numbers does this program print%s?\n%s", note, strings.ReplaceAll(strings.TrimSpace(src), "\t", "    ")),
		Form:   "an answer is the numbers, in order",
		answer: strings.Trim(strings.ReplaceAll(fmt.Sprint(want), " ", ", "), "[]"),
		why:    "the interpreter prints\n" + strings.TrimRight(printed, "\n"),
	}
	q.grade = func(answer string) (Verdict, error) {
		got := numbers(answer)
		if len(got) == 0 {
			return Verdict{}, fmt.Errorf("%.40q has no numbers", answer)
		}
		for i, n := range got {
			if i >= len(want) {
				return Verdict{Say: fmt.Sprintf("it prints fewer than %d numbers", len(got))}, nil
			}
			if n != want[i] {
				return Verdict{Say: fmt.Sprintf("number %d is not %d", i+1, n)}, nil
			}
		}
		if len(got) < len(want) {
			return Verdict{Say: fmt.Sprintf("so it begins, but it prints more than %d numbers", len(got))}, nil
		}
		return Verdict{true, q.why}, nil
	}
	return q, nil
}

// printedNumbers are the values in what a program printed: what stands before a
// block's colon, and the line about a tensor's type, are not.
func printedNumbers(printed string) []int {
	var out []int
	for line := range strings.Lines(printed) {
		if strings.Contains(line, "register ") || strings.Contains(line, "spatial") {
			continue
		}
		if _, after, ok := strings.Cut(line, ":"); ok {
			line = after
		}
		out = append(out, numbers(line)...)
	}
	return slices.Clip(out)
}

// newPipeline asks when a loop with copies ahead is done.
func newPipeline(r *rand.Rand) (*Question, error) {
	loop := pipeline.Loop{Latency: 100 * (3 + r.IntN(6)), Work: 100 * (1 + r.IntN(3)), Stages: 1 + r.IntN(4), Turns: 4 + r.IntN(5)}
	t, err := loop.Run()
	if err != nil {
		return nil, err
	}
	end := t[len(t)-1].End
	q := &Question{
		Text: fmt.Sprintf("A loop of %d turns multiplies a tile in %d cycles; a copy arrives %d cycles after its start. There are %d stages in shared memory: before the loop the copies of the first %d turns start, and turn k starts the copy of turn k + %d at its beginning. When is the last turn done?",
			loop.Turns, loop.Work, loop.Latency, loop.Stages, loop.Stages-1, loop.Stages-1),
		Form:   "an answer is a number of cycles, from the first copy",
		answer: fmt.Sprint(end),
		why:    fmt.Sprintf("%s; the last one is done at cycle %d", loop.Say(), end),
	}
	if loop.Stages == 1 {
		q.Text = fmt.Sprintf("A loop of %d turns multiplies a tile in %d cycles; a copy arrives %d cycles after its start. There is one stage in shared memory: each turn starts its copy, waits for it, and multiplies. When is the last turn done?", loop.Turns, loop.Work, loop.Latency)
	}
	q.grade = func(answer string) (Verdict, error) {
		n := numbers(answer)
		if len(n) != 1 {
			return Verdict{}, fmt.Errorf("%.40q is no number of cycles", answer)
		}
		switch {
		case n[0] == end:
			return Verdict{true, q.why}, nil
		case n[0] < loop.Latency+loop.Turns*loop.Work:
			return Verdict{Say: fmt.Sprintf("even with nothing to wait for but the first copy it takes %d", loop.Latency+loop.Turns*loop.Work)}, nil
		case n[0] == loop.Turns*(loop.Latency+loop.Work):
			return Verdict{Say: "so long it would take without any copy ahead"}, nil
		}
		return Verdict{Say: fmt.Sprintf("turn 1 begins at cycle %d", t[1].Begin)}, nil
	}
	return q, nil
}
