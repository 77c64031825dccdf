package tune

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
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
	} else if info, err := os.Stat(s.path); err != nil {
		return nil, err
	} else if info.Size() == 0 { // somebody has begun to make it: bbolt would do so too, which readers may not
		return nil, fs.ErrNotExist
	}
	return bbolt.Open(s.path, 0o644, &bbolt.Options{Timeout: lockTime, ReadOnly: !write})
}

// errBroken is wrapped by the error of a file in which bbolt finds what it never wrote.
var errBroken = errors.New("a broken store")

// whole does something with a file. Where pages are not what they should be, or are cut off, bbolt panics, or reads memory that the
// file does not reach: that is an error like others of broken files.
func whole(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("%w: %v", errBroken, why)
		}
	}()
	return do()
}

// broken reports whether a file that could not be opened is to blame, not the file system or who else has it.
func broken(err error) bool {
	var system syscall.Errno
	return err != nil && !errors.Is(err, bboltErrors.ErrTimeout) && !errors.As(err, &system)
}

// view reads. What is not there is no error.
func (s *Store) view(f func(b *bbolt.Bucket) error) error {
	opened := false
	err := whole(func() error {
		db, err := s.open(false)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer db.Close()
		opened = true
		return db.View(func(tx *bbolt.Tx) error {
			if b := tx.Bucket(results); b != nil {
				return f(b)
			}
			return nil
		})
	})
	switch {
	case err == nil:
		return nil
	case !opened || errors.Is(err, errBroken):
		return fmt.Errorf("tune: %s: %w; what it held can be found again", s.path, err)
	}
	return fmt.Errorf("tune: %s: %w", s.path, err)
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
			if json.Unmarshal(data, &f) == nil { // else it is as if it were not there, as for Get
				out = append(out, f)
			}
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
func (s *Store) Put(found ...Found) error { return s.keep(nil, found) }

// Renew keeps what a store gave with changes, unless somebody has kept another result for its problem meanwhile.
func (s *Store) Renew(got, changed Found) error {
	before, err := json.Marshal(got)
	if err != nil {
		return fmt.Errorf("tune: %w", err)
	}
	return s.keep(before, []Found{changed})
}

// keep is Put; before, if not nil, is what it may replace.
func (s *Store) keep(before []byte, found []Found) error {
	for _, f := range found {
		if f.GPU == "" || f.Driver == "" || f.Problem == "" || f.Code == "" || len(f.Schedule) == 0 || !(f.Us > 0) {
			return fmt.Errorf("tune: nothing to keep: %+v", f)
		}
		if strings.ContainsRune(f.GPU+f.Driver+f.Problem, 0) {
			return fmt.Errorf("tune: a zero byte in %q, %q or %q", f.GPU, f.Driver, f.Problem)
		}
	}
	opened, err := s.put(before, found)
	if errors.Is(err, errBroken) || !opened && broken(err) {
		if err = os.Rename(s.path, s.path+".broken"); err == nil {
			_, err = s.put(nil, found)
		}
	}
	if err != nil {
		return fmt.Errorf("tune: %s: %w", s.path, err)
	}
	return nil
}

// put is keep with the file as it is; opened says that it could be opened.
func (s *Store) put(before []byte, found []Found) (opened bool, err error) {
	err = whole(func() error {
		db, err := s.open(true)
		if err != nil {
			return err
		}
		opened = true
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
				at := key(f.GPU, f.Driver, f.Problem)
				if before != nil && !bytes.Equal(before, b.Get(at)) {
					continue
				}
				if err := b.Put(at, data); err != nil {
					return err
				}
			}
			return nil
		})
		return errors.Join(err, db.Close()) // not behind a panic, which may leave locks that it would wait for
	})
	return opened, err
}
