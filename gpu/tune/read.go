package tune

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// readTile is how many elements of u32 a block reads at a time: 16 bytes for
// each of its 256 threads. It reads readDepth such tiles before it uses one.
const (
	readTile  = 1024
	readDepth = 8
)

// ReadKernel is the program that reads x, an array u32[n] of which n is a
// multiple of 4, once and as fast as the machine allows. Each of its blocks adds
// its tiles up, so that no load is idle, and stores one tile of sums to y, an
// array u32[blocks, 1024]. Tiles go round the blocks, and what sticks out
// behind x is loaded as 0, so the work is even for any n.
func ReadKernel(blocks int) (*ir.Program, error) {
	const tile = " : register u32[1024] spatial(256).local(4)\n"
	var b strings.Builder
	b.WriteString("program read[blocks]<blocks>(x: *u32, y: *u32, n: i32) warps=8 {\n" +
		"\tbi = BlockIndices()\n" +
		"\tgx = ViewGlobal(x) : global u32[n]\n" +
		"\tgy = ViewGlobal(y) : global u32[blocks, 1024]\n" +
		"\tsum = AllocateRegister(init=0)" + tile)
	fmt.Fprintf(&b, "\tfor i in 0..(n + %d*blocks - 1)/(%[1]d*blocks) {\n", readTile*readDepth)
	for j := range readDepth {
		fmt.Fprintf(&b, "\t\tr%[1]d = LoadGlobal(gx, offset=[((i*%[2]d + %[1]d)*blocks + bi)*%[3]d])%[4]s", j, readDepth, readTile, tile)
	}
	for j := range readDepth {
		fmt.Fprintf(&b, "\t\tsum = Add(sum, r%d)%s", j, tile)
	}
	b.WriteString("\t}\n\tStoreGlobal(gy, sum, offset=[bi, 0], dims=[1])\n}\n")
	return text.Parse("read.tile", b.String(), map[string]string{"blocks": strconv.Itoa(blocks)})
}

// ReadArgs are random arguments of [ReadKernel] that are bytes long, rounded up
// to 16, and the arrays that it must leave.
func ReadArgs(bytes int64, blocks int) (args []ir.Arg, want []*array.Array, err error) {
	n := int((bytes + 15) / 16 * 4)
	if err := array.CheckShape(dtype.U32, n); err != nil {
		return nil, nil, err
	}
	x := array.New(dtype.U32, n)
	rand.NewChaCha8([32]byte{1}).Read(x.Data)
	sums := make([]uint32, blocks*readTile)
	for k := 0; k < n; k += readTile {
		s := sums[k/readTile%blocks*readTile:]
		for j := range min(readTile, n-k) {
			s[j] += binary.LittleEndian.Uint32(x.Data[4*(k+j):])
		}
	}
	y := array.New(dtype.U32, blocks, readTile)
	for i, v := range sums {
		binary.LittleEndian.PutUint32(y.Data[4*i:], v)
	}
	args = []ir.Arg{{Array: x}, {Array: array.New(dtype.U32, blocks, readTile)}, {Int: int64(n)}}
	return args, []*array.Array{nil, y, nil}, nil
}

// readBlocks is how many blocks a SM the read kernel is launched with.
const readBlocks = 2

// TimeRead times our read kernel over bytes of random data and checks its sums.
// The sums it writes, 4 KB a block, are not counted.
func TimeRead(ctx context.Context, g *GPU, bytes int64, o Options) (Timing, error) {
	blocks := readBlocks * g.SMs
	p, err := ReadKernel(blocks)
	if err != nil {
		return Timing{}, err
	}
	args, want, err := ReadArgs(bytes, blocks)
	if err != nil {
		return Timing{}, fmt.Errorf("tune: %w", err)
	}
	o.Bytes, o.Want, o.Tolerance, o.Read = int64(len(args[0].Array.Data)), want, 0, false
	return Time(ctx, g, p, args, o)
}
