package follow

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/lower/products"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// stations tells a way station by station.
func stations(hops []hop) []Station {
	var out []Station
	var from []*event // that the stations are of
	for i, h := range hops {
		var s Station
		var before *hop
		if i > 0 {
			before = &hops[i-1]
		}
		if h.e != nil && familyOf(h.e.in) == product && before != nil && before.p != (place{v: operand(h.e.in, 2), at: h.p.at}) {
			out, from = append(out, operandStation(h, before.p)), append(from, h.e)
		}
		// Turns of a loop that add to the same element are one station.
		if n := len(out); n > 0 && h.e != nil && h.p.v != nil && before != nil && before.p == h.p && !out[n-1].Here {
			last := &out[n-1]
			last.Turns++
			if h.here {
				last.Here, last.Step = true, h.e.step
			}
			continue
		}
		switch {
		case h.e != nil && familyOf(h.e.in) == product:
			s = Station{Kind: Sum}
		case h.p.v != nil:
			s = Station{Kind: Register}
		case h.p.stored() || !h.p.mem.v.Type.IsShared():
			s = Station{Kind: Global}
		default:
			s = Station{Kind: Shared}
		}
		s.at, s.Here, s.Others, s.Parts = h.p.at, h.here, h.others, h.parts
		if h.p.v != nil {
			s.v, s.Name, s.Type = h.p.v, h.p.v.Name, h.p.v.Type.Elem.String()
			dims, _ := h.p.v.Type.Dims()
			s.Index = unflat(dims, h.p.at)
		} else {
			s.ofMemory(h, hops, i)
		}
		if h.e != nil {
			s.By, s.Line, s.Step = h.e.in.Op.Name, h.e.in.Pos.Line, h.e.step
		} else if i+1 < len(hops) && hops[i+1].e != nil {
			s.Line, s.Step = hops[i+1].e.in.Pos.Line, hops[i+1].e.step-1
		}
		out, from = append(out, s), append(from, h.e)
	}
	// Of threads that hold copies, those are told that bring the element on.
	want := -1
	for i := len(out) - 1; i >= 0; i-- {
		s := &out[i]
		switch s.Kind {
		case Operand:
			s.fragment(from[i].in, out[i+1], want)
			want = s.Thread
		case Register, Sum:
			held := s.v.Type.Layout.Holders(s.Index...)
			if len(held) == 0 {
				continue
			}
			h := held[0]
			for _, x := range held {
				if x.Thread == want {
					h = x
				}
			}
			bit := s.v.Type.BitOf(h.Slot, 0)
			s.Thread, s.Slot, s.Word, s.Shift, s.Copies = h.Thread, h.Slot, bit/32, bit%32, len(held)
			want = s.Thread
		}
	}
	return out
}

// ofMemory says where an element of memory lies, by the view that is used.
func (s *Station) ofMemory(h hop, hops []hop, i int) {
	s.Name, s.Type = h.p.mem.name, h.p.mem.elem.String()
	var w *view
	use := func(e *event) {
		if e == nil {
			return
		}
		for _, x := range e.views {
			if x != nil && x.mem == h.p.mem {
				w = x
			}
		}
	}
	if i+1 < len(hops) {
		use(hops[i+1].e)
	}
	use(h.e)
	s.v = h.p.mem.v
	bit := h.p.at * h.p.mem.elem.Bits()
	if w != nil {
		s.v, s.Name = w.of, w.of.Name
		bit = w.bitOf(h.p.at)
		if s.Kind == Global {
			s.Name = h.p.mem.name
		}
		for k := range size(w.dims) {
			if index := unflat(w.dims, k); w.offset(index) == h.p.at {
				s.Index = index
				break
			}
		}
	}
	if s.Index == nil {
		s.Index = []int{h.p.at}
	}
	s.Byte, s.Bit = bit/8, bit%8
	if s.Kind == Shared {
		s.Bank = s.Byte / 4 % 32
	} else {
		s.Sector = s.Byte / 32
	}
}

