package qmm

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/export"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// headerDir is a directory with the files of a layer, those of testdata, and a stand-in for NVIDIA's header, for one program in C. Without
// a target programs have headers that say what they take alone.
func headerDir(t *testing.T, e *Exported, target, glue string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string][]byte{e.Name + ".h": e.C, e.Name + ".py": e.Python, "glue.h": []byte(glue)}
	for _, path := range []string{"../export/testdata/cuda.h", "testdata/layer.c", "testdata/order.c", "testdata/launches.py"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = data
	}
	for _, p := range e.Programs {
		if target != "" {
			if _, err := export.Write(dir, p, export.Options{Arch: target}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var params strings.Builder
		for _, v := range p.Params {
			switch {
			case v.Type.Kind == ir.Pointer:
				params.WriteString(", CUdeviceptr " + v.Name)
			case v.Type.Elem == dtype.F32:
				params.WriteString(", float " + v.Name)
			default:
				params.WriteString(", int32_t " + v.Name)
			}
		}
		files[p.Name+".h"] = fmt.Appendf(nil, "#include <cuda.h>\n#include <stdint.h>\ntypedef struct { CUmodule module; int dependent; } %[1]s_t;\nCUresult %[1]s_load(%[1]s_t *k);\nCUresult %[1]s_launch(%[1]s_t *k, CUstream stream%[2]s);\n", p.Name, params.String())
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// compiled is a program of a directory, which a compiler makes of a file without a warning.
func compiled(t *testing.T, dir, compiler, standard, file string, options ...string) string {
	t.Helper()
	exe := filepath.Join(dir, standard)
	args := append([]string{"-Wall", "-Wextra", "-Werror", "-pedantic", "-std=" + standard, "-I", dir, "-o", exe}, options...)
	if out, err := exec.Command(compiler, append(args, filepath.Join(dir, file), "-lm")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// TestHeader has the header of a layer launch beside a driver that says what it hears, and holds it to the module's launches: programs,
// grids, memory, arguments, tensor maps and leave to begin early. What both make room for lies where nothing else does.
func TestHeader(t *testing.T) {
	python, cc := need.Jupyter(t), need.CC(t)
	cxx, _ := exec.LookPath("c++")
	if cxx == "" {
		t.Log("no c++: headers are compiled as C alone")
	}
	rows := []int{1, 8, 16, 17, 64, 128, 200, 2048, 5000, 5*3355392 + 24}
	instead, puts, orders := 0, 0, 0
	for i, text := range []string{"u4 zero", "i4", "nvfp4", "mxfp4", "f6e3m2", "u2 zero", "i4 act=bf16", "u1", "mxfp8e4m3 act=bf16", "u4 zero=any group=64", "u4", "i3"} {
		size, bias, order, target := [2]int{250, 520}, i%3 == 1, i%5 == 0 || i%5 == 3, "sm_90a"
		if i%4 > 1 {
			size = [2]int{8192, 8192}
		}
		if i > 9 { // and no room but of sums, or none at all
			target, size = "sm_80", [2]int{24, 64 << (i % 10 * 3)}
		}
		t.Run(strings.ReplaceAll(text, " ", "_"), func(t *testing.T) {
			l := kind(t, text, size[0], size[1])
			by := []int{1, 8, 16, 32, 64, 128, 256, 2048}
			extra := Extra{Bias: bias, Order: order}
			e, err := l.Export("of", target, extra, by...)
			if err != nil {
				t.Fatal(err)
			}
			m, err := l.module("of", target, extra, by...)
			if err != nil {
				t.Fatal(err)
			}
			products, err := m.inC(target)
			if err != nil {
				t.Fatal(err)
			}
			var takes []string // of RUN, and parts of weights in Python
			parts := []string{"packed:uint8", fmt.Sprintf("scales:%s", map[int]string{8: "uint8", 16: "int16"}[l.ScaleType.Bits()])}
			takes = append(takes, "AT(PACKED)", "AT(SCALES)")
			if l.ZeroPoint {
				takes = append(takes, "AT(ZEROS)")
				parts = append(parts, "zeros:"+map[dtype.Type]string{dtype.U8: "uint8", dtype.F16: "float16", dtype.BF16: "bfloat16"}[m.plan.ZeroType()])
			}
			if bias {
				takes, parts = append(takes, "AT(BIAS)"), append(parts, "bias:int16")
			}
			if order {
				takes, parts = append(takes, "AT(ORDER)"), append(parts, "order:int32")
				orders++
			}
			if l.Factor {
				takes, parts = append(takes, "0.375f"), append(parts, "factor")
			}
			if strings.Contains(string(e.Python), "def _exact(") {
				parts = append(parts, "exact")
			}
			glue := "#include \"linear_of.h\"\n#define RUN(k, x, y, rows, workspace) linear_of_run(k, stream, " + strings.Join(takes, ", ") + ", x, y, rows, workspace)\nstatic const char *const programs[][2] = {\n"
			byName := map[string]*ir.Program{}
			dir := headerDir(t, e, target, "")
			for _, p := range e.Programs {
				byName[p.Name] = p
				header, err := os.ReadFile(filepath.Join(dir, p.Name+".h"))
				if err != nil {
					t.Fatal(err)
				}
				var kinds strings.Builder
				for _, v := range p.Params {
					switch {
					case v.Type.Kind == ir.Pointer:
						kinds.WriteByte('p')
					case v.Type.Elem == dtype.F32:
						kinds.WriteByte('f')
					default:
						kinds.WriteByte('i')
					}
				}
				kinds.WriteString(strings.Repeat("m", strings.Count(string(header), "cuTensorMapEncodeTiled(")))
				glue += fmt.Sprintf("\t{\"%s\", \"%s\"},\n", p.Name, &kinds)
			}
			if err := os.WriteFile(filepath.Join(dir, "glue.h"), []byte(glue+"};\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			exe := compiled(t, dir, cc, "c99", "layer.c")
			if cxx != "" {
				compiled(t, dir, cxx, "c++11", "layer.c", "-x", "c++", "-fsyntax-only")
			}
			run := func(name string, args ...string) string {
				t.Helper()
				cmd := exec.Command(name, args...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %v\n%s", args, err, out)
				}
				return string(out)
			}
			if got, want := run(exe), fmt.Sprintf("failed %d times\n", strings.Count(string(e.C), "_load(&k->")); got != want {
				t.Errorf("loads %s, want %s", got, want)
			}
			run(exe, "4096")
			var texts []string
			for _, r := range rows {
				texts = append(texts, strconv.Itoa(r))
			}
			c := launchesOf(t, run(exe, append([]string{strconv.Itoa(MaxSize)}, texts...)...))
			py := launchesOf(t, run(python, append([]string{"launches.py", strings.Join(parts, " ")}, texts...)...))
			if len(c) != len(py) || len(c) != 1+2*len(rows) {
				t.Fatalf("%d products in C and %d in Python, of %d", len(c), len(py), 1+2*len(rows))
			}
			for i := range c {
				a, b := strings.Join(c[i].lines, "\n"), strings.Join(py[i].lines, "\n")
				if of := slices.IndexFunc(m.products, func(p exportedProduct) bool { return p.Plan == Expand }); of >= 0 && strings.Contains(b, "launch expand_of ") {
					if !strings.Contains(a, "launch arrange_of ") || strings.Contains(a, "launch gather_of ") != order || !strings.Contains(a, "launch "+products[of].Program+"_of ") {
						t.Errorf("instead of plain weights C has:\n%s", a)
					}
					instead++
					continue
				}
				for _, line := range c[i].lines {
					gathers := strings.HasPrefix(line, "launch gather_of ")
					if x, inputs := readsOf(line, xBuffer), readsOf(line, orderBuffer); order && (x != gathers || inputs != gathers) {
						t.Errorf("%d rows: x is read %v, its order %v, by %s", c[i].rows, x, inputs, line)
					}
				}
				if a != b {
					t.Errorf("%d rows in C:\n%s\nand in Python:\n%s", c[i].rows, a, b)
				}
			}
			for _, most := range []int{1, 8, 17, 200, 5000, MaxSize} {
				var texts []string
				for _, r := range rows {
					if r <= most {
						texts = append(texts, strconv.Itoa(r))
					}
				}
				puts += holdRoom(t, m, byName, products, run(exe, append([]string{strconv.Itoa(most)}, texts...)...))
			}
		})
	}
	if puts == 0 || instead == 0 || orders == 0 {
		t.Errorf("%d products put sums, %d are of programs instead of plain weights, %d layers have an order", puts, instead, orders)
	}
}

// launched is what a driver heard of one product.
type launched struct {
	rows  int // 0 of packing
	lines []string
}

var addresses = regexp.MustCompile(`@[0-9a-f]+`)

// place is the buffer of an address that layer.c and launches.py give, and how far it is in that.
func place(address string) (buffer, at int64) {
	v, err := strconv.ParseInt(strings.TrimPrefix(address, "@"), 16, 64)
	if err != nil {
		panic(err)
	}
	return v >> 40, v & (1<<40 - 1)
}

// Some of these buffers.
const (
	xBuffer         = 5
	workspaceBuffer = 7
	orderBuffer     = 9
)

// readsOf reports whether a launch has an argument in a buffer.
func readsOf(line string, buffer int64) bool {
	return slices.ContainsFunc(addresses.FindAllString(line, -1), func(a string) bool {
		of, _ := place(a)
		return of == buffer
	})
}

// launchesOf are the products that a driver heard, where buffers beside weights, x and y are numbered in
// the order in which they occur, of each launch anew.
func launchesOf(t *testing.T, out string) []launched {
	t.Helper()
	all := []launched{{}}
	numbers := map[string]string{}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if rows, ok := strings.CutSuffix(line, " rows"); ok {
			n, err := strconv.Atoi(rows)
			if err != nil {
				t.Fatal(err)
			}
			all, numbers = append(all, launched{rows: n}), map[string]string{}
			continue
		}
		if strings.HasPrefix(line, "workspace") {
			continue
		}
		line = addresses.ReplaceAllStringFunc(line, func(a string) string {
			if buffer, _ := place(a); buffer != workspaceBuffer && buffer < 16 {
				return a
			}
			if numbers[a] == "" {
				numbers[a] = fmt.Sprintf("room %d", len(numbers))
			}
			return numbers[a]
		})
		all[len(all)-1].lines = append(all[len(all)-1].lines, line)
		if !strings.HasPrefix(line, "launch arrange_of ") && !strings.HasPrefix(line, "launch gather_of ") { // the last of some rows
			numbers = map[string]string{}
		}
	}
	return all
}

// holdRoom holds what layer.c says of launches with one workspace: each part has the room that its program takes, inside and apart from
// the others, and what must be 0 between products is apart from all that need not be, of any product. It gives how many put sums.
func holdRoom(t *testing.T, m *module, programs map[string]*ir.Program, products []exportedProduct, out string) (puts int) {
	t.Helper()
	type span struct {
		from, to int64
		what     string
	}
	var size int64
	var zeros, others []span
	for line := range strings.Lines(out) {
		if _, err := fmt.Sscanf(line, "workspace %d bytes", &size); err == nil {
			continue
		}
		name, values, ok := strings.Cut(strings.TrimPrefix(line, "launch "), ":")
		if name, _, _ = strings.Cut(name, " "); !ok || programs[name] == nil || name == "pack_of" {
			continue
		}
		words, params := strings.Fields(values), programs[name].Params
		rows := 0
		for i, p := range params {
			if p.Name == "M" {
				rows, _ = strconv.Atoi(words[i])
			}
		}
		arranged, sums := m.plan.Arranged(rows, m.K)
		room := map[string]int{"sums": 4 * elements(sums)}
		var of exportedProduct
		switch name {
		case "gather_of":
			room["y"] = 2 * rows * m.K
		case "arrange_of":
			room["x"], room["y"] = 2*rows*m.K, 2*elements(arranged)
		default:
			of = products[slices.IndexFunc(products, func(p exportedProduct) bool { return p.Program+"_of" == name })]
			room["x"] = 2 * elements(arranged)
			workspace := of.Wide.Workspace
			if of.Plan == Decode {
				room["x"], workspace = 2*rows*m.K, of.Schedule.Workspace
			}
			if of.Shares() {
				part, counts := workspace(m.plan, rows, m.N)
				room["part"], room["arrived"] = 4*elements(part), 4*counts
			}
		}
		var mine []span
		for i, p := range params {
			if p.Type.Kind != ir.Pointer {
				continue
			}
			buffer, at := place(words[i])
			if buffer != workspaceBuffer {
				continue
			}
			n, ok := room[p.Name]
			s := span{at, at + int64(n), fmt.Sprintf("%s of %s, %d rows", p.Name, name, rows)}
			if !ok || n < 1 || at%256 != 0 || s.to > size {
				t.Errorf("a workspace of %d bytes, with %s, %d bytes, at %d", size, s.what, n, at)
			}
			mine = append(mine, s)
			if p.Name == "arrived" || p.Name == "part" && of.Schedule.Direct {
				zeros = append(zeros, s)
				if p.Name == "part" {
					puts++
				}
			} else {
				others = append(others, s)
			}
		}
		for i, a := range mine {
			for _, b := range mine[:i] {
				if a.from < b.to && b.from < a.to {
					t.Errorf("%s and %s share bytes of a workspace: %v %v", a.what, b.what, a, b)
				}
			}
		}
	}
	for _, a := range zeros {
		for _, b := range others {
			if a.from < b.to && b.from < a.to {
				t.Errorf("%s, which must be 0, and %s share bytes of a workspace: %v %v", a.what, b.what, a, b)
			}
		}
	}
	return puts
}

// TestHeaderOrder holds what the header makes of weights on the host to the order in which Go packs, and what it refuses to what Go finds
// that programs do not take.
func TestHeaderOrder(t *testing.T) {
	cc := need.CC(t)
	r := rand.New(rand.NewPCG(7, 8))
	var taken, refused int
	for i, text := range append(Presets(), "u4 zero", "i4", "u2 zero", "f6e3m2", "i4 act=bf16", "u3 zero act=bf16 group=64", "u1 scale=bf16", "i5 group=channel", "mxfp4 far", "f8e7m0", "mxfp4 act=bf16",
		"i4 group=32 rounded", "u4 zero=any group=64 rounded", "u4 zero=any group=64 act=bf16 scale=bf16 rounded", "u4 zero group=64 scalebits=5", "nvfp4 scalebits=3", "i4 group=32 scalebits=4 act=bf16 scale=bf16") {
		size := [2]int{130, 264}
		if i%2 == 1 {
			size = [2]int{33, 77}
		}
		t.Run(strings.ReplaceAll(text, " ", "_"), func(t *testing.T) {
			l := kind(t, text, size[0], size[1])
			ordered := i%3 == 0
			e, err := l.Export("of", "sm_90a", Extra{Order: ordered}, 1)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := template.PlanOf(e.Form())
			if err != nil {
				t.Fatal(err)
			}
			zeroElem, zeroes, factor := "uint16_t", "", ""
			if l.ZeroPoint {
				zeroes = "#define HAS_ZEROS\n"
				if plan.ZeroType() == dtype.U8 {
					zeroElem = "uint8_t"
				}
			}
			if l.Factor {
				factor = "#define HAS_FACTOR\n"
			}
			if ordered {
				factor += "#define HAS_ORDER\n"
			}
			dir := headerDir(t, e, "", fmt.Sprintf("#include \"linear_of.h\"\ntypedef uint%d_t scale_t;\ntypedef %s zero_t;\n%s%s", l.ScaleType.Bits(), zeroElem, zeroes, factor))
			exe := compiled(t, dir, cc, "c99", "order.c")
			for try := range 24 {
				q := orderWeights(t, e.Linear, plan, r, try)
				files := map[string][]byte{"scales": q.Scales.Data}
				if ordered {
					q.Order = shuffled(uint64(try), l.K)
					if at := r.IntN(l.K); try%6 == 0 {
						q.Order.SetCode(at, []uint64{q.Order.Code((at + 1) % l.K), uint64(l.K), 1<<32 - 1, q.Order.Code(at)}[try/6])
					}
					files["order"] = q.Order.Data
				}
				scales, near := q.nearby(plan)
				takes := near && q.Valid() == nil && q.inBits()
				if l.ZeroPoint && plan.ZeroType() == dtype.U8 {
					takes = takes && whole(q.Zeros)
				}
				for i := range q.Codes.Len() {
					files["codes"] = append(files["codes"], byte(q.Codes.Code(i)))
				}
				want := slices.Concat(q.Codes.Data, q.ordered(plan, scales).Data)
				if l.ZeroPoint {
					files["zeros"] = q.Zeros.Data
					want = append(want, q.ordered(plan, q.Zeros.Cast(plan.ZeroType())).Data...)
				}
				for name, data := range files {
					if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				cmd := exec.Command(exe, strconv.FormatFloat(q.One, 'g', -1, 64))
				cmd.Dir = dir
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				got, err := cmd.Output()
				switch {
				case err != nil:
					t.Fatalf("%v: %s", err, &stderr)
				case takes && !bytes.Equal(got, want):
					t.Errorf("weights %d: %d bytes (%q…), other ones than the %d of Go", try, len(got), got[:min(len(got), 8)], len(want))
				case !takes && string(got) != "refused":
					t.Errorf("weights %d are taken, which programs do not take", try)
				}
				if takes {
					taken++
				} else {
					refused++
				}
			}
		})
	}
	if min(taken, refused) < 50 {
		t.Errorf("%d weights are taken and %d refused", taken, refused)
	}
}

// inBits reports whether scales and zero points are what the layer's ScaleBits says of them.
func (q *Weights) inBits() bool {
	if q.ScaleBits == 0 {
		return true
	}
	least, most := q.Form().Reach()
	for i := range q.Scales.Len() {
		if n, ok := digits(q.ScaleType.Decode(q.Scales.Code(i))*q.One, least, most); !ok || n > q.ScaleBits {
			return false
		}
	}
	for i := 0; q.Zeros != nil && i < q.Zeros.Len(); i++ {
		if !(q.ActType.Decode(q.Zeros.Code(i)) <= q.WeightType.Max()) {
			return false
		}
	}
	return true
}

// orderWeights are weights of a layer: what is quantised of usual ones, or that with some scales, codes or zero points that are others.
func orderWeights(t *testing.T, l Linear, plan *template.Plan, r *rand.Rand, try int) *Weights {
	t.Helper()
	plain := array.New(dtype.F32, l.N, l.K)
	for i := range l.N * l.K {
		v := r.NormFloat64()
		if l.WeightType.IsInt() && !l.WeightType.Signed() && !l.ZeroPoint {
			v = max(v, -v)
		}
		plain.Set(v/30, i/l.K, i%l.K)
	}
	q, err := l.Quantize(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	q.Linear = l
	at := r.IntN(q.Scales.Len())
	switch try % 6 {
	case 1: // a scale, or none
		if q.Scales.SetCode(at, r.Uint64N(1<<l.ScaleType.Bits())); try == 1 {
			q.Scales.SetCode(at, l.ScaleType.NaN())
		}
	case 2: // of a group that is 0
		q.Scales.SetCode(at, r.Uint64N(1<<l.ScaleType.Bits()))
		for k := range l.K {
			if l.groupOf(k) == at/l.N {
				q.Codes.SetCode(at%l.N*l.K+k, l.WeightType.Encode(0, true))
			}
		}
	case 3:
		q.Codes.SetCode(r.IntN(q.Codes.Len()), r.Uint64N(1<<l.WeightType.Bits()))
	case 4:
		if l.ZeroPoint {
			q.Zeros.SetCode(at, l.ActType.Encode([]float64{0, 3, 15, 16, 255, 256, 1.5, -1, 60000, -60000, math.NaN()}[r.IntN(11)], true))
		}
	case 5: // a power of two, of few bits, and another factor
		q.Scales.SetCode(at, l.ScaleType.Encode(float64(int(1)<<r.IntN(20))/float64(int(1)<<r.IntN(30)), true))
		if l.Factor {
			q.One = math.Ldexp(q.One, r.IntN(60)-30)
		}
	}
	if l.AnyZero && l.Rounded && try == 6 { // what lies between two numbers becomes the even one, with which the weight is just held
		between := math.Ldexp(1, l.ActType.Row().Man+1)
		q.Zeros.SetCode(at, l.ActType.Encode(between+1-l.WeightType.Max(), false))
		q.Scales.SetCode(at, l.ScaleType.Encode(plan.Greatest()/between, false))
	}
	return q
}
