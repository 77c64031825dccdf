package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/blocktrace"
	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/gpu/model/recorded"
	"github.com/tilus-lab/tilus-lab/gpu/model/trace"
	"github.com/tilus-lab/tilus-lab/layoutviz/timeline"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

// dispatchFlags are the flags of the command.
type dispatchFlags struct {
	kernel                                         dispatch.Kernel
	options                                        dispatch.Options
	cus, at                                        int
	order, mask, policy, view, why, packet, queues string
	events, on                                     string
	micros                                         int
	trace, asJSON, driver                          bool
}

func newDispatch() *cobra.Command {
	var v dispatchFlags
	var draw *pictureFlags
	cmd := &cobra.Command{
		Use:   "dispatch [SCENARIO|FILE]",
		Short: "Follow kernels from the HIP launch to AMD's compute units, and say what holds them up",
		Long: `Simulate how an AMD GPU starts blocks: HIP launch, HSA queue of the pool, AQL packet of
64 bytes, ring and doorbell, ACE, in-order dealing to shader engines, slots of the
workload managers, compute units. Every event has a cause, the file it happens in where
that is public, and a tag: vendor, paper, derived or assumed.

SCENARIO is one of those listed without arguments; FILE is one of your own, in the form
that --json gives under "program". Without either, the flags describe one kernel on a
Radeon VII: --cus of its units enabled one engine after the other (--order packed) or one
of each in turn (--order distributed), or those of --mask.

--view timeline (usual) is what happens when, --at TICK a moment of it; staircase (or
stairs) is the ticks over the number of enabled units; --why KERNEL,BLOCK is what had to
happen before a block started (--view "why a block started", or path). --on gpu starts
the same kernels on the attached NVIDIA GPU, whose blocks tell where and when they run,
and --on recorded shows what those of an H200 told of the launches uneven and
two-kernels. --create-queues PROCESSES,QUEUES is how queues come into being, with the
hardware scheduler or --without-scheduler. --packet explains the 128 hexadecimal digits of
an AQL packet.`,
		Example: `  tilus-lab dispatch
  tilus-lab dispatch slow-player --svg slow.svg
  tilus-lab dispatch slow-player --at 4 --png moment.png
  tilus-lab dispatch slow-player --why victim,2
  tilus-lab dispatch --cus 16 --view staircase --png stairs.png
  tilus-lab dispatch --blocks 96 --cus 16 --skip
  tilus-lab dispatch streams --policy all
  tilus-lab dispatch barrier-6x --policy 2026 --trace
  tilus-lab dispatch --create-queues 7,4
  tilus-lab dispatch deadlock --json
  tilus-lab dispatch uneven --on recorded --png blocks.png
  tilus-lab dispatch --blocks 528 --ticks 2 --on gpu --svg blocks.svg
  tilus-lab dispatch slow-player --events slow.chrome.json   # for ui.perfetto.dev`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runDispatch(cmd, args, v, draw) },
	}
	f := cmd.Flags()
	f.IntVar(&v.kernel.Blocks, "blocks", 1024, "blocks of the kernel")
	f.IntVar(&v.kernel.Threads, "threads", 1024, "work-items of a block")
	f.IntVar(&v.kernel.Ticks, "ticks", 1, "ticks that a block takes")
	f.IntVar(&v.kernel.VGPRs, "vgprs", 0, "vector registers of a work-item (with --resources)")
	f.IntVar(&v.kernel.LDS, "lds", 0, "bytes of LDS of a block (with --resources)")
	f.IntVar(&v.cus, "cus", 0, "enabled compute units (default: all)")
	f.StringVar(&v.order, "order", "packed", "how units are enabled: packed or distributed")
	f.StringVar(&v.mask, "mask", "", "`MASK` of compute units as HIP takes it, such as 0x11111111")
	f.StringVar(&v.policy, "policy", "", "runtime `POLICY`: 4.2, 6.x or 2026, or all to compare them")
	f.BoolVar(&v.options.Skip, "skip", false, "the dealer may skip an engine without room")
	f.BoolVar(&v.options.NoCut, "no-cut", false, "slots of a workload manager may not overtake each other")
	f.BoolVar(&v.options.Resources, "resources", false, "count waves, registers, LDS and groups, not only work-items")
	f.BoolVar(&v.options.WaveCap, "wave-cap", false, "at most 32 waves for each unit of the device in flight")
	f.BoolVar(&v.options.PerDie, "per-die", false, "deal to dies first")
	f.StringVar(&v.view, "view", pane.DispatchTime, "`VIEW` to show: "+names(pane.DispatchViews(), pane.View.String))
	f.IntVar(&v.at, "at", -1, "`TICK` of the timeline to stop at")
	f.StringVar(&v.why, "why", "", "the causes of the start of `KERNEL,BLOCK`")
	f.BoolVar(&v.trace, "trace", false, "print every event")
	f.StringVar(&v.packet, "packet", "", "explain the `HEX` digits of a packet")
	f.StringVar(&v.queues, "create-queues", "", "how queues are made, `PROCESSES,QUEUES` of each")
	f.BoolVar(&v.driver, "without-scheduler", false, "queues are mapped by the driver, not by the firmware")
	f.BoolVar(&v.asJSON, "json", false, "print everything as JSON")
	f.StringVar(&v.events, "events", "", "write the events into `FILE`, as a trace; for Perfetto where it ends in .chrome.json")
	f.StringVar(&v.on, "on", "model", "`MACHINE`: model (AMD's dispatch), gpu (the attached NVIDIA GPU) or recorded (one that was there once)")
	f.IntVar(&v.micros, "micros", 20, "µs of a tick (with --on gpu)")
	draw = addPictureFlags(cmd)
	return cmd
}

