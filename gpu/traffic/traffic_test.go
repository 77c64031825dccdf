package traffic

import (
	"math"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
	"github.com/tilus-lab/tilus-lab/vm/hlo/rand"
)

func report(t *testing.T, body string) Report {
	t.Helper()
	m, err := hlo.Parse("test", "HloModule m\nsum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\nENTRY e {\n"+body+"\n}")
	if err != nil {
		t.Fatal(err)
	}
	d, err := plan.FindDevice("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(m.Entry, d)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Of(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r Report) find(t *testing.T, kind Kind, tensor string) Access {
	t.Helper()
	for _, k := range r.Kernels {
		for _, a := range k.Accesses {
			if a.Kind == kind && a.Tensor == tensor {
				return a
			}
		}
	}
	t.Fatalf("no %s of %s in\n%s", kind, tensor, r)
	return Access{}
}

// TestKnown: numbers that can be counted by hand.
func TestKnown(t *testing.T) {
	type row struct {
		kind         Kind
		tensor       string
		vector       int
		requests     int64
		units, ideal float64
		bytes        int64
		reuse        float64
	}
	const mi = 1 << 20
	for _, c := range []struct {
		name, text string
		rows       []row
	}{
		{"copy", "x = f32[4194304] parameter(0)\n ROOT r = f32[4194304] negate(x)", []row{
			{Read, "x", 4, 4 * mi / 128, 16, 16, 16 * mi, 1}, {Write, "r", 4, 4 * mi / 128, 16, 16, 16 * mi, 1}}},
		{"every second", "x = f32[8388608] parameter(0)\n s = f32[4194304] slice(x), slice={[0:8388608:2]}\n ROOT r = f32[4194304] negate(s)", []row{
			// Lane l reads 4 elements, 32 bytes apart from the next lane's, one by one.
			{Read, "x", 1, 4 * mi / 32, 32, 4, 16 * mi, 1}}},
		{"bias", "x = f32[8192,512] parameter(0)\n v = f32[512] parameter(1)\n b = f32[8192,512] broadcast(v), dimensions={1}\n ROOT r = f32[8192,512] add(x, b)", []row{
			{Read, "v", 4, 4 * mi / 128, 16, 16, 2048, 8192}}},
		{"transpose", "x = f32[2048,2048] parameter(0)\n ROOT r = f32[2048,2048] transpose(x), dimensions={1,0}", []row{
			{Read, "x", 1, 4 * mi / 32, 4, 4, 16 * mi, 1}, {SharedWrite, "r", 1, 4 * mi / 32, 1, 1, 0, 0},
			{SharedRead, "r", 1, 4 * mi / 32, 1, 1, 0, 0}, {Write, "r", 1, 4 * mi / 32, 4, 4, 16 * mi, 1}}},
		{"packed transpose", "x = bf16[2048,2048] parameter(0)\n ROOT r = bf16[2048,2048] transpose(x), dimensions={1,0}", []row{
			{Read, "x", 2, 4 * mi / 64, 4, 4, 8 * mi, 1}, {SharedWrite, "r", 2, 4 * mi / 64, 1, 1, 0, 0},
			{SharedRead, "r", 2, 4 * mi / 64, 1, 1, 0, 0}}},
		{"columns", "x = f32[1024,16384] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[16384] reduce(x, z), dimensions={0}, to_apply=sum", []row{
			{Read, "x", 2, 16 * mi / 64, 8, 8, 64 * mi, 1}, {SharedWrite, "r", 1, 32 * 256 * 2, 1, 1, 0, 0}, {SharedRead, "r", 1, 32 * 256 * 2, 1, 1, 0, 0}}},
		{"rows", "x = f32[4096,1024] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[4096] reduce(x, z), dimensions={1}, to_apply=sum", []row{
			{Read, "x", 4, 4 * mi / 128, 16, 16, 16 * mi, 1}, {Write, "r", 1, 4096 / 4 * 4, 1, 1, 4 * 4096, 1}}},
	} {
		r := report(t, c.text)
		for _, w := range c.rows {
			a := r.find(t, w.kind, w.tensor)
			if a.Vector != w.vector || math.Abs(a.Units-w.units) > 0.05*w.units || math.Abs(a.Ideal-w.ideal) > 0.05*w.ideal || a.Bytes != w.bytes ||
				math.Abs(a.Reuse()-w.reuse) > 0.05*w.reuse || math.Abs(float64(w.requests-a.Requests)) > 0.1*float64(w.requests) {
				t.Errorf("%s: %s of %s is vector %d, %d requests of %.2f, ideal %.2f, %d bytes, reuse %.2f; want %+v", c.name, w.kind, w.tensor, a.Vector, a.Requests, a.Units, a.Ideal, a.Bytes, a.Reuse(), w)
			}
		}
	}
}

func TestIdeal(t *testing.T) {
	// A row is read once though it is used three times.
	r := report(t, `x = f32[1024,2048] parameter(0)
 z = f32[] constant(0)
 s = f32[1024] reduce(x, z), dimensions={1}, to_apply=sum
 b = f32[1024,2048] broadcast(s), dimensions={0}
 ROOT r = f32[1024,2048] divide(x, b)`)
	if r.Bytes != r.Ideal || r.Ideal != 2*1024*2048*4 {
		t.Errorf("%d of %d bytes\n%s", r.Bytes, r.Ideal, r)
	}
	// Columns are not: the sum is a kernel of its own.
	r = report(t, `x = f32[1024,2048] parameter(0)
 z = f32[] constant(0)
 s = f32[2048] reduce(x, z), dimensions={0}, to_apply=sum
 b = f32[1024,2048] broadcast(s), dimensions={1}
 ROOT r = f32[1024,2048] divide(x, b)`)
	if len(r.Kernels) != 2 || r.Bytes < r.Ideal*14/10 {
		t.Errorf("%d of %d bytes\n%s", r.Bytes, r.Ideal, r)
	}
	if text := r.String(); !strings.Contains(text, "ideal") {
		t.Error(text)
	}
}

// TestRandomFusions: everything that can be planned has a report.
func TestRandomFusions(t *testing.T) {
	n := 60
	if testing.Short() {
		n = 15
	}
	d, err := plan.FindDevice("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range n {
		m, err := rand.Fusion(uint64(seed), rand.Options{Elements: 4096})
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.New(m.Entry, d)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Of(p)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, hlo.Format(m))
		}
		for _, k := range r.Kernels {
			for _, a := range k.Accesses {
				if a.Efficiency() > 1.0001 || a.Lanes > 32 || a.Bytes < 0 {
					t.Errorf("seed %d: %+v", seed, a)
				}
			}
		}
	}
}