func size(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// operandStation is the element as an operand of the product that makes the next sum.
func operandStation(h hop, p place) Station {
	in := h.e.in
	s := Station{Kind: Operand, By: in.Op.Name, Line: in.Pos.Line, Step: h.e.step - 1, at: p.at, Operand: "a"}
	if _, ok := h.e.factor(0, p); !ok {
		s.Operand = "b"
	}
	i := int(s.Operand[0] - 'a')
	s.Index, _ = h.e.factor(i, p)
	s.v = operand(in, i)
	s.Name, s.Type = s.v.Name, s.v.Type.Elem.String()
	return s
}

// fragment finds the instruction that multiplies the element into a sum, and where the
// element lies in the registers that it takes.
func (s *Station) fragment(in *ir.Instr, sum Station, thread int) {
	a, b, c := operand(in, 0).Type, operand(in, 1).Type, operand(in, 2).Type
	i := int(s.Operand[0] - 'a')
	last := len(sum.Index) - 1
	row, col, k := sum.Index[last-1], sum.Index[last], s.Index[last-i]
	if in.Op.Name == "WgmmaDot" {
		plan, err := ir.PlanWgmma(in)
		if err != nil {
			return
		}
		f := plan.Form
		s.Instruction = fmt.Sprintf("wgmma.m64n%dk%d.%s.%s", f.N, f.K, c.Elem, a.Elem)
		s.Piece = fmt.Sprintf("rows %d–%d × columns %d–%d, k %d–%d", row/64*64, row/64*64+63, col/f.N*f.N, col/f.N*f.N+f.N-1, k/f.K*f.K, k/f.K*f.K+f.K-1)
		s.Thread, s.Warp, s.Lane = thread, thread/ir.LanesPerWarp, thread%ir.LanesPerWarp
		if a.IsRegister() {
			s.Instruction += ".rs"
		} else {
			s.Instruction += ".ss"
		}
		if s.v.Type.IsRegister() {
			for _, h := range s.v.Type.Layout.Holders(s.Index...) {
				if h.Thread/ir.WarpgroupThreads == thread/ir.WarpgroupThreads {
					bit := s.v.Type.BitOf(h.Slot, 0)
					s.Thread, s.Slot, s.Word, s.Shift = h.Thread, h.Slot, bit/32, bit%32
					s.Warp, s.Lane = h.Thread/ir.LanesPerWarp, h.Thread%ir.LanesPerWarp
				}
			}
		}
		return
	}
	plans, _ := ir.DotPlans(in)
	if len(plans) == 0 {
		s.Instruction = "fma"
		s.Piece = fmt.Sprintf("row %d × column %d, k %d", row, col, k)
		s.Thread = thread
		for _, h := range s.v.Type.Layout.Holders(s.Index...) {
			if h.Thread == thread {
				s.Slot = h.Slot
			}
		}
		s.Warp, s.Lane = thread/ir.LanesPerWarp, thread%ir.LanesPerWarp
		return
	}
	f := plans[0].Form
	s.Instruction = "mma." + f.String()
	if form, err := products.Form(f, a.Elem, b.Elem, c.Elem); err == nil {
		s.Instruction = form.Name
	}
	span := f.K * f.Vec
	s.Piece = fmt.Sprintf("rows %d–%d × columns %d–%d, k %d–%d", row/f.M*f.M, row/f.M*f.M+f.M-1, col/8*8, col/8*8+7, k/span*span, k/span*span+span-1)
	part, index := f.A, []int{row % f.M, k % span}
	if i == 1 {
		part, index = f.B, []int{k % span, col % 8}
	}
	h := part.Holders(index...)[0]
	bit := h.Slot * s.v.Type.Elem.Bits()
	s.Warp, s.Lane, s.Slot, s.Word, s.Shift = thread/ir.LanesPerWarp, h.Thread, h.Slot, bit/32, bit%32
	s.Thread = s.Warp*ir.LanesPerWarp + s.Lane
}

// String is the station in a line.
func (s Station) String() string {
	text := fmt.Sprintf("%-13s %s", s.Kind, s.Element())
	if s.Value != "" {
		text += " = " + s.Value
	}
	if s.Parts > 0 {
		text += fmt.Sprintf(" and %d more", s.Parts)
	}
	text += ": " + s.Place()
	if s.By != "" {
		text += fmt.Sprintf(", by %s in line %d", s.By, s.Line)
	}
	return text
}

// Element is such as "ra[3, 5]".
func (s Station) Element() string { return Start{Name: s.Name, Index: s.Index}.String() }

// Place says where the element lies.
func (s Station) Place() string {
	switch s.Kind {
	case Global:
		return fmt.Sprintf("%s, sector %d", s.bytes(), s.Sector)
	case Shared:
		return fmt.Sprintf("%s, bank %d", s.bytes(), s.Bank)
	case Operand:
		if s.Instruction == "fma" {
			return fmt.Sprintf("operand %s of an fma of thread %d, %s", s.Operand, s.Thread, s.Piece)
		}
		if s.v != nil && !s.v.Type.IsRegister() {
			return fmt.Sprintf("operand %s of %s, %s, from shared memory", s.Operand, s.Instruction, s.Piece)
		}
		return fmt.Sprintf("operand %s of %s, %s: warp %d, lane %d, register %d%s", s.Operand, s.Instruction, s.Piece, s.Warp, s.Lane, s.Word, s.half())
	}
	text := fmt.Sprintf("thread %d, slot %d, register %d%s", s.Thread, s.Slot, s.Word, s.half())
	if s.Copies > 1 {
		text += fmt.Sprintf(" (%d threads hold it)", s.Copies)
	}
	return text
}

func (s Station) bytes() string {
	if s.Bit > 0 {
		return fmt.Sprintf("byte %d bit %d", s.Byte, s.Bit)
	}
	return fmt.Sprintf("byte %d", s.Byte)
}

// half says which bits of its register the element has, where they are not all.
func (s Station) half() string {
	if s.v == nil || s.v.Type.Elem.Bits() >= 32 {
		return ""
	}
	return fmt.Sprintf(" bits %d–%d", s.Shift, s.Shift+s.v.Type.Elem.Bits()-1)
}

// String is the way, a station a line.
func (w *Way) String() string {
	text := ""
	for _, s := range w.Stations {
		mark := "  "
		if s.Here {
			mark = "> "
		}
		text += mark + s.String() + "\n"
	}
	if w.Note != "" {
		text += w.Note + "\n"
	}
	return text
}
