package tests

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

// bare runs a script of this folder's copy in dir with no programs on PATH but a shell's everyday ones and those given,
// by name and text.
func bare(t *testing.T, script string, programs map[string]string) (output string, status int) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	dir, bin := t.TempDir(), t.TempDir()
	for _, name := range []string{"bash", "dirname", "id", "cmp", "cp", "mkdir", "cksum", "cat", "rm", "tail", "cut", "awk"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("no %s here", name)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!"+bash+"\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"setup/web.sh", "setup/python.sh", "setup/requirements.txt", "web/package.json", "web/package-lock.json", "fuzz", "space"} {
		text, err := os.ReadFile(filepath.Join(need.Root(t), "tests", name))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, "tests", name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	name, args, _ := strings.Cut(script, " ")
	cmd := exec.Command(bash, append([]string{filepath.Join(dir, "tests", name)}, strings.Fields(args)...)...)
	cmd.Env = []string{"PATH=" + bin, "HOME=" + dir}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// disk is a machine with one file system, so many MB of which are free, and an empty build cache.
func disk(free int) map[string]string {
	return map[string]string{
		"go": `echo "$HOME/.cache/go-build"`,
		"du": "echo 1 .",
		"df": fmt.Sprintf("echo Filesystem; echo /dev/vda 9 9 %d 9%% /disk", free*1024),
	}
}

// TestSetupSaysWhatIsMissing runs the scripts on machines that lack things.
func TestSetupSaysWhatIsMissing(t *testing.T) {
	const fails, works = "exit 1", "exit 0"
	npm := `while [ "$1" != --prefix ]; do shift; done; echo installed into "$2"`
	for _, c := range []struct {
		name, script string
		programs     map[string]string
		status       int
		want         string
	}{
		{"nothing", "setup/web.sh", nil, 3, "apt-get install chromium nodejs npm"},
		{"no npm", "setup/web.sh", map[string]string{"chromium": works, "node": works}, 3, "not on PATH: npm"},
		{"npm without a network", "setup/web.sh", map[string]string{"chromium": works, "node": works, "npm": fails}, 3, "registry"},
		{"everything", "setup/web.sh", map[string]string{"chromium": works, "node": works, "npm": npm}, 0, "installed into .env/node"},
		{"no Python", "setup/python.sh", nil, 3, "apt-get install python3 python3-venv"},
		{"no venv", "setup/python.sh", map[string]string{"python3": `[ "$1" = -c ]`}, 3, "apt-get install python3-venv"},
		{"wrong usage", "fuzz -1", nil, 2, "usage"},
		{"a full disk", "space", disk(5000), 1, "/disk has 5000 MB free, and the tests need 5800 MB there (Go's build cache 4000 MB, tests/.env 800 MB, temporary files 1000 MB)"},
		{"a disk with room", "space", disk(5800), 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, status := bare(t, c.script, c.programs)
			if status != c.status || !strings.Contains(out, c.want) {
				t.Errorf("exit status %d, want %d with %q:\n%s", status, c.status, c.want, out)
			}
		})
	}
}
