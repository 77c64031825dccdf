package lab

import (
	"strings"
	"testing"
)

func TestDispatch(t *testing.T) {
	for name, show := range map[string]func(){
		"scenario": func() { Show(Dispatch("slow-player", 4)) },
		"json": func() {
			Show(Dispatch(`{"launches": [{"stream": "a", "name": "k", "blocks": 9, "threads": 256, "ticks": 2}]}`, -1))
		},
		"stairs": func() { Show(Staircase(96, 16)) },
	} {
		found := false
		for _, data := range shown(t, show) {
			found = found || strings.Contains(data["image/svg+xml"], "<svg")
		}
		if !found {
			t.Errorf("%s shows no picture", name)
		}
	}
	if r, err := DispatchRun("slow-player"); err != nil || r.Find("victim").Finish != 11 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Dispatch("slow", 0); err == nil {
		t.Error("an unknown scenario is taken")
	}
}
