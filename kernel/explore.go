package kernel

import (
	"os"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/kernel/session"
)

// exploreRetry is how often the kernel looks for an explorer that was not there.
const exploreRetry = 2 * time.Second

// explore tells the explorer what variables the session has and what it is asked to
// show. Nothing here may hold up a cell, so a goroutine of its own does the talking; a
// newer list of variables replaces one that was not sent yet.
func (k *Kernel) explore(s *session.Session) {
	vars := make(chan []proto.Var, 1)
	shows := make(chan proto.Explore, 16)
	s.Subscribe(func(ev proto.Event) {
		switch {
		case ev.Vars != nil:
			select {
			case <-vars:
			default:
			}
			select {
			case vars <- ev.Vars.Vars:
			default:
			}
		case ev.Explore != nil:
			select {
			case shows <- *ev.Explore:
			default:
				k.logf("the explorer does not keep up; lab.Explore(%s) dropped", ev.Explore.Name)
			}
		}
	})
	go k.tellExplorer(vars, shows)
}

func linkVars(vs []proto.Var) []link.Var {
	var out []link.Var
	for _, v := range vs {
		out = append(out, link.Var{Name: v.Name, Type: v.Type, Form: v.Form, Text: v.Text, Fresh: v.Fresh})
	}
	return out
}

func (k *Kernel) tellExplorer(vars <-chan []proto.Var, shows <-chan proto.Explore) {
	var client *link.Client
	var lost <-chan struct{}
	defer func() {
		if client != nil {
			client.Close()
		}
	}()
	send := func(m link.Message) bool {
		if client == nil {
			var err error
			if client, err = link.Dial(k.opts.Explorer); err != nil {
				client = nil
				return false
			}
			lost = client.Lost()
		}
		m.Session, m.Title = k.id, os.Getenv("JPY_SESSION_NAME")
		if len(m.Title) > 1000 {
			m.Title = m.Title[:1000]
		}
		if err := client.Send(m); err != nil {
			client.Close()
			client, lost = nil, nil
			return false
		}
		return true
	}
	retry := time.NewTicker(exploreRetry)
	defer retry.Stop()
	var state *link.Message // not sent yet
	var last *link.Message  // for an explorer that is started anew
	for {
		select {
		case <-k.done:
			return
		case vs := <-vars:
			state = &link.Message{Op: "state", Vars: linkVars(vs)}
			last = state
		case x := <-shows:
			// Where it fails, the cell says that no explorer runs.
			send(link.Message{Op: "explore", Explore: &link.Explore{Name: x.Name, Form: x.Form, Text: x.Text}})
			continue
		case <-lost:
			client.Close()
			client, lost = nil, nil
			state = last
		case <-retry.C:
		}
		if state != nil && send(*state) {
			state = nil
		}
	}
}
