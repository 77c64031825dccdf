package corpus_test

import (
	"slices"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/corpus"
)

func TestIndex(t *testing.T) {
	names := corpus.Names()
	for _, want := range []string{"matmul_f16_i6", "matmul_f16_i6_f32", "rearrange_i6", "matmul_any", "matmul_scaled", "vector_add"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, name := range names {
		if corpus.Program(name) == "" || corpus.Doc(name) == "" {
			t.Errorf("%s has no program or says nothing about itself", name)
		}
	}
	if len(corpus.Errors()) == 0 {
		t.Error("there are no errors")
	}
	for _, name := range corpus.Errors() {
		if len(corpus.Broken(name)) == 0 || corpus.Doc(name) == "" {
			t.Errorf("%s is not found or says nothing about itself", name)
		}
	}
	if corpus.Get("nonsense") != nil || corpus.Program("nonsense") != "" || corpus.Doc("nonsense") != "" {
		t.Error("a program that does not exist is found")
	}
	if corpus.Section("matmul_f16_i6", "nonsense") != "" {
		t.Error("a section that does not exist is found")
	}
}
