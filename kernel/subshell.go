package kernel

import (
	"encoding/json"
	"slices"
	"sync"
)

// shell is a queue of cells with the one that runs. The main shell has no ID; the others
// are subshells, whose cells run beside those of the main one and of each other.
type shell struct {
	id    string
	queue cellQueue
	cell  *cell // guarded by Kernel.statusMu
}

// subshells are those that front ends made and have not deleted, oldest first.
type subshells struct {
	mu   sync.Mutex
	list []*shell
}

// maxSubshells bounds what a front end that never deletes can make.
const maxSubshells = 1000

func (s *subshells) all() []*shell {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// take removes a subshell from the list, nil if it is not there.
func (s *subshells) take(id string) *shell {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(x *shell) bool { return x.id == id })
	if i < 0 {
		return nil
	}
	x := s.list[i]
	s.list = slices.Delete(s.list, i, i+1)
	return x
}

// shellOf is the shell that a request names, nil if there is none. Only shell messages
// name one.
func (k *Kernel) shellOf(r request) *shell {
	id := r.msg.Header.SubshellID
	if id == "" || r.sock != k.shell {
		return &k.main
	}
	for _, s := range k.subs.all() {
		if s.id == id {
			return s
		}
	}
	return nil
}

// unknownSubshell answers a request that names a subshell that is not there. What has no
// reply still gets its busy and idle.
func (k *Kernel) unknownSubshell(r request) {
	k.answer(r, func() { k.refuse(r, "UnknownSubshell", "there is no subshell "+r.msg.Header.SubshellID) })
}

// subshellReply makes, deletes or lists subshells.
func (k *Kernel) subshellReply(r request) {
	var c struct {
		ID string `json:"subshell_id"`
	}
	if err := json.Unmarshal(r.msg.Content, &c); err != nil {
		k.refuse(r, "BadRequest", err.Error())
		return
	}
	switch r.msg.Header.MsgType {
	case "create_subshell_request":
		s := &shell{id: newID()}
		s.queue.init()
		k.subs.mu.Lock()
		if len(k.subs.list) >= maxSubshells {
			k.subs.mu.Unlock()
			k.refuse(r, "TooMany", "there are too many subshells; delete some")
			return
		}
		k.subs.list = append(k.subs.list, s)
		k.subs.mu.Unlock()
		go k.executor(s)
		k.reply(r, "create_subshell_reply", map[string]any{"status": "ok", "subshell_id": s.id})
	case "delete_subshell_request":
		s := k.subs.take(c.ID)
		if s == nil {
			k.refuse(r, "UnknownSubshell", "there is no subshell "+c.ID)
			return
		}
		waiting := s.queue.takeCells()
		s.queue.close()
		k.reply(r, "delete_subshell_reply", map[string]any{"status": "ok"})
		k.statusMu.Lock()
		count := k.count
		if s.cell != nil {
			s.cell.cancel()
		}
		k.statusMu.Unlock()
		for _, a := range waiting {
			k.abort(a, count, "its subshell was deleted")
		}
	case "list_subshell_request":
		ids := []string{}
		for _, s := range k.subs.all() {
			ids = append(ids, s.id)
		}
		k.reply(r, "list_subshell_reply", map[string]any{"status": "ok", "subshell_id": ids})
	}
}
