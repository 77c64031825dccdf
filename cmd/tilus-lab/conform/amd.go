package conform

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
)

// amdKinds are the queries of AMD's matrix instruction calculator, and the
// measured phases of local data share accesses.
func amdKinds() []Kind {
	ask := func(query, doc string, check func(in amdInput, expect json.RawMessage) (string, error)) Kind {
		return Kind{"query:" + query, doc, func(input, expect json.RawMessage) (string, error) {
			var in amdInput
			if err := json.Unmarshal(input, &in); err != nil {
				return "", fmt.Errorf("input: %w", err)
			}
			return check(in, expect)
		}}
	}
	return []Kind{
		ask("detail", "everything about an AMD matrix instruction", amdDetail),
		ask("get-register", "element of an AMD matrix operand → registers, with modifiers", amdGet),
		ask("matrix-entry", "register of an AMD matrix operand → elements", amdEntry),
		ask("register-layout+matrix-layout", "digests of all places of an AMD matrix operand", amdLayout),
		ask("get-register --output-calculation", "the registers that one element of D is computed from", amdTrace),
		ask("which lanes share an LDS access phase; banks seen", "phases of an AMD local data share access", amdPhases),
	}
}

// amdInput is the union of the inputs of these queries.
type amdInput struct {
	Arch, Instruction, Matrix string
	Wave                      int
	I, J, K, Block            int
	Reg, Lane                 int
	Args, Coord               []string
}

func (in amdInput) find() (arch.AMD, error) { return arch.FindAMD(in.Arch, in.Instruction) }

// element is the queried element; rows and columns as the matrix has them.
func (in amdInput) element() arch.Element {
	switch in.Matrix {
	case "A", "K":
		return arch.Element{Block: in.Block, Row: in.I, Column: in.K}
	case "B":
		return arch.Element{Block: in.Block, Row: in.K, Column: in.J}
	}
	return arch.Element{Block: in.Block, Row: in.I, Column: in.J}
}

// flags reads pairs of a flag and its number into the places given for them.
func flags(args []string, into map[string]*int) error {
	for i := 0; i < len(args); i += 2 {
		p := into[args[i]]
		if p == nil || i+1 == len(args) {
			return fmt.Errorf("arguments %q cannot be read", args)
		}
		n, err := strconv.Atoi(args[i+1])
		if err != nil {
			return err
		}
		*p = n
	}
	return nil
}

func amdGet(in amdInput, expect json.RawMessage) (string, error) {
	var m arch.Modifiers
	if err := errors.Join(
		flags(in.Args, map[string]*int{"--cbsz": &m.CBSZ, "--abid": &m.ABID, "--blgp": &m.BLGP, "--opsel": &m.OpSel, "--neg": &m.Neg, "--neg_hi": &m.NegHi}),
		flags(in.Coord, map[string]*int{"-I": &in.I, "-J": &in.J, "-K": &in.K, "-b": &in.Block}),
	); err != nil {
		return "", err
	}
	inst, err := in.find()
	if err != nil {
		return "", err
	}
	places, err := inst.Places(in.Matrix, in.Wave, m, in.element())
	locations, text := []any{}, []string{}
	for _, p := range places {
		line := p.String()
		if in.Args != nil || in.Coord != nil { // recorded with the element's name in front
			line = inst.ElementName(in.Matrix, in.element()) + " = " + line
		}
		text = append(text, line)
		var bits any
		if !p.Whole() {
			bits = []int{p.Low, p.High}
		}
		locations = append(locations, map[string]any{"reg": p.Reg, "nregs": p.Regs, "lane": p.Lane, "bits": bits})
	}
	answer := map[string]any{"text": text, "locations": locations, "error": nil}
	if err != nil {
		// The words of an error are not compared.
		answer["error"] = err.Error()
	}
	return "", compare(answer, expect, func(key string, got, want any) bool {
		return key == "error" && got != nil && want != nil
	})
}

