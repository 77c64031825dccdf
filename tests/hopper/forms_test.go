package hopper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// form is one way to bring a tile of a tensor to shared memory and back to another
// tensor of the same shape.
type form struct {
	elem       dtype.Type
	dims       []int  // of both tensors
	tile       []int  // its extents along the last dimensions
	swizzle    int    // bits, 0 to 3
	from, to   []int  // offsets in the tensors
	load, back string // "Tensor" or "Bulk"
	op         string // how what comes back is combined, "" for not at all
	cache      string
	multicast  bool // the second block of two brings the tile to both
	shared     bool // the tile goes through the memory of the other block of two
	prefetch   bool
}

func (f form) String() string {
	s := fmt.Sprintf("%s%v tile%v swizzle%d from%v to%v %s-%s", f.elem, f.dims, f.tile, f.swizzle, f.from, f.to, f.load, f.back)
	for name, on := range map[string]bool{" multicast": f.multicast, " shared": f.shared, " prefetch": f.prefetch} {
		if on {
			s += name
		}
	}
	return strings.TrimRight(s+" "+f.op+" "+f.cache, " ")
}

func (f form) blocks() int {
	if f.multicast || f.shared {
		return 2
	}
	return 1
}

func (f form) program() (*ir.Program, error) {
	l := layout.SharedRowMajor(f.tile...)
	if f.swizzle > 0 {
		base := 0
		for 1<<base < 128/f.elem.Bits() {
			base++
		}
		w, err := layout.NewSwizzle(f.swizzle, base, 3)
		if err != nil {
			return nil, err
		}
		if l, err = l.ApplySwizzle(w); err != nil {
			return nil, err
		}
	}
	list := func(x []int) string { return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(x), "[]")), ", ") }
	tile := ir.SharedOf(f.elem, l).String()
	bytes := f.elem.Bits() / 8
	for _, n := range f.tile {
		bytes *= n
	}
	attrs := ""
	if f.cache != "" {
		attrs = ", cache=" + f.cache
	}
	head, rank, lead := "", "", ""
	if f.blocks() == 2 {
		head, rank, lead = " cluster=[2]", "\tr = ClusterRank()\n", "2, "
	}
	var b strings.Builder
	fmt.Fprintf(&b, "program form<%d>(a: *%s, b: *%s) warps=1%s {\n%s", f.blocks(), f.elem, f.elem, head, rank)
	fmt.Fprintf(&b, "\tga = ViewGlobal(a) : global %s[%s]\n\tgb = ViewGlobal(b) : global %s[%s%s]\n", f.elem, list(f.dims), f.elem, lead, list(f.dims))
	fmt.Fprintf(&b, "\ttile = AllocateShared() : %s\n\tfull = AllocateBarrier(count=1) : shared u64[1] shared_row_major(1)\n", tile)
	if f.shared {
		fmt.Fprintf(&b, "\tcame = AllocateShared() : %s\n\tthere = AllocateBarrier(count=1) : shared u64[1] shared_row_major(1)\n", tile)
	}
	if f.prefetch {
		shape := slices.Repeat([]int{1}, len(f.dims))
		copy(shape[len(f.dims)-len(f.tile):], f.tile)
		fmt.Fprintf(&b, "\tgroup(0, 1) {\n\t\tPrefetchTensor(ga, offset=[%s], shape=[%s])\n\t}\n", list(f.from), list(shape))
	}
	name := map[string]string{"Tensor": "CopyAsyncTensor", "Bulk": "CopyAsyncBulk"}
	sync := "\tSynchronize()\n"
	if f.blocks() == 2 {
		sync = "\tClusterSynchronize()\n"
	}
	b.WriteString(sync)
	begin := fmt.Sprintf("%sGlobalToShared(ga, tile, full, 0, offset=[%s]%s", name[f.load], list(f.from), attrs)
	fmt.Fprintf(&b, "\tgroup(0, 1) {\n\t\tArriveExpectTxBarrier(full, 0, bytes=%d)\n\t}\n", bytes)
	if f.multicast {
		fmt.Fprintf(&b, "%s\tif r == 1 {\n\t\tgroup(0, 1) {\n\t\t\t%s, multicast=[3])\n\t\t}\n\t}\n", sync, begin)
	} else {
		fmt.Fprintf(&b, "\tgroup(0, 1) {\n\t\t%s)\n\t}\n", begin)
	}
	b.WriteString("\tWaitBarrier(full, 0)\n")
	last := "tile"
	if f.shared {
		last = "came"
		fmt.Fprintf(&b, "\tgroup(0, 1) {\n\t\tArriveExpectTxBarrier(there, 0, bytes=%d)\n\t}\n%s\tgroup(0, 1) {\n\t\tCopyAsyncBulkSharedToClusterShared(tile, came, there, 0, rank=[1 - r])\n\t}\n\tWaitBarrier(there, 0)\n", bytes, sync)
	}
	to, dims := list(f.to), ""
	if f.blocks() == 2 {
		to = "r, " + to
		along := make([]int, len(f.tile))
		for i := range along {
			along[i] = 1 + len(f.dims) - len(f.tile) + i
		}
		dims = fmt.Sprintf(", dims=[%s]", list(along))
	}
	if f.op != "" {
		attrs = ", op=" + f.op + attrs
	}
	fmt.Fprintf(&b, "\tgroup(0, 1) {\n\t\t%sSharedToGlobal(gb, %s, offset=[%s]%s%s)\n\t\tCopyAsyncTensorCommitGroup()\n\t\tCopyAsyncTensorWaitGroup(n=0)\n\t}\n", name[f.back], last, to, dims, attrs)
	if f.blocks() == 2 {
		b.WriteString(sync)
	}
	b.WriteString("}\n")
	p, err := text.Parse("form.tile", b.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, b.String())
	}
	return p, nil
}

