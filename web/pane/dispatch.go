package pane

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/timeline"
)

// Values of the dispatch pane's choices.
const (
	dispatchOwn = "one kernel" // the scenario of the sliders
	dispatchAll = "side by side"
)

func dispatchPane() Pane {
	scenarios := []string{dispatchOwn}
	for _, e := range dispatch.Examples() {
		scenarios = append(scenarios, e.Name)
	}
	yes := []string{"no", "yes"}
	return Pane{
		Name:  "dispatch",
		Title: "AMD's dispatch",
		Doc:   "From the HIP launch to the compute unit: which block starts where and when, and what it waits for. Enable a sixteenth compute unit and watch the kernel become six times as slow.",
		Params: []Param{
			Param{Name: "v", Title: "Show", Kind: Choice,
				Doc: "What happens when; ticks over enabled units; the causes of one block's start; how the driver makes a queue; the bytes of the packets."}.shows(DispatchViews()),
			Param{Name: "s", Title: "Scenario", Kind: Choice, Default: dispatchOwn, Choices: scenarios, Doc: "One kernel of the sliders below, or a story of its own."}.beside("v", DispatchTime, DispatchWhy, DispatchPackets),
			Param{Name: "c", Title: "Compute units", Kind: Slider, Default: "16", Min: 1, Max: 60, Doc: "Enabled units of one kernel, of 4 shader engines with 15 each."}.beside("v", DispatchTime, DispatchStairs, DispatchWhy).beside("s", dispatchOwn),
			Param{Name: "o", Title: "Enabled", Kind: Choice, Default: "packed", Choices: []string{"packed", "distributed"}, Doc: "One engine after the other, or one unit of each in turn."}.beside("v", DispatchTime, DispatchWhy).beside("s", dispatchOwn),
			Param{Name: "b", Title: "Blocks", Kind: Slider, Default: "96", Min: 1, Max: 1024, Doc: "Blocks of one kernel, of 1024 work-items and one tick each."}.beside("v", DispatchTime, DispatchStairs, DispatchWhy, DispatchPackets).beside("s", dispatchOwn),
			Param{Name: "a", Title: "Slots", Kind: Slider, Default: "4", Min: 1, Max: 8, Doc: "Slots of each workload manager: one for each ACE."}.beside("v", DispatchTime, DispatchWhy),
			Param{Name: "k", Title: "May skip", Kind: Choice, Default: "no", Choices: yes, Doc: "Whether the dealer may skip an engine without room. Real ones do not."}.beside("v", DispatchTime, DispatchWhy),
			Param{Name: "rt", Title: "Runtime", Kind: Choice, Default: "as the scenario", Choices: []string{"as the scenario", "4.2", "6.x", "2026", dispatchAll}, Doc: "Which ROCm makes queues and packets; all of them to compare."}.beside("v", DispatchTime, DispatchWhy, DispatchPackets),
			Param{Name: "t", Title: "Tick (−1: all)", Kind: Slider, Default: "-1", Min: -1, Max: 40, Play: true, Doc: "A moment of the timeline; −1 shows all of it."}.beside("v", DispatchTime),
			Param{Name: "n", Title: "Block", Kind: Slider, Default: "5", Min: 0, Max: 1023, Doc: "The block of the last kernel whose causes are shown."}.beside("v", DispatchWhy),
		},
		Render: renderDispatch,
	}
}

