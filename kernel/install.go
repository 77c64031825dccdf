package kernel

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"
)

// SpecName is the name of the kernelspec: its folder, and what notebooks store.
const SpecName = "tilus-lab"

// InstallOptions says where the kernelspec goes and what it starts. The zero value is
// the kernelspec tilus-lab of this user, starting this program.
type InstallOptions struct {
	// User is the default place, the Jupyter data directory of this user:
	// $JUPYTER_DATA_DIR, else jupyter in $XDG_DATA_HOME or ~/.local/share, ~/Library/Jupyter
	// on macOS, %APPDATA%\jupyter on Windows. It cannot be combined with the other two.
	User bool
	// Prefix installs below PREFIX/share/jupyter, for example a virtual environment.
	Prefix string
	// SysPrefix is Prefix with the active environment, $VIRTUAL_ENV or $CONDA_PREFIX.
	SysPrefix bool

	Exe  string // program to start, made absolute; empty for this one
	Name string // folder name; empty for SpecName. "gophernotes" opens old notebooks

	// Force replaces a kernelspec of the same name that is not ours.
	Force bool
}

// spec is the content of kernel.json. kernel_protocol_version is left out on purpose:
// from 5.5 on it promises the handshake of JEP 66.
type spec struct {
	Argv          []string       `json:"argv"`
	DisplayName   string         `json:"display_name"`
	Language      string         `json:"language"`
	InterruptMode string         `json:"interrupt_mode"`
	Metadata      map[string]any `json:"metadata"`
}

// ours is the key in a kernelspec's metadata that says who wrote it.
const ours = "tilus_lab"

//go:embed logo.svg
var logoSVG []byte

// Install writes the kernelspec and returns its folder. Nothing changes when it is
// there already; no Python is needed.
func Install(o InstallOptions) (string, error) {
	dir, err := o.dir()
	if err != nil {
		return "", err
	}
	exe := o.Exe
	if exe == "" {
		if exe, err = os.Executable(); err != nil {
			return "", fmt.Errorf("kernel: install: %w", err)
		}
	}
	if exe, err = filepath.Abs(exe); err != nil {
		return "", fmt.Errorf("kernel: install: %w", err)
	}
	if info, err := os.Stat(exe); err != nil {
		return "", fmt.Errorf("kernel: install: %w", err)
	} else if info.IsDir() || runtime.GOOS != "windows" && info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("kernel: install: %s cannot be executed", exe)
	}
	if err := mayReplace(dir); err != nil && !o.Force {
		return "", err
	}
	display := "Tilus Lab (Go)"
	if o.Name != "" && o.Name != SpecName {
		display += " as " + o.Name
	}
	text, err := json.MarshalIndent(spec{
		Argv: []string{exe, "kernel", "{connection_file}"}, DisplayName: display, Language: "go", InterruptMode: "message",
		Metadata: map[string]any{ours: true, "debugger": true},
	}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("kernel: install: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("kernel: install: %w", err)
	}
	for _, f := range []struct {
		name string
		data []byte
	}{
		{"logo-svg.svg", logoSVG}, {"logo-32x32.png", logoPNG(32)}, {"logo-64x64.png", logoPNG(64)},
		// Last, because a folder counts as a kernelspec once it has this file.
		{"kernel.json", append(text, '\n')},
	} {
		if err := writeFile(filepath.Join(dir, f.name), f.data); err != nil {
			return "", fmt.Errorf("kernel: install: %w", err)
		}
	}
	return dir, nil
}

// Uninstall removes the kernelspec that Install with the same options wrote, and
// returns its folder. One that is not there is no error; one that is not ours is.
func Uninstall(o InstallOptions) (string, error) {
	dir, err := o.dir()
	if err != nil {
		return "", err
	}
	if err := mayReplace(dir); err != nil && !o.Force {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("kernel: uninstall: %w", err)
	}
	return dir, nil
}

// KeepExe returns a program path that lasts: exe itself, or a copy in dir when exe lies
// in a temporary or cache folder, as `go run` puts it.
func KeepExe(exe, dir string) (string, error) {
	if !passing(exe) {
		return exe, nil
	}
	name := "tilus-lab"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path := filepath.Join(dir, name)
	err := keep(exe, path)
	if err != nil {
		return "", fmt.Errorf("kernel: keep a copy of %s: %w", exe, err)
	}
	return path, nil
}

