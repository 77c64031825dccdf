package conform

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/infer"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// inferenceKinds has the one kind whose cases declare the tensors of a program
// where they list what is expected: id, space, element type and shape are read
// there, and the layouts are the answer.
func inferenceKinds() []Kind {
	return []Kind{{"layout_inference", "the layouts of a program without any", inferLayouts}}
}

type inferInput struct {
	Program      string
	Schedule     map[string]json.RawMessage
	Divisibility map[string]int
	NumWarps     int `json:"num_warps"`
	Ops          []struct {
		Op     string
		Inputs []string
		Output string
	}
}

type declared struct {
	ID    string `json:"id"`
	Space string `json:"space"`
	Dtype string `json:"dtype"`
	Shape []int  `json:"shape,omitempty"`
	Rank  *int   `json:"rank,omitempty"`
}

// graphOps says which rule an upstream instruction falls under; "" is one that
// decides no layout. Element-wise functions that are not listed go by their operands.
var graphOps = map[string]string{
	"GlobalView": "", "AllocateGlobal": "", "SliceGlobal": "", "FreeShared": "", "AllocateRegister": "", "FormatPrint": "", "PrintTensor": "",
	"AllocateShared": "AllocateShared", "LoadShared": "LoadShared", "StoreShared": "StoreShared",
	"SliceShared": "SliceShared", "PermuteShared": "PermuteShared", "ReshapeShared": "ReshapeShared",
	"LoadGlobal": "LoadGlobal", "LoadGlobalGeneric": "LoadGlobal", "StoreGlobal": "StoreGlobal", "StoreGlobalGeneric": "StoreGlobal",
	"Dot": "Dot", "Assign": "Assign", "Reduce": "Reduce", "Scan": "Scan", "Where": infer.OpWhere, "View": "View",
	"Transpose": "Transpose", "Reshape": "Reshape", "Squeeze": "Reshape", "Unsqueeze": "Reshape",
	"SliceRegister": "SliceRegister", "SliceAssign": "SliceAssign", "AllocBarrier": "AllocBarrier", "MapSharedAddr": "Uniform",
	"ClusterLaunchControlTryCancel": "Uniform", "ClusterLaunchControlQueryResponse": "Uniform",
	"Tcgen05Alloc": "TMemoryAlloc", "Tcgen05Slice": "TMemorySlice", "Tcgen05Load": "TMemoryLoad", "Tcgen05Store": "TMemoryStore",
	"Tcgen05MmaSS": "TMemoryProduct", "Tcgen05MmaTS": "TMemoryProduct", "Tcgen05Copy": "TMemoryCopy",
	"WgmmaMmaSS": "WgmmaProduct", "WgmmaMmaRS": "WgmmaProduct", "Philox4x32": "Random",
	"AtomicElementWise": "Atomic", "Scatter": "Atomic",
}

