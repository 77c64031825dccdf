package conform

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// bankKinds are the kinds about shared memory: banks, swizzles, TMA, descriptors.
func bankKinds() []Kind {
	ask := func(name, doc string, answer func(in bankInput, expect map[string]json.RawMessage) (map[string]any, error)) Kind {
		return Kind{name, doc, func(input, expect json.RawMessage) (string, error) {
			return "", checkBank(answer, input, expect)
		}}
	}
	return []Kind{
		ask("smem.access", "degree of each phase of an access to shared memory", smemAccess),
		ask("smem.ldmatrix", "degree of each phase of ldmatrix under swizzles", smemMatrix),
		ask("smem.rule", "banks of addresses, strides, the rank formula, cp.async", smemRule),
		ask("smem.property", "where padding and swizzles do not help", smemProperty),
		ask("ldmatrix.rule", "which lanes give row addresses", matrixRule),
		ask("lds.phase_map", "phase of each lane of AMD's local data share", ldsPhaseMap),
		ask("lds.access", "degree of each phase on AMD's local data share", ldsAccess),
		ask("swizzle.apply", "offsets under Swizzle<B,M,S>", swizzleApply),
		ask("swizzle.table", "a swizzled tile as a table", swizzleTable),
		ask("swizzle.property", "a swizzle is an involution and a Latin square", swizzleTable),
		ask("swizzle.recast", "a swizzle in elements and in bytes", swizzleRecast),
		ask("swizzle.validate", "which B, M, S are swizzles", swizzleValidate),
		ask("swizzle.search", "the best swizzle for access patterns", swizzleSearch),
		ask("tma.swizzle_table", "chunk table of a TMA swizzle mode", tmaTable),
		ask("tma.swizzle", "where TMA puts a byte of a tile", tmaSwizzle),
		ask("tma.base_offset", "line of the pattern at an address", tmaBaseOffset),
		ask("tma.seed_formula", "the formula of talks against TMA's mode", tmaFormula),
		ask("tma.validate", "limits of tensor maps", tmaValidate),
		ask("wgmma.descriptor", "matrix descriptor to 64 bits and back", wgmmaDescriptor),
		ask("wgmma.canonical", "canonical shared-memory layouts of wgmma", wgmmaCanonical),
	}
}

// bankInput is the union of the inputs of these kinds.
type bankInput struct {
	Desc      string
	Width     int             `json:"width_bytes"`
	Addrs     json.RawMessage // a list, null for idle lanes, or {"all_lanes": a}
	RowAddrs  []int           `json:"row_addrs"`
	Swizzle   json.RawMessage `json:"swizzle_bytes_BMS"`
	Swizzles  [][3]int        `json:"swizzles_bytes_BMS"`
	Addresses []int
	Instr     string
	RowStride int `json:"row_stride"`
	Num       json.RawMessage
	Device    string
	Banks     int
	Lanes     int

	B, M, S, Rows, Cols int
	Cases               json.RawMessage
	ElementBytes        int    `json:"element_bytes"`
	ElementBMS          [3]int `json:"element_BMS"`

	Tile     string
	Patterns []string
	MinM     int `json:"min_M"`
	Space    struct{ B, M, S [2]int }

	Mode      string
	Sizeof    int
	NX        int
	XY        [][2]int
	TileBase  int `json:"tile_base"`
	Logical   [][2]int
	RowBytes  int      `json:"row_bytes"`
	Interlace []string `json:"interleave"`

	Start      int
	Leading    int `json:"lbo_bytes"`
	Stride     int `json:"sbo_bytes"`
	BaseOffset int `json:"base_offset"`
	Arch       string
	T          string
	Major      string
}

// bankProse are keys of these kinds that comment on the expectation.
var bankProse = []string{"reason", "needs", "condition", "formula"}

func checkBank(answer func(bankInput, map[string]json.RawMessage) (map[string]any, error), input, expect json.RawMessage) error {
	var in bankInput
	if err := json.Unmarshal(input, &in); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	var want map[string]json.RawMessage
	if err := json.Unmarshal(expect, &want); err != nil {
		return fmt.Errorf("expect is no object: %w", err)
	}
	for _, k := range bankProse {
		delete(want, k)
	}
	got, err := answer(in, want)
	if err != nil {
		return err
	}
	rest, err := json.Marshal(want)
	if err != nil {
		return err
	}
	return compare(got, rest, sameFormula)
}

