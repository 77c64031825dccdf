package timeline

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/gpu/model/pipeline"
	"github.com/tilus-lab/tilus-lab/layoutviz"
)

// pictures are one of each, by name.
func pictures(t *testing.T, o layoutviz.Options) map[string]layoutviz.Picture {
	t.Helper()
	out := map[string]layoutviz.Picture{}
	put := func(name string, p layoutviz.Picture, err error) {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = p
	}
	for _, e := range dispatch.Examples() {
		r, err := e.Program.Run()
		if err != nil {
			t.Fatal(err)
		}
		p, err := Gantt(r, e.Program.Title, -1, o)
		put(e.Name, p, err)
		if e.Name == "slow-player" {
			p, err = Gantt(r, e.Program.Title, 4, o)
			put(e.Name+"-4", p, err)
			p, err = Path(r.Why("victim", 2), "Why block 2 of the victim starts so late", o)
			put("why", p, err)
		}
	}
	big, err := dispatch.Run(dispatch.Scenario{Queues: []dispatch.Queue{{Name: "q", Commands: []dispatch.Command{
		{Kernel: &dispatch.Kernel{Name: "k", Blocks: 20000, Threads: 256, Ticks: 3}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Gantt(big, "Many blocks", -1, o)
	put("many", p, err)
	stairs, err := dispatch.Staircase(dispatch.Machine{}, dispatch.Kernel{Name: "k", Blocks: 1024, Threads: 1024, Ticks: 1}, dispatch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err = Stairs(stairs, 15, 16, "The sixteenth compute unit", o)
	put("stairs", p, err)
	p, err = Ladder([]Rung{{"v0", "loads", 300, 0.4}, {"v1", "products of warpgroups, which read shared memory", 700, 1.05}}, "TFLOP/s", "cuBLAS", "A ladder", "Of two rungs.", o)
	put("ladder", p, err)
	for _, l := range []pipeline.Loop{{Latency: 600, Work: 250, Stages: 1, Turns: 6}, {Latency: 600, Work: 250, Stages: 4, Turns: 8}, {Latency: 900, Work: 100, Stages: 3, Turns: 64}} {
		p, err := Stages(l, o)
		put(fmt.Sprintf("stages-%d-%d", l.Stages, l.Turns), p, err)
	}
	for _, sched := range []bool{true, false} {
		events, _, err := dispatch.CreateQueues(dispatch.Creation{Scheduler: sched, Processes: 1, Queues: 2, Mask: []uint32{0x1f}})
		if err != nil {
			t.Fatal(err)
		}
		var last []dispatch.Event
		for _, e := range events {
			if e.Step == "create" {
				last = nil
			}
			last = append(last, e)
		}
		p, err = Path(last, "A new queue", o)
		name := "queue-scheduler"
		if !sched {
			name = "queue-driver"
		}
		put(name, p, err)
	}
	return out
}

// Pictures are well-formed, the same every time, and have nothing outside their
// sheet.
func TestPictures(t *testing.T) {
	again := pictures(t, layoutviz.Options{})
	for name, p := range pictures(t, layoutviz.Options{}) {
		if !bytes.Equal(p.SVG, again[name].SVG) {
			t.Errorf("%s: drawn twice, it differs", name)
		}
		dec := xml.NewDecoder(bytes.NewReader(p.SVG))
		for {
			if _, err := dec.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		seen := map[string]bool{}
		for _, e := range p.IDs {
			if e.X < 0 || e.Y < 0 || e.X+e.W > p.Width || e.Y+e.H > p.Height || e.Label == "" {
				t.Errorf("%s: %+v lies outside", name, e)
			}
			if seen[e.ID] {
				t.Errorf("%s: two elements %s", name, e.ID)
			}
			seen[e.ID] = true
		}
		_, texts := p.Split()
		for _, x := range texts {
			for _, w := range x.Words {
				if w.X < 0 || w.X > p.Width || x.Y > p.Height || x.Anchor == "start" && w.X+int(float64(len([]rune(w.S)))*x.Size*0.6) > p.Width+8 {
					t.Errorf("%s: %q at %d, %d leaves the sheet of %d, %d", name, w.S, w.X, x.Y, p.Width, p.Height)
				}
			}
		}
		if dir := os.Getenv("TIMELINE_PNG"); dir != "" {
			raw, err := layoutviz.PNG(p)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name+".png"), raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestLooks(t *testing.T) {
	for _, theme := range []string{"light", "dark", "print"} {
		pictures(t, layoutviz.Options{Theme: theme, Palette: "okabe-ito"})
	}
	r, err := dispatch.Examples()[0].Program.Run()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []layoutviz.Options{{Theme: "red"}, {Palette: "red"}} {
		if _, err := Gantt(r, "x", -1, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// The chart says what the trace says.
func TestGanttSays(t *testing.T) {
	p := pictures(t, layoutviz.Options{})
	for name, want := range map[string]string{
		"slow-player": "block 2 of victim", "deadlock": "only waiting for a lower flattened number is safe", "stairs": "7.3 times",
	} {
		if !strings.Contains(p[name].Desc, want) {
			t.Errorf("%s: %q does not say %q", name, p[name].Desc, want)
		}
	}
	if !strings.Contains(string(p["slow-player-4"].SVG), "Tick 4") {
		t.Error("the moment is not shown")
	}
}

// TestGallery draws each picture in every theme, within a slide's width.
func TestGallery(t *testing.T) {
	for _, x := range Gallery() {
		for _, theme := range []string{"light", "dark", "print"} {
			p, err := x.Draw(layoutviz.Options{Theme: theme})
			if err != nil {
				t.Fatalf("%s: %v", x.Name, err)
			}
			if p.Width > 1200 || p.Title == "" || p.Desc == "" {
				t.Errorf("%s: %d wide, %q, %q", x.Name, p.Width, p.Title, p.Desc)
			}
		}
	}
}
