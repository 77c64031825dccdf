package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/tilus-lab/tilus-lab/kernel/session"
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
