package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// tensorCase is a product in tensor memory: its row, size and types, and the lane and
// column of each element of D as the manual's figures have them.
type tensorCase struct {
	row     string
	m, n    int
	k       int // of a dense A
	a, b, d dtype.Type
	scale   dtype.Type
	vec     int // scales in a row
	half    int // first lane of D and A, of 64 rows
	at      func(r, c int) (lane, col int)
}

func (c tensorCase) sparse() bool { return strings.Contains(c.row, "sp.") }

// part is which of two columns says where A is sparse; both occur.
func (c tensorCase) part() int {
	if c.sparse() && c.a.Bits() >= 16 {
		return c.n / 32 % 2
	}
	return 0
}

func (c tensorCase) ts() bool { return strings.Contains(c.row, "ts.") }

// Columns of tensor memory where things lie.
const (
	dColumn, aColumn, eColumn, saColumn, sbColumn = 0, 256, 300, 304, 320
)

func tensorCases() []tensorCase {
	const f16, bf16, tf32, f32, i32 = dtype.F16, dtype.BF16, dtype.TF32, dtype.F32, dtype.I32
	e4m3, e5m2, e2m1 := dtype.F8E4M3, dtype.F8E5M2, dtype.F4E2M1
	rows := func(r, c int) (int, int) { return r, c }
	halves := func(r, c int) (int, int) { return r/16*32 + r%16, c }
	parts := func(m, n int) func(r, c int) (int, int) {
		return func(r, c int) (int, int) { return r + c/(n*m/128)*m, c % (n * m / 128) }
	}
	var all []tensorCase
	kinds := []struct {
		kind    string
		k       int
		a, b, d dtype.Type
	}{{"f16", 16, f16, f16, f32}, {"f16", 16, f16, f16, f16}, {"f16", 16, bf16, bf16, f32}, {"tf32", 8, tf32, tf32, f32}, {"i8", 32, dtype.I8, dtype.U8, i32},
		{"f8f6f4", 32, e4m3, e5m2, f32}, {"f8f6f4", 32, dtype.F6E2M3, e2m1, f16}, {"f8f6f4", 32, e2m1, dtype.F6E3M2, f32}}
	for _, x := range kinds {
		for _, where := range []string{"ss", "ts"} {
			if where == "ts" && x.a.Bits() < 8 {
				continue
			}
			base := tensorCase{row: where + "." + x.kind, k: x.k, a: x.a, b: x.b, d: x.d}
			add := func(m, n int, form string, at func(r, c int) (int, int)) {
				c := base
				c.m, c.n, c.at, c.row = m, n, at, form+c.row
				if c.sparse() {
					c.k *= 2
				}
				all = append(all, c)
			}
			add(128, 48, "", rows)
			add(64, 32, "", halves)
			add(128, 32, "sp.", rows)
			add(128, 64, "ws.", rows)
			add(128, 64, "ws.sp.", rows)
			if where == "ss" {
				add(64, 128, "ws.", parts(64, 128))
				add(32, 64, "ws.", parts(32, 64))
			}
		}
	}
	high := all[1]
	high.half = 16
	all = append(all, high)
	for _, form := range []string{"lanes.ss.f16", "lanes.ts.f16", "lanes.ss.i8", "scaled.ss.f16", "scaled.ts.tf32"} {
		for _, x := range all[:len(all)-1] {
			if x.m == 128 && form == strings.SplitN(form, ".", 2)[0]+"."+x.row {
				x.row = form
				all = append(all, x)
				break
			}
		}
	}
	for _, x := range []tensorCase{
		{row: "mxf8f6f4", k: 32, a: e4m3, b: e5m2, scale: dtype.F8E8M0, vec: 1}, {row: "mxf8f6f4", k: 32, a: dtype.F6E3M2, b: e4m3, scale: dtype.F8E8M0, vec: 1},
		{row: "mxf4", k: 64, a: e2m1, b: e2m1, scale: dtype.F8E8M0, vec: 2}, {row: "mxf4nvf4", k: 64, a: e2m1, b: e2m1, scale: e4m3, vec: 4}, {row: "mxf4nvf4.2X", k: 64, a: e2m1, b: e2m1, scale: dtype.F8E8M0, vec: 2},
	} {
		x.m, x.n, x.d, x.at = 128, 64, f32, rows
		for _, form := range []string{"ss.", "ts.", "sp.ss.", "sp.ts."} {
			if y := x; !strings.Contains(form, "ts.") || x.a.Bits() != 6 {
				if y.row = form + x.row; y.sparse() {
					y.k *= 2
				}
				all = append(all, y)
			}
		}
	}
	return all
}

