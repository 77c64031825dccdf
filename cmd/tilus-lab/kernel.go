package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/kernel"
	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/notebooks"
)

// specFlags adds the flags that say where a kernelspec lies.
func specFlags(cmd *cobra.Command, o *kernel.InstallOptions) {
	f := cmd.Flags()
	f.BoolVar(&o.User, "user", false, "for this user: Jupyter's data directory (the default)")
	f.StringVar(&o.Prefix, "prefix", "", "below `DIR`/share/jupyter")
	f.BoolVar(&o.SysPrefix, "sys-prefix", false, "in the active virtual or Conda environment")
	f.StringVar(&o.Name, "name", "", "`NAME` of the kernelspec (default "+kernel.SpecName+"; gophernotes opens its notebooks)")
	f.BoolVar(&o.Force, "force", false, "also where a kernelspec of another program is in the way")
	cmd.MarkFlagsMutuallyExclusive("user", "prefix", "sys-prefix")
}

func newKernelInstall() *cobra.Command {
	var o kernel.InstallOptions
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Make the notebook kernel known to Jupyter",
		Long: `Write the kernelspec, so that JupyterLab, Notebook, the console, nbclient and VS Code
offer the kernel. It starts this program by its absolute path; from a temporary or
cache folder, a copy in the data directory is made and started.`,
		Example: `  tilus-lab kernel install
  tilus-lab kernel install --sys-prefix`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := onlyFile("--prefix", o.Prefix, "directory", "a kernelspec has several files"); err != nil {
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
			if o.Exe, err = kernel.KeepExe(exe, filepath.Join(data, "bin")); err != nil {
				return err
			}
			dir, err := kernel.Install(o)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Installed %s\n", dir)
			return nil
		},
	}
	specFlags(cmd, &o)
	return cmd
}

func newKernelUninstall() *cobra.Command {
	var o kernel.InstallOptions
	cmd := &cobra.Command{
		Use:     "uninstall",
		Short:   "Take the notebook kernel away from Jupyter",
		Example: "  tilus-lab kernel uninstall --prefix /opt/jupyter",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := kernel.Uninstall(o)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Removed %s\n", dir)
			return nil
		},
	}
	specFlags(cmd, &o)
	return cmd
}

func newKernelDoctor() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Start the kernel as Jupyter would and run a cell",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := checkKernel(cmd.Context())
			if err := printFindings(cmd.OutOrStdout(), []finding{kernelspec(), f}); err != nil {
				return err
			}
			if !f.OK {
				return silent(1)
			}
			return nil
		},
	}
}

// checkKernel starts the kernel of the kernelspec, or of this program where there is
// none, and runs a cell.
func checkKernel(ctx context.Context) finding {
	f := finding{What: "a cell in the kernel", Help: "tilus-lab kernel install --force"}
	var spec struct {
		Argv []string `json:"argv"`
	}
	if exe, err := os.Executable(); err == nil {
		spec.Argv = []string{exe, "kernel", "{connection_file}"}
	}
	if raw, err := os.ReadFile(filepath.Join(jupyterDataDir(os.Getenv), "kernels", kernel.SpecName, "kernel.json")); err == nil {
		if err := json.Unmarshal(raw, &spec); err != nil {
			f.Detail = "kernel.json: " + err.Error()
			return f
		}
	}
	if ctx == nil {
		ctx = context.Background()
	}
	got, err := kernel.Check(ctx, spec.Argv)
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	f.OK = true
	f.Detail = fmt.Sprintf("6 * 7 is %s; ready after %s, the cell took %s", got.Result, got.Ready.Round(time.Millisecond), got.Cell.Round(time.Millisecond))
	return f
}

func newNotebooks() *cobra.Command {
	return &cobra.Command{
		Use:   "notebooks DIR",
		Short: "Write the lessons into a folder",
		Long: `Write the lessons and the data that they read into a folder, which is made if need
be. Files that are there already stay as they are.`,
		Example: "  tilus-lab notebooks lessons",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := onlyFile("DIR", args[0], "directory", "lessons are several files"); err != nil {
				return err
			}
			if err := notebooks.CopyTo(args[0]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The lessons are in %s\n", args[0])
			return nil
		},
	}
}
