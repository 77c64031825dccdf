package qmm

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// cublasText times cuBLAS through torch.
//
//go:embed cublas.py
var cublasText string

// Compare has a Python with torch time cuBLAS with plain weights on the sizes of rows, on
// the GPU that they were measured on, and writes what that gives into them.
func Compare(ctx context.Context, python string, rows []Row) error {
	type shapes struct {
		Act    string   `json:"act"`
		Shapes [][3]int `json:"shapes"`
	}
	var acts []string
	byAct := map[string]*shapes{}
	at := map[string]int{}
	name := func(r Row) string { return fmt.Sprint(r.Act, " ", r.M, " ", r.N, " ", r.K) }
	for _, r := range rows {
		s := byAct[r.Act]
		if s == nil {
			s = &shapes{Act: r.Act}
			byAct[r.Act] = s
			acts = append(acts, r.Act)
		}
		if _, ok := at[name(r)]; !ok {
			at[name(r)] = len(s.Shapes)
			s.Shapes = append(s.Shapes, [3]int{r.M, r.N, r.K})
		}
	}
	for _, act := range acts {
		s := byAct[act]
		ask, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("qmm: %w", err)
		}
		cmd := exec.CommandContext(ctx, python, "-c", cublasText)
		cmd.Stdin = bytes.NewReader(ask)
		out, err := cmd.Output()
		if e := (*exec.ExitError)(nil); errors.As(err, &e) {
			lines := strings.Split(strings.TrimSpace(string(e.Stderr)), "\n")
			return fmt.Errorf("qmm: cuBLAS through %s: %s", python, lines[len(lines)-1])
		}
		if err != nil {
			return fmt.Errorf("qmm: cuBLAS through %s: %w", python, err)
		}
		var us []float64
		if err := json.Unmarshal(out, &us); err != nil || len(us) != len(s.Shapes) {
			return fmt.Errorf("qmm: cuBLAS through %s: %d times for %d shapes (%v)", python, len(us), len(s.Shapes), err)
		}
		for i, r := range rows {
			if r.Act == act {
				rows[i].CublasUs = us[at[name(r)]]
				rows[i].OfCublas = rows[i].CublasUs / r.MedianUs
			}
		}
	}
	return nil
}