func renderDispatch(v Values) (Result, error) {
	num := map[string]int{}
	for _, name := range []string{"c", "b", "a", "t", "n"} {
		n, err := strconv.Atoi(v[name])
		if err != nil {
			return Result{}, err
		}
		num[name] = n
	}
	o := v.look()
	show := func(name string, p layoutviz.Picture, err error) (Result, error) {
		return Result{Pictures: []Picture{{Name: name, Picture: p}}, Sentence: p.Desc}, err
	}
	m := dispatch.RadeonVII()
	kernel := dispatch.Kernel{Name: "kernel", Blocks: num["b"], Threads: 1024, Ticks: 1}
	switch v["v"] {
	case DispatchStairs:
		list, err := dispatch.Staircase(m, kernel, dispatch.Options{})
		if err != nil {
			return Result{}, err
		}
		p, err := timeline.Stairs(list, m.CUs, num["c"], fmt.Sprintf("%d blocks over the number of compute units", num["b"]), o)
		out, err := show("staircase", p, err)
		if err == nil {
			out.Pictures[0] = out.Pictures[0].going(func(e layoutviz.Element) Values {
				var n int
				if k, _ := fmt.Sscanf(e.ID, "n%d", &n); k != 1 || n < 1 || n > 60 {
					return nil
				}
				return Values{"c": strconv.Itoa(n)}
			})
		}
		return out, err
	case DispatchQueue:
		return renderNewQueue(o)
	}
	program, err := dispatchScenario(v, num, m, kernel)
	if err != nil {
		return Result{}, err
	}
	if v["rt"] == dispatchAll && v["v"] == DispatchTime {
		return renderPolicies(program, num["t"], o)
	}
	r, err := program.Run()
	if err != nil {
		return Result{}, err
	}
	switch v["v"] {
	case DispatchWhy:
		last := r.Runs[len(r.Runs)-1]
		n := min(num["n"], len(last.Blocks)-1)
		chain := r.Why(last.Name, n)
		if chain == nil {
			return Result{Sentence: fmt.Sprintf("Block %d of %s never started. %s", n, last.Name, timeline.Sentence(r)), Text: timeline.Sentence(r)}, nil
		}
		p, err := timeline.Path(chain, fmt.Sprintf("Why block %d of %s started at tick %d", n, last.Name, chain[len(chain)-1].Tick), o)
		return show("causes", p, err)
	case DispatchPackets:
		return packetText(r), nil
	}
	p, err := timeline.Gantt(r, program.Title, num["t"], o)
	out, err := show("timeline", p, err)
	if err != nil {
		return out, err
	}
	// A block of the last kernel asks why it started, others and packets for their moment.
	out.Pictures[0] = out.Pictures[0].going(func(e layoutviz.Element) Values {
		var k, b int
		if n, _ := fmt.Sscanf(e.ID, "b%d.%d", &k, &b); n == 2 && k < len(r.Runs) && b < len(r.Runs[k].Blocks) {
			if k == len(r.Runs)-1 && b <= 1023 {
				return Values{"v": DispatchWhy, "n": strconv.Itoa(b)}
			}
			if at := int(r.Runs[k].Blocks[b].Start); at >= 0 && at <= 40 {
				return Values{"t": strconv.Itoa(at)}
			}
		} else if n, _ := fmt.Sscanf(e.ID, "p%d", &k); n == 1 && k < len(r.Runs) && r.Runs[k].Launch >= 0 && r.Runs[k].Launch <= 40 {
			return Values{"t": strconv.Itoa(r.Runs[k].Launch)}
		}
		return nil
	})
	out.Text = traceText(r, num["t"])
	return out, err
}

// dispatchScenario is the program that the values describe.
func dispatchScenario(v Values, num map[string]int, m dispatch.Machine, kernel dispatch.Kernel) (dispatch.Program, error) {
	var p dispatch.Program
	if v["s"] == dispatchOwn {
		kernel.Mask = m.Packed(num["c"])
		if v["o"] != "packed" {
			kernel.Mask = m.Distributed(num["c"])
		}
		p = dispatch.Program{Title: fmt.Sprintf("%d blocks, %d units, %s", num["b"], num["c"], v["o"]), Launches: []dispatch.Launch{{Stream: "stream", Kernel: kernel}}}
	} else {
		e, err := dispatch.FindExample(v["s"])
		if err != nil {
			return p, err
		}
		p = e.Program
	}
	p.Machine.ACEs = num["a"]
	if v["k"] == "yes" {
		p.Options.Skip = true
	}
	if policy, err := dispatch.ParsePolicy(v["rt"]); err == nil {
		p.Policy = policy
	}
	return p, nil
}

// renderPolicies shows a program under every runtime.
func renderPolicies(p dispatch.Program, tick int, o layoutviz.Options) (Result, error) {
	var out Result
	var ticks, docs []string
	for _, x := range dispatch.Policies() {
		p.Policy = x.Policy
		r, err := p.Run()
		if err != nil {
			return Result{}, err
		}
		pic, err := timeline.Gantt(r, fmt.Sprintf("%s, ROCm %s", p.Title, x.Policy), tick, o)
		if err != nil {
			return Result{}, err
		}
		out.Pictures = append(out.Pictures, Picture{Name: "ROCm " + string(x.Policy), Picture: pic})
		ticks = append(ticks, fmt.Sprintf("ROCm %s takes %s", x.Policy, plural(r.Ticks, "tick")))
		docs = append(docs, fmt.Sprintf("%-5s %s", x.Policy, x.Doc))
	}
	out.Sentence, out.Text = strings.Join(ticks, ", ")+".", strings.Join(docs, "\n")
	return out, nil
}