func runDispatch(cmd *cobra.Command, args []string, v dispatchFlags, draw *pictureFlags) error {
	w := cmd.OutOrStdout()
	switch {
	case v.packet != "":
		return explainPacket(w, v.packet, v.asJSON)
	case v.queues != "":
		return createQueues(cmd, v, draw)
	case len(args) == 0 && cmd.Flags().NFlag() == 0:
		tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
		fmt.Fprintln(tw, "scenario\twhat it shows")
		for _, e := range dispatch.Examples() {
			fmt.Fprintf(tw, "%s\t%s\n", e.Name, e.Doc)
		}
		for _, x := range recorded.Launches() {
			fmt.Fprintf(tw, "%s\t%s; also --on recorded and --on gpu\n", x.Name, strings.ToLower(x.Title[:1])+x.Title[1:])
		}
		return tw.Flush()
	}
	if v.on != "model" {
		return blocksOf(cmd, args, v, draw)
	}
	if v.policy == "all" {
		return comparePolicies(cmd, args, v, draw)
	}
	p, err := dispatchProgram(cmd, args, v)
	if err != nil {
		return err
	}
	view, err := pane.FindView(pane.DispatchViews(), v.view)
	if err != nil {
		return usageError{fmt.Errorf("--view: %w", err)}
	}
	switch view {
	case pane.DispatchWhy:
		if v.why == "" {
			return usageError{fmt.Errorf("--view %q: name the block with --why KERNEL,BLOCK", v.view)}
		}
	case pane.DispatchStairs:
		if len(args) > 0 {
			return usageError{fmt.Errorf("--view %s is of the kernel that flags describe", v.view)}
		}
		return showStairs(cmd, v, p, draw)
	case pane.DispatchQueue:
		return usageError{fmt.Errorf("--view %q: how many are made say --create-queues PROCESSES,QUEUES", v.view)}
	case pane.DispatchPackets:
		return usageError{errors.New("--view packets: --packet HEX explains one, and --json has those of a program")}
	}
	r, err := p.Run()
	if err != nil {
		return err
	}
	if v.why != "" {
		return showWhy(cmd, v, r, draw)
	}
	if v.events != "" {
		return writeTrace(w, v.events, r.Trace(p.Title))
	}
	if draw.wanted() {
		pic, err := timeline.Gantt(r, p.Title, v.at, draw.options())
		if err != nil {
			return err
		}
		if err := draw.write(cmd, pic); err != nil || !v.asJSON {
			return err
		}
	}
	if v.asJSON {
		return printJSON(w, struct {
			Program dispatch.Program `json:"program"`
			Result  *dispatch.Result `json:"result"`
		}{p, r})
	}
	return printDispatch(w, v, p, r)
}

