package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/kernel/lab"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/kernel/session"
)

// maxNotebook is the largest notebook file in bytes.
const maxNotebook = 256 << 20

func newNB() *cobra.Command {
	cmd := &cobra.Command{Use: "nb", Short: "Work with notebooks, without Jupyter"}
	cmd.AddCommand(newNBRun())
	return cmd
}

func newNBRun() *cobra.Command {
	var dev, out, workerLog string
	var keepGoing, quiet bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "run FILE.ipynb",
		Short: "Execute a notebook from top to bottom",
		Long: `Execute all cells of a notebook in a fresh worker, as Jupyter would through our
kernel, but without Python. What the cells print appears as text. The exit status is
1 if a cell fails; the cells after it do not run, unless --keep-going is given or the
cell has the tag raises-exception.`,
		Example: `  tilus-lab nb run notebooks/01-low-precision-matmul.ipynb
  tilus-lab nb run notebooks/01-low-precision-matmul.ipynb --device cuda --out done.ipynb`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			nb, err := readNotebook(args[0])
			if err != nil {
				return err
			}
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			opt := session.Options{Exe: []string{exe, "worker"}, Dir: filepath.Dir(args[0])}
			w := beside(cmd, out)
			switch workerLog {
			case "":
			case "-":
				opt.Log = w
			default:
				f, err := os.Create(workerLog)
				if err != nil {
					return err
				}
				defer f.Close()
				opt.Log = f
			}
			if dev != "" {
				opt.Env = []string{lab.DeviceEnv + "=" + dev}
			}
			s, err := session.Start(opt)
			if err != nil {
				return err
			}
			defer s.Close()
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			if quiet {
				w = io.Discard
			}
			runErr := nb.run(ctx, s, w, keepGoing)
			if out != "" {
				raw, err := nb.encode()
				if err == nil {
					err = write(cmd, out, raw)
				}
				if err != nil {
					return err
				}
			}
			return runErr
		},
	}
	f := cmd.Flags()
	f.StringVar(&dev, "device", "", "`DEVICE` of lab.Run in the cells: interp, sim, cuda or auto")
	f.StringVar(&out, "out", "", "write the executed notebook to `FILE`; - is standard output, and what the cells print goes to standard error")
	f.BoolVar(&keepGoing, "keep-going", false, "run the cells after a failed one")
	f.BoolVarP(&quiet, "quiet", "q", false, "do not print what the cells print")
	f.StringVar(&workerLog, "worker-log", "", "write to `FILE` what the worker itself says, such as the stacks of a crash")
	f.DurationVar(&timeout, "timeout", 0, "interrupt the notebook after this time, such as 10m")
	return cmd
}

// notebook is an .ipynb file of format 4. Everything that is not touched stays
// as it is.
type notebook struct {
	doc   map[string]any
	cells []map[string]any
}

func readNotebook(path string) (*notebook, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxNotebook {
		return nil, fmt.Errorf("%s has more than %d MiB", path, maxNotebook>>20)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	nb, err := parseNotebook(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return nb, nil
}

func parseNotebook(raw []byte) (*notebook, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	nb := &notebook{}
	if err := dec.Decode(&nb.doc); err != nil {
		return nil, fmt.Errorf("not a notebook: %w", err)
	}
	if v, ok := nb.doc["nbformat"].(json.Number); !ok || v.String() != "4" {
		return nil, fmt.Errorf("not a notebook of format 4 (nbformat is %v)", nb.doc["nbformat"])
	}
	list, ok := nb.doc["cells"].([]any)
	if !ok {
		return nil, errors.New("not a notebook: it has no cells")
	}
	for i, c := range list {
		m, ok := c.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("cell %d is not an object", i+1)
		}
		nb.cells = append(nb.cells, m)
	}
	return nb, nil
}

// encode is the file as Jupyter writes it: keys sorted, one space of indent.
func (nb *notebook) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(nb.doc)
	return b.Bytes(), err
}

// run executes the code cells, keeps their outputs, and prints these to w.
func (nb *notebook) run(ctx context.Context, s *session.Session, w io.Writer, keepGoing bool) error {
	failed := 0
	start := time.Now()
	ran := 0
	for i, c := range nb.cells {
		if c["cell_type"] != "code" {
			continue
		}
		src := joined(c["source"])
		c["outputs"], c["execution_count"] = []any{}, nil
		if strings.TrimSpace(src) == "" {
			continue
		}
		var outs outputs
		reply, err := s.Execute(ctx, session.Request{Code: src, StoreHistory: true}, outs.add)
		if err != nil {
			return fmt.Errorf("cell %d: %w", i+1, err)
		}
		ran++
		c["outputs"], c["execution_count"] = outs.list(reply.Count), reply.Count
		fmt.Fprintf(w, "In [%d]: %s\n", reply.Count, firstCodeLine(src))
		outs.print(w)
		if reply.Status != "ok" {
			if ctx.Err() != nil {
				return fmt.Errorf("cell %d was interrupted: %w", i+1, context.Cause(ctx))
			}
			if hasTag(c, "raises-exception") {
				continue
			}
			failed++
			if !keepGoing {
				fmt.Fprintf(w, "cell %d of %d failed after %.1f s\n", i+1, len(nb.cells), time.Since(start).Seconds())
				return silent(1)
			}
		}
	}
	fmt.Fprintf(w, "%d cells ran in %.1f s, %d failed\n", ran, time.Since(start).Seconds(), failed)
	if failed > 0 {
		return silent(1)
	}
	return nil
}

