package debugger

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/google/go-dap"

	"github.com/tilus-lab/tilus-lab/vm/debug"
	tile "github.com/tilus-lab/tilus-lab/vm/debug/dap"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// request is the head of a debug request and what those that only Jupyter has carry.
type request struct {
	dap.Request
	Arguments struct {
		Code     string     `json:"code"`
		Name     string     `json:"variableName"`
		FrameID  int        `json:"frameId"`
		From     string     `json:"srcVariableName"`
		To       string     `json:"dstVariableName"`
		SrcFrame int        `json:"srcFrameId"`
		Source   dap.Source `json:"source"`
	} `json:"arguments"`
}

// response is what answers one of them.
type response struct {
	dap.Response
	Body any `json:"body"`
}

// Handle answers one debug request. reply is called once, before anything that the
// request lets go on goes on. It waits for no program; for one request at a time.
func (d *Debugger) Handle(raw json.RawMessage, reply func(json.RawMessage)) {
	var r request
	send := func(m any) {
		text, err := json.Marshal(m)
		if err != nil {
			text, _ = json.Marshal(tile.Failed(r.Request, err))
		}
		reply(text)
	}
	// Arguments of another shape leave the ones that are not needed empty.
	json.Unmarshal(raw, &r)
	if r.Type != "request" || r.Command == "" {
		send(tile.Failed(r.Request, errors.New("this is no debug request")))
		return
	}
	if body, err, ok := d.jupyter(r); ok {
		if err != nil {
			send(tile.Failed(r.Request, err))
			return
		}
		send(response{tile.Answer(r.Request), body})
		return
	}
	m, err := dap.DecodeProtocolMessage(raw)
	if err != nil {
		send(tile.Failed(r.Request, err))
		return
	}
	d.standard(m.(dap.RequestMessage), r, send)
}

// standard answers the requests of the Debug Adapter Protocol.
func (d *Debugger) standard(m dap.RequestMessage, r request, send func(any)) {
	if move, answer, ok := tile.MoveOf(m); ok {
		if err := d.goOn(move, func() { send(answer) }); err != nil {
			send(tile.Failed(r.Request, err))
		}
		return
	}
	switch m := m.(type) {
	case *dap.InitializeRequest:
		d.mu.Lock()
		d.values, d.begun = m.Arguments.ClientID == "jupyterlab", true
		d.mu.Unlock()
		send(&dap.InitializeResponse{Response: tile.Answer(r.Request), Body: dap.Capabilities{
			SupportsConfigurationDoneRequest: true, SupportsConditionalBreakpoints: true, SupportsEvaluateForHovers: true,
			SupportsStepBack: true, SupportsExceptionInfoRequest: true, SupportsModulesRequest: true,
			ExceptionBreakpointFilters: []dap.ExceptionBreakpointsFilter{{Filter: faults, Label: "Faults of tile programs", Default: true}},
		}})
		d.event("initialized", struct{}{})
	case *dap.AttachRequest, *dap.LaunchRequest:
		d.on.Store(true)
		send(response{tile.Answer(r.Request), nil})
	case *dap.DisconnectRequest, *dap.TerminateRequest:
		d.on.Store(false)
		d.mu.Lock()
		d.begun = false
		d.breaks, d.mode = map[string]*breakpoints{}, mode{}
		at := d.at
		d.at = nil
		d.mu.Unlock()
		send(response{tile.Answer(r.Request), nil})
		if at != nil {
			d.continued()
			at.moves <- detached
		}
	case *dap.ConfigurationDoneRequest:
		send(response{tile.Answer(r.Request), nil})
	case *dap.SetBreakpointsRequest:
		d.mu.Lock()
		out := d.set(m.Arguments.Source.Path, m.Arguments.Breakpoints)
		d.mu.Unlock()
		send(&dap.SetBreakpointsResponse{Response: tile.Answer(r.Request), Body: dap.SetBreakpointsResponseBody{Breakpoints: out}})
	case *dap.SetExceptionBreakpointsRequest:
		d.mu.Lock()
		d.faults = false
		for _, f := range m.Arguments.Filters {
			d.faults = d.faults || f == faults
		}
		d.mu.Unlock()
		send(&dap.SetExceptionBreakpointsResponse{Response: tile.Answer(r.Request)})
	case *dap.ThreadsRequest:
		send(&dap.ThreadsResponse{Response: tile.Answer(r.Request), Body: dap.ThreadsResponseBody{Threads: []dap.Thread{{Id: theThread, Name: "cell"}}}})
	case *dap.PauseRequest:
		d.mu.Lock()
		if d.at == nil {
			d.mode = mode{move: tile.StepIn}
			if p := d.program; p != nil {
				p.paused = true
				if p.pause != nil {
					p.pause()
				}
			}
		}
		d.mu.Unlock()
		send(&dap.PauseResponse{Response: tile.Answer(r.Request)})
	default:
		d.ask(m, r, send)
	}
}

// faults is the filter of what tile programs do wrong.
const faults = "tile"

