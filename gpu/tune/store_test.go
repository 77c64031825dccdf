package tune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func found(problem string, us float64) Found {
	return Found{GPU: "a GPU", Driver: "CUDA 13.0", Problem: problem, Code: "c", Type: "u4", Schedule: json.RawMessage(`{"Rows":8}`), Us: us, Tried: 3}
}

func TestStore(t *testing.T) {
	s, err := OpenStore(filepath.Join(t.TempDir(), "deep", "tuned.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Get("a GPU", "CUDA 13.0", "p"); ok || err != nil {
		t.Fatalf("a store that is not there: %v, %v", ok, err)
	}
	if all, err := s.All(); len(all) > 0 || err != nil {
		t.Fatalf("a store that is not there: %v, %v", all, err)
	}
	if err := s.Put(found("q", 3), found("p", 2)); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(found("p", 4)); err != nil {
		t.Fatal(err)
	}
	got, ok, err := s.Get("a GPU", "CUDA 13.0", "p")
	if want := found("p", 4); !ok || err != nil || got.Us != want.Us || !bytes.Equal(got.Schedule, want.Schedule) || got.Type != "u4" {
		t.Errorf("got %+v, %v, %v; want %+v", got, ok, err, want)
	}
	for _, other := range [][3]string{{"a GPU", "CUDA 13.1", "p"}, {"b GPU", "CUDA 13.0", "p"}, {"a GPU", "CUDA 13.0", "r"}, {"a GPU\x00CUDA 13.0", "p", ""}} {
		if _, ok, err := s.Get(other[0], other[1], other[2]); ok || err != nil {
			t.Errorf("%q: found, or %v", other, err)
		}
	}
	all, err := s.All()
	if err != nil || len(all) != 2 || all[0].Problem != "p" || all[1].Problem != "q" {
		t.Errorf("%v, %v", all, err)
	}
	for _, f := range []Found{{}, found("", 1), found("p", 0), found("p\x00q", 1)} {
		if s.Put(f) == nil {
			t.Errorf("%+v was kept", f)
		}
	}
}

// TestStoreRenew holds that what was read is renewed, and that what a search found since then stays.
func TestStoreRenew(t *testing.T) {
	s, _ := OpenStore(filepath.Join(t.TempDir(), "tuned.db"))
	if err := s.Put(found("p", 3)); err != nil {
		t.Fatal(err)
	}
	got, _, err := s.Get("a GPU", "CUDA 13.0", "p")
	if err != nil {
		t.Fatal(err)
	}
	renewed := got
	renewed.Build = "mine"
	if err := s.Renew(got, renewed); err != nil {
		t.Fatal(err)
	}
	if now, _, err := s.Get("a GPU", "CUDA 13.0", "p"); err != nil || now.Build != "mine" || now.Us != 3 {
		t.Errorf("renewed: %+v, %v", now, err)
	}
	if err := s.Put(found("p", 2)); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(got, renewed); err != nil {
		t.Fatal(err)
	}
	if now, _, err := s.Get("a GPU", "CUDA 13.0", "p"); err != nil || now.Us != 2 || now.Build != "" {
		t.Errorf("a later search: %+v, %v", now, err)
	}
}

// TestStoreUnreadable has an entry that is none among others.
func TestStoreUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tuned.db")
	s, _ := OpenStore(path)
	if err := s.Put(found("p", 1), found("q", 2)); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o644, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(results).Put(key("a GPU", "CUDA 13.0", "p"), []byte("{"))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if all, err := s.All(); err != nil || len(all) != 1 || all[0].Problem != "q" {
		t.Errorf("%+v, %v", all, err)
	}
	if _, ok, err := s.Get("a GPU", "CUDA 13.0", "p"); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// TestStoreShared has many writers and readers of one file at the same time.
func TestStoreShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tuned.db")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			s, _ := OpenStore(path)
			if err := s.Put(found(fmt.Sprint("p", i), 1)); err != nil {
				t.Error(err)
			}
			if _, ok, err := s.Get("a GPU", "CUDA 13.0", fmt.Sprint("p", i)); !ok || err != nil {
				t.Errorf("%d: %v, %v", i, ok, err)
			}
		})
	}
	all.Wait()
	s, _ := OpenStore(path)
	if got, err := s.All(); len(got) != 8 || err != nil {
		t.Errorf("%d kept, %v", len(got), err)
	}
}

func TestStoreBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tuned.db")
	if err := os.WriteFile(path, bytes.Repeat([]byte("not a store "), 4000), 0o644); err != nil {
		t.Fatal(err)
	}
	s, _ := OpenStore(path)
	if _, _, err := s.Get("a", "b", "c"); err == nil || !strings.Contains(err.Error(), "can be found again") {
		t.Errorf("a broken file: %v", err)
	}
	if err := s.Put(found("p", 1)); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Get("a GPU", "CUDA 13.0", "p"); !ok || err != nil {
		t.Errorf("after a broken file: %v, %v", ok, err)
	}
	if old, err := os.ReadFile(path + ".broken"); err != nil || !bytes.HasPrefix(old, []byte("not a store")) {
		t.Errorf("the broken file is gone: %v", err)
	}
	// An entry that is none counts as not there.
	db, err := s.open(true)
	if err == nil {
		err = errors.Join(db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket(results).Put(key("a GPU", "CUDA 13.0", "p"), []byte("{"))
		}), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Get("a GPU", "CUDA 13.0", "p"); ok || err != nil {
		t.Errorf("a broken entry: %v, %v", ok, err)
	}
	if err := s.Put(found("p", 2)); err != nil {
		t.Fatal(err)
	}
	if f, ok, err := s.Get("a GPU", "CUDA 13.0", "p"); !ok || err != nil || f.Us != 2 {
		t.Errorf("in place of a broken entry: %+v, %v", f, err)
	}
}

// TestStoreCut cuts a file off and spoils its pages, as full disks and broken copies do: calls say so, without a panic, and what is
// found next is kept. A file of no bytes is one that somebody has begun to make.
func TestStoreCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tuned.db")
	s, _ := OpenStore(path)
	var many []Found
	for i := range 200 {
		many = append(many, found(fmt.Sprint("p", i), 1))
	}
	if err := s.Put(many...); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	spoilt := map[string][]byte{"empty": nil}
	for _, n := range []int{1, 100, page, 2 * page, 3*page + 5, len(good) / 2, len(good) - page} {
		spoilt[fmt.Sprint("cut at ", n)] = good[:n]
	}
	for at := 0; at < len(good); at += page {
		for fill := range 2 {
			data := bytes.Clone(good)
			copy(data[at:], bytes.Repeat([]byte{byte(0xa5 * fill)}, page))
			spoilt[fmt.Sprintf("page %d of %#x", at/page, 0xa5*fill)] = data
		}
	}
	panics := 0
	for what, data := range spoilt {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		_, ok, err := s.Get("a GPU", "CUDA 13.0", "p7")
		if what == "empty" && (ok || err != nil) {
			t.Errorf("%s: %v, %v", what, ok, err)
		}
		if errors.Is(err, errBroken) {
			panics++
			if !strings.Contains(err.Error(), "can be found again") {
				t.Errorf("%s: %v", what, err)
			}
		}
		s.All() // as may be
		if err := s.Put(found("new", 1)); err != nil {
			t.Errorf("%s: not kept: %v", what, err)
		}
		if _, ok, err := s.Get("a GPU", "CUDA 13.0", "new"); !ok || err != nil {
			t.Errorf("%s: what was kept behind it: %v, %v", what, ok, err)
		}
	}
	if panics == 0 {
		t.Error("no file was broken such that bbolt panics")
	}
}