// sameFormula compares the formulas of address bits by what they do.
func sameFormula(key string, got, want any) bool {
	g, ok1 := got.(string)
	w, ok2 := want.(string)
	if key != "bit_formula" || !ok1 || !ok2 {
		return false
	}
	f, err1 := parseFormula(g)
	h, err2 := parseFormula(w)
	if err1 != nil || err2 != nil {
		return false
	}
	for a := range 1 << 13 {
		if f(a) != h(a) {
			return false
		}
	}
	return true
}

var assignment = regexp.MustCompile(`(?:addr|a|bits?)?\s*\[?(\d+)(?::(\d+))?\]?\s*\^=\s*(?:addr|a|bits?)?\s*\[?(\d+)(?::(\d+))?\]?`)

// parseFormula reads assignments such as "addr[6:5] ^= addr[8:7]". All read the
// address as it was.
func parseFormula(text string) (func(int) int, error) {
	type move struct{ to, from, n int }
	var moves []move
	rest := assignment.ReplaceAllStringFunc(text, func(s string) string {
		var n [4]int
		for i, d := range assignment.FindStringSubmatch(s)[1:] {
			n[i] = -1
			if d != "" {
				n[i], _ = strconv.Atoi(d) // digits by the expression
			}
		}
		if n[1] < 0 {
			n[1] = n[0]
		}
		if n[3] < 0 {
			n[3] = n[2]
		}
		moves = append(moves, move{n[1], n[3], n[0] - n[1] + 1})
		return ""
	})
	if len(moves) == 0 || strings.Trim(strings.ReplaceAll(rest, "and", ""), " ,;&") != "" {
		return nil, fmt.Errorf("%q is no list of assignments to address bits", text)
	}
	return func(a int) int {
		out := a
		for _, m := range moves {
			out ^= a >> m.from & (1<<m.n - 1) << m.to
		}
		return out
	}, nil
}

func (in bankInput) addrs(lanes int) ([]int, error) {
	var list []*int
	if json.Unmarshal(in.Addrs, &list) == nil {
		out := make([]int, len(list))
		for i, a := range list {
			if out[i] = bank.Inactive; a != nil {
				out[i] = *a
			}
		}
		return out, nil
	}
	var all struct {
		All *int `json:"all_lanes"`
	}
	if err := json.Unmarshal(in.Addrs, &all); err != nil || all.All == nil {
		return nil, fmt.Errorf("addrs %s are neither a list nor for all lanes", short(in.Addrs))
	}
	return slices.Repeat([]int{*all.All}, lanes), nil
}

func (in bankInput) access() (bank.Access, error) {
	a := bank.Access{Kind: bank.Load, Width: in.Width}
	if strings.Contains(in.Instr, "store") || strings.HasPrefix(in.Instr, "st") {
		a.Kind = bank.Store
	}
	var err error
	a.Addrs, err = in.addrs(32)
	return a, err
}

// reportKeys are the answers about one access.
func reportKeys(r bank.Report) map[string]any {
	degrees := slices.DeleteFunc(r.Degrees(), func(d int) bool { return d == 0 })
	return map[string]any{"phases": len(degrees), "per_phase_degree": degrees, "degrees": degrees,
		"wavefronts": r.Wavefronts, "ideal": r.Ideal, "conflicts": r.Conflicts}
}

func smemAccess(in bankInput, expect map[string]json.RawMessage) (map[string]any, error) {
	a, err := in.access()
	if err != nil {
		return nil, err
	}
	r, err := bank.Count(bank.Nvidia(), a)
	if err != nil {
		return nil, err
	}
	if err := byRank(a, r); err != nil {
		return nil, err
	}
	out := reportKeys(r)
	merging, err := bank.FindProfile("nvidia-cc7")
	if err != nil {
		return nil, err
	}
	m, err := bank.Count(merging, a)
	if err != nil {
		return nil, err
	}
	for key := range expect {
		if strings.Contains(key, "merge") {
			out[key] = m.Wavefronts
		}
	}
	return out, nil
}

