package cache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func open(t *testing.T, dir string, limit int64) *Store {
	t.Helper()
	s, err := Open(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKeyFramesParts(t *testing.T) {
	seen := map[string]string{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"abc"}, {"ab", "c"}, {"a", "bc"}, {"abc", ""}, {"a", "b", "c"}} {
		var bs [][]byte
		for _, p := range parts {
			bs = append(bs, []byte(p))
		}
		k := Key(bs...)
		if len(k) != 64 {
			t.Errorf("Key(%q) = %q", parts, k)
		}
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %s share a key", parts, other)
		}
		seen[k] = fmt.Sprintf("%q", parts)
	}
}

func TestPutGet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, dir, 0)
	for _, key := range []string{"", "../../x", Key([]byte("p")), "long\x00" + string(make([]byte, 5000))} {
		if _, ok := s.Get(key); ok {
			t.Fatalf("%q is there before Put", key)
		}
		for _, v := range [][]byte{[]byte("one"), {}, bytes.Repeat([]byte{7}, 100000)} {
			if err := s.Put(key, v); err != nil {
				t.Fatal(err)
			}
			got, ok := open(t, dir, 0).Get(key)
			if !ok || !bytes.Equal(got, v) {
				t.Fatalf("Get after Put of %d bytes: %d bytes, %v", len(v), len(got), ok)
			}
		}
	}
	if n, _, err := s.Usage(); n != 4 || err != nil {
		t.Errorf("Usage = %d entries, %v", n, err)
	}
}

func TestDamagedEntriesAreDropped(t *testing.T) {
	s := open(t, t.TempDir(), 0)
	value := []byte("the quick brown fox")
	whole := func() []byte {
		if err := s.Put("k", value); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(s.path("k"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	n := len(whole())
	damage := func(name string, change func(b []byte) []byte) {
		if err := os.WriteFile(s.path("k"), change(whole()), 0o600); err != nil {
			t.Fatal(err)
		}
		if v, ok := s.Get("k"); ok {
			t.Errorf("%s: still gives %q", name, v)
		}
		if _, err := os.Stat(s.path("k")); !os.IsNotExist(err) {
			t.Errorf("%s: the file stays", name)
		}
	}
	for i := range n {
		damage(fmt.Sprintf("byte %d", i), func(b []byte) []byte { b[i] ^= 1; return b })
		damage(fmt.Sprintf("cut at %d", i), func(b []byte) []byte { return b[:i] })
	}
	damage("longer", func(b []byte) []byte { return append(b, 0) })

	other := whole()
	if err := s.Put("other", value); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path("other"), other, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Get("other"); ok {
		t.Error("an entry moved under another key is believed")
	}
}

func TestLimitDeletesLongestUnused(t *testing.T) {
	s := open(t, t.TempDir(), 100_000)
	value := make([]byte, 10_000)
	old := time.Now().Add(-time.Hour)
	for i := range 9 {
		key := fmt.Sprint(i)
		if err := s.Put(key, value); err != nil {
			t.Fatal(err)
		}
		at := old.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(s.path(key), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := s.Get("0"); !ok { // now the youngest
		t.Fatal("0 is gone too early")
	}
	for i := 9; i < 12; i++ {
		if err := s.Put(fmt.Sprint(i), value); err != nil {
			t.Fatal(err)
		}
	}
	if _, size, err := s.Usage(); size > 100_000 || err != nil {
		t.Errorf("%d bytes are over the limit (%v)", size, err)
	}
	for key, want := range map[string]bool{"0": true, "1": false, "2": false, "11": true} {
		if _, ok := s.Get(key); ok != want {
			t.Errorf("entry %s there: %v, want %v", key, ok, want)
		}
	}
	if err := s.Put("big", make([]byte, 100_000)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Put over the limit: %v", err)
	}
}

func TestStaleTemporaryFilesGo(t *testing.T) {
	dir := t.TempDir()
	stale, fresh, foreign := filepath.Join(dir, "tmp-1"), filepath.Join(dir, "tmp-2"), filepath.Join(dir, "notes.txt")
	for _, p := range []string{stale, fresh, foreign} {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * staleTemp)
	os.Chtimes(stale, old, old)
	os.Chtimes(foreign, old, old)
	if err := open(t, dir, 1000).Put("k", nil); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]bool{stale: false, fresh: true, foreign: true} {
		if _, err := os.Stat(p); (err == nil) != want {
			t.Errorf("%s there: %v, want %v", filepath.Base(p), err == nil, want)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	if _, err := Open(t.TempDir(), -1); err == nil {
		t.Error("a negative limit is taken")
	}
	file := filepath.Join(t.TempDir(), "f")
	os.WriteFile(file, nil, 0o600)
	if _, err := Open(filepath.Join(file, "sub"), 0); err == nil {
		t.Error("a directory inside a file is taken")
	}
}

// hammer writes and reads few keys often; a reader may see any writer's value or none, but whole.
func hammer(dir string, rounds int) error {
	s, err := Open(dir, 200_000)
	if err != nil {
		return err
	}
	for i := range rounds {
		key := fmt.Sprint(i % 7)
		value := bytes.Repeat([]byte{byte(i), byte(i % 7)}, 5000+i%7)
		if err := s.Put(key, value); err != nil {
			return err
		}
		key = fmt.Sprint((i + 3) % 7)
		if got, ok := s.Get(key); ok {
			if len(got) != 2*(5000+(i+3)%7) || !bytes.Equal(got, bytes.Repeat(got[:2], len(got)/2)) {
				return fmt.Errorf("key %s: a mixed value of %d bytes", key, len(got))
			}
		}
	}
	return nil
}

func TestConcurrentWriters(t *testing.T) {
	if dir := os.Getenv("CACHE_TEST_HAMMER"); dir != "" { // the child processes below
		if err := hammer(dir, 200); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := hammer(dir, 200); err != nil {
				t.Error(err)
			}
		})
	}
	for range 3 {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestConcurrentWriters$")
			cmd.Env = append(os.Environ(), "CACHE_TEST_HAMMER="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("child: %v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	temps, _ := filepath.Glob(filepath.Join(dir, "*", tempPrefix+"*"))
	if len(temps) > 0 {
		t.Errorf("temporary files stay: %v", temps)
	}
	if n, _, err := open(t, dir, 0).Usage(); n != 7 || err != nil {
		t.Errorf("%d entries, %v", n, err)
	}
}
