package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/web/site"
)

func newSite() *cobra.Command {
	var o site.Options
	cmd := &cobra.Command{
		Use:   "site DIR",
		Short: "Write the explorer as files that need no server of ours",
		Long: `Write the explorer into a folder that any file server can show, at any address,
and that also opens from the disk: DIR/index.html. All panes work, in the browser
alone; notebooks and devices are not there. Where such a folder stands for others,
"tilus-lab up --static-base ADDRESS" offers links to it.

The part that runs in the browser is Go compiled to WebAssembly, which needs the go
command: from the module of the current directory or --source, or from the version
that this program is of.`,
		Example: `  tilus-lab site public
  tilus-lab site public --source ~/tilus-lab`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := onlyFile("DIR", args[0], "directory", "a site has several files"); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			o.Dir = args[0]
			files, err := site.Write(ctx, o)
			if err != nil {
				return err
			}
			sum, core := 0, 0
			for _, f := range files {
				sum += f.Bytes
				if f.Name == "core.wasm.gz" {
					core = f.Bytes
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d files, %.1f MB; a browser loads %.1f MB of core once\n", filepath.Join(o.Dir, "index.html"), len(files), float64(sum)/1e6, float64(core)/1e6)
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Source, "source", "", "`FOLDER` of this program's source")
	cmd.Flags().StringVar(&o.Core, "core", "", "`FILE` of the core, built with GOOS=js GOARCH=wasm go build ./web/core")
	return cmd
}
