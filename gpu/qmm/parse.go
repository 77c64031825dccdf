package qmm

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Parse reads a kind of layer, of n outputs and k inputs: the name of a preset or of
// an element type, then words: "group=128" ("group=channel" is one scale for each
// output, the default 128), "scale=f16", "act=bf16", "zero" for zero points, "zero=any" for those that
// are not whole, "factor", "scalebits=7" for scales of at most so many significant bits ([Linear.ScaleBits]), "far" for scales that may be any ([Linear.Far]),
// "rounded" for products that may round weights ([Linear.Rounded]). Each word is there once; those of a preset may be others.
func Parse(text string, n, k int) (Linear, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return Linear{}, fmt.Errorf("qmm: no kind of layer; %s", kinds())
	}
	l := Linear{Group: 128, N: n, K: k}
	if slices.Contains(Presets(), words[0]) {
		l, _ = Preset(words[0], n, k)
	} else if t, err := dtype.Parse(words[0]); err == nil {
		l.WeightType = t
	} else {
		return l, fmt.Errorf("qmm: no preset or element type %q; %s", words[0], meant(words[0]))
	}
	said := map[string]string{}
	for _, word := range words[1:] {
		name, value, valued := strings.Cut(word, "=")
		if before, twice := said[name]; twice {
			return l, fmt.Errorf("qmm: %q of %q: it says %q before; leave one of them out", word, text, before)
		}
		said[name] = word
		var err error
		positive := func(to *int) {
			n, no := strconv.Atoi(value)
			if *to = n; no != nil || n <= 0 {
				err = fmt.Errorf("it is a positive number; leave it out for what is usual")
			}
		}
		switch name {
		case "group":
			if value == "channel" {
				l.Group = 0
			} else if positive(&l.Group); err != nil {
				err = fmt.Errorf("it is a positive number, or channel for one scale to an output")
			}
		case "scale":
			l.ScaleType, err = dtype.Parse(value)
		case "act":
			l.ActType, err = dtype.Parse(value)
		case "scalebits":
			positive(&l.ScaleBits)
		case "zero":
			if l.ZeroPoint, l.AnyZero = true, value == "any"; valued && value != "any" {
				err = fmt.Errorf("it is zero, or zero=any")
			}
		case "factor":
			if l.Factor = true; valued {
				err = fmt.Errorf("it has no value: factors are found for the weights that there are")
			}
		case "far":
			if l.Far = true; valued {
				err = fmt.Errorf("it has no value: scales may then be any")
			}
		case "rounded":
			if l.Rounded = true; valued {
				err = fmt.Errorf("it has no value: products may then round weights to the type of x")
			}
		default:
			err = fmt.Errorf("the words are group=, scale=, act=, scalebits=, zero, factor, far and rounded")
		}
		if err != nil {
			return l, fmt.Errorf("qmm: %q of %q: %w", word, text, err)
		}
	}
	return l.Check()
}

// kinds says what a kind of layer begins with.
func kinds() string {
	return "there are the presets " + strings.Join(Presets(), ", ") + ", u1 to u8, i2 to i8, and floats of 3 to 8 bits such as f4e2m1; further words stand apart, as in u4 zero group=64"
}

// meant says which presets and types of weights a word that is none may be meant for: what it is in another case, or with the
// prefixes of frameworks (int4, uint4, fp8_e4m3); all that go on where it ends (fp4, mxfp8); one that is nearly the same; or all.
func meant(word string) string {
	known := Presets()
	for _, t := range dtype.All() {
		if _, err := Parse(t.String(), 1, 1); err == nil {
			known = append(known, t.String())
		}
	}
	short := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(word))
	for _, p := range [][2]string{{"uint", "u"}, {"int", "i"}, {"fp", "f"}, {"float", "f"}} {
		if after, ok := strings.CutPrefix(short, p[0]); ok {
			short = p[1] + after
			break
		}
	}
	var near []string
	for _, k := range known {
		if k == short || len(short) > 1 && strings.HasPrefix(k, short) {
			near = append(near, k)
		}
	}
	if integerRE.MatchString(short) && len(near) == 0 {
		return "integers are u1 to u8 and i2 to i8"
	}
	if one := diag.Suggest(word, known); len(near) == 0 && one != "" {
		near = []string{one}
	}
	if len(near) == 0 {
		return kinds()
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

var integerRE = regexp.MustCompile("^[ui][0-9]+$")

// String is the text that [Parse] reads.
func (l Linear) String() string {
	s := l.WeightType.String() + " group=" + strconv.Itoa(l.Group)
	if l.Group == 0 {
		s = l.WeightType.String() + " group=channel"
	}
	if l.ScaleType != 0 {
		s += " scale=" + l.ScaleType.String()
	}
	if l.ActType != 0 {
		s += " act=" + l.ActType.String()
	}
	switch {
	case l.AnyZero:
		s += " zero=any"
	case l.ZeroPoint:
		s += " zero"
	}
	if l.Factor {
		s += " factor"
	}
	if l.Far {
		s += " far"
	}
	if l.Rounded {
		s += " rounded"
	}
	if l.ScaleBits > 0 {
		s += " scalebits=" + strconv.Itoa(l.ScaleBits)
	}
	return s
}
