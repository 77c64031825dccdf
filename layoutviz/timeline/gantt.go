package timeline

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

const (
	labels     = 178 // width of the column of names
	plot       = 880
	maxBlocks  = 4000 // up to here each block is a bar of its own
	maxPackets = 24   // up to here each packet has a row
)

// chart is a Gantt chart while it is drawn.
type chart struct {
	*sheet
	r     *dispatch.Result
	now   int // -1 for none
	ticks int
	y     int
	color map[*dispatch.KernelRun]int
	each  bool
	step  int // ticks between two lines of the scale
}

// Gantt draws what happened: packets in their queues, what held up each ACE, blocks
// parked in workload managers, and blocks on compute units. With now ≥ 0 a line
// stands at that tick, what lies behind it is faint, and sentences say what happens
// then and why.
func Gantt(r *dispatch.Result, title string, now int, o layoutviz.Options) (layoutviz.Picture, error) {
	s, err := newSheet(2*pad+labels+plot, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	c := &chart{sheet: s, r: r, now: now, ticks: max(1, r.Ticks), color: map[*dispatch.KernelRun]int{}, each: r.Placed <= maxBlocks}
	if r.Deadlock != nil {
		c.ticks = max(4, r.Deadlock.Tick+3)
	}
	for i, k := range r.Runs {
		c.color[k] = i
	}
	desc := Sentence(r)
	y := s.para(pad, pad, s.w-2*pad, bigSize, s.ink, true, title)
	said := s.alarm
	if r.Deadlock == nil {
		said = s.muted
	}
	c.y = s.para(pad, y+2, s.w-2*pad, textSize, said, false, desc) + 10
	top := c.y
	c.axis()
	c.packets()
	c.border()
	c.dealers()
	c.slots()
	c.units()
	c.grid(top)
	if now >= 0 {
		c.moment(top)
	}
	c.legend()
	return s.picture(c.y+pad, title, desc), nil
}

// Sentence says what matters about a result.
func Sentence(r *dispatch.Result) string {
	if r.Deadlock != nil {
		return fmt.Sprintf("Deadlock at tick %d: %s.", r.Deadlock.Tick, r.Deadlock.Why)
	}
	desc := fmt.Sprintf("%s in %s.", count(r.Placed, "block"), count(r.Ticks, "tick"))
	// What a dealer is held up by says most, then what a packet waits for.
	var worst, held dispatch.Event
	longest, still, wait := 0, map[string]int{}, 0
	for _, e := range r.Events {
		k := r.Find(e.Kernel)
		switch {
		case k == nil:
		case e.Step == "stall" && e.Block < len(k.Blocks):
			d := int(k.Blocks[e.Block].Dealt) - e.Tick
			still[e.Actor] += d
			if d > longest {
				longest, worst = d, e
			}
		case e.Step == "hold" && k.Launch-e.Tick > wait:
			wait, held = k.Launch-e.Tick, e
		}
	}
	switch {
	case longest > 0 && !r.Cut:
		desc += fmt.Sprintf(" For %s %s cannot deal: %s.", count(still[worst.Actor], "tick"), worst.Actor, worst.Why)
	case longest > 0:
		desc += fmt.Sprintf(" %s often cannot deal: %s.", worst.Actor, worst.Why)
	case wait > 0:
		desc += fmt.Sprintf(" For %s %s.", count(wait, "tick"), held.Why)
	}
	return desc
}

func (c *chart) x(tick int) int { return pad + labels + tick*plot/c.ticks }

// faint is a colour as it looks behind the moment.
func (c *chart) faint(color string, tick int) string {
	if c.now >= 0 && tick > c.now {
		return mix(color, c.paper, 78)
	}
	return color
}

// box is a bar from one tick to another; what it covers behind the moment is faint.
func (c *chart) box(color string, from, to, y, h int, id, label string, key int, words ...string) {
	if to < 0 {
		to = c.ticks
	}
	x, w := c.x(from), max(2, c.x(to)-c.x(from)-1)
	switch {
	case c.now < 0 || to <= c.now+1:
		c.bar(color, x, y, w, h)
	case from > c.now:
		c.bar(c.faint(color, from), x, y, w, h)
	default:
		cut := c.x(c.now+1) - x
		c.bar(color, x, y, cut, h)
		c.bar(c.faint(color, c.now+1), x+cut, y, w-cut, h)
		c.inside(x, y, cut, h, color, words...)
		words = nil
	}
	c.inside(x, y, w, h, c.faint(color, from), words...)
	if id != "" {
		c.ids = append(c.ids, layoutviz.Element{ID: id, Label: label, X: x, Y: y, W: w, H: h, Keys: []int{key}, Thread: key / (dispatch.MaxBlocks + 1)})
	}
}

// key is what all boxes of a block share, and a packet's with block -1.
func (c *chart) key(k *dispatch.KernelRun, block int) int {
	return c.color[k]*(dispatch.MaxBlocks+1) + block + 1
}

func (c *chart) name(y, h int, bold bool, words string) {
	size := textSize
	for h < 13 && size > 7 || scene.Width(words, size) > labels-8 && size > 7 {
		size--
		if int(size) <= h && scene.Width(words, size) <= labels-8 {
			break
		}
	}
	c.text(pad+labels-8, y+h/2+int(size*0.36+0.5), size, c.ink, scene.End, bold, words)
}

func (c *chart) section(words, doc string) {
	c.y += 10
	c.text(pad, c.y+11, headSize, c.ink, scene.Start, true, words)
	c.text(pad+scene.Width(words, headSize)+10, c.y+11, noteSize, c.muted, scene.Start, false, doc)
	c.y += 18
}

// axis writes ticks above the chart.
func (c *chart) axis() {
	step := 1
	for c.ticks/step > 24 {
		switch {
		case step%5 != 0 || step == 5:
			step *= 2
		default:
			step = step * 5 / 2
		}
		if step == 4 {
			step = 5
		}
	}
	c.step = step
	for t := 0; t <= c.ticks; t += step {
		c.text(c.x(t), c.y+10, noteSize, c.muted, scene.Middle, false, fmt.Sprint(t))
	}
	c.text(pad+labels-8, c.y+10, noteSize, c.muted, scene.End, false, "tick")
	c.y += 16
}

func (c *chart) grid(top int) {
	for t := 0; t <= c.ticks; t++ {
		if c.ticks <= 60 || t%c.step == 0 {
			c.areas = stroke(c.areas, c.line, 0.6, c.x(t), top+14, c.x(t), c.y)
		}
	}
}

// packets draws each queue's packets: thin while they wait, a bar while they run.
func (c *chart) packets() {
	c.section("Packets in HSA queues", "thin: published and waiting; thick: taken by the ACE, until the last block ends; ▌ barrier bit")
	if len(c.r.Runs) > maxPackets {
		c.text(pad+labels, c.y+11, noteSize, c.muted, scene.Start, false, fmt.Sprintf("%d packets: too many for rows of their own", len(c.r.Runs)))
		c.y += 18
		return
	}
	const h = 17
	last := ""
	for _, k := range c.r.Runs {
		label := k.Name
		if k.Queue != last {
			label = fmt.Sprintf("%s (ACE %d)  %s", k.Queue, k.ACE, k.Name)
			if last != "" {
				c.y += 3
			}
			last = k.Queue
		}
		c.name(c.y, h, false, label)
		color := c.sheet.color(c.color[k])
		launch := k.Launch
		if launch != k.Arrive {
			to := launch
			if to < 0 {
				to = c.ticks
			}
			c.bar(mix(c.faint(color, k.Arrive), c.paper, 35), c.x(k.Arrive), c.y+h/2-2, c.x(to)-c.x(k.Arrive), 4)
		}
		if launch >= 0 {
			what := "kernel"
			if k.Kernel == nil {
				what = k.Type.String()
			}
			to := k.Finish
			if to == launch {
				to = launch // a barrier packet takes no time
			}
			c.box(color, launch, to, c.y+1, h-3, "p"+fmt.Sprint(c.color[k]), fmt.Sprintf("%s %s: published at %d, taken at %d, first block at %d, complete at %d", what, k.Name, k.Arrive, launch, k.Start, k.Finish), c.key(k, -1),
				fmt.Sprintf("%s: %s", k.Name, until(launch, k.Finish)), k.Name)
			if k.Barrier {
				c.over = fill(c.over, c.ink, c.x(launch), c.y, 3, h-1)
			}
		}
		c.y += h
	}
}

// border draws where user code ends.
func (c *chart) border() {
	c.y += 20
	c.lines = stroke(c.lines, c.accent, 1.5, pad, c.y, c.w-pad, c.y)
	c.text(c.w-pad, c.y-3, tinySize, c.accent, scene.End, false, "user code: HIP, ROCclr, ROCR")
	c.text(c.w-pad, c.y+10, tinySize, c.accent, scene.End, false, "hardware; the driver only made the queues")
	c.y += 6
}

// dealers draws what each ACE was held up by.
func (c *chart) dealers() {
	c.section("Dealers (ACEs)", "kernel whose blocks are dealt; red: the next block cannot be dealt")
	const h = 20
	for a := range c.r.Machine.ACEs {
		any := false
		for _, k := range c.r.Runs {
			if k.ACE != a || k.Kernel == nil || k.Launch < 0 {
				continue
			}
			any = true
			before := k.Launch
			from := k.Launch
			flush := func(to int) {
				if to > from {
					c.box(c.sheet.color(c.color[k]), from, to, c.y, h-3, "", "", 0, k.Name)
				}
			}
			for b, x := range k.Blocks {
				to := int(x.Dealt)
				if to < 0 {
					to = c.ticks
				}
				if to > before {
					flush(before)
					if c.ticks <= 2000 {
						c.box(c.alarm, before, to, c.y, h-3, fmt.Sprintf("a%d.%d", a, b), fmt.Sprintf("from tick %d to %d ACE %d cannot deal block %d of %s", before, to, a, b, k.Name), c.key(k, b),
							fmt.Sprintf("block %d of %s stuck", b, k.Name), fmt.Sprint("block ", b), fmt.Sprint(b))
					} else {
						c.bar(c.alarm, c.x(before), c.y, max(1, c.x(to)-c.x(before)), h-3)
					}
					from = to
				}
				before = to
				if x.Dealt < 0 {
					break
				}
			}
			if before == k.Launch || from == before {
				// Dealt at once: a mark that it was.
				c.over = fill(c.over, c.sheet.color(c.color[k]), c.x(before)-2, c.y, 4, h-3)
			}
		}
		if any {
			c.name(c.y, h-3, false, fmt.Sprintf("ACE %d", a))
			c.y += h
		}
	}
}

// slots draws the blocks that were parked.
func (c *chart) slots() {
	c.section("Slots of workload managers", "blocks that were dealt and wait for room")
	const h = 15
	rows := 0
	for e := range c.r.Machine.Engines() {
		for a := range c.r.Machine.ACEs {
			any := false
			for _, k := range c.r.Runs {
				if k.ACE != a {
					continue
				}
				for b, x := range k.Blocks {
					if int(x.SE) != e || x.Dealt < 0 || x.Start == x.Dealt {
						continue
					}
					any = true
					if !c.each {
						c.bar(c.sheet.color(c.color[k]), c.x(int(x.Dealt)), c.y, max(1, c.x(int(x.Start))-c.x(int(x.Dealt))), h-3)
						continue
					}
					c.box(c.sheet.color(c.color[k]), int(x.Dealt), int(x.Start), c.y, h-3, fmt.Sprintf("s%d.%d.%d", e, c.color[k], b),
						fmt.Sprintf("block %d of %s is dealt at %d and waits in slot ACE %d of SE %d until %d", b, k.Name, x.Dealt, a, e, x.Start), c.key(k, b), fmt.Sprintf("block %d", b), fmt.Sprint(b))
				}
			}
			if any {
				c.name(c.y, h-3, false, fmt.Sprintf("SE %d, slot ACE %d", e, a))
				c.y += h
				rows++
			}
		}
	}
	if rows == 0 {
		c.text(pad+labels, c.y+9, noteSize, c.muted, scene.Start, false, "none: every block found room at once")
		c.y += 15
	}
}

// until is a time from one tick to another.
func until(from, to int) string {
	if to < 0 {
		return fmt.Sprintf("%d, never ends", from)
	}
	return fmt.Sprintf("%d–%d", from, to)
}

type span struct {
	k  *dispatch.KernelRun
	b  int
	at int // work-items below it
}

// units draws the blocks on compute units, those that some kernel may use.
func (c *chart) units() {
	m := c.r.Machine
	used := make(dispatch.Mask, m.Engines())
	for _, k := range c.r.Runs {
		if k.Kernel == nil {
			continue
		}
		mask := k.Kernel.Mask
		if mask == nil {
			mask = m.All()
		}
		for i := range used {
			used[i] |= mask[i]
		}
	}
	total := 0
	for _, n := range used.Count() {
		total += n
	}
	by := map[[2]int][]span{}
	least := m.CU.Threads()
	if c.each {
		for _, k := range c.r.Runs {
			for b, x := range k.Blocks {
				if x.Start >= 0 {
					at := [2]int{int(x.SE), int(x.CU)}
					by[at] = append(by[at], span{k, b, 0})
					least = min(least, k.Kernel.Threads)
				}
			}
		}
		for _, list := range by {
			stack(list, m.CU.Threads())
		}
	}
	whole := m.CU.Threads()
	peak := least
	for _, list := range by {
		for _, s := range list {
			peak = max(peak, s.at+s.k.Kernel.Threads)
		}
	}
	// High enough for the smallest block's number where there are few units.
	h := max(8, min(14*m.CU.Threads()/least, 620/max(1, total), 150))
	doc := fmt.Sprintf("a bar for each block, as high as its share of the unit's %d work-items", whole)
	switch {
	case !c.each:
		doc = "when each unit is busy"
	case h < 24:
		// There is no room to show what stays free.
		whole, doc = peak, fmt.Sprintf("a bar for each block; a row is %d of the unit's %d work-items", peak, m.CU.Threads())
	}
	c.section("Compute units", doc+"; units that no kernel may use are left out")
	share := func(threads int) int { return threads * (h - 2) / whole }
	pixels := c.columns()
	for e := range used {
		n := used.Count()[e]
		if n == 0 {
			continue
		}
		top := c.y
		for cu := range m.CUs {
			if used[e]>>cu&1 == 0 {
				continue
			}
			c.area(c.quiet, pad+labels, c.y, plot, h-1)
			if h >= 11 {
				c.name(c.y, h-1, false, fmt.Sprintf("CU %d", cu))
			}
			for _, s := range by[[2]int{e, cu}] {
				x := s.k.Blocks[s.b]
				high := share(s.at+s.k.Kernel.Threads) - share(s.at)
				c.box(c.sheet.color(c.color[s.k]), int(x.Start), int(x.Finish), c.y+share(s.at), max(1, high-min(1, high/3)), fmt.Sprintf("b%d.%d", c.color[s.k], s.b),
					fmt.Sprintf("block %d of %s runs on SE %d CU %d from tick %d to %d", s.b, s.k.Name, e, cu, x.Start, x.Finish), c.key(s.k, s.b), fmt.Sprintf("%s %d", s.k.Name, s.b), fmt.Sprint(s.b))
			}
			if !c.each {
				c.runs(pixels[[2]int{e, cu}], c.y, h-1)
			}
			c.y += h
		}
		mid := (top + c.y) / 2
		c.text(pad, mid+4, textSize, c.ink, scene.Start, true, fmt.Sprintf("SE %d", e))
		c.text(pad+44, mid+4, noteSize, c.muted, scene.Start, false, count(n, "CU"))
		c.y += 5
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// stack gives each span a place of as many work-items as it has, the lowest that is
// free while it runs; where free places are too small it takes the top.
func stack(list []span, room int) {
	slices.SortStableFunc(list, func(a, b span) int { return int(a.k.Blocks[a.b].Start - b.k.Blocks[b.b].Start) })
	var active []span
	for i := range list {
		s := &list[i]
		now := s.k.Blocks[s.b].Start
		active = slices.DeleteFunc(active, func(o span) bool { f := o.k.Blocks[o.b].Finish; return f >= 0 && f <= now })
		slices.SortFunc(active, func(a, b span) int { return a.at - b.at })
		for _, o := range active {
			if o.at >= s.at+s.k.Kernel.Threads {
				break
			}
			s.at = max(s.at, o.at+o.k.Kernel.Threads)
		}
		s.at = max(0, min(s.at, room-s.k.Kernel.Threads))
		active = append(active, *s)
	}
}

// columns are the pixel columns in which a unit is busy, with the number of a
// kernel plus one, for results of many blocks.
func (c *chart) columns() map[[2]int][]int {
	if c.each {
		return nil
	}
	out := map[[2]int][]int{}
	for _, k := range c.r.Runs {
		for _, x := range k.Blocks {
			if x.Start < 0 {
				continue
			}
			at := [2]int{int(x.SE), int(x.CU)}
			if out[at] == nil {
				out[at] = make([]int, plot+1)
			}
			to := c.ticks
			if x.Finish >= 0 {
				to = int(x.Finish)
			}
			for p := c.x(int(x.Start)); p <= max(c.x(int(x.Start)), c.x(to)-1); p++ {
				out[at][min(plot, p-pad-labels)] = c.color[k] + 1
			}
		}
	}
	return out
}

func (c *chart) runs(columns []int, y, h int) {
	for i := 0; i < len(columns); {
		j := i
		for j < len(columns) && columns[j] == columns[i] {
			j++
		}
		if columns[i] > 0 {
			c.bar(c.sheet.color(columns[i]-1), pad+labels+i, y, j-i, h)
		}
		i = j
	}
}

func (c *chart) legend() {
	c.y += 6
	x := pad
	for i, k := range c.r.Runs {
		if k.Kernel == nil || i > 11 {
			continue
		}
		words := fmt.Sprintf("%s: %s of %d, %s", k.Name, count(k.Kernel.Blocks, "block"), k.Kernel.Threads, count(k.Kernel.Ticks, "tick"))
		if k.Kernel.Ticks == 0 {
			words = fmt.Sprintf("%s: %s of %d", k.Name, count(k.Kernel.Blocks, "block"), k.Kernel.Threads)
		}
		w := 26 + scene.Width(words, noteSize)
		if x+w > c.w-pad {
			x, c.y = pad, c.y+17
		}
		c.bar(c.sheet.color(i), x, c.y+2, 12, 11)
		c.text(x+17, c.y+12, noteSize, c.ink, scene.Start, false, words)
		x += w
	}
	c.y = c.para(pad, c.y+20, c.w-2*pad, tinySize, c.muted, false,
		"Provenance: packets, barrier bit, masks: vendor. Dealing in order, one slot for each ACE and engine: paper (Otterness, Anderson 2021). Engines without units are left out, queues go to ACEs in turn, one packet a turn: assumed.")
}

// moment marks the present tick and says what happens, and what still waits.
func (c *chart) moment(top int) {
	from, to := c.x(min(c.now, c.ticks)), c.x(min(c.now+1, c.ticks))
	if to > from {
		band := scene.Fills{Color: mix(c.accent, c.paper, 86), Boxes: []scene.Box{{X: from, Y: top + 14, W: to - from, H: c.y - top - 14}}}
		c.areas = append([]scene.Item{band}, c.areas...)
	}
	c.over = stroke(c.over, c.accent, 2, to, top+14, to, c.y)
	c.y = c.para(pad, c.y+6, c.w-2*pad, headSize, c.accent, true, fmt.Sprintf("Tick %d", c.now))
	rank := map[string]int{"deadlock": 0, "stall": 1, "park": 2, "hold": 3, "spin": 4, "complete": 5, "take": 6, "pass": 6, "start": 7, "finish": 8}
	var at []dispatch.Event
	for _, e := range c.r.Events {
		if _, ok := rank[e.Step]; ok && (e.Tick == c.now || e.Tick < c.now && c.lasts(e)) {
			at = append(at, e)
		}
	}
	slices.SortStableFunc(at, func(a, b dispatch.Event) int { return rank[a.Step] - rank[b.Step] })
	if len(at) == 0 {
		c.y = c.para(pad, c.y, c.w-2*pad, noteSize, c.muted, false, "Nothing changes, and nothing waits.")
	}
	for i, e := range at {
		if i == 5 && len(at) > 6 {
			c.y = c.para(pad, c.y, c.w-2*pad, noteSize, c.muted, false, fmt.Sprintf("… and %d more events", len(at)-5))
			break
		}
		since := ""
		if e.Tick < c.now {
			since = fmt.Sprintf(", since tick %d", e.Tick)
		}
		c.y = c.para(pad, c.y, c.w-2*pad, noteSize, c.ink, false, fmt.Sprintf("%s%s: %s (%s)", e.Actor, since, e.Why, e.Tag))
	}
}

// lasts says whether an event of the past is about something that still waits.
func (c *chart) lasts(e dispatch.Event) bool {
	k := c.r.Find(e.Kernel)
	if k == nil {
		return false
	}
	after := func(tick int) bool { return tick < 0 || tick > c.now }
	switch e.Step {
	case "deadlock":
		return true
	case "stall":
		return after(int(k.Blocks[e.Block].Dealt))
	case "park":
		return after(int(k.Blocks[e.Block].Start))
	case "spin":
		return after(int(k.Blocks[e.Block].Finish))
	case "hold":
		return after(k.Launch)
	}
	return false
}
