// Command gen writes the table of documentation: one compressed file for each package that cells can import.
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"io"
	"log"
	"os"
	"os/exec"
	"path"
	"sort"
	"strings"

	"github.com/traefik/yaegi/stdlib"

	"github.com/tilus-lab/tilus-lab/kernel/cell"
	"github.com/tilus-lab/tilus-lab/kernel/docs"
)

func main() {
	log.SetFlags(0)
	want := map[string]bool{"cmp": true, "iter": true, "maps": true, "slices": true}
	for _, tab := range []map[string]bool{keys(stdlib.Symbols), keys(cell.Symbols)} {
		for k := range tab {
			if p := path.Dir(k); p != "." && !strings.HasPrefix(p, "github.com/traefik/") {
				want[p] = true
			}
		}
	}
	var paths []string
	for p := range want {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	list := exec.Command("go", append([]string{"list", "-e", "-f", "{{if not .Error}}{{.ImportPath}} {{.Dir}}{{end}}"}, paths...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		log.Fatal(err)
	}
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		p, dir, ok := strings.Cut(line, " ")
		if !ok {
			continue
		}
		pkg, err := extract(dir, p)
		if err != nil {
			log.Printf("%s: %v", p, err)
			continue
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: p, Method: zip.Deflate})
		if err == nil {
			_, err = io.WriteString(w, docs.Encode(pkg))
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], buf.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}

func keys[V any](m map[string]V) map[string]bool {
	out := map[string]bool{}
	for k := range m {
		out[k] = true
	}
	return out
}