// args are both tensors: small integers, so that sums of floats are exact.
func (f form) args(t *testing.T) []ir.Arg {
	t.Helper()
	lo := -20
	if !f.elem.Signed() {
		lo = 1
	}
	one := func(seed int, dims []int) ir.Arg {
		a, err := array.Generate(fmt.Sprintf("randint:%s[%s]:seed=%d:lo=%d:hi=20", f.elem, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(dims)), ", "), "[]"), seed, lo))
		if err != nil {
			t.Fatal(err)
		}
		return ir.Arg{Array: a}
	}
	out := f.dims
	if f.blocks() == 2 {
		out = append([]int{2}, f.dims...)
	}
	return []ir.Arg{one(1, f.dims), one(2, out)}
}

// want is the second tensor afterwards, element by element.
func (f form) want(args []ir.Arg) *array.Array {
	a, b := args[0].Array, args[1].Array.Clone()
	index := make([]int, len(f.tile))
	at := func(offset []int) (int, bool) {
		k := 0
		for d, n := range f.dims {
			x := offset[d]
			if i := d - len(f.dims) + len(f.tile); i >= 0 {
				x += index[i]
			}
			if x < 0 || x >= n {
				return 0, false
			}
			k = k*n + x
		}
		return k, true
	}
	for {
		code := uint64(0)
		if k, ok := at(f.from); ok {
			code = a.Code(k)
		}
		if k, ok := at(f.to); ok {
			for block := range f.blocks() {
				k := k + block*a.Len()
				b.SetCode(k, combine(f.elem, f.op, b.Code(k), code))
			}
		}
		d := len(index) - 1
		for ; d >= 0; d-- {
			if index[d]++; index[d] < f.tile[d] {
				break
			}
			index[d] = 0
		}
		if d < 0 {
			return b
		}
	}
}

func combine(t dtype.Type, op string, old, new uint64) uint64 {
	switch op {
	case "add":
		return dtype.Add(t, old, new)
	case "min":
		return dtype.Min(t, old, new)
	case "max":
		return dtype.Max(t, old, new)
	case "and":
		return old & new
	case "or":
		return old | new
	case "xor":
		return old ^ new
	}
	return new
}