// joined is nbformat's text: a string or a list of its lines.
func joined(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var b strings.Builder
		for _, x := range v {
			if s, ok := x.(string); ok {
				b.WriteString(s)
			}
		}
		return b.String()
	}
	return ""
}

// split is the opposite of joined, in the form that Jupyter writes.
func split(s string) []any {
	out := []any{}
	for _, line := range strings.SplitAfter(s, "\n") {
		if line != "" {
			out = append(out, line)
		}
	}
	return out
}

func firstCodeLine(src string) string {
	lines := strings.Split(strings.TrimSpace(src), "\n")
	if len(lines) > 1 {
		return fmt.Sprintf("%s … (%d lines)", lines[0], len(lines))
	}
	return lines[0]
}

func hasTag(cell map[string]any, tag string) bool {
	meta, _ := cell["metadata"].(map[string]any)
	tags, _ := meta["tags"].([]any)
	for _, t := range tags {
		if t == tag {
			return true
		}
	}
	return false
}

// outputs collects the events of one cell.
type outputs struct {
	all      []output
	clearing bool
}

// output is one output: a stream, an error, or a bundle with or without count.
type output struct {
	kind   string // "stream", "display_data", "execute_result", "error"
	stream *proto.Stream
	bundle *proto.Bundle
	err    *proto.Error
}

func (o *outputs) add(ev proto.Event) {
	switch ev.Kind {
	case proto.KindClear:
		if ev.Clear.Wait {
			o.clearing = true
		} else {
			o.all = nil
		}
		return
	case proto.KindStream, proto.KindDisplay, proto.KindResult, proto.KindError:
		if o.clearing {
			o.all, o.clearing = nil, false
		}
	}
	switch ev.Kind {
	case proto.KindStream:
		if n := len(o.all); n > 0 && o.all[n-1].kind == "stream" && o.all[n-1].stream.Name == ev.Stream.Name {
			o.all[n-1].stream.Text += ev.Stream.Text
			return
		}
		copied := *ev.Stream
		o.all = append(o.all, output{kind: "stream", stream: &copied})
	case proto.KindDisplay:
		if id := ev.Bundle.DisplayID; ev.Bundle.Update {
			for _, x := range o.all {
				if x.bundle != nil && x.bundle.DisplayID == id {
					x.bundle.Data, x.bundle.Metadata = ev.Bundle.Data, ev.Bundle.Metadata
				}
			}
			return
		}
		copied := *ev.Bundle
		o.all = append(o.all, output{kind: "display_data", bundle: &copied})
	case proto.KindResult:
		o.all = append(o.all, output{kind: "execute_result", bundle: ev.Bundle})
	case proto.KindError:
		o.all = append(o.all, output{kind: "error", err: ev.Error})
	}
}

// list is the outputs as nbformat has them.
func (o *outputs) list(count int) []any {
	out := []any{}
	for _, x := range o.all {
		m := map[string]any{"output_type": x.kind}
		switch {
		case x.stream != nil:
			m["name"], m["text"] = x.stream.Name, split(x.stream.Text)
		case x.err != nil:
			m["ename"], m["evalue"], m["traceback"] = x.err.Name, x.err.Value, x.err.Traceback
			if x.err.Traceback == nil {
				m["traceback"] = []string{}
			}
		default:
			data := map[string]any{}
			for mime, v := range x.bundle.Data {
				if s, ok := v.(string); ok && isText(mime) {
					v = split(s)
				}
				data[mime] = v
			}
			m["data"], m["metadata"] = data, map[string]any{}
			if x.bundle.Metadata != nil {
				m["metadata"] = x.bundle.Metadata
			}
			if x.kind == "execute_result" {
				m["execution_count"] = count
			}
		}
		out = append(out, m)
	}
	return out
}

// isText says which MIME types a notebook file stores as lines.
func isText(mime string) bool {
	return strings.HasPrefix(mime, "text/") || mime == "image/svg+xml" || mime == "application/javascript"
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// print shows the outputs as text.
func (o *outputs) print(w io.Writer) {
	for _, x := range o.all {
		var text string
		switch {
		case x.stream != nil:
			text = x.stream.Text
		case x.err != nil:
			text = escapes.ReplaceAllString(strings.Join(x.err.Traceback, "\n"), "")
			if text == "" {
				text = x.err.Name + ": " + x.err.Value
			}
		default:
			for _, mime := range []string{"text/plain", "text/markdown", "text/html"} {
				if s, ok := x.bundle.Data[mime].(string); ok {
					text = s
					break
				}
			}
		}
		if text != "" {
			fmt.Fprintln(w, strings.TrimRight(text, "\n"))
		}
	}
}
