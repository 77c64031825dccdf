package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/kernel"
	"github.com/tilus-lab/tilus-lab/kernel/link"
)

func newKernel() *cobra.Command {
	return &cobra.Command{
		Use:    "kernel CONNECTION_FILE",
		Short:  "Be the notebook kernel of a connection file; Jupyter calls this",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
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
}
