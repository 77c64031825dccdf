package dispatch

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func examplePacket() Packet {
	return Packet{Header: 0xb02, Dimensions: 1, Workgroup: [3]uint16{256, 1, 1}, Grid: [3]uint32{65536, 1, 1}, Group: 4096,
		KernelObject: 0x7f0011223340, Kernarg: 0x7f00aabb0000, Completion: 0x7f00deadbe00}
}

func TestPacketBytes(t *testing.T) {
	for _, c := range []struct {
		p    Packet
		want string
	}{
		{examplePacket(), "020b01000001010001000000000001000100000001000000000000000010000040332211007f00000000bbaa007f0000000000000000000000beadde007f0000"},
		{Packet{Header: 0x1503, Deps: [5]uint64{1, 2, 0, 0, 5}, Completion: 0x1122334455667788},
			"0315000000000000" + "0100000000000000" + "0200000000000000" + "0000000000000000" + "0000000000000000" + "0500000000000000" + "0000000000000000" + "8877665544332211"},
		{Packet{Header: 0x1500, Signal: 7, Value: -1, Mask: 255, Cond: GreaterEqual},
			"0015020000000000" + "0700000000000000" + "ffffffffffffffff" + "ff00000000000000" + "0300000000000000" + strings.Repeat("00", 24)},
		{Packet{Header: 4, AgentType: 9, ReturnAddress: 3, Args: [4]uint64{1, 2, 3, 4}},
			"0400090000000000" + "0300000000000000" + "0100000000000000" + "0200000000000000" + "0300000000000000" + "0400000000000000" + strings.Repeat("00", 16)},
	} {
		raw, err := c.p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(raw[:]); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.p.Header, got, c.want)
		}
		if back, err := Decode(raw[:]); err != nil || back != c.p {
			t.Errorf("%s: read as %+v, %v", c.p.Header, back, err)
		}
		if _, err := Explain(raw[:]); err != nil {
			t.Error(err)
		}
	}
	if n, all := (Packet{Workgroup: [3]uint16{256, 4, 1}, Grid: [3]uint32{257, 4, 3}}).Blocks(); n != [3]int{2, 1, 3} || all != 6 {
		t.Errorf("%v blocks, %d in all", n, all)
	}
}

// Each broken packet is refused, with a word about why.
func TestPacketRefused(t *testing.T) {
	raw, err := examplePacket().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at   int
		to   byte
		says string
	}{{0, 6, "type 6"}, {1, 0x07, "scope 3"}, {1, 0x18, "scope 3"}, {1, 0x20, "15:13"}, {2, 0, "dimensions"}, {2, 5, "dimensions"}, {5, 0, "size 0"}, {6, 2, "size 1"}, {10, 1, "reserved"}, {50, 1, "reserved"}, {0, 1, "INVALID"}} {
		b := raw
		b[c.at] = c.to
		if _, err := Decode(b[:]); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("byte %d = %#x: %v, want something about %q", c.at, c.to, err, c.says)
		}
	}
	if _, err := Decode(raw[:63]); err == nil {
		t.Error("63 bytes are taken")
	}
	if _, err := (Packet{Header: 3, Workgroup: [3]uint16{1, 1, 1}}).Encode(); err == nil {
		t.Error("a barrier with a block is taken")
	}
}

// Structures cover their 64 bytes without gaps.
func TestStructures(t *testing.T) {
	for _, s := range Structures() {
		at := 0
		for _, f := range s.Fields {
			if f.Offset != at {
				t.Errorf("%s: %s is at %d, not %d", s.Name, f.Name, f.Offset, at)
			}
			at = f.Offset + f.Size
		}
		if at != PacketBytes {
			t.Errorf("%s has %d bytes", s.Name, at)
		}
	}
}