// goOn lets what stands still go on, after reply.
func (d *Debugger) goOn(move tile.Move, reply func()) error {
	d.mu.Lock()
	st := d.at
	if st == nil {
		d.mu.Unlock()
		return errRuns
	}
	if st.program == nil && (move == tile.StepBack || move == tile.ReverseContinue) {
		d.mu.Unlock()
		return errors.New("only programs of the tile machine go back; Go code does not")
	}
	d.at = nil
	if st.program == nil {
		// Set here, so that a pause that comes next is not undone.
		d.mode = mode{move, st.frames[0].Thread, st.frames[0].Depth}
	}
	d.mu.Unlock()
	reply()
	d.continued()
	st.moves <- move
	return nil
}

func (d *Debugger) continued() {
	d.event("continued", dap.ContinuedEventBody{ThreadId: theThread, AllThreadsContinued: true})
}

// ask answers a request about what stands still.
func (d *Debugger) ask(m dap.RequestMessage, r request, send func(any)) {
	d.mu.Lock()
	st := d.at
	d.mu.Unlock()
	if st == nil {
		switch m := m.(type) {
		case *dap.StackTraceRequest:
			send(&dap.StackTraceResponse{Response: tile.Answer(r.Request), Body: dap.StackTraceResponseBody{StackFrames: []dap.StackFrame{}}})
		case *dap.ScopesRequest:
			send(&dap.ScopesResponse{Response: tile.Answer(r.Request), Body: dap.ScopesResponseBody{Scopes: []dap.Scope{}}})
		case *dap.VariablesRequest:
			// Parts of the session's variables, which inspectVariables gave out.
			d.mu.Lock()
			ref := m.Arguments.VariablesReference
			var parts func() []Var
			if ref > 0 && ref <= len(d.idle) {
				parts = d.idle[ref-1]
			}
			d.mu.Unlock()
			if parts == nil {
				send(tile.Failed(r.Request, fmt.Errorf("variables reference %d is of a stop that is over", ref)))
				return
			}
			vars := parts()
			d.mu.Lock()
			out := list(vars, m.Arguments.Start, m.Arguments.Count, &d.idle)
			d.mu.Unlock()
			d.dress(out)
			send(&dap.VariablesResponse{Response: tile.Answer(r.Request), Body: dap.VariablesResponseBody{Variables: out}})
		default:
			send(tile.Failed(r.Request, errRuns))
		}
		return
	}
	var answer dap.Message
	known := false
	if err := st.do(func() { answer, known = tile.Ask(target{d, st}, m) }); err != nil {
		send(tile.Failed(r.Request, err))
		return
	}
	if !known {
		send(tile.Failed(r.Request, fmt.Errorf("the debugger of cells has no %s", r.Command)))
		return
	}
	if list, ok := answer.(*dap.VariablesResponse); ok {
		d.dress(list.Body.Variables)
	}
	send(answer)
}

// dress leaves out the types of variables whose values JupyterLab would not show beside them: it shows the value of what
// has no type, and of Python's int, which are numbers of JavaScript there.
func (d *Debugger) dress(vars []dap.Variable) {
	d.mu.Lock()
	values := d.values
	d.mu.Unlock()
	if !values {
		return
	}
	for i := range vars {
		v := &vars[i]
		if _, err := strconv.ParseInt(v.Value, 10, 64); err == nil && len(v.Value) <= 15 {
			v.Type = "int"
		} else {
			v.Type = ""
		}
	}
}

// jupyter answers the requests that Jupyter adds to the protocol; ok is false for others.
func (d *Debugger) jupyter(r request) (body any, err error, ok bool) {
	switch a := r.Arguments; r.Command {
	case "debugInfo":
		return d.info(), nil, true
	case "dumpCell":
		d.mu.Lock()
		p := d.path(a.Code)
		d.cells[p] = a.Code
		d.mu.Unlock()
		return map[string]any{"sourcePath": p}, nil, true
	case "source":
		d.mu.Lock()
		code, ok := d.cells[a.Source.Path]
		d.mu.Unlock()
		if !ok {
			return nil, fmt.Errorf("no cell has the path %s", a.Source.Path), true
		}
		mime := "text/x-go"
		if strings.HasPrefix(strings.TrimSpace(code), "%%tile") {
			mime = "text/plain"
		}
		return map[string]any{"content": code, "mimeType": mime}, nil, true
	case "modules":
		list := []map[string]any{}
		d.mu.Lock()
		ran := map[string]string{}
		for file, p := range d.names {
			ran[p] = max(ran[p], file)
		}
		for p, file := range ran {
			list = append(list, map[string]any{"id": p, "name": file, "path": p})
		}
		d.mu.Unlock()
		sort.Slice(list, func(i, j int) bool { return list[i]["name"].(string) < list[j]["name"].(string) })
		return map[string]any{"modules": list, "totalModules": len(list)}, nil, true
	case "inspectVariables":
		vars := d.session()
		d.mu.Lock()
		d.idle = nil
		out := list(vars, 0, 0, &d.idle)
		d.mu.Unlock()
		d.dress(out)
		return map[string]any{"variables": out}, nil, true
	case "richInspectVariables":
		body, err := d.rich(a.Name, a.FrameID)
		return body, err, true
	case "copyToGlobals":
		return struct{}{}, d.copy(a.From, a.To, a.SrcFrame), true
	}
	return nil, nil, false
}

