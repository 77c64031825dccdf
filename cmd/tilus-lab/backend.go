package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/kernel/lab"
	"github.com/tilus-lab/tilus-lab/kernel/session"
	"github.com/tilus-lab/tilus-lab/kernel/worker"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/web"
)

// backend reaches devices for the explorer through a worker process of its own,
// which starts with the first question and again after it died, so that a GPU
// fault costs the page nothing.
type backend struct {
	opt  session.Options
	mu   sync.Mutex
	sess *session.Session
}

func newBackend(opt session.Options) *backend { return &backend{opt: opt} }

func (b *backend) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sess != nil {
		b.sess.Close()
		b.sess = nil
	}
}

// call runs a lab method in the worker.
func (b *backend) call(ctx context.Context, method string, params, result any) error {
	b.mu.Lock()
	if b.sess == nil {
		s, err := session.Start(b.opt)
		if err != nil {
			b.mu.Unlock()
			return err
		}
		b.sess = s
	}
	s := b.sess
	b.mu.Unlock()
	raw, err := s.Call(ctx, method, params)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return fmt.Errorf("the worker's answer to %s: %w", method, err)
	}
	return nil
}

// methods are what the worker answers to call.
func methods() worker.Methods {
	return worker.Methods{
		"devices": func(context.Context, json.RawMessage) (any, error) {
			list := []web.Device{}
			for _, i := range device.Available() {
				d := web.Device{Name: i.Name, Detail: i.Title}
				if i.Driver != "" {
					d.Detail += ", driver " + i.Driver
				}
				list = append(list, d)
			}
			return list, nil
		},
		"run": func(_ context.Context, params json.RawMessage) (any, error) {
			var r web.RunRequest
			if err := json.Unmarshal(params, &r); err != nil {
				return nil, err
			}
			return runRequest(r)
		},
	}
}

func runRequest(r web.RunRequest) (web.RunResult, error) {
	p, err := compile.Parse("program", r.Program, nil)
	if err != nil {
		return web.RunResult{}, err
	}
	if len(r.Args) != len(p.Params) {
		return web.RunResult{}, fmt.Errorf("%s takes %d arguments, %d are given", p.Name, len(p.Params), len(r.Args))
	}
	args := make([]any, len(r.Args))
	for i, v := range p.Params {
		// A page may not make this process read files.
		if args[i], err = argument(v, r.Args[i], array.Generate); err != nil {
			return web.RunResult{}, fmt.Errorf("argument %s: %w", v.Name, err)
		}
	}
	if r.Device == "" {
		r.Device = "auto"
	}
	result, err := lab.RunOn(r.Device, p, args...)
	if err != nil {
		return web.RunResult{}, explainDevice(err)
	}
	return web.RunResult{Device: result.Device, Text: result.String()}, nil
}

// Devices lists the devices of this machine.
func (b *backend) Devices(ctx context.Context) (list []web.Device, err error) {
	err = b.call(ctx, "devices", nil, &list)
	return list, err
}

// Run runs a program with generated arguments.
func (b *backend) Run(ctx context.Context, r web.RunRequest) (result web.RunResult, err error) {
	err = b.call(ctx, "run", r, &result)
	return result, err
}

// sample is what the Run door opens with: the paper's FP16 × INT6 product.
func sample() web.RunRequest {
	return web.RunRequest{
		Program: corpus.Program("matmul_f16_i6_f32"),
		Args:    []string{"randint:f16[32, 64]:seed=1", "randcode:u8[4, 2, 96]:seed=2", "zeros:f32[32, 16]", "32", "16", "64"},
		Device:  "auto",
	}
}
