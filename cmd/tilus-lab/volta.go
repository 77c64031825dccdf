package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/theatre"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

// voltaFlags are the flags of the command.
type voltaFlags struct {
	mode, layout, numerics, pace, data, view, who, matrix string
	sum, products, events                                 string
	frame, box, turn                                      int
	compare, asJSON                                       bool
}

func newVolta() *cobra.Command {
	var v voltaFlags
	var draw *pictureFlags
	cmd := &cobra.Command{
		Use:   "volta",
		Short: "Run Volta's tensor cores step by step",
		Long: `Run wmma.m16n16k16 on a model of Volta's tensor cores: loads, 16 or 8 HMMA instructions
in 4 sets of 4 or 2 steps, store. Without flags the instructions are listed with what
they multiply, their registers and cycles.

--frame N is the state after N instructions. With --svg, --png or --out it is drawn:
--view octets (lanes, buffers, the multiplexer of B, sums, cycles), multipliers (the 64
green boxes of a tensor core, --box one of them), "all steps" (at once; or story),
"memory to sums" (where --matrix lies in shared memory, and what moving it costs; or
memory) or rounding (--sum and --products as bits, by every way to add). The explorer
calls them so, too.

--who LANE,REGISTER,CYCLE says who wrote a register, and from what. --compare lists the
same product on later generations. --json prints every event with its causes, and with
where it is known from; --events writes them alone, in the form that all machines share.
Tags: P vendor, S paper or measurement, D derived, A assumed.`,
		Example: `  tilus-lab volta
  tilus-lab volta --frame 7 --svg octets.svg
  tilus-lab volta --frame 7 --view multipliers --box 21 --png core.png
  tilus-lab volta --mode fp16 --layout col.row --view "all steps" --svg steps.svg
  tilus-lab volta --who 0,R8,20
  tilus-lab volta --view rounding --sum 1-2^-24 --products 2^-24,2^-24,2^-24,2^-24 --png rounding.png
  tilus-lab volta --events volta.chrome.json   # for ui.perfetto.dev`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runVolta(cmd, v, draw) },
	}
	f := cmd.Flags()
	f.StringVar(&v.mode, "mode", "mixed", "`MODE`: mixed (sums in f32) or fp16")
	f.StringVar(&v.layout, "layout", "row.col", "how A, B and, if given, C and D lie: `A.B[.C]`, each row or col")
	f.StringVar(&v.numerics, "numerics", "v100", "`WAY` to add: exact, fp32-rn, v100 or ampere")
	f.StringVar(&v.pace, "pace", "measured", "`PACE`: measured, or throughput, where sums do not wait")
	f.StringVar(&v.data, "data", "integers", "`MATRICES`: integers, or random:SEED")
	f.IntVar(&v.frame, "frame", -1, "state after `N` instructions")
	f.StringVar(&v.view, "view", pane.VoltaOctets, "`VIEW` to draw: "+names(pane.VoltaViews(), pane.View.String))
	f.IntVar(&v.box, "box", 0, "`MULTIPLIER` to look at, 0 to 127: 64 of each tensor core of a sub-core")
	f.IntVar(&v.turn, "turn", 0, "`ROW` of the instruction that the multipliers take, from 0")
	f.StringVar(&v.matrix, "matrix", "A", "`MATRIX` to draw in memory: A, B, C or D")
	f.StringVar(&v.who, "who", "", "say who wrote a register: `LANE,REGISTER,CYCLE`, such as 0,R8,20")
	f.StringVar(&v.sum, "sum", "1-2^-24", "`NUMBER` that products are added to")
	f.StringVar(&v.products, "products", "2^-24,2^-24,2^-24,2^-24", "`PRODUCTS`, one to four")
	f.BoolVar(&v.compare, "compare", false, "list the same product on later generations")
	f.BoolVar(&v.asJSON, "json", false, "print everything as JSON")
	f.StringVar(&v.events, "events", "", "write the events into `FILE`, as a trace; for Perfetto where it ends in .chrome.json")
	draw = addPictureFlags(cmd)
	return cmd
}

