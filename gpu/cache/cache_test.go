package cache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func open(t *testing.T, limit int64) *Dir {
	t.Helper()
	d, err := Open(filepath.Join(t.TempDir(), "modules"), limit)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestMake(t *testing.T) {
	d := open(t, 0)
	made := 0
	for i := range 3 {
		data, hit, err := d.Make("a", func() ([]byte, error) { made++; return []byte("content"), nil })
		if err != nil || string(data) != "content" || hit != (i > 0) {
			t.Errorf("%d: %q, %v, %v", i, data, hit, err)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	bad := errors.New("no")
	if _, _, err := d.Make("b", func() ([]byte, error) { return nil, bad }); !errors.Is(err, bad) {
		t.Errorf("the error is %v", err)
	}
	if _, ok := d.Get("b"); ok {
		t.Error("what failed is kept")
	}
}

// TestBroken breaks a file in each way that a disk may: every byte changed, every length cut.
func TestBroken(t *testing.T) {
	d := open(t, 0)
	content := []byte("some machine code")
	if err := d.Put("key", content); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(d.file("key"))
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, broken []byte) {
		t.Helper()
		if err := os.WriteFile(d.file("key"), broken, 0o644); err != nil {
			t.Fatal(err)
		}
		if data, ok := d.Get("key"); ok {
			t.Fatalf("%s: given as %q", what, data)
		}
		data, hit, err := d.Make("key", func() ([]byte, error) { return content, nil })
		if err != nil || hit || !bytes.Equal(data, content) {
			t.Fatalf("%s: made again as %q, %v, %v", what, data, hit, err)
		}
		if _, ok := d.Get("key"); !ok {
			t.Fatalf("%s: not stored again", what)
		}
	}
	for i := range whole {
		broken := bytes.Clone(whole)
		broken[i] ^= 1
		try(fmt.Sprintf("byte %d", i), broken)
		try(fmt.Sprintf("cut at %d", i), whole[:i])
	}
	try("longer", append(bytes.Clone(whole), 0))
	if err := d.Put("other", content); err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(d.file("other"))
	if err != nil {
		t.Fatal(err)
	}
	try("another key's", other)
}

// TestTogether has many goroutines, then many processes, want few keys.
func TestTogether(t *testing.T) {
	d := open(t, 0)
	var made atomic.Int32
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			key := fmt.Sprint(i % 4)
			data, _, err := d.Make(key, func() ([]byte, error) {
				made.Add(1)
				time.Sleep(5 * time.Millisecond)
				return []byte(key), nil
			})
			if err != nil || string(data) != key {
				t.Errorf("%s: %q, %v", key, data, err)
			}
		}()
	}
	wg.Wait()
	if made.Load() != 4 {
		t.Errorf("made %d times", made.Load())
	}
}

// TestProcesses starts this test in processes of its own, which count what they make.
func TestProcesses(t *testing.T) {
	if dir := os.Getenv("TILUS_CACHE_TEST"); dir != "" {
		d, err := Open(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			_, hit, err := d.Make(fmt.Sprint(i), func() ([]byte, error) { time.Sleep(2 * time.Millisecond); return make([]byte, 1<<16), nil })
			if err != nil {
				t.Fatal(err)
			}
			if !hit {
				fmt.Println("made", i)
			}
		}
		return
	}
	dir := t.TempDir()
	outs := make([]bytes.Buffer, 4)
	var all []*exec.Cmd
	for i := range outs {
		c := exec.Command(os.Args[0], "-test.run", "^TestProcesses$", "-test.v")
		c.Env = append(os.Environ(), "TILUS_CACHE_TEST="+dir)
		c.Stdout = &outs[i]
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	made := 0
	for i, c := range all {
		if err := c.Wait(); err != nil {
			t.Errorf("%v\n%s", err, outs[i].String())
		}
		made += strings.Count(outs[i].String(), "made ")
	}
	if made != 8 {
		t.Errorf("8 keys were made %d times", made)
	}
}

func TestLimit(t *testing.T) {
	d := open(t, 3000)
	for i := range 5 {
		if err := d.Put(fmt.Sprint(i), make([]byte, 800)); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-10) * time.Second)
		if err := os.Chtimes(d.file(fmt.Sprint(i)), at, at); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		if _, ok := d.Get(fmt.Sprint(i)); ok != (i >= 2) {
			t.Errorf("%d is there: %v", i, ok)
		}
	}
}

func TestKey(t *testing.T) {
	if Key("a", "bc") == Key("ab", "c") || Key("a") == Key("a", "") {
		t.Error("lists of parts run together")
	}
}