func inferLayouts(input, expect json.RawMessage) (string, error) {
	var in inferInput
	if err := json.Unmarshal(input, &in); err != nil {
		return "", fmt.Errorf("input: %w", err)
	}
	var want struct{ Tensors []declared }
	if err := json.Unmarshal(expect, &want); err != nil {
		return "", fmt.Errorf("expect: %w", err)
	}
	g := &infer.Graph{Warps: in.NumWarps, Target: compile.Layouts()}
	tiles := map[string]*infer.Tile{}
	for _, t := range want.Tensors {
		tile, err := declare(t)
		if err != nil {
			return "", err
		}
		tiles[t.ID] = tile
	}
	for _, op := range in.Ops {
		i := &infer.Instr{Op: op.Op}
		for _, id := range op.Inputs {
			if tiles[id] == nil {
				return "", fmt.Errorf("%s takes %s, which is not declared", op.Op, id)
			}
			i.In = append(i.In, tiles[id])
		}
		if op.Output != "" {
			if tiles[op.Output] == nil {
				return "", fmt.Errorf("%s makes %s, which is not declared", op.Op, op.Output)
			}
			i.Out = []*infer.Tile{tiles[op.Output]}
		}
		name, ok := graphOps[op.Op]
		if !ok && len(i.Out) == 1 && i.Out[0].Space == infer.Register && len(i.In) > 0 {
			name = []string{infer.OpUnary, infer.OpBinary, infer.OpWhere}[min(len(i.In), 3)-1]
		}
		i.Op = name
		// The tensors of these programs are row-major, and what they call n is
		// their last dimension: its divisibility bounds what a mask cuts at once.
		i.Vector = 128
		for n, d := range in.Divisibility {
			if n == "n" || n == "n_size" {
				i.Vector = d
			}
		}
		for _, t := range slices.Concat(i.Out, i.In) {
			if t.Space == infer.Register {
				i.Along = len(t.Shape) - 1
				break
			}
		}
		g.Instrs = append(g.Instrs, i)
	}
	if err := annotate(g, in); err != nil {
		return "", err
	}
	if _, err := g.Infer(); err != nil {
		return "", judge(nil, err, expect)
	}
	answer := []any{}
	for _, t := range want.Tensors {
		raw, err := json.Marshal(t)
		if err != nil {
			return "", err
		}
		row := map[string]any{}
		if err := json.Unmarshal(raw, &row); err != nil {
			return "", err
		}
		if l := tileLists(tiles[t.ID]); l != nil {
			row["layout"] = l
		}
		if t.Shape != nil { // [] is left out by omitempty
			row["shape"] = t.Shape
		}
		answer = append(answer, row)
	}
	grouped := ""
	err := compare(map[string]any{"ok": true, "tensors": answer}, expect, func(key string, got, want any) bool {
		return sameTensors(key, got, want, func(id any) {
			if grouped == "" {
				grouped = fmt.Sprintf("%v is held by each thread of a group, which the case does not name; ours by each of the block", id)
			}
		})
	})
	if err == nil {
		return grouped, nil
	}
	// Name the first tensor that differs rather than print the whole list.
	var recorded struct{ Tensors []map[string]any }
	if json.Unmarshal(expect, &recorded) == nil && len(recorded.Tensors) == len(answer) {
		for i, t := range recorded.Tensors {
			row := answer[i].(map[string]any)
			if l, w := row["layout"], t["layout"]; !reflect.DeepEqual(l, w) && !sameTileLayout(l, w) && !narrower(l, w) {
				return "", fmt.Errorf("the layout of %v is %s, want %s", t["id"], short(l), short(w))
			}
		}
	}
	return "", err
}

func declare(t declared) (*infer.Tile, error) {
	space := slices.Index([]string{"register", "shared", "tmem", "global"}, t.Space)
	if space < 0 {
		return nil, fmt.Errorf("tensor %s is in the space %q", t.ID, t.Space)
	}
	elem, ok := dtype.FromTilusName(t.Dtype)
	if !ok {
		return nil, fmt.Errorf("no element type is called %q", t.Dtype)
	}
	size := 1
	if len(t.Shape) > layout.MaxRank {
		return nil, fmt.Errorf("tensor %s has %d dimensions", t.ID, len(t.Shape))
	}
	for _, n := range t.Shape {
		if n < 1 || n > maxMap/size {
			return nil, fmt.Errorf("tensor %s has the shape %v", t.ID, t.Shape)
		}
		size *= n
	}
	return &infer.Tile{Name: t.ID, Space: infer.Space(space), Elem: elem, Shape: append([]int{}, t.Shape...)}, nil
}

