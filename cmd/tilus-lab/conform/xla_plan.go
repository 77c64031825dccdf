package conform

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

func fusionPlanKinds() []Kind {
	return []Kind{
		{"thread_map", "launch numbers and thread maps of an emitter", checkThreadMap},
		{"reduction_split", "how a reduction too large for a block is split", checkReductionSplit},
		{"vectorise_decision", "whether a loop becomes a vector access", checkVectorise},
		fusionKind("emitter_facts", "what the kernel of a fusion does", emitterFacts, sameEmitterFacts),
	}
}

func parseShapes(texts ...string) ([]hlo.Shape, error) {
	var out []hlo.Shape
	for _, t := range texts {
		s, err := hlo.ParseShape(t)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func checkReductionSplit(input, expect json.RawMessage) (string, error) {
	var in struct {
		Operand    string
		Dimensions []int
		WarpSize   int `json:"warp_size"`
	}
	if err := exactJSON("input", input, &in); err != nil {
		return "", err
	}
	s, err := hlo.ParseShape(in.Operand)
	if err != nil {
		return "", err
	}
	if err := distinct(in.Dimensions, len(s.Dims)); err != nil {
		return "", fmt.Errorf("reducing %s: %w", s, err)
	}
	r := plan.SplitReduction(s, in.Dimensions)
	got := map[string]any{"action": r.Action}
	if r.Action != "none" {
		got["inner_dimensions"], got["inner_shape"], got["outer_dimensions"] = r.Inner, r.Between, r.Outer
	}
	if r.Action == "split" {
		got["dimension"], got["padded"], got["reshaped"] = r.Dimension, r.Padded, r.Reshaped
	}
	return "", compare(got, expect, nil)
}

func checkVectorise(input, expect json.RawMessage) (string, error) {
	var in struct {
		Map, Element   string
		TensorElements int `json:"tensor_elements"`
		TripCount      int `json:"trip_count"`
	}
	if err := exactJSON("input", input, &in); err != nil {
		return "", err
	}
	m, err := affine.ParseMap(in.Map)
	if err != nil {
		return "", err
	}
	digits := strings.TrimLeft(in.Element, "abcdefghijklmnopqrstuvwxyz<")
	digits = strings.TrimRight(digits, ">")
	width := 0
	for width < len(digits) && digits[width] >= '0' && digits[width] <= '9' {
		width++
	}
	bits, err := strconv.Atoi(digits[:width])
	if err != nil {
		return "", fmt.Errorf("element %q has no width", in.Element)
	}
	d := plan.Vectorise(m, bits, strings.HasPrefix(in.Element, "c"), in.TensorElements, in.TripCount)
	got := map[string]any{"vectorised": d.Vectorised}
	if d.Vectorised {
		got["base"] = d.Base.MapText()
	}
	return "", compare(got, expect, func(_ string, g, w any) bool {
		want, err := affine.ParseMapExpr(fmt.Sprint(w))
		bounds := map[string]affine.Range{} // theirs takes the base as it stands, whatever the ranges tell
		for _, v := range append(slices.Clone(m.Dims), m.Ranges...) {
			bounds[v.Name] = v.Range
		}
		return err == nil && want.Simplify(bounds).MapText() == fmt.Sprint(g)
	})
}

// distinct says whether dimensions are those of a shape of so many, each once.
func distinct(dims []int, rank int) error {
	for i, d := range dims {
		if d < 0 || d >= rank || slices.Contains(dims[:i], d) {
			return fmt.Errorf("dimension %d is not one of %d, or stands twice", d, rank)
		}
	}
	return nil
}

func checkThreadMap(input, expect json.RawMessage) (string, error) {
	var in struct {
		Emitter, Output, Operand, Update, Indices, Input, Device string
		Permutation, Dimensions                                  []int
		Operands, Slices                                         []string
		Dimension                                                int
		OutputID                                                 int  `json:"output_id"`
		Unique                                                   bool `json:"unique_indices"`
	}
	if err := exactJSON("input", input, &in); err != nil {
		return "", err
	}
	d, err := plan.FindDevice(in.Device)
	if err != nil {
		return "", err
	}
	var k *plan.Kernel
	got := map[string]any{}
	switch in.Emitter {
	case "loop":
		s, err := parseShapes(in.Output)
		if err != nil {
			return "", err
		}
		k = plan.Loop(s[0], true, d)
	case "transpose":
		s, err := parseShapes(in.Operand)
		if err != nil {
			return "", err
		}
		if distinct(in.Permutation, len(s[0].Dims)) != nil || len(in.Permutation) != len(s[0].Dims) {
			return "", fmt.Errorf("%v is no permutation of the %d dimensions of %s", in.Permutation, len(s[0].Dims), s[0])
		}
		k = plan.Transpose(s[0].Type, s[0].Dims, in.Permutation, d)
		got["packed"] = k.Packed != nil
		if k.Reason != "" {
			got["why"] = k.Reason
		}
	case "reduce":
		s, err := parseShapes(in.Operand)
		if err != nil {
			return "", err
		}
		if err := distinct(in.Dimensions, len(s[0].Dims)); err != nil {
			return "", fmt.Errorf("reducing %s: %w", s[0], err)
		}
		k = plan.Reduce(s[0], in.Dimensions, plan.WidthsOf(s[0].Type), d)
	case "concatenate":
		s, err := parseShapes(in.Operands...)
		if err != nil {
			return "", err
		}
		if len(s) == 0 {
			return "", errors.New("no operands to concatenate")
		}
		for _, o := range s {
			if err := distinct([]int{in.Dimension}, len(o.Dims)); err != nil || len(o.Dims) != len(s[0].Dims) {
				return "", fmt.Errorf("%s and %s do not concatenate along dimension %d", s[0], o, in.Dimension)
			}
		}
		k = plan.Concatenate(s, in.Dimension, d)
		var loops []map[string]any
		for i := 0; i+1 < len(k.Maps); i += 2 {
			loops = append(loops, map[string]any{"operand_map": k.Maps[i].Map.String(), "output_map": k.Maps[i+1].Map.String(), "symbols": len(k.Maps[i].Map.Ranges)})
		}
		got["operand_loops"] = loops
	case "dynamic_update_slice":
		s, err := parseShapes(in.Operand, in.Update)
		if err != nil {
			return "", err
		}
		if len(s[0].Dims) != len(s[1].Dims) {
			return "", fmt.Errorf("%s is no update of %s", s[1], s[0])
		}
		var clamps []int
		k, clamps = plan.Update(s[0], s[1], d)
		got["clamps"] = clamps
	case "scatter":
		s, err := parseShapes(in.Operand, in.Update, in.Indices)
		if err != nil {
			return "", err
		}
		if len(s[1].Dims) != len(s[0].Dims)+1 || len(s[2].Dims) != 2 {
			return "", fmt.Errorf("updates of %s have a dimension more and indices two; %s and %s have not", s[0], s[1], s[2])
		}
		k = plan.ScatterLoop(s[0], s[1], s[2], in.Unique, d)
	case "input_slices":
		s, err := parseShapes(in.Input)
		if err != nil {
			return "", err
		}
		var list [][]hlo.SliceDim
		for _, text := range in.Slices {
			m, err := hlo.ParseUnverified("slice", fmt.Sprintf("e { p = %s parameter(0)\n s = %s slice(p), slice={%s} }", s[0], s[0], text))
			if err != nil {
				return "", err
			}
			if len(m.Entry.Root.Slices) != len(s[0].Dims) {
				return "", fmt.Errorf("%s does not slice all %d dimensions of %s", text, len(s[0].Dims), s[0])
			}
			for _, c := range m.Entry.Root.Slices {
				if c.Stride < 1 {
					return "", fmt.Errorf("%s has a stride below 1", text)
				}
			}
			list = append(list, m.Entry.Root.Slices)
		}
		k = plan.InputSlices(s[0], list, d)
		if in.OutputID < 0 || in.OutputID >= len(k.Maps) {
			return "", fmt.Errorf("there is no output %d", in.OutputID)
		}
		got["map"] = k.Maps[in.OutputID].Map.String()
	default:
		return "", fmt.Errorf("there is no emitter %q", in.Emitter)
	}
	kernelAnswer(k, got)
	var want map[string]json.RawMessage
	if err := json.Unmarshal(expect, &want); err != nil {
		return "", err
	}
	var names []string
	if raw, ok := want["bijective"]; ok {
		if err := json.Unmarshal(raw, &names); err != nil {
			return "", err
		}
		delete(want, "bijective")
	}
	rest, err := json.Marshal(want)
	if err != nil {
		return "", err
	}
	if err := compare(got, rest, sameLaunch); err != nil {
		return "", err
	}
	for _, name := range names { // proved last: it visits every element
		m, ok := k.Find(name)
		if !ok {
			return "", fmt.Errorf("expect.bijective names %s, which cannot be checked", name)
		}
		if err := m.Map.Bijective(m.Dims); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	return "", nil
}

// kernelAnswer writes the numbers and maps of a kernel under their recorded names.
func kernelAnswer(k *plan.Kernel, got map[string]any) {
	got["emitter"], got["threads"], got["blocks"], got["syncs"] = k.Emitter, k.Threads, k.Blocks, k.Syncs
	got["shuffle_max_distance"] = k.ShuffleDistance
	put := func(key string, v any) {
		if !reflect.ValueOf(v).IsZero() {
			got[key] = v
		}
	}
	put("vector", k.Vector)
	put("unroll", k.Unroll)
	put("dims", k.Dims)
	put("threads_kept", k.ThreadsKept)
	put("threads_reduced", k.ThreadsReduced)
	put("warps_per_row", k.WarpsPerRow)
	put("shared_rows", k.SharedRows)
	put("indices_per_warp", k.Run)
	put("index_vector", k.IndexVector)
	put("loop", k.Loop)
	put("reason", k.Reason)
	put("shared", k.Shared)
	put("tile_per_thread", k.Tile)
	if k.Emitter == plan.TransposeEmitter {
		got["kind"] = "transpose_tiled"
		got["block_sizes"], got["block_counts"] = k.Tile, k.BlockCounts
		side := 32
		if len(k.Dims) > 0 && k.Permutation[len(k.Permutation)-1] != len(k.Dims)-1 {
			side *= k.Vector
		}
		got["tile"] = side
		if p := k.Packed; p != nil {
			got["kind"] = "transpose_packed"
			got["tile"] = []int{p.T2, p.A, p.T1}
			got["vector_size"], got["side"] = p.Elements, p.Side
			got["populated_rows"], got["populated_columns"] = p.Rows, p.Columns
		}
	}
	for _, m := range k.Maps {
		if m.Name != "operand_map" && m.Name != "output_map" && m.Name != "slice" {
			got[m.Name] = m.Map.String()
		}
	}
}

// sameLaunch compares numbers as they are and maps by their meaning.
func sameLaunch(key string, got, want any) bool {
	switch key {
	case "operand_loops":
		g, ok := got.([]any)
		w, ok2 := want.([]any)
		if !ok || !ok2 || len(g) != len(w) {
			return false
		}
		for i := range w {
			a, _ := g[i].(map[string]any)
			b, _ := w[i].(map[string]any)
			for name, v := range b {
				if fmt.Sprint(a[name]) != fmt.Sprint(v) && !sameMeaning(a[name], v) {
					return false
				}
			}
		}
		return true
	}
	return sameMeaning(got, want)
}

// sameMeaning says whether two texts are maps that hold the same points.
func sameMeaning(got, want any) bool {
	g, ok := got.(string)
	w, ok2 := want.(string)
	if !ok || !ok2 {
		return false
	}
	a, err := affine.ParseMap(g)
	if err != nil {
		return false
	}
	b, err := affine.ParseMap(w)
	if err != nil {
		return false
	}
	if a.String() == b.String() {
		return true
	}
	a, _ = a.RemoveUnusedSymbols().Simplify(false)
	b, _ = b.RemoveUnusedSymbols().Simplify(false)
	return a.String() == b.String() || affine.Same(a, b) == nil
}

// emitterFacts plans the last computation, which holds the fusion, and names what its
// kernel does.
func emitterFacts(in fusionInput, m *hlo.Module) (map[string]any, error) {
	d, err := plan.FindDevice(in.Device)
	if err != nil {
		return nil, err
	}
	c := fusedBody(m)
	p, err := plan.Single(c, d)
	if err != nil {
		return nil, err
	}
	k := p.Kernels[0]
	got := map[string]any{}
	kernelAnswer(k, got)
	got["steps"] = k.Steps
	got["order"], got["present"], got["absent"] = k.Steps, k.Steps, k.Steps // compared by sameEmitterFacts
	got["groups"] = len(k.Groups)
	if len(k.Groups) > 1 {
		got["switch"] = "block_id z"
	}
	got["side_output_in_loop"] = len(k.SideOutputs) > 0 && len(k.Heroes) > 0 && len(k.Groups) == 1
	got["allocate_shared_count"] = k.SharedTiles
	got["shared"] = "none"
	if len(k.Shared) > 0 {
		got["shared"] = strings.Trim(strings.ReplaceAll(fmt.Sprint(k.Shared), " ", "x"), "[]")
	}
	got["shuffle"] = k.ShuffleDistance
	got["packed"] = k.Packed != nil
	got["atomic"] = k.Atomic
	got["index_bits"] = k.IndexBits
	width := "scalar"
	if k.Vector > 1 {
		width = "vector"
	}
	got["reads"], got["writes"] = width, width
	for _, h := range k.Heroes {
		switch {
		case h.Op == hlo.Reduce && h.Apply != nil && h.Apply.Root.Op == hlo.Add && h.Shape.Outputs()[0].Type.IsFloat():
			got["add_flag"] = "nsz"
		case h.Op == hlo.Scatter:
			got["index_limit"] = h.Operands[h.Inputs()].Shape.Dims[0]
			got["update_vector"] = k.Vector
		}
	}
	for _, i := range c.Instructions {
		if i.Op == hlo.Gather {
			limits := []int{}
			for _, axis := range i.Gather.StartMap {
				limits = append(limits, i.Operands[0].Shape.Dims[axis]-i.Sizes[axis])
			}
			got["clamp_limits_in_index_vector_order"] = limits
		}
	}
	loads, never := scalarLoads(c)
	got["loads_scalar_params"], got["never_loads_params"] = loads, never
	var maps []string
	for _, m := range plan.RootMaps(c.Roots()) {
		maps = append(maps, m.String())
	}
	got["root_maps"] = maps
	return got, nil
}

// scalarLoads are the numbers of scalar parameters that the kernel reads, and of
// parameters that it need not read: a start whose only legal value is 0 decides nothing.
func scalarLoads(c *hlo.Computation) (loads, never []int) {
	loads, never = []int{}, []int{}
	reads := map[*hlo.Instruction]bool{}
	for _, r := range c.Roots() {
		for from, set := range index.Group(c, r) {
			for _, x := range set {
				for _, v := range x.Runtime {
					reads[v.Source] = true
				}
			}
			starts := 0
			switch from.Op {
			case hlo.DynamicSlice:
				starts = 1
			case hlo.DynamicUpdateSlice:
				starts = 2
			}
			for i, o := range from.Operands {
				if starts == 0 || i < starts {
					reads[o] = true
					continue
				}
				box := from.Shape.Dims
				whole := from.Operands[0].Shape.Dims
				if from.Op == hlo.DynamicUpdateSlice {
					box = from.Operands[1].Shape.Dims
				}
				if whole[i-starts] > box[i-starts] {
					reads[o] = true
				}
			}
			if len(from.Operands) == 0 && slices.Contains(c.Roots(), from) {
				reads[from] = true
			}
		}
	}
	for _, p := range c.Params {
		switch {
		case !reads[p]:
			never = append(never, p.Number)
		case len(p.Shape.Dims) == 0:
			loads = append(loads, p.Number)
		}
	}
	return loads, never
}

// sameEmitterFacts compares lists of steps: order is a subsequence, present and absent are
// members; other facts are equal.
func sameEmitterFacts(key string, got, want any) bool {
	steps, _ := got.([]any)
	list, _ := want.([]any)
	switch key {
	case "order":
		i := 0
		for _, s := range steps {
			if i < len(list) && s == list[i] {
				i++
			}
		}
		return i == len(list)
	case "present", "absent":
		for _, w := range list {
			if slices.Contains(steps, w) != (key == "present") {
				return false
			}
		}
		return true
	case "root_maps":
		for i := range list {
			if i >= len(steps) || canonicalMap(fmt.Sprint(steps[i])) != canonicalMap(fmt.Sprint(list[i])) {
				return false
			}
		}
		return len(steps) == len(list)
	}
	return false
}
