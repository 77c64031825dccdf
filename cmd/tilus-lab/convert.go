package main

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/notation"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

func newConvert() *cobra.Command {
	var asJSON bool
	var shape string
	var lanes int
	cmd := &cobra.Command{
		Use:   "convert EXPR NOTATION",
		Short: "Write a layout in another notation",
		Long: `Write a layout in another notation: ` + strings.Join(notation.Forms(), ", ") + `.

EXPR is a layout in any notation, as for "tilus-lab layout". The result reads back
as the same map. Where the notation cannot say it, the reason is an error.`,
		Example: `  tilus-lab convert "local(2, 1).spatial(8, 4).local(1, 2)" cute
  tilus-lab convert "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}> on 8x64" cute
  tilus-lab convert mma.m16n8k16.f32.f16/A linear`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := readLayout(cmd, args[0], shape, lanes)
			if err != nil {
				return showLayoutError(cmd.ErrOrStderr(), args[0], err)
			}
			if !asJSON {
				return printForm(cmd.OutOrStdout(), v, args[1])
			}
			type doc struct {
				Recognised string `json:"recognised"`
				Operand    string `json:"operand,omitempty"`
				Notation   string `json:"notation"`
				Text       string `json:"text,omitempty"`
				Reason     string `json:"reason,omitempty"`
			}
			var docs []doc
			for _, part := range v.Parts() {
				d := doc{Recognised: v.Form(), Notation: args[1]}
				if o, ok := part.Operand(); ok {
					d.Operand = o.Name
				}
				if d.Text, err = part.To(args[1]); err != nil {
					var p diag.Problem
					if !errors.As(err, &p) {
						return err
					}
					d.Reason = p.Msg
				}
				docs = append(docs, d)
			}
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetEscapeHTML(false)
			return enc.Encode(docs)
		},
	}
	cmd.SetFlagErrorFunc(aboutDashes)
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print a list of JSON objects, one for each operand of an instruction")
	f.IntVar(&lanes, "lanes", 32, "`NUMBER` of lanes of a warp in linear forms")
	f.StringVar(&shape, "shape", "", "`SHAPE` of the tile or tensor, such as 16x8")
	return cmd
}
