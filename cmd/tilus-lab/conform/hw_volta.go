package conform

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
)

// voltaKinds are the kinds about how Volta's tensor cores multiply.
func voltaKinds() []Kind {
	ask := func(name, doc string, answer func(in voltaInput, expect map[string]json.RawMessage) (map[string]any, error)) Kind {
		return Kind{name, doc, func(input, expect json.RawMessage) (string, error) {
			var in voltaInput
			if err := json.Unmarshal(input, &in); err != nil {
				return "", fmt.Errorf("input: %w", err)
			}
			var keys map[string]json.RawMessage
			if err := json.Unmarshal(expect, &keys); err != nil {
				return "", fmt.Errorf("expect: %w", err)
			}
			got, err := answer(in, keys)
			if err != nil {
				return "", err
			}
			return "", compare(got, expect, nil)
		}}
	}
	return []Kind{
		ask("volta.lane_map", "threadgroup and octet of each lane", voltaLanes),
		ask("volta.octet", "parts of a product that octets make", voltaParts),
		ask("volta.property", "how many lanes hold each element of wmma's operands", voltaTwins),
		ask("volta.loads", "how a lane loads wmma's operands", voltaLoads),
		ask("volta.step_table", "what each step of a set multiplies", voltaStepTable),
		ask("volta.sass", "registers of the instructions of a product", voltaSASS),
		ask("volta.cycles", "cycles of the instructions, as measured", voltaTimes),
		ask("volta.derived", "speed from the number of units", voltaSpeed),
		ask("volta.gemm", "a product of formulas, run on the model", voltaProduct),
		ask("volta.gemm_trace", "partial sums after an instruction", voltaTrace),
		ask("volta.numeric", "one addition of a tensor core", voltaNumeric),
		ask("volta.numeric_property", "properties of a tensor core's additions", voltaMonotonic),
	}
}

// voltaInput is the union of the inputs of these kinds. A and B are formulas or
// lists of layouts.
type voltaInput struct {
	Lanes, Sets, Steps int
	Shape, Mode        string
	Device, Kernel     string
	A, B               json.RawMessage
	C                  json.RawMessage
	Octet              int
	ElemBytes          int `json:"elem_bytes"`
	LDM                int
	Warps              []int   `json:"warps_per_sm"`
	CoresPerSM         int     `json:"tc_per_sm"`
	SubCores           int     `json:"subcores"`
	Units              int     `json:"fedp_per_tc"`
	Multipliers        int     `json:"mul_per_fedp"`
	Clock              float64 `json:"clock_ghz"`
	SM                 int
	Case, After        string
	Products           json.RawMessage
	Out                string
	C1, C2             string
}

// sums reads "mixed", "fp16".
func (in voltaInput) sums() (volta.Sums, error) {
	switch in.Mode {
	case "mixed":
		return volta.F32, nil
	case "fp16":
		return volta.F16, nil
	}
	return 0, fmt.Errorf("there is no mode %q", in.Mode)
}

func (in voltaInput) whole() error {
	if in.Shape != "m16n16k16" {
		return fmt.Errorf("the model has m16n16k16, not %q", in.Shape)
	}
	return nil
}

func voltaLanes(in voltaInput, _ map[string]json.RawMessage) (map[string]any, error) {
	if in.Lanes != 32 {
		return nil, fmt.Errorf("a warp has 32 lanes, not %d", in.Lanes)
	}
	group, octet := make([]int, 32), make([]int, 32)
	for _, o := range volta.Octets() {
		for i, lane := range o.Lanes {
			group[lane], octet[lane] = o.Threadgroups[i/4], o.Number
		}
	}
	return map[string]any{"threadgroup": group, "octet": octet}, nil
}