func amdEntry(in amdInput, expect json.RawMessage) (string, error) {
	inst, err := in.find()
	if err != nil {
		return "", err
	}
	held, err := inst.Holds(in.Matrix, in.Wave, in.Reg, in.Lane)
	if err != nil {
		return "", err
	}
	lines := []string{}
	for _, h := range held {
		lines = append(lines, h.Place.String()+" = "+inst.ElementName(in.Matrix, h.Element))
	}
	err = compare(map[string]any{"text": lines}, expect, nil)
	// Of the sparsity indices of RDNA4 the calculator lists two elements for each
	// that a register of A holds, whether the index register has more or not.
	some := 2 * 32 / inst.A.Type.Bits()
	if err != nil && in.Matrix == "K" && !inst.CDNA() && len(lines) > some {
		if compare(map[string]any{"text": lines[:some]}, expect, nil) == nil {
			return fmt.Sprintf("the recording stops after %d of %d elements", some, len(lines)), nil
		}
	}
	return "", err
}

func amdTrace(in amdInput, expect json.RawMessage) (string, error) {
	inst, err := in.find()
	if err != nil {
		return "", err
	}
	if in.Matrix != "D" {
		return "", fmt.Errorf("only elements of D are computed, not of %s", in.Matrix)
	}
	text, err := inst.Trace(in.Wave, in.element())
	if err != nil {
		return "", err
	}
	return "", compare(map[string]any{"text": []string{text}}, expect, nil)
}

// amdLayout prints an operand in three ways and compares digests: our own listing
// block by block and row by row, and the two tables of the calculator.
func amdLayout(in amdInput, expect json.RawMessage) (string, error) {
	inst, err := in.find()
	if err != nil {
		return "", err
	}
	rows, columns := inst.Dims(in.Matrix)
	var listing, registers []string
	for b := range inst.Blocks {
		if inst.CDNA() {
			registers = append(registers, fmt.Sprintf("Block %d", b))
		}
		registers = append(registers, csvHeader(in.Matrix+amdAxes[in.Matrix], columns))
		for r := range rows {
			line := strconv.Itoa(r)
			for c := range columns {
				places, err := inst.Places(in.Matrix, in.Wave, arch.Modifiers{}, arch.Element{Block: b, Row: r, Column: c})
				if err != nil {
					return "", err
				}
				var texts []string
				for _, p := range places {
					texts = append(texts, p.String())
				}
				listing = append(listing, fmt.Sprintf("%d,%d,%d,%s", b, r, c, strings.Join(texts, ";")))
				line += "," + strings.Join(texts, " ")
			}
			registers = append(registers, line)
		}
	}
	matrix, err := amdMatrixTable(inst, in)
	if err != nil {
		return "", err
	}
	digest := func(lines []string) string {
		sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
		return hex.EncodeToString(sum[:])
	}
	return "", compare(map[string]any{
		"canonical_sha256": digest(listing), "canonical_lines": len(listing),
		"canonical_first": listing[:min(2, len(listing))], "canonical_last": listing[len(listing)-1:],
		"register_layout_sha256": digest(registers), "register_layout_lines": len(registers),
		"matrix_layout_sha256": digest(matrix), "matrix_layout_lines": len(matrix),
	}, expect, nil)
}

var amdAxes = map[string]string{"A": "[M][K]", "B": "[K][N]", "C": "[M][N]", "D": "[M][N]", "K": "[M][K]"}

func csvHeader(first string, n int) string {
	for i := range n {
		first += "," + strconv.Itoa(i)
	}
	return first
}

// amdMatrixTable lists what each lane holds, a column for each part of a register.
func amdMatrixTable(inst arch.AMD, in amdInput) ([]string, error) {
	header, lines := []string{"lane"}, []string{}
	for lane := range in.Wave {
		cells := []string{strconv.Itoa(lane)}
		for reg := 0; reg < inst.Registers(in.Matrix, in.Wave); reg++ {
			held, err := inst.Holds(in.Matrix, in.Wave, reg, lane)
			if err != nil {
				break // a lane that the hardware ignores
			}
			var last string
			for _, h := range held {
				name := inst.ElementName(in.Matrix, h.Element)
				part := h.Place.Register()
				switch {
				case h.Place.Reg != reg: // the upper half of a pair
				case part == last:
					cells[len(cells)-1] += " " + name
				default:
					cells = append(cells, name)
					if lane == 0 {
						header = append(header, part)
					}
				}
				last = part
			}
		}
		if len(cells) > 1 {
			lines = append(lines, strings.Join(cells, ","))
		}
	}
	return slices.Insert(lines, 0, strings.Join(header, ",")), nil
}

