package fusion

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/fuse"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Drawing is a picture of a fusion that can be had: "kernels", "functions", "threads: write
// out0", "memory: read x", the latter three with the number of the kernel where there are
// several.
type Drawing struct {
	Name string
	Draw func(o layoutviz.Options) (layoutviz.Picture, error)
}

// Drawings lists the pictures of a fusion.
func Drawings(f *fuse.Fusion) []Drawing {
	list := []Drawing{{"kernels", func(o layoutviz.Options) (layoutviz.Picture, error) { return Kernels(f.Program.Plan, o) }}}
	for i, k := range f.Traffic.Kernels {
		of := ""
		if len(f.Traffic.Kernels) > 1 {
			of = fmt.Sprintf(", kernel %d", i)
		}
		list = append(list, Drawing{"functions" + of, func(o layoutviz.Options) (layoutviz.Picture, error) {
			return Partition(fuse.Parts(f.Program.Plan.Kernels[i]), o)
		}})
		var seen []string
		for _, a := range k.Accesses {
			what := fmt.Sprintf(": %s %s%s", a.Kind, a.Tensor, of)
			if slices.Contains(seen, what) || len(a.Worst) == 0 {
				continue
			}
			seen = append(seen, what)
			list = append(list,
				Drawing{"threads" + what, func(o layoutviz.Options) (layoutviz.Picture, error) { return Threads(k, a.Tensor, a.Kind, o) }},
				Drawing{"memory" + what, func(o layoutviz.Options) (layoutviz.Picture, error) { return Access(a, o) }})
		}
	}
	return list
}

// Draw draws one of [Drawings]. Of a name that begins several, such as "threads", it takes
// that of the first result, else the first.
func Draw(f *fuse.Fusion, name string, o layoutviz.Options) (layoutviz.Picture, error) {
	var names []string
	var found *Drawing
	for _, d := range Drawings(f) {
		names = append(names, d.Name)
		if d.Name == name {
			return d.Draw(o)
		}
		if strings.HasPrefix(d.Name, name) && name != "" && (found == nil || strings.Contains(d.Name, ": write out0") && !strings.Contains(found.Name, ": write out0")) {
			found = &d
		}
	}
	if found != nil {
		return found.Draw(o)
	}
	help := "there are " + strings.Join(names, "; ")
	if s := diag.Suggest(name, names); s != "" {
		help = fmt.Sprintf("did you mean %q? ", s) + help
	}
	return layoutviz.Picture{}, fmt.Errorf("fusion: there is no picture %q; %s", name, help)
}