// byRank asks the rank formula too, where addresses are XOR-linear.
func byRank(a bank.Access, r bank.Report) error {
	_, laneBits, ok := bank.XorLinear(a.Addrs)
	if !ok || len(a.Addrs) != 32 {
		return nil
	}
	d, err := bank.Rank(bank.Nvidia(), a.Kind, a.Width, laneBits)
	if err != nil {
		return err
	}
	for _, ph := range r.Phases {
		if ph.Degree != d {
			return fmt.Errorf("phase %d has degree %d, by the rank formula %d", ph.Number, ph.Degree, d)
		}
	}
	return nil
}

func smemMatrix(in bankInput, _ map[string]json.RawMessage) (map[string]any, error) {
	kind := bank.LdMatrix
	if strings.Contains(in.Instr, "stmatrix") {
		kind = bank.StMatrix
	}
	degrees, waves := map[string]any{}, map[string]any{}
	for i := -1; i < len(in.Swizzles); i++ {
		name, s := "none", layout.Swizzle{}
		if i >= 0 {
			b := in.Swizzles[i]
			var err error
			if s, err = layout.NewSwizzle(b[0], b[1], b[2]); err != nil {
				return nil, err
			}
			name = fmt.Sprintf("<%d,%d,%d>", b[0], b[1], b[2])
		}
		a := bank.Access{Kind: kind, Width: 16}
		for _, at := range in.RowAddrs {
			a.Addrs = append(a.Addrs, s.Apply(at))
		}
		r, err := bank.Count(bank.Nvidia(), a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		degrees[name], waves[name] = r.Degrees(), r.Wavefronts
	}
	return map[string]any{"per_phase_degree": degrees, "wavefronts": waves}, nil
}

func smemRule(in bankInput, expect map[string]json.RawMessage) (map[string]any, error) {
	p := bank.Nvidia()
	switch {
	case in.Addresses != nil:
		var banks []int
		for _, a := range in.Addresses {
			r, err := bank.Count(p, bank.Access{Kind: bank.Load, Width: 1, Addrs: []int{a}})
			if err != nil {
				return nil, err
			}
			banks = append(banks, r.Phases[0].Bank)
		}
		return map[string]any{"banks": banks}, nil
	case in.Instr == "cp.async":
		return cpAsyncRules(p)
	case expect["cases"] != nil:
		return rankCases(p, expect["cases"])
	case expect["table"] != nil:
		return strideTable(p, expect["table"])
	}
	return nil, errors.New("unknown rule")
}

// strideTable is the degree of reading word s·lane for the strides of the table.
func strideTable(p bank.Profile, want json.RawMessage) (map[string]any, error) {
	var strides map[string]int
	if err := json.Unmarshal(want, &strides); err != nil {
		return nil, err
	}
	table, rule := map[string]int{}, "gcd(s,32)"
	for key := range strides {
		s, err := strconv.Atoi(key)
		if err != nil {
			return nil, err
		}
		r, err := bank.Count(p, bank.ColumnWise(bank.Load, 4, 32, 4*s, 0))
		if err != nil {
			return nil, err
		}
		if table[key] = r.Wavefronts; r.Wavefronts != gcd(s, 32) {
			rule = "other than gcd(s,32)"
		}
	}
	return map[string]any{"table": table, "degree": rule}, nil
}

// rankCases answers each case of the rank formula, by the formula and by counting.
func rankCases(p bank.Profile, want json.RawMessage) (map[string]any, error) {
	var cases []struct {
		Desc  string `json:"desc"`
		Bits  []int  `json:"lane_bit_bytes"`
		Width int    `json:"width_bytes"`
		Each  int    `json:"degree_each_phase"`
	}
	if err := json.Unmarshal(want, &cases); err != nil {
		return nil, err
	}
	for i, c := range cases {
		d, err := bank.Rank(p, bank.Load, c.Width, c.Bits)
		if err != nil {
			return nil, err
		}
		a := bank.Access{Kind: bank.Load, Width: c.Width, Addrs: make([]int, 32)}
		for l := range a.Addrs {
			for b, v := range c.Bits {
				a.Addrs[l] ^= l >> b & 1 * v
			}
		}
		r, err := bank.Count(p, a)
		if err != nil {
			return nil, err
		}
		if err := byRank(a, r); err != nil {
			return nil, err
		}
		cases[i].Each = d
	}
	return map[string]any{"cases": cases}, nil
}

// cpAsyncRules tries which sizes cp.async has and what short sources do.
func cpAsyncRules(p bank.Profile) (map[string]any, error) {
	sizes := func(kind bank.Kind) []int {
		var out []int
		for w := 1; w <= 32; w++ {
			if _, err := p.Rule(kind, w); err == nil {
				out = append(out, w)
			}
		}
		return out
	}
	out := map[string]any{"cp_size": sizes(bank.CpAsync), "cg_cp_size": sizes(bank.CpAsyncGlobal)}
	addrs := bank.ColumnWise(bank.Store, 16, 32, 48, 0).Addrs
	short, err := bank.Count(p, bank.Access{Kind: bank.CpAsync, Width: 16, Addrs: addrs, Source: slices.Repeat([]int{4}, 32)})
	if err != nil {
		return nil, err
	}
	store, err := bank.Count(p, bank.Access{Kind: bank.Store, Width: 16, Addrs: addrs})
	if err != nil {
		return nil, err
	}
	if short.ZeroFilled == 32*12 {
		out["src_size_short"] = "remaining bytes zero-filled"
	}
	if slices.Equal(short.Degrees(), store.Degrees()) {
		out["bank_cost"] = "as a store of that width per lane (model choice)"
	}
	return out, nil
}

func smemProperty(in bankInput, expect map[string]json.RawMessage) (map[string]any, error) {
	p := bank.Nvidia()
	worst := func(a bank.Access) (int, error) {
		r, err := bank.Count(p, a)
		if err != nil {
			return 0, err
		}
		return slices.Max(r.Degrees()), nil
	}
	if in.RowStride > 0 {
		var bms [3]int
		if err := json.Unmarshal(in.Swizzle, &bms); err != nil {
			return nil, err
		}
		s, err := layout.NewSwizzle(bms[0], bms[1], bms[2])
		if err != nil {
			return nil, err
		}
		a := bank.Access{Kind: bank.LdMatrix, Width: 16, Addrs: bank.ColumnWise(bank.Load, 16, 8, in.RowStride, 0).Addrs}
		plain, err := worst(a)
		if err != nil {
			return nil, err
		}
		for l, at := range a.Addrs {
			a.Addrs[l] = s.Apply(at)
		}
		both, err := worst(a)
		return map[string]any{"degree_padding_only": plain, "degree_swizzle_on_padded_rows": both}, err
	}
	out := map[string]any{}
	for key := range expect {
		var from, to int
		if _, err := fmt.Sscanf(key, "min_degree_over_ldm_%d_to_%d", &from, &to); err != nil {
			continue
		}
		least := 32
		for ldm := from; ldm <= to; ldm += 8 {
			for _, a := range bank.VoltaA(2 * ldm) {
				d, err := worst(a)
				if err != nil {
					return nil, err
				}
				least = min(least, d)
			}
		}
		out[key] = least
	}
	return out, nil
}

// lanesText writes the lanes that give addresses as the PTX manual does.
func lanesText(matrices [][]int) string {
	if len(matrices) == 1 {
		return fmt.Sprintf("lanes %d-%d", matrices[0][0], matrices[0][7])
	}
	if len(matrices) == 4 {
		for m, lanes := range matrices {
			if lanes[0] != 8*m || lanes[7] != 8*m+7 {
				return fmt.Sprint(matrices)
			}
		}
		return "8 lanes per matrix in order"
	}
	var parts []string
	for m, lanes := range matrices {
		parts = append(parts, fmt.Sprintf("%d-%d matrix %d", lanes[0], lanes[7], m))
	}
	return "lanes " + strings.Join(parts, ", ")
}

func matrixRule(in bankInput, _ map[string]json.RawMessage) (map[string]any, error) {
	var num []int
	if err := json.Unmarshal(in.Num, &num); err != nil {
		return nil, err
	}
	p := bank.Nvidia()
	out := map[string]any{}
	for _, n := range num {
		if n != 1 && n != 2 && n != 4 {
			return nil, fmt.Errorf("ldmatrix reads 1, 2 or 4 matrices, not %d", n)
		}
		r, err := bank.Count(p, bank.LdMatrixTile(bank.LdMatrix, n, 32))
		if err != nil {
			return nil, err
		}
		var matrices [][]int
		for _, ph := range r.Phases {
			matrices = append(matrices, ph.Lanes)
		}
		out[strconv.Itoa(n)] = lanesText(matrices)
	}
	for align := 1; align <= 64; align *= 2 {
		if _, err := bank.Count(p, bank.Access{Kind: bank.LdMatrix, Addrs: bank.ColumnWise(bank.Load, 16, 8, align, 0).Addrs}); err == nil {
			out["row_alignment_bytes"] = align
			break
		}
	}
	old, err := bank.FindProfile("sm_75")
	if err != nil {
		return nil, err
	}
	if _, err := bank.Count(old, bank.LdMatrixTile(bank.LdMatrix, 1, 32)); err != nil {
		out["sm75_or_below"] = "all lanes must still hold valid addresses"
	}
	return out, nil
}

// ldsWidth is the kind and width of "ds_read_b128".
func ldsWidth(instr string) (bank.Kind, int, error) {
	kind := bank.Load
	rest, ok := strings.CutPrefix(instr, "ds_read_b")
	if !ok {
		kind = bank.Store
		rest, ok = strings.CutPrefix(instr, "ds_write_b")
	}
	bits, err := strconv.Atoi(rest)
	if !ok || err != nil {
		return 0, 0, fmt.Errorf("no instruction %q of the local data share", instr)
	}
	return kind, bits / 8, nil
}

func ldsPhaseMap(in bankInput, _ map[string]json.RawMessage) (map[string]any, error) {
	p, err := bank.FindProfile(in.Device)
	if err != nil {
		return nil, err
	}
	kind, width, err := ldsWidth(in.Instr)
	if err != nil {
		return nil, err
	}
	rule, err := p.Rule(kind, width)
	if err != nil {
		return nil, err
	}
	banks := rule.Banks
	if banks == 0 {
		banks = p.Banks
	}
	if in.Banks != 0 && in.Banks != banks || in.Lanes != 0 && in.Lanes != p.Lanes {
		return nil, fmt.Errorf("%s has %d banks and %d lanes", p.Name, banks, p.Lanes)
	}
	out := map[string]any{"phase_of_lane": rule.PhaseOf(), "phases": len(rule.Phases), "banks": banks}
	if masks, ok := rule.PhaseBits(); ok {
		var names []string
		for _, m := range masks {
			var bits []string
			for b := range 6 {
				if m>>b&1 != 0 {
					bits = append(bits, fmt.Sprintf("t%d", b))
				}
			}
			names = append(names, strings.Join(bits, "^"))
		}
		out["phase_bits"] = names
	}
	return out, nil
}

func ldsAccess(in bankInput, _ map[string]json.RawMessage) (map[string]any, error) {
	kind, width, err := ldsWidth(in.Instr)
	if err != nil {
		return nil, err
	}
	addrs, err := in.addrs(64)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for key, name := range map[string]string{"mi300": "mi300", "mi350": "mi350", "naive_contiguous_phases_32_banks": "contiguous"} {
		p, err := bank.FindProfile(name)
		if err != nil {
			return nil, err
		}
		r, err := bank.Count(p, bank.Access{Kind: kind, Width: width, Addrs: addrs})
		if err != nil {
			return nil, err
		}
		if key == "naive_contiguous_phases_32_banks" {
			out[key] = r.Degrees()
			continue
		}
		out[key+"_degrees"], out[key+"_wavefronts"] = r.Degrees(), r.Wavefronts
	}
	return out, nil
}

func swizzleApply(in bankInput, _ map[string]json.RawMessage) (map[string]any, error) {
	var cases [][4]int
	if err := json.Unmarshal(in.Cases, &cases); err != nil {
		return nil, err
	}
	var out []int
	for _, c := range cases {
		s, err := layout.NewSwizzle(c[0], c[1], c[2])
		if err != nil {
			return nil, err
		}
		if c[3] < 0 {
			return nil, fmt.Errorf("offset %d is negative", c[3])
		}
		out = append(out, s.Apply(c[3]))
	}
	return map[string]any{"results": out}, nil
}

// swizzleTable answers about the table and its properties; without sizes the tile is
// one period: 2^B rows of 2^(M+S) elements in groups of 2^M.
func swizzleTable(in bankInput, _ map[string]json.RawMessage) (map[string]any, error) {
	s, err := layout.NewSwizzle(in.B, in.M, in.S)
	if err != nil {
		return nil, err
	}
	rows, cols := in.Rows, in.Cols
	if rows == 0 {
		rows = 1 << in.B
	}
	if cols == 0 {
		cols = 1 << (in.M + max(in.S, -in.S))
	}
	if rows < 1 || cols < 1 || rows*cols > 1<<20 {
		return nil, fmt.Errorf("a table of %d × %d", rows, cols)
	}
	table, same := bank.SwizzleTable(s, rows, cols)
	latinRows, latinCols := bank.Latin(table)
	involution := true
	for a := range rows * cols {
		involution = involution && s.Apply(s.Apply(a)) == a
	}
	return map[string]any{"physical_col": table, "row_unchanged": same, "rows_are_permutations": latinRows,
		"cols_are_permutations": latinCols, "involution": involution}, nil
}

// inBytes is a swizzle of elements as one of bytes.
func inBytes(bms [3]int, bytes int) ([]int, error) {
	s, err := layout.NewSwizzle(bms[0], bms[1], bms[2])
	if err != nil {
		return nil, err
	}
	e := 0
	for 1<<e < bytes {
		e++
	}
	if 1<<e != bytes {
		return nil, fmt.Errorf("elements of %d bytes", bytes)
	}
	b, err := s.Rescale(e)
	if err != nil {
		return nil, err
	}
	for a := range 1 << 12 {
		if b.Apply(a*bytes) != s.Apply(a)*bytes {
			return nil, fmt.Errorf("%s of elements and %s of bytes differ at %d", s, b, a)
		}
	}
	if b.Bits == 0 { // it moves nothing, wherever its base is
		b.Base = s.Base + e
	}
	return []int{b.Bits, b.Base, b.Shift}, nil
}

var typeBytes = map[string]int{"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "int16": 2, "int8": 1, "fp8": 1}

func swizzleRecast(in bankInput, expect map[string]json.RawMessage) (map[string]any, error) {
	b, err := inBytes(in.ElementBMS, in.ElementBytes)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"byte_BMS": b}
	// Other element types ask the same question inside the expectation.
	for key, raw := range expect {
		bytes, ok := typeBytes[key]
		var q struct {
			Element [3]int `json:"element_BMS"`
		}
		if !ok || json.Unmarshal(raw, &q) != nil {
			continue
		}
		b, err := inBytes(q.Element, bytes)
		if err != nil {
			return nil, err
		}
		out[key] = map[string]any{"element_BMS": q.Element, "byte_BMS": b}
	}
	return out, nil
}

func swizzleValidate(in bankInput, _ map[string]json.RawMessage) (map[string]any, error) {
	var cases [][3]int
	if err := json.Unmarshal(in.Cases, &cases); err != nil {
		return nil, err
	}
	var out []bool
	for _, c := range cases {
		_, err := layout.NewSwizzle(c[0], c[1], c[2])
		out = append(out, err == nil)
	}
	return map[string]any{"valid": out}, nil
}

func bmsOf(s layout.Swizzle) []int { return []int{s.Bits, s.Base, s.Shift} }

func swizzleSearch(in bankInput, expect map[string]json.RawMessage) (map[string]any, error) {
	tile, err := bank.ParseTile(in.Tile)
	if err != nil {
		return nil, err
	}
	var patterns []bank.Pattern
	for _, text := range in.Patterns {
		p, err := tile.Pattern(text)
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, p...)
	}
	space := bank.Space{MinBase: in.MinM, B: bank.Range(rangeOf(in.Space.B)), M: bank.Range(rangeOf(in.Space.M)), S: bank.Range(rangeOf(in.Space.S)), Level: bank.LevelOne}
	if expect["two_stage"] != nil || expect["linear_maps_4_row_bits_to_3_chunk_bits"] != nil {
		space.Level = bank.LevelXOR
	}
	r, err := bank.Search(bank.Nvidia(), patterns, space)
	if err != nil {
		return nil, err
	}
	one, _ := r.LevelOf(bank.LevelOne)
	var all, least [][]int
	for _, t := range one.Ties {
		bms := []int{0, 0, 0}
		if len(t.Swizzles) > 0 {
			bms = bmsOf(t.Swizzles[0])
		}
		all = append(all, bms)
		if t.Bits() == one.MinBits {
			least = append(least, bms)
		}
	}
	slices.SortFunc(all, slices.Compare)
	slices.SortFunc(least, slices.Compare)
	out := map[string]any{"identity_wavefronts": r.Identity, "ideal_wavefronts": r.Ideal,
		"best_wavefronts": one.Best, "best_single_BMS_wavefronts": one.Best, "minimal_B": one.MinBits,
		"solutions_BMS": least, "best_BMS": all}
	if two, ok := r.LevelOf(bank.LevelTwo); ok {
		out["two_stage"] = twoStage(two)
	}
	if maps, ok := r.LevelOf(bank.LevelXOR); ok && maps.Tried > 1 {
		out["linear_maps_4_row_bits_to_3_chunk_bits"] = map[string]any{"total": maps.Tried, "conflict_free": maps.Free(r.Ideal)}
	}
	return out, nil
}