func voltaParts(in voltaInput, _ map[string]json.RawMessage) (map[string]any, error) {
	part := func(r, c volta.Range) string {
		return fmt.Sprintf("[%d:%d,%d:%d]", r.First, r.Last, c.First, c.Last)
	}
	got := map[string]any{}
	for _, o := range volta.Octets() {
		got[strconv.Itoa(o.Number)] = map[string]any{"threadgroups": o.Threadgroups, "A": part(o.Rows, o.K), "B": part(o.K, o.Columns)}
	}
	return got, in.whole()
}

// voltaTwins looks at who holds every element.
func voltaTwins(in voltaInput, _ map[string]json.RawMessage) (map[string]any, error) {
	got := map[string]any{}
	look := func(name, operand string, s volta.Setup) (twin int, err error) {
		atom, err := s.Atom()
		if err != nil {
			return 0, err
		}
		o, _ := atom.Operand(operand)
		first := true
		for r := range volta.Size {
			for c := range volta.Size {
				h := o.Layout.Holders(r, c)
				x := 0
				if len(h) == 2 {
					x = h[0].Thread ^ h[1].Thread
				}
				if n, ok := got[name]; ok && n != len(h) || !first && x != twin {
					return 0, fmt.Errorf("elements of %s are not all held alike", name)
				}
				got[name], twin, first = len(h), x, false
			}
		}
		return twin, nil
	}
	for _, operand := range []string{"A", "B"} {
		var twins []int
		for _, m := range []volta.Major{volta.Row, volta.Column} {
			twin, err := look(operand+"_"+m.String(), operand, volta.Setup{A: m, B: m})
			if err != nil {
				return nil, err
			}
			twins = append(twins, twin)
		}
		if twins[0] == twins[1] {
			got[operand+"_twin_lane"] = fmt.Sprintf("lane xor %d", twins[0])
		}
	}
	for _, sums := range []volta.Sums{volta.F32, volta.F16} {
		if _, err := look("C_"+sums.String(), "C", volta.Setup{Sums: sums}); err != nil {
			return nil, err
		}
	}
	return got, in.whole()
}

func voltaLoads(in voltaInput, _ map[string]json.RawMessage) (map[string]any, error) {
	if in.ElemBytes != 2 {
		return nil, fmt.Errorf("elements of A and B have 2 bytes, not %d", in.ElemBytes)
	}
	got := map[string]any{"matrix_bytes": volta.Size * volta.Size * in.ElemBytes}
	var totals []int
	for operand, raw := range map[string]json.RawMessage{"A": in.A, "B": in.B} {
		var list []string
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, fmt.Errorf("input.%s: %w", operand, err)
		}
		for _, text := range list {
			m, err := volta.ParseMajor(text)
			if err != nil {
				return nil, err
			}
			moves, err := volta.Setup{A: m, B: m}.Moves(operand, in.LDM)
			if err != nil {
				return nil, err
			}
			total := 0
			offsets := map[int][]int{}
			for _, mv := range moves {
				total += mv.Bytes
				offsets[mv.Lane] = append(offsets[mv.Lane], mv.Offset)
				if mv.Bytes != moves[0].Bytes || !slices.Equal(offsets[mv.Lane], offsets[0][:len(offsets[mv.Lane])]) {
					return nil, fmt.Errorf("lane %d loads %s by %s unlike lane 0", mv.Lane, operand, m)
				}
			}
			totals = append(totals, total)
			got[operand+"_"+text] = map[string]any{"instr": fmt.Sprintf("%d x %d-bit", len(offsets[0]), 8*moves[0].Bytes), "byte_offsets": offsets[0]}
		}
	}
	if len(totals) == 0 || slices.Min(totals) != slices.Max(totals) {
		return nil, fmt.Errorf("a warp loads %v bytes", totals)
	}
	got["total_bytes_loaded_by_warp_per_operand"] = totals[0]
	return got, nil
}

