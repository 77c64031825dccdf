// Package differential runs the corpus on every machine and compares.
//
// A corpus file may have sections in, in2, …, one launch each:
//
//	bind W=u4 BK=32                    compile-time parameters, optional
//	needs sm_89                        the first target that can run it, optional
//	near                               products of numbers whose sums round, or functions
//	                                   that are approximated: a GPU's results are near
//	a = randint:f16[32, 64]:seed=1     arrays by generator
//	M = 32                             numbers
//
// and sections out, out2, … with what each array is afterwards, written by
// `go test ./tests/differential -update` from the interpreter.
package differential

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/tests/record"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Launch is one program with arguments.
type Launch struct {
	Name    string // corpus file, with the section's number if there are several
	File    string
	Section string // "in", "in2", …
	Program *ir.Program
	Args    []ir.Arg
	Needs   string // first target, "" for sm_80
	Near    bool   // a GPU may round otherwise
}

// Runs reports whether a target has what the launch needs.
func (l Launch) Runs(target string) bool {
	needs, err := arch.Lookup(l.Needs)
	has, err2 := arch.Lookup(target)
	switch {
	case l.Needs == "" || l.Needs == target:
		return true
	case err != nil || err2 != nil || strings.HasSuffix(l.Needs, "a"): // what only that target has
		return false
	}
	return needs.Capability() <= has.Capability()
}

// Target is a target that has what the launch needs: this one, if it does.
func (l Launch) Target(first string) string {
	if l.Runs(first) {
		return first
	}
	return l.Needs
}

// Hash names what a run of the launch proves something about: its program and its
// arguments.
func (l Launch) Hash() string {
	h := sha256.New()
	io.WriteString(h, text.Format(l.Program))
	for _, a := range l.Args {
		if a.Array != nil {
			fmt.Fprintf(h, "%s %x\n", a.Array.Header(), sha256.Sum256(a.Array.Data))
		} else {
			fmt.Fprintf(h, "%d %v\n", a.Int, a.Float)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:12])
}

// Launches lists every launch of the corpus.
func Launches() ([]Launch, error) {
	var out []Launch
	for _, file := range corpus.Names() {
		for i := 1; ; i++ {
			section := "in"
			if i > 1 {
				section += strconv.Itoa(i)
			}
			src := corpus.Section(file, section)
			if src == "" {
				break
			}
			l, err := parse(file, section, src)
			if err != nil {
				return nil, fmt.Errorf("%s, section %s: %w", file, section, err)
			}
			out = append(out, l)
		}
	}
	return out, nil
}

// Bugs lists the programs of the corpus that go wrong.
func Bugs() ([]Launch, error) {
	var out []Launch
	for _, file := range corpus.Bugs() {
		l, err := parse(file, "in", corpus.Section(file, "in"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, l)
	}
	return out, nil
}

func parse(file, section, src string) (Launch, error) {
	l := Launch{Name: file + strings.TrimPrefix(section, "in"), File: file, Section: section}
	bind := map[string]string{}
	values := map[string]string{}
	for line := range strings.Lines(src) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "bind "); ok {
			for _, pair := range strings.Fields(rest) {
				name, value, _ := strings.Cut(pair, "=")
				bind[name] = value
			}
		} else if target, ok := strings.CutPrefix(line, "needs "); ok {
			l.Needs = target
		} else if line == "near" {
			l.Near = true
		} else if name, value, ok := strings.Cut(line, " = "); ok {
			values[name] = value
		} else if line != "" {
			return l, fmt.Errorf("%q is neither bind, needs, near nor name = value", line)
		}
	}
	p, err := text.Parse(file+".tile", corpus.Program(file), bind)
	if err != nil {
		return l, err
	}
	l.Program = p
	for _, v := range p.Params {
		spec, ok := values[v.Name]
		if !ok {
			return l, fmt.Errorf("no value for %s", v.Name)
		}
		arg := ir.Arg{}
		switch {
		case v.Type.Kind == ir.Pointer:
			arg.Array, err = array.Generate(spec)
		case v.Type.Elem.IsFloat():
			arg.Float, err = strconv.ParseFloat(spec, 64)
		default:
			arg.Int, err = strconv.ParseInt(spec, 10, 64)
		}
		if err != nil {
			return l, err
		}
		l.Args = append(l.Args, arg)
	}
	return l, nil
}

// Summary says what the arrays of a launch are: type and shape, the digest of
// the packed bytes, and the first values.
func Summary(p *ir.Program, args []ir.Arg) string {
	var b strings.Builder
	for i, a := range args {
		if a.Array == nil {
			continue
		}
		fmt.Fprintf(&b, "%s %s %x", p.Params[i].Name, a.Array.Header(), sha256.Sum256(a.Array.Data))
		for k := range min(6, a.Array.Len()) {
			fmt.Fprintf(&b, " %s", a.Array.Type.Format(a.Array.Code(k)))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Row is one line of tests/record/programs.json: one launch.
type Row struct {
	record.Row
	// Also says how the same launch went in other ways: as code for older
	// targets, and as CUDA C++ through NVRTC. "equal", or what went wrong.
	Also map[string]string `json:"also"`
	// Near counts the elements that differ where a GPU may round otherwise, by no more
	// than that.
	Near   int     `json:"near,omitempty"`
	JITms  float64 `json:"jit_ms"`
	ExecUs float64 `json:"exec_us"`
}