func rangeOf(r [2]int) struct{ From, To int } { return struct{ From, To int }{r[0], r[1]} }

// twoStage is the simplest of the pairs that are as good as any.
func twoStage(l bank.Level) map[string]any {
	best := l.Ties[0]
	if len(best.Swizzles) != 2 {
		return map[string]any{"wavefronts": l.Best}
	}
	return map[string]any{"first": bmsOf(best.Swizzles[0]), "then": bmsOf(best.Swizzles[1]), "wavefronts": l.Best}
}

func tmaTable(in bankInput, _ map[string]json.RawMessage) (map[string]any, error) {
	m, err := bank.FindTMAMode(in.Mode)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"chunk_at_position": m.Chunks(), "repeat_bytes": m.Repeat, "bit_formula": m.Formula(),
		"base_alignment": m.Align, "cute_bytes_BMS": bmsOf(m.Swizzle)}
	if m.Flip {
		out["cute_bytes_BMS"] = nil // not one swizzle
	}
	return out, nil
}

func tmaSwizzle(in bankInput, _ map[string]json.RawMessage) (map[string]any, error) {
	m, err := bank.FindTMAMode(in.Mode)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, at := range in.Logical {
		out = append(out, m.Apply(in.TileBase+at[0]*in.RowBytes+at[1]))
	}
	return map[string]any{"physical": out, "base_offset": m.BaseOffset(in.TileBase)}, nil
}

