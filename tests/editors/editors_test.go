// Package editors goes through sessions of the debugger and the language server with
// the client libraries that editors use.
package editors

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

const program = `program sums<1>(a: *f16, c: *f32, n: i32) warps=1 {
	ga = ViewGlobal(a) : global f16[n, 64]
	gc = ViewGlobal(c) : global f32[n, 64]
	acc = AllocateRegister(init=0) : register f32[16, 64] local(2, 8).spatial(8, 4).local(1, 2)
	for k in 0..n/16 {
		x = LoadGlobal(ga, offset=[k*16, 0]) : register f16[16, 64] local(2, 8).spatial(8, 4).local(1, 2)
		y = Cast(x) : register f32[16, 64] local(2, 8).spatial(8, 4).local(1, 2)
		acc = Add(acc, y) : register f32[16, 64] local(2, 8).spatial(8, 4).local(1, 2)
	}
	StoreGlobal(gc, acc, offset=[0, 0])
}
`

func TestClients(t *testing.T) {
	missing := t.Skip
	if need.Required("chromium") { // which comes with Node
		missing = t.Fatal
	}
	node, err := exec.LookPath("node")
	if err != nil {
		missing("node is missing; on Debian: apt-get install nodejs npm")
	}
	modules := filepath.Join(need.Root(t), "tests", ".env", "node")
	if _, err := os.Stat(filepath.Join(modules, "node_modules", "@vscode", "debugadapter-testsupport")); err != nil {
		missing("the client libraries are missing; run `bash tests/setup/web.sh`")
	}
	dir := t.TempDir()
	exe := need.Program(t)
	file := filepath.Join(dir, "sums.tile")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{"dap.cjs", "lsp.cjs"} {
		t.Run(script, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, node, script, modules, exe, file).CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), "ok\n") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
