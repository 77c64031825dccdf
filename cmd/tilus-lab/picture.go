package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/layoutviz"
)

// pictureFlags are the flags of every command that draws: a file for each form of
// [layoutviz.Formats], or --out with a file name that says the form, and how the
// picture looks. A form whose name the command uses for something else, such as
// --json, is had with --out alone.
type pictureFlags struct {
	files          map[string]*string // by form
	out            []string
	palette, theme string
}

// addPictureFlags adds the flags; call it after the command's own.
func addPictureFlags(cmd *cobra.Command) *pictureFlags {
	p := &pictureFlags{files: map[string]*string{}}
	f := cmd.Flags()
	for _, x := range layoutviz.Formats() {
		if f.Lookup(x.Name) != nil || x.Name == "json" || x.Name == "txt" {
			continue
		}
		p.files[x.Name] = f.String(x.Name, "", "draw it into `FILE` ("+x.Doc+"; - for standard output)")
	}
	f.StringArrayVar(&p.out, "out", nil, "draw it into `FILE`, in the form that its name ends in: svg, png, pdf, tex, json, csv, md or txt")
	f.StringVar(&p.palette, "palette", "", "cell colours: "+names(layoutviz.Palettes(), func(x layoutviz.Palette) string { return x.Name }))
	f.StringVar(&p.theme, "theme", "", "sheet: "+names(layoutviz.Themes(), func(x layoutviz.Theme) string { return x.Name }))
	return p
}

func names[T any](list []T, name func(T) string) string {
	s := ""
	for i, x := range list {
		switch {
		case i > 0 && i == len(list)-1:
			s += " or "
		case i > 0:
			s += ", "
		}
		s += name(x)
	}
	return s
}

// wanted says whether a file is asked for.
func (p *pictureFlags) wanted() bool {
	for _, file := range p.files {
		if *file != "" {
			return true
		}
	}
	return len(p.out) > 0
}

// options is how the picture is to look.
func (p *pictureFlags) options() layoutviz.Options {
	return layoutviz.Options{Palette: p.palette, Theme: p.theme}
}

// write puts the picture into every file that is asked for.
func (p *pictureFlags) write(cmd *cobra.Command, pic layoutviz.Picture) error {
	put := func(form, file string) error {
		raw, err := layoutviz.Export(pic, form)
		if err != nil {
			return usageError{fmt.Errorf("%s: %w", file, err)}
		}
		return write(cmd, file, raw)
	}
	for _, x := range layoutviz.Formats() {
		if file := p.files[x.Name]; file != nil && *file != "" {
			if err := put(x.Name, *file); err != nil {
				return err
			}
		}
	}
	for _, file := range p.out {
		if err := onlyFile("--out", file, "file whose name says a form", "--svg - and others go to standard output"); err != nil {
			return err
		}
		if err := put(file, file); err != nil {
			return err
		}
	}
	return nil
}
