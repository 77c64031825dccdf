package device

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/cache"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/launch"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Recipe is a program that need not be made to be run again: GPUs keep what launches need
// of it under its key, beside the machine code, for other processes too.
type Recipe struct {
	Key string // says all that the program depends on, beside the code of this executable
	// Make gives a program that [ir.Verify] accepts, as builders and the parser see to.
	Make func() (*ir.Program, error)
}

// RunRecipe is [Device.Run] of a recipe's program. Making it counts as compiling.
func RunRecipe(ctx context.Context, d Device, r Recipe, args []ir.Arg) (*Result, error) {
	g, ok := d.(*gpu)
	if !ok || g.nvrtc != nil {
		begin := time.Now()
		p, err := r.Make()
		if err != nil {
			return nil, err
		}
		made := time.Since(begin)
		res, err := d.Run(ctx, p, args)
		if err == nil {
			res.Compile += made
		}
		return res, err
	}
	s, compiled, err := g.shell(r, args)
	if err != nil {
		return nil, err
	}
	grid, err := interp.CheckArgs(s.program, args)
	if err != nil {
		return nil, err
	}
	res, err := g.start(ctx, s.program, launch.New(s.program, args, grid, s.code), args, r.Make)
	if err == nil {
		res.Compile = compiled
	}
	return res, err
}

// Ahead is [Prepare] for launches that follow, which say what went wrong, on GPUs, where that makes
// several at a time.
func Ahead(d Device, recipes []Recipe, args [][]ir.Arg) (compiled, jit time.Duration) {
	if g, ok := d.(*gpu); !ok || g.nvrtc != nil {
		return 0, 0
	}
	compiled, jit, _ = Prepare(context.Background(), d, recipes, args)
	return compiled, jit
}

// Prepare makes what launches of recipes with arguments need, all at the same time, and says
// how long it took until all were compiled, and until all were machine code: 0 for what was there.
// Other goroutines may run programs meanwhile, but for the time in which NVIDIA's driver makes machine code, which holds
// up what else the process asks of the GPU; who runs one of these waits for it. Closing the device waits for the
// driver, which makes what it has begun to the end; a done ctx only keeps it from beginning.
//
// The interpreter makes programs; the simulator, and GPUs by way of CUDA C++, thread code. Where another process
// holds a GPU (see [Keeper]), that makes machine code when a program first runs.
func Prepare(ctx context.Context, d Device, recipes []Recipe, args [][]ir.Arg) (compiled, jit time.Duration, err error) {
	g, ok := d.(*gpu)
	if !ok || g.nvrtc != nil {
		begin := time.Now()
		for i, r := range recipes {
			if err := prepareWhole(ctx, d, r, args[i]); err != nil {
				return 0, 0, err
			}
		}
		return time.Since(begin), 0, nil
	}
	code, err := g.loading(ctx)
	if err != nil {
		return 0, 0, err
	}
	if code != nil {
		defer code.loads.Done()
	}
	begin := time.Now()
	var mu sync.Mutex
	var wait sync.WaitGroup
	errs := make([]error, len(recipes))
	for i, r := range recipes {
		wait.Go(func() {
			s, making, err := g.shell(r, args[i])
			took, loading := time.Since(begin), time.Duration(0)
			if err == nil {
				_, err = interp.CheckArgs(s.program, args[i])
			}
			if err == nil {
				err = ctx.Err()
			}
			if err == nil && code != nil {
				_, loading, err = g.load(code, s.code)
				switch {
				case refused(err):
					err = fmt.Errorf("device: %s: program %s: %w; a program that ran meanwhile broke the GPU context: prepare it again", g.info.Name, s.program.Name, err)
				case err != nil:
					err = fmt.Errorf("device: %s: program %s: %w", g.info.Name, s.program.Name, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if errs[i] = err; making > 0 {
				compiled = max(compiled, took)
			}
			jit = max(jit, loading)
		})
	}
	wait.Wait()
	return compiled, jit, errors.Join(errs...)
}

// prepareWhole is Prepare of a program that is run as a whole.
func prepareWhole(ctx context.Context, d Device, r Recipe, args []ir.Arg) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, err := r.Make()
	if err != nil {
		return err
	}
	switch d := d.(type) {
	case *gpu:
		_, err = prepare(p, args, d.info.Arch, &d.programs)
	case *simulator:
		_, err = prepare(p, args, d.arch, &d.programs)
	default:
		_, err = interp.CheckArgs(p, args)
	}
	return err
}

// loading is the code of the device's context, where who asks is one of its loads until it says
// that it is done; nil where another process has the context.
func (g *gpu) loading(ctx context.Context) (*contextCode, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if g.ctx == nil && g.keeper == nil {
		if err := g.reach(); err != nil {
			return nil, fmt.Errorf("device: %s: %w%s", g.info.Name, err, noContext(err))
		}
	}
	if g.keeper != nil {
		return nil, nil
	}
	g.code.loads.Add(1)
	return g.code, nil
}

// shells remembers what launches need of recipes.
type shells struct {
	mu sync.Mutex
	by map[string]*shell
}

type shell struct {
	program *ir.Program
	code    *compile.Compiled
}

// shell is what launches of a recipe with such arguments need, and what making it took.
func (g *gpu) shell(r Recipe, args []ir.Arg) (*shell, time.Duration, error) {
	begin := time.Now()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\x00%s", r.Key, g.info.Arch)
	for _, a := range args { // what [compile.Divisors] may find
		d := min(a.Int&-a.Int, 128)
		fmt.Fprintf(&b, " %d", d)
	}
	key := b.String()
	g.shells.mu.Lock()
	s := g.shells.by[key]
	g.shells.mu.Unlock()
	if s != nil {
		return s, 0, nil
	}
	s, err := g.open(key, r, args)
	if err != nil {
		return nil, 0, err
	}
	g.shells.mu.Lock()
	defer g.shells.mu.Unlock()
	if g.shells.by == nil || len(g.shells.by) >= maxPrograms {
		g.shells.by = map[string]*shell{}
	}
	g.shells.by[key] = s
	return s, time.Since(begin), nil
}

// open takes a shell from the files, or makes it.
func (g *gpu) open(key string, r Recipe, args []ir.Arg) (*shell, error) {
	keep := g.modules != nil && cache.Build() != ""
	key = cache.Key("shell", cache.Build(), key)
	if keep {
		if data, ok := g.modules.Get(key); ok {
			if kept, err := compile.ReadShell(data); err == nil {
				if p, c, err := kept.Open(); err == nil {
					return &shell{p, c}, nil
				}
			}
		}
	}
	s, err := g.compile(r, args)
	if err != nil {
		return nil, err
	}
	g.keeping.Go(func() { // while the driver makes machine code
		if keep {
			if s, err := compile.NewShell(s.program, s.code); err == nil {
				if data, err := s.Encode(); err == nil {
					g.modules.Put(key, data) // without it the program is made again next time
				}
			}
		}
		if g.making.Load() == 0 {
			compile.Collect()
		}
	})
	return s, nil
}

// compile makes a shell.
func (g *gpu) compile(r Recipe, args []ir.Arg) (*shell, error) {
	g.making.Add(1)
	defer g.making.Add(-1)
	p, err := r.Make()
	if err != nil {
		return nil, err
	}
	c, err := compile.Program(p, compile.Options{Arch: g.info.Arch, Divisible: compile.Divisors(p, args), Verified: true})
	if err != nil {
		return nil, err
	}
	if c, err = c.Printed(); err != nil { // once for the files, and for the driver
		return nil, err
	}
	return &shell{p, c}, nil
}