// voltaStepTable answers either by mode, or with the letters of the paper.
func voltaStepTable(in voltaInput, _ map[string]json.RawMessage) (map[string]any, error) {
	got := map[string]any{}
	if in.Mode == "" {
		for _, s := range volta.HMMA(volta.F32) {
			low, high := s.Letters()
			key := fmt.Sprintf("set%d", s.Set)
			list, _ := got[key].([][2]string)
			got[key] = append(list, [2]string{strings.ReplaceAll(low, " ", ""), strings.ReplaceAll(high, " ", "")})
		}
		if in.Octet < 0 || in.Octet > 3 {
			return nil, fmt.Errorf("there is no octet %d", in.Octet)
		}
		return got, nil
	}
	sums, err := in.sums()
	if err != nil {
		return nil, err
	}
	if in.Sets != volta.Sets || in.Steps != sums.Steps() {
		return nil, fmt.Errorf("%s has %d sets of %d steps", in.Mode, volta.Sets, sums.Steps())
	}
	rows, gives := map[string]any{}, map[string]any{}
	var k []int
	for _, s := range volta.HMMA(sums) {
		key := fmt.Sprintf("step%d", s.Step)
		giver := "TG X"
		if s.BFromHigh {
			giver = "TG X+4"
		}
		low, high := [2][]int{pair(s.Low), pair(s.Columns)}, [2][]int{pair(s.High), pair(s.Columns)}
		rows[key], gives[key] = map[string]any{"TG_low": low, "TG_high": high}, giver
		got[key] = map[string]any{"TG_low": low, "TG_high": high, "B_provider": giver}
		if s.Step == 0 {
			k = append(k, s.K.First)
		}
		got["macs_per_threadgroup_per_step"] = (s.Low.Last - s.Low.First + 1) * (s.Columns.Last - s.Columns.First + 1) * (s.K.Last - s.K.First + 1)
	}
	got["rows_cols_relative_to_octet_tile"], got["B_provider"] = rows, gives
	got["per_set"] = fmt.Sprintf("set s uses k = %ds..%ds+%d", k[1]-k[0], k[1]-k[0], k[1]-k[0]-1)
	return got, nil
}

// voltaSASS reads a kernel as "A row, B col, C f32".
func voltaSASS(in voltaInput, _ map[string]json.RawMessage) (map[string]any, error) {
	var s volta.Setup
	for _, part := range strings.Split(in.Kernel, ",") {
		operand, word, _ := strings.Cut(strings.TrimSpace(part), " ")
		var err error
		switch operand {
		case "A":
			s.A, err = volta.ParseMajor(word)
		case "B":
			s.B, err = volta.ParseMajor(word)
		case "C":
			s.Sums, err = voltaSums(strings.ToUpper(word))
		default:
			err = fmt.Errorf("%q is no operand", part)
		}
		if err != nil {
			return nil, err
		}
	}
	list, err := s.Listing(volta.Measured)
	if err != nil {
		return nil, err
	}
	delta, err := s.MemoryStep()
	if err != nil {
		return nil, err
	}
	var a, b, d []string
	reuse, without := []int{}, 0
	for _, x := range list {
		if x.Step.Step == 0 {
			a, b = append(a, x.A.String()), append(b, x.B.String())
		}
		if x.Set == 1 {
			d = append(d, x.D.String())
			if strings.Contains(x.Text, ".reuse") {
				reuse = append(reuse, x.Step.Step)
			} else {
				without = x.Step.Step
			}
		}
	}
	return map[string]any{"set_A_regs": a, "set_B_regs": b, "step_D_regs": d, "step_C_address_delta_floats": delta,
		"reuse_flag_steps": reuse, "no_reuse_step": without}, nil
}

func voltaTimes(in voltaInput, _ map[string]json.RawMessage) (map[string]any, error) {
	if in.Mode == "" {
		slow := []int{}
		for _, w := range in.Warps {
			if w < 1 {
				return nil, fmt.Errorf("%d warps", w)
			}
			slow = append(slow, volta.Slowdown(w))
		}
		return map[string]any{"relative_latency": slow, "reason": volta.SlowdownReason}, nil
	}
	if in.Device != "Titan V" {
		return nil, fmt.Errorf("cycles on %q are not known", in.Device)
	}
	sums, err := in.sums()
	if err != nil {
		return nil, err
	}
	t := volta.Cycles(sums)
	return map[string]any{"cumulative": t, "total": t[len(t)-1], "hmma_count": len(t), "formula": volta.Formula(sums)}, nil
}