// dispatchProgram is the scenario of the arguments, or the kernel of the flags.
func dispatchProgram(cmd *cobra.Command, args []string, v dispatchFlags) (dispatch.Program, error) {
	var p dispatch.Program
	if len(args) > 0 {
		e, err := dispatch.FindExample(args[0])
		p = e.Program
		if x, bad := recorded.Find(args[0]); bad == nil {
			p, err = x.Program, nil
		}
		if err != nil {
			file, open := os.Open(args[0])
			if open != nil {
				if strings.ContainsAny(args[0], "./") {
					return p, open
				}
				return p, err
			}
			defer file.Close()
			if p, err = dispatch.ReadProgram(file); err != nil {
				return p, fmt.Errorf("%s: %w", args[0], err)
			}
		}
		for _, name := range []string{"blocks", "threads", "ticks", "vgprs", "lds", "cus", "order", "mask"} {
			if cmd.Flags().Changed(name) {
				return p, usageError{fmt.Errorf("--%s describes a kernel of its own; %s has its own kernels", name, args[0])}
			}
		}
	} else {
		k := v.kernel
		k.Name = "kernel"
		m := dispatch.RadeonVII()
		p.Title = fmt.Sprintf("%d blocks on a %s", k.Blocks, m.Name)
		stream := dispatch.Stream{Name: "stream", Mask: v.mask}
		if v.cus != 0 {
			if v.mask != "" {
				return p, usageError{errors.New("--cus and --mask both say which units are enabled; choose one")}
			}
			if v.cus < 0 || v.cus > m.Engines()*m.CUs {
				return p, usageError{fmt.Errorf("--cus %d: the machine has %d", v.cus, m.Engines()*m.CUs)}
			}
			switch v.order {
			case "packed":
				k.Mask = m.Packed(v.cus)
			case "distributed":
				k.Mask = m.Distributed(v.cus)
			default:
				return p, usageError{fmt.Errorf("--order %q: there are packed and distributed", v.order)}
			}
			p.Title += fmt.Sprintf(" with %d units, %s", v.cus, v.order)
		}
		if v.mask != "" {
			p.Title += " with mask " + v.mask
		}
		p.Machine, p.Streams, p.Launches = m, []dispatch.Stream{stream}, []dispatch.Launch{{Stream: "stream", Kernel: k}}
	}
	o := &p.Options
	o.Skip, o.NoCut, o.Resources = o.Skip || v.options.Skip, o.NoCut || v.options.NoCut, o.Resources || v.options.Resources
	o.WaveCap, o.PerDie = o.WaveCap || v.options.WaveCap, o.PerDie || v.options.PerDie
	if v.policy != "" {
		policy, err := dispatch.ParsePolicy(v.policy)
		if err != nil {
			return p, usageError{err}
		}
		p.Policy = policy
	}
	return p, nil
}

// blocksOf shows the blocks of a launch on a GPU: the attached one, or the recorded.
func blocksOf(cmd *cobra.Command, args []string, v dispatchFlags, draw *pictureFlags) error {
	var t *trace.Trace
	var err error
	switch v.on {
	case "recorded":
		if len(args) == 0 {
			return usageError{errors.New("--on recorded shows a launch that is recorded: uneven or two-kernels")}
		}
		if t, err = recorded.Trace(args[0]); err != nil {
			return usageError{err}
		}
	case "gpu":
		p, err := dispatchProgram(cmd, args, v)
		if err != nil {
			return err
		}
		list, err := blocktrace.Kernels(p, v.micros)
		if err != nil {
			return usageError{err}
		}
		if t, err = blocktrace.Run(0, p.Title, list); err != nil {
			return err
		}
	default:
		return usageError{fmt.Errorf("--on %q: there are model, gpu and recorded", v.on)}
	}
	if draw.wanted() {
		pic, err := timeline.Blocks(t, v.at, draw.options())
		if err != nil {
			return err
		}
		return draw.write(cmd, pic)
	}
	w := cmd.OutOrStdout()
	switch {
	case v.events != "":
		return writeTrace(w, v.events, t)
	case v.asJSON:
		return printJSON(w, t)
	}
	pic, err := timeline.Blocks(t, -1, draw.options())
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s, on %s, %s\n%s\n", t.Title, t.Machine, t.Made, pic.Desc)
	if v.trace {
		for _, e := range t.Events {
			fmt.Fprintf(w, "%9.1f–%.1f µs  #%-4d %s  (because of %v) [%s]\n", float64(e.Start)/1000, float64(e.End)/1000, e.ID, e.Text, e.Causes, e.Tag)
		}
	}
	return nil
}

