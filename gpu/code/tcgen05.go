package code

import (
	"fmt"
	"slices"
	"strings"
)

// This file holds the rows of tcgen05, the fifth generation of tensor cores (sm_100a):
// products whose sums lie in tensor memory, which is 128 lanes of 512 columns of 32
// bits, addressed as lane·2^16 + column. They are assembled and simulated, and have
// not been seen on hardware.

const srcTcgen05 = "PTX ISA 9.7.16 tcgen05; not seen on hardware"

func tc05(name, ptx, doc string, class Class, out []Type, in ...Type) Row {
	return Row{Name: "tcgen05." + name, In: in, Out: out, Class: class, PTX: ptx, Since: 100, Target: "sm_100a", ISA: "8.6", Doc: doc, Source: srcTcgen05}
}

// tcgen05Rows are the rows; [Lookup] finds them by name.
func tcgen05Rows() []Row {
	var rows []Row
	for blocks := 1; blocks <= 2; blocks++ {
		rows = append(rows, tcgen05Group(blocks)...)
	}
	rows = append(rows,
		tc05("fence::before_thread_sync", "tcgen05.fence::before_thread_sync", "orders the thread's accesses of tensor memory before what is behind a barrier", Barrier, nil),
		tc05("fence::after_thread_sync", "tcgen05.fence::after_thread_sync", "orders the thread's accesses of tensor memory behind what is before a barrier", Barrier, nil),
		tc05("wait::st", "tcgen05.wait::st.sync.aligned", "waits until the thread's stores to tensor memory have ended", Barrier, nil))
	wait := tc05("wait::ld", "tcgen05.wait::ld.sync.aligned", "waits until the thread's loads from tensor memory have ended. Takes any number of b32, what loads gave, and gives them back as they are then", Barrier, nil)
	wait.Through = true
	rows = append(rows, wait)
	for _, s := range []struct {
		shape string
		per   int // registers of x1
	}{{"32x32b", 1}, {"16x64b", 1}, {"16x128b", 2}, {"16x256b", 4}, {"16x32bx2", 1}} {
		for n := 1; n*s.per <= 128; n *= 2 {
			words, split := b32s[:n*s.per], ""
			if s.shape == "16x32bx2" { // how far from the first half of the columns the second is
				split = fmt.Sprintf(", %d", n)
			}
			r := tc05(fmt.Sprintf("ld.%s.x%d", s.shape, n), fmt.Sprintf("tcgen05.ld.sync.aligned.%s.x%d.b32 {outs}, [{a0}]%s", s.shape, n, split), "begins to load from tensor memory; the results may be read behind tcgen05.wait::ld", Barrier, words, B32)
			rows = append(rows, r)
			list := "{a1}"
			for k := 2; k <= len(words); k++ {
				list += fmt.Sprintf(", {a%d}", k)
			}
			rows = append(rows, tc05(fmt.Sprintf("st.%s.x%d", s.shape, n), fmt.Sprintf("tcgen05.st.sync.aligned.%s.x%d.b32 [{a0}]%s, {%s}", s.shape, n, split, list), "begins to store to tensor memory; ended behind tcgen05.wait::st", Barrier, nil, append([]Type{B32}, words...)...))
		}
	}
	return rows
}