func TestRing(t *testing.T) {
	r, err := NewRing(4)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := examplePacket().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		for j := range 3 {
			if index, err := r.Publish(raw); err != nil || index != uint64(3*i+j) || r.Bytes(index) != raw {
				t.Fatalf("packet %d: index %d, %v", 3*i+j, index, err)
			}
		}
		if _, err := r.Publish(raw); !errors.Is(err, ErrFull) {
			t.Fatalf("a full ring takes a packet: %v", err)
		}
		for range 3 {
			if p, err := r.Process(); err != nil || p != examplePacket() {
				t.Fatal(p, err)
			}
		}
		if _, err := r.Process(); !errors.Is(err, ErrInvalid) {
			t.Fatalf("an empty ring gives a packet: %v", err)
		}
	}
	if _, err := NewRing(12); err == nil {
		t.Error("a ring of 12 is made")
	}
}

// The right order never shows a wrong packet; the header before the body does.
func TestRace(t *testing.T) {
	raw, err := examplePacket().Encode()
	if err != nil {
		t.Fatal(err)
	}
	old := examplePacket()
	old.KernelObject = 0xdead00
	before, err := old.Encode()
	if err != nil {
		t.Fatal(err)
	}
	wrong := func(order []string) (n int) {
		seen, err := Race(order, before, raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range seen {
			if s.Wrong {
				n++
			}
		}
		if last := seen[len(seen)-1]; last.Sees != "the packet" {
			t.Errorf("at the end it sees %s", last.Sees)
		}
		return n
	}
	if n := wrong(PublishOrder()); n != 0 {
		t.Errorf("the right order shows %d wrong packets", n)
	}
	if n := wrong([]string{StepReserve, StepWait, StepHeader, StepBody, StepDoorbell}); n != 1 {
		t.Errorf("the header first shows %d wrong packets, want 1", n)
	}
}

func TestWaitPackets(t *testing.T) {
	var deps []uint64
	for i := range 12 {
		deps = append(deps, uint64(i+1))
	}
	var got []string
	for _, p := range WaitPackets(deps, 99) {
		got = append(got, fmt.Sprintf("%#x %v %d", uint16(p.Header), p.Deps, p.Completion))
	}
	want := []string{"0x103 [1 2 3 4 5] 0", "0x103 [6 7 8 9 10] 0", "0x1503 [11 12 0 0 0] 99"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPool(t *testing.T) {
	for _, policy := range []Policy{ROCm42, ROCm6, ROCm2026} {
		p := NewPool(policy, 0)
		for i, s := range []string{"a", "b", "c", "d", "e", "f"} {
			q, err := p.Create(s, "", false, false)
			if err != nil || q.ID != i%4 {
				t.Errorf("%s: stream %s gets queue %d, %v", policy, s, q.ID, err)
			}
		}
		h, err := p.Create("h", High, false, false)
		if err != nil || h.ID != 0 || h.Priority != High {
			t.Errorf("%s: high: %+v, %v", policy, h, err)
		}
		m1, _ := p.Create("m1", "", true, false)
		m2, _ := p.Create("m2", "", true, false)
		c1, _ := p.Create("c1", "", false, true)
		c2, _ := p.Create("c2", "", false, true)
		if m1 == m2 || c1 != c2 || m1.ID >= 0 || p.Outside() != 3 {
			t.Errorf("%s: masked and cooperative queues: %v %v %v %v", policy, m1, m2, c1, c2)
		}
		if err := p.Destroy("m1"); err != nil || p.Outside() != 2 {
			t.Errorf("%s: a masked queue outlives its stream", policy)
		}
		if p.Destroy("m1") == nil {
			t.Error("a stream ends twice")
		}
	}
}

func TestMasks(t *testing.T) {
	words := func(s string) []uint32 {
		m, err := ParseMask(s)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, c := range []struct {
		m    Machine
		mask string
		o    MapOptions
		want []uint32
	}{
		{RadeonVII(), "0x555555555555555", MapOptions{}, []uint32{0x7fff, 0, 0x7fff, 0}},
		{RadeonVII(), "0x3fffffff", MapOptions{}, []uint32{0xff, 0xff, 0x7f, 0x7f}},
		{RadeonVII(), "0xfffffffc0000000", MapOptions{}, []uint32{0x7f00, 0x7f00, 0x7f80, 0x7f80}},
		{Machine{SEs: 4, SHs: 2, CUs: 8}, "0x1f1", MapOptions{}, []uint32{0x10003, 0x10000, 0x10000, 0x10000}},
		{Machine{SEs: 2, SHs: 2, CUs: 8}, "0x3", MapOptions{WGP: true}, []uint32{3, 0}},
		{Machine{SEs: 2, SHs: 2, CUs: 8}, "0x32", MapOptions{WGP: true}, []uint32{0x30003, 0}},
		{Machine{Dies: 2, SEs: 2, CUs: 4}, "0x5", MapOptions{}, []uint32{1, 1, 0, 0}},
		{Machine{SEs: 2, CUs: 2}, "0x6", MapOptions{Active: [][]int{{1}, {2}}}, []uint32{0, 3}},
	} {
		got, err := c.m.MapCUMask(words(c.mask), c.o)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s on %+v: %#x, %v; want %#x", c.mask, c.m, got, err, c.want)
		}
	}
	if got := FormatMask(FinalMask(words("0xff00"), words("0xff"), false)); got != "0x000000ff" {
		t.Error(got)
	}
	if got := FormatMask(FinalMask(words("0x0ff0"), words("0xff"), false)); got != "0x000000f0" {
		t.Error(got)
	}
	if got := FormatMask(FinalMask(words("0x5"), nil, true)); got != "0x0000000000000033" {
		t.Error(got)
	}
	if got := (Mask{0x7fff, 1, 0, 0}).Balanced(); got != 2 {
		t.Errorf("balanced count %d, want 2", got)
	}
	for _, s := range []string{"", "0x", "0xg"} {
		if _, err := ParseMask(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}

func TestOccupancy(t *testing.T) {
	c := GFX9()
	for v, want := range map[int]int{24: 10, 28: 9, 32: 8, 36: 7, 40: 6, 48: 5, 64: 4, 84: 3, 128: 2, 129: 1, 256: 1} {
		if got := c.WavesPerSIMD(v); got != want {
			t.Errorf("%d registers: %d waves, want %d", v, got, want)
		}
	}
	for _, x := range []struct {
		threads, vgprs, lds, blocks int
		limit                       string
	}{{64, 24, 0, 40, "waves"}, {256, 24, 0, 10, "waves"}, {1024, 24, 0, 2, "waves"}, {128, 24, 0, 16, "groups"}, {256, 128, 0, 2, "registers"}, {256, 0, 20000, 3, "lds"}} {
		o := c.Occupancy(x.threads, x.vgprs, x.lds)
		if o.Blocks != x.blocks || o.Limit != x.limit {
			t.Errorf("%+v: %+v", x, o)
		}
		// The simulated unit holds as many.
		u, n := c.empty(), 0
		k := Kernel{Threads: x.threads, VGPRs: x.vgprs, LDS: x.lds}
		for need := c.need(&k); u.fits(need, true); n++ {
			u.take(need, true)
		}
		if n != x.blocks {
			t.Errorf("%+v: the unit takes %d blocks", x, n)
		}
	}
}

// What is read is written back byte for byte.
func FuzzDecode(f *testing.F) {
	raw, err := examplePacket().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw[:])
	for _, h := range []Header{0x1503, 0x0103, 0x1500, 0x0001, 0x0004, 0x0005} {
		var b [PacketBytes]byte
		le.PutUint16(b[:], uint16(h))
		if h.Type() == VendorSpecific {
			b[2] = barrierValue
		}
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = Explain(b) // must not panic
		p, err := Decode(b)
		if err != nil {
			return
		}
		back, err := p.Encode()
		if err != nil || string(back[:]) != string(b) {
			t.Fatalf("%x is read as %+v and written as %x, %v", b, p, back, err)
		}
	})
}
