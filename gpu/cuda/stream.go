package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// Stream is a queue of work on the device. Where a method takes a *Stream, nil is the default
// stream.
type Stream struct {
	c *Context
	h uintptr
}

// NewStream makes a stream that does not wait for the default stream (cuStreamCreate with
// CU_STREAM_NON_BLOCKING).
func (c *Context) NewStream() (*Stream, error) {
	s := &Stream{c: c}
	if err := c.call(cuStreamCreate, uintptr(unsafe.Pointer(&s.h)), 1); err != nil {
		return nil, err
	}
	return s, nil
}

// check refuses a closed stream, whose handle 0 the driver would take for the default stream.
func (s *Stream) check() error {
	if s != nil && s.h == 0 {
		return ErrClosed
	}
	return nil
}

func (s *Stream) handle() uintptr {
	if s == nil {
		return 0
	}
	return s.h
}

// Synchronize waits until all queued work is done (cuStreamSynchronize).
func (s *Stream) Synchronize() error {
	if err := s.check(); err != nil {
		return err
	}
	return s.c.call(cuStreamSynchronize, s.h)
}

// Done says whether all queued work is done (cuStreamQuery).
func (s *Stream) Done() (bool, error) {
	if err := s.check(); err != nil {
		return false, err
	}
	err := s.c.call(cuStreamQuery, s.h)
	if e := (*Error)(nil); errors.As(err, &e) && e.Code == codeNotReady {
		return false, nil
	}
	return err == nil, err
}

// Wait makes later work on the stream wait for the event (cuStreamWaitEvent).
func (s *Stream) Wait(e *Event) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.c.call(cuStreamWaitEvent, s.h, e.h, 0)
}

// Close destroys the stream; queued work still runs (cuStreamDestroy).
func (s *Stream) Close() error {
	h := s.h
	if s.h = 0; h == 0 {
		return nil
	}
	return s.c.call(cuStreamDestroy, h)
}

// Event is a mark in a stream, with the time at which the device reached it.
type Event struct {
	c *Context
	h uintptr
}

// NewEvent makes an event that takes the time (cuEventCreate).
func (c *Context) NewEvent() (*Event, error) {
	e := &Event{c: c}
	if err := c.call(cuEventCreate, uintptr(unsafe.Pointer(&e.h)), 0); err != nil {
		return nil, err
	}
	return e, nil
}

// Record queues the event on s (cuEventRecord).
func (e *Event) Record(s *Stream) error {
	if e.h == 0 {
		return ErrClosed
	}
	if err := s.check(); err != nil {
		return err
	}
	return e.c.call(cuEventRecord, e.h, s.handle())
}

// Synchronize waits until the device has reached the event (cuEventSynchronize).
func (e *Event) Synchronize() error {
	if e.h == 0 {
		return ErrClosed
	}
	return e.c.call(cuEventSynchronize, e.h)
}

// Done says whether the device has reached the event (cuEventQuery).
func (e *Event) Done() (bool, error) {
	if e.h == 0 {
		return false, ErrClosed
	}
	err := e.c.call(cuEventQuery, e.h)
	if x := (*Error)(nil); errors.As(err, &x) && x.Code == codeNotReady {
		return false, nil
	}
	return err == nil, err
}

// Since is the time in milliseconds from start to e, to about half a microsecond
// (cuEventElapsedTime). Both must have been reached.
func (e *Event) Since(start *Event) (float64, error) {
	if e.h == 0 || start.h == 0 {
		return 0, ErrClosed
	}
	var ms float32
	err := e.c.call(cuEventElapsedTime, uintptr(unsafe.Pointer(&ms)), start.h, e.h)
	return float64(ms), err
}

// Close destroys the event (cuEventDestroy).
func (e *Event) Close() error {
	h := e.h
	if e.h = 0; h == 0 {
		return nil
	}
	return e.c.call(cuEventDestroy, h)
}

// Graph is work recorded once, to be launched many times in one call.
type Graph struct {
	c *Context
	h uintptr // CUgraphExec
}

// Capture records what queue puts on s, which does not run, and makes it launchable
// (cuStreamBeginCapture, cuStreamEndCapture, cuGraphInstantiateWithFlags). The driver wants begin
// and end on one thread, so the goroutine stays locked to its thread while queue runs; queue must
// not leave work to other goroutines, and must not allocate or synchronise.
func (s *Stream) Capture(queue func() error) (*Graph, error) {
	if s == nil {
		return nil, fmt.Errorf("cuda: the default stream cannot be captured")
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const threadLocal = 1 // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
	if err := s.c.call(cuStreamBeginCapture, s.h, threadLocal); err != nil {
		return nil, err
	}
	var recorded uintptr
	ended := false
	end := func() error {
		ended = true
		return s.c.call(cuStreamEndCapture, s.h, uintptr(unsafe.Pointer(&recorded)))
	}
	defer func() { // a panic in queue must not leave the stream capturing
		if !ended {
			_ = end()
		}
	}()
	err := queue()
	if e := end(); err == nil {
		err = e
	}
	if recorded != 0 {
		defer s.c.call(cuGraphDestroy, recorded)
	}
	if err != nil {
		return nil, err
	}
	g := &Graph{c: s.c}
	if err := s.c.call(cuGraphInstantiateWithFlags, uintptr(unsafe.Pointer(&g.h)), recorded, 0); err != nil {
		return nil, err
	}
	return g, nil
}

// Launch queues the whole graph on s (cuGraphLaunch).
func (g *Graph) Launch(s *Stream) error {
	if g.h == 0 {
		return ErrClosed
	}
	if err := s.check(); err != nil {
		return err
	}
	return g.c.call(cuGraphLaunch, g.h, s.handle())
}

// Close destroys the graph (cuGraphExecDestroy).
func (g *Graph) Close() error {
	h := g.h
	if g.h = 0; h == 0 {
		return nil
	}
	return g.c.call(cuGraphExecDestroy, h)
}
