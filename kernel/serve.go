package kernel

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/tilus-lab/tilus-lab/kernel/wire"
)

// receive handles the messages of shell or control until the kernel ends. What needs
// time is only queued here.
func (k *Kernel) receive(sock *wire.Socket) {
	for {
		select {
		case <-k.done:
			return
		case in := <-sock.Received():
			msg, err := k.signer.Parse(in.Parts)
			if err != nil {
				k.logf("message dropped: %v", err)
				continue
			}
			r := request{msg: msg, peer: in.Peer, sock: sock}
			k.guard(msg.Header.MsgType, func() { k.dispatch(r) })
		}
	}
}

// dispatch sends a request where it is answered.
func (k *Kernel) dispatch(r request) {
	s := k.shellOf(r)
	if s == nil {
		k.unknownSubshell(r)
		return
	}
	switch r.msg.Header.MsgType {
	case "execute_request", "comm_open", "comm_msg", "comm_close":
		if !s.queue.add(r) {
			k.unknownSubshell(r)
		}
	case "create_subshell_request", "delete_subshell_request", "list_subshell_request":
		k.answer(r, func() { k.subshellReply(r) })
	case "complete_request", "inspect_request", "is_complete_request", "history_request":
		select {
		case k.side <- r:
		default:
			// The front end asks faster than the worker answers; it must not wait for ever.
			k.answer(r, func() { k.refuse(r, "Busy", "too many requests are waiting") })
		}
	case "debug_request":
		select {
		case k.debug <- r:
		default:
			k.logf("too many debug requests are waiting; one ignored")
		}
	default:
		k.answer(r, func() { k.immediate(r) })
		if r.msg.Header.MsgType == "shutdown_request" {
			k.stop()
		}
	}
}

// beside answers, one after the other, what may be asked while a cell runs.
func (k *Kernel) beside() {
	for {
		select {
		case <-k.done:
			return
		case r := <-k.side:
			k.guard(r.msg.Header.MsgType, func() {
				k.answer(r, func() {
					if r.msg.Header.MsgType == "history_request" {
						k.historyReply(r)
						return
					}
					k.codeReply(r)
				})
			})
		}
	}
}

// answer puts busy and idle around the handling of a request. Front ends take the last
// status for the state of the kernel, so a running cell is named busy again.
func (k *Kernel) answer(r request, f func()) {
	k.status(r.msg.RawHeader, "busy")
	defer func() {
		k.statusMu.Lock()
		defer k.statusMu.Unlock()
		k.status(r.msg.RawHeader, "idle")
		k.stillBusy()
	}()
	f()
}

// stillBusy says again that the main shell's cell runs, if one does. The caller holds
// statusMu.
func (k *Kernel) stillBusy() {
	if k.main.cell != nil {
		k.status(k.main.cell.req.msg.RawHeader, "busy")
	}
}

func (k *Kernel) status(parent json.RawMessage, state string) {
	k.publish("status", parent, map[string]any{"execution_state": state})
}

// immediate handles what needs no worker.
func (k *Kernel) immediate(r request) {
	switch t := r.msg.Header.MsgType; t {
	case "kernel_info_request":
		k.reply(r, "kernel_info_reply", k.info())
	case "interrupt_request":
		k.interrupt()
		k.reply(r, "interrupt_reply", map[string]any{"status": "ok"})
	case "shutdown_request":
		var c struct {
			Restart bool `json:"restart"`
		}
		// An unreadable request to stop is still one.
		json.Unmarshal(r.msg.Content, &c)
		content := map[string]any{"status": "ok", "restart": c.Restart}
		k.reply(r, "shutdown_reply", content)
		k.publish("shutdown_reply", r.msg.RawHeader, content)
	case "comm_info_request":
		k.reply(r, "comm_info_reply", k.comms.info(r.msg.Content))
	default:
		k.logf("message of unknown type %.80q ignored", t)
	}
}

// refuse answers a request with an error.
func (k *Kernel) refuse(r request, ename, evalue string) {
	name, ok := strings.CutSuffix(r.msg.Header.MsgType, "_request")
	if !ok {
		return
	}
	content := map[string]any{"status": "error", "ename": ename, "evalue": evalue, "traceback": []string{ename + ": " + evalue}}
	if name == "is_complete" {
		content = map[string]any{"status": "unknown"}
	}
	k.reply(r, name+"_reply", content)
}

func (k *Kernel) info() map[string]any {
	version := k.opts.Version
	if version == "" {
		version = "devel"
	}
	gov := strings.TrimPrefix(runtime.Version(), "go")
	return map[string]any{
		"status":                 "ok",
		"protocol_version":       ProtocolVersion,
		"implementation":         "tilus-lab",
		"implementation_version": version,
		"language_info": map[string]any{
			"name": "go", "version": gov, "mimetype": "text/x-go", "file_extension": ".go",
			"pygments_lexer": "go", "codemirror_mode": "go", "nbconvert_exporter": "script",
		},
		"banner":             fmt.Sprintf("Tilus Lab %s: tile-level GPU programs in Go cells.", version),
		"debugger":           true,
		"supported_features": []string{"debugger", "kernel subshells"},
		"help_links": []map[string]string{
			{"text": "Go", "url": "https://go.dev/doc/"},
		},
	}
}

// codeReply answers the three requests about a piece of code.
func (k *Kernel) codeReply(r request) {
	var c struct {
		Code   string `json:"code"`
		Cursor int    `json:"cursor_pos"`
	}
	if err := json.Unmarshal(r.msg.Content, &c); err != nil {
		k.refuse(r, "BadRequest", err.Error())
		return
	}
	cursor := min(max(c.Cursor, 0), utf8.RuneCountInString(c.Code))
	e, err := k.startEngine()
	if err != nil {
		k.refuse(r, "NoWorker", err.Error())
		return
	}
	switch r.msg.Header.MsgType {
	case "complete_request":
		got, err := e.Complete(c.Code, cursor)
		if err != nil {
			k.refuse(r, "NoWorker", err.Error())
			return
		}
		matches := []string{}
		types := []map[string]any{}
		for _, m := range got.Matches {
			matches = append(matches, m.Text)
			types = append(types, map[string]any{"text": m.Text, "type": m.Kind, "signature": m.Sig, "start": got.Start, "end": got.End})
		}
		k.reply(r, "complete_reply", map[string]any{
			"status": "ok", "matches": matches, "cursor_start": got.Start, "cursor_end": got.End,
			"metadata": map[string]any{"_jupyter_types_experimental": types},
		})
	case "inspect_request":
		got, err := e.Inspect(c.Code, cursor)
		if err != nil {
			k.refuse(r, "NoWorker", err.Error())
			return
		}
		data := map[string]any{}
		if got.Found {
			data["text/plain"] = got.Text
			if got.Markdown != "" {
				data["text/markdown"] = got.Markdown
			}
		}
		k.reply(r, "inspect_reply", map[string]any{"status": "ok", "found": got.Found, "data": data, "metadata": map[string]any{}})
	case "is_complete_request":
		got, err := e.IsComplete(c.Code)
		if err != nil {
			got.Status = "unknown"
		}
		content := map[string]any{"status": got.Status}
		if got.Status == "incomplete" {
			content["indent"] = got.Indent
		}
		k.reply(r, "is_complete_reply", content)
	}
}
