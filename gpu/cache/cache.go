// Package cache keeps bytes on disk under keys made from their inputs: compiled code under program
// text, target and versions, for example. Losing an entry costs only time, so whatever is damaged,
// half-written or too old is dropped and reported as absent.
//
// Several processes may use one directory at once without locks: an entry is written to a temporary
// file and renamed, carries a checksum over key and value, and is never changed afterwards.
package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrTooLarge says that a value alone is over the store's limit.
var ErrTooLarge = errors.New("cache: value is larger than the store's limit")

// Key makes a key of parts. Each part is framed by its length, so that ("ab", "c") and ("a", "bc")
// differ. The key is 64 hexadecimal digits (SHA-256).
func Key(parts ...[]byte) string {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Store is one directory of entries. Its methods may be called from several goroutines.
type Store struct {
	dir   string
	limit int64

	mu      sync.Mutex
	written int64 // since the last sweep
	swept   bool
}

const (
	magic      = "tilus-lab cache 1\n"
	headerSize = len(magic) + sha256.Size
	entryExt   = ".entry"
	tempPrefix = "tmp-"
	staleTemp  = time.Hour // a temporary file this old belongs to a process that died
)

// Open uses dir, which is made if needed, and keeps it to about limitBytes of files; 0 is no limit.
// Each process looks at the directory's size on its first Put and after writing an eighth of the
// limit, so that n writers can go over it by n eighths for a while.
func Open(dir string, limitBytes int64) (*Store, error) {
	if limitBytes < 0 {
		return nil, fmt.Errorf("cache: limit of %d bytes", limitBytes)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return &Store{dir: dir, limit: limitBytes}, nil
}

// path is where the entry of a key lies. Keys are hashed once more, so any text is a key and none
// can name a file elsewhere.
func (s *Store) path(key string) string {
	name := Key([]byte(key))
	return filepath.Join(s.dir, name[:2], name+entryExt)
}

func sum(key string, value []byte) [sha256.Size]byte {
	k := sha256.Sum256([]byte(key))
	return sha256.Sum256(append(k[:], value...))
}

// Get gives the value stored under key. A damaged entry is deleted and counts as absent, as does
// one that cannot be read.
func (s *Store) Get(key string) (value []byte, ok bool) {
	path := s.path(key)
	if info, err := os.Stat(path); err != nil || s.limit > 0 && info.Size() > s.limit {
		os.Remove(path)
		return nil, false
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	if len(b) >= headerSize && string(b[:len(magic)]) == magic {
		want := sum(key, b[headerSize:])
		if bytes.Equal(b[len(magic):headerSize], want[:]) {
			now := time.Now()
			os.Chtimes(path, now, now) // the sweep deletes what was used longest ago
			return b[headerSize:], true
		}
	}
	os.Remove(path)
	return nil, false
}

// Put stores value under key, in place of what was there. The error is ErrTooLarge, or that of the
// file system.
func (s *Store) Put(key string, value []byte) error {
	size := int64(headerSize + len(value))
	if s.limit > 0 && size > s.limit {
		return ErrTooLarge
	}
	if err := s.write(s.path(key), key, value); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	if s.limit == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written += size
	if !s.swept || s.written >= s.limit/8 {
		s.swept, s.written = true, 0
		return s.sweep()
	}
	return nil
}

func (s *Store) write(path, key string, value []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, tempPrefix)
	if err != nil {
		return err
	}
	check := sum(key, value)
	_, err = f.Write(slices.Concat([]byte(magic), check[:], value))
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

type entry struct {
	path string
	size int64
	used time.Time
}

// list gives the entries, and deletes temporary files that nobody writes any more.
func (s *Store) list() (entries []entry, total int64, err error) {
	err = filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another process deleted it meanwhile
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		switch {
		case strings.HasPrefix(d.Name(), tempPrefix):
			if time.Since(info.ModTime()) > staleTemp {
				os.Remove(path)
			}
		case strings.HasSuffix(d.Name(), entryExt):
			entries = append(entries, entry{path, info.Size(), info.ModTime()})
			total += info.Size()
		}
		return nil
	})
	return entries, total, err
}

// sweep deletes entries, longest unused first, until nine tenths of the limit are left; files in
// the directory that are not entries stay.
func (s *Store) sweep() error {
	entries, total, err := s.list()
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	if total <= s.limit {
		return nil
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.used.Compare(b.used) })
	for _, e := range entries {
		if total <= s.limit/10*9 {
			break
		}
		if err := os.Remove(e.path); err == nil || errors.Is(err, fs.ErrNotExist) {
			total -= e.size
		}
	}
	return nil
}

// Usage gives the number of entries and the bytes of their files.
func (s *Store) Usage() (entries int, size int64, err error) {
	list, size, err := s.list()
	return len(list), size, err
}
