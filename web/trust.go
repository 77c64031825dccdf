package web

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/notebooks"
)

// trust knows whose code may run. A notebook that somebody sent runs nothing until a
// person has seen what it would run and said so, once or for always. Trust is of the
// code, by its hash, and kept outside the notebook: one that is changed elsewhere has
// to ask again, one that is changed and saved here has not. The lessons are trusted.
type trust struct {
	path string // of the file that keeps what is trusted for always

	mu    sync.Mutex
	known map[string]bool // by hash: whether that is for always; nil until it is needed
}

// maxTrusted is how many hashes the file keeps.
const maxTrusted = 10000

// errUntrusted is why a cell was refused.
var errUntrusted = errors.New("this notebook is not trusted: its code was not written here, or has changed since; look at what it would run, then trust it once or always")

// codeOf is the hash of what a notebook would run: the sources of its code cells.
func codeOf(cells []nbCell) string {
	h := sha256.New()
	for _, c := range cells {
		if c.Type == "code" {
			fmt.Fprintf(h, "%d\n%s\n", len(c.Source), c.Source)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// load reads the file and takes in the lessons. Called with mu held.
func (t *trust) load() {
	if t.known != nil {
		return
	}
	t.known = map[string]bool{codeOf(nil): true} // no code is no danger
	list, err := fs.Glob(notebooks.Files, "*.ipynb")
	if err != nil {
		panic(err) // the pattern is ours
	}
	for _, name := range list {
		var nb notebook
		if raw, err := notebooks.Files.ReadFile(name); err == nil && json.Unmarshal(raw, &nb) == nil {
			t.known[codeOf(nb.Cells)] = true
		}
	}
	f, err := os.Open(t.path)
	if err != nil {
		return // nothing is trusted for always yet
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan() && len(t.known) < maxTrusted; {
		if sum := s.Text(); len(sum) == 2*sha256.Size {
			t.known[sum] = true
		}
	}
}

func (t *trust) has(sum string) (ok, always bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.load()
	always, ok = t.known[sum]
	return ok, always
}

// add trusts code until the explorer ends, or always.
func (t *trust) add(sum string, always bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.load()
	had := t.known[sum]
	t.known[sum] = had || always
	if had || !always {
		return nil
	}
	f, err := os.OpenFile(t.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, sum)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("it is trusted until the explorer ends, but that could not be kept: %w", err)
	}
	return nil
}

// trusts asks for trust in what a notebook holds now. sum is the hash of the code that
// the person has seen.
func (bs *books) trusts(b *book, sum string, always bool) (any, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.code == "" || sum != b.code {
		return nil, errors.New("the notebook is not the one that was shown; reload it")
	}
	return nil, bs.trust.add(sum, always)
}

// mayRun reports whether cells of a book may run.
func (bs *books) mayRun(b *book) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.code == "" {
		// A page that was open before this explorer began.
		if err := bs.load(b); err != nil {
			return err
		}
	}
	if ok, _ := bs.trust.has(b.code); !ok {
		return errUntrusted
	}
	return nil
}

// saved keeps trust in a book that a person has changed here. Called with b locked,
// after the cells were written.
func (bs *books) saved(b *book) error {
	was := b.code
	b.code = codeOf(b.nb.Cells)
	if ok, always := bs.trust.has(was); ok && was != b.code {
		return bs.trust.add(b.code, always)
	}
	return nil
}

// asking is what a page shows of a notebook before anybody trusts it.
type asking struct {
	Sum   string   `json:"sum"`
	Cells int      `json:"cells"`
	Lines int      `json:"lines"`
	Reach []string `json:"reach"` // for people: what its code reaches by its imports
	Kept  string   `json:"kept"`  // file that keeps trust
}

// reaches says of imports what code can do with them; all code could do it by others.
var reaches = []struct{ path, does string }{
	{"os/exec", "starts programs"}, {"syscall", "calls the system"}, {"unsafe", "goes around Go's types"}, {"plugin", "loads code"},
	{"net", "uses the network"}, {"os", "reads and writes files"}, {"io/ioutil", "reads and writes files"}, {"path/filepath", "walks through folders"},
}

var quoted = regexp.MustCompile("[\"`]([a-z][a-z0-9/._-]*)[\"`]")

func (bs *books) asks(b *book) asking {
	a := asking{Sum: b.code, Reach: []string{}, Kept: filepath.Base(bs.trust.path)}
	for _, c := range b.nb.Cells {
		if c.Type != "code" {
			continue
		}
		a.Cells++
		a.Lines += strings.Count(strings.TrimSpace(string(c.Source)), "\n") + 1
		if !strings.Contains(string(c.Source), "import") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(string(c.Source), -1) {
			for _, r := range reaches {
				if m[1] != r.path && !strings.HasPrefix(m[1], r.path+"/") || r.path == "os" && m[1] == "os/exec" {
					continue
				}
				if line := m[1] + ": " + r.does; !slices.Contains(a.Reach, line) {
					a.Reach = append(a.Reach, line)
				}
			}
		}
	}
	return a
}