func voltaSpeed(in voltaInput, _ map[string]json.RawMessage) (map[string]any, error) {
	m := volta.Machine{SMs: in.SM, SubCores: in.SubCores, CoresPerSM: in.CoresPerSM, UnitsPerCore: in.Units, Multipliers: in.Multipliers, ClockGHz: in.Clock}
	if m.PerSM() <= 0 || m.SubCores <= 0 {
		return nil, errors.New("a machine without units")
	}
	return map[string]any{
		"tc_total": m.SMs * m.CoresPerSM, "mac_per_tc_cycle": m.PerCore(), "mac_per_sm_cycle": m.PerSM(),
		"wmma_macs": volta.Size * volta.Size * volta.Size, "min_cycles_per_wmma_per_subcore": m.Floor(),
		"peak_tflops": math.Round(m.Teraflops()*100) / 100, "hmma_initiation_interval": m.Interval(), "fedp_pipeline_stages": volta.UnitStages,
	}, nil
}

// formulaMatrix reads "A[i][k]=((3i+5k) mod 7)-3" as a matrix.
func formulaMatrix(raw json.RawMessage) (m volta.Matrix, err error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return m, err
	}
	part := regexp.MustCompile(`^\s*\w+\[(\w+)\]\[(\w+)\]\s*=(.*)$`).FindStringSubmatch(text)
	if part == nil {
		return m, fmt.Errorf("%q is no formula of a matrix", text)
	}
	for i := range volta.Size {
		for j := range volta.Size {
			v, err := integer(part[3], map[string]int{part[1]: i, part[2]: j})
			if err != nil {
				return m, err
			}
			m[i][j] = float64(v)
		}
	}
	return m, nil
}

// integer evaluates a formula with + - * div mod and brackets, where "3i" is a
// product and mod is never negative.
func integer(text string, vars map[string]int) (int, error) {
	words := regexp.MustCompile(`[a-z]+|\d+|[^\sa-z0-9]`).FindAllString(text, -1)
	at := 0
	var bad error
	peek := func() string {
		if at < len(words) {
			return words[at]
		}
		return ""
	}
	var sum func() int
	var factor func() int
	factor = func() int {
		w := peek()
		at++
		v, isVar := vars[w]
		n, err := strconv.Atoi(w)
		switch {
		case w == "-":
			return -factor()
		case w == "(":
			v := sum()
			if peek() != ")" && bad == nil {
				bad = fmt.Errorf("%q lacks a bracket", text)
			}
			at++
			return v
		case isVar:
			return v
		case err == nil:
			return n
		}
		if bad == nil {
			bad = fmt.Errorf("%q: what is %q?", text, w)
		}
		return 0
	}
	term := func() int {
		v := factor()
		for bad == nil {
			_, isVar := vars[peek()]
			switch w := peek(); {
			case w == "*":
				at++
				v *= factor()
			case w == "(" || isVar:
				v *= factor()
			case w == "mod" || w == "div" || w == "/":
				at++
				n := factor()
				if n <= 0 {
					bad = fmt.Errorf("%q divides by %d", text, n)
					return 0
				}
				rest := ((v % n) + n) % n
				if w == "mod" {
					v = rest
				} else {
					v = (v - rest) / n
				}
			default:
				return v
			}
		}
		return v
	}
	sum = func() int {
		v := term()
		for bad == nil && (peek() == "+" || peek() == "-") {
			at++
			if words[at-1] == "+" {
				v += term()
			} else {
				v -= term()
			}
		}
		return v
	}
	v := sum()
	if bad == nil && at != len(words) {
		bad = fmt.Errorf("%q goes on after %q", text, strings.Join(words[:min(at, len(words))], " "))
	}
	return v, bad
}

