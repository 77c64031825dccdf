// Package widget speaks the protocol of ipywidgets: controls of a notebook page whose state is kept in step with values of this process.
//
// A widget is a comm (kernel/comm) with the target "jupyter.widget". Both sides send what they changed of its state; who sent what does not
// matter. The page shows a widget where a cell displays its [Model.Bundle]. The page must have the stock models of ipywidgets 8
// (the package jupyterlab_widgets in JupyterLab; the embedded notebook draws the few used here itself); others show the text.
//
// Source: "The ipywidgets messaging protocol", version 2.1.0; "Model state", ipywidgets 8.
package widget

import (
	"fmt"
	"maps"
	"sync"

	"github.com/tilus-lab/tilus-lab/kernel/comm"
)

// Names of the protocol.
const (
	target  = "jupyter.widget"
	control = "jupyter.widget.control" // asks for the states of all widgets, after a page was opened anew
	version = "2.1.0"

	// MIMEType is that of a reference to a widget.
	MIMEType = "application/vnd.jupyter.widget-view+json"

	base     = "@jupyter-widgets/base"
	controls = "@jupyter-widgets/controls"
	release  = "2.0.0" // of both modules in ipywidgets 8
)

// Model is one widget.
type Model struct {
	c *comm.Comm

	mu      sync.Mutex
	state   map[string]any
	changed func(key string, v any)
}

var models = struct {
	mu  sync.Mutex
	all map[string]*Model
}{all: map[string]*Model{}}

// open makes a widget of a module and class: "IntSlider" has the model IntSliderModel and the view IntSliderView. view is empty for what
// is never shown.
func open(module, class, view string, state map[string]any) (*Model, error) {
	full := map[string]any{
		"_model_module": module, "_model_module_version": release, "_model_name": class + "Model",
		"_view_module": module, "_view_module_version": release, "_view_name": nil, "_view_count": nil,
	}
	if view != "" {
		full["_view_name"] = view
	}
	maps.Copy(full, state)
	m := &Model{state: full}
	// Pages that open later ask for all states. Registering again changes nothing.
	if err := comm.Target(control, serve); err != nil {
		return nil, fmt.Errorf("widget: %w", err)
	}
	c, err := comm.Open(target, comm.Message{
		Data:     map[string]any{"state": maps.Clone(full), "buffer_paths": []any{}},
		Metadata: map[string]any{"version": version},
	})
	if err != nil {
		return nil, fmt.Errorf("widget: %w", err)
	}
	m.c = c
	c.OnMessage(m.receive)
	c.OnClose(func(comm.Message) { m.forget() })
	models.mu.Lock()
	models.all[c.ID] = m
	models.mu.Unlock()
	return m, nil
}

func (m *Model) forget() {
	models.mu.Lock()
	defer models.mu.Unlock()
	delete(models.all, m.c.ID)
}

// Close removes the widget from the page.
func (m *Model) Close() error {
	m.forget()
	return m.c.Close(comm.Message{})
}

// ref is how the state of one widget names another.
func (m *Model) ref() string { return "IPY_MODEL_" + m.c.ID }

// Bundle shows the widget where it is displayed, and text where no widgets can be.
func (m *Model) Bundle(text string) map[string]any {
	return map[string]any{
		MIMEType:     map[string]any{"version_major": 2, "version_minor": 0, "model_id": m.c.ID},
		"text/plain": text,
	}
}

// set changes state and tells the page.
func (m *Model) set(key string, v any) error {
	m.mu.Lock()
	m.state[key] = v
	m.mu.Unlock()
	return m.send("update", map[string]any{key: v})
}

func (m *Model) send(method string, state map[string]any) error {
	return m.c.Send(comm.Message{Data: map[string]any{"method": method, "state": state, "buffer_paths": []any{}}})
}

// receive takes a message of the page. It may send anything: keys that the widget has not are left out.
func (m *Model) receive(msg comm.Message) {
	switch msg.Data["method"] {
	case "request_state":
		m.mu.Lock()
		state := maps.Clone(m.state)
		m.mu.Unlock()
		m.send("update", state)
	case "update":
		state, _ := msg.Data["state"].(map[string]any)
		got := map[string]any{}
		m.mu.Lock()
		for k, v := range state {
			if _, ok := m.state[k]; ok && (len(k) == 0 || k[0] != '_') {
				m.state[k], got[k] = v, v
			}
		}
		f := m.changed
		m.mu.Unlock()
		for k, v := range got {
			if f != nil {
				f(k, v)
			}
		}
	}
}

// serve answers a page that was opened after the widgets.
func serve(c *comm.Comm, _ comm.Message) {
	c.OnMessage(func(msg comm.Message) {
		if msg.Data["method"] != "request_states" {
			return
		}
		models.mu.Lock()
		all := maps.Clone(models.all)
		models.mu.Unlock()
		states := map[string]any{}
		for id, m := range all {
			m.mu.Lock()
			states[id] = map[string]any{
				"model_name": m.state["_model_name"], "model_module": m.state["_model_module"],
				"model_module_version": m.state["_model_module_version"], "state": maps.Clone(m.state),
			}
			m.mu.Unlock()
		}
		c.Send(comm.Message{Data: map[string]any{"method": "update_states", "states": states, "buffer_paths": []any{}}})
	})
}

// layoutModel is what every widget that is shown refers to.
func layoutModel() (*Model, error) {
	return open(base, "Layout", "LayoutView", map[string]any{})
}

// Column stacks widgets.
func Column(children ...*Model) (*Model, error) {
	l, err := layoutModel()
	if err != nil {
		return nil, err
	}
	refs := []string{}
	for _, c := range children {
		refs = append(refs, c.ref())
	}
	return open(controls, "VBox", "VBoxView", map[string]any{"children": refs, "box_style": "", "layout": l.ref(), "tabbable": nil, "tooltip": nil})
}