// amdSlips is what the calculator says otherwise than its own layouts and the
// instruction set documents do, beside what we say.
var amdSlips = []struct{ ours, recorded, why string }{
	{"0x55", "0x54", "opcode of the neighbouring instruction"},
	{"0x15", "0x14", "opcode of the neighbouring instruction"},
	{"0x56", "0x54", "opcode of an earlier generation"},
	{"0x16", "0x14", "opcode of an earlier generation"},
	{"0x57", "0x54", "opcode of an earlier generation"},
	{"0x17", "0x14", "opcode of an earlier generation"},
	{"Lanes 32 to 63 are ignored for A matrix", "All lanes > 32 are ignored for A matrix", "lane 32 is ignored too"},
	{"Lanes 32 to 63 are ignored for B matrix", "All lanes > 32 are ignored for B matrix", "lane 32 is ignored too"},
	{"Lanes 32 to 63 are ignored for compression indices", "All lanes > 32 are ignored for compression indices", "lane 32 is ignored too"},
	{"(floor(k / 2) % 4).[16*(k % 2)+15 : 16*(k % 2)]", "(k % 4).[16*(k % 2)+15 : 16*(k % 2)]", "two k share a register"},
	{"8 * floor(lane / 16) + (4 * GPR_num) + 3\nthrough\n8 * floor(lane / 16) + (4 * GPR_num)", "(4 * GPR_num + 3) through 4 * GPR_num", "the part of the lane is missing"},
	{"8 * floor(lane / 32) + (4 * GPR_num) + 3\nthrough\n8 * floor(lane / 32) + (4 * GPR_num)", "(4 * GPR_num + 3) through 4 * GPR_num", "the part of the lane is missing"},
	{"4 * floor(GPR_num / 2) + floor(lane / 16)", "4 * floor(GPR_num / 2)", "the part of the lane is missing"},
	{"16 * floor(k / 16) + i", "(16 * floor(k / 16) + i", "parenthesis"},
	{"16 * floor(lane / 16) + 4 * (floor(GPR_bits / 4) % 4)", "16 * floor(lane / 16) + 4 * floor(GPR_bits / 4) % 4)", "parenthesis"},
}

// amdDetail compares all that is said about an instruction, section by section. A
// section is right as we say it, or with slips that are known.
func amdDetail(in amdInput, expect json.RawMessage) (string, error) {
	inst, err := in.find()
	if err != nil {
		return "", err
	}
	var want map[string]any
	if err := json.Unmarshal(expect, &want); err != nil {
		return "", fmt.Errorf("expect: %w", err)
	}
	known := map[string]bool{}
	var notes []string
	for _, s := range inst.Detail() {
		said := func(facts []arch.Fact) (map[string]any, any) {
			told := parseDetail(printDetail(facts))
			if s.Title != "" {
				return told, want[s.Title]
			}
			top := map[string]any{}
			for k := range told {
				known[k], top[k] = true, want[k]
			}
			return told, top
		}
		known[s.Title] = true
		got, recorded := said(s.Facts)
		if reflect.DeepEqual(any(got), recorded) {
			continue
		}
		slips := amdSlipsOf(inst, s.Facts)
		var why []string
		for set := 1; set < 1<<len(slips) && why == nil; set++ {
			slipped := slices.Clone(s.Facts)
			var some []string
			for i, slip := range slips {
				if set>>i&1 == 1 {
					slipped[slip.at] = slip.fact
					some = append(some, slip.why)
				}
			}
			if told, _ := said(slipped); reflect.DeepEqual(any(told), recorded) {
				why = some
			}
		}
		if why == nil {
			return "", fmt.Errorf("%s: %s", cmp.Or(s.Title, "head"), difference(got, recorded))
		}
		notes = append(notes, why...)
	}
	for key := range want {
		if !known[key] {
			return "", fmt.Errorf("expect.%s cannot be checked", key)
		}
	}
	if notes == nil {
		return "", nil
	}
	return "the recording slips: " + strings.Join(slices.Compact(notes), "; "), nil
}

// amdSlip is a known slip in place of one of our facts.
type amdSlip struct {
	at   int
	fact arch.Fact
	why  string
}

