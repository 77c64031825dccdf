package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/assist"
	"github.com/tilus-lab/tilus-lab/kernel"
	"github.com/tilus-lab/tilus-lab/kernel/link"
)

// editorFiles are an extension for VS Code, without its grammar, which is made of the
// tables; TILUS_LAB stands for the path of this program.
//
//go:embed editor
var editorFiles embed.FS

func newEditor() *cobra.Command {
	return &cobra.Command{
		Use:   "editor DIR",
		Short: "Write what an editor needs to know of program text",
		Long: `Write an extension for VS Code into a new folder: colours, the language server
("tilus-lab lsp") and the debugger ("tilus-lab dap"). To use it run npm install in the
folder and put it, or a link to it, below ~/.vscode/extensions. Other editors can use the
TextMate grammar in it, tile.tmLanguage.json, and the two servers.`,
		Example: "  tilus-lab editor ~/.vscode/extensions/tilus-lab && npm install --prefix ~/.vscode/extensions/tilus-lab",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := onlyFile("DIR", args[0], "directory", "an extension has several files"); err != nil {
				return err
			}
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			data, err := link.DataDir()
			if err != nil {
				return err
			}
			if exe, err = kernel.KeepExe(exe, filepath.Join(data, "bin")); err != nil {
				return err
			}
			if err := writeExtension(args[0], exe); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The extension is in %s; npm install there gets the client of the language server.\n", args[0])
			return nil
		},
	}
}

func writeExtension(dir, exe string) error {
	if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
		return usageError{fmt.Errorf("%s is there already; name a new folder, or remove it", dir)}
	} else if err != nil {
		return err
	}
	path, err := json.Marshal(exe)
	if err != nil {
		return err
	}
	files, err := editorFiles.ReadDir("editor")
	if err != nil {
		return err
	}
	for _, f := range files {
		data, err := editorFiles.ReadFile("editor/" + f.Name())
		if err != nil {
			return err
		}
		data = bytes.ReplaceAll(data, []byte(`"TILUS_LAB"`), path)
		if err := os.WriteFile(filepath.Join(dir, f.Name()), data, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "tile.tmLanguage.json"), assist.Grammar(), 0o644)
}
