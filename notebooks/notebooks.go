// Package notebooks carries the lessons, so that a program far from a clone can
// lay them out for its user.
package notebooks

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Files are the lessons and the data that they read.
//
//go:embed *.ipynb data/*.npy data/*.json data/LICENSE data/README.md
var Files embed.FS

// CopyTo writes the lessons into a folder. A file that is there already is left
// as it is: it may hold its user's work.
func CopyTo(dir string) error {
	err := fs.WalkDir(Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		data, err := Files.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := f.Write(data); err != nil {
			f.Close()
			os.Remove(to)
			return err
		}
		return f.Close()
	})
	if err != nil {
		return fmt.Errorf("notebooks: %w", err)
	}
	return nil
}
