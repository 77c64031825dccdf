package dispatch

import (
	"errors"
	"fmt"
	"math/bits"
)

// Ring is the buffer of an HSA queue: slots of 64 bytes that a program fills and a
// packet processor empties.
type Ring struct {
	slots    [][PacketBytes]byte
	write    uint64
	read     uint64
	doorbell uint64 // the last index that rang, plus one
}

// QueuePackets is the size of the rings that ROCclr asks for.
const QueuePackets = 16384

// NewRing makes a ring of a power of two of slots, every header INVALID.
func NewRing(size int) (*Ring, error) {
	if size < 2 || size > 1<<20 || bits.OnesCount(uint(size)) != 1 {
		return nil, fmt.Errorf("dispatch: a ring of %d packets; the size must be a power of two from 2 to %d", size, 1<<20)
	}
	r := &Ring{slots: make([][PacketBytes]byte, size)}
	for i := range r.slots {
		r.slots[i][0] = byte(Invalid)
	}
	return r, nil
}

// Slot is where the packet of an index lies.
func (r *Ring) Slot(index uint64) int { return int(index & uint64(len(r.slots)-1)) }

// Bytes is a copy of the slot of an index.
func (r *Ring) Bytes(index uint64) [PacketBytes]byte { return r.slots[r.Slot(index)] }

// ErrFull is for a ring without room: the program must wait.
var ErrFull = errors.New("dispatch: the ring is full")

// The steps of publishing a packet, in the order that is right.
const (
	StepReserve  = "reserve index: add_write_index"
	StepWait     = "wait until index - read_index < size-1 (ROCclr) "
	StepBody     = "copy the body with the header still INVALID"
	StepHeader   = "store-release the first 32 bits = header | setup<<16"
	StepDoorbell = "store index to the doorbell"
)

// PublishOrder lists the steps of [Ring.Publish].
//
// Source: ROCR hsa.h; ROCclr's VirtualGPU::dispatchGenericAqlPacket.
func PublishOrder() []string {
	return []string{StepReserve, StepWait, StepBody, StepHeader, StepDoorbell}
}

// Publish puts a packet into the ring by the protocol, and returns its index. It
// returns [ErrFull] where the program would have to wait; ROCclr keeps one slot
// spare.
func (r *Ring) Publish(packet [PacketBytes]byte) (uint64, error) {
	if r.write-r.read >= uint64(len(r.slots)-1) {
		return 0, ErrFull
	}
	index := r.write
	for _, step := range PublishOrder() {
		r.do(step, index, packet)
	}
	return index, nil
}

// do performs one step.
func (r *Ring) do(step string, index uint64, packet [PacketBytes]byte) {
	s := &r.slots[r.Slot(index)]
	switch step {
	case StepReserve:
		r.write = index + 1
	case StepBody:
		copy(s[4:], packet[4:])
	case StepHeader:
		copy(s[:4], packet[:4])
	case StepDoorbell:
		r.doorbell = index + 1
	}
}

// Process is the packet processor: it reads the next packet if the doorbell rang
// for it and its header is valid, marks the slot INVALID again and moves on. It
// returns [ErrInvalid] where there is nothing to do.
func (r *Ring) Process() (Packet, error) {
	if r.read >= r.doorbell {
		return Packet{}, ErrInvalid
	}
	p, err := Decode(r.slots[r.Slot(r.read)][:])
	if err != nil {
		return Packet{}, err
	}
	r.slots[r.Slot(r.read)][0], r.slots[r.Slot(r.read)][1] = byte(Invalid), 0
	r.read++
	return p, nil
}

// Seen is what the packet processor reads between two steps of publishing.
type Seen struct {
	After string `json:"after"`
	Sees  string `json:"sees"`
	Wrong bool   `json:"wrong"` // it takes the packet for valid, and it is not
}

// Race performs the steps in any order into a slot that still holds the packet
// before, and says after each what a packet processor would see that looks just
// then, as it may even before the doorbell rings. It shows why the header is last.
func Race(order []string, before, packet [PacketBytes]byte) ([]Seen, error) {
	known := PublishOrder()
	r, err := NewRing(2)
	if err != nil {
		return nil, err
	}
	r.slots[0] = before
	r.slots[0][0], r.slots[0][1] = byte(Invalid), 0
	var out []Seen
	for _, step := range order {
		ok := false
		for _, k := range known {
			ok = ok || k == step
		}
		if !ok {
			return nil, fmt.Errorf("dispatch: no step %.60q of publishing", step)
		}
		r.do(step, 0, packet)
		seen := Seen{After: step}
		p, err := Decode(r.slots[0][:])
		switch {
		case errors.Is(err, ErrInvalid):
			seen.Sees = "INVALID: it waits"
		case err != nil:
			seen.Sees, seen.Wrong = "garbage: "+err.Error(), true
		case r.slots[0] != packet:
			seen.Sees, seen.Wrong = fmt.Sprintf("a %s packet with the body of the one before: kernel object %#x", p.Header.Type(), p.KernelObject), true
		default:
			seen.Sees = "the packet"
		}
		out = append(out, seen)
	}
	return out, nil
}
