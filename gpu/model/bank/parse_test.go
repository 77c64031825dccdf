package bank

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// What the hardware refuses is marked where the addresses begin, and told with a way out.
func TestRefusedAddresses(t *testing.T) {
	p, err := FindProfile("nvidia")
	if err != nil {
		t.Fatal(err)
	}
	_, err = ParseAccess("load 16:  lane%8*136", p, diag.Pos{Line: 1, Col: 1})
	list, ok := err.(diag.List)
	if !ok || list[0].Pos.Col != 11 || !strings.Contains(list[0].Help, "lane 1 could take 128 or 144") {
		t.Errorf("%v", err)
	}
}
