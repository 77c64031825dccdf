package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/kernel/lab"
)

func newCost() *cobra.Command {
	var defs, argv []string
	var target string
	var blocks int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cost FILE --arg NAME=VALUE…",
		Short: "Say what a launch would cost, without a GPU",
		Long: `Say what a launch would cost on a target: registers of a thread, shared memory,
occupancy, instructions, operations, bytes, sectors per request of global memory and bank
conflicts of shared memory. FILE and --arg are as for run.

Of casts from low-bit types it tells the instructions that the recipe of each takes for
a pair of elements.

Registers and occupancy are estimates, marked est: they follow from the code as
lowered, which the assembler rearranges. The rest is counted by the simulator; of
large grids it runs --blocks blocks, spread evenly, and scales up.`,
		Example: `  tilus-lab cost matmul_f16_i6_f32 --arch sm_80 --arg a=zeros:f16[256, 256] --arg b=zeros:u8[16, 32, 96] --arg c=zeros:f32[256, 256] --arg M=256 --arg N=256 --arg K=256`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := loadFor(cmd, target, args[0], defs)
			if err != nil {
				return err
			}
			launch, err := programArgs(p, argv)
			if err != nil {
				return err
			}
			defer interruptible(cmd)()
			c, err := lab.CostOf(target, blocks, p, launch...)
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "\t")
				return e.Encode(c)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), c, castCosts(p))
			return err
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&argv, "arg", nil, "argument `NAME=VALUE` of a parameter")
	f.StringVar(&target, "arch", compile.DefaultArch, "`TARGET`: "+strings.Join(arch.Names(), ", "))
	f.IntVar(&blocks, "blocks", 64, "run at most `N` blocks; 0 runs all")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	addBindings(cmd, &defs)
	return cmd
}
