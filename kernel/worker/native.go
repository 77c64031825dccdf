package worker

import (
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/cell"
	"github.com/tilus-lab/tilus-lab/kernel/native"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// native runs a cell as machine code. The session's variables that it mentions go in,
// and come back with those that it declares.
func (c *magicCell) native(rest string) cell.Outcome {
	if rest != "" {
		return c.wrong("write the code below %%native", "%%%%native takes nothing on its line")
	}
	n := native.Cell{Name: c.name}
	n.Imports, n.Decls, n.Bodies = cell.Sections(c.below())
	mentioned, _ := native.Names(n)
	var in []native.Value
	for _, name := range mentioned {
		if v, ok := c.k.eng.Value(name); ok {
			in = append(in, native.Value{Name: name, Value: v})
		}
	}
	group := func(cmd *exec.Cmd) {
		cmd.SysProcAttr = ownGroup()
		cmd.Cancel = func() error { return killGroup(cmd) }
		cmd.WaitDelay = time.Second
	}
	out, kept, err := native.Run(c.ctx, n, in, native.Streams{Out: stream{c, "stdout"}, Err: stream{c, "stderr"}}, group)
	var problems native.Problems
	switch {
	case c.ctx.Err() != nil:
		return cell.Outcome{Err: &proto.Error{Name: "Interrupted", Value: "interrupted", Traceback: []string{"the native program was interrupted"}}}
	case errors.As(err, &problems):
		e := &proto.Error{Name: "CellError", Value: fmt.Sprintf("%s:%v [Cell.E13]", c.name, problems)}
		for _, p := range problems {
			e.Problems = append(e.Problems, proto.Problem{Line: p.Line, Col: p.Col, Code: "Cell.E13", Msg: p.Msg})
			e.Traceback = append(e.Traceback, fmt.Sprintf("%s:%d:%d: %s [Cell.E13]", c.name, p.Line, p.Col, p.Msg))
		}
		e.Traceback = append(e.Traceback, "    help: native cells have the standard library, and those variables of the session that are numbers, strings, or arrays, slices and maps of them")
		return cell.Outcome{Err: e}
	case err != nil:
		return c.wrong("", "%v", err)
	}
	for _, k := range kept {
		c.printf("note: %s\n", k)
	}
	for _, v := range out {
		if err := c.k.eng.Bind(c.ctx, c.id, v.Name, v.Value.Interface()); err != nil {
			return c.wrong("", "%v", err)
		}
	}
	return cell.Outcome{}
}
