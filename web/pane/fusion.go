package pane

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/fuse"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/fusion"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// What the fusion pane shows, by value of its parameter.
const (
	fusionKernels   = "kernels"
	fusionFunctions = "functions"
	fusionThreads   = "threads"
	fusionMemory    = "memory"
	fusionMaps      = "maps"
	fusionTensor    = "steps on tensors"
	fusionCode      = "thread code"
	fusionPTX       = "PTX"

	fusionOwn = "the text below"
)

func fusionPane() Pane {
	examples, texts := []string{fusionOwn}, Values{}
	for _, x := range fusion.Texts() {
		examples = append(examples, x.Name)
		texts[x.Name] = x.HLO
	}
	return Pane{
		Name:  "fusion",
		Title: "Fusion",
		Doc:   "Paste a fusion as HLO text: its kernels and why, the functions that its instructions stand in, which thread handles which element, what memory is asked for, and the code.",
		Params: []Param{
			{Name: "f", Title: "Fusion", Kind: Choice, Default: fusionOwn, Choices: examples, Fills: "src", Texts: texts, Doc: "The text, or one for each emitter."},
			{Name: "src", Title: "HLO text", Kind: Program, Default: fusion.Softmax, Doc: "An HLO module as XLA prints it; it is read where the choice above says so."},
			{Name: "v", Title: "Show", Kind: Choice, Default: fusionKernels, Choices: []string{fusionKernels, fusionFunctions, fusionThreads, fusionMemory, fusionMaps, fusionTensor, fusionCode, fusionPTX},
				Doc: "Kernels with their buffers; the functions of one; which thread handles which element; what a warp's worst access touches; indexing maps; the code at each level."},
			{Name: "k", Title: "Kernel", Kind: Slider, Default: "0", Min: 0, Max: 15, Doc: "Of which functions, threads and memory are shown."},
			Param{Name: "t", Title: "Access", Kind: Text, Default: "", Hint: "write out0", Doc: "Whose threads or memory are shown, for example read x; empty for all."}.beside("v", fusionThreads, fusionMemory),
			palette(),
		},
		Render: renderFusion,
	}
}

// maxPictures is how many accesses of a kernel are drawn.
const maxPictures = 4

func renderFusion(v Values) (Result, error) {
	src := v["src"]
	for _, x := range fusion.Texts() {
		if x.Name == v["f"] {
			src = x.HLO
		}
	}
	number, err := strconv.Atoi(v["k"])
	if err != nil {
		return Result{}, err
	}
	f, err := fuse.Read("src", src, "")
	if err != nil {
		var list diag.List
		if errors.As(err, &list) {
			return Result{}, list
		}
		return Result{}, located(err, "src", src)
	}
	number = min(number, len(f.Program.Kernels)-1)
	o := v.look()
	out := Result{Sentence: fmt.Sprintf("%s becomes %s; %s must move, %s do.", f.Program.Flat.Name, plural(len(f.Program.Kernels), "kernel"),
		bytesOf(f.Traffic.Ideal), bytesOf(f.Traffic.Bytes))}
	draw := func(name string) error {
		p, err := fusion.Draw(f, name, o)
		if err == nil {
			out.Pictures = append(out.Pictures, Picture{Name: name, Picture: p})
		}
		return err
	}
	of := ""
	if len(f.Program.Kernels) > 1 {
		of = fmt.Sprintf(", kernel %d", number)
	}
	switch v["v"] {
	case fusionKernels:
		out.Text = f.Plan()
		if err := draw("kernels"); err != nil {
			return Result{}, err
		}
		out.Pictures[0] = out.Pictures[0].going(func(e layoutviz.Element) Values {
			if k, ok := strings.CutPrefix(e.ID, "k"); ok {
				return Values{"v": fusionFunctions, "k": k}
			}
			return nil
		})
	case fusionFunctions:
		out.Text = f.Partition()
		err = draw("functions" + of)
	case fusionThreads, fusionMemory:
		out.Text = f.Cost()
		want := ": " + strings.TrimSpace(v["t"])
		for _, d := range fusion.Drawings(f) {
			if strings.HasPrefix(d.Name, v["v"]+want) && strings.HasSuffix(d.Name, of) && (v["t"] != "" || !strings.Contains(d.Name, "shared") || v["v"] == fusionMemory) && len(out.Pictures) < maxPictures {
				if err := draw(d.Name); err != nil {
					return Result{}, err
				}
			}
		}
		if len(out.Pictures) == 0 {
			return Result{}, diag.List{{Pos: at("t"), Code: "Pane.E11", Msg: fmt.Sprintf("kernel %d has no access %.40q", number, v["t"]), Help: "name one as the table does: read x, write out0, shared read tile1"}}
		}
	case fusionMaps:
		out.Text = f.Maps()
	case fusionTensor:
		out.Text = f.Tensor()
	case fusionCode:
		out.Text = f.Code()
	case fusionPTX:
		out.Text, err = f.PTX()
	}
	for i := range out.Pictures {
		if len(out.Pictures) > 1 { // an id names one element of a result
			for j := range out.Pictures[i].IDs {
				e := &out.Pictures[i].IDs[j]
				if e.ID == "" {
					continue
				}
				e.ID = fmt.Sprintf("v%d.%s", i, e.ID)
			}
		}
	}
	if len(out.Text) > maxText {
		out.Text = out.Text[:maxText] + "\n… and more; tilus-lab fuse shows all\n"
	}
	return out, err
}

// maxText is the most text of a result in bytes.
const maxText = 256 << 10

func plural(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func bytesOf(n int64) string {
	if n < 10<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	if n < 10<<20 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<10)), ".0") + " KiB"
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func indexMapPane() Pane {
	return Pane{
		Name:  "indexmap",
		Title: "Indexing maps",
		Doc:   "Type an indexing map: it becomes simpler step by step, each with the rule and the ranges that decide it, and the result is proved at every point.",
		Params: []Param{
			{Name: "m", Title: "Map", Kind: Text, Default: fusion.StartMap, Doc: "In the notation of XLA: (d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 7], s0 in [0, 3]."},
			palette(),
		},
		Render: func(v Values) (Result, error) {
			m, err := affine.ParseMap(v["m"])
			if err != nil {
				var list diag.List
				if errors.As(err, &list) {
					for i := range list {
						list[i].Pos.File, list[i].End.File = "m", "m"
					}
				}
				return Result{}, err
			}
			p, err := fusion.Steps(m, v.look())
			if err != nil {
				return Result{}, err
			}
			simple, _ := m.Simplify(false)
			return Result{Pictures: []Picture{{Name: "steps", Picture: p}}, Sentence: p.Desc, Text: simple.String() + "\n"}, nil
		},
	}
}
