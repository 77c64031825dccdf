package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/kernel"
	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/kernel/worker"
)

func newKernel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kernel [CONNECTION_FILE]",
		Short: "Install, remove and check the notebook kernel",
		Long: `Be the notebook kernel of a connection file, which is how Jupyter starts it; or
install it, remove it, and see that it works.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			opt := kernel.Options{Exe: []string{exe, "worker"}, Version: version()}
			if data, err := link.DataDir(); err == nil {
				opt.Explorer = link.SocketPath(data)
			}
			return kernel.Run(cmd.Context(), args[0], opt)
		},
	}
	cmd.AddCommand(newKernelInstall(), newKernelUninstall(), newKernelDoctor())
	return cmd
}

func newWorker() *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Short:  "Be the process that evaluates cells; kernel and explorer call this",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if code := worker.Serve(os.Stdin, os.Stdout, methods()); code != 0 {
				return silent(code)
			}
			return nil
		},
	}
}