// renderNewQueue shows a queue being made in both ways.
func renderNewQueue(o layoutviz.Options) (Result, error) {
	out := Result{Sentence: "With the scheduler the driver sends a run list and the firmware maps it; without, the driver writes the registers itself. A launch later needs neither."}
	for _, c := range []struct {
		name      string
		scheduler bool
	}{{"with the hardware scheduler", true}, {"without the hardware scheduler", false}} {
		events, _, err := dispatch.CreateQueues(dispatch.Creation{Scheduler: c.scheduler, Processes: 1, Queues: 2, Mask: []uint32{0x1f}})
		if err != nil {
			return Result{}, err
		}
		from := 0
		for i, e := range events {
			if e.Step == "create" {
				from = i
			}
		}
		p, err := timeline.Path(events[from:], "A new queue, "+c.name, o)
		if err != nil {
			return Result{}, err
		}
		out.Pictures = append(out.Pictures, Picture{Name: c.name, Picture: p})
	}
	return out, nil
}

// traceText is the events up to a tick, the last ones.
func traceText(r *dispatch.Result, tick int) string {
	var lines []string
	for _, e := range r.Events {
		if tick < 0 || e.Tick <= tick {
			lines = append(lines, e.String())
		}
	}
	const most = 60
	if len(lines) > most {
		lines = append([]string{fmt.Sprintf("… %d events before", len(lines)-most)}, lines[len(lines)-most:]...)
	}
	return strings.Join(lines, "\n")
}

// packetText is the packets of a trace, byte by byte.
func packetText(r *dispatch.Result) Result {
	var b strings.Builder
	n := 0
	for _, e := range r.Events {
		if e.Step != "packet" {
			continue
		}
		n++
		fmt.Fprintf(&b, "%s, tick %d, %s\n", e.Kernel, e.Tick, e.Queue)
		for i := 0; i+32 <= len(e.Data); i += 32 {
			fmt.Fprintf(&b, "  %02x  %s\n", i/2, strings.Join(pairs(e.Data[i:i+32]), " "))
		}
		raw := make([]byte, len(e.Data)/2)
		for i := range raw {
			// The digits are our own.
			x, _ := strconv.ParseUint(e.Data[2*i:2*i+2], 16, 8)
			raw[i] = byte(x)
		}
		if fields, err := dispatch.Explain(raw); err == nil {
			for _, f := range fields {
				fmt.Fprintf(&b, "  %2d  %-22s %-40s %s\n", f.Offset, f.Name, f.Meaning, f.Doc)
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString(raceText())
	return Result{Sentence: fmt.Sprintf("%s of 64 bytes: little endian, the header is stored last.", counted(n, "packet")), Text: b.String()}
}

// raceText shows what a packet processor sees that looks between the steps of
// publishing, in the right order and with the header too early.
func raceText() string {
	packet := func(kernel uint64) ([dispatch.PacketBytes]byte, error) {
		return dispatch.Packet{Header: 0xb02, Dimensions: 1, Workgroup: [3]uint16{64, 1, 1}, Grid: [3]uint32{64, 1, 1}, KernelObject: kernel}.Encode()
	}
	before, err1 := packet(0x7f0000dead00)
	next, err2 := packet(0x7f0000100000)
	if err1 != nil || err2 != nil {
		return ""
	}
	right := dispatch.PublishOrder()
	wrong := []string{right[0], right[1], right[3], right[2], right[4]}
	var b strings.Builder
	for _, c := range []struct {
		title string
		order []string
	}{{"Published in the right order, a packet processor sees after each step:", right}, {"With the header before the body:", wrong}} {
		fmt.Fprintln(&b, c.title)
		seen, err := dispatch.Race(c.order, before, next)
		if err != nil {
			return ""
		}
		for _, s := range seen {
			mark := " "
			if s.Wrong {
				mark = "✗"
			}
			fmt.Fprintf(&b, "%s %-56s %s\n", mark, strings.TrimSpace(s.After), s.Sees)
		}
	}
	return b.String()
}

func pairs(digits string) []string {
	var out []string
	for i := 0; i+2 <= len(digits); i += 2 {
		out = append(out, digits[i:i+2])
	}
	return out
}
