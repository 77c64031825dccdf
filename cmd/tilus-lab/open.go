package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/web"
	"github.com/tilus-lab/tilus-lab/web/answer"
)

// maxShared is the largest shared file, in bytes.
const maxShared = 64 << 20

func newOpen() *cobra.Command {
	o := upOptions{port: web.DefaultPort, listen: "127.0.0.1"}
	cmd := &cobra.Command{
		Use:   "open LINK|FILE",
		Short: "Open a shared link or file in the explorer",
		Long: `Open what somebody shared in the explorer that runs, or in a new one: a link to
any explorer, a page that Share made (HTML), or JSON with a member "query". Only
what is shown is taken from it: panes and their values. Opening draws; it runs no
cell and no device, and reads no other file.`,
		Example: `  tilus-lab open "https://example.org/lab/?v=1&p=layout&e=spatial(8,4)"
  tilus-lab open layout.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			state, err := shared(args[0])
			if err != nil {
				return usageError{err}
			}
			o.state = state
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return up(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.noBrowser, "no-browser", false, "only print the address")
	f.IntVar(&o.port, "port", web.DefaultPort, "`PORT` of a new explorer; -1 for any free one")
	return cmd
}

// shared is the address in a link or file.
func shared(what string) (string, error) {
	f, err := os.Open(what)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !strings.Contains(what, "?") {
			return "", err
		}
		if !strings.ContainsAny(what, "?=") {
			return "", fmt.Errorf("%q is neither a file nor a link with an address of panes, such as ?v=1&p=layout", what)
		}
		state, err := answer.State(what)
		if err != nil {
			return "", fmt.Errorf("this is no link to an explorer: %w", err)
		}
		return state, nil
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxShared+1))
	switch {
	case err != nil:
		return "", err
	case len(raw) > maxShared:
		return "", fmt.Errorf("%s has more than %d MB", what, maxShared>>20)
	}
	state, err := answer.State(string(raw))
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return state, nil
}
