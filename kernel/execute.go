package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/kernel/session"
)

// abortGrace is how long a failed cell waits, before its reply, for cells that the
// front end had sent behind it: they are in flight on the socket and must be aborted
// too. After the reply, a new cell is a new decision of the user.
const abortGrace = 5 * time.Millisecond

// stdinLimit is how long a question waits for the front end's stdin channel to connect.
const stdinLimit = 2 * time.Second

// cell is the execute request that runs.
type cell struct {
	req    request
	out    *output
	ctx    context.Context // ends when the cell is interrupted or the kernel ends
	cancel context.CancelFunc
	beside bool // of a subshell
}

// executeContent is the content of an execute_request; the pointers are for defaults
// that are not false.
type executeContent struct {
	Code            string            `json:"code"`
	Silent          bool              `json:"silent"`
	StoreHistory    *bool             `json:"store_history"`
	UserExpressions map[string]string `json:"user_expressions"`
	AllowStdin      bool              `json:"allow_stdin"`
	StopOnError     *bool             `json:"stop_on_error"`
}

// executor runs the cells of a shell and hands on its comm messages, in the order they
// came.
func (k *Kernel) executor(s *shell) {
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-k.done:
			s.queue.close()
		case <-stop:
		}
	}()
	for {
		r, ok := s.queue.next()
		if !ok {
			return
		}
		k.guard(r.msg.Header.MsgType, func() {
			if r.msg.Header.MsgType == "execute_request" {
				k.execute(r, s)
			} else {
				k.comm(r, s)
			}
		})
		k.endCell(r, s)
	}
}

// endCell says idle for a cell, once.
func (k *Kernel) endCell(r request, s *shell) {
	k.statusMu.Lock()
	defer k.statusMu.Unlock()
	if s.cell != nil {
		s.cell = nil
		k.status(r.msg.RawHeader, "idle")
		k.stillBusy()
	}
}

// execute runs one cell: busy, execute_input, output, reply, idle.
func (k *Kernel) execute(r request, s *shell) {
	var c executeContent
	if err := json.Unmarshal(r.msg.Content, &c); err != nil {
		k.answer(r, func() { k.refuse(r, "BadRequest", err.Error()) })
		return
	}
	store := !c.Silent && (c.StoreHistory == nil || *c.StoreHistory)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	run := &cell{req: r, ctx: ctx, cancel: cancel, beside: s.id != ""}
	k.statusMu.Lock()
	if store {
		k.count++
	}
	count := k.count
	run.out = k.newOutput(r.msg.RawHeader, count, c.Silent)
	s.cell = run
	k.status(r.msg.RawHeader, "busy")
	k.statusMu.Unlock()

	started := time.Now().UTC()
	if !c.Silent {
		k.publish("execute_input", r.msg.RawHeader, map[string]any{"code": c.Code, "execution_count": count})
	}
	reply := k.runCell(run, c, store)
	stop := reply.Status != "ok" && !c.Silent && (c.StopOnError == nil || *c.StopOnError)

	content := map[string]any{"status": "ok", "execution_count": count, "user_expressions": map[string]any{}, "payload": []any{}}
	var failure *proto.Error
	if reply.Status != "ok" {
		failure = k.failure(run, reply)
		for key, v := range errorContent(failure) {
			content[key] = v
		}
		content["status"] = "error"
	} else {
		if len(c.UserExpressions) > 0 {
			content["user_expressions"] = k.userExpressions(run, c.UserExpressions)
		}
		if reply.Pager != "" {
			content["payload"] = []any{map[string]any{"source": "page", "data": map[string]any{"text/plain": reply.Pager}, "start": 0}}
		}
	}
	if k.opts.Explorer != "" {
		run.out.links(k.id, func() (string, bool) { return link.Running(filepath.Dir(k.opts.Explorer), false) })
	}
	result := run.out.end(failure)
	if store {
		k.history.add(count, c.Code, result)
	}
	var aborted []request
	if stop {
		time.Sleep(abortGrace)
		aborted = s.queue.takeCells()
	}
	k.replyMeta(r, "execute_reply", map[string]any{"started": started.Format("2006-01-02T15:04:05.000000Z")}, content)
	k.endCell(r, s)
	for _, a := range aborted {
		k.abort(a, count, "a cell before this one failed")
	}
}

