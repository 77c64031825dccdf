package volta

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/trace"
)

// tags are ours by those of traces.
var tags = map[Tag]trace.Tag{Primary: trace.Vendor, Secondary: trace.Paper, Derived: trace.Derived, Assumed: trace.Assumed}

// Trace is the run in the form that all machines share: cycles, a track for each
// lane, buffer, multiplexer and dot-product unit. Loads stand at cycle 0 without
// length, and stores at the last.
func (r *Run) Trace() *trace.Trace {
	t := trace.New(r.Setup.String(), "Volta tensor core, one warp", trace.Model, "cycle")
	t.Facts = append(t.Facts, "cycles: "+Meaning)
	for _, f := range Facts() {
		t.Facts = append(t.Facts, fmt.Sprintf("%s: %s [%s]", f.Name, f.Value, tags[f.Tag]))
	}
	for _, e := range r.Events {
		group := "warp"
		switch {
		case e.Lane >= 0:
			group = "lanes"
		case e.Octet >= 0:
			group = fmt.Sprintf("octet %d", e.Octet)
		}
		about := map[string]string{"phase": e.Phase}
		put := func(key string, n int) {
			if n >= 0 {
				about[key] = strconv.Itoa(n)
			}
		}
		put("instruction", e.Instr)
		put("octet", e.Octet)
		put("lane", e.Lane)
		put("dot", e.Dot)
		if e.Registers != "" {
			about["registers"] = e.Registers
		}
		if len(e.Cells) > 0 {
			var s []string
			for _, c := range e.Cells {
				s = append(s, c.String())
			}
			about["cells"] = strings.Join(s, " ")
		}
		t.Add(group, e.Unit, trace.Event{Kind: e.What, Start: int64(e.Start), End: int64(e.End), Text: e.Text, Causes: e.From, Tag: tags[e.Tag], About: about})
	}
	t.End = max(t.End, int64(r.Total))
	return t
}
