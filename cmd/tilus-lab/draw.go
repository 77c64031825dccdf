package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/web/answer"
)

func newDraw() *cobra.Command {
	var out, form, name string
	cmd := &cobra.Command{
		Use:   "draw LINK",
		Short: "Draw a picture of a pane of the explorer",
		Long: `Draw what a link to the explorer shows, without a browser: the first picture of its
first pane, or the one called --name. The bytes are those that the page has. LINK may be
an address, the part behind its ?, or a file that was shared.`,
		Example: `  tilus-lab draw '?v=1&p=layout&e=local(2,1).spatial(8,4)' --out layout.svg
  tilus-lab draw '?v=1&p=banks&th=dark' --name banks --as png --out banks.png
  tilus-lab draw 'v=1&p=layout&e=spatial(8,4)' --name threads`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := args[0]
			if raw, err := os.ReadFile(text); err == nil {
				text = string(raw)
			}
			query, err := answer.State(text)
			if err != nil {
				return usageError{err}
			}
			if name != "" {
				query += "&name=" + url.QueryEscape(name)
			}
			if form != "" {
				query += "&as=" + url.QueryEscape(form)
			}
			f, err := answer.Picture(query)
			var none *answer.NoPicture
			if errors.As(err, &none) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			if err := write(cmd, cmp.Or(out, "-"), f.Data); err != nil {
				return fmt.Errorf("draw: %w", err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "write it to `FILE`; without it to standard output")
	f.StringVar(&form, "as", "", "its `FORM`: svg, png, pdf, tikz, json, csv, md, txt or html")
	f.StringVar(&name, "name", "", "the `PICTURE` of the pane, as its caption says; the first one without it")
	return cmd
}