// info is what a front end must know to find its place again.
func (d *Debugger) info() any {
	type cell struct {
		Source      string                 `json:"source"`
		Breakpoints []dap.SourceBreakpoint `json:"breakpoints"`
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	cells, stopped := []cell{}, []int{}
	for path, b := range d.breaks {
		cells = append(cells, cell{path, b.asked})
	}
	sort.Slice(cells, func(i, j int) bool { return cells[i].Source < cells[j].Source })
	if d.at != nil {
		stopped = append(stopped, theThread)
	}
	return map[string]any{
		"isStarted": d.begun || d.on.Load(), "hashMethod": "Murmur2", "hashSeed": seed, "tmpFilePrefix": d.prefix, "tmpFileSuffix": suffix,
		"breakpoints": cells, "stoppedThreads": stopped, "richRendering": true, "exceptionPaths": []string{}, "copyToGlobals": true,
	}
}

// session are the variables of the session. While something stands still, its goroutine
// reads them.
func (d *Debugger) session() (vars []Var) {
	if d.opts.Globals == nil {
		return nil
	}
	d.mu.Lock()
	st := d.at
	d.mu.Unlock()
	if st != nil && st.do(func() { vars = d.opts.Globals() }) == nil {
		return vars
	}
	return d.opts.Globals()
}

// rich are the forms of a variable: of the frame of that ID, else of the session.
func (d *Debugger) rich(name string, frame int) (any, error) {
	var data, meta map[string]any
	err := d.with(name, frame, func(v any) { data, meta = d.opts.Rich(v) })
	if err != nil {
		return nil, err
	}
	if meta == nil {
		meta = map[string]any{}
	}
	return map[string]any{"data": data, "metadata": meta}, nil
}

// with finds the value of a name and uses it where it may be read.
func (d *Debugger) with(name string, frame int, use func(any)) error {
	d.mu.Lock()
	st := d.at
	d.mu.Unlock()
	var err error
	if st == nil {
		v, found := named(d.session(), name)
		if !found || v.Any == nil {
			return fmt.Errorf("no variable %s can be shown", name)
		}
		use(v.Any())
		return nil
	}
	if late := st.do(func() {
		var v any
		if v, err = (target{d, st}).value(name, frame); err == nil {
			use(v)
		}
	}); late != nil {
		return late
	}
	return err
}

// named is the variable of a name.
func named(vars []Var, name string) (Var, bool) {
	for _, v := range vars {
		if v.Name == name || v.Eval != "" && v.Eval == name {
			return v, true
		}
	}
	return Var{}, false
}

// variable is the variable of a name that a Go frame sees, or the value of an expression.
func (t target) variable(name string, f *Frame) (Var, error) {
	for _, s := range f.Scopes() {
		if v, ok := named(s.Vars(), name); ok {
			return v, nil
		}
	}
	return f.Eval(name)
}

// value is a Go value for the variable of a name; of a tile program a [debug.Variable] or
// an argument's array.
func (t target) value(name string, frame int) (any, error) {
	f, err := t.frame(frame)
	if err != nil {
		return nil, err
	}
	if f == nil {
		for _, v := range t.program.Session.Variables() {
			if v.Var.Name == name && !v.Var.Param {
				return v, nil
			}
		}
		m := t.program.Session.Machine()
		for i, p := range m.Program().Params {
			if p.Name == name {
				return argument(m.Args()[i], p), nil
			}
		}
		return nil, fmt.Errorf("the program has no variable %s here", name)
	}
	v, err := t.variable(name, f)
	if err != nil {
		return nil, err
	}
	if v.Any == nil {
		return nil, fmt.Errorf("%s cannot be shown", name)
	}
	return v.Any(), nil
}

// copy makes a variable of the session from one of a frame.
func (d *Debugger) copy(from, to string, frame int) error {
	d.mu.Lock()
	st := d.at
	d.mu.Unlock()
	if st == nil {
		return errRuns
	}
	var err error
	if late := st.do(func() {
		t := target{d, st}
		var f *Frame
		if f, err = t.frame(frame); err != nil {
			return
		}
		if f == nil {
			var v any
			if v, err = t.value(from, frame); err == nil {
				if x, ok := v.(debug.Variable); ok {
					v = plain(x)
				}
				err = d.opts.Copy(to, Var{Name: from, Any: func() any { return v }})
			}
			return
		}
		var v Var
		if v, err = t.variable(from, f); err == nil {
			err = d.opts.Copy(to, v)
		}
	}); late != nil {
		return late
	}
	return err
}

// argument is an argument of a launch as a Go value.
func argument(a ir.Arg, p *ir.Var) any {
	switch {
	case a.Array != nil:
		return a.Array
	case p.Type.Elem.IsFloat():
		return a.Float
	}
	return int(a.Int)
}

// plain is what a program's variable holds as a Go value.
func plain(v debug.Variable) any {
	switch {
	case v.Tile != nil:
		return v.Tile
	case v.Var.Type.Elem.IsFloat():
		return v.Float
	}
	return int(v.Int)
}
