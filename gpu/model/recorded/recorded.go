// Package recorded has launches whose blocks an NVIDIA GPU was asked about, and what
// it told: traces of where and when each block ran. Package gpu/blocktrace asks an
// attached GPU the same. The launches are scenarios of package gpu/model/dispatch too,
// so that what a GPU did stands beside what the model of another would do.
package recorded

import (
	"bytes"
	"embed"
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/gpu/model/trace"
)

// Launch is one launch, or several at once.
type Launch struct {
	Name    string
	Title   string
	Micros  int // µs of a tick
	Program dispatch.Program
}

// Launches are those that are recorded.
func Launches() []Launch {
	slow := dispatch.Kernel{Name: "uneven", Blocks: 528, Threads: 1024, Times: []int{1, 1, 4, 1}}
	long := dispatch.Kernel{Name: "long", Blocks: 66, Threads: 1024, Ticks: 10}
	victim := dispatch.Kernel{Name: "victim", Blocks: 528, Threads: 1024, Ticks: 1}
	one := func(name, title string, launches ...dispatch.Launch) Launch {
		return Launch{Name: name, Title: title, Micros: 20, Program: dispatch.Program{Title: title, Launches: launches}}
	}
	return []Launch{
		one("uneven", "Every fourth block takes four times as long", dispatch.Launch{Stream: "a", Kernel: slow}),
		one("two-kernels", "A kernel of long blocks, and a second one behind it", dispatch.Launch{Stream: "a", Kernel: long}, dispatch.Launch{Stream: "b", Kernel: victim}),
	}
}

// Find returns the launch of that name.
func Find(name string) (Launch, error) {
	var names []string
	for _, x := range Launches() {
		if x.Name == name {
			return x, nil
		}
		names = append(names, x.Name)
	}
	return Launch{}, fmt.Errorf("recorded: no launch %.40q; there are %v", name, names)
}

//go:embed *.json
var files embed.FS

// Trace is what a GPU told of the launch of that name; the trace says which GPU, and
// when.
func Trace(name string) (*trace.Trace, error) {
	x, err := Find(name)
	if err != nil {
		return nil, err
	}
	raw, err := files.ReadFile(x.Name + ".json")
	if err != nil {
		return nil, fmt.Errorf("recorded: %w", err)
	}
	return trace.Read(bytes.NewReader(raw))
}
