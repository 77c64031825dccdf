package dispatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// PacketBytes is the size of every AQL packet and of a slot of a queue.
const PacketBytes = 64

// MaxDeps is how many signals a barrier packet waits for.
const MaxDeps = 5

// Type is the type of a packet, bits 7:0 of its header.
type Type uint8

// The types of packets.
const (
	VendorSpecific Type = iota
	Invalid             // the slot is empty, or its packet not yet published
	KernelDispatch
	BarrierAnd
	AgentDispatch
	BarrierOr
)

var typeNames = [...]string{"vendor_specific", "invalid", "kernel_dispatch", "barrier_and", "agent_dispatch", "barrier_or"}

// Types lists the names of the types by their number.
func Types() []string { return append([]string(nil), typeNames[:]...) }

func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// MarshalText is the type's name.
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a type's name.
func (t *Type) UnmarshalText(b []byte) error {
	for i, n := range typeNames {
		if n == string(b) {
			*t = Type(i)
			return nil
		}
	}
	return fmt.Errorf("dispatch: no packet type %.40q; there are %s", b, strings.Join(typeNames[:], ", "))
}

// Scope is how far memory is made visible before (acquire) or after (release) a
// packet.
type Scope uint8

// The scopes.
const (
	NoScope Scope = iota
	AgentScope
	SystemScope
)

var scopeNames = [...]string{"none", "agent", "system"}

func (s Scope) String() string {
	if int(s) < len(scopeNames) {
		return scopeNames[s]
	}
	return fmt.Sprintf("scope %d", uint8(s))
}

// Header is the first 16 bits of a packet: type 7:0, barrier bit 8, acquire scope
// 10:9, release scope 12:11.
//
// Source: ROCR hsa.h, hsa_packet_header_t.
type Header uint16

// NewHeader puts a header together.
func NewHeader(t Type, barrier bool, acquire, release Scope) Header {
	h := Header(t) | Header(acquire&3)<<9 | Header(release&3)<<11
	if barrier {
		h |= 1 << 8
	}
	return h
}

// Parts of a header.
func (h Header) Type() Type     { return Type(h) }
func (h Header) Barrier() bool  { return h>>8&1 != 0 }
func (h Header) Acquire() Scope { return Scope(h >> 9 & 3) }
func (h Header) Release() Scope { return Scope(h >> 11 & 3) }

func (h Header) String() string {
	b := "no barrier"
	if h.Barrier() {
		b = "barrier"
	}
	return fmt.Sprintf("%#04x: %s, %s, acquire %s, release %s", uint16(h), h.Type(), b, h.Acquire(), h.Release())
}

func (h Header) check() error {
	switch {
	case h.Type() > BarrierOr:
		return fmt.Errorf("dispatch: header %#04x: there is no packet type %d", uint16(h), h.Type())
	case h.Acquire() > SystemScope || h.Release() > SystemScope:
		return fmt.Errorf("dispatch: header %#04x: scope 3 is reserved", uint16(h))
	case h>>13 != 0:
		return fmt.Errorf("dispatch: header %#04x: bits 15:13 are reserved", uint16(h))
	}
	return nil
}

// Cond is the condition of a barrier value, "" for none.
type Cond string

// The conditions in the order of their numbers.
const (
	Equal        Cond = "eq"
	NotEqual     Cond = "ne"
	Less         Cond = "lt"
	GreaterEqual Cond = "gte"
)

var conds = [...]Cond{Equal, NotEqual, Less, GreaterEqual}

func (c Cond) known() bool { return c.code() >= 0 }

func (c Cond) code() int {
	for i, x := range conds {
		if x == c {
			return i
		}
	}
	return -1
}

func (c Cond) holds(a, b int64) bool {
	switch c {
	case Equal:
		return a == b
	case NotEqual:
		return a != b
	case Less:
		return a < b
	}
	return a >= b
}

// Packet is the contents of a packet. Which fields count follows from the header's
// type. Addresses and signals are handles of 64 bits.
type Packet struct {
	Header Header

	// A kernel dispatch. Grid is in work-items, not in blocks.
	Dimensions   int
	Workgroup    [3]uint16
	Grid         [3]uint32
	Private      uint32 // bytes for each work-item
	Group        uint32 // bytes of LDS for each block
	KernelObject uint64 // address of a kernel descriptor
	Kernarg      uint64

	// Barriers: signals waited for, 0 for none.
	Deps [MaxDeps]uint64

	// An agent dispatch.
	AgentType     uint16
	ReturnAddress uint64
	Args          [4]uint64

	// A barrier value, AMD's own packet: (signal & Mask) Cond Value.
	Signal uint64
	Value  int64
	Mask   int64
	Cond   Cond

	Completion uint64 // signal that is decremented at the end, 0 for none
}

