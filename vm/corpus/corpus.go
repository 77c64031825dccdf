// Package corpus holds the example programs of Tilus Lab, one idea a file, as
// txtar archives: a comment that says what the program shows, `prog.tile` with
// its text as [text.FormatSource] prints it, and sections that tests add.
//
// Most instructions have an archive of their name, in snake case: with the texts that
// break its rules, its lowered text, arguments and results, the same on all machines.
// Files in errors/ break rules that are no single instruction's. The line that breaks a
// rule ends with `// want CODE`. Files in bugs/ verify and go wrong when they run: the line at which
// interpreter or simulator stops ends with the codes of their errors.
package corpus

import (
	"embed"
	"io/fs"
	"sort"
	"strings"
	"unicode"

	"github.com/rogpeppe/go-internal/txtar"
)

//go:embed *.txtar errors/*.txtar bugs/*.txtar
var files embed.FS

// ProgramFile is the section that holds a program's text.
const ProgramFile = "prog.tile"

// Names are the programs in alphabetical order, without the errors.
func Names() []string { return list(".") }

// Errors are the names of the archives that break rules: of those of errors/, for
// what is no instruction's, and of the programs with sections errors.tile,
// errors2.tile, …, which break the rules of what the program shows.
func Errors() []string {
	names := list("errors")
	for _, name := range Names() {
		if len(Broken(name)) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// Broken are the texts of an archive that break rules, by section.
func Broken(name string) []txtar.File {
	a := Get(name)
	if a == nil {
		return nil
	}
	if strings.HasPrefix(name, "errors/") {
		return a.Files
	}
	var files []txtar.File
	for _, f := range a.Files {
		if strings.HasPrefix(f.Name, "errors") {
			files = append(files, f)
		}
	}
	return files
}

// Of is the name of the archive that shows an instruction: "LoadGlobal" has
// load_global. It need not exist.
func Of(op string) string {
	var b strings.Builder
	for i, r := range op {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
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