// abort answers an execute request that is not run.
func (k *Kernel) abort(r request, count int, why string) {
	k.answer(r, func() {
		k.reply(r, "execute_reply", map[string]any{
			"status": "error", "execution_count": count, "ename": "Aborted", "evalue": why, "traceback": []string{},
		})
	})
}

// runCell hands the cell to the engine. Two lines are ours: %replay runs the cells
// that had succeeded before the worker was lost, %rebuild does so in a fresh worker.
func (k *Kernel) runCell(run *cell, c executeContent, store bool) session.Reply {
	e, err := k.startEngine()
	if err != nil {
		return noWorker(err)
	}
	req := session.Request{Code: c.Code, Silent: c.Silent, StoreHistory: store, AllowStdin: c.AllowStdin, Beside: run.beside}
	if c.AllowStdin {
		req.Input = func(prompt string, password bool) (string, error) { return k.ask(run, prompt, password) }
	}
	word := strings.TrimSpace(c.Code)
	if run.beside && (word == "%replay" || word == "%rebuild") {
		return session.Reply{Status: "error", EName: "CellError", EValue: "this line changes the whole session: run it in the main shell"}
	}
	switch word {
	case "%replay":
		return k.replay(e, run, req)
	case "%rebuild":
		if err := e.Restart(); err != nil {
			return noWorker(err)
		}
		k.loseComms(run)
		return k.replay(e, run, req)
	}
	reply, err := e.Execute(run.ctx, req, run.out.event)
	switch {
	case err != nil && run.ctx.Err() != nil:
		return session.Reply{Status: "error", EName: "Interrupted", EValue: "the cell was interrupted before it began"}
	case err != nil:
		return noWorker(err)
	}
	return reply
}

func noWorker(err error) session.Reply {
	return session.Reply{Status: "error", EName: "NoWorker", EValue: "cells cannot run: " + err.Error()}
}

func (k *Kernel) replay(e Engine, run *cell, req session.Request) session.Reply {
	var again, left []string
	for _, j := range e.Journal() {
		if j.Once {
			left = append(left, fmt.Sprint(j.Count))
		} else {
			again = append(again, fmt.Sprint(j.Count))
		}
	}
	text := "No cell has succeeded yet; there is nothing to replay.\n"
	if len(again) > 0 {
		text = "Replaying the cells that had succeeded: " + strings.Join(again, ", ") + "\n"
	}
	if len(left) > 0 {
		text += "Left out, being marked with %once: " + strings.Join(left, ", ") + "\n"
	}
	run.out.event(proto.Event{Kind: proto.KindStream, Stream: &proto.Stream{Name: "stdout", Text: text}})
	reply, err := e.Replay(run.ctx, run.out.event)
	if err != nil {
		return noWorker(err)
	}
	if req.StoreHistory {
		// An empty cell keeps the session's count of cells equal to ours.
		e.Execute(context.Background(), session.Request{StoreHistory: true}, nil)
	}
	return reply
}

// failure is the error of a cell as the user sees it.
func (k *Kernel) failure(run *cell, reply session.Reply) *proto.Error {
	e := &proto.Error{Name: reply.EName, Value: reply.EValue, Traceback: reply.Traceback}
	if e.Name == "" {
		e.Name, e.Value = "Aborted", "the cell did not run"
	}
	if len(e.Traceback) == 0 {
		e.Traceback = []string{e.Name + ": " + e.Value}
	}
	if reply.Lost {
		k.loseComms(run)
		if eng, err := k.startEngine(); err == nil && len(eng.Journal()) > 0 {
			e.Traceback = append(e.Traceback[:len(e.Traceback):len(e.Traceback)], "To get the variables back, run a cell that says: %replay")
		}
	}
	return e
}

// userExpressions evaluates each expression as a cell that is neither counted nor
// shown.
func (k *Kernel) userExpressions(run *cell, exprs map[string]string) map[string]any {
	out := map[string]any{}
	for name, code := range exprs {
		e, err := k.startEngine()
		if err != nil {
			break
		}
		data := &proto.Bundle{}
		var mu sync.Mutex
		reply, err := e.Execute(run.ctx, session.Request{Code: code, Beside: run.beside}, func(ev proto.Event) {
			mu.Lock()
			defer mu.Unlock()
			if ev.Kind == proto.KindResult && ev.Bundle != nil {
				data = ev.Bundle
			}
		})
		if err != nil {
			reply = noWorker(err)
		}
		mu.Lock()
		got := bundle(data)
		mu.Unlock()
		if got["status"] = "ok"; reply.Status != "ok" {
			got = errorContent(&proto.Error{Name: reply.EName, Value: reply.EValue, Traceback: reply.Traceback})
			got["status"] = "error"
		}
		out[name] = got
	}
	return out
}

