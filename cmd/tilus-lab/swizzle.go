package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

func newSwizzle() *cobra.Command {
	var asJSON bool
	var rows, cols, rescale int
	var draw *pictureFlags
	cmd := &cobra.Command{
		Use:   "swizzle Sw<B,M,S> [OFFSET…]",
		Short: "Apply, draw, search and encode swizzles of shared memory",
		Long: `Show what a swizzle does: where it puts offsets, or the table of a row-major tile
(physical columns; whether rows and columns are permutations). Offsets count the
swizzle's own unit: elements or bytes.

Further commands search for the best placement of a tile, show TMA's modes, check
tensor maps, and encode and decode the matrix descriptors of wgmma and tcgen05.`,
		Example: `  tilus-lab swizzle "Sw<3,4,3>" 128 1008
  tilus-lab swizzle "Sw<3,0,3>" --rows 8 --cols 8 --svg swizzle.svg
  tilus-lab swizzle "Sw<3,3,3>" --rescale 1
  tilus-lab swizzle search --tile "f16[16, 64]" "16-byte row store" "ldmatrix.x4"
  tilus-lab swizzle tma 128B
  tilus-lab swizzle descriptor --start 8192 --lbo 512 --sbo 1024 --mode 64B`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := layout.ParseSwizzle(args[0])
			if err != nil {
				return fmt.Errorf("%w; or one of the commands search, tma, tensormap, descriptor, canonical, transpose", err)
			}
			if s, err = s.Rescale(rescale); err != nil {
				return err
			}
			offsets := []int{}
			for _, a := range args[1:] {
				n, err := strconv.ParseInt(a, 0, 48)
				if err != nil || n < 0 {
					return usageError{fmt.Errorf("%q is no offset", a)}
				}
				offsets = append(offsets, int(n))
			}
			if rows == 0 {
				rows = 1 << min(max(s.Bits, 0), 6)
			}
			if cols == 0 {
				cols = 1 << min(s.Base+max(s.Shift, -s.Shift), 10)
			}
			if rows < 1 || cols < 1 || rows*cols > maxPrinted {
				return usageError{fmt.Errorf("a table of %d × %d; draw 1 to %d places", rows, cols, maxPrinted)}
			}
			if draw.wanted() {
				pic, err := layoutviz.Swizzle(s, rows, cols, draw.options())
				if err != nil {
					return err
				}
				if err := draw.write(cmd, pic); err != nil || !asJSON {
					return err
				}
			}
			return printSwizzle(cmd.OutOrStdout(), s, offsets, rows, cols, rescale != 0, asJSON)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print it as JSON")
	f.IntVar(&rows, "rows", 0, "`ROWS` of the tile (default: one period)")
	f.IntVar(&cols, "cols", 0, "`COLUMNS` of the tile, in the swizzle's unit (default: one period)")
	f.IntVar(&rescale, "rescale", 0, "count in units 2^`N` times smaller: 1 takes a swizzle of f16 elements to bytes, -1 back")
	draw = addPictureFlags(cmd)
	cmd.AddCommand(newSwizzleSearch(), newSwizzleTMA(), newTensorMap(), newDescriptor(), newCanonical(), newTranspose())
	return cmd
}

func printSwizzle(w io.Writer, s layout.Swizzle, offsets []int, rows, cols int, rescaled, asJSON bool) error {
	results := []int{}
	for _, o := range offsets {
		results = append(results, s.Apply(o))
	}
	table, same := bank.SwizzleTable(s, rows, cols)
	latinRows, latinCols := bank.Latin(table)
	if asJSON {
		return printJSON(w, map[string]any{"swizzle": s.String(), "offsets": offsets, "results": results, "physical_col": table,
			"row_unchanged": same, "rows_are_permutations": latinRows, "cols_are_permutations": latinCols})
	}
	if rescaled {
		fmt.Fprintln(w, s)
	}
	if len(offsets) > 0 {
		for i, o := range offsets {
			fmt.Fprintf(w, "%d → %d (0x%x → 0x%x)\n", o, results[i], o, results[i])
		}
		return nil
	}
	if rescaled {
		return nil
	}
	fmt.Fprintf(w, "%s: groups of %d stay together, %d take part, repeats after %d\n", s, 1<<s.Base, 1<<s.Bits, 1<<(s.Base+max(s.Shift, -s.Shift)+s.Bits))
	unit := 1
	if cols > 16 && s.Base > 0 && cols>>s.Base > 0 {
		unit = 1 << s.Base
		fmt.Fprintf(w, "columns in groups of %d\n", unit)
	}
	tw := tabwriter.NewWriter(w, 2, 8, 1, ' ', tabwriter.AlignRight)
	for r := range table {
		fmt.Fprintf(tw, "row %d:\t", r)
		for c := 0; c < cols; c += unit {
			fmt.Fprintf(tw, "%d\t", table[r][c]/unit)
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	says := map[bool]string{true: "yes", false: "no"}
	fmt.Fprintf(w, "rows stay: %s; every row a permutation: %s; every column a permutation: %s\n", says[same], says[latinRows], says[latinCols])
	return nil
}

func newSwizzleSearch() *cobra.Command {
	var asJSON bool
	var tileText, profile string
	var level, minBase, ties int
	cmd := &cobra.Command{
		Use:   "search PATTERN… --tile TYPE[ROWS, COLUMNS]",
		Short: "Find the placement of a tile with the fewest bank conflicts, with proof",
		Long: `Find the placement of a tile under which patterns take the fewest wavefronts: padded
rows (level 0), one swizzle (1), two (2), any XOR map from row bits to chunk bits (3,
where there are at most 4096).

A PATTERN is an access of the row-major tile in words: row, column, "16-byte row
store", "16-byte row store, 4 lanes per row", ldmatrix.x4, stmatrix.x2, "volta wmma
A"; or an access as for banks, such as "load 16: lane%16*128". "3 * column" counts
three times. The certificate shows each pattern before and after.`,
		Example: `  tilus-lab swizzle search --tile "f16[16, 64]" "16-byte row store" ldmatrix.x4
  tilus-lab swizzle search --tile "f32[32, 32]" "row store" column --level 3
  tilus-lab swizzle search --tile "f16[16, 64]" "volta wmma A" "16-byte row store" --level 3`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := bank.FindProfile(profile)
			if err != nil {
				return usageError{err}
			}
			if tileText == "" {
				return usageError{errors.New("say what the patterns are of, as in --tile \"f16[16, 64]\"")}
			}
			tile, err := bank.ParseTile(tileText)
			if err != nil {
				return usageError{err}
			}
			if level < bank.LevelPadding || level > bank.LevelXOR {
				return usageError{fmt.Errorf("--level %d; there are 0 to %d", level, bank.LevelXOR)}
			}
			var patterns []bank.Pattern
			for i, arg := range args {
				ps, err := searchPattern(p, tile, arg, i)
				if err != nil {
					return err
				}
				patterns = append(patterns, ps...)
			}
			r, err := bank.Search(p, patterns, bank.Space{RowBytes: tile.RowBytes(), MinBase: minBase, Level: level})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), searchJSON(r))
			}
			return printSearch(cmd.OutOrStdout(), r, ties)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	f.StringVar(&tileText, "tile", "", "element type and shape of the `TILE`")
	f.StringVar(&profile, "profile", "nvidia", "shared memory of `PROFILE`: "+profileNames())
	f.IntVar(&level, "level", bank.LevelTwo, "how far to search: `LEVEL` 0 to 3")
	f.IntVar(&minBase, "min-base", 0, "log2 of the `BYTES` that must stay together (default: those of the widest access)")
	f.IntVar(&ties, "ties", 5, "how many equally good placements of each level to print")
	return cmd
}

// searchPattern reads a pattern of words, or an access, with its weight.
func searchPattern(p bank.Profile, tile bank.Tile, arg string, i int) ([]bank.Pattern, error) {
	text, weight := arg, 1
	if n, rest, ok := strings.Cut(arg, "*"); ok && !strings.Contains(n, ":") {
		if w, err := strconv.Atoi(strings.TrimSpace(n)); err == nil {
			if w < 1 || w > 1<<20 {
				return nil, usageError{fmt.Errorf("weight %d of %q lies outside 1 to 2^20", w, arg)}
			}
			text, weight = strings.TrimSpace(rest), w
		}
	}
	var out []bank.Pattern
	if strings.Contains(text, ":") {
		a, err := bank.ParseAccess(text, p, diag.Pos{File: fmt.Sprintf("pattern %d", i+1), Line: 1, Col: 1 + len(arg) - len(text)})
		if err != nil {
			return nil, err
		}
		out = []bank.Pattern{{Name: text, Access: a}}
	} else {
		var err error
		if out, err = tile.Pattern(text); err != nil {
			return nil, usageError{err}
		}
	}
	for i := range out {
		out[i].Weight = weight
	}
	return out, nil
}

func searchJSON(r *bank.Result) any {
	type level struct {
		Name  string   `json:"name"`
		Tried int      `json:"tried"`
		Best  int      `json:"best"`
		Ties  []string `json:"ties"`
		Note  string   `json:"note,omitempty"`
	}
	type certificate struct {
		Pattern    string      `json:"pattern"`
		Before     bank.Report `json:"before"`
		After      bank.Report `json:"after"`
		RankBefore int         `json:"rank_degree_before,omitempty"`
		RankAfter  int         `json:"rank_degree_after,omitempty"`
	}
	var levels []level
	for _, l := range r.Levels {
		x := level{Name: l.Name, Tried: l.Tried, Best: l.Best, Note: l.Note}
		for _, t := range l.Ties {
			x.Ties = append(x.Ties, t.String())
		}
		levels = append(levels, x)
	}
	var certs []certificate
	for _, c := range r.Certificate {
		certs = append(certs, certificate{c.Pattern, c.Before, c.After, c.RankBefore, c.RankAfter})
	}
	return map[string]any{"identity": r.Identity, "ideal": r.Ideal, "bound": r.Bound, "best": r.Best.String(), "wavefronts": r.Wavefronts,
		"proof": r.Proof, "tma": r.TMA, "tma_says": r.TMASays, "levels": levels, "certificate": certs}
}

func printSearch(w io.Writer, r *bank.Result, ties int) error {
	fmt.Fprintf(w, "plain: %d wavefronts; best: %d with %s (ideal %d)\n", r.Identity, r.Wavefronts, r.Best, r.Ideal)
	fmt.Fprintln(w, r.Proof)
	fmt.Fprintln(w, r.TMASays)
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "\nlevel\ttried\tbest\tequally good")
	for _, l := range r.Levels {
		var names []string
		for i, t := range l.Ties {
			if i == ties {
				names = append(names, fmt.Sprintf("… %d in all", len(l.Ties)))
				break
			}
			names = append(names, t.String())
		}
		if l.Tried == 0 {
			fmt.Fprintf(tw, "%s\t0\t–\t%s\n", l.Name, l.Note)
			continue
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%s\n", l.Name, l.Tried, l.Best, strings.Join(names, "; "))
	}
	fmt.Fprintln(tw, "\npattern\tdegrees before\tafter\tbanks of the first phase, before\tafter")
	for _, c := range r.Certificate {
		fmt.Fprintf(tw, "%s\t%v\t%v\t%s\t%s\n", c.Pattern, c.Before.Degrees(), c.After.Degrees(), firstBanks(c.Before), firstBanks(c.After))
	}
	return tw.Flush()
}

// firstBanks is the bank in which each lane of the first phase begins.
func firstBanks(r bank.Report) string {
	if len(r.Phases) == 0 {
		return ""
	}
	var out []string
	for _, lane := range r.Phases[0].Lanes {
		if len(out) == 8 {
			out = append(out, "…")
			break
		}
		out = append(out, fmt.Sprint(r.Access.Addrs[lane]/r.BankBytes%r.Banks))
	}
	return strings.Join(out, " ")
}

func newSwizzleTMA() *cobra.Command {
	var asJSON bool
	var draw *pictureFlags
	cmd := &cobra.Command{
		Use:   "tma [MODE [ADDRESS…]]",
		Short: "Show TMA's swizzle modes: chunk tables, or where addresses lie",
		Example: `  tilus-lab swizzle tma
  tilus-lab swizzle tma 64B --svg mode.svg
  tilus-lab swizzle tma 128B 0x480 0x500`,
		RunE: func(cmd *cobra.Command, args []string) error {
			w := cmd.OutOrStdout()
			modes := bank.TMAModes()
			if len(args) > 0 {
				m, err := bank.FindTMAMode(args[0])
				if err != nil {
					return usageError{err}
				}
				modes = []bank.TMAMode{m}
			}
			if draw.wanted() {
				if len(args) == 0 {
					return usageError{errors.New("a picture shows one mode; name it")}
				}
				pic, err := layoutviz.TMAChunks(modes[0], draw.options())
				if err != nil {
					return err
				}
				if err := draw.write(cmd, pic); err != nil || !asJSON {
					return err
				}
			}
			var addrs []int
			for _, a := range args[min(1, len(args)):] {
				n, err := strconv.ParseInt(a, 0, 32)
				if err != nil || n < 0 {
					return usageError{fmt.Errorf("%q is no address in shared memory", a)}
				}
				addrs = append(addrs, int(n))
			}
			if asJSON {
				var out []map[string]any
				for _, m := range modes {
					x := map[string]any{"mode": m.Name, "formula": m.Formula(), "span": m.Span, "repeat": m.Repeat, "alignment": m.Align, "chunk_at_position": m.Chunks()}
					at := []map[string]int{}
					for _, a := range addrs {
						at = append(at, map[string]int{"address": a, "physical": m.Apply(a), "base_offset": m.BaseOffset(a)})
					}
					if len(at) > 0 {
						x["addresses"] = at
					}
					out = append(out, x)
				}
				return printJSON(w, out)
			}
			tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
			if len(addrs) > 0 {
				fmt.Fprintln(tw, "address\tlies at\tbase offset of a tile there")
				for _, a := range addrs {
					fmt.Fprintf(tw, "0x%x\t0x%x\t%d\n", a, modes[0].Apply(a), modes[0].BaseOffset(a))
				}
				return tw.Flush()
			}
			fmt.Fprintln(tw, "mode\tformula\tinner box\trepeats after\tbase alignment")
			for _, m := range modes {
				span := "any"
				if m.Span > 0 {
					span = fmt.Sprintf("≤ %d bytes", m.Span)
				}
				fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\n", m.Name, m.Formula(), span, m.Repeat, m.Align)
			}
			if err := tw.Flush(); err != nil || len(args) == 0 {
				return err
			}
			fmt.Fprintln(w, "16-byte chunk found at each position of each line of 128 bytes:")
			for r, row := range modes[0].Chunks() {
				fmt.Fprintf(w, "  line %d: %s\n", r, strings.Trim(fmt.Sprint(row), "[]"))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	draw = addPictureFlags(cmd)
	return cmd
}

func newTensorMap() *cobra.Command {
	var elem string
	var m bank.TensorMap
	var dims, strides []int64
	var address uint64
	var at, corner []int
	var base int
	var asJSON bool
	var draw *pictureFlags
	cmd := &cobra.Command{
		Use:   "tensormap",
		Short: "Check a tensor map against TMA's limits, and draw a box; inner dimension first",
		Example: `  tilus-lab swizzle tensormap --type f16 --dims 64,64 --strides 128 --box 64,8 --swizzle 128B
  tilus-lab swizzle tensormap --type f16 --dims 64,64 --strides 128 --box 64,8 --swizzle 128B --corner 32,60 --svg box.svg
  tilus-lab swizzle tensormap --type f16 --dims 64,64 --strides 128 --box 64,8 --swizzle 128B --base 0x480 --at 8,1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := dtype.Parse(elem)
			if err != nil {
				return usageError{err}
			}
			n, whole := t.Bytes()
			if !whole {
				return usageError{fmt.Errorf("elements of %d bits have no address; take u8 for packed ones", t.Bits())}
			}
			m.ElementBytes, m.Float, m.Address = n, t.IsFloat(), address
			for _, d := range dims {
				if d < 0 {
					return usageError{fmt.Errorf("dimension %d is negative", d)}
				}
				m.Dims = append(m.Dims, uint64(d))
			}
			for _, s := range strides {
				if s < 0 {
					return usageError{fmt.Errorf("stride %d is negative", s)}
				}
				m.Strides = append(m.Strides, uint64(s))
			}
			if p := m.Check(); len(p) > 0 {
				if asJSON {
					says := []string{}
					for _, x := range p {
						says = append(says, x.Msg)
					}
					if err := printJSON(cmd.OutOrStdout(), map[string]any{"valid": false, "problems": says}); err != nil {
						return err
					}
					return silent(1)
				}
				return p.Err()
			}
			if draw.wanted() {
				if len(corner) != 0 && len(corner) != 2 {
					return usageError{errors.New("--corner takes the column and the row at which the box begins")}
				}
				pic, err := layoutviz.TMA(m, append(corner, 0, 0)[1], append(corner, 0, 0)[0], base, draw.options())
				if err != nil {
					return err
				}
				if err := draw.write(cmd, pic); err != nil || !asJSON && at == nil {
					return err
				}
			}
			w := cmd.OutOrStdout()
			doc := map[string]any{"valid": true, "bytes": bank.TensorMapBytes, "alignment": bank.TensorMapAlign}
			if at == nil && asJSON {
				return printJSON(w, doc)
			}
			if at == nil {
				fmt.Fprintf(w, "The map is right; the driver makes %d bytes of it, at a multiple of %d.\n", bank.TensorMapBytes, bank.TensorMapAlign)
				return nil
			}
			if len(at) != len(m.Box) || base < 0 {
				return usageError{errors.New("--at takes an index for each dimension, --base an address")}
			}
			for i, x := range at {
				if x < 0 || x >= m.Box[i] {
					return usageError{fmt.Errorf("index %d of dimension %d lies outside the box", x, i)}
				}
			}
			a := m.At(base, at...)
			if asJSON {
				doc["index"], doc["lies_at"] = at, a
				return printJSON(w, doc)
			}
			fmt.Fprintf(w, "element %v lies at 0x%x (%d)\n", at, a, a)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&elem, "type", "f16", "element `TYPE`")
	f.Uint64Var(&address, "address", 0, "global `ADDRESS`")
	f.Int64SliceVar(&dims, "dims", nil, "`ELEMENTS` of the tensor")
	f.Int64SliceVar(&strides, "strides", nil, "`BYTES` between elements of the outer dimensions")
	f.IntSliceVar(&m.Box, "box", nil, "`ELEMENTS` of a tile")
	f.IntSliceVar(&m.ElementStrides, "element-strides", nil, "`STRIDES` in elements")
	f.StringVar(&m.Interleave, "interleave", "none", "none, 16B or 32B")
	f.StringVar(&m.Swizzle, "swizzle", "none", "swizzle `MODE`")
	f.BoolVar(&m.FillNaN, "fill-nan", false, "what lies outside becomes NaN")
	f.IntSliceVar(&at, "at", nil, "say where this `INDEX` of the box lies in shared memory")
	f.IntVar(&base, "base", 0, "shared `ADDRESS` of the box")
	f.IntSliceVar(&corner, "corner", nil, "`INDEX` of the tensor at which the drawn box begins (default: the first element)")
	f.BoolVar(&asJSON, "json", false, "print it as JSON")
	draw = addPictureFlags(cmd)
	return cmd
}

func newDescriptor() *cobra.Command {
	var d bank.Descriptor
	var arch string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "descriptor [WORD]",
		Short: "Encode or decode a matrix descriptor of wgmma (sm_90) or tcgen05 (sm_100)",
		Example: `  tilus-lab swizzle descriptor --start 8192 --lbo 512 --sbo 1024 --mode 64B
  tilus-lab swizzle descriptor 0x8000004000200200 --arch sm_90`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w := cmd.OutOrStdout()
			word, err := uint64(0), error(nil)
			if len(args) == 1 {
				if word, err = strconv.ParseUint(args[0], 0, 64); err != nil {
					return usageError{fmt.Errorf("%q is no number of 64 bits", args[0])}
				}
				d, err = bank.DecodeDescriptor(word, arch)
			} else {
				word, err = d.Encode(arch)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(w, map[string]any{"word": fmt.Sprintf("0x%x", word), "arch": arch, "descriptor": d})
			}
			fmt.Fprintf(w, "0x%x\nstart 0x%x, leading offset %d, stride offset %d, base offset %d, swizzle %s", word, d.Start, d.Leading, d.Stride, d.BaseOffset, d.Mode)
			if d.Absolute {
				fmt.Fprint(w, ", leading address absolute")
			}
			fmt.Fprintln(w)
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print it as JSON")
	f.StringVar(&arch, "arch", bank.SM90, "`ARCHITECTURE`")
	f.IntVar(&d.Start, "start", 0, "shared `ADDRESS` of the tile")
	f.IntVar(&d.Leading, "lbo", 0, "leading-dimension offset in `BYTES`")
	f.IntVar(&d.Stride, "sbo", 0, "stride-dimension offset in `BYTES`")
	f.IntVar(&d.BaseOffset, "base-offset", 0, "`LINE` of the pattern at which the tile begins")
	f.StringVar(&d.Mode, "mode", "none", "swizzle `MODE`")
	f.BoolVar(&d.Absolute, "absolute", false, "sm_100: the leading offset is an address")
	return cmd
}

func newCanonical() *cobra.Command {
	var d bank.Descriptor
	var elem string
	var groups int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "canonical",
		Short: "Show the shared-memory layouts that wgmma and tcgen05 expect",
		Long: `Show the canonical layouts of operands in shared memory, K-major and MN-major, with T =
128 / element bits; with --type also as CuTe layouts in elements for given offsets.`,
		Example: "  tilus-lab swizzle canonical --type f16 --lbo 128 --sbo 1024",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tw := tabwriter.NewWriter(cmd.OutOrStdout(), 2, 8, 2, ' ', 0)
			head := "major\tswizzle\tlayout"
			docs := []map[string]string{}
			bits := 0
			if elem != "" {
				t, err := dtype.Parse(elem)
				if err != nil {
					return usageError{err}
				}
				bits = t.Bits()
				head += "\tin elements of " + t.String()
			}
			fmt.Fprintln(tw, head)
			for _, c := range bank.Canonicals() {
				doc := map[string]string{"major": fmt.Sprint(c.Major), "swizzle": c.Mode, "layout": c.String()}
				docs = append(docs, doc)
				fmt.Fprintf(tw, "%s\t%s\t%s", c.Major, c.Mode, c)
				if bits > 0 {
					text, err := c.CuTe(bits, d, groups)
					if err != nil {
						return err
					}
					doc["cute"] = fmt.Sprint(text)
					fmt.Fprintf(tw, "\t%s", text)
				}
				fmt.Fprintln(tw)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), docs)
			}
			return tw.Flush()
		},
	}
	f := cmd.Flags()
	f.StringVar(&elem, "type", "", "element `TYPE`")
	f.IntVar(&d.Leading, "lbo", 128, "leading-dimension offset in `BYTES`")
	f.IntVar(&d.Stride, "sbo", 1024, "stride-dimension offset in `BYTES`")
	f.IntVar(&groups, "groups", 2, "`GROUPS` of 8 rows")
	f.BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

func newTranspose() *cobra.Command {
	var asJSON bool
	var draw *pictureFlags
	cmd := &cobra.Command{
		Use:     "transpose",
		Short:   "The worked example: a 32×32 transpose through shared memory, five ways",
		Example: "  tilus-lab swizzle transpose --svg transpose.svg",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if draw.wanted() {
				pic, err := layoutviz.Transpose(draw.options())
				if err != nil {
					return err
				}
				if err := draw.write(cmd, pic); err != nil || !asJSON {
					return err
				}
			}
			steps := bank.Transpose()
			if asJSON {
				return printJSON(cmd.OutOrStdout(), steps)
			}
			w := cmd.OutOrStdout()
			tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
			fmt.Fprintln(tw, "way\tbytes\twrite a row\tread a column\tLatin square of banks")
			for _, s := range steps {
				write := fmt.Sprintf("%d of %d", s.Write.Wavefronts, s.Write.Ideal)
				if s.ByTMA {
					write = "by TMA"
				}
				latin := "no"
				switch {
				case s.Rows && s.Cols:
					latin = "yes"
				case s.ChunkRows && s.ChunkCols:
					latin = "of 16-byte chunks"
				}
				fmt.Fprintf(tw, "%s\t%d\t%s\t%d of %d\t%s\n", s.Name, s.Bytes, write, s.Read.Wavefronts, s.Read.Ideal, latin)
			}
			if err := tw.Flush(); err != nil {
				return err
			}
			for _, s := range steps {
				fmt.Fprintf(w, "\n%s: %s\n", s.Name, s.Doc)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the steps as JSON, with the bank of every element")
	draw = addPictureFlags(cmd)
	return cmd
}
