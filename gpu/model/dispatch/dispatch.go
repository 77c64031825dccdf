// Package dispatch models how an AMD GPU starts the blocks of a kernel, from the
// HIP call to the compute unit, so that one can ask of every block why it started
// when it did.
//
// The way of a launch, with the file that models it:
//
//	HIP call → stream → HSA queue of a pool (rocclr.go) → AQL packet of 64 bytes
//	(aql.go) → ring buffer and doorbell (ring.go) ‖ MQD → run list → HQD (kfd.go) →
//	ACE → shader engine → workload manager → compute unit (sim.go, cu.go)
//
// ‖ is the border between user code and driver: the driver makes queues, but no
// launch passes through it.
//
// The machine at the end follows five rules, R1 to R5 of [Run]. They have a
// consequence that surprises: the blocks of a kernel are dealt to shader engines in
// order, so that one engine with few compute units stalls all others. [Makespan] is
// the same as a formula, [Staircase] draws it over the number of compute units.
//
// Time is in whole ticks; everything but a block's work takes none. The same
// scenario gives the same trace. What is known from where is told by [Tag].
//
// Source: N. Otterness, J. Anderson, "Exploring AMD GPU scheduling details by
// experimenting with 'worst practices'", RTNS 2021; ROCm and Linux sources as named
// by [Steps].
package dispatch

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Tag says where a fact comes from.
type Tag string

// The tags.
const (
	Vendor  Tag = "vendor"  // the vendor's documents and sources
	Paper   Tag = "paper"   // papers, measurements, remarks of engineers
	Derived Tag = "derived" // calculated from those
	Assumed Tag = "assumed" // a choice of this model
)

// Machine is a GPU as far as dispatch goes. The zero value of a number means that
// of [RadeonVII].
type Machine struct {
	Name string `json:"name,omitempty"`
	Dies int    `json:"dies,omitempty"` // with shader engines of their own
	SEs  int    `json:"shader_engines,omitempty"`
	SHs  int    `json:"sh_per_se,omitempty"` // shader arrays of an engine
	CUs  int    `json:"cu_per_se,omitempty"` // compute units of an engine, of all its arrays
	ACEs int    `json:"aces,omitempty"`      // asynchronous compute engines
	CU   CU     `json:"cu,omitzero"`
}

// RadeonVII is the GPU of the experiments: one die, 4 shader engines of 15 compute
// units, 4 ACEs.
func RadeonVII() Machine {
	return Machine{Name: "Radeon VII", Dies: 1, SEs: 4, SHs: 1, CUs: 15, ACEs: 4, CU: GFX9()}
}

// filled is the machine with defaults for zeros.
func (m Machine) filled() Machine {
	d := RadeonVII()
	for _, f := range []struct{ to, from *int }{{&m.Dies, &d.Dies}, {&m.SEs, &d.SEs}, {&m.SHs, &d.SHs}, {&m.CUs, &d.CUs}, {&m.ACEs, &d.ACEs}} {
		if *f.to == 0 {
			*f.to = *f.from
		}
	}
	m.CU = m.CU.filled()
	return m
}

// Limits of machines and scenarios, so that files of strangers cannot exhaust memory.
const (
	MaxSEs     = 64
	MaxCUs     = 64 // of a shader engine
	MaxACEs    = 16
	MaxBlocks  = 1 << 24
	MaxThreads = 1 << 16
	MaxTicks   = 1 << 30
	MaxKernels = 1 << 16
)

func (m Machine) check() error {
	switch {
	case m.Dies < 1 || m.SEs < 1 || m.Dies*m.SEs > MaxSEs:
		return fmt.Errorf("dispatch: %d dies of %d shader engines; there must be 1 to %d engines", m.Dies, m.SEs, MaxSEs)
	case m.CUs < 1 || m.CUs > MaxCUs:
		return fmt.Errorf("dispatch: %d compute units in a shader engine; there must be 1 to %d", m.CUs, MaxCUs)
	case m.SHs < 1 || m.SHs > 2 || m.CUs%m.SHs != 0:
		return fmt.Errorf("dispatch: %d shader arrays for %d compute units; there must be 1 or 2 equal ones", m.SHs, m.CUs)
	case m.ACEs < 1 || m.ACEs > MaxACEs:
		return fmt.Errorf("dispatch: %d ACEs; there must be 1 to %d", m.ACEs, MaxACEs)
	}
	return m.CU.check()
}

// Engines is how many shader engines all dies have.
func (m Machine) Engines() int { m = m.filled(); return m.Dies * m.SEs }

// Mask says which compute units may be used: bit c of element s is unit c of shader
// engine s, engines of die 0 first. A nil mask allows all.
type Mask []uint64

// All allows every compute unit of the machine.
func (m Machine) All() Mask {
	m = m.filled()
	out := make(Mask, m.Dies*m.SEs)
	for i := range out {
		out[i] = 1<<m.CUs - 1
	}
	return out
}