// amdSlipsOf lists the slips that the recording may have in a section. Opcodes are
// mistaken in 8-bit integer products only.
func amdSlipsOf(in arch.AMD, facts []arch.Fact) []amdSlip {
	var out []amdSlip
	for at, f := range facts {
		for _, slip := range amdSlips {
			switch {
			case strings.HasPrefix(slip.ours, "0x") && !strings.HasPrefix(in.Name, "v_mfma_i32_"):
			case f.Value == slip.ours:
				out = append(out, amdSlip{at, arch.Fact{Name: f.Name, Value: slip.recorded}, f.Name + ": " + slip.why})
			case f.Name == slip.ours:
				out = append(out, amdSlip{at, arch.Fact{Name: slip.recorded}, slip.why})
			case strings.Contains(f.Value, "\n") && strings.Contains(f.Value, slip.ours):
				out = append(out, amdSlip{at, arch.Fact{Name: f.Name, Value: strings.ReplaceAll(f.Value, slip.ours, slip.recorded)}, f.Name + ": " + slip.why})
			}
		}
	}
	return out
}

// difference names the first key in which a recorded section differs from ours.
func difference(got map[string]any, recorded any) string {
	want, ok := recorded.(map[string]any)
	if !ok {
		return "it is not recorded so: " + short(recorded)
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[k]
		if !ok {
			return fmt.Sprintf("we do not say %q", k)
		}
		if !reflect.DeepEqual(g, want[k]) {
			return fmt.Sprintf("%s is %s, want %s", k, short(g), short(want[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			return fmt.Sprintf("%q is not recorded", k)
		}
	}
	return "nothing"
}

// printDetail prints facts as the calculator does: long formulas wrapped at 100
// columns, each line on its own.
func printDetail(facts []arch.Fact) []string {
	var lines []string
	for _, f := range facts {
		if f.Value == "" {
			lines = append(lines, f.Name)
			continue
		}
		indent := 8 + len(f.Name) + 2
		wrapped := strings.HasPrefix(f.Name, "compression") || strings.Contains(f.Value, "\n")
		for i, part := range strings.Split(f.Value, "\n") {
			line := ""
			if i == 0 {
				line = f.Name + ":"
			}
			column := indent - 1
			for _, word := range strings.Fields(part) {
				if wrapped && column+1+len(word) > 100 {
					lines = append(lines, line)
					line, column = "", indent-1
				}
				if line != "" {
					line += " "
				}
				line, column = line+word, column+1+len(word)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// parseDetail reads lines as the recording did: a name before the first colon and
// its value, a whole number as such; a line without a value names an empty object.
func parseDetail(lines []string) map[string]any {
	out := map[string]any{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if value == "" {
			out[name] = map[string]any{}
		} else if n, err := strconv.Atoi(value); err == nil {
			out[name] = float64(n)
		} else {
			out[name] = value
		}
	}
	return out
}

// amdPhases compares the phases of an access of the local data share; the order
// in which phases follow each other is not compared.
func amdPhases(in amdInput, expect json.RawMessage) (string, error) {
	chip, _, _ := strings.Cut(in.Arch, " ")
	p, err := bank.FindProfile(chip)
	if err != nil {
		return "", err
	}
	kind, bits := bank.Load, ""
	if rest, ok := strings.CutPrefix(in.Instruction, "ds_read_b"); ok {
		bits = rest
	} else if rest, ok := strings.CutPrefix(in.Instruction, "ds_write_b"); ok {
		kind, bits = bank.Store, rest
	}
	n, err := strconv.Atoi(bits)
	if err != nil {
		return "", fmt.Errorf("%s is no access of the local data share", in.Instruction)
	}
	rule, err := p.Rule(kind, n/8)
	if err != nil {
		return "", err
	}
	answer := map[string]any{"phases": byFirst(rule.Phases), "banks": cmp.Or(rule.Banks, p.Banks), "bank_bytes": p.BankBytes}
	return "", compare(answer, expect, func(key string, got, want any) bool {
		if key != "phases" {
			return false
		}
		var phases [][]int
		raw, err := json.Marshal(want)
		if err != nil || json.Unmarshal(raw, &phases) != nil {
			return false
		}
		return slices.EqualFunc(byFirst(rule.Phases), byFirst(phases), slices.Equal[[]int])
	})
}

// byFirst sorts phases by their first lane, and lanes in each.
func byFirst(phases [][]int) [][]int {
	var out [][]int
	for _, p := range phases {
		out = append(out, slices.Sorted(slices.Values(p)))
	}
	slices.SortFunc(out, slices.Compare[[]int])
	return out
}
