package kernel

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// comms are the conversations between cells and the front end, by ID. The worker holds what they mean; the kernel keeps
// their names, to answer for them while a cell runs and to end them when the worker is lost.
type comms struct {
	mu     sync.Mutex
	target map[string]string
}

func (c *comms) note(m *proto.Comm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m.Step {
	case "open":
		if c.target == nil {
			c.target = map[string]string{}
		}
		c.target[m.ID] = m.Target
	case "close":
		delete(c.target, m.ID)
	}
}

// info is the content of a comm_info_reply; the request may name a target.
func (c *comms) info(request []byte) map[string]any {
	var want struct {
		Target string `json:"target_name"`
	}
	// A request that cannot be read asks for all.
	json.Unmarshal(request, &want)
	c.mu.Lock()
	defer c.mu.Unlock()
	list := map[string]any{}
	for id, target := range c.target {
		if want.Target == "" || want.Target == target {
			list[id] = map[string]string{"target_name": target}
		}
	}
	return map[string]any{"status": "ok", "comms": list}
}

func (c *comms) takeAll() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.target
	c.target = nil
	return all
}

// comm hands a comm message of the front end to the worker, and shows what comes of it under that message.
func (k *Kernel) comm(r request, s *shell) {
	var m proto.Comm
	if err := json.Unmarshal(r.msg.Content, &m); err != nil || m.ID == "" {
		k.logf("%s without a comm ID ignored", r.msg.Header.MsgType)
		return
	}
	m.Step = r.msg.Header.MsgType[len("comm_"):]
	// Metadata of another shape than an object was refused with the message.
	json.Unmarshal(r.msg.Metadata, &m.Metadata)
	m.Buffers = r.msg.Buffers

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	run := &cell{req: r, ctx: ctx, cancel: cancel}
	k.statusMu.Lock()
	run.out = k.newOutput(r.msg.RawHeader, k.count, false)
	s.cell = run
	k.status(r.msg.RawHeader, "busy")
	k.statusMu.Unlock()
	k.comms.note(&m)
	e, err := k.startEngine()
	if err != nil {
		k.tell(r.msg.RawHeader, &proto.Comm{Step: "close", ID: m.ID})
		return
	}
	deliver := e.Comm
	if s.id != "" {
		deliver = e.CommBeside
	}
	reply, err := deliver(ctx, m, run.out.event)
	var failure *proto.Error
	switch {
	case err != nil:
		k.logf("%s: %v", r.msg.Header.MsgType, err)
	case reply.Status != "ok":
		failure = k.failure(run, reply)
	}
	run.out.end(failure)
}

// tell passes a comm message on to all front ends.
func (k *Kernel) tell(parent json.RawMessage, c *proto.Comm) {
	k.comms.note(c)
	content := map[string]any{"comm_id": c.ID, "data": c.Data}
	if c.Data == nil {
		content["data"] = map[string]any{}
	}
	if c.Step == "open" {
		content["target_name"] = c.Target
	}
	k.publishWith("comm_"+c.Step, parent, c.Metadata, content, c.Buffers)
}

// loseComms ends all conversations: their cells' half died with the worker.
func (k *Kernel) loseComms(run *cell) {
	for id := range k.comms.takeAll() {
		k.tell(run.req.msg.RawHeader, &proto.Comm{Step: "close", ID: id})
	}
}
