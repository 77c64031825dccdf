package launch

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// Case is one operation of shared/bench/xla_peer.py: a fusion and the bytes that it has to
// move.
type Case struct {
	Name, Group, Type string
	Ideal             int
	Args              []Input
	Text              string // HLO
}

// Input is an argument of a case: elements of a hash of their number, or indices.
type Input struct {
	Name  string
	Dims  []int
	Kind  string // "" for elements, "permutation", "hash" or "row" for whole numbers
	Bound int
	Salt  int
}

// reducers are computations that the texts of cases call.
const reducers = `
add_TT { p0 = TT[] parameter(0)
 p1 = TT[] parameter(1)
 ROOT r = TT[] add(p0, p1)
}
add_f32x { p0 = f32[] parameter(0)
 p1 = f32[] parameter(1)
 ROOT r = f32[] add(p0, p1)
}
max_TT { p0 = TT[] parameter(0)
 p1 = TT[] parameter(1)
 ROOT r = TT[] maximum(p0, p1)
}
max_f32x { p0 = f32[] parameter(0)
 p1 = f32[] parameter(1)
 ROOT r = f32[] maximum(p0, p1)
}
`

// Cases are the operations with elements of type t, "f32" or "bf16", and main arrays of mib
// MiB.
func Cases(t string, mib int) []Case {
	es := map[string]int{"f32": 4, "bf16": 2}[t]
	n := mib << 20 / es
	var out []Case
	add := func(name, group string, ideal int, args []Input, body string, values ...any) {
		salt := 0
		var params strings.Builder
		for i := range args {
			a := &args[i]
			if a.Kind == "" {
				salt++
				a.Salt = salt
				fmt.Fprintf(&params, " %s = TT%s parameter(%d)\n", a.Name, sizes(a.Dims), i)
			} else {
				fmt.Fprintf(&params, " %s = s32%s parameter(%d)\n", a.Name, sizes(a.Dims), i)
			}
		}
		text := "HloModule " + name + reducers + "ENTRY main {\n" + params.String() + fmt.Sprintf(body, values...) + "}\n"
		out = append(out, Case{Name: name, Group: group, Type: t, Ideal: ideal, Args: args, Text: strings.ReplaceAll(text, "TT", t)})
	}
	arg := func(name string, dims ...int) Input { return Input{Name: name, Dims: dims} }
	args := func(a ...Input) []Input { return a }
	s := func(dims ...int) string { return sizes(dims) }
	// sum is a sum in f32 of the absolute elements, as frameworks add.
	sum := func(from, to string, dim int) string {
		if t == "f32" {
			return fmt.Sprintf(" b = TT%s abs(a)\n z = TT[] constant(0)\n ROOT r = TT%s reduce(b, z), dimensions={%d}, to_apply=add_TT\n", from, to, dim)
		}
		return fmt.Sprintf(" b = TT%s abs(a)\n f = f32%s convert(b)\n z = f32[] constant(0)\n s = f32%s reduce(f, z), dimensions={%d}, to_apply=add_f32x\n ROOT r = TT%s convert(s)\n", from, from, to, dim, to)
	}

	add("ew_add", "elementwise", 3*n*es, args(arg("a", n), arg("b", n)), " ROOT r = TT%s add(a, b)\n", s(n))
	add("ew_fma_relu", "elementwise", 4*n*es, args(arg("a", n), arg("b", n), arg("c", n)),
		" m = TT%[1]s multiply(a, b)\n s = TT%[1]s add(m, c)\n z = TT[] constant(0)\n zb = TT%[1]s broadcast(z), dimensions={}\n ROOT r = TT%[1]s maximum(s, zb)\n", s(n))
	r, c := n/4096, 4096
	add("ew_bias_broadcast", "elementwise", 2*n*es+c*es, args(arg("a", r, c), arg("v", c)),
		" vb = TT%[1]s broadcast(v), dimensions={1}\n s = TT%[1]s add(a, vb)\n z = TT[] constant(0)\n zb = TT%[1]s broadcast(z), dimensions={}\n m = TT%[1]s maximum(s, zb)\n h = TT[] constant(0.5)\n hb = TT%[1]s broadcast(h), dimensions={}\n ROOT r = TT%[1]s multiply(m, hb)\n", s(r, c))

	side := 1 << (bits.Len(uint(math.Sqrt(float64(n)))) - 1)
	m := n / side
	move := func(name string, from, to []int, perm string) {
		k := 1
		for _, d := range from {
			k *= d
		}
		add(name, "transpose", 2*k*es, args(arg("a", from...)), " b = TT%s abs(a)\n ROOT r = TT%s transpose(b), dimensions={%s}\n", sizes(from), sizes(to), perm)
	}
	move("transpose_10", []int{m, side}, []int{side, m}, "1,0")
	move("transpose_10_odd", []int{side - 3, side - 5}, []int{side - 5, side - 3}, "1,0")
	b := max(1, n/(512*1024))
	move("transpose_021", []int{b, 512, 1024}, []int{b, 1024, 512}, "0,2,1")
	b = max(1, n/(256*1024))
	move("transpose_210", []int{b, 256, 1024}, []int{1024, 256, b}, "2,1,0")
	b = max(1, n/(2048*64))
	move("transpose_102_heads", []int{b, 2048, 64}, []int{2048, b, 64}, "1,0,2")

	add("row_reduce_4096", "reduce", n*es+r*es, args(arg("a", r, c)), "%s", sum(s(r, c), s(r), 1))
	r2 := n / 1000
	add("row_reduce_1000", "reduce", r2*1000*es+r2*es, args(arg("a", r2, 1000)), "%s", sum(s(r2, 1000), s(r2), 1))
	add("row_reduce_to_scalar", "reduce", n*es, args(arg("a", n)),
		" b = TT%[1]s abs(a)\n two = TT[] constant(2)\n tb = TT%[1]s broadcast(two), dimensions={}\n d = TT%[1]s multiply(b, tb)\n z = TT[] constant(-inf)\n ROOT r = TT[] reduce(d, z), dimensions={0}, to_apply=max_TT\n", s(n))
	for _, w := range []int{8, 32} {
		add(fmt.Sprintf("multi_row_%d", w), "reduce", n*es+n/w*es, args(arg("a", n/w, w)), "%s", sum(s(n/w, w), s(n/w), 1))
	}
	cc := n / 4096
	add("column_reduce_4096", "reduce", n*es+cc*es, args(arg("a", 4096, cc)), "%s", sum(s(4096, cc), s(cc), 0))
	tall := n / 512
	add("column_reduce_tall", "reduce", n*es+512*es, args(arg("a", tall, 512)),
		" b = TT%s abs(a)\n z = TT[] constant(-inf)\n ROOT r = TT%s reduce(b, z), dimensions={0}, to_apply=max_TT\n", s(tall, 512), s(512))
	bc := n / (64 * 32)
	add("column_reduce_small", "reduce", n*es+bc*32*es, args(arg("a", bc, 64, 32)), "%s", sum(s(bc, 64, 32), s(bc, 32), 1))
	side2 := strings.Replace(sum(s(r, c), s(r), 1), "ROOT r =", "q =", 1)
	add("reduce_with_side_output", "reduce", 2*n*es+r*es, args(arg("a", r, c)),
		"%[1]s h = TT[] constant(0.5)\n hb = TT%[2]s broadcast(h), dimensions={}\n o = TT%[2]s multiply(a, hb)\n ROOT t = (TT%[3]s, TT%[2]s) tuple(q, o)\n", side2, s(r, c), s(r))
	add("softmax_rows_4096", "reduce", 2*n*es, args(arg("a", r, c)),
		" f = f32%[1]s convert(a)\n l = f32[] constant(-inf)\n m = f32%[2]s reduce(f, l), dimensions={1}, to_apply=max_f32x\n mb = f32%[1]s broadcast(m), dimensions={0}\n d = f32%[1]s subtract(f, mb)\n e = f32%[1]s exponential(d)\n z = f32[] constant(0)\n s = f32%[2]s reduce(e, z), dimensions={1}, to_apply=add_f32x\n sb = f32%[1]s broadcast(s), dimensions={0}\n q = f32%[1]s divide(e, sb)\n ROOT r = TT%[1]s convert(q)\n", s(r, c), s(r))

	const wid = 64
	u := 1 << (bits.Len(uint(n/wid/2)) - 1)
	for _, v := range []struct {
		name string
		rows int
		kind string
	}{{"scatter_add_unique", u, "permutation"}, {"scatter_add_light", u, "hash"}, {"scatter_add_contended", 4096, "hash"}} {
		unique := ""
		if v.kind == "permutation" {
			unique = ", unique_indices=true"
		}
		add(v.name, "scatter", u*wid*es+4*u+2*v.rows*wid*es, args(arg("upd", u, wid), Input{Name: "idx", Dims: []int{u}, Kind: v.kind, Bound: v.rows}),
			" z = TT[] constant(0)\n zb = TT%[1]s broadcast(z), dimensions={}\n ROOT r = TT%[1]s scatter(zb, idx, upd), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1%[2]s, to_apply=add_TT\n", s(v.rows, wid), unique)
	}
	add("gather_rows", "scatter", 2*u*wid*es+4*u, args(arg("tab", u, wid), Input{Name: "idx", Dims: []int{u}, Kind: "hash", Bound: u}),
		" g = TT%[1]s gather(tab, idx), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}\n two = TT[] constant(2)\n tb = TT%[1]s broadcast(two), dimensions={}\n ROOT r = TT%[1]s multiply(g, tb)\n", s(u, wid))

	k := n / 4
	concat := func(dim int, a, b, whole string) string {
		return fmt.Sprintf(" aa = TT%[2]s abs(a)\n two = TT[] constant(2)\n tb = TT%[2]s broadcast(two), dimensions={}\n c2 = TT%[2]s multiply(c, tb)\n k = TT%[4]s concatenate(aa, b, c2), dimensions={%[1]d}\n ROOT r = TT%[4]s negate(k)\n", dim, a, b, whole)
	}
	add("concat_1d", "concat", 2*4*k*es, args(arg("a", k), arg("b", 2*k), arg("c", k)), "%s", concat(0, s(k), s(2*k), s(4*k)))
	rr := n / 1024
	add("concat_minor", "concat", 2*rr*1024*es, args(arg("a", rr, 256), arg("b", rr, 512), arg("c", rr, 256)), "%s", concat(1, s(rr, 256), s(rr, 512), s(rr, 1024)))
	add("pad_slice", "concat", 2*rr*1024*es, args(arg("a", rr, 1024)),
		" z = TT[] constant(0)\n p = TT%[1]s pad(a, z), padding=0_0x3_5\n q = TT%[2]s slice(p), slice={[0:%[3]d], [4:1028]}\n two = TT[] constant(2)\n tb = TT%[2]s broadcast(two), dimensions={}\n ROOT r = TT%[2]s multiply(q, tb)\n", s(rr, 1032), s(rr, 1024), rr)
	add("dus_rows", "dus", 2*rr*1024*es, args(arg("buf", 2*rr, 1024), arg("upd", rr, 1024), Input{Name: "i", Dims: []int{}, Kind: "row", Bound: 17}),
		" two = TT[] constant(2)\n tb = TT%[1]s broadcast(two), dimensions={}\n u2 = TT%[1]s multiply(upd, tb)\n z = s32[] constant(0)\n ROOT r = TT%[2]s dynamic-update-slice(buf, u2, i, z)\n", s(rr, 1024), s(2*rr, 1024))
	return out
}