// leftLanes says by bits which lanes of the first quarter are not written; those of the
// next one by the same bits from the ninth on, and so on.
const leftLanes = 0x81a5_0f33

func isLeft(lane int) bool { return int64(leftLanes)>>(8*(lane/32))>>(lane%32)&1 == 1 }

// descriptor is the instruction descriptor.
func (c tensorCase) descriptor() int64 {
	types := map[dtype.Type]int64{dtype.F16: 0, dtype.BF16: 1, dtype.TF32: 2, dtype.F8E4M3: 0, dtype.F8E5M2: 1, dtype.F6E2M3: 3, dtype.F6E3M2: 4, dtype.F4E2M1: 5, dtype.U8: 0, dtype.I8: 1}
	if c.a.Bits() == 4 && c.vec > 1 {
		types[dtype.F4E2M1] = 1
	}
	word := types[c.a]<<7 | types[c.b]<<10 | int64(c.n/8)<<17 | int64(c.m/16)<<24
	if c.vec == 0 {
		word |= map[dtype.Type]int64{dtype.F16: 0, dtype.F32: 1, dtype.I32: 2}[c.d] << 4
	} else if c.scale == dtype.F8E8M0 {
		word |= 1 << 23
	}
	if c.sparse() {
		word |= 1<<2 | int64(c.part())
	}
	return word
}

// unpack says where an element of an operand in shared memory lies: bits from the
// beginning of the picture. Nothing is swizzled; 16 bytes of a row of eight lie together.
func (c tensorCase) bitAt(t dtype.Type, rows, r, k int) int {
	per, bits := 128/t.Bits(), t.Bits()
	if t.Bits() < 8 && c.vec < 2 {
		per = 16
	}
	return 8*(r%8*16+r/8*128+k/per*128*((rows+7)/8)) + k%per*bits
}

func putBits(b []byte, at, n int, v uint64) {
	for i := range n {
		b[(at+i)/8] = b[(at+i)/8]&^(1<<((at+i)%8)) | byte(v>>i&1)<<((at+i)%8)
	}
}

