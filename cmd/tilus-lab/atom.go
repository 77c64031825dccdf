package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/probe"
)

func newAtom() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "atom",
		Short: "List and show the matrix and copy instructions of NVIDIA and AMD",
		Long: `The catalogue of matrix instructions and of the copies that feed them: shapes,
element types, and which lane holds which element.`,
	}
	cmd.AddCommand(newAtomList(), newAtomShow(), newAtomStatus())
	return cmd
}

func encodeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// atomFilter chooses instructions.
type atomFilter struct {
	vendor, arch, family, typ, match string
}

func (f atomFilter) keeps(a arch.Atom) bool {
	return (f.vendor == "" || a.Vendor == f.vendor) &&
		(f.family == "" || a.Family == f.family) &&
		(f.arch == "" || a.On(f.arch)) &&
		(f.typ == "" || slices.ContainsFunc(a.Operands, func(o arch.Operand) bool {
			return o.Type.String() == f.typ || o.Type.Row().PTX == f.typ
		})) &&
		(f.match == "" || slices.ContainsFunc(a.Names(), func(n string) bool {
			return strings.Contains(strings.ToLower(n), strings.ToLower(f.match))
		}))
}

// families lists the families that atoms have, in the order of the catalogue.
func families(atoms []arch.Atom) []string {
	var out []string
	for _, a := range atoms {
		if !slices.Contains(out, a.Family) {
			out = append(out, a.Family)
		}
	}
	return out
}

