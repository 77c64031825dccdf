// Targets type-checks this module for systems that it is not run on here, each of them
// GOOS/GOARCH or GOOS/GOARCH,TAG, and prints what does not compile. It takes a tenth of the time of
// cross-builds, since of other modules it reads only what they declare.
//
//	go run ./tests/targets windows/amd64 linux/amd64,nogpu -- ./...
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	flag.Parse()
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	dash := slices.Index(args, "--")
	if dash < 1 || dash == len(args)-1 {
		return errors.New("want targets, as GOOS/GOARCH or GOOS/GOARCH,TAG, then -- and packages")
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	var wrong error
	for _, target := range args[:dash] {
		if err := check(root, target, args[dash+1:]); err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", target, err))
		}
	}
	return wrong
}

// check type-checks the packages that patterns name, of the module at root.
func check(root, target string, patterns []string) error {
	system, tags, _ := strings.Cut(target, ",")
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return errors.New("want GOOS/GOARCH")
	}
	all, err := packages.Load(&packages.Config{
		Mode:       packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedModule,
		Dir:        root,
		Env:        append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch),
		BuildFlags: []string{"-tags=" + tags},
		ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
			file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
			if file != nil && !strings.HasPrefix(name, root+string(filepath.Separator)) {
				for _, d := range file.Decls {
					if f, ok := d.(*ast.FuncDecl); ok {
						f.Body = nil
					}
				}
			}
			return file, err
		},
	}, patterns...)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("no packages")
	}
	var wrong error
	packages.Visit(all, nil, func(p *packages.Package) {
		// Imports that only the bodies of other modules use look unused; that they have files for the target is looked at.
		ours := slices.Contains(all, p) || p.Module != nil && p.Module.Main
		for _, e := range p.Errors {
			if ours || e.Kind == packages.ListError {
				wrong = errors.Join(wrong, e)
			}
		}
	})
	fmt.Printf("%s: %d packages\n", target, len(all))
	return wrong
}