func tmaBaseOffset(in bankInput, _ map[string]json.RawMessage) (map[string]any, error) {
	var cases [][2]any
	if err := json.Unmarshal(in.Cases, &cases); err != nil {
		return nil, err
	}
	var out []int
	align := map[string]int{}
	for _, c := range cases {
		name, ok1 := c[0].(string)
		at, ok2 := c[1].(float64)
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("case %s is no mode and address", short(c))
		}
		m, err := bank.FindTMAMode(name)
		if err != nil {
			return nil, err
		}
		out = append(out, m.BaseOffset(int(at)))
		align[name] = m.Align
	}
	return map[string]any{"base_offset": out, "aligned_boundary": align}, nil
}

// tmaFormula compares TMA's placement of elements with the formula that talks give.
func tmaFormula(in bankInput, _ map[string]json.RawMessage) (map[string]any, error) {
	m, err := bank.FindTMAMode(in.Mode)
	if err != nil {
		return nil, err
	}
	if in.Sizeof < 1 || in.Sizeof > 16 || 16%in.Sizeof != 0 || in.NX < 1 || in.NX*in.Sizeof > 1<<16 {
		return nil, fmt.Errorf("%d elements of %d bytes in a row", in.NX, in.Sizeof)
	}
	place := func(x, y int) (int, int) {
		at := m.Apply((y*in.NX+x)*in.Sizeof) / in.Sizeof
		return at % in.NX, at / in.NX
	}
	var xs, ys []int
	naive := 0
	for _, c := range in.XY {
		if c[0] < 0 || c[1] < 0 || c[0] >= in.NX {
			return nil, fmt.Errorf("element %v lies outside rows of %d", c, in.NX)
		}
		x, y := place(c[0], c[1])
		xs, ys = append(xs, x), append(ys, y)
		naive = bank.TalkFormula(in.Sizeof, in.NX, c[0], c[1], false)
		if m.Span == in.NX*in.Sizeof && naive != x {
			return nil, fmt.Errorf("the formula gives column %d for %v, the mode %d", naive, c, x)
		}
	}
	wrong, all := 0, 0
	for y := range max(1, m.Repeat/(in.NX*in.Sizeof)) { // the rows of one period of the mode
		for x := range in.NX {
			all++
			if px, py := place(x, y); py != y || px != bank.TalkFormula(in.Sizeof, in.NX, x, y, true) {
				wrong++
			}
		}
	}
	return map[string]any{"swz_x": xs, "swz_y": ys, "naive_x_of_last_without_mod8": naive,
		"mismatches": wrong, "elements": all}, nil
}