// comparePolicies runs a scenario under every policy.
func comparePolicies(cmd *cobra.Command, args []string, v dispatchFlags, draw *pictureFlags) error {
	if draw.wanted() || v.why != "" || v.view != "timeline" {
		return usageError{errors.New("--policy all compares as text or JSON; draw one policy at a time")}
	}
	w := cmd.OutOrStdout()
	results := map[dispatch.Policy]*dispatch.Result{}
	for i, x := range dispatch.Policies() {
		v.policy = string(x.Policy)
		p, err := dispatchProgram(cmd, args, v)
		if err != nil {
			return err
		}
		r, err := p.Run()
		if err != nil {
			return err
		}
		results[x.Policy] = r
		if v.asJSON {
			continue
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "ROCm %s: %s.\n", x.Policy, x.Doc)
		if err := printDispatch(w, v, p, r); err != nil {
			return err
		}
	}
	if v.asJSON {
		return printJSON(w, results)
	}
	return nil
}

func printDispatch(w io.Writer, v dispatchFlags, p dispatch.Program, r *dispatch.Result) error {
	fmt.Fprintf(w, "%s. %s\n\n", strings.TrimSuffix(p.Title, "."), timeline.Sentence(r))
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "packet\tqueue\tACE\tbarrier bit\tpublished\ttaken\tfirst block\tcomplete\tblocks")
	tick := func(n int) string {
		if n < 0 {
			return "never"
		}
		return strconv.Itoa(n)
	}
	for _, k := range r.Runs {
		barrier := "no"
		if k.Barrier {
			barrier = "yes"
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\t%d\n", k.Name, k.Queue, k.ACE, barrier, k.Arrive, tick(k.Launch), tick(k.Start), tick(k.Finish), len(k.Blocks))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(r.Runs) == 1 && r.Runs[0].Kernel != nil {
		k := *r.Runs[0].Kernel
		if n, err := dispatch.Makespan(p.Machine, k, p.Options); err == nil {
			ticks := fmt.Sprint(n, " ticks")
			if n == 1 {
				ticks = "1 tick"
			}
			fmt.Fprintf(w, "\nBy the formula it takes %s.", ticks)
		}
		if k.Mask != nil {
			fmt.Fprintf(w, " Units by engine: %v, as good as %d.", k.Mask.Count(), k.Mask.Balanced())
		}
		fmt.Fprintln(w)
	}
	if !v.trace {
		return nil
	}
	fmt.Fprintln(w)
	for _, e := range r.Events {
		fmt.Fprintf(w, "%s  [%s; %s]\n", e, e.Place, e.Tag)
	}
	if r.Cut {
		fmt.Fprintf(w, "… the trace keeps %d events\n", len(r.Events))
	}
	return nil
}

func showWhy(cmd *cobra.Command, v dispatchFlags, r *dispatch.Result, draw *pictureFlags) error {
	name, block, ok := strings.Cut(v.why, ",")
	n, err := strconv.Atoi(block)
	if !ok || err != nil {
		return usageError{fmt.Errorf("--why %q: write KERNEL,BLOCK", v.why)}
	}
	chain := r.Why(name, n)
	if chain == nil {
		return fmt.Errorf("the trace has no start of block %d of %q", n, name)
	}
	return showPath(cmd, chain, fmt.Sprintf("Why block %d of %s started at tick %d", n, name, chain[len(chain)-1].Tick), v.asJSON, draw, nil)
}

// showPath prints or draws a chain of events; more is what else JSON has.
func showPath(cmd *cobra.Command, chain []dispatch.Event, title string, asJSON bool, draw *pictureFlags, more any) error {
	if draw.wanted() {
		pic, err := timeline.Path(chain, title, draw.options())
		if err != nil {
			return err
		}
		if err := draw.write(cmd, pic); err != nil || !asJSON {
			return err
		}
	}
	w := cmd.OutOrStdout()
	if asJSON {
		if more != nil {
			return printJSON(w, more)
		}
		return printJSON(w, chain)
	}
	fmt.Fprintln(w, title)
	for _, e := range chain {
		fmt.Fprintf(w, "%4d  %-9s %-11s %s  [%s; %s]\n", e.Tick, e.Place.Side, e.Actor, e.Why, e.Place, e.Tag)
	}
	return nil
}

