package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/gpu/notation"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

func newBanks() *cobra.Command {
	var asJSON, global bool
	var profile, expr, elem, instr, swizzle, tma string
	var program string
	var defs, argv []string
	var row, warp, base int
	var draw *pictureFlags
	cmd := &cobra.Command{
		Use:   "banks [ACCESS…]",
		Short: "Count the bank conflicts of accesses to shared memory, and say why",
		Long: `Count what an access of a warp to shared memory costs: its phases, the wavefronts of
each, the lanes that collide, and a sentence that says why.

ACCESS is "KIND WIDTH: ADDRESSES" with load, store, ldmatrix.x1 to .x4, stmatrix,
cp.async or cp.async.cg, and the bytes of a lane; without the part before the colon
it is a load of 4. ADDRESSES are bytes: an expression in lane (Go's operators, with
sw(B, M, S, x) for a swizzle and sel(condition, x, y)), or a list; _ is a lane that
takes no part.

--layout takes a register layout instead, moved to or from a row-major tile in
shared memory by --instr: one access for each vector of slots, or for each group of
matrices of ldmatrix. --swizzle and --tma say where the tile's bytes really lie.

--program runs a program on the simulator, with arguments as for run, and counts what
each of its lines costs in shared memory.

--global counts sectors and lines of global memory instead. Profiles of shared
memory: ` + profileNames() + `.`,
		Example: `  tilus-lab banks "lane*128"
  tilus-lab banks "store 16: lane%8*16 + lane/8*128" "ldmatrix.x4: lane%16*128 + lane/16*16"
  tilus-lab banks "ldmatrix.x4: sw(3, 4, 3, lane%16*128 + lane/16*16)" --svg banks.svg
  tilus-lab banks --layout "column_local(2, 2).spatial(8, 4).local(1, 2)" --type f16 --row 128 --instr ldmatrix --tma 128B
  tilus-lab banks --profile mi300 "load 16: lane%16*128 + lane/16*16"
  tilus-lab banks --program vector_add --arg x=iota:f32[64] --arg y=ones:f32[64] --arg z=zeros:f32[64] --arg n=64
  tilus-lab banks --global "lane*8"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := bank.FindProfile(profile)
			if err != nil {
				return usageError{err}
			}
			given := 0
			for _, is := range []bool{expr != "", program != "", len(args) > 0} {
				if is {
					given++
				}
			}
			if given != 1 {
				return usageError{errors.New("give accesses, or a layout with --layout, or a program with --program")}
			}
			if program != "" {
				return programBanks(cmd, program, defs, argv, asJSON)
			}
			place, err := placement(swizzle, tma, base)
			if err != nil {
				return usageError{err}
			}
			var accesses []bank.Access
			if expr != "" {
				accesses, err = layoutAccesses(p, expr, elem, instr, row, warp, place)
			} else {
				accesses, err = parseAccesses(p, args, global, place)
			}
			if err != nil {
				return err
			}
			if global {
				return printGlobal(cmd.OutOrStdout(), accesses, asJSON)
			}
			return showBanks(cmd, draw, p, accesses, asJSON)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print the reports as JSON")
	f.BoolVar(&global, "global", false, "count sectors of global memory")
	f.StringVar(&profile, "profile", "nvidia", "shared memory of `PROFILE`")
	f.StringVar(&expr, "layout", "", "register `LAYOUT` that is moved, in any notation or an operand such as mma.m16n8k16.f32.f16/A")
	f.StringVar(&elem, "type", "f16", "element `TYPE` of the layout")
	f.StringVar(&instr, "instr", "load 4", "`INSTRUCTION` that moves the layout: \"load 16\", \"store 4\", ldmatrix, stmatrix")
	f.IntVar(&row, "row", 0, "`BYTES` of a row of the shared tile (default: that of the layout)")
	f.IntVar(&warp, "warp", 0, "`WARP` of the layout")
	f.StringVar(&swizzle, "swizzle", "", "the tile lies under `SWIZZLE` on bytes, such as \"Sw<3,4,3>\"")
	f.StringVar(&tma, "tma", "", "the tile lies under TMA's swizzle `MODE`")
	f.IntVar(&base, "base", 0, "shared `ADDRESS` of the tile")
	f.StringVar(&program, "program", "", "count the accesses of a program `FILE`, or of an example program")
	f.StringArrayVar(&argv, "arg", nil, "argument `NAME=VALUE` of a parameter of the program")
	addBindings(cmd, &defs)
	draw = addPictureFlags(cmd)
	return cmd
}

func profileNames() string {
	var names []string
	for _, p := range bank.Profiles() {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// placement is where the byte at an offset of a tile lies.
func placement(swizzle, tma string, base int) (func(int) int, error) {
	if base < 0 {
		return nil, fmt.Errorf("--base %d is negative", base)
	}
	place := func(a int) int { return a + base }
	switch {
	case swizzle != "" && tma != "":
		return nil, errors.New("--swizzle and --tma both say where bytes lie; choose one")
	case swizzle != "":
		s, err := layout.ParseSwizzle(swizzle)
		if err != nil {
			return nil, err
		}
		return func(a int) int { return s.Apply(a + base) }, nil
	case tma != "":
		m, err := bank.FindTMAMode(tma)
		if err != nil {
			return nil, err
		}
		return func(a int) int { return m.Apply(a + base) }, nil
	}
	return place, nil
}

// parseAccesses reads the arguments; problems are located in them.
func parseAccesses(p bank.Profile, args []string, global bool, place func(int) int) ([]bank.Access, error) {
	var out []bank.Access
	for i, arg := range args {
		pos := diag.Pos{File: fmt.Sprintf("access %d", i+1), Line: 1, Col: 1}
		a, err := bank.ParseAccess(arg, p, pos)
		if err != nil {
			return nil, err
		}
		for l, at := range a.Addrs {
			if at != bank.Inactive && !global {
				a.Addrs[l] = place(at)
			}
		}
		out = append(out, a)
	}
	return out, nil
}

// layoutAccesses is the accesses that move a register layout.
func layoutAccesses(p bank.Profile, expr, elem, instr string, row, warp int, place func(int) int) ([]bank.Access, error) {
	t, err := dtype.Parse(elem)
	if err != nil {
		return nil, usageError{err}
	}
	v, err := notation.Read(expr)
	if err != nil {
		return nil, fmt.Errorf("--layout: %w", err)
	}
	l, err := v.Registers()
	if err != nil {
		return nil, fmt.Errorf("--layout: %w", err)
	}
	name, bytes, _ := strings.Cut(strings.TrimSpace(instr), " ")
	kind, err := bank.ParseKind(name)
	if err != nil {
		return nil, usageError{err}
	}
	width := 4
	if bytes = strings.TrimSpace(bytes); bytes != "" {
		if _, err := fmt.Sscanf(bytes, "%d", &width); err != nil {
			return nil, usageError{fmt.Errorf("--instr %q: %q is no number of bytes", instr, bytes)}
		}
	}
	if row == 0 && l.Rank() > 0 {
		row = (l.Shape()[l.Rank()-1]*t.Bits() + 7) / 8
	}
	return bank.FromLayout(p, l, t.Bits(), row, warp, kind, width, place)
}

// showBanks counts the accesses, draws them if asked to, and prints.
func showBanks(cmd *cobra.Command, draw *pictureFlags, p bank.Profile, accesses []bank.Access, asJSON bool) error {
	var reports []bank.Report
	for i, a := range accesses {
		r, err := bank.Count(p, a)
		if err != nil {
			return fmt.Errorf("access %d: %w", i+1, err)
		}
		reports = append(reports, r)
	}
	w := cmd.OutOrStdout()
	if draw.wanted() {
		if len(reports) != 1 {
			return usageError{fmt.Errorf("a picture shows one access, not %d", len(reports))}
		}
		pic, err := layoutviz.Banks(reports[0], draw.options())
		if err != nil {
			return err
		}
		if err := draw.write(cmd, pic); err != nil || !asJSON {
			return err
		}
	}
	if asJSON {
		return printJSON(w, reports)
	}
	total, ideal := 0, 0
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := printReport(w, p, r); err != nil {
			return err
		}
		total, ideal = total+r.Wavefronts, ideal+r.Ideal
	}
	if len(reports) > 1 {
		fmt.Fprintf(w, "\ntogether: %d wavefronts, %d without conflicts\n", total, ideal)
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printReport prints the sentence and a line for each phase.
func printReport(w io.Writer, p bank.Profile, r bank.Report) error {
	name := r.Access.Kind.String()
	if r.Access.Matrices > 0 {
		name += fmt.Sprintf(".x%d", r.Access.Matrices)
	}
	fmt.Fprintf(w, "%s of %d bytes a lane, %d banks of %d bytes (%s): %s\n", name, r.Access.Width, r.Banks, r.BankBytes, r.Profile, r.Say())
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "phase\tlanes\twords\tbanks\tdegree\twhy")
	for _, ph := range r.Phases {
		banks := map[int]bool{}
		for _, q := range ph.Requests {
			banks[q.Bank] = true
		}
		fmt.Fprintf(tw, "%d\t%s\t%d\t%d\t%d\t%s\n", ph.Number, laneRuns(ph.Lanes), len(ph.Requests), len(banks), ph.Degree, ph.Why)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if r.ZeroFilled > 0 {
		fmt.Fprintf(w, "%d bytes are filled with zeros\n", r.ZeroFilled)
	}
	if _, laneBits, ok := bank.XorLinear(r.Access.Addrs); ok && len(r.Access.Addrs) == p.Lanes {
		if d, err := bank.Rank(p, r.Access.Kind, r.Access.Width, laneBits); err == nil {
			fmt.Fprintf(w, "by ranks over F2: lane bits move %s bytes, degree %d in every phase\n", strings.Trim(fmt.Sprint(laneBits), "[]"), d)
		}
	}
	return nil
}

// laneRuns is lanes as "0–3, 20–23".
func laneRuns(lanes []int) string {
	var parts []string
	for i := 0; i < len(lanes); {
		j := i
		for j+1 < len(lanes) && lanes[j+1] == lanes[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(lanes[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d–%d", lanes[i], lanes[j]))
		}
		i = j + 1
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func printGlobal(w io.Writer, accesses []bank.Access, asJSON bool) error {
	var reports []bank.GlobalReport
	for i, a := range accesses {
		r, err := bank.Global(a.Width, a.Addrs)
		if err != nil {
			return fmt.Errorf("access %d: %w", i+1, err)
		}
		reports = append(reports, r)
	}
	if asJSON {
		return printJSON(w, reports)
	}
	for _, r := range reports {
		fmt.Fprintf(w, "%d lanes of %d bytes: %s Efficiency %.0f %%.\n", r.Lanes, r.Width, r.Why, 100*r.Efficiency)
	}
	return nil
}

// line is what one line of a program costs in shared memory.
type line struct {
	Pos        string      `json:"pos"`
	Access     string      `json:"access"`
	Count      int         `json:"accesses"`
	Wavefronts int         `json:"wavefronts"`
	Ideal      int         `json:"ideal"`
	Worst      bank.Report `json:"worst"` // the access with most conflicts

	at diag.Pos
}

// programBanks runs a program on the simulator and adds up what its lines cost.
func programBanks(cmd *cobra.Command, path string, defs, argv []string, asJSON bool) error {
	bind, err := bindings(defs)
	if err != nil {
		return err
	}
	p, err := loadProgram(cmd, path, bind)
	if err != nil {
		return err
	}
	values, err := programArgs(p, argv)
	if err != nil {
		return err
	}
	args := make([]ir.Arg, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case *array.Array:
			args[i].Array = v
		case int:
			args[i].Int = int64(v)
		case float64:
			args[i].Float = v
		case bool:
			if v {
				args[i].Int = 1
			}
		}
	}
	var (
		mu    sync.Mutex
		lines = map[string]*line{}
		first error
		seen  = map[string]bank.Report{} // programs repeat themselves
	)
	nvidia := bank.Nvidia()
	_, err = device.RunShared(cmd.Context(), "", p, args, func(a sim.SharedAccess) {
		mu.Lock()
		defer mu.Unlock()
		key := fmt.Sprint(a.Access)
		r, ok := seen[key]
		if !ok {
			var err error
			if r, err = bank.Count(nvidia, a.Access); err != nil {
				first = cmp.Or(first, err) // the simulator reports it too, with its place
				return
			}
			if len(seen) < 1<<16 {
				seen[key] = r
			}
		}
		name := fmt.Sprintf("%s %d", a.Access.Kind, a.Access.Width)
		l := lines[a.Pos.String()+name]
		if l == nil {
			l = &line{Pos: a.Pos.String(), Access: name, Worst: r, at: a.Pos}
			lines[a.Pos.String()+name] = l
		}
		l.Count++
		l.Wavefronts += r.Wavefronts
		l.Ideal += r.Ideal
		if r.Conflicts > l.Worst.Conflicts {
			l.Worst = r
		}
	})
	if err = cmp.Or(err, first); err != nil {
		return err
	}
	var all []*line
	for _, l := range lines {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *line) int {
		return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Col, b.at.Col), strings.Compare(a.Access, b.Access))
	})
	w := cmd.OutOrStdout()
	if asJSON {
		return printJSON(w, all)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "The program does not use shared memory.")
		return err
	}
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "line\taccess\ttimes\twavefronts\tideal\tthe worst")
	for _, l := range all {
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%s\n", l.Pos, l.Access, l.Count, l.Wavefronts, l.Ideal, l.Worst.Say())
	}
	return tw.Flush()
}
