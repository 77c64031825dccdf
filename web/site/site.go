// Package site writes the explorer as files that any file server, or none, can
// show: the server's own page and assets, and in the server's place the answers of
// web/answer compiled to WebAssembly.
//
// What is there: all panes, pictures in all forms, links. What is not: notebooks,
// devices, variables of kernels. A page opened as a file (file:) may fetch nothing,
// so modules and core lie there as scripts too.
package site

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/tilus-lab/tilus-lab/web"
)

//go:embed boot.js worker.js
var scripts embed.FS

// corePackage is the program that the browser runs.
const corePackage = "github.com/tilus-lab/tilus-lab/web/core"

// Options say what to write where.
type Options struct {
	Dir    string // folder to write; made where it is not there
	Core   string // file of the compiled core; empty to build it with Go
	Source string // folder of the module's source to build it from; empty for that of the current directory, or this version from the module proxy
}

// File is a file that was written.
type File struct {
	Name  string
	Bytes int
}

// Write writes the explorer and returns the files.
func Write(ctx context.Context, o Options) ([]File, error) {
	core, exec, err := o.core(ctx)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		panic(err) // the level exists
	}
	if _, err := z.Write(core); err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	files, err := pages(packed.Bytes(), exec)
	if err != nil {
		return nil, err
	}
	var out []File
	for _, f := range files {
		to := filepath.Join(o.Dir, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return nil, fmt.Errorf("site: %w", err)
		}
		if err := os.WriteFile(to, f.data, 0o644); err != nil {
			return nil, fmt.Errorf("site: %w", err)
		}
		out = append(out, File{f.name, len(f.data)})
	}
	return out, nil
}

type file struct {
	name string
	data []byte
}

var moduleScript = regexp.MustCompile(`<script type="module" src="([^"]+)"></script>`)

// pages are all files of a site.
func pages(packed []byte, exec string) ([]file, error) {
	var out []file
	assets := web.Assets()
	modules := map[string]string{}
	err := fs.WalkDir(assets, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(p, ".html") {
			return err
		}
		data, err := fs.ReadFile(assets, p)
		if err != nil {
			return err
		}
		if strings.HasSuffix(p, ".js") {
			modules[p[strings.LastIndex(p, "/")+1:]] = string(data)
		}
		out = append(out, file{"assets/" + p, data})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	page, err := fs.ReadFile(assets, "page.html")
	if err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	t, err := template.New("page").Parse(string(page))
	if err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, map[string]any{"Prefix": "./", "Picture": "./assets/icon.svg", "Notebook": false, "Embed": false}); err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	// The page's module is started by boot.js, after it has taken the socket's place.
	m := moduleScript.FindSubmatch(b.Bytes())
	if m == nil {
		return nil, errors.New("site: page.html starts no module")
	}
	html := bytes.Replace(b.Bytes(), m[0], fmt.Appendf(nil, `<script src="./site.js" data-main="%s"></script>`, m[1]), 1)
	out = append(out, file{"index.html", html})
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // strings always encode
		}
		return string(b)
	}
	read := func(name string) string {
		b, err := scripts.ReadFile(name)
		if err != nil {
			panic(err) // the file is embedded
		}
		return string(b)
	}
	return append(out,
		file{"site.js", []byte("const workerText = " + text(exec+"\n"+read("worker.js")) + ";\n" + read("boot.js"))},
		file{"modules.js", []byte("window.tilusModules = " + text(modules) + ";\n")},
		file{"core.wasm.gz", packed},
		file{"core.js", []byte("window.tilusCore = \"" + base64.StdEncoding.EncodeToString(packed) + "\";\n")},
		file{".nojekyll", nil}), nil
}

// core is the compiled core with the script of the same Go that starts it.
func (o Options) core(ctx context.Context) (core []byte, script string, err error) {
	tool, err := exec.LookPath("go")
	if err != nil {
		return nil, "", errors.New("site: the core is built with Go, which is not on PATH; install it from https://go.dev/dl, or write the site on a machine that has it: the files work anywhere")
	}
	root, err := output(ctx, "", nil, tool, "env", "GOROOT")
	if err != nil {
		return nil, "", err
	}
	for _, p := range []string{"lib/wasm/wasm_exec.js", "misc/wasm/wasm_exec.js"} { // since Go 1.24, before
		if b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p))); err == nil {
			script = string(b)
			break
		}
	}
	if script == "" {
		return nil, "", fmt.Errorf("site: the Go in %s has no wasm_exec.js", root)
	}
	if o.Core != "" {
		core, err = os.ReadFile(o.Core)
		if err == nil && !bytes.HasPrefix(core, []byte("\x00asm")) {
			err = fmt.Errorf("%s is no WebAssembly", o.Core)
		}
		if err != nil {
			return nil, "", fmt.Errorf("site: the core: %w", err)
		}
		return core, script, nil
	}
	tmp, err := os.MkdirTemp("", "tilus-site")
	if err != nil {
		return nil, "", fmt.Errorf("site: %w", err)
	}
	defer os.RemoveAll(tmp)
	built := filepath.Join(tmp, "core.wasm")
	env := []string{"GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS="}
	dir := o.Source
	if dir == "" {
		if d, err := output(ctx, "", nil, tool, "list", "-m", "-f", "{{.Dir}}", "github.com/tilus-lab/tilus-lab"); err == nil {
			dir = d
		}
	}
	if dir == "" {
		// A module of its own that needs this version, as `go install` would make it.
		info, ok := debug.ReadBuildInfo()
		if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
			return nil, "", errors.New("site: this program was built from a working tree; run it inside of that tree, or name it with --source")
		}
		dir = tmp
		mod := fmt.Sprintf("module site\n\ngo 1.26\n\nrequire github.com/tilus-lab/tilus-lab %s\n", info.Main.Version)
		if err := os.WriteFile(filepath.Join(tmp, "go.mod"), []byte(mod), 0o644); err != nil {
			return nil, "", fmt.Errorf("site: %w", err)
		}
		env = append(env, "GOFLAGS=-mod=mod")
	}
	if _, err := output(ctx, dir, env, tool, "build", "-trimpath", "-ldflags=-s -w", "-o", built, corePackage); err != nil {
		return nil, "", err
	}
	if core, err = os.ReadFile(built); err != nil {
		return nil, "", fmt.Errorf("site: %w", err)
	}
	return core, script, nil
}

// output runs a command and returns what it printed; the error has its complaints.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("site: %s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, &complaints)
	}
	return strings.TrimSpace(string(out)), nil
}
