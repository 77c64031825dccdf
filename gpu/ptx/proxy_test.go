package ptx

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// TestProxyRowsAssemble gives the rows of sm_90 and later to the real assembler:
// every row, but of the products only those of one width, and of one product all
// widths.
func TestProxyRowsAssemble(t *testing.T) {
	for _, arch := range []string{"sm_90a", "sm_100a"} {
		level, err := Level(arch)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		forms, version := 0, Version
		for _, op := range code.ProxyRows() {
			row := op.Row()
			if row.Since > level || row.Target != "" && row.Target != arch || arch == "sm_100a" && row.Since < 100 {
				continue
			}
			if row.InPlace && !strings.Contains(row.Name, "m64n8k") && !strings.HasSuffix(row.Name, "k16.f32.bf16.ss") {
				continue
			}
			for k, f := range rowFuncs(op, "f_"+strings.NewReplacer(".", "_", ":", "_").Replace(row.Name)) {
				if row.InPlace && k > 0 {
					break
				}
				text, err := Print(f, Options{Arch: arch})
				if err != nil {
					t.Fatal(err)
				}
				header, body, ok := strings.Cut(text, ".visible")
				version = max(version, strings.Fields(header)[1])
				if ok && all.Len() > 0 {
					text = ".visible" + body
				}
				all.WriteString(text)
				forms++
			}
		}
		_, rest, _ := strings.Cut(all.String(), "\n")
		t.Logf("%s: %d forms", arch, forms)
		assemble(t, "rows", arch, ".version "+version+"\n"+rest)
	}
}

// TestProxyRowsRefused holds older targets to refusing the rows.
func TestProxyRowsRefused(t *testing.T) {
	for _, op := range code.ProxyRows() {
		row := op.Row()
		if row.Since < 90 || len(row.Out) > 4 || len(row.In) > 16 {
			continue
		}
		f := rowFuncs(op, "f")[0]
		_, err := Print(f, Options{Arch: "sm_80"})
		if list, ok := err.(diag.List); !ok || list[0].Code != "Target.E1" || list[0].Help == "" || !strings.Contains(list[0].Msg, "needs sm_") || row.Target != "" && !strings.Contains(list[0].Msg, "needs "+row.Target) {
			t.Errorf("%s on sm_80: %v", row.Name, err)
		}
		if row.Target != "" && row.Since == 90 {
			if _, err := Print(f, Options{Arch: "sm_90"}); err == nil || !strings.Contains(err.Error(), row.Target) {
				t.Errorf("%s on sm_90: %v", row.Name, err)
			}
		}
	}
}
