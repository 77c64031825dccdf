// Package follow follows one element of a program's tensors through a launch: from
// its address in global memory over shared memory and registers to the operand of a
// matrix instruction, into the sum and out to the address where the result is stored.
//
// [Trace] runs the launch on the interpreter and writes down what each instruction
// moved where; the way of an element is found in those notes, backwards to where it
// came from and forwards to where it goes. Where an element goes to many places (an
// operand of a product goes to a whole row of sums) the way takes the first and says
// how many others there are.
package follow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Kind is what holds the element at a station.
type Kind string

// The kinds of stations.
const (
	Global   Kind = "global memory"
	Shared   Kind = "shared memory"
	Register Kind = "register"
	Operand  Kind = "operand" // of a matrix instruction or of multiply-adds
	Sum      Kind = "sum"     // an accumulator that the element was multiplied into
)

// Station is one place on the way of an element.
type Station struct {
	Kind  Kind   `json:"kind"`
	Name  string `json:"name"`  // of the tensor or the parameter
	Index []int  `json:"index"` // of the element in it
	Type  string `json:"type"`  // of the element
	Value string `json:"value,omitempty"`
	By    string `json:"by,omitempty"` // the instruction that brought it here; none at the first
	Line  int    `json:"line"`         // of that instruction, or of the one that reads it first
	Step  int64  `json:"step"`         // statements that have run when it is here
	Here  bool   `json:"here,omitempty"`

	// Of memory: the bit it begins at, counted from the tensor's first, and the sector
	// of 32 bytes (global) or the bank of 4 (shared) that holds it.
	Byte   int `json:"byte,omitempty"`
	Bit    int `json:"bit,omitempty"` // within the byte
	Sector int `json:"sector,omitempty"`
	Bank   int `json:"bank,omitempty"`

	// Of registers: the thread, its slot, and where the slot's low bit lies: a 32-bit
	// register of the tensor and a bit of it. Copies are the threads that hold it.
	Thread int `json:"thread,omitempty"`
	Slot   int `json:"slot,omitempty"`
	Word   int `json:"word,omitempty"`
	Shift  int `json:"shift,omitempty"`
	Copies int `json:"copies,omitempty"`

	// Of operands: which one (a or b) of which instruction, the lane and register of
	// its fragment, and the piece of the product that the instruction computes.
	Operand     string `json:"operand,omitempty"`
	Instruction string `json:"instruction,omitempty"`
	Warp        int    `json:"warp,omitempty"`
	Lane        int    `json:"lane,omitempty"`
	Piece       string `json:"piece,omitempty"`

	Turns  int `json:"turns,omitempty"`  // how often the same place gets a new value of itself afterwards: products that are added
	Others int `json:"others,omitempty"` // places like this one that the element goes to as well
	Parts  int `json:"parts,omitempty"`  // more elements that hold the rest of the bits of the next station

	v  *ir.Var
	at int // element
}

// Var is the tensor of the station, or the parameter.
func (s Station) Var() *ir.Var { return s.v }

// Number counts the element in row-major order of its register tensor, or in its memory.
func (s Station) Number() int { return s.at }

// Way is the way of an element.
type Way struct {
	Program  string    `json:"program"`
	Element  string    `json:"element"`
	Block    [3]int    `json:"block"`
	Stations []Station `json:"stations"`
	Note     string    `json:"note,omitempty"` // why it ends where it does, if not at a store
}

// Start names an element: of a register or shared tensor as it is after a step (0: when
// it is first computed), of a view of global memory, or of a parameter by its number.
type Start struct {
	Name  string
	Index []int
	Step  int64
	Pos   diag.Pos // of the name
}

// String is the notation that [ParseStart] reads.
func (s Start) String() string {
	parts := make([]string, len(s.Index))
	for i, n := range s.Index {
		parts[i] = strconv.Itoa(n)
	}
	text := s.Name + "[" + strings.Join(parts, ", ") + "]"
	if s.Step > 0 {
		text += fmt.Sprintf(" @ %d", s.Step)
	}
	return text
}