func tmaValidate(in bankInput, expect map[string]json.RawMessage) (map[string]any, error) {
	// A good map of bytes whose box has n of them along the inner dimension.
	try := func(n int, swizzle, interleave string) bool {
		return len(bank.TensorMap{ElementBytes: 1, Dims: []uint64{1024, 64, 64}, Strides: []uint64{1024, 65536},
			Box: []int{n, 8, 1}, Swizzle: swizzle, Interleave: interleave}.Check()) == 0
	}
	out := map[string]any{"tensormap_object_bytes": bank.TensorMapBytes, "tensormap_alignment": bank.TensorMapAlign}
	var limits map[string]int
	_ = json.Unmarshal(expect["inner_box_bytes_max"], &limits) // then the comparison fails
	most := map[string]int{}
	for mode := range limits {
		if _, err := bank.FindTMAMode(mode); err != nil {
			return nil, err
		}
		for n := 16; n <= 256; n += 16 {
			if try(n, mode, "none") {
				most[mode] = n
			}
		}
	}
	out["inner_box_bytes_max"] = most
	for _, inter := range in.Interlace {
		var can []string
		for _, m := range bank.TMAModes() {
			if try(16, m.Name, inter) || try(16, m.Name, strings.ToLower(inter)) {
				can = append(can, m.Name)
			}
		}
		if len(can) == 1 {
			out[inter+"_interleave_requires"] = "SWIZZLE_" + can[0]
		}
	}
	return out, nil
}