func sizes(dims []int) string {
	return strings.ReplaceAll(fmt.Sprint(dims), " ", ",")
}

// Fill is a fusion whose result is the elements of an input.
func (in Input) Fill(t string) string {
	n := 1
	for _, d := range in.Dims {
		n *= d
	}
	flat, shape := sizes([]int{n}), sizes(in.Dims)
	u := func(name string, v uint32) string {
		return fmt.Sprintf(" %[1]s0 = u32[] constant(%[2]d)\n %[1]s = u32%[3]s broadcast(%[1]s0), dimensions={}\n", name, v, flat)
	}
	text := fmt.Sprintf("HloModule fill\nENTRY main {\n i = u32%s iota(), iota_dimension=0\n", flat)
	switch in.Kind {
	case "row":
		return fmt.Sprintf("HloModule fill\nENTRY main {\n ROOT r = s32[] constant(%d)\n}\n", in.Bound)
	case "permutation":
		text += u("f", 40503) + u("k", uint32(n-1)) + fmt.Sprintf(" m = u32%[1]s multiply(i, f)\n a = u32%[1]s and(m, k)\n c = s32%[1]s convert(a)\n ROOT r = s32%[2]s reshape(c)\n}\n", flat, shape)
	case "hash":
		text += u("f", 2654435761) + u("k", 7) + u("b", uint32(in.Bound)) + fmt.Sprintf(" m = u32%[1]s multiply(i, f)\n s = u32%[1]s shift-right-logical(m, k)\n a = u32%[1]s remainder(s, b)\n c = s32%[1]s convert(a)\n ROOT r = s32%[2]s reshape(c)\n}\n", flat, shape)
	default:
		text += u("f", 2654435761) + u("k", uint32(in.Salt*40503)) + u("e", 8) +
			fmt.Sprintf(" m = u32%[1]s multiply(i, f)\n a = u32%[1]s add(m, k)\n s = u32%[1]s shift-right-logical(a, e)\n v = f32%[1]s convert(s)\n t0 = f32[] constant(5.9604644775390625e-08)\n t = f32%[1]s broadcast(t0), dimensions={}\n w = f32%[1]s multiply(v, t)\n h0 = f32[] constant(0.5)\n h = f32%[1]s broadcast(h0), dimensions={}\n d = f32%[1]s subtract(w, h)\n c = %[3]s%[1]s convert(d)\n ROOT r = %[3]s%[2]s reshape(c)\n}\n", flat, shape, t)
	}
	return text
}