// total is the sum of a matrix, and of its squares.
func total(m volta.Matrix) (sum, squares int) {
	for _, row := range m {
		for _, v := range row {
			sum, squares = sum+int(v), squares+int(v)*int(v)
		}
	}
	return sum, squares
}

func voltaProduct(in voltaInput, _ map[string]json.RawMessage) (map[string]any, error) {
	var m [3]volta.Matrix
	for i, raw := range []json.RawMessage{in.A, in.B, in.C} {
		var err error
		if m[i], err = formulaMatrix(raw); err != nil {
			return nil, err
		}
	}
	run := func(s volta.Setup) (*volta.Run, error) { return volta.New(s, volta.Measured, m[0], m[1], m[2]) }
	r, err := run(volta.Setup{B: volta.Column, Numerics: volta.Exact})
	if err != nil {
		return nil, err
	}
	got := map[string]any{}
	var raw []byte
	for i, row := range r.D {
		got[fmt.Sprintf("D_row%d", i)] = row
		for _, v := range row {
			raw = binary.LittleEndian.AppendUint32(raw, uint32(int32(v)))
		}
	}
	got["sum"], got["sum_sq"] = total(r.D)
	got["sha256_int32_le_rowmajor"] = fmt.Sprintf("%x", sha256.Sum256(raw))
	var after []int
	for set := 1; set <= volta.Sets; set++ {
		s, _ := total(r.Sums(set * r.Setup.Sums.Steps()))
		after = append(after, s)
	}
	got["after_set_sum"] = after
	exact := []string{}
	for _, x := range []struct {
		name string
		s    volta.Setup
	}{
		{"fp32 rn", volta.Setup{Numerics: volta.RN}},
		{"V100 truncating", volta.Setup{Numerics: volta.AsV100}},
		{"fp16 accumulate", volta.Setup{Sums: volta.F16, Numerics: volta.AsV100}},
	} {
		o, err := run(x.s)
		if err != nil {
			return nil, err
		}
		if o.D == r.D {
			exact = append(exact, x.name)
		}
	}
	got["exact_in"] = exact
	return got, nil
}

// voltaTrace runs the facts' product up to an instruction such as "SET0.STEP0".
func voltaTrace(in voltaInput, expect map[string]json.RawMessage) (map[string]any, error) {
	if in.Case != "volta.gemm.integer" {
		return nil, fmt.Errorf("the matrices of %q are not known", in.Case)
	}
	var set, step int
	if _, err := fmt.Sscanf(in.After, "SET%d.STEP%d", &set, &step); err != nil {
		return nil, fmt.Errorf("%q is no step: %w", in.After, err)
	}
	a, b, c := volta.Integers()
	r, err := volta.New(volta.Setup{B: volta.Column, Numerics: volta.Exact}, volta.Measured, a, b, c)
	if err != nil {
		return nil, err
	}
	n := set*r.Setup.Sums.Steps() + step
	if set < 0 || set > len(r.Instrs) || step < 0 || step >= r.Setup.Sums.Steps() || n >= len(r.Instrs) {
		return nil, fmt.Errorf("there is no %s", in.After)
	}
	rows, cols := map[int]bool{}, map[int]bool{}
	for _, d := range r.Of(n) {
		rows[d.Row], cols[d.Column] = true, true
	}
	sums := r.Sums(n + 1)
	sum, _ := total(sums)
	got := map[string]any{"updated_cells": len(r.Of(n)), "updated_rows": keys(rows), "updated_cols": keys(cols), "sum": sum}
	for key := range expect {
		var r0, r1, c0, c1 int
		if k, _ := fmt.Sscanf(key, "D_rows%d_%d_cols%d_%d", &r0, &r1, &c0, &c1); k == 4 && r0 >= 0 && c0 >= 0 && r0 <= r1 && c0 <= c1 && r1 < volta.Size && c1 < volta.Size {
			var part [][]float64
			for i := r0; i <= r1; i++ {
				part = append(part, sums[i][c0:c1+1])
			}
			got[key] = part
		}
	}
	return got, nil
}

