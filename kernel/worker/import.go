package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tilus-lab/tilus-lab/kernel/cell"
)

// importSource makes a package outside of what is built in available to cells, from its source in the module cache. Go's
// toolchain finds it there, or downloads it.
func (c *magicCell) importSource(rest string) cell.Outcome {
	path, version, ok := strings.Cut(rest, "@")
	if !ok || path == "" || version == "" || strings.ContainsAny(rest, " \t\"'") {
		return c.wrong("write %import github.com/google/uuid@v1.6.0, for example", "%%import takes one path@version")
	}
	list, err := modulePackages(c.ctx, path, version)
	if err != nil {
		return c.wrong("", "%s cannot be loaded: %v", rest, err)
	}
	if err := c.k.eng.AddPackages(list); err != nil {
		return c.wrong("", "%s cannot be loaded: %v", rest, err)
	}
	return c.goCode("import \"" + path + "\"")
}

// modulePackages lists a package and all that it depends on, dependencies first.
func modulePackages(ctx context.Context, path, version string) ([]cell.SourcePackage, error) {
	dir, err := os.MkdirTemp("", "tilus-lab-import-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module cells\n\ngo 1.26\n"), 0o600); err != nil {
		return nil, err
	}
	run := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GO111MODULE=on", "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if errors.Is(err, exec.ErrNotFound) {
			return nil, errors.New("the Go toolchain, which finds packages in the module cache, is not on this machine")
		}
		if err != nil {
			lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
			return nil, errors.New(strings.TrimPrefix(lines[len(lines)-1], "go: "))
		}
		return out, nil
	}
	if _, err := run("get", path+"@"+version); err != nil {
		return nil, err
	}
	out, err := run("list", "-deps", "-json=ImportPath,Dir,GoFiles,CgoFiles,SFiles,Standard", path)
	if err != nil {
		return nil, err
	}
	var list []cell.SourcePackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p cell.SourcePackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		list = append(list, p)
	}
}