// barrierValue is AMD's format number of a barrier value.
//
// Source: ROCR hsa_ext_amd.h, hsa_amd_packet_type_t.
const barrierValue = 2

// Field is one field of a structure of 64 bytes.
type Field struct {
	Name   string `json:"name"`
	Offset int    `json:"offset"`
	Size   int    `json:"size"`
	Doc    string `json:"doc,omitempty"`
}

// Structure is the places of the fields of a packet or of a kernel descriptor.
type Structure struct {
	Name   string
	Doc    string
	Fields []Field
	Source string
}

// GridUnit says what the sizes of a dispatch packet count.
const GridUnit = "work-items, not work-groups"

// Structures lists the packets, and the kernel descriptor that a dispatch points to.
func Structures() []Structure {
	const hsa = "ROCR-Runtime runtime/hsa-runtime/inc/hsa.h"
	return []Structure{
		{"kernel_dispatch", "starts a kernel", []Field{
			{"header", 0, 2, "stored last, together with setup"}, {"setup", 2, 2, "bits 1:0 are the dimensions"},
			{"workgroup_size_x", 4, 2, "work-items"}, {"workgroup_size_y", 6, 2, "work-items"}, {"workgroup_size_z", 8, 2, "work-items"},
			{"reserved0", 10, 2, ""},
			{"grid_size_x", 12, 4, GridUnit}, {"grid_size_y", 16, 4, GridUnit}, {"grid_size_z", 20, 4, GridUnit},
			{"private_segment_size", 24, 4, "bytes for each work-item"}, {"group_segment_size", 28, 4, "bytes of LDS for each block"},
			{"kernel_object", 32, 8, "address of a kernel descriptor"}, {"kernarg_address", 40, 8, "address of the arguments"},
			{"reserved2", 48, 8, ""}, {"completion_signal", 56, 8, "decremented when all blocks have ended"}}, hsa},
		{"barrier_and", "waits until all its signals are 0; no signal is satisfied", barrierFields(), hsa},
		{"barrier_or", "waits until one of its signals is 0; no signal is not satisfied", barrierFields(), hsa},
		{"agent_dispatch", "asks another agent for a service", []Field{
			{"header", 0, 2, "stored last"}, {"type", 2, 2, "which service"}, {"reserved0", 4, 4, ""}, {"return_address", 8, 8, "where the result goes"},
			{"arg[0..3]", 16, 32, "four arguments of 8 bytes"}, {"reserved2", 48, 8, ""}, {"completion_signal", 56, 8, "decremented at the end"}}, hsa},
		{"hsa_amd_barrier_value", "waits until (signal & mask) meets a condition (vendor specific)", []Field{
			{"vendor_header", 0, 4, "header, then AMD's format 2"}, {"reserved0", 4, 4, ""}, {"signal", 8, 8, "what is looked at"}, {"value", 16, 8, "what it is compared with"},
			{"mask", 24, 8, "bits that count"}, {"cond", 32, 4, "0 eq, 1 ne, 2 lt, 3 gte"}, {"reserved1", 36, 4, ""}, {"reserved2", 40, 8, ""}, {"reserved3", 48, 8, ""},
			{"completion_signal", 56, 8, "decremented at the end"}}, "ROCR-Runtime hsa_ext_amd.h"},
		{"amdhsa kernel descriptor", "what kernel_object points to", []Field{
			{"group_segment_fixed_size", 0, 4, "bytes of LDS"}, {"private_segment_fixed_size", 4, 4, "bytes for each work-item"}, {"kernarg_size", 8, 4, "bytes"}, {"reserved0", 12, 4, ""},
			{"kernel_code_entry_byte_offset", 16, 8, "signed, from the descriptor"}, {"reserved1", 24, 20, ""}, {"compute_pgm_rsrc3", 44, 4, ""},
			{"compute_pgm_rsrc1", 48, 4, "registers"}, {"compute_pgm_rsrc2", 52, 4, "LDS, ids"}, {"kernel_code_properties", 56, 2, ""}, {"kernarg_preload", 58, 2, ""},
			{"reserved3", 60, 4, ""}}, "LLVM AMDHSAKernelDescriptor.h"},
	}
}

