package dispatch

import (
	"fmt"
)

// MapOptions choose how a mask meets the hardware.
type MapOptions struct {
	WGP bool // gfx10 and later: units go in pairs
	// Active are the units of each shader array that work, by engine (of one die) and
	// array; nil means all.
	Active [][]int
}

// MapCUMask maps the bits of a mask to compute units as the driver does: it walks
// units, within them shader arrays, within them shader engines, and each unit that
// there is takes the next bit; on several dies bit i belongs to die i mod dies
// first. Units of the second array stand in the upper 16 bits of an engine's word.
// In WGP mode a pair is on if one of its two bits is. Bits behind the last unit
// mean nothing.
//
// Source: Linux amdkfd kfd_mqd_manager.c, mqd_symmetrically_map_cu_mask.
func (m Machine) MapCUMask(mask []uint32, o MapOptions) ([]uint32, error) {
	m = m.filled()
	if err := m.check(); err != nil {
		return nil, err
	}
	perSH := m.CUs / m.SHs
	if perSH > 16 {
		return nil, fmt.Errorf("dispatch: %d compute units in a shader array; a mask of the driver has bits for 16", perSH)
	}
	active := func(se, sh int) int {
		if o.Active == nil {
			return perSH
		}
		if se < len(o.Active) && sh < len(o.Active[se]) {
			return min(o.Active[se][sh], perSH)
		}
		return 0
	}
	step, enable := 1, uint32(1)
	if o.WGP {
		step, enable = 2, 3
	}
	out := make([]uint32, m.Dies*m.SEs)
	bit := func(i int) uint32 {
		if i/32 >= len(mask) {
			return 0
		}
		return mask[i/32] >> (i % 32) & 1
	}
	for die := range m.Dies {
		i := die
		for cu := 0; cu < 16; cu += step {
			for sh := range m.SHs {
				for se := range m.SEs {
					if active(se, sh) <= cu {
						continue
					}
					on := bit(i)
					if o.WGP {
						on |= bit(i + 1)
					}
					if on != 0 {
						out[die*m.SEs+se] |= enable << (cu + 16*sh)
					}
					i += step * m.Dies
				}
			}
		}
	}
	return out, nil
}

// FromSEMask turns the driver's words into a [Mask]: units of the second array follow
// those of the first.
func (m Machine) FromSEMask(words []uint32) Mask {
	m = m.filled()
	perSH := m.CUs / m.SHs
	out := make(Mask, len(words))
	for i, w := range words {
		out[i] = uint64(w&0xffff) & (1<<perSH - 1)
		if m.SHs == 2 {
			out[i] |= uint64(w>>16) & (1<<perSH - 1) << perSH
		}
	}
	return out
}

// DieOfBit is the die that a bit of a mask belongs to.
func DieOfBit(bit, dies int) int { return bit % dies }

// Hardware is the part of a device that hardware queues live in. The zero value of a
// number means that of gfx9.
//
// Source: Linux amdgpu_gfx.c and amdkfd.
type Hardware struct {
	MECs          int `json:"mecs,omitempty"`            // that are used
	Pipes         int `json:"pipes,omitempty"`           // of a MEC; each is an ACE
	QueuesPerPipe int `json:"queues_per_pipe,omitempty"` // HQDs of a pipe
	Kernel        int `json:"kernel_queues,omitempty"`   // that the graphics driver keeps; -1 for none
	MaxProcesses  int `json:"max_processes,omitempty"`   // at once, of the scheduler
}

func (h Hardware) filled() Hardware {
	for _, f := range []struct {
		to   *int
		from int
	}{{&h.MECs, 1}, {&h.Pipes, 4}, {&h.QueuesPerPipe, 8}, {&h.Kernel, 8}, {&h.MaxProcesses, 8}} {
		if *f.to == 0 {
			*f.to = f.from
		}
	}
	h.Kernel = max(0, h.Kernel)
	return h
}

// Total and User count hardware queues, all and those for programs.
func (h Hardware) Total() int { h = h.filled(); return h.MECs * h.Pipes * h.QueuesPerPipe }
func (h Hardware) User() int  { return max(0, h.Total()-h.filled().Kernel) }

// OversubscribedLog is what the driver prints when a run list asks for too much.
const OversubscribedLog = "Runlist is getting oversubscribed. Expect reduced ROCm performance."

// Oversubscribed says whether a run list of so many processes and compute queues
// asks for more than there is, so that the firmware must take turns. More than one
// queue with global wave sync also does.
//
// Source: Linux kfd_packet_manager.c.
func (h Hardware) Oversubscribed(processes, queues, gws int) bool {
	return processes > h.filled().MaxProcesses || queues > h.User() || gws > 1
}

// Creation asks for the trace of making queues.
type Creation struct {
	Hardware  Hardware `json:"hardware,omitzero"`
	Machine   Machine  `json:"machine,omitzero"`
	Scheduler bool     `json:"scheduler"` // the firmware schedules; else the driver does
	Processes int      `json:"processes"`
	Queues    int      `json:"queues"`         // of each process
	Mask      []uint32 `json:"mask,omitempty"` // of every queue
}

