package kernel

import (
	"context"
	"encoding/json"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// debugger answers debug requests, one after the other, also while a cell stands still. An interrupt or shutdown passes them.
func (k *Kernel) debugger() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-k.done
		cancel()
	}()
	for {
		select {
		case <-k.done:
			return
		case r := <-k.debug:
			k.guard("debug_request", func() {
				k.answer(r, func() { k.reply(r, "debug_reply", k.debugReply(ctx, r)) })
			})
		}
	}
}

// debugReply is the response of the worker's debugger; the content of the messages is that of the Debug Adapter Protocol.
func (k *Kernel) debugReply(ctx context.Context, r request) any {
	e, err := k.startEngine()
	if err == nil {
		var raw json.RawMessage
		if raw, err = e.Debug(ctx, r.msg.Content); err == nil {
			return raw
		}
	}
	var head struct {
		Seq     int    `json:"seq"`
		Command string `json:"command"`
	}
	json.Unmarshal(r.msg.Content, &head) // what cannot be read is answered all the same
	return map[string]any{"type": "response", "request_seq": head.Seq, "command": head.Command, "success": false, "message": err.Error()}
}

// debugEvent publishes an event of the debugger, after what the running cell printed before it.
func (k *Kernel) debugEvent(ev proto.Event) {
	if ev.Kind != proto.KindDebug {
		return
	}
	var parent json.RawMessage
	k.statusMu.Lock()
	c := k.main.cell
	k.statusMu.Unlock()
	if c != nil {
		c.out.flushNow()
		parent = c.req.msg.RawHeader
	}
	k.publish("debug_event", parent, ev.Debug)
}