// tensorKernel puts pictures into shared and tensor memory, does something with one
// thread, and dumps half of tensor memory. desc describes rows of shared memory from a
// byte on.
func tensorKernel(t *testing.T, bytes int, begin func(s *small, row func(string) code.Op, tensor func(lane, column int) code.Value, desc func(from, rows int) code.Value)) *code.Func {
	t.Helper()
	place := int64(bytes)
	s := newSmall(128, bytes+64, [3]int{})
	row := func(name string) code.Op {
		op, err := code.Lookup("tcgen05." + name)
		if err != nil {
			t.Fatal(err)
		}
		return op
	}
	picture, before, after := s.Pointer("picture", "u32"), s.Pointer("before", "u32"), s.Pointer("after", "u32")
	done := []int64{place + 8}
	s.one(func() {
		s.do(code.OpMbarInit, done, s.base, s.n(1))
		s.do(code.OpFenceMbarInit, nil)
	})
	s.For(s.Shl32(s.tid, s.n(2)), s.n(place), s.n(512), 1, nil, func(i code.Value, _ []code.Value) []code.Value {
		s.StShared(4, s.Add32(s.base, i), 0, s.LdGlobal(4, s.Add64(picture, s.Zext32(i)), 0, 0))
		return nil
	})
	s.do(code.OpFenceProxyAsync, nil)
	warp := s.Shr32(s.tid, s.n(5))
	s.If(s.SetpU32(code.EQ, warp, s.n(0)), func() []code.Value {
		s.do(row("alloc"), []int64{place}, s.base, s.n(512))
		return nil
	}, nil)
	s.BarSync()
	at := s.LdShared(4, s.base, int(place))
	mine := s.Add32(at, s.Shl32(warp, s.n(21)))
	for col := 0; col < 512; col += 16 {
		in := []code.Value{s.Add32(mine, s.n(int64(col)))}
		for k := range 16 {
			in = append(in, s.LdGlobal(4, s.Add64(before, s.MulWideU(s.tid, s.n(2048))), 4*(col+k), 0))
		}
		s.do(row("st.32x32b.x16"), nil, in...)
	}
	s.do(row("wait::st"), nil)
	s.do(row("fence::before_thread_sync"), nil)
	s.BarSync()
	s.do(row("fence::after_thread_sync"), nil)
	s.one(func() {
		begin(s, row, func(lane, column int) code.Value { return s.Add32(at, s.n(int64(lane<<16+column))) }, func(from, rows int) code.Value {
			word, err := bank.Descriptor{Leading: 128 * ((rows + 7) / 8), Stride: 128, Mode: "none"}.Encode(bank.SM100)
			if err != nil {
				t.Fatal(err)
			}
			return s.Add64(s.Zext32(s.Shr32(s.Add32(s.base, s.n(int64(from))), s.n(4))), s.Const64(int64(word)))
		})
		s.do(row("commit"), done, s.base)
	})
	s.do(code.OpBarWarp, nil)
	s.do(code.OpMbarWaitParity, done, s.base, s.n(0))
	s.do(row("fence::after_thread_sync"), nil)
	for col := 0; col < 256; col += 16 {
		v := s.do(row("ld.32x32b.x16"), nil, s.Add32(mine, s.n(int64(col))))
		v = s.do(row("wait::ld"), nil, v...)
		for k, x := range v {
			s.StGlobal(4, s.Add64(after, s.MulWideU(s.tid, s.n(1024))), 4*(col+k), 0, x)
		}
	}
	s.BarSync()
	s.If(s.SetpU32(code.EQ, warp, s.n(0)), func() []code.Value {
		s.do(row("dealloc"), nil, at, s.n(512))
		return nil
	}, nil)
	f, err := s.Done()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// kernel multiplies: args are the picture of shared memory, that of tensor memory, and
// tensor memory afterwards.
func (c tensorCase) kernel(t *testing.T, aBytes, bBytes int) *code.Func {
	t.Helper()
	return tensorKernel(t, aBytes+bBytes, func(s *small, row func(string) code.Op, tensor func(lane, column int) code.Value, desc func(from, rows int) code.Value) {
		in := []code.Value{tensor(c.half, dColumn)}
		if c.ts() {
			in = append(in, tensor(c.half, aColumn))
		} else {
			in = append(in, desc(0, c.m))
		}
		in = append(in, desc(aBytes, c.n))
		if c.sparse() {
			in = append(in, tensor(0, eColumn))
		}
		in = append(in, s.n(c.descriptor()))
		if c.vec > 0 {
			in = append(in, tensor(0, saColumn), tensor(0, sbColumn))
		}
		var imm []int64
		switch {
		case strings.HasPrefix(c.row, "lanes."):
			for k := range 4 {
				in = append(in, s.n(int64(leftLanes>>(8*k))))
			}
		case strings.HasPrefix(c.row, "scaled."):
			imm = []int64{1}
		}
		s.do(row("mma."+c.row), imm, append(in, s.Const(code.Pred, 1))...)
	})
}

// TestTensorCopies holds copies from shared memory, and shifts, to what comes to which
// lane.
func TestTensorCopies(t *testing.T) {
	from := map[string]func(lane int) int{ // the row that a lane gets, -1: none
		"cp.128x256b": func(l int) int { return l }, "cp.128x128b": func(l int) int { return l },
		"cp.4x256b": func(l int) int {
			if l%32 == 0 {
				return l / 32
			}
			return -1
		},
		"cp.32x128b.warpx4":        func(l int) int { return l % 32 },
		"cp.64x128b.warpx2::02_13": func(l int) int { return l % 64 },
		"cp.64x128b.warpx2::01_23": func(l int) int { return l/64*32 + l%32 },
		"shift.down":               nil,
	}
	for name, row := range from {
		picture, before, after := make([]byte, 8192+64), make([]byte, 128*512*4), make([]byte, 128*256*4)
		r := rand.New(rand.NewPCG(3, 4))
		for _, b := range [][]byte{picture, before} {
			for i := range b {
				b[i] = byte(r.Uint64())
			}
		}
		rows, cols := 128, 4
		if strings.Contains(name, "256b") {
			cols = 8
		}
		if _, err := fmt.Sscanf(name, "cp.%dx", &rows); err != nil && name != "shift.down" {
			t.Fatal(err)
		}
		k := tensorKernel(t, 8192, func(s *small, row func(string) code.Op, tensor func(lane, column int) code.Value, desc func(from, rows int) code.Value) {
			if name == "shift.down" {
				s.do(row(name), nil, tensor(32, 16))
			} else {
				s.do(row(name), nil, tensor(0, 16), desc(0, rows))
			}
		})
		if _, err := Run(context.Background(), k, Launch{Args: args(picture, before, after)}, Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for l := range 128 {
			for c := range 256 {
				want := get(before, 512*l+c)
				switch {
				case name == "shift.down":
					if l > 32 && l < 64 && c >= 16 && c < 24 {
						want = get(before, 512*(l-1)+c)
					}
				case c >= 16 && c < 16+cols && row(l) >= 0:
					at := row(l)%8*16 + row(l)/8*128 + (c-16)/4*128*((rows+7)/8)
					want = get(picture[at:], (c-16)%4)
				}
				if got := get(after, 256*l+c); got != want {
					t.Fatalf("%s: lane %d, column %d is %#x, must be %#x", name, l, c, got, want)
				}
			}
		}
	}
}

// TestTensorProducts holds every form of products in tensor memory to sums of small
// integers, put where the manual says.
func TestTensorProducts(t *testing.T) {
	for _, c := range tensorCases() {
		t.Run(fmt.Sprintf("%s %dx%dx%d %s %s %s %d", c.row, c.m, c.n, c.k, c.a, c.b, c.d, c.half), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(c.m*c.n*c.k)))
			number := func(e dtype.Type) (float64, uint64) {
				v := float64(r.IntN(5) - 2)
				if !e.Signed() {
					v = float64(r.IntN(4))
				}
				if !e.IsFloat() {
					return v, e.EncodeInt(int64(v), false)
				}
				return v, e.Encode(v, false)
			}
			kept := c.k
			if c.sparse() {
				kept /= 2
			}
			aBytes, bBytes := (c.bitAt(c.a, c.m, c.m-1, kept-1)/8/1024+1)*1024, (c.bitAt(c.b, c.n, c.n-1, c.k-1)/8/1024+1)*1024
			picture, before, after := make([]byte, aBytes+bBytes+64), make([]byte, 128*512*4), make([]byte, 128*256*4)
			put := func(lane, column, bit, n int, v uint64) { putBits(before, 32*(512*lane+column)+bit, n, v) }
			lane := func(row int) int { // of a row of A
				l, _ := c.at(row, 0)
				return l + c.half
			}
			a, b := make([]float64, c.m*c.k), make([]float64, c.n*c.k)
			for row := range c.m {
				chunk, unit := 4, 1
				switch {
				case !c.sparse():
					chunk = 0
				case c.a == dtype.TF32:
					chunk = 2
				case c.a.Bits() == 4 && c.vec > 1:
					chunk, unit = 8, 2
				}
				for k := range kept {
					v, bits := number(c.a)
					to := k
					if chunk > 0 { // the pairs that are kept go round all six
						pair := [][2]int{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}[(row+k/(chunk/2))%6]
						nibble := uint64(pair[1]<<2 | pair[0])
						to = k/(chunk/2)*chunk + pair[k%(chunk/2)/unit]*unit + k%unit
						if chunk == 2 {
							to, nibble = k*2+row%2, []uint64{0b0100, 0b1110}[row%2]
						}
						full := k / (chunk / 2) * chunk
						if c.a.Bits() >= 16 {
							half := c.k / 2
							put(row%8+row/16*16+full/half*8, eColumn+c.part(), row/8%2*16+full%half*16/half, 4, nibble)
						} else {
							put(row, eColumn+full*64/c.k/32, full*64/c.k%32, 4, nibble)
						}
					}
					a[row*c.k+to] = v
					if n := c.a.Bits(); c.ts() {
						put(lane(row), aColumn+k*n/32, k*n%32, n, bits)
					} else {
						putBits(picture, c.bitAt(c.a, c.m, row, k), n, bits)
					}
				}
			}
			for col := range c.n {
				for k := range c.k {
					v, bits := number(c.b)
					b[col*c.k+k] = v
					putBits(picture, 8*aBytes+c.bitAt(c.b, c.n, col, k), c.b.Bits(), bits)
				}
			}
			scales := func(rows, column int, x []float64) {
				for row := range rows {
					for s := range c.vec {
						v := []float64{1, 2, 4}[(row+s)%3]
						for q := 0; q < 128; q += 32 {
							put(row%32+q, column+row/32, 8*s, 8, c.scale.Encode(v, false))
						}
						for k := range c.k / c.vec {
							x[row*c.k+s*(c.k/c.vec)+k] *= v
						}
					}
				}
			}
			if c.vec > 0 {
				scales(c.m, saColumn, a)
				scales(c.n, sbColumn, b)
			}
			want := map[[2]int]uint64{}
			for row := range c.m {
				for col := range c.n {
					sum := float64((row + col) % 3)
					encode := func(v float64) uint64 {
						if c.d.IsFloat() {
							return c.d.Encode(v, false)
						}
						return c.d.EncodeInt(int64(v), false)
					}
					l, x := c.at(row, col)
					put(l+c.half, x, 0, c.d.Bits(), encode(sum))
					switch {
					case strings.HasPrefix(c.row, "lanes.") && isLeft(l):
						continue
					case strings.HasPrefix(c.row, "scaled."):
						sum /= 2
					}
					for k := range c.k {
						sum += a[row*c.k+k] * b[col*c.k+k]
					}
					want[[2]int{l + c.half, x}] = encode(sum)
				}
			}
			if _, err := Run(context.Background(), c.kernel(t, aBytes, bBytes), Launch{Args: args(picture, before, after)}, Options{}); err != nil {
				t.Fatal(err)
			}
			bad := 0
			for l := range 128 {
				for x := range 256 {
					v, ok := want[[2]int{l, x}]
					if !ok {
						v = uint64(binary.LittleEndian.Uint32(before[4*(512*l+x):]))
					}
					if got := uint64(binary.LittleEndian.Uint32(after[4*(256*l+x):])); got != v {
						if bad++; bad < 4 {
							t.Errorf("lane %d, column %d is %#x, must be %#x", l, x, got, v)
						}
					}
				}
			}
		})
	}
}
