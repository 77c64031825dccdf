package jupyter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel"
	"github.com/tilus-lab/tilus-lab/kernel/wire"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// talk is a front end with its kernel.
type talk struct {
	t      *testing.T
	c      kernel.Connection
	signer *wire.Signer
	ended  chan struct{}
	n      int
}

func startKernel(t *testing.T) *talk {
	t.Helper()
	exe := need.Program(t)
	k := &talk{t: t, c: kernel.Connection{Transport: "tcp", IP: "127.0.0.1", Key: "mutants", SignatureScheme: "hmac-sha256"}, ended: make(chan struct{})}
	var err error
	if k.signer, err = wire.NewSigner(k.c.SignatureScheme, k.c.Key); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "connection.json")
	text, err := json.Marshal(k.c)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "kernel", file)
	cmd.Env = append(os.Environ(), "TILUS_LAB_DATA="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		cmd.Wait()
		close(k.ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-k.ended
	})
	// The kernel picks its ports, and writes them into the file.
	for k.c.ShellPort == 0 {
		select {
		case <-k.ended:
			t.Fatal("the kernel ended")
		case <-time.After(5 * time.Millisecond):
		}
		if c, err := kernel.ReadConnection(file); err == nil {
			k.c = c
		}
	}
	return k
}

func (k *talk) dial(kind string, port int) *wire.Conn {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), 2*time.Minute)
	k.t.Cleanup(cancel)
	for {
		c, err := wire.Dial(ctx, kind, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			k.t.Cleanup(func() { c.Close() })
			return c
		}
		select {
		case <-k.ended:
			k.t.Fatal("the kernel ended")
		case <-ctx.Done():
			k.t.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (k *talk) message(kind string, content any) [][]byte {
	k.n++
	raw, _ := json.Marshal(content)
	parts, err := k.signer.Parts(&wire.Message{Content: raw, Header: wire.Header{MsgID: fmt.Sprint("m", k.n), Session: "s", Username: "u", MsgType: kind, Version: "5.3", Date: time.Now().UTC().Format(time.RFC3339Nano)}})
	if err != nil {
		k.t.Fatal(err)
	}
	return parts
}

// sum runs 1 + 1 on a fresh connection.
func (k *talk) sum() {
	k.t.Helper()
	iopub, shell := k.dial("SUB", k.c.IOPubPort), k.dial("DEALER", k.c.ShellPort)
	// A busy kernel may publish the result before it has heard of the subscription: ask again.
	var asked sync.Map
	done := make(chan struct{})
	var asking sync.WaitGroup
	defer func() { close(done); asking.Wait() }()
	asking.Go(func() {
		wait := 20 * time.Millisecond
		for range 20 {
			select {
			case <-done:
				return
			case <-time.After(wait):
			}
			parts := k.message("execute_request", map[string]any{"code": "1 + 1", "silent": false, "store_history": true, "allow_stdin": false, "user_expressions": map[string]any{}})
			asked.Store(fmt.Sprint("m", k.n), true)
			if err := shell.Send(parts); err != nil {
				return
			}
			wait = 5 * time.Second
		}
	})
	for {
		parts, err := iopub.Receive()
		if err != nil {
			k.t.Fatalf("no answer to 1 + 1: %v", err)
		}
		m, err := k.signer.Parse(parts)
		if err != nil {
			k.t.Fatal(err)
		}
		var parent wire.Header
		json.Unmarshal(m.Parent, &parent)
		if _, ours := asked.Load(parent.MsgID); ours && m.Header.MsgType == "execute_result" {
			if !strings.Contains(string(m.Content), `"text/plain":"2"`) {
				k.t.Fatalf("1 + 1: %s", m.Content)
			}
			return
		}
	}
}

// TestMutants sends 10,000 messages that are wrong in some way: bytes of frames changed, parts left out or repeated, JSON of wrong
// types under a right signature, and bytes that are no ZMTP at all. Afterwards the kernel still answers.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	k := startKernel(t)
	k.sum()
	r := rand.New(rand.NewPCG(1, 2))
	// No request that ends the kernel is among them; what others may do to it, they may.
	seeds := []struct {
		kind    string
		content map[string]any
	}{
		{"kernel_info_request", map[string]any{}},
		{"execute_request", map[string]any{"code": "2 + 2", "silent": true, "store_history": false, "user_expressions": map[string]any{"a": "1"}, "allow_stdin": false, "stop_on_error": false}},
		{"complete_request", map[string]any{"code": "fmt.Pr", "cursor_pos": 6}},
		{"inspect_request", map[string]any{"code": "fmt.Println", "cursor_pos": 8, "detail_level": 0}},
		{"is_complete_request", map[string]any{"code": "for {"}},
		{"history_request", map[string]any{"hist_access_type": "tail", "n": 3, "output": false, "raw": true}},
		{"comm_info_request", map[string]any{"target_name": "x"}},
		{"comm_open", map[string]any{"comm_id": "c", "target_name": "nobody", "data": map[string]any{}}},
		{"comm_msg", map[string]any{"comm_id": "c", "data": map[string]any{"method": "update"}}},
		{"comm_close", map[string]any{"comm_id": "c", "data": map[string]any{}}},
		{"interrupt_request", map[string]any{}},
		{"input_reply", map[string]any{"value": "x"}},
		{"no_such_request", map[string]any{"x": 1}},
	}
	odd := []any{nil, -1, 1e300, "", strings.Repeat("x", 1<<16), []any{1, "a"}, map[string]any{"code": 1}, true, "\x00\xff", 1 << 40}
	conns := map[int]*wire.Conn{}
	ports := []int{k.c.ShellPort, k.c.ControlPort, k.c.StdinPort}
	for i := range 10_000 {
		port := ports[r.IntN(len(ports))]
		if i%100 == 99 {
			// Bytes that are no ZMTP.
			raw := make([]byte, 1+r.IntN(200))
			for j := range raw {
				raw[j] = byte(r.Uint32())
			}
			if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
				c.Write(raw)
				c.Close()
			}
			continue
		}
		if conns[port] == nil {
			conns[port] = k.dial("DEALER", port)
			c := conns[port]
			go func() { // a front end that reads its replies
				for {
					if _, err := c.Receive(); err != nil {
						return
					}
				}
			}()
		}
		s := seeds[r.IntN(len(seeds))]
		content := map[string]any{}
		for key, v := range s.content {
			content[key] = v
			if r.IntN(3) == 0 {
				content[key] = odd[r.IntN(len(odd))]
			}
			if r.IntN(6) == 0 {
				delete(content, key)
			}
		}
		parts := k.message(s.kind, content)
		switch i % 4 {
		case 0: // a changed byte, so the signature is wrong
			j := r.IntN(len(parts))
			p := bytes.Clone(parts[j])
			if len(p) > 0 {
				p[r.IntN(len(p))] ^= byte(1 + r.IntN(255))
			}
			parts[j] = p
		case 1: // a part left out or repeated
			j := r.IntN(len(parts))
			if r.IntN(2) == 0 {
				parts = append(parts[:j:j], parts[j+1:]...)
			} else {
				parts = append(parts, parts[j])
			}
		case 2: // wrong types under a right signature: nothing more
		case 3: // text that is no JSON under a right signature
			texts := []string{"", "{", "[]", "null", `{"msg_type": 3}`, strings.Repeat("[", 20_000), `{"msg_id": "x", "msg_type": "execute_request"}`, "\xff\xfe"}
			m := &wire.Message{RawHeader: json.RawMessage(texts[r.IntN(len(texts))]), Parent: json.RawMessage(texts[r.IntN(len(texts))]), Metadata: json.RawMessage(texts[r.IntN(len(texts))]), Content: json.RawMessage(texts[r.IntN(len(texts))])}
			if p, err := k.signer.Parts(m); err == nil {
				parts = p
			}
		}
		if err := conns[port].Send(parts); err != nil {
			conns[port] = nil // the kernel may end a connection, not itself
		}
		select {
		case <-k.ended:
			t.Fatalf("message %d ended the kernel", i)
		default:
		}
	}
	k.sum()
}
