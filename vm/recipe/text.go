package recipe

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
)

// String is the recipe as text, which [Parse] reads back:
//
//	recipe u4 f16 deferred
//	place 4[…]                      where the stored codes lie
//	scale -24 -20 -24 -20           deferred: power of two of each output word
//	offset 0 0 0 0                  deferred: what is added to the value
//	const 000f000f 00f000f0         shared values c0, c1, …
//	step lop3(w0,c0,c0,0xc0) …      steps t0, t1, …: operands, then the immediate
//	out t0 t1 t3 t4                 output words
//
// A line "recode" says that codes are stored as offset binary, a line "domain" lists
// finite and no-negative-zero. Words of the input are w0, w1, ….
func (r *Recipe) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "recipe %s %s %s\nplace %s\n", r.From, r.To, r.Mode, r.Place)
	if r.Recode {
		b.WriteString("recode\n")
	}
	var domain []string
	if r.Domain.Finite {
		domain = append(domain, "finite")
	}
	if r.Domain.NoNegZero {
		domain = append(domain, "no-negative-zero")
	}
	line := func(head string, n int, item func(i int) string) {
		for at := 0; at < n; {
			start := b.Len()
			b.WriteString(head)
			for ; at < n && b.Len()-start < 96; at++ {
				b.WriteByte(' ')
				b.WriteString(item(at))
			}
			b.WriteByte('\n')
		}
	}
	line("domain", len(domain), func(i int) string { return domain[i] })
	line("scale", len(r.Scale), func(i int) string { return strconv.Itoa(r.Scale[i]) })
	line("offset", len(r.Offset), func(i int) string { return strconv.Itoa(r.Offset[i]) })
	line("const", len(r.Consts), func(i int) string { return fmt.Sprintf("%08x", r.Consts[i]) })
	line("step", len(r.Steps), func(i int) string { return r.format(r.Steps[i]) })
	line("out", len(r.Out), func(i int) string { return r.name(r.Out[i]) })
	return b.String()
}

// name is how text calls a value.
func (r *Recipe) name(v Ref) string {
	w, c := Ref(r.Place.Words()), Ref(len(r.Consts))
	switch {
	case v < w:
		return fmt.Sprintf("w%d", v)
	case v < w+c:
		return fmt.Sprintf("c%d", v-w)
	}
	return fmt.Sprintf("t%d", v-w-c)
}

func (r *Recipe) format(s Step) string {
	var args []string
	for _, v := range []Ref{s.A, s.B, s.C}[:s.Op.Arity()] {
		args = append(args, r.name(v))
	}
	switch {
	case s.Op == Lop3 || s.Op == Prmt:
		args = append(args, fmt.Sprintf("%#x", s.N))
	case opRows[s.Op].limit > 0:
		args = append(args, fmt.Sprint(s.N))
	}
	return fmt.Sprintf("%s(%s)", s.Op, strings.Join(args, ","))
}

// MaxSteps is the longest recipe that Parse reads.
const MaxSteps = 4096

// Parse reads one recipe. It checks that the recipe has a meaning, not that it
// converts; that is what [Prove] does. The error names the line.
func Parse(text string) (*Recipe, error) {
	r := &Recipe{}
	var outs []string
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		head, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if err := r.parseLine(head, strings.Fields(rest), &outs); err != nil {
			return nil, fmt.Errorf("recipe: line %d: %w", i+1, err)
		}
	}
	for _, o := range outs {
		v, err := r.ref(o)
		if err != nil {
			return nil, fmt.Errorf("recipe: out: %w", err)
		}
		r.Out = append(r.Out, v)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Recipe) parseLine(head string, args []string, outs *[]string) (err error) {
	if (head == "recipe") != (r.From == 0) {
		return fmt.Errorf("a recipe has one line %q, the first", "recipe")
	}
	switch head {
	case "recipe":
		if len(args) != 3 || args[2] != Exact.String() && args[2] != Deferred.String() {
			return fmt.Errorf("write: recipe FROM TO exact|deferred")
		}
		if r.From, err = dtype.Parse(args[0]); err != nil {
			return err
		}
		if r.To, err = dtype.Parse(args[1]); err != nil {
			return err
		}
		if args[2] == Deferred.String() {
			r.Mode = Deferred
		}
	case "place":
		if r.Steps != nil {
			return fmt.Errorf("place stands before the steps")
		}
		r.Place, err = bits.Parse(strings.Join(args, " "))
	case "recode":
		r.Recode = true
	case "domain":
		for _, a := range args {
			switch a {
			case "finite":
				r.Domain.Finite = true
			case "no-negative-zero":
				r.Domain.NoNegZero = true
			default:
				return fmt.Errorf("no domain %q", a)
			}
		}
	case "scale", "offset":
		for _, a := range args {
			n, err := strconv.ParseInt(a, 10, 32)
			if err != nil {
				return err
			}
			if head == "scale" {
				r.Scale = append(r.Scale, int(n))
			} else {
				r.Offset = append(r.Offset, int(n))
			}
		}
	case "const":
		if r.Steps != nil {
			return fmt.Errorf("const stands before the steps")
		}
		for _, a := range args {
			n, err := strconv.ParseUint(a, 16, 32)
			if err != nil {
				return err
			}
			r.Consts = append(r.Consts, uint32(n))
		}
	case "step":
		for _, a := range args {
			s, err := r.parseStep(a)
			if err != nil {
				return err
			}
			if len(r.Steps) == MaxSteps {
				return fmt.Errorf("more than %d steps", MaxSteps)
			}
			r.Steps = append(r.Steps, s)
		}
	case "out":
		*outs = append(*outs, args...)
	default:
		return fmt.Errorf("no line %q", head)
	}
	return err
}

func (r *Recipe) parseStep(text string) (Step, error) {
	name, rest, ok := strings.Cut(text, "(")
	inner, closed := strings.CutSuffix(rest, ")")
	if !ok || !closed {
		return Step{}, fmt.Errorf("%q is no step", text)
	}
	for op := Shr; int(op) < len(opRows); op++ {
		row := opRows[op]
		if row.name != name {
			continue
		}
		s := Step{Op: op}
		args := strings.Split(inner, ",")
		if row.limit > 0 {
			n, err := strconv.ParseUint(args[len(args)-1], 0, 32)
			if err != nil {
				return s, err
			}
			s.N, args = uint32(n), args[:len(args)-1]
		}
		if len(args) != row.arity {
			return s, fmt.Errorf("%s takes %d values, not %d", name, row.arity, len(args))
		}
		for i, to := range []*Ref{&s.A, &s.B, &s.C}[:row.arity] {
			v, err := r.ref(args[i])
			if err != nil {
				return s, err
			}
			*to = v
		}
		return s, nil
	}
	return Step{}, fmt.Errorf("no step %q", name)
}

// ref reads the name of a value that exists by now.
func (r *Recipe) ref(name string) (Ref, error) {
	if name != "" {
		n, err := strconv.ParseUint(name[1:], 10, 16)
		w, c := r.Place.Words(), len(r.Consts)
		base, count := 0, 0
		switch name[0] {
		case 'w':
			count = w
		case 'c':
			base, count = w, c
		case 't':
			base, count = w+c, len(r.Steps)
		}
		if err == nil && int(n) < count {
			return Ref(base + int(n)), nil
		}
	}
	return 0, fmt.Errorf("no value %q here", name)
}
