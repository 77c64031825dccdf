// Package corpus holds the example programs of Tilus Lab, one idea a file, as
// txtar archives: a comment that says what the program shows, `prog.tile` with
// its text as [text.FormatSource] prints it, and sections that tests add.
//
// Files in errors/ break numbered rules: the line that breaks a rule ends with
// `// want CODE`. Files in bugs/ verify and go wrong when they run: the line at which
// interpreter or simulator stops ends with the codes of their errors.
package corpus

import (
	"embed"
	"io/fs"
	"sort"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

//go:embed *.txtar errors/*.txtar bugs/*.txtar
var files embed.FS

// ProgramFile is the section that holds a program's text.
const ProgramFile = "prog.tile"

// Names are the programs in alphabetical order, without the errors.
func Names() []string { return list(".") }

// ErrorsFile is the section of a program's archive that breaks the rules of what the
// program shows.
const ErrorsFile = "errors.tile"

// Errors are the names of the archives that break rules, like "errors/view", and of the
// programs that have an [ErrorsFile].
func Errors() []string {
	names := list("errors")
	for _, name := range Names() {
		if Section(name, ErrorsFile) != "" {
			names = append(names, name)
		}
	}
	return names
}

// Bugs are the names of the programs that go wrong, like "bugs/race_shared".
func Bugs() []string { return list("bugs") }

func list(dir string) []string {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		panic("corpus: " + err.Error()) // embedded
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".txtar"); ok {
			if dir != "." {
				name = dir + "/" + name
			}
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// Get is the archive of a name of [Names], [Errors] or [Bugs], or nil.
func Get(name string) *txtar.Archive {
	data, err := files.ReadFile(name + ".txtar")
	if err != nil {
		return nil
	}
	return txtar.Parse(data)
}

// Program is the text of a program, or "" if there is none of that name.
func Program(name string) string { return Section(name, ProgramFile) }

// Section is the text of one file of an archive, or "".
func Section(name, file string) string {
	a := Get(name)
	if a == nil {
		return ""
	}
	for _, f := range a.Files {
		if f.Name == file {
			return string(f.Data)
		}
	}
	return ""
}

// Doc is what the archive says about itself: its first lines.
func Doc(name string) string {
	a := Get(name)
	if a == nil {
		return ""
	}
	return strings.TrimSpace(string(a.Comment))
}
