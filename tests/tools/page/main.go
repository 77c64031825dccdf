// Command page bundles the TypeScript of the explorer's page, web/page, into the
// files that the product embeds, web/assets. Building the product needs none of it.
//
//	go run -C tests/tools ./page           # write web/assets
//	go run -C tests/tools ./page -check    # exit status 1 where they are not what the sources give
//
// The npm packages are those that tests/setup/web.sh installs, by their lockfile.
// The same sources and packages give the same bytes.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	root := flag.String("root", "../..", "folder of the repository")
	check := flag.Bool("check", false, "compare instead of writing")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	files, err := bundle(root)
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "web", "assets")
	old, err := made(dir)
	if err != nil {
		return err
	}
	var stale []string
	for name, text := range files {
		path := filepath.Join(dir, name)
		have, err := os.ReadFile(path)
		if err == nil && bytes.Equal(have, text) {
			continue
		}
		stale = append(stale, name)
		if !check {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				return err
			}
		}
	}
	for _, name := range old {
		if files[name] != nil {
			continue
		}
		stale = append(stale, name)
		if !check {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	slices.Sort(stale)
	if check && len(stale) > 0 {
		return fmt.Errorf("not what web/page gives: %s; run `go run -C tests/tools ./page` and commit web/assets", strings.Join(stale, ", "))
	}
	for _, name := range stale {
		fmt.Println("wrote", name)
	}
	return nil
}

const licenses = "licenses.txt"

// made lists the files of a folder that this command writes.
func made(dir string) ([]string, error) {
	var out []string
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if strings.HasSuffix(e.Name(), ".js") || e.Name() == licenses {
			out = append(out, e.Name())
		}
	}
	return out, err
}

// bundle gives the contents of all files by name: two pages, what runs before they
// are painted, the editor, which a page loads when it shows one, and what they share.
func bundle(root string) (map[string][]byte, error) {
	source := filepath.Join(root, "web", "page")
	modules := filepath.Join(root, "tests", ".env", "node", "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "lit-html")); err != nil {
		return nil, fmt.Errorf("the npm packages are missing; run `bash tests/setup/web.sh`")
	}
	options := api.BuildOptions{
		AbsWorkingDir:     source,
		Outdir:            filepath.Join(root, "web", "assets"),
		Bundle:            true,
		Splitting:         true,
		Format:            api.FormatESModule,
		Target:            api.ES2022,
		ChunkNames:        "[name]-[hash]",
		MinifySyntax:      true,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		LegalComments:     api.LegalCommentsNone, // the whole licences stand in a file of their own
		NodePaths:         []string{modules},
		// The page's policy allows no style elements, which style-mod makes.
		Alias:    map[string]string{"style-mod": filepath.Join(source, "stylemod.ts")},
		Metafile: true,
		LogLevel: api.LogLevelSilent,
	}
	pages := options
	pages.EntryPoints = []string{"app.ts", "nb.ts"}
	theme := options // runs before the page is painted, so it is no module
	theme.EntryPoints, theme.Splitting, theme.Format = []string{"theme.ts"}, false, api.FormatIIFE
	out := map[string][]byte{}
	packages := map[string]bool{}
	for _, o := range []api.BuildOptions{pages, theme} {
		r := api.Build(o)
		if len(r.Errors) > 0 {
			text := api.FormatMessages(r.Errors, api.FormatMessagesOptions{Kind: api.ErrorMessage})
			return nil, fmt.Errorf("%s", strings.Join(text, ""))
		}
		for _, f := range r.OutputFiles {
			out[filepath.Base(f.Path)] = f.Contents
		}
		// Inputs are named relative to the source folder.
		for _, part := range strings.Split(r.Metafile, `"`) {
			if _, rest, ok := strings.Cut(part, "node_modules/"); ok {
				names := strings.Split(rest, "/")
				if strings.HasPrefix(rest, "@") && len(names) > 1 {
					packages[names[0]+"/"+names[1]] = true
				} else {
					packages[names[0]] = true
				}
			}
		}
	}
	text, err := notices(modules, packages)
	out[licenses] = text
	return out, err
}

// notices are the licences of the packages in a bundle, which must go along with it.
func notices(modules string, packages map[string]bool) ([]byte, error) {
	var names []string
	for name := range packages {
		names = append(names, name)
	}
	slices.Sort(names)
	var b bytes.Buffer
	for _, name := range names {
		found, err := filepath.Glob(filepath.Join(modules, name, "LICENSE*"))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("%s comes without its licence", name)
		}
		text, err := os.ReadFile(found[0])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s\n\n%s\n\n", name, bytes.TrimSpace(text))
	}
	return b.Bytes(), nil
}
