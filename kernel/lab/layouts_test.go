package lab

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
)

// Whatever names a layout shows as its notations and a picture.
func TestShowLayouts(t *testing.T) {
	accumulator := "local(2, 1).spatial(8, 4).local(1, 2)"
	c, err := cute.Parse("(8,64):(64,1)")
	if err != nil {
		t.Fatal(err)
	}
	for name, show := range map[string]func(){
		"chain":   func() { Show(Layout(accumulator)) },
		"operand": func() { Show(Layout("mma.m16n8k16.f32.f16/C")) },
		"triton": func() {
			Show(Layout("#ttg.blocked<{sizePerThread=[1, 2], threadsPerWarp=[8, 4], warpsPerCTA=[1, 1], order=[1, 0]}>", 16, 8))
		},
		"cute":     func() { Show(c) },
		"swizzle":  func() { Show(Swizzle("Sw<3,4,3>")) },
		"atom":     func() { Show(Atom("SM80_16x8x16_F32F16F16F32_TN")) },
		"amd":      func() { Show(MMA("v_mfma_f32_32x32x8_f16")) },
		"banks":    func() { Show(Banks("load 4: lane*128")) },
		"LDS":      func() { Show(BanksOn("mi300", "load 16: lane%16*128 + lane/16*16")) },
		"factors":  func() { Show(Draw(accumulator, "factors")) },
		"reinterp": func() { Show(DrawAs("local(2, 1).column_spatial(4, 8).local(4, 1)", "reinterpret", dtype.I6)) },
	} {
		pictures := 0
		list := shown(t, show)
		for _, data := range list {
			if strings.Contains(data["image/svg+xml"], "<svg") {
				pictures++
			}
		}
		if pictures == 0 {
			t.Errorf("%s shows %d things and no picture: %v", name, len(list), list)
		}
	}
	text, err := Convert(accumulator, "cute")
	if err != nil || !strings.HasPrefix(text, "((4,8),(2,2)):((32,1),(16,8))") {
		t.Errorf("%s, %v", text, err)
	}
	for _, f := range []func() error{
		func() error { _, err := Layout("spatail(8)"); return err },
		func() error { _, err := Convert("Sw<3,4,3>", "chain"); return err },
		func() error { _, err := Banks("load 3: lane"); return err },
		func() error { _, err := BanksOn("mi3", "lane"); return err },
		func() error { _, err := Atom("mma.m16n8k17"); return err },
		func() error { _, err := Draw(accumulator, "tensr"); return err },
		func() error { _, err := Draw("Sw<", ""); return err },
		func() error { _, err := DrawAs("Sw<", "", dtype.I6); return err },
	} {
		if err := f(); err == nil {
			t.Error("a mistake is no error")
		}
	}
}
