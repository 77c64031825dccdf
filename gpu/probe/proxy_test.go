package probe

import (
	"context"
	"strings"
	"testing"
)

// sampled is the products that the simulator is tried with: every form with one
// narrow width, and the wide ones of some.
func sampled(name string) bool {
	switch {
	case !strings.HasPrefix(name, "wgmma.m64"):
		return true
	case testing.Short():
		return strings.HasPrefix(name, "wgmma.m64n24k") && !strings.HasSuffix(name, ".satfinite.rs")
	case strings.HasPrefix(name, "wgmma.m64n8k"), strings.HasPrefix(name, "wgmma.m64n32k"):
		return true
	}
	return strings.HasPrefix(name, "wgmma.m64n128k16.f32.bf16") || strings.HasPrefix(name, "wgmma.m64n256k16.f32.f16.ss")
}

// TestProxyRowsOnSimulator holds the simulator to what the cases want.
func TestProxyRowsOnSimulator(t *testing.T) {
	rows, err := Run(context.Background(), Simulator{}, Options{Proxy: true, Only: sampled})
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, r := range rows {
		tried += r.Tried
		if !r.Equal() {
			t.Errorf("%s: %d of %d differ, %d of %d failed: %q", r.Name, r.Differ, r.Tried, r.Failed, r.Cases, r.First)
		}
	}
	t.Logf("%d rows, %d results", len(rows), tried)
}
