// Package cache keeps what is expensive to make, such as the machine code of compiled
// programs, in files: one for each key, which names everything that shapes the content.
//
// Any number of processes may share a directory. Files appear whole, by a rename; each
// has a checksum, and one that does not hold is taken away and made again; processes
// that want the same key at the same time wait for the one that makes it. A cache that
// cannot be written is no error: what is wanted is made each time.
package cache

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Dir is a directory of cached files. Its methods are safe for concurrent use.
type Dir struct {
	path  string
	limit int64
}

// DefaultLimit is how many bytes a directory keeps.
const DefaultLimit = 1 << 30

// Default is the directory in the user's cache directory.
func Default() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	return filepath.Join(user, "tilus-lab", "modules"), nil
}

// Open uses a directory, which is made if it is not there; "" is [Default]. Beyond
// limit bytes the files that were used longest ago go; 0 is [DefaultLimit].
func Open(path string, limit int64) (*Dir, error) {
	if path == "" {
		var err error
		if path, err = Default(); err != nil {
			return nil, err
		}
	}
	if limit == 0 {
		limit = DefaultLimit
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return &Dir{path, limit}, nil
}

// Key is the key of a list of parts; no two lists have the same.
func Key(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

const suffix = ".bin"

// file is where a key's content stands.
func (d *Dir) file(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(d.path, hex.EncodeToString(sum[:])+suffix)
}

// head stands before the content: a name and its checksum with the key's.
func head(key string, data []byte) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s", len(key), key)
	h.Write(data)
	return fmt.Appendf(nil, "tilus-lab cache 1 %x\n", h.Sum(nil))
}

// Get is the content of a key, if it is there and whole. What is not whole is removed.
func (d *Dir) Get(key string) ([]byte, bool) {
	path := d.file(key)
	all, err := os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	i := bytes.IndexByte(all, '\n') + 1
	data := all[i:]
	if !bytes.Equal(all[:i], head(key, data)) {
		os.Remove(path)
		return nil, false
	}
	now := time.Now()
	os.Chtimes(path, now, now) // best effort: when it was used
	return data, true
}

// Put stores the content of a key.
func (d *Dir) Put(key string, data []byte) error {
	f, err := os.CreateTemp(d.path, "new-*")
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	_, err = f.Write(append(head(key, data), data...))
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), d.file(key))
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("cache: %w", err)
	}
	return d.trim()
}

// Make is the content of a key, which is made and stored if it is not there. Of those
// who want one key at the same time, one makes it. hit reports whether it was there.
func (d *Dir) Make(key string, make func() ([]byte, error)) (data []byte, hit bool, err error) {
	if data, ok := d.Get(key); ok {
		return data, true, nil
	}
	unlock := lock(strings.TrimSuffix(d.file(key), suffix) + ".lock")
	defer unlock()
	if data, ok := d.Get(key); ok {
		return data, true, nil
	}
	if data, err = make(); err != nil {
		return nil, false, err
	}
	d.Put(key, data) // without it the content is made again next time
	return data, false, nil
}

// trim removes what was used longest ago beyond the limit, and what processes that
// ended early have left.
func (d *Dir) trim() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	type file struct {
		path string
		info fs.FileInfo
	}
	var files []file
	total := int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cache: %w", err)
		}
		path := filepath.Join(d.path, e.Name())
		switch {
		case strings.HasSuffix(e.Name(), suffix):
			files = append(files, file{path, info})
			total += info.Size()
		case time.Since(info.ModTime()) > time.Hour:
			os.Remove(path)
		}
	}
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(a.info.ModTime().Compare(b.info.ModTime()), strings.Compare(a.path, b.path))
	})
	for _, f := range files {
		if total <= d.limit {
			break
		}
		os.Remove(f.path)
		total -= f.info.Size()
	}
	return nil
}
