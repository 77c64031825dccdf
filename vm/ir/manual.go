package ir

import (
	"fmt"
	"strings"
)

// Manual is the instruction manual as Markdown, made from the table: one section
// for each family, with every op's signature, operands, attributes, rules and
// example, and the rules that hold for all programs.
func Manual() string {
	var b strings.Builder
	b.WriteString("# Instructions\n\nMade from the instruction table (vm/ir/ops.go).\n")
	for _, family := range Families() {
		fmt.Fprintf(&b, "\n## %s%s\n", strings.ToUpper(family[:1]), family[1:])
		for _, op := range table {
			if op.Family == family {
				op.manual(&b)
			}
		}
	}
	b.WriteString("\n## Rules of all programs\n\n")
	rules(&b, general)
	return b.String()
}

// Families are the families of ops in the order of the manual.
func Families() []string {
	var names []string
	seen := map[string]bool{}
	for _, op := range table {
		if !seen[op.Family] {
			seen[op.Family] = true
			names = append(names, op.Family)
		}
	}
	return names
}

func rules(b *strings.Builder, docs []RuleDoc) {
	for _, r := range docs {
		fmt.Fprintf(b, "- `%s` %s", r.Code, r.Text)
		if r.Why != "" {
			fmt.Fprintf(b, " *%s*", r.Why)
		}
		b.WriteByte('\n')
	}
}

// Manual is the op's section of the manual.
func (op *Op) Manual() string {
	var b strings.Builder
	op.manual(&b)
	return strings.TrimPrefix(b.String(), "\n")
}

func (op *Op) manual(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n```\n%s\n```\n\n%s\n", op.Name, op.Signature(), op.Doc)
	var facts []string
	if len(op.Aliases) > 0 {
		facts = append(facts, "Also written "+strings.Join(op.Aliases, ", ")+".")
	}
	facts = append(facts, "Class: "+op.Class.String()+".")
	if effects := op.Effects.String(); effects != "" {
		facts = append(facts, "It "+effects+".")
	}
	fmt.Fprintf(b, "\n%s\n", strings.Join(facts, " "))
	var items []string
	for _, p := range op.In {
		items = append(items, portText("operand", p))
	}
	for _, p := range op.Out {
		items = append(items, portText("result", p))
	}
	for _, a := range op.Attrs {
		need := "optional"
		if a.Required {
			need = "required"
		}
		kind := a.Kind.String()
		if len(a.Words) > 1 {
			kind = "one of " + strings.Join(a.Words, ", ")
		} else if len(a.Words) == 1 {
			kind = a.Words[0]
		}
		items = append(items, fmt.Sprintf("attribute `%s` (%s; %s): %s", a.Name, kind, need, a.Doc))
	}
	if len(items) > 0 {
		b.WriteString("\n- " + strings.Join(items, "\n- ") + "\n")
	}
	if len(op.Rules) > 0 {
		b.WriteString("\nRules:\n\n")
		docs := make([]RuleDoc, len(op.Rules))
		for i, r := range op.Rules {
			docs[i] = RuleDoc{op.Code(i), r.Text, r.Why}
		}
		rules(b, docs)
	}
	fmt.Fprintf(b, "\nExample:\n\n```\n%s\n```\n\nSince %s. Source: %s.\n", op.Example, op.Since, op.Source)
}

func portText(role string, p Port) string {
	s := fmt.Sprintf("%s `%s`: %s", role, p.Name, p.Accept)
	if p.Optional {
		s += ", may be left out"
	}
	if p.Doc != "" {
		s += ": " + p.Doc
	}
	return s
}

// String says what an instruction does, or "" for nothing beyond its results.
func (e Effects) String() string {
	var parts []string
	if e&ReadsGlobal != 0 {
		parts = append(parts, "reads global memory")
	}
	if e&WritesGlobal != 0 {
		parts = append(parts, "writes global memory")
	}
	if e&ReadsShared != 0 {
		parts = append(parts, "reads shared memory")
	}
	if e&WritesShared != 0 {
		parts = append(parts, "writes shared memory")
	}
	if e&Async != 0 {
		parts = append(parts, "takes part in asynchronous copies")
	}
	if e&Synchronizes != 0 {
		parts = append(parts, "synchronises")
	}
	return strings.Join(parts, " and ")
}
