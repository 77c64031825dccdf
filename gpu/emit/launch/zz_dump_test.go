package launch

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/emit"
)

func TestZZDump(t *testing.T) {
	dir := os.Getenv("ZZDUMP")
	if dir == "" {
		t.Skip()
	}
	os.MkdirAll(dir, 0o755)
	for _, typ := range []string{"f32", "bf16"} {
		for _, c := range Cases(typ, 512) {
			var best time.Duration
			var p *emit.Program
			var err error
			for i := 0; i < 3; i++ {
				s := time.Now()
				if p, err = compile(c.Text, emit.Tuning{}); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(s); best == 0 || d < best {
					best = d
				}
			}
			text, err := Text(p, "sm_90a")
			if err != nil {
				t.Fatal(err)
			}
			os.WriteFile(fmt.Sprintf("%s/%s.%s.0.ptx", dir, c.Name, typ), []byte(text), 0o644)
			fmt.Printf("%s/%s %d kernels %.1f ms\n", c.Name, typ, len(p.Kernels), best.Seconds()*1e3)
		}
	}
}