// cellQueue holds the cells and comm messages that wait.
type cellQueue struct {
	mu     sync.Mutex
	wake   *sync.Cond
	cells  []request
	closed bool
}

func (q *cellQueue) init() { q.wake = sync.NewCond(&q.mu) }

// add queues a request; false means that the queue is closed.
func (q *cellQueue) add(r request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.cells = append(q.cells, r)
	q.wake.Signal()
	return true
}

// next waits for a request; false means that the kernel has ended.
func (q *cellQueue) next() (request, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.cells) == 0 && !q.closed {
		q.wake.Wait()
	}
	if q.closed {
		return request{}, false
	}
	r := q.cells[0]
	q.cells = q.cells[1:]
	return r, true
}

// takeCells takes the cells that wait; comm messages stay.
func (q *cellQueue) takeCells() (cells []request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var rest []request
	for _, r := range q.cells {
		if r.msg.Header.MsgType == "execute_request" {
			cells = append(cells, r)
		} else {
			rest = append(rest, r)
		}
	}
	q.cells = rest
	return cells
}

func (q *cellQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake.Broadcast()
}

// prompt is the questions to the user that are open, the latest last; each shell can
// have one.
type prompt struct {
	mu   sync.Mutex
	open []*question
}

type question struct {
	id    string // of the input_request
	reply chan string
}

// take removes a question: the one of that ID, or the latest for "".
func (p *prompt) take(id string) *question {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, q := range slices.Backward(p.open) {
		if id == "" || q.id == id {
			p.open = slices.Delete(p.open, i, i+1)
			return q
		}
	}
	return nil
}

var errInterrupted = errors.New("kernel: interrupted while waiting for input")

// ask sends an input_request to the front end that runs the cell and waits for the
// line, the interrupt of the cell, or the end of the kernel.
func (k *Kernel) ask(run *cell, text string, password bool) (string, error) {
	p := &k.prompt
	run.out.flushNow()
	q := &question{reply: make(chan string, 1)}
	p.mu.Lock()
	p.open = append(p.open, q)
	p.mu.Unlock()
	var sendErr error
	// A front end connects its channels in no order: that of stdin may come after the cell.
	for end := time.Now().Add(stdinLimit); ; time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		q.id = k.emit("input_request", run.req.msg.RawHeader, nil, map[string]any{"prompt": text, "password": password}, func(parts [][]byte) {
			sendErr = k.stdin.SendTo(run.req.peer.Identity(), parts)
		})
		p.mu.Unlock()
		if sendErr == nil || run.ctx.Err() != nil || time.Now().After(end) {
			break
		}
	}
	defer p.take(q.id)
	if sendErr != nil {
		return "", fmt.Errorf("kernel: the front end has no stdin channel: %w", sendErr)
	}
	select {
	case line := <-q.reply:
		return line, nil
	case <-run.ctx.Done():
		return "", errInterrupted
	case <-k.done:
		return "", errInterrupted
	}
}

// receiveInput passes input_reply messages to the open question. Many front ends send
// them without a parent; one with another parent answers an older question.
func (k *Kernel) receiveInput() {
	for {
		select {
		case <-k.done:
			return
		case in := <-k.stdin.Received():
			msg, err := k.signer.Parse(in.Parts)
			if err != nil {
				k.logf("message dropped: %v", err)
				continue
			}
			var parent struct {
				ID string `json:"msg_id"`
			}
			var c struct {
				Value string `json:"value"`
			}
			if msg.Header.MsgType != "input_reply" || json.Unmarshal(msg.Content, &c) != nil || json.Unmarshal(msg.Parent, &parent) != nil {
				k.logf("message of type %.80q on stdin ignored", msg.Header.MsgType)
				continue
			}
			if q := k.prompt.take(parent.ID); q != nil {
				q.reply <- c.Value
			}
		}
	}
}