// Packed allows n units that fill one shader engine after the other.
func (m Machine) Packed(n int) Mask {
	m = m.filled()
	out := make(Mask, m.Dies*m.SEs)
	for i := range out {
		k := max(0, min(n-i*m.CUs, m.CUs))
		out[i] = 1<<k - 1
	}
	return out
}

// Distributed allows n units dealt to the shader engines in turn.
func (m Machine) Distributed(n int) Mask {
	m = m.filled()
	out := make(Mask, m.Dies*m.SEs)
	for i := range min(n, len(out)*m.CUs) {
		out[i%len(out)] |= 1 << (i / len(out))
	}
	return out
}

// Count is how many units the mask allows in each engine.
func (k Mask) Count() []int {
	out := make([]int, len(k))
	for i, b := range k {
		out[i] = bits.OnesCount64(b)
	}
	return out
}

// Balanced is how many units' worth of work the mask really gives a kernel whose
// blocks are dealt in order: engines in use times the units of the smallest.
func (k Mask) Balanced() int {
	used, least := 0, 0
	for _, n := range k.Count() {
		if n > 0 {
			used++
			if least == 0 || n < least {
				least = n
			}
		}
	}
	return used * least
}

func (k Mask) String() string {
	s := make([]string, len(k))
	for i, b := range k {
		s[i] = "0x" + strconv.FormatUint(b, 16)
	}
	return strings.Join(s, " ")
}

// FlatID is the flattened number of a block: x first, then y, then z. It is the
// order in which blocks are dealt, and what HSA's guarantee of progress is about.
func FlatID(block, grid [3]int) int { return block[0] + grid[0]*(block[1]+grid[1]*block[2]) }

// Place is the code that does a step, as far as its source is public.
type Place struct {
	Side      string `json:"side"` // "user", "driver", "firmware" or "hardware"
	Component string `json:"component"`
	File      string `json:"file,omitempty"`
	Function  string `json:"function,omitempty"`
}

func (p Place) String() string {
	s := p.Component
	if p.File != "" {
		s += " " + p.File
	}
	if p.Function != "" {
		s += " " + p.Function
	}
	return s
}

// Step is what an event can be.
type Step struct {
	Name string `json:"name"`
	Doc  string `json:"doc"`
	Tag  Tag    `json:"tag"`
	Place
}

// Steps lists what events can be, in the order of a launch and then of making a
// queue. Names of files and functions are those of the sources: ROCm/clr,
// ROCm/ROCR-Runtime (with libhsakmt) and Linux's amdkfd and amdgpu.
func Steps() []Step {
	hip := Place{"user", "HIP", "hipamd/src/hip_module.cpp", "hipModuleLaunchKernel"}
	clr := func(file, function string) Place {
		return Place{"user", "ROCclr", "rocclr/device/rocm/" + file, function}
	}
	rocr := func(file, function string) Place {
		return Place{"user", "ROCR", "runtime/hsa-runtime/core/runtime/" + file, function}
	}
	kfd := func(file, function string) Place {
		return Place{"driver", "amdkfd", "drivers/gpu/drm/amd/amdkfd/" + file, function}
	}
	hws := Place{Side: "firmware", Component: "HWS (MEC firmware)"}
	ace := Place{Side: "hardware", Component: "ACE"}
	spi := Place{Side: "hardware", Component: "Workgroup Manager (SPI)"}
	cu := Place{Side: "hardware", Component: "compute unit"}
	return []Step{
		{"launch", "the program asks for a kernel", Vendor, hip},
		{"stream", "a stream is bound to an HSA queue of the pool", Vendor, clr("rocdevice.cpp", "Device::acquireQueue")},
		{"command", "the launch becomes a command of its stream", Vendor, clr("rocvirtual.cpp", "VirtualGPU::submitKernel")},
		{"packet", "the command becomes an AQL packet", Vendor, clr("rocvirtual.cpp", "VirtualGPU::dispatchGenericAqlPacket")},
		{"publish", "the header is stored last: the packet is valid", Vendor, clr("rocvirtual.cpp", "packet_store_release")},
		{"doorbell", "the index is stored to the doorbell", Vendor, rocr("amd_aql_queue.cpp", "AqlQueue::StoreRelaxed")},
		{"take", "the ACE takes a packet from one of its queues", Paper, ace},
		{"hold", "a packet must wait", Vendor, ace},
		{"pass", "a barrier packet is satisfied", Vendor, ace},
		{"deal", "the ACE deals a block to a shader engine", Paper, ace},
		{"stall", "the ACE cannot deal its next block", Paper, ace},
		{"park", "a block stays in its slot of the workload manager", Paper, spi},
		{"start", "a block gets a compute unit", Paper, spi},
		{"spin", "a running block waits for another one", Vendor, cu},
		{"finish", "a block has ended", Paper, cu},
		{"complete", "all blocks of a kernel have ended; its signal is decremented", Vendor, ace},
		{"deadlock", "nothing can happen any more", Derived, ace},

		{"create", "a queue is asked for", Vendor, rocr("hsa.cpp", "hsa_queue_create")},
		{"ring", "its ring buffer is allocated, every slot INVALID", Vendor, rocr("amd_aql_queue.cpp", "AqlQueue::AqlQueue")},
		{"ioctl", "the request crosses the border to the driver", Vendor, Place{"user", "libhsakmt", "libhsakmt/src/queues.c", "hsaKmtCreateQueue"}},
		{"enter", "the driver takes the request", Vendor, kfd("kfd_chardev.c", "kfd_ioctl_create_queue")},
		{"register", "the queue joins its process", Vendor, kfd("kfd_process_queue_manager.c", "pqm_create_queue")},
		{"mqd", "its memory queue descriptor is filled in", Vendor, kfd("kfd_mqd_manager_v9.c", "init_mqd")},
		{"mask", "the mask of compute units is mapped to shader engines", Vendor, kfd("kfd_mqd_manager.c", "mqd_symmetrically_map_cu_mask")},
		{"list", "the queue joins the device's queues", Vendor, kfd("kfd_device_queue_manager.c", "create_queue_cpsch")},
		{"unmap", "the queues that are mapped are preempted", Vendor, kfd("kfd_device_queue_manager.c", "unmap_queues_cpsch")},
		{"runlist", "a list of all processes' MQDs is sent through the HIQ", Vendor, kfd("kfd_packet_manager.c", "pm_send_runlist")},
		{"oversubscribed", "the run list asks for more than there is", Vendor, kfd("kfd_packet_manager.c", "pm_create_runlist_ib")},
		{"map", "the scheduler maps an MQD to a hardware queue", Assumed, hws},
		{"hqd", "the driver picks a hardware queue", Vendor, kfd("kfd_device_queue_manager.c", "allocate_hqd")},
		{"load", "the driver writes the MQD into the registers of the HQD", Vendor, Place{"driver", "amdgpu", "drivers/gpu/drm/amd/amdgpu/amdgpu_amdkfd_gfx_v9.c", "kgd_gfx_v9_hqd_load"}},
		{"busy", "there is no hardware queue left", Vendor, kfd("kfd_device_queue_manager.c", "allocate_hqd")},
		{"mapped", "the doorbell is mapped into the process; launches need no driver from here", Vendor, rocr("amd_aql_queue.cpp", "AqlQueue::AqlQueue")},
	}
}