func newAtomList() *cobra.Command {
	var f atomFilter
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "list [WORD]",
		Short: "List instructions",
		Long: `List the instructions of the catalogue that all flags, and WORD in one of their
names, leave over. Without any, list how many there are of each family.`,
		Example: `  tilus-lab atom list
  tilus-lab atom list --family mma --arch sm_90a --type e4m3
  tilus-lab atom list SM80_16x8x16
  tilus-lab atom list --vendor amd --arch gfx942 --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.match = args[0]
			}
			atoms := arch.Atoms()
			if f.vendor != "" && f.vendor != "nvidia" && f.vendor != "amd" {
				return usageError{fmt.Errorf("--vendor %s: vendors are nvidia and amd", f.vendor)}
			}
			if f.family != "" && !slices.Contains(families(atoms), f.family) {
				return usageError{fmt.Errorf("--family %s: families are %s", f.family, strings.Join(families(atoms), ", "))}
			}
			atoms = slices.DeleteFunc(atoms, func(a arch.Atom) bool { return !f.keeps(a) })
			if len(atoms) == 0 {
				return errors.New("no instruction of the catalogue is like that; 'tilus-lab atom list' names the families")
			}
			w := cmd.OutOrStdout()
			if asJSON {
				list := make([]map[string]any, len(atoms))
				for i, a := range atoms {
					list[i] = atomJSON(a, false)
				}
				return encodeJSON(w, list)
			}
			tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			if f == (atomFilter{}) && !all {
				fmt.Fprintln(tw, "family\tvendor\tinstructions\tsuch as")
				for _, name := range families(atoms) {
					n, first := 0, arch.Atom{}
					for _, a := range atoms {
						if a.Family == name {
							if n++; n == 1 {
								first = a
							}
						}
					}
					fmt.Fprintf(tw, "%s\t%s\t%d\t%s\n", name, first.Vendor, n, first.Name)
				}
				if err := tw.Flush(); err != nil {
					return err
				}
				fmt.Fprintf(w, "%d instructions; --all lists each, --family, --arch, --type or a word of the name choose\n", len(atoms))
				return nil
			}
			fmt.Fprintln(tw, "name\tfamily\tshape\tlanes\ttypes\tsince")
			for _, a := range atoms {
				fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%s\t%s\n", a.Name, a.Family, shapeOf(a), a.Lanes, typesOf(a), a.Since)
			}
			return tw.Flush()
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.vendor, "vendor", "", "nvidia or amd")
	fl.StringVar(&f.arch, "arch", "", "`MACHINE` that executes it, such as sm_90a or gfx942")
	fl.StringVar(&f.family, "family", "", "`FAMILY`, such as mma, wgmma or mfma")
	fl.StringVar(&f.typ, "type", "", "`TYPE` of an operand, as here (f8e4m3) or in PTX (e4m3)")
	fl.BoolVar(&all, "all", false, "list every instruction")
	fl.BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func shapeOf(a arch.Atom) string {
	if a.M == 0 {
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(a.Operands[0].Shape), "[]"), " ", "x")
	}
	s := fmt.Sprintf("%dx%dx%d", a.M, a.N, a.K)
	if a.Blocks > 1 {
		s = fmt.Sprintf("%d of %s", a.Blocks, s)
	}
	return s
}

func typesOf(a arch.Atom) string {
	var out []string
	for _, o := range a.Operands {
		out = append(out, o.Name+" "+o.Type.String())
	}
	return strings.Join(out, ", ")
}

// atomJSON is an instruction as JSON; maps adds which element each lane holds in
// each slot, where that is not too much.
func atomJSON(a arch.Atom, maps bool) map[string]any {
	m := map[string]any{"name": a.Name, "vendor": a.Vendor, "family": a.Family, "lanes": a.Lanes, "blocks": a.Blocks, "since": a.Since, "source": a.Source, "checked_by": a.Oracles()}
	put := func(key string, v any, have bool) {
		if have {
			m[key] = v
		}
	}
	put("aliases", a.Aliases, len(a.Aliases) > 0)
	put("shape", []int{a.M, a.N, a.K}, a.M > 0)
	put("archs", a.Archs, len(a.Archs) > 0)
	put("thr_id", a.ThrID, a.ThrID != "")
	put("row", a.Row, a.Row != "")
	put("note", a.Note, a.Note != "")
	var ops []map[string]any
	for _, o := range a.Operands {
		x := map[string]any{"name": o.Name, "type": o.Type.String(), "shape": o.Shape}
		set := func(key string, v any, have bool) {
			if have {
				x[key] = v
			}
		}
		set("note", o.Note, o.Note != "")
		set("in", o.In, o.In != "")
		set("cute", o.CuTe, o.CuTe != "")
		set("bits", o.Bits, o.Bits != 0)
		if o.In != arch.Unspecified {
			l := o.Layout
			x["layout"], x["threads"], x["slots"], x["replicas"] = l.String(), l.Threads(), l.Slots(), l.Replicas()
			if maps {
				if l.Threads()*l.Slots() > maxPrinted {
					x["map_omitted"] = fmt.Sprintf("the map has %d cells, and at most %d are printed", l.Threads()*l.Slots(), maxPrinted)
				} else {
					all := make([][][]int, l.Threads())
					for lane := range all {
						for slot := range l.Slots() {
							all[lane] = append(all[lane], l.Index(lane, slot))
						}
					}
					x["map"] = all
				}
			}
		}
		ops = append(ops, x)
	}
	m["operands"] = ops
	return m
}

func newAtomShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show an instruction's operands, layouts and sources",
		Long: `Show an instruction of the catalogue: its operands with their layouts, and where
they come from. "tilus-lab mma NAME" shows the fragments element by element.`,
		Example: `  tilus-lab atom show wgmma.m64n128k16.f32.f16.ss
  tilus-lab atom show SM75_U32x4_LDSM_N --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := arch.FindAtom(args[0])
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if asJSON {
				return encodeJSON(w, atomJSON(a, true))
			}
			atomHead(w, a)
			fmt.Fprintln(w)
			for _, o := range a.Operands {
				fmt.Fprintln(w, operandHead(o))
				if o.CuTe != "" {
					fmt.Fprintf(w, "   CuTe %s\n", o.CuTe)
				}
				if o.Note != "" {
					fmt.Fprintf(w, "   %s\n", o.Note)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON, with the maps")
	return cmd
}

// recordFile is where GPU runs of the thread-code rows are recorded.
var recordFile = filepath.Join("tests", "record", "rows.json")

func newAtomStatus() *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Write the catalogue's status page as Markdown",
		Long: `Write a page with every instruction of the catalogue: which sources its layouts
were checked against, and whether a GPU run proved them. Instructions that differ
only in N, in small float types or in how often a copy repeats, share a line.

A GPU run proves a row of the thread-code table: gpu/probe gives it one-hot and
whole-number operands, placed as the catalogue says. It is stale once the row has
changed. The record is read from tests/record/rows.json below the current folder,
and from proxyrows.json beside it.`,
		Example: `  tilus-lab atom status > gpu/arch/CATALOGUE.md`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			raw, err := readRecord(file)
			if errors.Is(err, os.ErrNotExist) && !cmd.Flags().Changed("record") {
				raw, err = nil, nil
			}
			if err != nil {
				return err
			}
			if asJSON {
				doc, err := atomStatus(raw)
				if err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				return printJSON(cmd.OutOrStdout(), doc)
			}
			page, err := statusPage(raw)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), page)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "record", recordFile, "`FILE` with what GPU runs proved")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a list with an object for each instruction")
	return cmd
}

