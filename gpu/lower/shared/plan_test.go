package shared

import (
	"fmt"
	"math/rand"
	"testing"
)

// Live tiles never overlap, lie aligned, and the peak is the largest end.
func TestPlanKeepsTilesApart(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 200 {
		var p Plan
		type tile struct{ start, end int }
		live, peak := map[string]tile{}, 0
		for i := range 40 {
			if len(live) > 0 && r.Intn(3) == 0 {
				for name := range live {
					if err := p.Free(name); err != nil {
						t.Fatal(err)
					}
					delete(live, name)
					break
				}
				continue
			}
			name, size, align := fmt.Sprint(i), r.Intn(5000), 1<<r.Intn(11)
			at, err := p.Alloc(name, size, align)
			if err != nil {
				t.Fatal(err)
			}
			if at%align != 0 || at%Align != 0 {
				t.Fatalf("%d bytes aligned to %d lie at %d", size, align, at)
			}
			for other, b := range live {
				if at < b.end && b.start < at+size {
					t.Fatalf("tiles %s and %s overlap", name, other)
				}
			}
			live[name] = tile{at, at + size}
			peak = max(peak, at+size)
		}
		if p.Peak() < peak || p.Peak() > peak+1023 {
			t.Fatalf("peak %d, tiles end at %d", p.Peak(), peak)
		}
	}
}

func TestPlanByHand(t *testing.T) {
	var p Plan
	for _, c := range []struct {
		name              string
		size, align, want int
	}{{"x", 4096, 1024, 0}, {"y", 64, 0, 4096}, {"-x", 0, 0, 0}, {"w", 1024, 0, 0}, {"v", 2048, 0, 1024}} {
		if c.name[0] == '-' {
			if err := p.Free(c.name[1:]); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if at, err := p.Alloc(c.name, c.size, c.align); err != nil || at != c.want {
			t.Errorf("%s lies at %d (%v), want %d", c.name, at, err, c.want)
		}
	}
	if p.Peak() != 4224 {
		t.Errorf("peak %d, want 4224", p.Peak())
	}
	if p.Free("x") == nil {
		t.Error("a tile is freed twice")
	}
	if _, err := p.Alloc("w", 1, 1); err == nil {
		t.Error("a tile is placed twice")
	}
	if _, err := p.Alloc("q", 1, 384); err == nil {
		t.Error("an alignment of 384 is taken")
	}
}
