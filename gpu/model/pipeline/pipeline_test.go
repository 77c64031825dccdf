package pipeline

import (
	"strings"
	"testing"
)

// TestClosedForm holds the runs against what can be said without running: the first
// copy always shows, and after it every ahead turns take the larger of a copy and
// their products.
func TestClosedForm(t *testing.T) {
	for latency := range 9 {
		for work := 1; work < 6; work++ {
			for stages := 1; stages < 6; stages++ {
				for turns := 1; turns < 12; turns++ {
					l := Loop{latency, work, stages, turns}
					got, err := l.Run()
					if err != nil {
						t.Fatal(err)
					}
					want := turns * (latency + work)
					if ahead := stages - 1; ahead > 0 {
						want = latency + (turns-1)/ahead*max(latency, ahead*work) + ((turns-1)%ahead+1)*work
					}
					if end := got[turns-1].End; end != want {
						t.Errorf("%+v is done at %d, want %d", l, end, want)
					}
				}
			}
		}
	}
}

// TestStages holds that a copy never starts into a stage that is still read, and
// that nothing is read before it is there.
func TestStages(t *testing.T) {
	for stages := 1; stages < 6; stages++ {
		turns, err := Loop{700, 200, stages, 20}.Run()
		if err != nil {
			t.Fatal(err)
		}
		for k, u := range turns {
			if u.Begin < u.Arrival || u.Arrival != u.Copy+700 {
				t.Errorf("%d stages: turn %d: %+v", stages, k, u)
			}
			if k >= stages && u.Copy < turns[k-stages].End {
				t.Errorf("%d stages: turn %d copies into a stage that turn %d reads", stages, k, k-stages)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	for _, l := range []Loop{{}, {1, 1, 0, 1}, {1, 0, 1, 1}, {-1, 1, 1, 1}, {1, 1, 99, 1}, {1, 1, 1, 1 << 20}} {
		if _, err := l.Run(); err == nil {
			t.Errorf("%+v runs", l)
		}
	}
	for want, l := range map[string]Loop{
		"with one stage each turn takes 7 + 2": {7, 2, 1, 3}, "hides behind 4 turns of 2": {7, 2, 5, 3}, "every 2 turns wait for 3": {7, 2, 3, 3},
	} {
		if got := l.Say(); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