// readRecord reads a record and, where it lies beside it, that of the rows of the
// asynchronous proxy: one list of both.
func readRecord(file string) ([]byte, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	more, err := os.ReadFile(filepath.Join(filepath.Dir(file), "proxyrows.json"))
	if errors.Is(err, os.ErrNotExist) || filepath.Base(file) != "rows.json" {
		return raw, nil
	}
	if err != nil {
		return nil, err
	}
	var all, others []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := json.Unmarshal(more, &others); err != nil {
		return nil, fmt.Errorf("proxyrows.json: %w", err)
	}
	return json.Marshal(append(all, others...))
}

// statusDoc is an instruction of the status page as JSON.
type statusDoc struct {
	Name      string   `json:"name"`
	Family    string   `json:"family"`
	Since     string   `json:"since"`
	Source    string   `json:"source"`
	CheckedBy []string `json:"checked_by"`
	Row       string   `json:"thread_code,omitempty"`
	GPU       string   `json:"gpu,omitempty"` // what the record says of the row
}

func atomStatus(record []byte) ([]statusDoc, error) {
	proved, err := proofs(record)
	if err != nil {
		return nil, err
	}
	out := []statusDoc{}
	for _, a := range arch.Atoms() {
		d := statusDoc{Name: a.Name, Family: a.Family, Since: a.Since, Source: a.Source, CheckedBy: append([]string{}, a.Oracles()...), Row: a.Row}
		if a.Row != "" {
			d.GPU = cmp.Or(proved[a.Row], "not run")
		}
		out = append(out, d)
	}
	return out, nil
}

// proofs says for each thread-code row what the record holds: "proved on …",
// "stale", "differs" or nothing.
func proofs(record []byte) (map[string]string, error) {
	out := map[string]string{}
	if len(record) == 0 {
		return out, nil
	}
	var rows []struct{ Name, Hash, Result, GPU string }
	if err := json.Unmarshal(record, &rows); err != nil {
		return nil, err
	}
	for _, r := range rows {
		op, err := code.Lookup(r.Name)
		switch {
		case err != nil:
		case probe.Hash(op.Row()) != r.Hash && !strings.HasPrefix(r.Result, "equal"):
			out[r.Name] = "stale; when last run " + r.Result + " on " + r.GPU
		case probe.Hash(op.Row()) != r.Hash:
			out[r.Name] = "stale"
		case r.Result == "equal":
			out[r.Name] = "proved on " + r.GPU
		default:
			out[r.Name] = r.Result + " on " + r.GPU
		}
	}
	return out, nil
}

// smallFloats are the types that may stand for one another in an instruction's name.
var smallFloats = regexp.MustCompile(`\.(e4m3|e5m2|e3m2|e2m3|e2m1)(\.(e4m3|e5m2|e3m2|e2m3|e2m1))?\b`)

var repeats = regexp.MustCompile(`(m\d+n)(\d+)(k\d+)|(\.x)(\d+)`)

