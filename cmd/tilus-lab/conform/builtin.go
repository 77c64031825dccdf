package conform

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
)

// builtin is tests/testdata/cases, so that a program far from a clone can check itself.
//
//go:embed cases.zip
var builtin []byte

// Builtin reads the cases that came with the program, file by file.
func Builtin() ([]Case, error) {
	z, err := zip.NewReader(bytes.NewReader(builtin), int64(len(builtin)))
	if err != nil {
		return nil, fmt.Errorf("conform: %w", err)
	}
	var all []Case
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("conform: %s: %w", f.Name, err)
		}
		cases, err := Read(f.Name, r)
		r.Close()
		if err != nil {
			return nil, err
		}
		all = append(all, cases...)
	}
	return all, nil
}
