package theatre

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/follow"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Sizes of the strip.
const (
	wayWide   = 210
	wayHigh   = 172
	wayGap    = 26
	wayInARow = 5
)

// Way is the way of one element through a program as a strip: a cell for each place
// where it lies, from global memory to global memory. The bar of a cell is the sector,
// the banks, the register or the lanes, with the part that is the element's. Cell i has
// the id "station<i>.line<n>" and the key n, the line that brought the element there.
func Way(w *follow.Way, o layoutviz.Options) (layoutviz.Picture, error) {
	cols := max(1, min(wayInARow, len(w.Stations)))
	if n := len(w.Stations); n > wayInARow {
		rows := (n + wayInARow - 1) / wayInARow
		cols = (n + rows - 1) / rows
	}
	rows := (len(w.Stations) + cols - 1) / cols
	wide := 2*pad + cols*wayWide + (cols-1)*wayGap
	title := fmt.Sprintf("The way of %s through %s", w.Element, w.Program)
	s, err := newStage(max(wide, scene.Width(title, 17)+2*pad), 0, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	s.left(pad, 30, 17, true, title)
	s.note(pad, 50, 12, fmt.Sprintf("block (%d, %d, %d)", w.Block[0], w.Block[1], w.Block[2]))
	const top = 66
	hue := s.wayHues()
	var told []string
	for i, st := range w.Stations {
		x, y := pad+i%cols*(wayWide+wayGap), top+i/cols*(wayHigh+wayGap)
		if i > 0 {
			s.arrow(x, y)
		}
		s.station(st, x, y, hue[st.Kind])
		e := layoutviz.Element{ID: fmt.Sprintf("station%d.line%d", i, st.Line), Label: strings.Join(strings.Fields(st.String()), " "), X: x, Y: y, W: wayWide, H: wayHigh, Keys: []int{st.Line}, Thread: -1, At: st.Index}
		if st.Kind == follow.Register || st.Kind == follow.Sum || st.Kind == follow.Operand {
			e.Thread, e.Slot = st.Thread, st.Slot
		}
		s.ids = append(s.ids, e)
		told = append(told, fmt.Sprintf("%s %s", st.Kind, st.Element()))
	}
	y := top + rows*(wayHigh+wayGap) - wayGap + 16
	if w.Note != "" {
		y = s.lines(pad, y+8, wide-2*pad, 12, s.alarm, false, w.Note)
	}
	s.scene.H = y
	desc := strings.Join(told, ", then ") + "."
	if w.Note != "" {
		desc += " " + w.Note
	}
	return s.picture(title, desc), nil
}

// wayHues are the colours of the heads of cells, on which their words can be read.
func (s *stage) wayHues() map[follow.Kind]string {
	hues := map[follow.Kind]string{follow.Global: s.octets[0], follow.Shared: s.octets[1], follow.Register: s.octets[2], follow.Operand: s.octets[3], follow.Sum: mix(s.octets[3], s.octets[2], 50)}
	for k, hue := range hues {
		// Lighter where dark ink reads better, else darker.
		to := "#000000"
		if readable(hue) != "#ffffff" {
			to = "#ffffff"
		}
		for scene.Contrast(hue, readable(hue)) < 4.6 {
			hue = mix(hue, to, 10)
		}
		hues[k] = hue
	}
	return hues
}

// arrow leads to a cell from the one before it.
func (s *stage) arrow(x, y int) {
	mid := y + 14
	s.stroke(s.muted, 2, seg(max(1, x-wayGap+4), mid, x-9, mid))
	for i := range 5 {
		s.fill(s.muted, x-9+i, mid-5+i, 1, 11-2*i)
	}
}

func (s *stage) station(st follow.Station, x, y int, hue string) {
	s.fill(s.quiet, x, y, wayWide, wayHigh)
	s.fill(hue, x, y, wayWide, 28)
	ink := readable(hue)
	kind := string(st.Kind)
	if st.Kind == follow.Operand {
		kind = "operand " + st.Operand
	}
	s.text(x+9, y+19, 13, ink, scene.Start, true, kind)
	s.text(x+wayWide-8, y+19, 11.5, ink, scene.End, false, st.Type)
	fit := func(size float64, words string) float64 {
		for size > 8 && scene.Width(words, size) > wayWide-16 {
			size -= 0.5
		}
		return size
	}
	name := st.Element()
	if st.Parts > 0 {
		name += fmt.Sprintf(" and %d more", st.Parts)
	}
	s.left(x+9, y+49, fit(15, name), true, name)
	value := ""
	if st.Value != "" {
		value = "= " + strings.Replace(st.Value, "-", "−", 1)
	}
	switch {
	case st.Turns > 0 && st.Kind == follow.Sum:
		value += fmt.Sprintf(", then %s", plural(st.Turns, "more product"))
	case st.Turns > 0:
		value += fmt.Sprintf(", then %s", plural(st.Turns, "more turn"))
	}
	s.text(x+9, y+68, fit(13, value), s.ink, scene.Start, false, value)

	// The bar: 32 bytes, banks, bits or lanes.
	const cell = 5
	from, n, unit := 0, 1, ""
	bits := 32
	if st.Var() != nil {
		bits = st.Var().Type.Elem.Bits()
	}
	switch st.Kind {
	case follow.Global:
		from, n, unit = st.Byte%32, max(1, (st.Bit+bits+7)/8), "32 bytes of a sector"
	case follow.Shared:
		from, n, unit = st.Bank, max(1, bits/32), "32 banks"
	case follow.Operand:
		from, unit = st.Lane, "32 lanes"
	default:
		from, n, unit = st.Shift, min(bits, 32-st.Shift), "32 bits of a register"
	}
	bar := x + 9
	for i := range 32 {
		fill := mix(s.quiet, s.ink, 12)
		// Registers are written with their high bit first.
		at := i
		if st.Kind == follow.Register || st.Kind == follow.Sum {
			at = 31 - i
		}
		if at >= from && at < from+n {
			fill = s.accent
		}
		s.fill(fill, bar+i*(cell+1), y+82, cell, 14)
	}
	s.note(x+9, y+110, 10, unit)
	where, more := "", ""
	switch st.Kind {
	case follow.Global:
		where = fmt.Sprintf("byte %d, sector %d", st.Byte, st.Sector)
	case follow.Shared:
		where = fmt.Sprintf("byte %d, bank %d", st.Byte, st.Bank)
	case follow.Operand:
		where, more = st.Instruction, st.Piece
		if st.Var() != nil && st.Var().Type.IsRegister() && st.Instruction != "fma" {
			more = fmt.Sprintf("warp %d, lane %d, register %d", st.Warp, st.Lane, st.Word)
		}
	default:
		where = fmt.Sprintf("thread %d, slot %d", st.Thread, st.Slot)
		more = fmt.Sprintf("register %d", st.Word)
		if bits < 32 {
			more += fmt.Sprintf(", bits %d–%d", st.Shift, st.Shift+bits-1)
		}
		if st.Kind == follow.Sum && st.Others > 0 {
			more += ", " + plural(st.Others, "more sum") + " use it"
		}
	}
	if st.Bit > 0 {
		where = strings.Replace(where, ",", fmt.Sprintf(".%d,", st.Bit), 1)
	}
	s.left(x+9, y+127, fit(12.5, where), true, where)
	s.left(x+9, y+143, fit(12, more), false, more)
	by := fmt.Sprintf("%s, line %d", st.By, st.Line)
	if st.By == "" {
		by = fmt.Sprintf("read in line %d", st.Line)
	}
	s.text(x+9, y+162, fit(11.5, by), s.muted, scene.Start, false, by)
	if st.Here {
		s.frame(s.alarm, 3, x, y, wayWide, wayHigh)
	} else {
		s.frame(s.line, 1, x, y, wayWide, wayHigh)
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