// HQD is a hardware queue and who has it.
type HQD struct {
	Pipe    int `json:"pipe"`
	Queue   int `json:"queue"`
	Process int `json:"process"` // -1 if free
	Number  int `json:"number"`  // queue of the process
}

// CreateQueues makes queues for processes, one after the other, and returns the
// trace and what the hardware queues hold at the end. With the scheduler the driver
// sends a new run list for each queue and the firmware maps it; without it the
// driver picks a hardware queue, and says "busy" when there is none.
func CreateQueues(c Creation) ([]Event, []HQD, error) {
	hw := c.Hardware.filled()
	if c.Processes < 1 || c.Queues < 1 || c.Processes*c.Queues > 256 || c.Processes > 256 {
		return nil, nil, fmt.Errorf("dispatch: %d processes of %d queues; there must be 1 to 256 queues", c.Processes, c.Queues)
	}
	if hw.Total() > 1<<12 || hw.MECs < 1 || hw.Pipes < 1 || hw.QueuesPerPipe < 1 {
		return nil, nil, fmt.Errorf("dispatch: %d hardware queues; there must be 1 to %d", hw.Total(), 1<<12)
	}
	var words []uint32
	if c.Mask != nil {
		var err error
		if words, err = c.Machine.MapCUMask(c.Mask, MapOptions{}); err != nil {
			return nil, nil, err
		}
	}
	// The driver's own queues are taken from every pipe alike (assumed).
	var slots []HQD
	for q := range hw.QueuesPerPipe {
		for p := range hw.MECs * hw.Pipes {
			if len(slots) < hw.User() {
				slots = append(slots, HQD{Pipe: p, Queue: q, Process: -1})
			}
		}
	}
	t := newStory(DefaultEvents)
	last, mapped := -1, 0
	say := func(step, actor, why string, args ...any) {
		last = t.add(Event{Step: step, Actor: actor, Block: -1, Cause: last, Why: fmt.Sprintf(why, args...)})
	}
	total := 0
	for p := range c.Processes {
		for q := range c.Queues {
			name := fmt.Sprintf("queue %d of process %d", q, p)
			last = -1
			say("create", fmt.Sprintf("process %d", p), "hsa_queue_create asks for %s, %d packets", name, QueuePackets)
			say("ring", fmt.Sprintf("process %d", p), "a ring of %d bytes is allocated, every header INVALID (0x0001)", QueuePackets*PacketBytes)
			say("ioctl", fmt.Sprintf("process %d", p), "AMDKFD_IOC_CREATE_QUEUE: from here on the driver works")
			say("enter", "driver", "ring, read and write pointers and the priority of %s are checked", name)
			say("register", "driver", "%s gets its number and its doorbell", name)
			say("mqd", "driver", "the MQD of %s holds ring base, size, pointers, doorbell, priority", name)
			if words != nil {
				say("mask", "driver", "mask %s becomes %v for the shader engines", FormatMask(c.Mask), c.Machine.FromSEMask(words))
			}
			if c.Scheduler {
				total++
				say("list", "driver", "%s is one of %s of %s", name, plural(total, "queue"), plural(p+1, "process"))
				if mapped > 0 {
					say("unmap", "driver", "UNMAP_QUEUES through the HIQ: the firmware saves %s into MQDs", plural(mapped, "mapped queue"))
				}
				say("runlist", "driver", "RUN_LIST through the HIQ: %s, %s", plural(p+1, "process"), plural(total, "MQD"))
				if hw.Oversubscribed(p+1, total, 0) {
					say("oversubscribed", "driver", "%s (%d queues for %d hardware queues, %d processes for %d)", OversubscribedLog, total, len(slots), p+1, hw.MaxProcesses)
				}
				for i := range slots {
					slots[i].Process = -1
				}
				mapped = 0
				for i := range min(total, len(slots)) {
					if i/c.Queues < hw.MaxProcesses {
						slots[i].Process, slots[i].Number = i/c.Queues, i%c.Queues
						mapped++
					}
				}
				if mapped == total {
					s := slots[total-1]
					say("map", "firmware", "%s is mapped to pipe %d (ACE %d), hardware queue %d; queues go round the pipes", name, s.Pipe, s.Pipe, s.Queue)
				} else {
					say("map", "firmware", "%d of %d queues are mapped; the others wait for their turn in the run list", mapped, total)
				}
			} else {
				if total == len(slots) {
					say("busy", "driver", "no hardware queue is left for %s: the call fails with EBUSY", name)
					continue
				}
				s := &slots[total]
				s.Process, s.Number = p, q
				total++
				say("hqd", "driver", "pipe %d, hardware queue %d is free: %s takes it; the next search begins at the next pipe", s.Pipe, s.Queue, name)
				say("load", "driver", "the MQD of %s is written into the registers of that HQD", name)
			}
			say("mapped", fmt.Sprintf("process %d", p), "the doorbell page of %s is mapped: launches write packets and ring, without the driver", name)
		}
	}
	return t.events, slots, nil
}

func plural(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case what == "process":
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}