func runVolta(cmd *cobra.Command, v voltaFlags, draw *pictureFlags) error {
	s, err := volta.ParseSetup(v.mode, v.layout, v.numerics)
	if err != nil {
		return usageError{err}
	}
	if v.view, err = pane.FindView(pane.VoltaViews(), v.view); err != nil {
		return usageError{fmt.Errorf("--view: %w", err)}
	}
	a, b, c, err := voltaData(v.data)
	if err != nil {
		return usageError{err}
	}
	r, err := volta.New(s, volta.Pace(v.pace), a, b, c)
	if err != nil {
		return usageError{err}
	}
	n := v.frame
	if n < 0 {
		n = len(r.Instrs)
	}
	w := cmd.OutOrStdout()
	if draw.wanted() {
		p, err := v.picture(r, n, draw.options())
		if err != nil {
			return usageError{err}
		}
		return draw.write(cmd, p)
	}
	switch {
	case v.events != "":
		return writeTrace(w, v.events, r.Trace())
	case v.asJSON:
		return printJSON(w, r)
	case v.compare:
		return printGenerations(w)
	case v.who != "":
		return printWho(w, r, v.who)
	case v.view == pane.VoltaRounding:
		return printRounding(w, v, s)
	case v.frame >= 0:
		return printFrame(w, r, n)
	}
	return printVolta(w, r)
}

// voltaData is A, B and C.
func voltaData(text string) (a, b, c volta.Matrix, err error) {
	if text == "integers" {
		a, b, c = volta.Integers()
		return a, b, c, nil
	}
	seed, ok := strings.CutPrefix(text, "random:")
	n, err := strconv.ParseUint(seed, 10, 64)
	if !ok || err != nil {
		return a, b, c, fmt.Errorf("--data %q: write integers or random:SEED", text)
	}
	rnd := rand.New(rand.NewPCG(n, 0))
	for _, m := range []*volta.Matrix{&a, &b, &c} {
		for i := range m {
			for j := range m[i] {
				m[i][j] = rnd.NormFloat64()
			}
		}
	}
	return a, b, c, nil
}

func (v voltaFlags) picture(r *volta.Run, n int, o layoutviz.Options) (layoutviz.Picture, error) {
	switch v.view {
	case pane.VoltaOctets:
		return theatre.Octets(r, n, o)
	case pane.VoltaBoxes:
		return theatre.Core(r, v.box/64, max(n, 1), v.turn, v.box%64, o)
	case pane.VoltaSteps:
		return theatre.Storyboard(r, o)
	case pane.VoltaMemory:
		return theatre.Memory(r, v.matrix, n, o)
	default:
		c, products, err := v.addends()
		if err != nil {
			return layoutviz.Picture{}, err
		}
		return theatre.Rounding(r.Setup.Sums, c, products, volta.AllNumerics(), o)
	}
}

func (v voltaFlags) addends() (c float64, products []float64, err error) {
	if c, err = volta.ParseNumber(v.sum); err != nil {
		return 0, nil, err
	}
	for _, t := range strings.Split(v.products, ",") {
		p, err := volta.ParseNumber(t)
		if err != nil {
			return 0, nil, err
		}
		products = append(products, p)
	}
	if len(products) > 4 {
		return 0, nil, fmt.Errorf("a unit adds four products, not %d", len(products))
	}
	return c, products, nil
}