// ParseStart reads "ra[3, 5]", or "acc[0, 1] @ 12" for what it is after 12 statements.
func ParseStart(text string, pos diag.Pos) (Start, error) {
	var bad diag.List
	fail := func(at int, format string, args ...any) (Start, error) {
		p := pos
		p.Col += at
		end := p
		end.Col = pos.Col + max(len(text), at+1)
		bad = append(bad, diag.Problem{Pos: p, End: end, Code: "Follow.E1", Msg: fmt.Sprintf(format, args...), Help: "write a tensor and an index, ra[3, 5], or with the step, acc[0, 1] @ 12"})
		return Start{}, bad
	}
	open := strings.IndexByte(text, '[')
	shut := strings.IndexByte(text, ']')
	if open < 0 || shut < open {
		return fail(0, "%.40q names no element", text)
	}
	s := Start{Name: strings.TrimSpace(text[:open]), Pos: pos}
	s.Pos.Col += len(text[:open]) - len(strings.TrimLeft(text[:open], " \t"))
	if s.Name == "" {
		return fail(0, "the tensor has no name")
	}
	at := open + 1
	for _, part := range strings.Split(text[open+1:shut], ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 0 {
			return fail(at, "%.20q is no index", strings.TrimSpace(part))
		}
		s.Index = append(s.Index, n)
		at += len(part) + 1
	}
	rest := strings.TrimSpace(text[shut+1:])
	if rest == "" {
		return s, nil
	}
	step, ok := strings.CutPrefix(rest, "@")
	n, err := strconv.ParseInt(strings.TrimSpace(step), 10, 64)
	if !ok || err != nil || n < 0 {
		return fail(shut+1, "%.20q is no step", rest)
	}
	s.Step = n
	return s, nil
}

// Limits bound what a trace may cost.
type Limits struct {
	Steps int           // statements that are run
	Time  time.Duration // for all of it
}

// maxNodes bounds the search for a way.
const maxNodes = 50_000

// hop is a place on the way and the event that brought the element there; nil for
// what was in memory before.
type hop struct {
	e      *event
	p      place
	others int
	parts  int
	here   bool
}

// Trace follows an element of a launch. A program that goes wrong is followed up to
// there. The error is a diag.List whose positions are those of the start.
func Trace(p *ir.Program, args []ir.Arg, from Start, limits Limits) (*Way, error) {
	end := time.Now().Add(limits.Time)
	r, err := record(p, args, limits.Steps, end)
	if err != nil {
		return nil, err
	}
	first, err := r.find(from)
	if err != nil {
		return nil, err
	}
	way := &Way{Program: p.Name, Element: from.String()}
	back := r.backward(first)
	hops := back
	hops[len(hops)-1].here = true
	if on, note := r.forward(first); len(on) > 1 || first.e == nil || !first.p.stored() {
		hops = append(hops, on[1:]...)
		way.Note = note
	}
	if r.cut != "" && way.Note != "" {
		way.Note += " " + r.cut
	}
	for _, h := range hops {
		if h.e != nil {
			way.Block = h.e.block
			break
		}
	}
	way.Stations = stations(hops)
	return way, r.values(p, args, way, end)
}

// backward is the shortest way to the element from global memory, or from where it
// was made.
func (r *recording) backward(first hop) []hop {
	type node struct {
		h  hop
		to int // the node after it
	}
	type key struct {
		e *event
		p place
	}
	nodes := []node{{first, -1}}
	seen := map[key]bool{{first.e, first.p}: true}
	found := -1
	for i := 0; i < len(nodes) && i < maxNodes && found < 0; i++ {
		h := nodes[i].h
		if h.e == nil {
			if h.p.mem != nil && h.p.mem.param {
				found = i
			}
			continue
		}
		from := h.e.from(h.p)
		for _, p := range from {
			w := r.writer(h.e, p)
			if k := (key{w, p}); !seen[k] {
				seen[k] = true
				if w == nil && (p.mem == nil || !p.mem.param) {
					continue
				}
				h := hop{e: w, p: p}
				if nodes[i].h.e.in.Op.Name == "View" {
					h.parts = len(from) - 1
				}
				nodes = append(nodes, node{h, i})
			}
		}
	}
	if found < 0 {
		// Made here: of a constant, or of a number of the block. The first way back there is.
		found = 0
		for i := range nodes {
			if h := nodes[i].h; h.e != nil && len(h.e.from(h.p)) == 0 {
				found = i
				break
			}
		}
	}
	var way []hop
	for i := found; i >= 0; i = nodes[i].to {
		way = append(way, nodes[i].h)
	}
	return way
}