func barrierFields() []Field {
	return []Field{{"header", 0, 2, "stored last"}, {"reserved0", 2, 2, ""}, {"reserved1", 4, 4, ""}, {"dep_signal[0..4]", 8, 40, "five signals of 8 bytes"},
		{"reserved2", 48, 8, ""}, {"completion_signal", 56, 8, "decremented when it is satisfied"}}
}

// FindStructure returns a structure by its name.
func FindStructure(name string) (Structure, error) {
	var names []string
	for _, s := range Structures() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Structure{}, fmt.Errorf("dispatch: no structure %.60q; there are %s", name, strings.Join(names, ", "))
}

var le = binary.LittleEndian

// Encode writes the packet. Fields that its type does not have must be zero, so
// that what is written can be read again.
func (p Packet) Encode() ([PacketBytes]byte, error) {
	var b [PacketBytes]byte
	if err := p.check(); err != nil {
		return b, err
	}
	le.PutUint16(b[0:], uint16(p.Header))
	le.PutUint64(b[56:], p.Completion)
	switch p.Header.Type() {
	case KernelDispatch:
		le.PutUint16(b[2:], uint16(p.Dimensions))
		for i := range 3 {
			le.PutUint16(b[4+2*i:], p.Workgroup[i])
			le.PutUint32(b[12+4*i:], p.Grid[i])
		}
		le.PutUint32(b[24:], p.Private)
		le.PutUint32(b[28:], p.Group)
		le.PutUint64(b[32:], p.KernelObject)
		le.PutUint64(b[40:], p.Kernarg)
	case BarrierAnd, BarrierOr:
		for i, d := range p.Deps {
			le.PutUint64(b[8+8*i:], d)
		}
	case AgentDispatch:
		le.PutUint16(b[2:], p.AgentType)
		le.PutUint64(b[8:], p.ReturnAddress)
		for i, a := range p.Args {
			le.PutUint64(b[16+8*i:], a)
		}
	case VendorSpecific:
		b[2] = barrierValue
		le.PutUint64(b[8:], p.Signal)
		le.PutUint64(b[16:], uint64(p.Value))
		le.PutUint64(b[24:], uint64(p.Mask))
		le.PutUint32(b[32:], uint32(p.Cond.code()))
	}
	return b, nil
}

// ErrInvalid is for a slot whose packet is not published.
var ErrInvalid = errors.New("dispatch: the header says INVALID: there is no packet in the slot yet")

// Decode reads a packet strictly: reserved bits and bytes must be zero, sizes must
// make sense. It reports [ErrInvalid] for an empty slot.
func Decode(b []byte) (Packet, error) {
	if len(b) != PacketBytes {
		return Packet{}, fmt.Errorf("dispatch: a packet has %d bytes, not %d", PacketBytes, len(b))
	}
	p := Packet{Header: Header(le.Uint16(b)), Completion: le.Uint64(b[56:])}
	if err := p.Header.check(); err != nil {
		return Packet{}, err
	}
	switch p.Header.Type() {
	case Invalid:
		return Packet{}, ErrInvalid
	case KernelDispatch:
		p.Dimensions = int(le.Uint16(b[2:]))
		for i := range 3 {
			p.Workgroup[i] = le.Uint16(b[4+2*i:])
			p.Grid[i] = le.Uint32(b[12+4*i:])
		}
		p.Private, p.Group = le.Uint32(b[24:]), le.Uint32(b[28:])
		p.KernelObject, p.Kernarg = le.Uint64(b[32:]), le.Uint64(b[40:])
	case BarrierAnd, BarrierOr:
		for i := range p.Deps {
			p.Deps[i] = le.Uint64(b[8+8*i:])
		}
	case AgentDispatch:
		p.AgentType, p.ReturnAddress = le.Uint16(b[2:]), le.Uint64(b[8:])
		for i := range p.Args {
			p.Args[i] = le.Uint64(b[16+8*i:])
		}
	case VendorSpecific:
		if b[2] != barrierValue {
			return Packet{}, fmt.Errorf("dispatch: vendor packet of format %d; only a barrier value, format %d, is known", b[2], barrierValue)
		}
		p.Signal, p.Value, p.Mask = le.Uint64(b[8:]), int64(le.Uint64(b[16:])), int64(le.Uint64(b[24:]))
		c := le.Uint32(b[32:])
		if c >= uint32(len(conds)) {
			return Packet{}, fmt.Errorf("dispatch: barrier value with condition %d; there are 0 to %d", c, len(conds)-1)
		}
		p.Cond = conds[c]
	}
	back, err := p.Encode()
	if err != nil {
		return Packet{}, err
	}
	// What the fields do not cover must be zero, as encoding leaves it.
	for i := range b {
		if b[i] != back[i] {
			return Packet{}, fmt.Errorf("dispatch: byte %d of a %s packet is reserved and must be 0, not %#02x", i, p.Header.Type(), b[i])
		}
	}
	return p, nil
}

