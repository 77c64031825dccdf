package lab

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/fuse"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/fusion"
	"github.com/tilus-lab/tilus-lab/vm/affine"
)

// Fusion is a fusion as kernels of a GPU: what "tilus-lab fuse" shows. As text it is its
// plan; shown, also the pictures of its kernels and of the threads that write its result.
type Fusion struct{ f *fuse.Fusion }

// Fuse reads a fusion as HLO text, or one of [FusionNames], and makes kernels of
// it.
//
//	lab.Show(lab.Fuse("softmax"))
func Fuse(text string) (*Fusion, error) {
	for _, x := range fusion.Texts() {
		if x.Name == text {
			text = x.HLO
		}
	}
	f, err := fuse.Read("fusion", text, "")
	if err != nil {
		return nil, err
	}
	return &Fusion{f}, nil
}

// FusionNames lists fusions to look at, one for each emitter.
func FusionNames() []string {
	var out []string
	for _, x := range fusion.Texts() {
		out = append(out, x.Name)
	}
	return out
}

// FusionText is the HLO text of one of [FusionNames], "" if there is none of that name.
func FusionText(name string) string {
	for _, x := range fusion.Texts() {
		if x.Name == name {
			return x.HLO
		}
	}
	return ""
}

func (f *Fusion) String() string {
	if f == nil {
		return "<nil>" // beside an error
	}
	return f.f.Plan()
}

// Plan tells the kernels, their buffers, and why they are as they are.
func (f *Fusion) Plan() string { return f.f.Plan() }

// Maps tells which elements of the parameters a result is made of, and which elements each
// thread reads and writes.
func (f *Fusion) Maps() string { return f.f.Maps() }

// Partition tells the functions that the instructions of each kernel stand in.
func (f *Fusion) Partition() string { return f.f.Partition() }

// Cost tells what the kernels ask of memory, predicted from their maps.
func (f *Fusion) Cost() string { return f.f.Cost() }

// Tensor is the kernels as steps on tensors, Code as thread code.
func (f *Fusion) Tensor() string { return f.f.Tensor() }

// Code is the kernels as thread code.
func (f *Fusion) Code() string { return f.f.Code() }

// PTX is the kernels as the driver takes them.
func (f *Fusion) PTX() (string, error) { return f.f.PTX() }

// Kernels is how many launches the fusion takes, Ideal the bytes that must move, Bytes those
// that do.
func (f *Fusion) Kernels() int { return len(f.f.Program.Kernels) }

// Ideal are the bytes that must move whatever kernels do: arguments and results, once.
func (f *Fusion) Ideal() int64 { return f.f.Traffic.Ideal }

// Bytes are those that do move if caches keep nothing from one kernel to the next.
func (f *Fusion) Bytes() int64 { return f.f.Traffic.Bytes }

// Drawings are the names that [Fusion.Draw] takes.
func (f *Fusion) Drawings() []string {
	var out []string
	for _, d := range fusion.Drawings(f.f) {
		out = append(out, d.Name)
	}
	return out
}

// Draw draws one of the pictures, such as "functions", "threads: write out0" or "memory:
// read x". A name that begins several is the first of them.
func (f *Fusion) Draw(name string) (layoutviz.Picture, error) {
	return fusion.Draw(f.f, name, layoutviz.Options{})
}

// Run computes the results of arguments drawn from a seed, by the definition and by the
// simulator, and tells whether they agree.
func (f *Fusion) Run(seed int) (string, error) {
	c, err := f.f.Run(Context(), f.f.Arguments(seed))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for line := range strings.Lines(c.String()) {
		if strings.Contains(line, ": ") {
			b.WriteString(line)
		}
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// SimpleRender makes a fusion show as its plan and pictures where a cell ends with it.
func (f *Fusion) SimpleRender() map[string]any { return plain(f) }

// Simplified is an indexing map with the steps in which it became simpler.
type Simplified struct {
	Before, After affine.Map
	Steps         []affine.Step
	Points        int64 // at which both are equal; 0 where that could not be looked at
}

// IndexMap simplifies an indexing map in the notation of XLA, and proves the result at every
// point of the domain. Shown, it is a picture of the steps.
//
//	lab.Show(lab.IndexMap("(t)[s] -> ((t * 4 + s) mod 1024), domain: t in [0, 1023], s in [0, 3]"))
func IndexMap(text string) (*Simplified, error) {
	m, err := affine.ParseMap(text)
	if err != nil {
		return nil, err
	}
	s := &Simplified{Before: m}
	s.After, s.Steps = m.Explain()
	if proof := affine.Prove(m); proof.Err == nil {
		s.Points = proof.Points
	}
	return s, nil
}

func (s *Simplified) String() string {
	if s == nil {
		return "<nil>" // beside an error
	}
	var b strings.Builder
	fmt.Fprintln(&b, s.Before)
	for i, step := range s.Steps {
		fmt.Fprintf(&b, "%3d. %s\n     %s\n", i+1, step.Rule, step.Before)
		if step.After != "" {
			fmt.Fprintf(&b, "  => %s\n", step.After)
		}
	}
	fmt.Fprintf(&b, "%s", s.After)
	if s.Points > 0 {
		fmt.Fprintf(&b, "\nproved at all %d points", s.Points)
	}
	return b.String()
}

// Draw draws the steps.
func (s *Simplified) Draw() (layoutviz.Picture, error) {
	return fusion.Steps(s.Before, layoutviz.Options{})
}

// SimpleRender makes a simplification show as its text.
func (s *Simplified) SimpleRender() map[string]any { return plain(s) }

// showFusion shows the plan, the kernels, and who writes the result.
func showFusion(f *Fusion) {
	showText(strings.TrimSuffix(f.Plan(), "\n"))
	for _, name := range []string{"kernels", "threads"} {
		drawOr(name, func() (layoutviz.Picture, error) { return f.Draw(name) })
	}
}

// drawOr shows a picture, or the text where there is none.
func drawOr(text string, draw func() (layoutviz.Picture, error)) {
	p, err := draw()
	if err != nil {
		showText(text)
		return
	}
	showPicture(text, p)
}