// Event is one line of a trace.
type Event struct {
	Seq    int    `json:"seq"`
	Tick   int    `json:"tick"`
	Step   string `json:"step"`  // a row of [Steps]
	Actor  string `json:"actor"` // who, such as "ACE 0" or "SE 2 CU 7"
	Queue  string `json:"queue,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	Block  int    `json:"block"` // -1 where it is about no block
	Cause  int    `json:"cause"` // the event that made this one possible; -1 for none
	Why    string `json:"why"`   // one sentence
	Data   string `json:"data,omitempty"`
	Tag    Tag    `json:"tag"`
	Place  Place  `json:"where"`
}

func (e Event) String() string {
	s := fmt.Sprintf("%4d  #%-4d %-9s %-12s %s", e.Tick, e.Seq, e.Step, e.Actor, e.Why)
	if e.Cause >= 0 {
		s += fmt.Sprintf("  (because of #%d)", e.Cause)
	}
	return s
}

// story collects events up to a limit.
type story struct {
	events []Event
	limit  int
	cut    bool
	steps  map[string]Step
}

func newStory(limit int) *story {
	t := &story{limit: limit, steps: map[string]Step{}}
	for _, s := range Steps() {
		t.steps[s.Name] = s
	}
	return t
}

// on reports whether further events are kept; sentences need not be made if not.
func (t *story) on() bool {
	if len(t.events) < t.limit {
		return true
	}
	t.cut = true
	return false
}

// add appends an event and returns its number, -1 where it is not kept.
func (t *story) add(e Event) int {
	if !t.on() {
		return -1
	}
	s, ok := t.steps[e.Step]
	if !ok {
		panic("dispatch: no step " + e.Step)
	}
	e.Seq, e.Tag, e.Place = len(t.events), s.Tag, s.Place
	t.events = append(t.events, e)
	return e.Seq
}

// Chain follows causes back from an event and returns them, the first one first:
// the answer to why it happened.
func Chain(events []Event, seq int) []Event {
	var out []Event
	for seq >= 0 && seq < len(events) {
		out = append(out, events[seq])
		seq = events[seq].Cause // always smaller
	}
	slices.Reverse(out)
	return out
}

// Why is the chain of causes that ended in the start of a block; nil where the
// trace does not have it.
func (r *Result) Why(kernel string, block int) []Event {
	for i := range r.Events {
		if e := &r.Events[i]; e.Step == "start" && e.Kernel == kernel && e.Block == block {
			return Chain(r.Events, i)
		}
	}
	return nil
}
