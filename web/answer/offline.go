package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Ask answers what a page may ask of anybody who can draw; ok reports whether it
// is such a request. render does the drawings of the host.
func (m Message) Ask(bind func(string) (string, error), books []string, render func(Drawing) (json.RawMessage, error)) (body any, ok bool, err error) {
	switch m.Type {
	case "render", "copy":
		var q Drawing
		if err := m.Decode(&q); err != nil {
			return nil, true, err
		}
		if m.Type == "render" {
			body, err := render(q)
			return body, true, err
		}
		forms, err := Copies(q.Pane, q.Values, bind)
		return map[string]any{"forms": forms}, true, err
	case "palette":
		return Palette(books), true, nil
	case "example":
		var name string
		if err := m.Decode(&name); err != nil {
			return nil, true, err
		}
		body, err := Example(name)
		return body, true, err
	case "terms":
		var q Terms
		if err := m.Decode(&q); err != nil {
			return nil, true, err
		}
		body, err := q.Answer()
		return body, true, err
	case "complete", "describe":
		var q Assist
		if err := m.Decode(&q); err != nil {
			return nil, true, err
		}
		if m.Type == "complete" {
			body, err = q.Complete()
		} else {
			body, err = q.Describe()
		}
		return body, true, err
	}
	return nil, false, nil
}

// Offline answers a message where there is no server: pictures without notebooks,
// devices or variables. It returns the answer as the page gets it.
func Offline(text []byte) []byte {
	m, err := Parse(text)
	if err != nil {
		return answered(0, nil, err)
	}
	switch m.Type {
	case "hello":
		return answered(m.ID, map[string]any{"forms": Forms(), "panes": Rows(), "vars": []string{}, "notebooks": []string{}, "role": "view",
			"share": map[string]any{"local": false, "static": ""}, "offline": true}, nil)
	case "devices":
		return answered(m.ID, []string{}, nil)
	case "cancel":
		return answered(m.ID, nil, nil)
	}
	body, ok, err := m.Ask(noVariables, nil, func(q Drawing) (json.RawMessage, error) {
		for _, v := range q.Values {
			if strings.HasPrefix(v, "$") {
				return nil, errVariables
			}
		}
		r, err := Run(q.Pane, q.Values)
		if err != nil {
			return nil, err
		}
		return Result(r), nil
	})
	if !ok {
		err = fmt.Errorf("the static explorer has no %.40s; `tilus-lab up` opens one that has", m.Type)
	}
	return answered(m.ID, body, err)
}

var errVariables = errors.New("the static explorer knows no notebooks; `tilus-lab up` opens one that does")

func noVariables(string) (string, error) { return "", errVariables }

func answered(id int64, body any, err error) []byte {
	kind := "ok"
	if err != nil {
		kind, body = "error", map[string]any{"problems": Problems(err)}
	}
	raw, err := json.Marshal(map[string]any{"v": Version, "id": id, "type": kind, "body": body})
	if err != nil {
		panic(err) // bodies are our own types
	}
	return raw
}

// Picture is the file that an address /svg?… stands for.
func Picture(query string) (File, error) {
	views, err := ParseQuery(query)
	if err != nil {
		return File{}, err
	}
	r, err := Run(views[0].Pane, views[0].Values)
	if err != nil {
		return File{}, err
	}
	return views[0].Encode(r, query)
}
