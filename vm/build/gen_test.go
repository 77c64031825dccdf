package build

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/ir"
)

var update = flag.Bool("update", false, "write zops.go from the instruction table")

// TestOpsAreFresh holds zops.go to the instruction table.
func TestOpsAreFresh(t *testing.T) {
	want := generate(t)
	if *update {
		if err := os.WriteFile("zops.go", want, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("zops.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("zops.go does not match the instruction table: go generate ./vm/build")
	}
}

// generate prints one method for each op, and one function for each attribute.
func generate(t *testing.T) []byte {
	var b bytes.Buffer
	b.WriteString("// Code generated from the instruction table by gen_test.go; DO NOT EDIT.\n\npackage build\n\n//go:generate go test build.go zops.go gen_test.go -run TestOpsAreFresh -update\n")
	attrs := map[string]bool{}
	for _, op := range ir.Ops() {
		least := len(op.Out)
		for least > 0 && op.Out[least-1].Optional {
			least--
		}
		for n := least; n <= len(op.Out); n++ {
			method(&b, op, n, n > least)
		}
		for _, a := range op.Attrs {
			name := strings.ToUpper(a.Name[:1]) + a.Name[1:]
			if attrs[name] {
				continue
			}
			attrs[name] = true
			fmt.Fprintf(&b, "\n// %s is the attribute %s, a %s: %s.\n", name, a.Name, a.Kind, a.Doc)
			if a.Kind == ir.AttrWord {
				fmt.Fprintf(&b, "func %s(word string) Attr { return Attr(%q + word) }\n", name, a.Name+"=")
			} else if a.Kind == ir.AttrText {
				fmt.Fprintf(&b, "func %s(text string) Attr { return Attr(%q + `\"` + text + `\"`) }\n", name, a.Name+"=")
			} else if a.Kind == ir.AttrNumber {
				fmt.Fprintf(&b, "func %s(value any) Attr { return Attr(%q + operand(value)) }\n", name, a.Name+"=")
			} else {
				fmt.Fprintf(&b, "func %s(values ...any) Attr { return list(%q, values) }\n", name, a.Name)
			}
		}
	}
	src, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.Bytes())
	}
	return src
}

func method(b *bytes.Buffer, op *ir.Op, results int, suffix bool) {
	name := op.Name
	if suffix {
		name += fmt.Sprint(results)
	}
	var params, names, operands, types []string
	for _, o := range op.Out[:results] {
		names = append(names, o.Name)
		params = append(params, o.Name+" string")
		if o.Accept&ir.AcceptScalar == 0 {
			types = append(types, o.Name+"Type")
		}
	}
	for _, in := range op.In {
		kind := " Value"
		if in.Accept&ir.AcceptScalar != 0 {
			kind = " any"
		}
		operands = append(operands, in.Name)
		params = append(params, in.Name+kind)
	}
	for _, t := range types {
		params = append(params, t+" Type")
	}
	attrs := "nil"
	if len(op.Attrs) > 0 {
		params = append(params, "attrs ...Attr")
		attrs = "attrs"
	}
	fmt.Fprintf(b, "\n// %s adds\n//\n//\t%s\n//\n", name, op.Example)
	for _, line := range strings.Split(op.Doc, "\n") {
		fmt.Fprintf(b, "// %s\n", line)
	}
	call := fmt.Sprintf("prog.instr(%q, %s, %s, %s", op.Name, slice("string", names), slice("any", operands), attrs)
	for _, t := range types {
		call += ", " + t
	}
	call += ")"
	head := fmt.Sprintf("func (prog *Builder) %s(%s)", name, strings.Join(params, ", "))
	switch results {
	case 0:
		fmt.Fprintf(b, "%s {\n%s\n}\n", head, call)
	case 1:
		fmt.Fprintf(b, "%s Value {\nreturn %s[0]\n}\n", head, call)
	default:
		var outs []string
		for i := range results {
			outs = append(outs, fmt.Sprintf("results[%d]", i))
		}
		fmt.Fprintf(b, "%s (%s) {\nresults := %s\nreturn %s\n}\n", head, strings.Repeat("Value, ", results-1)+"Value", call, strings.Join(outs, ", "))
	}
}

func slice(elem string, list []string) string {
	if len(list) == 0 {
		return "nil"
	}
	return "[]" + elem + "{" + strings.Join(list, ", ") + "}"
}