// keep copies a program, unless the copy of size and time is there. The system may
// share the blocks of both: a program has tens of megabytes.
func keep(exe, path string) error {
	src, err := os.Open(exe)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	if old, err := os.Stat(path); err == nil && old.Size() == info.Size() && old.ModTime().Equal(info.ModTime()) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, src)
	err = errors.Join(err, f.Chmod(0o755), f.Close())
	if err == nil {
		err = os.Chtimes(f.Name(), time.Time{}, info.ModTime())
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// passing reports whether a program's folder is one that is emptied.
func passing(exe string) bool {
	dirs := []string{os.TempDir()}
	if d, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, d)
	}
	for _, d := range dirs {
		if rel, err := filepath.Rel(d, exe); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return builtRE.MatchString(filepath.ToSlash(filepath.Dir(exe)))
}

// builtRE is where Go's build cache, wherever GOCACHE says it is, has the programs of `go run`.
var builtRE = regexp.MustCompile(`/[0-9a-f]{2}/[0-9a-f]{64}-d$`)

var specNameRE = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// dir is the folder of the kernelspec.
func (o InstallOptions) dir() (string, error) {
	name := o.Name
	if name == "" {
		name = SpecName
	}
	if !specNameRE.MatchString(name) || name == "." || name == ".." {
		return "", fmt.Errorf("kernel: kernelspec name %q: letters, digits, '.', '_' and '-' are allowed", name)
	}
	places := 0
	for _, given := range []bool{o.User, o.Prefix != "", o.SysPrefix} {
		if given {
			places++
		}
	}
	if places > 1 {
		return "", errors.New("kernel: choose one of user, prefix and sys-prefix")
	}
	prefix := o.Prefix
	if o.SysPrefix {
		if prefix = os.Getenv("VIRTUAL_ENV"); prefix == "" {
			prefix = os.Getenv("CONDA_PREFIX")
		}
		if prefix == "" {
			return "", errors.New("kernel: sys-prefix needs an active environment (VIRTUAL_ENV or CONDA_PREFIX is set); use prefix otherwise")
		}
	}
	data := filepath.Join(prefix, "share", "jupyter")
	if prefix == "" {
		var err error
		if data, err = jupyterDataDir(); err != nil {
			return "", err
		}
	}
	dir, err := filepath.Abs(filepath.Join(data, "kernels", name))
	if err != nil {
		return "", fmt.Errorf("kernel: %w", err)
	}
	return dir, nil
}

// jupyterDataDir is where Jupyter looks for this user's kernelspecs.
// Source: jupyter_core.paths.jupyter_data_dir.
func jupyterDataDir() (string, error) {
	if d := os.Getenv("JUPYTER_DATA_DIR"); d != "" {
		return d, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("kernel: no Jupyter data directory: %w", err)
	}
	switch runtime.GOOS {
	case "darwin":
		return filepath.Join(home, "Library", "Jupyter"), nil
	case "windows":
		if d := os.Getenv("APPDATA"); d != "" {
			return filepath.Join(d, "jupyter"), nil
		}
		return filepath.Join(home, ".jupyter", "data"), nil
	}
	if d := os.Getenv("XDG_DATA_HOME"); d != "" {
		return filepath.Join(d, "jupyter"), nil
	}
	return filepath.Join(home, ".local", "share", "jupyter"), nil
}

// mayReplace says whether the folder is free or holds a kernelspec of ours.
func mayReplace(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "kernel.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var s spec
	if err == nil && json.Unmarshal(data, &s) == nil && s.Metadata[ours] == true {
		return nil
	}
	return fmt.Errorf("kernel: %s holds a kernelspec that Tilus Lab did not write; use another name, or force", dir)
}

// writeFile replaces a file whole, and leaves one alone that has this content.
func writeFile(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// logoPNG draws the logo at n×n pixels: a 4×4 tile, two by two slots to a thread, in
// the colours of logo.svg.
func logoPNG(n int) []byte {
	blue, orange := color.RGBA{0x00, 0x72, 0xB2, 255}, color.RGBA{0xE6, 0x9F, 0x00, 255}
	sky, green := color.RGBA{0x56, 0xB4, 0xE9, 255}, color.RGBA{0x00, 0x9E, 0x73, 255}
	rows := [4][4]color.RGBA{
		{blue, blue, orange, orange}, {sky, sky, green, green},
		{orange, orange, blue, blue}, {green, green, sky, sky},
	}
	img := image.NewRGBA(image.Rect(0, 0, n, n))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	for y, row := range rows {
		for x, c := range row {
			x0, y0 := (6+14*x)*n/64, (6+14*y)*n/64
			draw.Draw(img, image.Rect(x0, y0, x0+12*n/64, y0+12*n/64), image.NewUniform(c), image.Point{}, draw.Src)
		}
	}
	var b bytes.Buffer
	// Encoding to memory cannot fail.
	if err := png.Encode(&b, img); err != nil {
		panic(err)
	}
	return b.Bytes()
}
