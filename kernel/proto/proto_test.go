package proto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	sent := []Event{
		{ID: 1, Kind: KindStream, Stream: &Stream{Name: "stdout", Text: "a\x00é\n<&>"}},
		{ID: 2, Kind: KindDisplay, Bundle: &Bundle{Data: map[string]any{"text/plain": strings.Repeat("x", 1<<20)}}},
		{ID: 3, Kind: KindResult, Bundle: &Bundle{DisplayID: "d", Metadata: map[string]any{"m": "n"}, Data: map[string]any{
			"text/plain": "short", "image/svg+xml": strings.Repeat("<g\n>é", 1000), "text/html": strings.Repeat("y", rawBytes), "application/json": map[string]any{"a": 1.5}}}},
		{ID: 1, Kind: KindDone, Done: &Done{Status: "ok", Seconds: 0.5}},
	}
	for _, ev := range sent {
		if err := w.Send(ev); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReader(&b)
	for _, want := range sent {
		var got Event
		if err := r.Receive(&got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	var end Event
	if err := r.Receive(&end); err != io.EOF {
		t.Errorf("at the end: %v, want io.EOF", err)
	}
}

func TestFramesOfManyWritersStayWhole(t *testing.T) {
	pr, pw := io.Pipe()
	w := NewWriter(pw)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 50 {
				w.Send(Request{ID: int64(i), Op: OpComplete, Code: strings.Repeat("c", i*100)})
			}
		}()
	}
	go func() { wg.Wait(); pw.Close() }()
	r := NewReader(pr)
	n := 0
	for ; ; n++ {
		var req Request
		if err := r.Receive(&req); err != nil {
			break
		}
		if len(req.Code) != int(req.ID)*100 {
			t.Fatalf("request %d has %d bytes", req.ID, len(req.Code))
		}
	}
	if n != 400 {
		t.Errorf("%d frames, want 400", n)
	}
}

// frame is JSON and the texts behind it with their lengths before them.
func frame(json, rest string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(json)+len(rest)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(json)))
	return string(b) + json + rest
}

func TestBadFrames(t *testing.T) {
	for name, in := range map[string]string{
		"cut length":        "\x00\x00",
		"zero":              "\x00\x00\x00\x00\x00\x00\x00\x00",
		"huge":              "\xff\xff\xff\xff\x00\x00\x00\x01",
		"JSON past end":     "\x00\x00\x00\x02\x00\x00\x00\x03{} ",
		"cut body":          "\x00\x00\x00\x09\x00\x00\x00\x09{}",
		"not JSON":          "\x00\x00\x00\x02\x00\x00\x00\x02xx",
		"wrong shape":       "\x00\x00\x00\x02\x00\x00\x00\x02[]",
		"text of nothing":   frame("{}", "x"),
		"text too long":     frame(`{"bundle":{},"raw":[{"key":"k","bytes":99999}]}`, "x"),
		"text too short":    frame(`{"bundle":{},"raw":[{"key":"k","bytes":1}]}`, "xy"),
		"negative text":     frame(`{"bundle":{},"raw":[{"key":"k","bytes":-1}]}`, "x"),
		"text of no bundle": frame(`{"raw":[{"key":"k","bytes":1}]}`, "x"),
	} {
		var ev Event
		if err := NewReader(strings.NewReader(in)).Receive(&ev); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v, want ErrFrame", name, err)
		}
	}
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte(frame("{}", "") + frame(`{"id":123}`, "")))
	f.Add([]byte(frame(`{"bundle":{},"raw":[{"key":"k","bytes":1}]}`, "x")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 512 {
			return // minimising one input tries all pairs of its bytes
		}
		r := NewReader(bytes.NewReader(b))
		for {
			var ev Event
			if err := r.Receive(&ev); err != nil {
				return
			}
			var out bytes.Buffer
			if err := NewWriter(&out).Send(ev); err != nil {
				t.Fatal(err)
			}
		}
	})
}
