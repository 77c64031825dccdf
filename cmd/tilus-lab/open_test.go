package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/web"
	"github.com/tilus-lab/tilus-lab/web/answer"
)

func TestShared(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	page, err := answer.Picture("v=1&p=layout&e=spatial(8,+4)&as=html")
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]string{
		write("page.html", page.Data):                               "v=1&p=layout&e=spatial(8,+4)&as=html",
		write("state.json", []byte(`{"query": "v=1&p=banks&b=2"}`)): "v=1&p=banks&b=2",
		"http://127.0.0.1:7717/?token=secret&v=1&p=volta":           "v=1&p=volta",
		"https://lab.example/static/?v=1&p=layout&e=local(2)":       "v=1&p=layout&e=local(2)",
	} {
		if got, err := shared(what); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	for _, what := range []string{"nothing", write("book.ipynb", []byte(`{"cells": []}`)), write("other.html", []byte("<html></html>")), "http://lab.example/?v=0", dir} {
		if got, err := shared(what); err == nil {
			t.Errorf("%s: %q", what, got)
		}
	}
	o := upOptions{state: "v=1&p=banks"}
	if got := o.showing("http://127.0.0.1:7717/?token=abc"); got != "http://127.0.0.1:7717/?token=abc&v=1&p=banks" {
		t.Errorf("it opens %s", got)
	}
}

func TestServing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwords")
	if err := os.WriteFile(file, []byte("run:secret\nlook\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	opt, err := upOptions{listen: "0.0.0.0", passwords: file, cert: "c", key: "k", staticBase: "https://lab.example/"}.serving()
	if err != nil || len(opt.Passwords) != 2 || opt.Passwords[0].Role != web.RoleRun || opt.Passwords[1].Role != web.RoleView || opt.Addr != "0.0.0.0" || opt.StaticBase == "" || opt.Role != "" {
		t.Errorf("%+v, %v", opt, err)
	}
	for want, o := range map[string]upOptions{
		"--listen":      {listen: "example.org"},
		"--role":        {listen: "127.0.0.1", role: "admin"},
		"password file": {listen: "127.0.0.1", passwords: file + "x"},
		"--static-base": {listen: "127.0.0.1", staticBase: "lab"},
	} {
		if _, err := o.serving(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
}