// statusPage is the catalogue as Markdown.
func statusPage(record []byte) (string, error) {
	proved, err := proofs(record)
	if err != nil {
		return "", err
	}
	type line struct {
		name, types, since, checked, gpu string
		sizes                            []int
		n                                int // instructions
		key                              string
	}
	atoms := arch.Atoms()
	var b strings.Builder
	total, rows, done := 0, 0, 0
	byFamily := map[string][]*line{}
	counts := map[string]int{}
	for _, a := range atoms {
		total++
		counts[a.Family]++
		gpu := ""
		if a.Row != "" {
			rows++
			if gpu = proved[a.Row]; gpu == "" {
				gpu = "not run"
			} else if strings.HasPrefix(gpu, "proved") {
				done++
			}
		}
		l := line{name: a.Name, types: typesOf(a), since: a.Since, checked: strings.Join(a.Oracles(), ", "), gpu: gpu, n: 1}
		if l.checked == "" {
			l.checked = "coverage"
			if a.Operands[0].In == arch.Unspecified {
				l.checked = "not specified by the vendor"
			}
		}
		if a.Family == "wgmma" || strings.HasPrefix(a.Family, "tcgen05") {
			size := 0
			l.name = repeats.ReplaceAllStringFunc(a.Name, func(s string) string {
				m := repeats.FindStringSubmatch(s)
				size, _ = strconv.Atoi(m[2] + m[5]) // digits by the expression
				return m[1] + m[4] + "{}" + m[3]
			})
			if l.name != a.Name {
				l.sizes = []int{size}
			}
		}
		if strings.Contains(a.Name, "f8f6f4") {
			l.name = smallFloats.ReplaceAllString(l.name, ".*")
			d, _ := a.Operand("D")
			l.types = "A and B f8e4m3, f8e5m2, f6e3m2, f6e2m3 or f4e2m1; C and D " + d.Type.String()
		}
		l.key = l.name + "|" + l.types + "|" + l.since + "|" + l.checked + "|" + l.gpu
		list := byFamily[a.Family]
		if at := slices.IndexFunc(list, func(x *line) bool { return x.key == l.key }); at >= 0 {
			list[at].n++
			list[at].sizes = append(list[at].sizes, l.sizes...)
			continue
		}
		byFamily[a.Family] = append(list, &l)
	}
	fmt.Fprintf(&b, "# The catalogue of matrix instructions\n\nWritten by `tilus-lab atom status`; do not edit. %d instructions. Every row covers its shapes, or does not load. %d have a row of\nthread code; %d of those are proved by GPU runs that `tests/record` holds. Where the last column is\nempty, there is no thread code to run.\n\n", total, rows, done)
	b.WriteString("| family | instructions | with thread code | proved on a GPU |\n| --- | ---: | ---: | ---: |\n")
	for _, f := range families(atoms) {
		with, ok := 0, 0
		for _, l := range byFamily[f] {
			if l.gpu != "" {
				with += l.n
			}
			if strings.HasPrefix(l.gpu, "proved") {
				ok += l.n
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", f, counts[f], with, ok)
	}
	for _, f := range families(atoms) {
		var source []string
		for _, a := range atoms {
			if a.Family == f && !slices.Contains(source, a.Source) {
				source = append(source, a.Source)
			}
		}
		fmt.Fprintf(&b, "\n## %s\n\nSources of the layouts: %s.\n\n", f, strings.Join(source, "; "))
		b.WriteString("| instruction | operands | since | layouts checked by | GPU |\n| --- | --- | --- | --- | --- |\n")
		for _, l := range byFamily[f] {
			name := l.name
			if len(l.sizes) > 0 {
				slices.Sort(l.sizes)
				l.sizes = slices.Compact(l.sizes)
				name = strings.Replace(name, "{}", span(l.sizes), 1)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, l.types, l.since, l.checked, l.gpu)
		}
	}
	return b.String(), nil
}

// span writes sizes as {8..256 by 8} where they are even, else in full.
func span(sizes []int) string {
	if len(sizes) == 1 {
		return strconv.Itoa(sizes[0])
	}
	step := sizes[1] - sizes[0]
	for i := 2; i < len(sizes); i++ {
		if sizes[i]-sizes[i-1] != step {
			step = 0
			break
		}
	}
	if step > 0 && len(sizes) > 3 {
		return fmt.Sprintf("{%d..%d by %d}", sizes[0], sizes[len(sizes)-1], step)
	}
	return "{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(sizes), " ", ","), "[]") + "}"
}
