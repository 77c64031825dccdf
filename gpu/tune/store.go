package tune

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	bboltErrors "go.etcd.io/bbolt/errors"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Found is the fastest plan and schedule that a search found for a problem. It holds on the
// GPU and driver that it was timed on, as long as the code of its schedule is the
// code that was timed.
type Found struct {
	GPU      string          `json:"gpu"`
	Driver   string          `json:"driver"`
	Problem  string          `json:"problem"`         // all that a schedule's time depends on beside GPU and driver
	Code     string          `json:"code"`            // see [CodeOf]
	Build    string          `json:"build,omitempty"` // executable that makes that code; see [cache.Build]
	Type     string          `json:"type"`            // of weights that was timed; others of its width class inherit
	Schedule json.RawMessage `json:"schedule"`
	Us       float64         `json:"us"`
	Tried    int             `json:"tried"`
	Written  string          `json:"utc"`
}

// Store keeps what searches found in one file (bbolt). Any number of processes may
// share it: each call opens the file, does its part whole or not at all, and closes
// it. A file that is not there is empty.
type Store struct{ path string }

// lockTime is how long a call waits for another process.
const lockTime = 20 * time.Second

var results = []byte("results 1")

// OpenStore uses a file; "" is tuned.db in the user's cache directory.
func OpenStore(path string) (*Store, error) {
	if path == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("tune: %w", err)
		}
		path = filepath.Join(user, "tilus-lab", "tuned.db")
	}
	return &Store{path}, nil
}

// Path is the store's file.
func (s *Store) Path() string { return s.path }

// CodeOf names the PTX of programs for a target: what a time is of.
func CodeOf(target string, programs ...*ir.Program) (string, error) {
	h := sha256.New()
	for _, p := range programs {
		c, err := compile.Program(p, compile.Options{Arch: target})
		if err != nil {
			return "", err
		}
		text, err := c.PTX()
		if err != nil {
			return "", err
		}
		io.WriteString(h, text)
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:24], nil
}

// kernelModule is where Linux tells which driver runs, beside the version of CUDA that
// it offers, which many drivers share.
const kernelModule = "/proc/driver/nvidia/version"

// DriverOf is a driver's name in a store: the version of CUDA, as devices give it, and
// that of the driver itself where the machine tells it.
func DriverOf(cuda string) string {
	data, err := os.ReadFile(kernelModule)
	if err != nil {
		return cuda
	}
	return cuda + moduleVersion(string(data))
}

// moduleVersion finds the version in text such as "NVRM version: NVIDIA UNIX Open Kernel
// Module for x86_64  580.159.03  Release Build".
func moduleVersion(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	for _, word := range strings.Fields(line) {
		if strings.Trim(word, "0123456789.") == "" && strings.Contains(word, ".") {
			return ", " + word
		}
	}
	return ""
}

// key holds the parts apart: none has a zero byte.
func key(gpu, driver, problem string) []byte {
	return []byte(strings.Join([]string{gpu, driver, problem}, "\x00"))
}

// open opens the file, for one transaction.
func (s *Store) open(write bool) (*bbolt.DB, error) {
	if write {
		if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(s.path); err != nil {
		return nil, err
	}
	return bbolt.Open(s.path, 0o644, &bbolt.Options{Timeout: lockTime, ReadOnly: !write})
}

// view reads. What is not there is no error.
func (s *Store) view(f func(b *bbolt.Bucket) error) error {
	db, err := s.open(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("tune: %s: %w; what it held can be found again", s.path, err)
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket(results); b != nil {
			return f(b)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("tune: %s: %w", s.path, err)
	}
	return nil
}

// Get is what was found for a problem on a GPU with a driver.
func (s *Store) Get(gpu, driver, problem string) (Found, bool, error) {
	var out Found
	var ok bool
	err := s.view(func(b *bbolt.Bucket) error {
		data := b.Get(key(gpu, driver, problem))
		ok = data != nil && json.Unmarshal(data, &out) == nil // what cannot be read is found again
		return nil
	})
	return out, ok && err == nil, err
}

// All is everything found, sorted by GPU, driver and problem.
func (s *Store) All() ([]Found, error) {
	var out []Found
	err := s.view(func(b *bbolt.Bucket) error {
		return b.ForEach(func(_, data []byte) error {
			var f Found
			if err := json.Unmarshal(data, &f); err != nil {
				return err
			}
			out = append(out, f)
			return nil
		})
	})
	slices.SortFunc(out, func(a, b Found) int {
		return cmp.Or(strings.Compare(a.GPU, b.GPU), strings.Compare(a.Driver, b.Driver), strings.Compare(a.Problem, b.Problem))
	})
	return out, err
}

// Put keeps what was found, in place of what was kept for the same problem on the same
// GPU and driver. A file that is no store, or a broken one, is put aside as FILE.broken.
func (s *Store) Put(found ...Found) error {
	for _, f := range found {
		if f.GPU == "" || f.Driver == "" || f.Problem == "" || f.Code == "" || len(f.Schedule) == 0 || !(f.Us > 0) {
			return fmt.Errorf("tune: nothing to keep: %+v", f)
		}
		if strings.ContainsRune(f.GPU+f.Driver+f.Problem, 0) {
			return fmt.Errorf("tune: a zero byte in %q, %q or %q", f.GPU, f.Driver, f.Problem)
		}
	}
	db, err := s.open(true)
	if errors.Is(err, bboltErrors.ErrInvalid) || errors.Is(err, bboltErrors.ErrChecksum) || errors.Is(err, bboltErrors.ErrVersionMismatch) {
		if err = os.Rename(s.path, s.path+".broken"); err == nil {
			db, err = s.open(true)
		}
	}
	if err != nil {
		return fmt.Errorf("tune: %s: %w", s.path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(results)
		if err != nil {
			return err
		}
		for _, f := range found {
			data, err := json.Marshal(f)
			if err != nil {
				return err
			}
			if err := b.Put(key(f.GPU, f.Driver, f.Problem), data); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("tune: %s: %w", s.path, err)
	}
	return nil
}