// tcgen05Group is the rows that a block has for itself, and again for two blocks of a
// cluster that use their tensor memories together, whose names end in .cta2. All
// instructions of a function are of one kind.
func tcgen05Group(blocks int) []Row {
	group, suffix, whose := fmt.Sprintf(".cta_group::%d", blocks), "", "the block"
	if blocks == 2 {
		suffix, whose = ".cta2", "the two blocks whose ranks differ in the last bit"
	}
	alloc := tc05("alloc"+suffix, "tcgen05.alloc"+group+".sync.aligned.shared::cta.b32 {mem}, {a1#}", "takes b columns of tensor memory for "+whose+", a power of two from 32 on, waits until they are there, and writes their address to the shared address a", Barrier, nil, B32, B32)
	alloc.Imm, alloc.Addr = []ImmKind{ImmOffset}, firstShared
	const text = "arrives once at the barrier when all products and copies of this thread so far have ended"
	commit := tc05("commit"+suffix, "tcgen05.commit"+group+".mbarrier::arrive::one.shared::cluster.b64 {mem}", text, Proxy, nil, B32)
	commit.Imm, commit.Addr = []ImmKind{ImmOffset}, firstShared
	many := tc05("commit.multicast"+suffix, "tcgen05.commit"+group+".mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 {mem}, {a1}", text+", at the same place of every block whose bit is set in b", Proxy, nil, B32, B16)
	many.Imm, many.Addr = []ImmKind{ImmOffset}, firstShared
	rows := []Row{
		alloc,
		tc05("dealloc"+suffix, "tcgen05.dealloc"+group+".sync.aligned.b32 {a0}, {a1#}", "gives the b columns at a back", Barrier, nil, B32, B32),
		tc05("relinquish_alloc_permit"+suffix, "tcgen05.relinquish_alloc_permit"+group+".sync.aligned", "the block takes no more tensor memory", Barrier, nil),
		commit, many,
	}
	with := ""
	if blocks == 2 {
		with = "; each of two blocks has its half of the rows of A and D, and at the same places half of the columns of B"
	}
	// product is a row of a form: "", "sp.", "ws." or "ws.sp.".
	product := func(form, place, name, qualifiers, text string, scales int) Row {
		in, args := []Type{B32, B64, B64}, "[{a0}], {a1}, {a2}"
		if place == "ts" {
			in[1], args = B32, "[{a0}], [{a1}], {a2}"
		}
		add := func(t Type, format string) {
			args += ", " + fmt.Sprintf(format, len(in))
			in = append(in, t)
		}
		if strings.HasSuffix(form, "sp.") {
			add(B32, "[{a%d}]")
		}
		add(B32, "{a%d}")
		for range scales {
			add(B32, "[{a%d}]")
		}
		add(Pred, "{a%d}")
		return tc05("mma."+form+place+"."+name+suffix, "tcgen05.mma."+form+group[1:]+qualifiers+" "+args, text, Proxy, nil, in...)
	}
	const (
		sparse = "; half of A is zeros that are left out, and d is the place in tensor memory that says which"
		still  = "; D of 64 or 32 rows has its columns in 2 or 4 parts below each other"
	)
	places := map[string]string{"ss": "A and B at shared descriptors b and c", "ts": "A in tensor memory at b, B at the shared descriptor c"}
	for _, kind := range []string{"f16", "tf32", "f8f6f4", "i8"} {
		for _, place := range []string{"ss", "ts"} {
			text := "begins D = A · B + D, or without D where enable-d is false, of a size and types that the instruction descriptor says; D lies in tensor memory at a, " + places[place]
			rows = append(rows, product("", place, kind, ".kind::"+kind, text+with, 0), product("sp.", place, kind, ".kind::"+kind, text+sparse+with, 0))
			if blocks == 1 {
				rows = append(rows, product("ws.", place, kind, ".kind::"+kind, text+still, 0), product("ws.sp.", place, kind, ".kind::"+kind, text+sparse+still, 0))
			}
		}
	}
	for _, kind := range []string{"f16", "tf32", "f8f6f4", "i8"} {
		for _, place := range []string{"ss", "ts"} {
			masked := product("", place, kind, ".kind::"+kind, "begins a product as mma."+place+"."+kind+" does, and leaves the lanes of D as they are whose bits are set in the words in front of enable-d"+with, 0)
			masked.Name = strings.Replace(masked.Name, "mma.", "mma.lanes.", 1)
			masked.In = slices.Insert(masked.In, 4, b32s[:4*blocks]...)
			words := make([]string, 4*blocks)
			for k := range words {
				words[k] = fmt.Sprintf("{a%d}", 4+k)
			}
			masked.PTX = strings.TrimSuffix(masked.PTX, "{a4}") + "{" + strings.Join(words, ", ") + fmt.Sprintf("}, {a%d}", 4+4*blocks)
			rows = append(rows, masked)
			if kind == "f16" || kind == "tf32" {
				scaled := product("", place, kind, ".kind::"+kind, "begins a product as mma."+place+"."+kind+" does, with D times 2^-i0"+with, 0)
				scaled.Name = strings.Replace(scaled.Name, "mma.", "mma.scaled.", 1)
				scaled.PTX += ", {i0}"
				scaled.Imm, scaled.Selectors = []ImmKind{ImmSelector}, 16
				rows = append(rows, scaled)
			}
		}
	}
	for _, s := range []struct{ name, kind, vec, isa string }{{"mxf8f6f4", "mxf8f6f4", "1X", "8.6"}, {"mxf4", "mxf4", "2X", "8.6"}, {"mxf4nvf4", "mxf4nvf4", "4X", "8.7"}, {"mxf4nvf4.2X", "mxf4nvf4", "2X", "8.7"}} {
		for _, place := range []string{"ss", "ts"} {
			for _, form := range []string{"", "sp."} {
				text := "begins a product as mma." + form + place + ".f8f6f4 does, with scales of A and of B in tensor memory at the addresses in front of enable-d, " + s.vec[:1] + " in each row of an instruction"
				r := product(form, place, s.name, ".kind::"+s.kind+".block_scale.scale_vec::"+s.vec, text, 2)
				r.ISA = s.isa
				rows = append(rows, r)
			}
		}
	}
	for _, shape := range []string{"128x256b", "128x128b", "4x256b", "32x128b.warpx4", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23"} {
		rows = append(rows, tc05("cp."+shape+suffix, "tcgen05.cp"+group+"."+shape+" [{a0}], {a1}", "begins to copy from the shared descriptor b to tensor memory at a, in the order of products; of 32 rows, to each quarter of the lanes; of 64, twice, to the quarters that are named together", Proxy, nil, B32, B64))
	}
	rows = append(rows, tc05("shift.down"+suffix, "tcgen05.shift"+group+".down [{a0}]", "begins to move 32 bytes of each of 32 lanes, from that of a on, to the next lane, in the order of products; the last moves to none", Proxy, nil, B32))
	return rows
}