// forms are tiles of every rank, swizzle and element type, at offsets inside and on
// both sides outside, by every kind of copy.
func forms() []form {
	types := []dtype.Type{dtype.F16, dtype.F32, dtype.U8, dtype.BF16, dtype.I64, dtype.F8E4M3, dtype.I32, dtype.F64, dtype.TF32, dtype.U16, dtype.I8, dtype.U64, dtype.I16, dtype.U32, dtype.F8E5M2}
	var all []form
	shape := func(t dtype.Type, rank, swizzle int, wide bool) (dims, tile []int) {
		row := 16 << swizzle
		if wide {
			row = 256
		}
		per := 128 / t.Bits()
		dims, tile = []int{row*8/t.Bits() + 3*per}, []int{row * 8 / t.Bits()}
		for d := 1; d < rank; d++ {
			n := []int{0, 8, 2, 2, 2}[d]
			dims, tile = append([]int{n + 1}, dims...), append([]int{n}, tile...)
		}
		return dims, tile
	}
	for rank := 1; rank <= 5; rank++ {
		for swizzle := range 5 {
			for where := range 3 {
				t := types[len(all)%len(types)]
				f := form{elem: t, swizzle: swizzle % 4, load: "Tensor", back: "Tensor", cache: []string{"", "first", "last", "normal"}[len(all)%4], prefetch: len(all)%3 == 0}
				if rank == 1 && swizzle > 0 && swizzle < 4 {
					f.swizzle = 0 // a row alone is not swizzled over eight
				}
				f.dims, f.tile = shape(t, rank, swizzle%4, swizzle == 4)
				per := 128 / t.Bits()
				for d := range f.dims {
					step := 1
					if d == rank-1 {
						step = per
					}
					f.from = append(f.from, []int{0, 2, -1}[where]*step)
					f.to = append(f.to, []int{1, 0, 1}[where]*step)
				}
				all = append(all, f)
			}
		}
	}
	for i, t := range types { // each type once more: through two blocks, and by plain bulk copies
		dims, tile := shape(t, 2, 1+i%3, false)
		per := 128 / t.Bits()
		all = append(all,
			form{elem: t, dims: dims, tile: tile, swizzle: 1 + i%3, from: []int{1, 2 * per}, to: []int{0, per}, load: "Tensor", back: "Tensor", multicast: i%2 == 0, shared: i%2 == 1},
			form{elem: t, dims: dims, tile: tile, from: []int{1, 2 * per}, to: []int{0, per}, load: "Bulk", back: "Bulk", multicast: i%2 == 1, shared: i%3 == 0, cache: []string{"first", "", "last"}[i%3]})
	}
	for _, op := range []string{"add", "min", "max", "and", "or", "xor"} {
		has := []dtype.Type{dtype.I32, dtype.U32, dtype.U64}
		switch op {
		case "add":
			has = append(has, dtype.F16, dtype.BF16, dtype.F32)
		case "min", "max":
			has = append(has, dtype.I64, dtype.F16, dtype.BF16)
		default:
			has = append(has, dtype.I64)
		}
		for i, t := range has {
			dims, tile := shape(t, 2+i%2, i%4, false)
			f := form{elem: t, dims: dims, tile: tile, swizzle: i % 4, load: "Tensor", back: "Tensor", op: op, from: make([]int, len(dims)), to: slices.Repeat([]int{1}, len(dims))}
			f.to[len(dims)-1] = 128 / t.Bits()
			all = append(all, f)
		}
	}
	return all
}

// TestForms holds interpreter and simulator, and a Hopper GPU where there is one, to
// what copies of tiles mean, and gives each to the assembler.
func TestForms(t *testing.T) {
	ptxas := ""
	t.Run("assembler", func(t *testing.T) { ptxas = need.Ptxas(t) })
	machines := map[string]device.Device{}
	for _, name := range []string{"interp", "sim:sm_90a", "cuda"} {
		d, err := device.Open(name)
		if errors.Is(err, device.ErrNoGPU) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if name != "cuda" || d.Describe().Arch == "sm_90a" {
			machines[name] = d
		}
	}
	for _, f := range forms() {
		p, err := f.program()
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		args := f.args(t)
		want := f.want(args)
		for name, d := range machines {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			res, err := d.Run(ctx, p, args)
			cancel()
			if err != nil {
				t.Errorf("%s: %s: %v\n%s", f, name, err, p.Source)
				continue
			}
			if r := array.Compare(res.Args[1].Array, want); r.Differ > 0 {
				t.Errorf("%s: %s: %+v\n%s", f, name, r, p.Source)
			}
		}
		if ptxas != "" {
			assembles(t, "sm_90a", f, p)
		}
	}
	t.Logf("%d forms", len(forms()))
}