func printVolta(w io.Writer, r *volta.Run) error {
	fmt.Fprintf(w, "%s: %d instructions, %d cycles (%s)\n", r.Setup, len(r.Instrs), r.Total, r.Pace)
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "set.step\tk\trows of x\tof x+4\tcolumns\tB from\tissue\tdone\tprefix\tinstruction")
	for _, in := range r.Instrs {
		giver := "x"
		if in.BFromHigh {
			giver = "x+4"
		}
		span := func(v volta.Range) string { return fmt.Sprintf("%d–%d", v.First, v.Last) }
		fmt.Fprintf(tw, "%d.%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", in.Set-1, in.Step.Step, span(in.K), span(in.Low), span(in.High), span(in.Columns), giver, in.Issue, in.Done, in.Seen, in.Text)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "x and x+4 are the threadgroups of an octet; rows and columns count in its 8×8 part of D [S]\nprefix: %s [S]; issue and done: laid on it [A]\n", volta.Meaning)
	for _, m := range []string{"A", "B", "C", "D"} {
		reports, err := theatre.Cost(r.Setup, m)
		if err != nil {
			return err
		}
		waves, ideal := 0, 0
		for _, x := range reports {
			waves, ideal = waves+x.Wavefronts, ideal+x.Ideal
		}
		fmt.Fprintf(w, "%s: %d × %d bits a lane [P]; in shared memory %d wavefronts, %d without conflicts [D]\n", m, len(reports), 8*reports[0].Access.Width, waves, ideal)
	}
	return nil
}

func printFrame(w io.Writer, r *volta.Run, n int) error {
	f, err := r.Frame(n)
	if err != nil {
		return usageError{err}
	}
	if f.Instr == nil {
		fmt.Fprintln(w, "before the first instruction: sums are C")
	} else {
		fmt.Fprintf(w, "%d of %d: %s\n", n, len(r.Instrs), f.Instr.Text)
	}
	fresh := map[[2]int]bool{}
	for _, d := range f.Dots {
		fresh[[2]int{d.Row, d.Column}] = true
	}
	tw := tabwriter.NewWriter(w, 4, 8, 1, ' ', tabwriter.AlignRight)
	for i, row := range f.Sums {
		for j, x := range row {
			mark := " "
			if fresh[[2]int{i, j}] {
				mark = "*"
			}
			fmt.Fprintf(tw, "%.5g%s\t", x, mark)
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, "* written by this instruction")
	return err
}

func printWho(w io.Writer, r *volta.Run, text string) error {
	parts := strings.Split(text, ",")
	if len(parts) != 3 {
		return usageError{fmt.Errorf("--who %q: write LANE,REGISTER,CYCLE, such as 0,R8,20", text)}
	}
	var n [3]int
	for i, p := range parts {
		var err error
		if n[i], err = strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(p), "R")); err != nil {
			return usageError{fmt.Errorf("--who %q: %q is no number", text, p)}
		}
	}
	e, err := r.Who(n[0], n[1], n[2])
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, r.Why(e.ID, 2))
	return err
}

func printRounding(w io.Writer, v voltaFlags, s volta.Setup) error {
	c, products, err := v.addends()
	if err != nil {
		return usageError{err}
	}
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "way\tresult\toff by\tcut off")
	for _, way := range volta.AllNumerics() {
		sum, err := way.Explain(s.Sums, c, products)
		if err != nil {
			return err
		}
		var cuts []string
		for _, a := range sum.Addends {
			if a.Cut != 0 {
				cuts = append(cuts, fmt.Sprintf("%s %g", a.Name, a.Cut))
			}
		}
		fmt.Fprintf(tw, "%s\t%.12g\t%.3g\t%s\n", way, sum.Result, sum.Lost(), strings.Join(cuts, ", "))
	}
	return tw.Flush()
}

func printGenerations(w io.Writer) error {
	list, err := volta.Generations()
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("no generations")
	}
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "generation\tarch\tinstruction\tof a 16×16×16\tcores in an SM\teach, a cycle\tSM, a cycle\tA to registers\tB to registers\tfrom")
	for _, g := range list {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%g\t%d\t%s\t%d\t%d bytes\t%d bytes\t%s\n", g.Name, g.Arch, g.Instruction, g.Count, g.CoresPerSM, g.PerCycle, g.PerSM, g.BytesA, g.BytesB, g.Tag)
	}
	return tw.Flush()
}
