package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sort"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/kernel/lab"
	"github.com/tilus-lab/tilus-lab/vm/debug/dap"
)

func newDAP() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "dap",
		Short: "Debug programs from an editor (Debug Adapter Protocol)",
		Long: `Speak the Debug Adapter Protocol on standard input and output, for VS Code and other
editors. A program runs on the reference interpreter or on the simulator of a GPU:
breakpoints with conditions of its scalars (k == 3), steps into and over loops, steps
back and back to a breakpoint, what each thread holds of each tile, and a stop where
the program goes wrong.

A launch has
  program      file of program text, or the name of an example program
  args         an object: for each parameter text such as --arg of "tilus-lab run" takes
  define       an object: compile-time parameters, as -D
  device       "interp", "sim", or "sim:sm_80" for a target; interp if left out
  stopOnEntry  true to stop in front of the first statement`,
		Example: `  tilus-lab dap
  tilus-lab dap --listen 127.0.0.1:4711`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			launch := func(raw json.RawMessage) (*dap.Launched, error) { return launchDebug(cmd, raw) }
			if listen == "" {
				return dap.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), launch)
			}
			host, _, err := net.SplitHostPort(listen)
			if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
				return usageError{fmt.Errorf("--listen %s: a debugger reads files and has no password; write --listen 127.0.0.1:PORT", listen)}
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			stop := contextClose(cmd, l)
			defer stop()
			fmt.Fprintf(cmd.ErrOrStderr(), "listening on %s\n", l.Addr())
			for {
				c, err := l.Accept()
				if cmd.Context().Err() != nil {
					return nil
				}
				if err != nil {
					return err
				}
				go func() {
					defer c.Close()
					defer contextClose(cmd, c)()
					if err := dap.Serve(cmd.Context(), c, c, launch); err != nil && cmd.Context().Err() == nil {
						fmt.Fprintln(cmd.ErrOrStderr(), err)
					}
				}()
			}
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "wait for editors at a loopback `ADDRESS` instead")
	return cmd
}

// contextClose closes c when the command ends, so that whoever waits for it stops.
func contextClose(cmd *cobra.Command, c interface{ Close() error }) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-cmd.Context().Done():
			c.Close()
		case <-done:
		}
	}()
	return func() { close(done) }
}

// launchDebug begins what a launch request asks for.
func launchDebug(cmd *cobra.Command, raw json.RawMessage) (*dap.Launched, error) {
	var a struct {
		Program     string         `json:"program"`
		Args        map[string]any `json:"args"`
		Define      map[string]any `json:"define"`
		Device      string         `json:"device"`
		StopOnEntry bool           `json:"stopOnEntry"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&a); err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	if a.Program == "" || a.Program == "-" {
		return nil, errors.New(`launch: "program" names no file of program text`)
	}
	bind := map[string]string{}
	for name, v := range a.Define {
		bind[name] = fmt.Sprint(v)
	}
	p, err := loadProgram(cmd, a.Program, bind)
	if err != nil {
		return nil, err
	}
	var argv []string
	for name, v := range a.Args {
		argv = append(argv, fmt.Sprintf("%s=%v", name, v))
	}
	sort.Strings(argv)
	args, err := programArgs(p, argv)
	if err != nil {
		return nil, fmt.Errorf(`launch: "args": %w`, err)
	}
	s, err := lab.DebugOn(cmp.Or(a.Device, "interp"), p, args...)
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(a.Program)
	if err != nil {
		return nil, err
	}
	return &dap.Launched{Session: s, Path: path, Stop: a.StopOnEntry}, nil
}