func showStairs(cmd *cobra.Command, v dispatchFlags, p dispatch.Program, draw *pictureFlags) error {
	k := p.Launches[0].Kernel
	k.Mask = nil
	if k.Blocks > 1<<16 {
		return usageError{fmt.Errorf("--blocks %d: a staircase is simulated 180 times, with at most %d blocks", k.Blocks, 1<<16)}
	}
	list, err := dispatch.Staircase(p.Machine, k, p.Options)
	if err != nil {
		return err
	}
	if draw.wanted() {
		pic, err := timeline.Stairs(list, p.Machine.CUs, v.cus, fmt.Sprintf("%d blocks of %d work-items over the number of compute units", k.Blocks, k.Threads), draw.options())
		if err != nil {
			return err
		}
		if err := draw.write(cmd, pic); err != nil || !v.asJSON {
			return err
		}
	}
	w := cmd.OutOrStdout()
	if v.asJSON {
		return printJSON(w, list)
	}
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "CUs\tpacked\tdistributed\tpacked, may skip\t")
	for _, s := range list {
		fmt.Fprintf(tw, "%d\t%d\t%d\t%d\t\n", s.CUs, s.Packed, s.Distributed, s.Skip)
	}
	return tw.Flush()
}

func createQueues(cmd *cobra.Command, v dispatchFlags, draw *pictureFlags) error {
	p, q, ok := strings.Cut(v.queues, ",")
	processes, err1 := strconv.Atoi(p)
	queues, err2 := strconv.Atoi(q)
	if !ok || err1 != nil || err2 != nil {
		return usageError{fmt.Errorf("--create-queues %q: write PROCESSES,QUEUES", v.queues)}
	}
	c := dispatch.Creation{Scheduler: !v.driver, Processes: processes, Queues: queues}
	if v.mask != "" {
		var err error
		if c.Mask, err = dispatch.ParseMask(v.mask); err != nil {
			return err
		}
	}
	events, slots, err := dispatch.CreateQueues(c)
	if err != nil {
		return err
	}
	// The last queue's story is the one with everything in it.
	from := 0
	for i, e := range events {
		if e.Step == "create" {
			from = i
		}
	}
	how := "with the hardware scheduler"
	if v.driver {
		how = "without the hardware scheduler"
	}
	title := fmt.Sprintf("How queue %d of process %d is made, %s", queues-1, processes-1, how)
	err = showPath(cmd, events[from:], title, v.asJSON, draw, map[string]any{"trace": dispatch.QueueTrace(title, events), "hardware_queues": slots})
	if err != nil || v.asJSON || draw.wanted() {
		return err
	}
	w := cmd.OutOrStdout()
	fmt.Fprintln(w, "\nhardware queues (process.queue, · free):")
	rows := map[int][]string{}
	last := 0
	for _, s := range slots {
		cell := "·"
		if s.Process >= 0 {
			cell = fmt.Sprintf("%d.%d", s.Process, s.Number)
		}
		rows[s.Pipe] = append(rows[s.Pipe], cell)
		last = max(last, s.Pipe)
	}
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	for pipe := range last + 1 {
		fmt.Fprintf(tw, "pipe %d (ACE %d)\t%s\n", pipe, pipe, strings.Join(rows[pipe], "\t"))
	}
	return tw.Flush()
}

func explainPacket(w io.Writer, text string, asJSON bool) error {
	raw, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return usageError{fmt.Errorf("--packet: %w", err)}
	}
	fields, err := dispatch.Explain(raw)
	if err != nil {
		return err
	}
	_, bad := dispatch.Decode(raw)
	if asJSON {
		says := ""
		if bad != nil {
			says = bad.Error()
		}
		return printJSON(w, map[string]any{"fields": fields, "error": says})
	}
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "byte\tfield\tbytes as they lie\tvalue\twhat it is")
	for _, f := range fields {
		fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t%s\n", f.Offset, f.Name, f.Hex, f.Meaning, f.Doc)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	return bad
}
