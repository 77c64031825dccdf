package tune

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// readShape is how the read kernel spreads over the machine: blocks of warps
// warps, each thread with depth loads of 16 bytes under way.
type readShape struct{ blocks, warps, depth int }

// tile is how many elements of u32 a block reads with one load of all its threads.
func (s readShape) tile() int { return s.warps * ir.LanesPerWarp * 4 }

// program is the read kernel for n elements, a multiple of 4. Tiles go round the
// blocks, so that the work is even for any n. Full rounds need no bounds check;
// in the others, what sticks out behind x is loaded as 0. Launches overlap (programmatic
// dependent launch), as those of the products that are compared with it do.
func (s readShape) program(n int) (*ir.Program, error) {
	round := s.depth * s.blocks
	full := n / s.tile() / round
	tile := fmt.Sprintf(" : register u32[%d] spatial(%d).local(4)\n", s.tile(), s.tile()/4)
	var b strings.Builder
	fmt.Fprintf(&b, "program read<%d>(x: *u32, y: *u32) warps=%d {\n\tbi = BlockIndices()\n", s.blocks, s.warps)
	fmt.Fprintf(&b, "\tgx = ViewGlobal(x) : global u32[%d]\n\tgy = ViewGlobal(y) : global u32[%d, %d]\n", n, s.blocks, s.tile())
	b.WriteString("\tGridDependencyLaunch()\n\tsum = AllocateRegister(init=0)" + tile)
	if full > 0 {
		fmt.Fprintf(&b, "\tfor i in 0..%d unroll=1 {\n", full)
		for j := range s.depth {
			fmt.Fprintf(&b, "\t\tr%d = LoadGlobal(gx, offset=[(i*%d + bi + %d)*%d])%s", j, round, j*s.blocks, s.tile(), tile)
		}
		for j := range s.depth {
			fmt.Fprintf(&b, "\t\tsum = Add(sum, r%d)%s", j, tile)
		}
		b.WriteString("\t}\n")
	}
	for at := full * round; at*s.tile() < n; at += s.blocks {
		fmt.Fprintf(&b, "\tq%d = LoadGlobal(gx, offset=[(bi + %[1]d)*%d])%s", at, s.tile(), tile)
	}
	for at := full * round; at*s.tile() < n; at += s.blocks {
		fmt.Fprintf(&b, "\tsum = Add(sum, q%d)%s", at, tile)
	}
	b.WriteString("\tGridDependencyWait()\n\tStoreGlobal(gy, sum, offset=[bi, 0], dims=[1])\n}\n")
	return text.Parse("read.tile", b.String(), nil)
}

// args are random arguments for n elements and the arrays that the kernel must leave.
func (s readShape) args(n int) (args []ir.Arg, want []*array.Array) {
	x := array.New(dtype.U32, n)
	rand.NewChaCha8([32]byte{1}).Read(x.Data)
	tile := s.tile()
	sums := make([]uint32, s.blocks*tile)
	for k := 0; k < n; k += tile {
		to := sums[k/tile%s.blocks*tile:]
		for j := range min(tile, n-k) {
			to[j] += binary.LittleEndian.Uint32(x.Data[4*(k+j):])
		}
	}
	y := array.New(dtype.U32, s.blocks, tile)
	for i, v := range sums {
		binary.LittleEndian.PutUint32(y.Data[4*i:], v)
	}
	return []ir.Arg{{Array: x}, {Array: array.New(dtype.U32, s.blocks, tile)}}, []*array.Array{nil, y}
}

// time times the kernel over n elements.
func (s readShape) time(ctx context.Context, g *GPU, n int, o Options) (Timing, error) {
	p, err := s.program(n)
	if err != nil {
		return Timing{}, err
	}
	args, want := s.args(n)
	o.Bytes, o.Want, o.Tolerance, o.Read = int64(4*n), want, 0, false
	return Time(ctx, g, p, args, o)
}

// readOn is the shape for a GPU of sms SMs: the fastest on an H200 for 34 and
// 235 MB, and within 5% of it for 8 MB (TestGPUReadShapes).
func readOn(sms int) readShape { return readShape{blocks: 4 * sms, warps: 8, depth: 8} }

// readElements is how many elements of u32 make bytes, rounded up to 16.
func readElements(bytes int64) (int, error) {
	n := int((bytes + 15) / 16 * 4)
	return n, array.CheckShape(dtype.U32, n)
}

// ReadKernel is the program that reads x, an array u32 of so many bytes (rounded
// up to 16), once and as fast as a GPU of sms SMs allows. Each of its blocks adds
// its tiles up, so that no load is idle, and stores one tile of sums to y.
func ReadKernel(bytes int64, sms int) (*ir.Program, error) {
	n, err := readElements(bytes)
	if err != nil {
		return nil, err
	}
	return readOn(sms).program(n)
}

// TimeRead times [ReadKernel] over random data and checks its sums. The sums that
// it writes, 4 KB a block, are not counted.
func TimeRead(ctx context.Context, g *GPU, bytes int64, o Options) (Timing, error) {
	n, err := readElements(bytes)
	if err != nil {
		return Timing{}, fmt.Errorf("tune: %w", err)
	}
	return readOn(g.SMs).time(ctx, g, n, o)
}
