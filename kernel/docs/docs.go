// Package docs holds what the sources of importable packages say of their names: declarations with the names of parameters, and doc comments.
//
// Cells are checked against reflection, which knows neither. The table is made by `go generate ./kernel/docs` with
// go/doc and embedded, so that nothing at run time needs a toolchain or sources. Each package is compressed on its own: a question reads
// one package, in a few milliseconds at most.
package docs

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"io"
	"sort"
	"strings"
	"sync"
)

//go:generate go run ./gen table.zip
//go:embed table.zip
var table []byte

// Separators of the table: between symbols, and between the parts of one.
const (
	SymbolSep = "\x1e"
	PartSep   = "\x1f"
)

// Symbol is one exported name of a package.
type Symbol struct {
	Name string // "Println", "Buffer.Write" for methods and fields; "" for the package itself
	Decl string // the declaration without its body, as gofmt prints it
	Doc  string // the doc comment as text
}

// Package is what is known of one package.
type Package struct {
	Doc     string
	Symbols []Symbol // sorted by Name
}

// Find returns a symbol of the package.
func (p *Package) Find(name string) (Symbol, bool) {
	if p == nil {
		return Symbol{}, false
	}
	i := sort.Search(len(p.Symbols), func(i int) bool { return p.Symbols[i].Name >= name })
	if i == len(p.Symbols) || p.Symbols[i].Name != name {
		return Symbol{}, false
	}
	return p.Symbols[i], true
}

var files = sync.OnceValue(func() map[string]*zip.File {
	out := map[string]*zip.File{}
	r, err := zip.NewReader(bytes.NewReader(table), int64(len(table)))
	if err != nil {
		panic("docs: the embedded table is damaged: " + err.Error())
	}
	for _, f := range r.File {
		out[f.Name] = f
	}
	return out
})

// read holds the packages that were asked for.
var read sync.Map // import path → *Package

// Of returns what is known of a package, or nil.
func Of(path string) *Package {
	if p, ok := read.Load(path); ok {
		return p.(*Package)
	}
	f := files()[path]
	if f == nil {
		return nil
	}
	r, err := f.Open()
	if err != nil {
		return nil
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	p := Decode(string(text))
	read.Store(path, p)
	return p
}

// Paths lists the import paths of the table, sorted.
func Paths() []string {
	var out []string
	for p := range files() {
		out = append(out, p)
	}
	sort.Strings(out)
	return out
}

// Decode reads one package of the table.
func Decode(text string) *Package {
	p := &Package{}
	for i, s := range strings.Split(text, SymbolSep) {
		parts := strings.SplitN(s, PartSep, 3)
		if i == 0 {
			p.Doc = parts[0]
		} else if len(parts) == 3 {
			p.Symbols = append(p.Symbols, Symbol{parts[0], parts[1], parts[2]})
		}
	}
	return p
}

// Encode is the reverse of Decode. It sorts the symbols.
func Encode(p *Package) string {
	sort.SliceStable(p.Symbols, func(i, j int) bool { return p.Symbols[i].Name < p.Symbols[j].Name })
	var b strings.Builder
	b.WriteString(p.Doc)
	for _, s := range p.Symbols {
		b.WriteString(SymbolSep + s.Name + PartSep + s.Decl + PartSep + s.Doc)
	}
	return b.String()
}

// Size is how many bytes the table adds to the program.
func Size() int { return len(table) }
