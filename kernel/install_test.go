package kernel

import (
	"bytes"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestInstall(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("uses a shell script as the program")
	}
	root := t.TempDir()
	t.Setenv("JUPYTER_DATA_DIR", "")
	t.Setenv("XDG_DATA_HOME", filepath.Join(root, "xdg"))
	t.Setenv("HOME", filepath.Join(root, "home"))
	t.Setenv("VIRTUAL_ENV", filepath.Join(root, "venv"))
	exe := filepath.Join(root, "tilus-lab")
	if err := os.WriteFile(exe, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	user := filepath.Join(root, "xdg", "jupyter", "kernels", SpecName)
	if runtime.GOOS == "darwin" {
		user = filepath.Join(root, "home", "Library", "Jupyter", "kernels", SpecName)
	}
	for _, c := range []struct {
		name, env string
		o         InstallOptions
		want      string
	}{
		{"user", "", InstallOptions{User: true}, user},
		{"default", "", InstallOptions{}, user},
		{"JUPYTER_DATA_DIR", filepath.Join(root, "jd"), InstallOptions{}, filepath.Join(root, "jd", "kernels", SpecName)},
		{"prefix", "", InstallOptions{Prefix: filepath.Join(root, "p")}, filepath.Join(root, "p", "share", "jupyter", "kernels", SpecName)},
		{"sys-prefix", "", InstallOptions{SysPrefix: true}, filepath.Join(root, "venv", "share", "jupyter", "kernels", SpecName)},
		{"alias", "", InstallOptions{Prefix: filepath.Join(root, "p"), Name: "gophernotes"}, filepath.Join(root, "p", "share", "jupyter", "kernels", "gophernotes")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("JUPYTER_DATA_DIR", c.env)
			c.o.Exe = exe
			dir, err := Install(c.o)
			if err != nil || dir != c.want {
				t.Fatalf("Install = %q, %v; want %q", dir, err, c.want)
			}
			text, err := os.ReadFile(filepath.Join(dir, "kernel.json"))
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			argv := got["argv"].([]any)
			if len(argv) != 3 || argv[0] != exe || argv[1] != "kernel" || argv[2] != "{connection_file}" {
				t.Errorf("argv %v", argv)
			}
			if got["language"] != "go" || got["interrupt_mode"] != "message" {
				t.Errorf("kernel.json %s", text)
			}
			if _, has := got["kernel_protocol_version"]; has {
				t.Error("kernel_protocol_version promises a handshake that is not there")
			}
			for _, n := range []int{32, 64} {
				data, err := os.ReadFile(filepath.Join(dir, map[int]string{32: "logo-32x32.png", 64: "logo-64x64.png"}[n]))
				if err != nil {
					t.Fatal(err)
				}
				if img, err := png.DecodeConfig(bytes.NewReader(data)); err != nil || img.Width != n || img.Height != n {
					t.Errorf("logo %d: %+v, %v", n, img, err)
				}
			}
			before, _ := os.Stat(filepath.Join(dir, "kernel.json"))
			if _, err := Install(c.o); err != nil {
				t.Errorf("second Install: %v", err)
			}
			if after, _ := os.Stat(filepath.Join(dir, "kernel.json")); !os.SameFile(before, after) {
				t.Error("second Install rewrote kernel.json")
			}
			if files, _ := os.ReadDir(dir); len(files) != 4 {
				t.Errorf("%d files in %s", len(files), dir)
			}
			if got, err := Uninstall(c.o); err != nil || got != dir {
				t.Errorf("Uninstall = %q, %v", got, err)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("after Uninstall: %v", err)
			}
			if _, err := Uninstall(c.o); err != nil {
				t.Errorf("second Uninstall: %v", err)
			}
		})
	}
}

func TestInstallRefuses(t *testing.T) {
	prefix := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(prefix, "share", "jupyter", "kernels", "gophernotes")
	if err := os.MkdirAll(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(foreign, "kernel.json"), []byte(`{"argv":["gophernotes"]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VIRTUAL_ENV", "")
	t.Setenv("CONDA_PREFIX", "")
	for name, o := range map[string]InstallOptions{
		"foreign kernelspec": {Prefix: prefix, Name: "gophernotes", Exe: exe},
		"path in name":       {Prefix: prefix, Name: "../x", Exe: exe},
		"dots":               {Prefix: prefix, Name: "..", Exe: exe},
		"two places":         {Prefix: prefix, User: true, Exe: exe},
		"no environment":     {SysPrefix: true, Exe: exe},
		"no program":         {Prefix: prefix, Exe: filepath.Join(prefix, "none")},
		"folder as program":  {Prefix: prefix, Exe: prefix},
	} {
		if dir, err := Install(o); err == nil {
			t.Errorf("%s: installed in %s", name, dir)
		}
	}
	if _, err := Uninstall(InstallOptions{Prefix: prefix, Name: "gophernotes"}); err == nil {
		t.Error("a foreign kernelspec was removed")
	}
	if _, err := Install(InstallOptions{Prefix: prefix, Name: "gophernotes", Exe: exe, Force: true}); err != nil {
		t.Errorf("force: %v", err)
	}
}

// TestPassing knows programs of go run by where they are, also where GOCACHE is no folder of caches.
func TestPassing(t *testing.T) {
	for path, want := range map[string]bool{
		"/srv/build/a7/" + strings.Repeat("0f", 32) + "-d/tilus-lab": true,
		"/srv/build/a7/0f-d/tilus-lab":                               false,
		"/usr/local/bin/tilus-lab":                                   false,
	} {
		if got := passing(filepath.FromSlash(path)); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestKeepExe(t *testing.T) {
	exe, err := os.Executable() // in go test's temporary folder
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "bin")
	kept, err := KeepExe(exe, dir)
	if err != nil || filepath.Dir(kept) != dir {
		t.Fatalf("KeepExe = %q, %v", kept, err)
	}
	a, _ := os.Stat(exe)
	b, err := os.Stat(kept)
	if err != nil || a.Size() != b.Size() || b.Mode()&0o100 == 0 {
		t.Errorf("copy: %v, %v", b, err)
	}
	// The same program is not copied again; another one of the same size is.
	again, err := KeepExe(exe, dir)
	if c, _ := os.Stat(again); err != nil || !os.SameFile(b, c) {
		t.Errorf("the same program was copied again: %v", err)
	}
	other := filepath.Join(t.TempDir(), "tilus-lab")
	if err := os.WriteFile(other, bytes.Repeat([]byte("x"), int(a.Size())), 0o755); err != nil {
		t.Fatal(err)
	}
	if kept, err = KeepExe(other, dir); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(kept); err != nil || raw[0] != 'x' || len(raw) != int(a.Size()) {
		t.Errorf("another program was not copied: %v", err)
	}
	if kept, err := KeepExe("/usr/bin/tilus-lab", dir); err != nil || kept != "/usr/bin/tilus-lab" {
		t.Errorf("KeepExe of an installed program = %q, %v", kept, err)
	}
}
