package need

import (
	"strings"
	"testing"
)

func TestSaid(t *testing.T) {
	const text = `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a' for 'sm_80'
ptxas info    : Function properties for a
    16 bytes stack frame, 10 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers, 384 bytes cmem[0]
ptxas info    : Compiling entry function 'b' for 'sm_80'
ptxas info    : Function properties for b
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 384 bytes cmem[0]
`
	if got, err := said(text); err != nil || got != (Code{255, 16, 10, 8, text}) || got.Spills() != 10 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := said("ptxas info    : 0 bytes gmem\n"); err == nil {
		t.Error("a text without functions was taken")
	}
}

func TestAssemble(t *testing.T) {
	c, err := Assemble(t, "sm_80", ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry a() { ret; }\n")
	if err != nil || c.Registers == 0 || c.Spills() != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Assemble(t, "sm_80", ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry a() { wrong; }\n"); err == nil || !strings.Contains(err.Error(), "wrong") {
		t.Errorf("a mistake: %v", err)
	}
}
