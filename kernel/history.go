package kernel

import (
	"encoding/json"
	"slices"
	"sync"
)

// maxHistory is how many cells are remembered.
const maxHistory = 10000

// history remembers the cells of this kernel, in memory only: what it holds is gone
// with the process, and notebooks keep their own record.
type history struct {
	mu      sync.Mutex
	entries []historyEntry
}

type historyEntry struct {
	count         int
	input, output string
}

func (h *history) add(count int, input, output string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.entries) >= maxHistory {
		h.entries = slices.Delete(h.entries, 0, maxHistory/10)
	}
	h.entries = append(h.entries, historyEntry{count, input, output})
}

// historyContent is the content of a history_request. There is only one session, so 0,
// the current one, and historySession mean the same.
type historyContent struct {
	Output  bool   `json:"output"`
	Type    string `json:"hist_access_type"`
	Session int    `json:"session"`
	Start   int    `json:"start"`
	Stop    *int   `json:"stop"`
	N       int    `json:"n"`
	Pattern string `json:"pattern"`
	Unique  bool   `json:"unique"`
}

// historySession is the number under which this kernel's cells are listed.
const historySession = 1

// query lists the entries that c asks for, oldest first.
func (h *history) query(c historyContent) []historyEntry {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []historyEntry
	switch c.Type {
	case "range":
		if c.Session != 0 && c.Session != historySession {
			return nil
		}
		for _, e := range h.entries {
			if e.count >= c.Start && (c.Stop == nil || e.count < *c.Stop) {
				out = append(out, e)
			}
		}
		return out
	case "search":
		pattern := c.Pattern
		if pattern == "" {
			pattern = "*"
		}
		seen := map[string]bool{}
		// From the newest, so that unique keeps the last use.
		for i := len(h.entries) - 1; i >= 0; i-- {
			e := h.entries[i]
			if !glob([]rune(pattern), []rune(e.input)) || c.Unique && seen[e.input] {
				continue
			}
			seen[e.input] = true
			out = append([]historyEntry{e}, out...)
			if c.N > 0 && len(out) == c.N {
				break
			}
		}
		return out
	default: // "tail"
		from := 0
		if c.N > 0 {
			from = max(0, len(h.entries)-c.N)
		}
		return append(out, h.entries[from:]...)
	}
}

func (k *Kernel) historyReply(r request) {
	var c historyContent
	if err := json.Unmarshal(r.msg.Content, &c); err != nil {
		k.refuse(r, "BadRequest", err.Error())
		return
	}
	list := []any{}
	for _, e := range k.history.query(c) {
		if !c.Output {
			list = append(list, []any{historySession, e.count, e.input})
			continue
		}
		var out any
		if e.output != "" {
			out = e.output
		}
		list = append(list, []any{historySession, e.count, []any{e.input, out}})
	}
	k.reply(r, "history_reply", map[string]any{"status": "ok", "history": list})
}

// glob matches the whole of s against a pattern with * and ?. path.Match would not do:
// there * stops at a slash, and brackets have a meaning.
func glob(pattern, s []rune) bool {
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
