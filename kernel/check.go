package kernel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/wire"
)

// Checked is what [Check] saw.
type Checked struct {
	Kernel string        // implementation and version
	Ready  time.Duration // from the start of the process to its kernel_info_reply
	Cell   time.Duration // from the request to the reply of the first cell
	Result string        // of that cell, 6 * 7
}

// Check does what a front end does: it writes a connection file, in which the kernel may pick the ports, starts a kernel with it,
// runs one cell and ends the kernel. argv is the command line of a kernelspec, in
// which {connection_file} stands for the file.
func Check(ctx context.Context, argv []string) (Checked, error) {
	var got Checked
	dir, err := os.MkdirTemp("", "tilus-lab-check-")
	if err != nil {
		return got, fmt.Errorf("kernel: check: %w", err)
	}
	defer os.RemoveAll(dir)
	c := Connection{Transport: "tcp", IP: "127.0.0.1", Key: newID(), SignatureScheme: "hmac-sha256"}
	file := filepath.Join(dir, "connection.json")
	data, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil || len(argv) == 0 {
		return got, fmt.Errorf("kernel: check: %w", errors.Join(err, errors.New("no command line")))
	}
	args := make([]string, len(argv))
	for i, a := range argv {
		args[i] = strings.ReplaceAll(a, "{connection_file}", file)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.WaitDelay = time.Second
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return got, fmt.Errorf("kernel: check: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	defer func() {
		select {
		case <-ended:
		case <-time.After(2 * time.Second):
			cmd.Process.Kill()
			<-ended
		}
	}()
	f := front{ctx: ctx, ended: ended}
	err = f.connection(file)
	if err == nil {
		err = f.ask(&got, start)
	}
	if err != nil {
		cmd.Process.Kill()
		<-ended
		if text := strings.TrimSpace(log.String()); text != "" {
			err = fmt.Errorf("%w; the kernel said: %.300s", err, text)
		}
		return got, fmt.Errorf("kernel: check: %s: %w", args[0], err)
	}
	return got, nil
}

// front is the front end of a check.
type front struct {
	ctx    context.Context
	c      Connection
	ended  chan struct{} // closed when the kernel has ended
	signer *wire.Signer
}

// connection waits for the ports that the kernel picks and writes into its file. Ports picked here could be another's by then.
func (f *front) connection(file string) (err error) {
	for {
		if f.c, err = ReadConnection(file); err == nil && f.c.ShellPort != 0 {
			return nil
		}
		select {
		case <-f.ended:
			return errors.New("the kernel ended before it could be reached")
		case <-f.ctx.Done():
			return fmt.Errorf("the kernel has written no ports into its connection file: %w", f.ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (f *front) ask(got *Checked, start time.Time) (err error) {
	if f.signer, err = wire.NewSigner(f.c.SignatureScheme, f.c.Key); err != nil {
		return err
	}
	shell, err := f.dial("DEALER", f.c.ShellPort)
	if err != nil {
		return err
	}
	defer shell.Close()
	iopub, err := f.dial("SUB", f.c.IOPubPort)
	if err != nil {
		return err
	}
	defer iopub.Close()
	if _, err := f.until(iopub, "iopub_welcome"); err != nil {
		return fmt.Errorf("iopub_welcome: %w", err)
	}
	var info struct {
		Implementation string `json:"implementation"`
		Version        string `json:"implementation_version"`
	}
	if err := f.request(shell, "kernel_info", map[string]any{}, &info); err != nil {
		return err
	}
	got.Kernel, got.Ready = strings.TrimSpace(info.Implementation+" "+info.Version), time.Since(start)
	asked := time.Now()
	var reply struct {
		Status string `json:"status"`
		EValue string `json:"evalue"`
	}
	cell := map[string]any{"code": "6 * 7", "silent": false, "store_history": true, "user_expressions": map[string]any{}, "allow_stdin": false}
	if err := f.request(shell, "execute", cell, &reply); err != nil {
		return err
	}
	got.Cell = time.Since(asked)
	if reply.Status != "ok" {
		return fmt.Errorf("the cell 6 * 7 failed: %s", reply.EValue)
	}
	m, err := f.result(iopub)
	if err != nil {
		return fmt.Errorf("the cell 6 * 7: %w", err)
	}
	var result struct {
		Data map[string]any `json:"data"`
	}
	if err := json.Unmarshal(m.Content, &result); err != nil {
		return err
	}
	if got.Result, _ = result.Data["text/plain"].(string); got.Result != "42" {
		return fmt.Errorf("6 * 7 gave %q", got.Result)
	}
	control, err := f.dial("DEALER", f.c.ControlPort)
	if err != nil {
		return err
	}
	defer control.Close()
	return f.request(control, "shutdown", map[string]any{"restart": false}, &struct{}{})
}

// dial connects to a port that the kernel may not have bound yet.
func (f *front) dial(socketType string, port int) (*wire.Conn, error) {
	for {
		c, err := wire.Dial(f.ctx, socketType, net.JoinHostPort(f.c.IP, strconv.Itoa(port)))
		if err == nil {
			return c, nil
		}
		select {
		case <-f.ended:
			return nil, errors.New("the kernel ended before it could be reached")
		case <-f.ctx.Done():
			return nil, err
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// request sends NAME_request and reads the content of NAME_reply.
func (f *front) request(c *wire.Conn, name string, content, reply any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	parts, err := f.signer.Parts(&wire.Message{Content: data, Header: wire.Header{
		MsgID: newID(), Session: "check", Username: "check", MsgType: name + "_request", Version: ProtocolVersion,
		Date: time.Now().UTC().Format(time.RFC3339Nano),
	}})
	if err == nil {
		err = c.Send(parts)
	}
	var m *wire.Message
	if err == nil {
		m, err = f.until(c, name+"_reply")
	}
	if err == nil {
		err = json.Unmarshal(m.Content, reply)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// until reads up to a message of that type.
func (f *front) until(c *wire.Conn, msgType string) (*wire.Message, error) {
	for {
		parts, err := c.Receive()
		if err != nil {
			return nil, err
		}
		m, err := f.signer.Parse(parts)
		if err != nil {
			return nil, err
		}
		if m.Header.MsgType == msgType {
			return m, nil
		}
	}
}

// result reads up to the execute_result of a cell, which may have none.
func (f *front) result(iopub *wire.Conn) (*wire.Message, error) {
	for {
		parts, err := iopub.Receive()
		if err != nil {
			return nil, err
		}
		m, err := f.signer.Parse(parts)
		if err != nil {
			return nil, err
		}
		var parent wire.Header
		var status struct {
			State string `json:"execution_state"`
		}
		json.Unmarshal(m.Parent, &parent)
		json.Unmarshal(m.Content, &status)
		switch {
		case m.Header.MsgType == "execute_result":
			return m, nil
		case status.State == "idle" && parent.MsgType == "execute_request":
			return nil, errors.New("no result")
		}
	}
}
