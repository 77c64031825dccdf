package lsp

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

const program = `program p<1>(a: *f16, n: i32) warps=1 {
	ga = ViewGlobal(a) : global f16[n, 16]
	x = LoadGlobal(ga, offset=[0, 0]) : register f16[16, 16] local(2, 1).spatial(8, 4).local(1, 4)
	y = Add(x, x) : register f16[16, 16]
	StoreGlobal(ga, y, offset=[0, 0])
}
`

type client struct {
	*testing.T
	conn      *jsonrpc2.Conn
	published chan []diagnostic
	done      chan error
}

func connect(t *testing.T) *client {
	a, b := net.Pipe()
	c := &client{T: t, published: make(chan []diagnostic, 10), done: make(chan error, 1)}
	go func() { c.done <- Serve(t.Context(), a) }()
	c.conn = jsonrpc2.NewConn(t.Context(), jsonrpc2.NewBufferedStream(b, jsonrpc2.VSCodeObjectCodec{}), jsonrpc2.HandlerWithError(func(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
		var p struct{ Diagnostics []diagnostic }
		if r.Method == "textDocument/publishDiagnostics" && json.Unmarshal(*r.Params, &p) == nil {
			c.published <- p.Diagnostics
		}
		return nil, nil
	}))
	t.Cleanup(func() { c.conn.Close() })
	return c
}

type object map[string]any

func (c *client) call(method string, params, result any) error {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 10*time.Second)
	defer cancel()
	return c.conn.Call(ctx, method, params, result)
}

func (c *client) open(text string) []diagnostic {
	c.Helper()
	if err := c.conn.Notify(c.Context(), "textDocument/didOpen", object{"textDocument": object{"uri": "file:///tmp/p.tile", "languageId": "tile", "version": 1, "text": text}}); err != nil {
		c.Fatal(err)
	}
	select {
	case d := <-c.published:
		return d
	case <-time.After(10 * time.Second):
		c.Fatal("no diagnostics")
		return nil
	}
}

// place is that of the byte behind some text of the program.
func place(text, behind string) object {
	i := strings.Index(text, behind) + len(behind)
	line := strings.Count(text[:i], "\n")
	return object{"textDocument": object{"uri": "file:///tmp/p.tile"}, "position": position{line, i - strings.LastIndexByte("\n"+text[:i], '\n')}}
}

func TestSession(t *testing.T) {
	c := connect(t)
	var caps struct {
		Capabilities struct{ PositionEncoding string }
	}
	if err := c.call("initialize", object{"processId": nil, "capabilities": object{}}, &caps); err != nil || caps.Capabilities.PositionEncoding != "utf-16" {
		t.Fatalf("%v %+v", err, caps)
	}
	if d := c.open(program); len(d) != 0 {
		t.Errorf("a right program has problems: %+v", d)
	}
	var hover struct{ Contents markup }
	if err := c.call("textDocument/hover", place(program, "LoadGl"), &hover); err != nil || !strings.Contains(hover.Contents.Value, "LoadGlobal") {
		t.Errorf("%v %+v", err, hover)
	}
	var list struct{ Items []completion }
	if err := c.call("textDocument/completion", place(program, "LoadGlobal(ga, off"), &list); err != nil || len(list.Items) == 0 || list.Items[0].Label != "offset=" {
		t.Errorf("%v %+v", err, list)
	}
	var from location
	if err := c.call("textDocument/definition", place(program, "Add(x, x"), &from); err != nil || from.Range.Start != (position{2, 1}) {
		t.Errorf("%v %+v", err, from)
	}
	var symbols []object
	if err := c.call("textDocument/documentSymbol", object{"textDocument": object{"uri": "file:///tmp/p.tile"}}, &symbols); err != nil || len(symbols) != 5 {
		t.Errorf("%v %v", err, symbols)
	}
	var edits []edit
	if err := c.call("textDocument/formatting", object{"textDocument": object{"uri": "file:///tmp/p.tile"}}, &edits); err != nil || len(edits) != 0 {
		t.Errorf("%v %+v", err, edits)
	}

	wrong := strings.Replace(strings.Replace(program, "y = Add(x, x)", "  y = Add(x,  z)", 1), "program p", "// 😀\nprogram p", 1)
	d := c.open(wrong)
	if len(d) == 0 || d[0].Range.Start.Line != 4 || !strings.Contains(d[0].Message, "there is no z here") || d[0].Code == "" {
		t.Fatalf("%+v", d)
	}
	if err := c.call("textDocument/definition", place(wrong, "Add(x"), &from); err != nil || from.Range.Start != (position{3, 1}) {
		t.Errorf("in a wrong text: %v %+v", err, from)
	}
	spaced := strings.Replace(program, "Add(x, x)", "Add( x,x )", 1)
	if d := c.open(spaced); len(d) != 0 {
		t.Errorf("%+v", d)
	}
	if err := c.call("textDocument/formatting", object{"textDocument": object{"uri": "file:///tmp/p.tile"}}, &edits); err != nil || len(edits) != 1 || edits[0].NewText != program {
		t.Errorf("%v %+v", err, edits)
	}
	if err := c.call("textDocument/hover", object{"textDocument": object{"uri": "file:///other"}, "position": position{}}, nil); err == nil {
		t.Error("a text that is not open can be asked about")
	}
	if err := c.call("textDocument/rename", object{}, nil); err == nil {
		t.Error("there is a rename")
	}
	if err := c.call("shutdown", nil, nil); err != nil {
		t.Error(err)
	}
	if err := c.conn.Notify(t.Context(), "exit", nil); err != nil {
		t.Error(err)
	}
	if err := <-c.done; err != nil {
		t.Error(err)
	}
}

// TestPositions goes to places and back, in both ways of counting.
func TestPositions(t *testing.T) {
	src := "a😀b\nä = 1\n"
	for _, bytes := range []bool{false, true} {
		d := newDocument("file:///x.tile", src, bytes)
		for i := range src {
			if got := d.offset(d.position(i)); got != i {
				t.Errorf("%d is %+v, which is %d", i, d.position(i), got)
			}
		}
	}
	d := newDocument("x", src, false)
	for _, c := range []struct {
		p    position
		want int
	}{{position{0, 3}, 5}, {position{0, 99}, 6}, {position{-1, -1}, 0}, {position{9, 0}, len(src)}, {position{1, -5}, 7}} {
		if got := d.offset(c.p); got != c.want {
			t.Errorf("%+v is byte %d, not %d", c.p, got, c.want)
		}
	}
}

func FuzzDocument(f *testing.F) {
	f.Add(program, 3, 7)
	f.Fuzz(func(t *testing.T, src string, line, char int) {
		d := newDocument("file:///x.tile", src, char%2 == 0)
		k := d.offset(position{line, char})
		d.complete(k)
		d.definition(k)
		d.symbols()
	})
}
