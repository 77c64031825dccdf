package affine

import (
	"errors"
	"fmt"
	"slices"
)

// compiled evaluates an expression over a list of values, which it does not change.
// Overflow and division by zero set bad.
type compiled func(at []int64, bad *bool) int64

// compile turns an expression into a function of the values of variables, numbered
// as place says.
func (e Expr) compile(place map[string]int) compiled {
	type factor func(at []int64, bad *bool) int64
	type part struct {
		coef    int64
		factors []factor
	}
	s := e.sum()
	var parts []part
	for _, t := range s.terms {
		p := part{coef: t.coef}
		for _, f := range t.factors {
			if f.op == opVar {
				i := place[f.name]
				p.factors = append(p.factors, func(at []int64, _ *bool) int64 { return at[i] })
				continue
			}
			a, b, op := f.a.compile(place), f.b.compile(place), f.op
			p.factors = append(p.factors, func(at []int64, bad *bool) int64 {
				x, y := a(at, bad), b(at, bad)
				switch op {
				case opMin:
					return min(x, y)
				case opMax:
					return max(x, y)
				}
				if y == 0 || y == -1 && x == -x && x != 0 {
					*bad = true
					return 0
				}
				if op == opDiv {
					return floorDiv(x, y)
				}
				return floorMod(x, y)
			})
		}
		parts = append(parts, p)
	}
	return func(at []int64, bad *bool) int64 {
		total := s.c
		for _, p := range parts {
			v := p.coef
			for _, f := range p.factors {
				x, ok := mulOK(v, f(at, bad))
				*bad = *bad || !ok
				v = x
			}
			x, ok := addOK(total, v)
			*bad = *bad || !ok
			total = x
		}
		return total
	}
}

// Points visits the points of the domain as [Map.Each] does, faster, for proofs over
// whole domains. The lists are reused from point to point.
func (m Map) Points(limit int64, visit func(dims, symbols, results []int64) error) error {
	if m.undefined {
		return errors.New("affine: the map is undefined")
	}
	if m.empty {
		return nil
	}
	vars := m.variables()
	points := int64(1)
	for _, v := range vars {
		if v.Range.Empty() {
			return nil
		}
		n, ok := addOK(v.Range.Hi, -v.Range.Lo)
		if ok = ok && n >= 0 && n < limit; ok {
			points, ok = mulOK(points, n+1)
		}
		if !ok || open(v.Range.Lo) || open(v.Range.Hi) || points > limit {
			return fmt.Errorf("affine: the domain has more than %d points", limit)
		}
	}
	e := m.Evaluator()
	at := e.at
	for i, v := range vars {
		at[i] = v.Range.Lo
	}
	results := make([]int64, len(m.Results))
	for {
		in, err := e.inside(results)
		if err != nil {
			return err
		}
		if in {
			if err := visit(at[:len(m.Dims)], at[len(m.Dims):], results); err != nil {
				return err
			}
		}
		i := len(vars) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] <= vars[i].Range.Hi {
				break
			}
			at[i] = vars[i].Range.Lo
		}
		if i < 0 {
			return nil
		}
	}
}

// MaxProof is the most points over which something is proved by looking at each.
const MaxProof = 1 << 25

// Bijective says by enumeration whether the map leads to every position of a tensor of
// those sizes exactly once; the error names a position that it misses, meets twice or
// leaves the tensor at.
func (m Map) Bijective(sizes []int) error {
	n := int64(1)
	for _, s := range sizes {
		n *= int64(s)
	}
	if n > MaxProof {
		return fmt.Errorf("affine: the tensor has more than %d elements", MaxProof)
	}
	if len(m.Results) != len(sizes) {
		return fmt.Errorf("affine: the map has %d results, the tensor %d dimensions", len(m.Results), len(sizes))
	}
	seen := make([]bool, n)
	count := int64(0)
	err := m.Points(MaxProof, func(_, _, results []int64) error {
		at := int64(0)
		for i, r := range results {
			if r < 0 || r >= int64(sizes[i]) {
				return fmt.Errorf("affine: %v lies outside %v", results, sizes)
			}
			at = at*int64(sizes[i]) + r
		}
		if seen[at] {
			return fmt.Errorf("affine: %v is met twice", results)
		}
		seen[at] = true
		count++
		return nil
	})
	if err == nil && count != n {
		at := int64(slices.Index(seen, false))
		position := make([]int64, len(sizes))
		for i := len(sizes) - 1; i >= 0; i-- {
			position[i], at = at%int64(sizes[i]), at/int64(sizes[i])
		}
		return fmt.Errorf("affine: %v is not met", position)
	}
	return err
}

// sameLimit bounds the points that Same holds at once.
const sameLimit = 1 << 20

// Same says by enumeration whether two maps lead from the same values of dimensions to
// the same positions, as sets: range variables may be other ones. The error names a
// dimension point where they differ, or says that the domain is too large.
func Same(a, b Map) error {
	if a.undefined != b.undefined {
		return errors.New("affine: one of the maps is undefined")
	}
	if a.undefined {
		return nil
	}
	if !a.empty && !b.empty && (len(a.Dims) != len(b.Dims) || len(a.Results) != len(b.Results) || len(a.Runtime) != len(b.Runtime)) {
		return errors.New("affine: the maps have other numbers of variables or results")
	}
	collect := func(m Map) (map[string]bool, error) {
		set := map[string]bool{}
		var key []byte
		err := m.Points(sameLimit, func(dims, symbols, results []int64) error {
			key = key[:0]
			for _, list := range [][]int64{dims, symbols[len(m.Ranges):], results} {
				for _, v := range list {
					for k := range 8 {
						key = append(key, byte(v>>(8*k)))
					}
				}
			}
			set[string(key)] = true
			return nil
		})
		return set, err
	}
	x, err := collect(a)
	if err != nil {
		return err
	}
	y, err := collect(b)
	if err != nil {
		return err
	}
	for _, p := range [][2]map[string]bool{{x, y}, {y, x}} {
		for key := range p[0] {
			if !p[1][key] {
				at := make([]int64, len(key)/8)
				for i := range at {
					for k := range 8 {
						at[i] |= int64(key[8*i+k]) << (8 * k)
					}
				}
				return fmt.Errorf("affine: only one map holds %v -> %v", at[:len(at)-len(a.Results)], at[len(at)-len(a.Results):])
			}
		}
	}
	return nil
}

// Proof compares a map with its simplified form point by point.
type Proof struct {
	Map, Simplified Map
	Points          int64 // of the domain
	Err             error // where they differ, or why the domain cannot be enumerated
}

// Prove simplifies a map and evaluates both forms over the whole domain.
func Prove(m Map) Proof {
	p := Proof{Map: m}
	p.Simplified, _ = m.Simplify(false)
	if p.Err = m.Points(MaxPoints, func(_, _, _ []int64) error { p.Points++; return nil }); p.Err != nil {
		return p
	}
	p.Err = Same(m, p.Simplified)
	return p
}