func wgmmaDescriptor(in bankInput, _ map[string]json.RawMessage) (map[string]any, error) {
	arch := in.Arch
	if arch == "" {
		arch = bank.SM90
	}
	d := bank.Descriptor{Start: in.Start, Leading: in.Leading, Stride: in.Stride, BaseOffset: in.BaseOffset, Mode: in.Mode}
	word, err := d.Encode(arch)
	if err != nil {
		return nil, err
	}
	back, err := bank.DecodeDescriptor(word, arch)
	if err != nil {
		return nil, err
	}
	if m, err := bank.FindTMAMode(in.Mode); err != nil || back.Mode != m.Name || back.Start != d.Start || back.Leading != d.Leading || back.Stride != d.Stride || back.BaseOffset != d.BaseOffset {
		return nil, fmt.Errorf("0x%x decodes to %+v", word, back)
	}
	return map[string]any{"start_enc": in.Start >> 4, "lbo_enc": in.Leading >> 4, "sbo_enc": in.Stride >> 4, "u64_hex": fmt.Sprintf("0x%x", word)}, nil
}

func wgmmaCanonical(in bankInput, expect map[string]json.RawMessage) (map[string]any, error) {
	major := strings.ToUpper(strings.TrimSuffix(in.Major, "-major"))
	if major == "" {
		major = "K"
	}
	out := map[string]any{}
	for _, mode := range slices.Sorted(maps.Keys(expect)) {
		if c := (bank.Canonical{Mode: mode, Major: major}); !strings.Contains(c.String(), "no ") {
			out[mode] = c.String()
		}
	}
	return out, nil
}
