package differential

import (
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/opt"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/randprog"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestEachPassKeepsTheResults simulates a program's code before the passes and
// after each one that changes it, and compares with the interpreter: a pass that
// spoils something is named. vm/pass has the same test for its own list.
func TestEachPassKeepsTheResults(t *testing.T) {
	limit := 4 * time.Second
	if testing.Short() {
		limit = 2 * time.Second
	}
	begin, programs, runs, changes := time.Now(), 0, 0, map[string]int{}
	check := func(p *randprog.Program, name, target string) {
		c, err := compile.Program(p.Program, compile.Options{Arch: target, NoOpt: true, Divisible: compile.Divisors(p.Program, p.Args)})
		if err != nil {
			return // TestRandomPrograms looks at these
		}
		want, err := reference(p)
		if err != nil {
			return
		}
		programs++
		l := Launch{Program: p.Program, Args: p.Args}
		before, bad := code.Format(c.Func), false
		if _, err := opt.Run(c.Func, func(pass opt.Pass, f *code.Func) {
			now := code.Format(f)
			if bad || now == before {
				return
			}
			before = now
			changes[pass.Name]++
			runs++
			got, err := simulateCode(l, f)
			if err != nil {
				t.Errorf("%s: after %s: %v", name, pass.Name, err)
				bad = true
			} else if diff := differs(p.Program, got, want); diff != "" {
				t.Errorf("%s: after %s: %s\n%s", name, pass.Name, diff, p.Text())
				bad = true
			}
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	x, err := array.Generate("randint:i32[3, 32, 4]:seed=1")
	if err != nil {
		t.Fatal(err)
	}
	for name, src := range passPrograms {
		p, err := text.Parse(name, src, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int64{5, 28} {
			check(&randprog.Program{Program: p, Args: []ir.Arg{{Array: x}, {Array: array.New(dtype.I32, 32, 4)}, {Int: n}}}, name, "sm_80")
		}
	}
	for _, l := range launches(t) {
		size := 0
		for _, a := range l.Args {
			if a.Array != nil {
				size += a.Array.Len()
			}
		}
		if size < 4000 && time.Since(begin) < limit/2 {
			check(&randprog.Program{Program: l.Program, Args: l.Args}, l.Name, l.Target("sm_80"))
		}
	}
	o := randomOptions()
	for seed := *progSeed; time.Since(begin) < limit; seed++ {
		p, err := randprog.New(seed, o)
		if err != nil {
			t.Fatal(err)
		}
		crashing(func() string {
			check(p, p.Program.Pos.String(), []string{"sm_80", "sm_90a"}[seed%2])
			return ""
		})
	}
	t.Logf("%d programs, %d runs; changes by pass: %v", programs, runs, changes)
	for _, pass := range opt.Passes() {
		if changes[pass.Name] == 0 {
			t.Errorf("%s changes no program: it is not tested", pass.Name)
		}
	}
}

// passPrograms have what some passes look for, which few other small programs have.
var passPrograms = map[string]string{
	"ring": `program ring<1>(x: *i32, y: *i32, n: i32) warps=1 {
	gx = ViewGlobal(x) : global i32[3, 32, 4]
	gy = ViewGlobal(y) : global i32[32, 4]
	sum = AllocateRegister(init=0) : register i32[32, 4] spatial(32, 1).local(1, 4)
	for k in 0..n/4 {
		r = LoadGlobal(gx, offset=[(k + 2) % 3, 0, 0], dims=[1, 2]) : register i32[32, 4] spatial(32, 1).local(1, 4)
		sum = Add(sum, r) : register i32[32, 4] spatial(32, 1).local(1, 4)
	}
	StoreGlobal(gy, sum, offset=[0, 0])
}
`,
	"divide": `program divide<n>(x: *i32, y: *i32, n: i32) warps=1 {
	gx = ViewGlobal(x) : global i32[3, 32, 4]
	gy = ViewGlobal(y) : global i32[32, 4]
	b = BlockIndices()
	r = LoadGlobal(gx, offset=[(b + 1) % 3, 0, 0], dims=[1, 2]) : register i32[32, 4] spatial(32, 1).local(1, 4)
	StoreGlobal(gy, r, offset=[b*32, 0])
}
`,
	"remainder": `program remainder<n>(x: *i32, y: *i32, n: i32) warps=1 {
	gx = ViewGlobal(x) : global i32[3, 32, 4]
	gy = ViewGlobal(y) : global i32[32, 4]
	b = BlockIndices()
	left = b % n
	r = LoadGlobal(gx, offset=[min(b/n + left, 2), 0, 0], dims=[1, 2]) : register i32[32, 4] spatial(32, 1).local(1, 4)
	StoreGlobal(gy, r, offset=[b*32, 0])
}
`,
	"settle": `program settle<1>(x: *i32, y: *i32, n: i32) warps=1 {
	gx = ViewGlobal(x) : global i32[3, 32, 4]
	gy = ViewGlobal(y) : global i32[32, 4]
	s = AllocateShared() : shared i32[32, 4] shared_row_major(32, 4)
	empty = AllocateBarrier(count=1) : shared u64[1] shared_row_major(1)
	a = LoadGlobal(gx, offset=[n % 3, 0, 0], dims=[1, 2]) : register i32[32, 4] spatial(32, 1).local(1, 4)
	StoreShared(s, a)
	Synchronize()
	r = LoadShared(s, offset=[0, 0]) : register i32[32, 4] spatial(32, 1).local(1, 4)
	ArriveBarrier(empty, 0)
	WaitBarrier(empty, 0)
	StoreGlobal(gy, r, offset=[0, 0])
}
`,
	"vector": `program vector<1>(x: *i32, y: *i32, n: i32) warps=1 {
	gx = ViewGlobal(x) : global i32[3, 32, 4]
	gy = ViewGlobal(y) : global i32[32, 4]
	sum = AllocateRegister(init=0) : register i32[32, 1] spatial(32, 1)
	for k in 0..4 unroll=4 {
		r = LoadGlobal(gx, offset=[n % 3, 0, k], dims=[1, 2]) : register i32[32, 1] spatial(32, 1)
		sum = Add(sum, r) : register i32[32, 1] spatial(32, 1)
	}
	StoreGlobal(gy, sum, offset=[0, 0])
	StoreGlobal(gy, sum, offset=[0, 1])
}
`,
}