func TestModuleVersion(t *testing.T) {
	for text, want := range map[string]string{
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build\nGCC version:  gcc version 12.2.0": ", 580.159.03",
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54  Tue":                                                          ", 535.54",
		"something else": "", "": "",
	} {
		if got := moduleVersion(text); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

// TestCodeOf holds that equal programs have equal code, others other code.
func TestCodeOf(t *testing.T) {
	hash := func(n string) string {
		p, err := text.Parse("p.tile", "program p<1>(a: *i32) {\n\tga = ViewGlobal(a) : global i32[32]\n\tr = LoadGlobal(ga, offset=[0]) : register i32[32] spatial(32)\n\ts = Add(r, "+n+") : register i32[32] spatial(32)\n\tStoreGlobal(ga, s, offset=[0])\n}\n", nil)
		if err != nil {
			t.Fatal(err)
		}
		h, err := CodeOf("sm_90a", p)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if one, again, two := hash("1"), hash("1"), hash("2"); one != again || one == two || len(one) != 24 {
		t.Errorf("code %s, %s, %s", one, again, two)
	}
}

// invented are candidates whose model is wrong by a factor that depends on one field.
func invented(t *testing.T) (all []Candidate, us map[string]float64) {
	p, err := text.Parse("p.tile", "program p<1>(a: *i32) {\n}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	us = map[string]float64{}
	for depth := range 4 {
		for warps := range 4 {
			for splits := range 8 {
				name := fmt.Sprint(depth, warps, splits)
				estimate := 10 + float64(2*depth+warps+splits)
				us[name] = estimate * 2
				if warps == 2 {
					us[name] = estimate * 1.2
				}
				all = append(all, Candidate{Name: name, Program: func() (*ir.Program, error) { return p, nil }, Fields: []int{depth, warps, splits}, Estimate: estimate, Blocks: 1})
			}
		}
	}
	return all, us
}

func TestSearch(t *testing.T) {
	all, us := invented(t)
	steps := 0
	s := Search{Target: "sm_90a", SMs: 132, Time: func(_ context.Context, c Candidate) (float64, error) { return us[c.Name], nil },
		Progress: func(p Step) {
			if steps++; p.Done != steps || p.Of != len(all) || p.Us != us[p.Candidate.Name] {
				t.Errorf("step %d: %+v", steps, p)
			}
		}}
	out, err := s.Best(context.Background(), all)
	if err != nil {
		t.Fatal(err)
	}
	if all[out.Best].Name != "0 2 0" || out.Us != us["0 2 0"] || out.End != EndDone {
		t.Errorf("found %s: %+v, not 0 2 0", all[out.Best].Name, out)
	}
	if out.Timed != steps || out.Timed > len(all)/2 {
		t.Errorf("%d of %d were timed; %d steps", out.Timed, len(all), steps)
	}

	var begun atomic.Int64
	s.Progress, s.Limit, s.Ahead, s.Ready = nil, 3, 2, func(Candidate) { begun.Add(1) }
	if out, err = s.Best(context.Background(), all); out.Timed != 3 || out.End != EndLimit || err != nil {
		t.Errorf("%+v, %v", out, err)
	}
	if n := begun.Load(); n < 3 || n > 5 { // the model may choose others behind the first and the second
		t.Errorf("code of %d is made where 3 are timed", n)
	}
	s.Limit, s.Budget = 0, 1 // 1 ns
	if out, err = s.Best(context.Background(), all); out.Timed != 1 || out.End != EndTime || err != nil {
		t.Errorf("in no time: %+v, %v", out, err)
	}
	s.Budget = time.Hour
	s.Time = func(context.Context, Candidate) (float64, error) { return 0, errors.New("the GPU is gone") }
	if _, err = s.Best(context.Background(), all); err == nil || !strings.Contains(err.Error(), "0 0 0: the GPU is gone") {
		t.Errorf("%v", err)
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err = s.Best(done, all); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err = s.Best(context.Background(), nil); err == nil {
		t.Error("the best of none")
	}
}

// TestSearchBudget has a search end in time by a clock of its own: whatever candidates take,
// none is begun that might end too late.
func TestSearchBudget(t *testing.T) {
	all, us := invented(t)
	for _, c := range []struct {
		name                  string
		first, others, budget time.Duration
		spread                int
		least, most           int // that are timed
		end                   End
	}{
		{"usual", 700 * time.Millisecond, 150 * time.Millisecond, 3 * time.Second, 1, 6, 16, EndDone},
		{"some take long", 700 * time.Millisecond, 100 * time.Millisecond, 3 * time.Second, 5, 6, 20, EndDone},
		{"slow", 2 * time.Second, 600 * time.Millisecond, 3 * time.Second, 1, 2, 2, EndTime},
		{"first alone", 4 * time.Second, 600 * time.Millisecond, 3 * time.Second, 1, 1, 1, EndTime},
	} {
		now, n := time.Unix(0, 0), 0
		s := Search{Target: "sm_90a", SMs: 132, Budget: c.budget, Ahead: 2, Now: func() time.Time { return now },
			Time: func(_ context.Context, a Candidate) (float64, error) {
				took := c.first
				if n > 0 {
					took = c.others * time.Duration(1+n%c.spread)
				}
				n++
				now = now.Add(took)
				return us[a.Name], nil
			}}
		out, err := s.Best(context.Background(), all)
		if took := now.Sub(time.Unix(0, 0)); err != nil || out.Timed < c.least || out.Timed > c.most || out.End != c.end || out.Timed > 1 && took > c.budget {
			t.Errorf("%s: %+v in %v of %v, %v", c.name, out, took, c.budget, err)
		}
	}
}

// TestSearchLate ends a search with the best so far where a measurement finds that the time is up,
// and fails where that is the first.
func TestSearchLate(t *testing.T) {
	all, us := invented(t)
	for _, after := range []int{0, 1, 5} {
		n := 0
		s := Search{Target: "sm_90a", SMs: 132, Time: func(_ context.Context, c Candidate) (float64, error) {
			if n++; n > after {
				return 0, fmt.Errorf("tune: %w", ErrLate)
			}
			return us[c.Name], nil
		}}
		out, err := s.Best(context.Background(), all)
		if after == 0 {
			if !errors.Is(err, ErrLate) {
				t.Errorf("late at once: %+v, %v", out, err)
			}
			continue
		}
		if err != nil || out.Timed != after || out.End != EndTime || !(out.Us > 0) || out.Us != us[all[out.Best].Name] || n != after+1 {
			t.Errorf("late after %d: %+v, %v", after, out, err)
		}
	}
}

// TestSearchMemory goes on behind schedules that the GPU's memory is too small for, and fails where it is for all.
func TestSearchMemory(t *testing.T) {
	all, us := invented(t)
	full := fmt.Errorf("x: %w", &cuda.Error{Call: "cuMemAlloc", Code: 2, Name: "CUDA_ERROR_OUT_OF_MEMORY"})
	told := 0
	s := Search{Target: "sm_90a", SMs: 132, Time: func(_ context.Context, c Candidate) (float64, error) {
		if c.Name == "0 0 0" || c.Name == "0 2 0" {
			return 0, full
		}
		return us[c.Name], nil
	}, Progress: func(p Step) {
		if p.Candidate.Name == "0 0 0" || p.Candidate.Name == "0 2 0" {
			if told++; p.Us != 0 || !strings.Contains(p.Why, "memory") {
				t.Errorf("%+v", p)
			}
		}
	}}
	out, err := s.Best(context.Background(), all)
	if err != nil || told == 0 || all[out.Best].Name == "0 2 0" || out.Us != us[all[out.Best].Name] {
		t.Errorf("found %+v, %v, and told of %d", out, err, told)
	}
	asked := 0
	s.Time, s.Progress = func(context.Context, Candidate) (float64, error) { asked++; return 0, full }, nil
	var of *cuda.Error
	if out, err = s.Best(context.Background(), all); !errors.As(err, &of) || out.Timed != 0 || out.Best >= 0 || asked != fewOfMemory {
		t.Errorf("%+v, %v, asked %d times", out, err, asked)
	}
}

// TestFits holds the filter in front of the GPU: what cannot run, or would wait for
// blocks that have no room, is never timed.
func TestFits(t *testing.T) {
	program := func(body string, warps int) func() (*ir.Program, error) {
		return func() (*ir.Program, error) {
			return text.Parse("p.tile", fmt.Sprintf("program p<1>(a: *f32) warps=%d {\n%s}\n", warps, body), nil)
		}
	}
	shared := func(bytes int) string {
		return fmt.Sprintf("\tga = ViewGlobal(a) : global f32[128]\n\tsh = AllocateShared() : shared f32[%d] shared_row_major(%d)\n\tr = LoadGlobal(ga, offset=[0]) : register f32[128] spatial(128)\n\ts = SliceShared(sh, offset=[0]) : shared f32[128] shared_row_major(128)\n\tStoreShared(s, r)\n\tSynchronize()\n\tv = LoadShared(s) : register f32[128] spatial(128)\n\tStoreGlobal(ga, v, offset=[0])\n", bytes/4, bytes/4)
	}
	for _, c := range []struct {
		name string
		c    Candidate
		why  string
	}{
		{"little", Candidate{Program: program(shared(1024), 4), Blocks: 1 << 20}, ""},
		{"together", Candidate{Program: program(shared(1024), 4), Blocks: 132 * 16, Together: true}, ""},
		{"too many together", Candidate{Program: program(shared(64<<10), 4), Blocks: 132*3 + 1, Together: true}, "must run together"},
		{"too much shared memory", Candidate{Program: program(shared(240<<10), 4), Blocks: 1}, "shared memory"},
		{"many registers", Candidate{Program: program(shared(1024), 4), Blocks: 132*4 + 1, Together: true, Registers: 128}, "where 528 fit"},
		{"too many registers", Candidate{Program: program(shared(1024), 4), Blocks: 1, Registers: 300}, "registers"},
		{"no program", Candidate{Program: func() (*ir.Program, error) { return nil, errors.New("out of range") }, Blocks: 1}, "out of range"},
	} {
		cost, why := c.c.Fits("sm_90a", 132)
		if why == "" != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, not %q; %+v", c.name, why, c.why, cost)
		}
	}
}

// TestKinds has a search learn of candidates from their kind alone: what another kind took says nothing of them, so that the
// best one of each is timed unless its model expects much more than the fastest took.
func TestKinds(t *testing.T) {
	program := func() (*ir.Program, error) {
		return text.Parse("small.tile", "program small<1>(y: *f32) warps=1 {\n\tgy = ViewGlobal(y) : global f32[32]\n\tr = AllocateRegister(init=0) : register f32[32] spatial(32)\n\tStoreGlobal(gy, r, offset=[0])\n}\n", nil)
	}
	times := map[string]float64{"a1": 20, "a2": 26, "b1": 11, "b2": 9, "b3": 15, "c1": 12}
	var all []Candidate
	for _, c := range []struct {
		name  string
		field int
		us    float64
	}{{"a1", 1, 10}, {"a2", 2, 12}, {"b1", 1, 12}, {"b2", 2, 11.5}, {"b3", 1, 40}, {"c1", 7, 30}} {
		all = append(all, Candidate{Name: c.name, Kind: c.name[:1], Program: program, Fields: []int{c.field, 5}, Estimate: c.us, Blocks: 1})
	}
	var timed []string
	s := Search{Target: "sm_90a", SMs: 132, Time: func(_ context.Context, c Candidate) (float64, error) {
		timed = append(timed, c.Name)
		return times[c.Name], nil
	}}
	out, err := s.Best(t.Context(), all)
	if got := strings.Join(timed, " "); err != nil || got != "a1 b2 b1" || out.Us != 9 || all[out.Best].Name != "b2" {
		t.Errorf("timed %s; best %+v, %v", got, out, err)
	}
}