// forward is the shortest way from the element to global memory; note says why there
// is none.
func (r *recording) forward(first hop) ([]hop, string) {
	type node struct {
		h    hop
		from int
	}
	type key struct {
		e *event
		p place
	}
	nodes := []node{{first, -1}}
	seen := map[key]bool{{first.e, first.p}: true}
	last, note := 0, ""
	for i := 0; i < len(nodes) && i < maxNodes; i++ {
		h := nodes[i].h
		if h.e != nil && h.p.stored() {
			last, note = i, ""
			break
		}
		begin := 0
		if h.e != nil {
			begin = h.e.nth + 1
		}
		block := -1
		if h.e != nil {
			block = h.e.number
		}
		dead := true
		for _, e := range r.events[begin:] {
			if block >= 0 && e.number != block {
				continue
			}
			to := e.to(h.p)
			if len(to) > 0 {
				block, dead = e.number, false
				p := to[0]
				if k := (key{e, p}); !seen[k] {
					seen[k] = true
					nodes = append(nodes, node{hop{e: e, p: p, others: len(to) - 1}, i})
				}
			} else if e.reads(h.p) && !e.known() {
				note = fmt.Sprintf("Line %d, %s, uses it in a way that is not followed.", e.in.Pos.Line, e.in.Op.Name)
			}
			if e.writes(h.p) {
				break
			}
		}
		if !dead {
			last = i
		}
	}
	if h := nodes[last].h; !(h.e != nil && h.p.stored()) {
		last = len(nodes) - 1 // as far as it goes
		if note == "" {
			note = "Nothing that is stored is made of it."
		}
	}
	var way []hop
	for i := last; i >= 0; i = nodes[i].from {
		way = append([]hop{nodes[i].h}, way...)
	}
	return way, note
}

// values runs the launch once more and reads what the element is at each station.
func (r *recording) values(p *ir.Program, args []ir.Arg, way *Way, end time.Time) error {
	m, err := interp.New(p, args)
	if err != nil {
		return err
	}
	at := map[int64][]int{}
	var last int64
	for i, s := range way.Stations {
		at[s.Step] = append(at[s.Step], i)
		last = max(last, s.Step)
	}
	read := func() {
		var vars map[*ir.Var]*array.Array
		for _, i := range at[m.Steps()] {
			s := &way.Stations[i]
			if s.Kind == Global {
				for j, v := range p.Params {
					if a := m.Args()[j].Array; v.Name == s.Name && a != nil && s.at < a.Len() {
						s.Value = number(a, s.at)
					}
				}
				continue
			}
			if s.v == nil || !s.v.Type.IsRegister() {
				continue
			}
			if vars == nil {
				vars = map[*ir.Var]*array.Array{}
				for _, x := range m.Variables() {
					vars[x.Var] = x.Tile
				}
			}
			if a := vars[s.v]; a != nil && s.at < a.Len() {
				s.Value = number(a, s.at)
			}
		}
	}
	for read(); m.Steps() < last && !m.Done() && time.Now().Before(end); read() {
		if m.Step() != nil {
			break
		}
	}
	// What moves keeps its value.
	for i := range way.Stations {
		s := &way.Stations[i]
		if s.Value == "" && i > 0 && (s.Kind == Shared || s.Kind == Operand || s.Kind == Global) && way.Stations[i-1].Type == s.Type {
			s.Value = way.Stations[i-1].Value
		}
	}
	for i := len(way.Stations) - 2; i >= 0; i-- {
		s, next := &way.Stations[i], way.Stations[i+1]
		if s.Value == "" && next.Type == s.Type && slices.Contains(carriers, next.By) {
			s.Value = next.Value
		}
	}
	return nil
}

// carriers are instructions that bring elements elsewhere as they are.
var carriers = []string{"LoadShared", "StoreShared", "StoreGlobal", "CopyAsyncTensorSharedToGlobal", "CopyAsyncBulkSharedToGlobal", "SliceRegister", "ConvertLayout", "Transpose", "Assign", "Reshape"}

func number(a *array.Array, k int) string {
	return strconv.FormatFloat(a.Type.Decode(a.Code(k)), 'g', 6, 64)
}