func (p Packet) check() error {
	if err := p.Header.check(); err != nil {
		return err
	}
	rest := p
	rest.Header, rest.Completion = 0, 0
	switch p.Header.Type() {
	case Invalid:
	case KernelDispatch:
		if p.Dimensions < 1 || p.Dimensions > 3 {
			return fmt.Errorf("dispatch: a dispatch has 1 to 3 dimensions, not %d", p.Dimensions)
		}
		for i := range 3 {
			switch {
			case p.Workgroup[i] == 0 || p.Grid[i] == 0:
				return fmt.Errorf("dispatch: size %d of the block is %d, of the grid %d; neither may be 0", i, p.Workgroup[i], p.Grid[i])
			case i >= p.Dimensions && (p.Workgroup[i] != 1 || p.Grid[i] != 1):
				return fmt.Errorf("dispatch: size %d of a dispatch with %d dimensions must be 1", i, p.Dimensions)
			}
		}
		rest.Dimensions, rest.Workgroup, rest.Grid = 0, [3]uint16{}, [3]uint32{}
		rest.Private, rest.Group, rest.KernelObject, rest.Kernarg = 0, 0, 0, 0
	case BarrierAnd, BarrierOr:
		rest.Deps = [MaxDeps]uint64{}
	case AgentDispatch:
		rest.AgentType, rest.ReturnAddress, rest.Args = 0, 0, [4]uint64{}
	case VendorSpecific:
		if !p.Cond.known() {
			return fmt.Errorf("dispatch: no condition %q; there are eq, ne, lt, gte", p.Cond)
		}
		rest.Signal, rest.Value, rest.Mask, rest.Cond = 0, 0, 0, ""
	}
	if rest != (Packet{}) {
		return fmt.Errorf("dispatch: a %s packet with fields of another type", p.Header.Type())
	}
	return nil
}

// Blocks is how many blocks a dispatch has in each dimension; the last one may be
// partial.
func (p Packet) Blocks() (n [3]int, total int) {
	total = 1
	for i := range 3 {
		w := max(1, int(p.Workgroup[i]))
		n[i] = (int(p.Grid[i]) + w - 1) / w
		total *= n[i]
	}
	return n, total
}

// FieldValue is a field with what a packet has there.
type FieldValue struct {
	Field
	Hex     string `json:"hex"` // bytes as they lie
	Meaning string `json:"meaning,omitempty"`
}

// Explain names every byte of a packet, also of one that is not valid.
func Explain(b []byte) ([]FieldValue, error) {
	if len(b) != PacketBytes {
		return nil, fmt.Errorf("dispatch: a packet has %d bytes, not %d", PacketBytes, len(b))
	}
	h := Header(le.Uint16(b))
	name := map[Type]string{VendorSpecific: "hsa_amd_barrier_value", Invalid: "kernel_dispatch"}[h.Type()]
	if name == "" && h.Type() <= BarrierOr {
		name = h.Type().String()
	}
	s, err := FindStructure(name)
	if err != nil {
		return nil, fmt.Errorf("dispatch: header %#04x: there is no packet type %d", uint16(h), h.Type())
	}
	var out []FieldValue
	for _, f := range s.Fields {
		v := FieldValue{Field: f, Hex: fmt.Sprintf("%x", b[f.Offset:f.Offset+f.Size])}
		raw := b[f.Offset : f.Offset+f.Size]
		switch {
		case f.Offset == 0:
			v.Meaning = h.String()
		case f.Size == 2:
			v.Meaning = fmt.Sprint(le.Uint16(raw))
		case f.Size == 4:
			v.Meaning = fmt.Sprint(le.Uint32(raw))
		case f.Size == 8:
			v.Meaning = fmt.Sprintf("%#x", le.Uint64(raw))
		default:
			for i := 0; i+8 <= len(raw); i += 8 {
				v.Meaning += fmt.Sprintf("%#x ", le.Uint64(raw[i:]))
			}
			v.Meaning = strings.TrimSpace(v.Meaning)
		}
		out = append(out, v)
	}
	return out, nil
}
