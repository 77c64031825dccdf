package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/lsp"
)

func newLSP() *cobra.Command {
	return &cobra.Command{
		Use:   "lsp",
		Short: "Check, complete and explain programs in an editor (Language Server Protocol)",
		Long: `Speak the Language Server Protocol on standard input and output: what is wrong with a
program while it is written, completion of instructions, attributes, layouts and
names, the manual on hover, layout of the text, and where a name comes from.
"tilus-lab editor DIR" writes what VS Code needs to know of program text.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return lsp.Serve(cmd.Context(), pipes{cmd.InOrStdin(), cmd.OutOrStdout()})
		},
	}
}

// pipes is a connection over two streams.
type pipes struct {
	io.Reader
	io.Writer
}

func (p pipes) Close() error {
	if c, ok := p.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