// annotate sets the layouts that programs name in their source, which recordings
// leave out. Attention names those of its products, with all warps along the
// rows; the quantised product those of the accumulator, of the weights, and of
// the bytes that the weights are viewed from.
func annotate(g *infer.Graph, in inferInput) error {
	if strings.HasPrefix(in.Program, "attention/") {
		return annotateRows(g)
	}
	var spatial, repeat, tile []int
	for key, into := range map[string]*[]int{"warp_spatial": &spatial, "warp_repeat": &repeat, "weight_tile": &tile} {
		raw, ok := in.Schedule[key]
		if !ok || !strings.HasPrefix(in.Program, "quantization/") {
			return nil
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if len(spatial) < 2 || len(repeat) < 3 || len(tile) != 2 {
		return errors.New("the schedule does not say how warps stand")
	}
	for _, i := range g.Instrs {
		if i.Op != "Dot" || len(i.In) != 3 {
			continue
		}
		products := g.Target.Products(i.In[0].Elem, i.In[2].Elem)
		if len(products) == 0 {
			continue
		}
		p := products[0]
		names := map[string]any{"wm": spatial[0], "wn": spatial[1], "rm": repeat[0], "rn": repeat[1], "rk": repeat[2], "A": p.A, "B": p.B, "C": p.C, "tk": tile[0] / p.K, "tn": tile[1] / p.N}
		c, err := parseWith("spatial(wm, wn).local(rm, rn) * C", names)
		if err != nil {
			return err
		}
		b, err := parseWith("reduce(spatial(1, wn, wm, ranks=[0, 2, 1]), [2]).local(rk, rn) * B", names)
		if err != nil {
			return err
		}
		one, err := parseWith("local(tk, tn) * B", names)
		if err != nil {
			return err
		}
		i.In[2].Register, i.In[2].Known = c, true
		for _, v := range g.Instrs {
			if v.Op != "View" {
				continue
			}
			bytes, err := layout.PackedView(v.Out[0].Elem.Bits(), one)
			if err != nil {
				return err
			}
			outer, err := b.Div(one)
			if err != nil {
				return err
			}
			if outer, err = outer.Unsqueeze(2); err != nil {
				return err
			}
			v.Out[0].Register, v.Out[0].Known = b, true
			v.In[0].Register, v.In[0].Known = outer.Mul(bytes), true
		}
	}
	return nil
}

// annotateRows gives each warp whole rows of the products.
func annotateRows(g *infer.Graph) error {
	for _, i := range g.Instrs {
		if i.Op != "Dot" || len(i.In) != 3 || len(i.Out) != 1 || len(i.Out[0].Shape) != 2 {
			continue
		}
		products := g.Target.Products(i.In[0].Elem, i.In[2].Elem)
		if len(products) == 0 {
			continue
		}
		p, shape := products[0], i.Out[0].Shape
		if g.Warps < 1 || shape[0]%(p.M*g.Warps) != 0 || shape[1]%p.N != 0 {
			continue
		}
		c, err := parseWith("spatial(w, 1).local(rm, rn) * C", map[string]any{"w": g.Warps, "rm": shape[0] / p.M / g.Warps, "rn": shape[1] / p.N, "C": p.C})
		if err != nil {
			return err
		}
		i.Out[0].Register, i.Out[0].Known = c, true
	}
	return nil
}

// tileLists is what cases say about the layout of a tensor; nil for global ones.
func tileLists(t *infer.Tile) any {
	with := func(kind string, lists any) any {
		raw, err := json.Marshal(lists)
		out := map[string]any{}
		if err != nil || json.Unmarshal(raw, &out) != nil {
			return nil
		}
		out["kind"] = kind
		return out
	}
	switch t.Space {
	case infer.Register:
		return with("register", lists(t.Register))
	case infer.Shared:
		return with("shared", listShared(t.Shared))
	case infer.TMemory:
		return with("tmem", map[string]any{"shape": t.TMemory.Shape(), "column_strides": t.TMemory.ColumnStrides(), "lane_offset": t.TMemory.LaneOffset()})
	}
	return nil
}

// sameTensors takes lists of tensors for equal whose layouts are the same maps, or
// the same but for a thread group, which it reports.
func sameTensors(key string, got, want any, group func(id any)) bool {
	g, ok1 := got.([]any)
	w, ok2 := want.([]any)
	if key != "tensors" || !ok1 || !ok2 || len(g) != len(w) {
		return false
	}
	for i := range g {
		a, ok1 := g[i].(map[string]any)
		b, ok2 := w[i].(map[string]any)
		if !ok1 || !ok2 || len(a) != len(b) {
			return false
		}
		for name, value := range b {
			switch {
			case reflect.DeepEqual(a[name], value) || name == "layout" && sameTileLayout(a[name], value):
			case name == "layout" && narrower(a[name], value):
				group(b["id"])
			default:
				return false
			}
		}
	}
	return true
}

// narrower says whether every thread holds the whole tile in both layouts, in the
// same slots, and want has fewer threads: one, or some warps. Instructions that run
// in a thread group leave such layouts, as of barriers and their phases, and cases
// say of no instruction in which group it runs.
func narrower(got, want any) bool {
	g, err := asLayout(got)
	if err != nil {
		return false
	}
	w, err := asLayout(want)
	if err != nil || g.Slots() != g.Size() || w.Slots() != w.Size() || w.Threads() >= g.Threads() || !slices.Equal(g.Shape(), w.Shape()) {
		return false
	}
	if w.Threads() != 1 && w.Threads()%32 != 0 {
		return false
	}
	for slot := range g.Slots() {
		if !slices.Equal(g.Index(0, slot), w.Index(0, slot)) {
			return false
		}
	}
	return true
}

func sameTileLayout(got, want any) bool {
	a, ok1 := got.(map[string]any)
	b, ok2 := want.(map[string]any)
	if !ok1 || !ok2 || a["kind"] != b["kind"] {
		return false
	}
	strip := func(m map[string]any) map[string]any {
		out := map[string]any{}
		for k, v := range m {
			if k != "kind" {
				out[k] = v
			}
		}
		return out
	}
	switch a["kind"] {
	case "register":
		return sameLayout("", a, b)
	case "shared":
		return sameShared("", strip(a), strip(b))
	}
	return false
}