func keys(m map[int]bool) []int {
	var out []int
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// adder is the way of a device to add.
func adder(device string) (volta.Adder, error) {
	switch device {
	case "V100":
		return volta.V100, nil
	case "T4", "A100", "T4/A100":
		return volta.T4, nil
	}
	return volta.Adder{}, fmt.Errorf("how %q adds is not known", device)
}

func voltaNumeric(in voltaInput, _ map[string]json.RawMessage) (map[string]any, error) {
	var c float64
	var products []float64
	if err := json.Unmarshal(in.C, &c); err != nil {
		return nil, fmt.Errorf("input.c: %w", err)
	}
	if err := json.Unmarshal(in.Products, &products); err != nil {
		return nil, fmt.Errorf("input.products: %w", err)
	}
	sums, err := voltaSums(strings.ToUpper(in.Out))
	if err != nil {
		return nil, err
	}
	a, err := adder(in.Device)
	if err != nil {
		return nil, err
	}
	result := a.Add(sums, c, products)
	whole, err := volta.Exact.Explain(volta.F32, c, products)
	if err != nil {
		return nil, err
	}
	return map[string]any{"result": jsonFloat(result), "result_hex_float": hexFloat(result), "exact_sum": jsonFloat(whole.Exact), "rn_f32_of_exact": jsonFloat(whole.Result)}, nil
}

// jsonFloat is a float where it is a number, else its name, as in cases about element types.
func jsonFloat(v float64) any {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+"))
	}
	return v
}

// hexFloat writes a float as C and Python do: 0x1.8000000000000p-3.
func hexFloat(v float64) string {
	switch {
	case v == 0 && math.Signbit(v):
		return "-0x0.0p+0"
	case v == 0:
		return "0x0.0p+0"
	case math.IsNaN(v) || math.IsInf(v, 0):
		return fmt.Sprint(jsonFloat(v))
	}
	text := strconv.FormatFloat(v, 'x', 13, 64)
	mantissa, exp, _ := strings.Cut(text, "p")
	return mantissa + "p" + exp[:1] + strings.TrimLeft(exp[1:], "0") + map[bool]string{true: "0"}[strings.Trim(exp[1:], "0") == ""]
}

// voltaMonotonic adds the same products to two numbers: "four times 2^-24".
func voltaMonotonic(in voltaInput, _ map[string]json.RawMessage) (map[string]any, error) {
	var text string
	if err := json.Unmarshal(in.Products, &text); err != nil {
		return nil, fmt.Errorf("input.products: %w", err)
	}
	times, number, ok := strings.Cut(text, " times ")
	n := slices.Index([]string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight"}, times)
	if i, err := strconv.Atoi(times); err == nil {
		n = i
	}
	if !ok || n < 1 || n > 1<<10 {
		return nil, fmt.Errorf("%q are no products", text)
	}
	p, err := arithmetic(number)
	if err != nil {
		return nil, err
	}
	products := slices.Repeat([]float64{p}, n)
	var c, d [2]float64
	for i, text := range []string{in.C1, in.C2} {
		if c[i], err = arithmetic(text); err != nil {
			return nil, err
		}
		d[i] = volta.V100.Add(volta.F32, c[i], products)
	}
	order := func(a, b float64) string {
		return map[bool]string{true: "<", false: map[bool]string{true: ">", false: "="}[a > b]}[a < b]
	}
	return map[string]any{"d1": d[0], "d2": d[1], "property": fmt.Sprintf("c1%sc2 but d1%sd2", order(c[0], c[1]), order(d[0], d[1]))}, nil
}
