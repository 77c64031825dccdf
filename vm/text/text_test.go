package text_test

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func TestCorpusRoundTrip(t *testing.T) {
	for _, name := range corpus.Names() {
		src := corpus.Program(name)
		p, err := text.Parse(name, src, nil)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		got := text.Format(p)
		if !strings.Contains(src, "]<") && got != src {
			t.Errorf("%s: prints as\n%s\nstored is\n%s", name, got, src)
		}
		q, err := text.Parse(name, got, nil)
		if err != nil {
			t.Errorf("%s: the printed program does not parse: %v\n%s", name, err, got)
			continue
		}
		if again := text.Format(q); again != got {
			t.Errorf("%s: printed twice differs:\n%s\n%s", name, got, again)
		}
		tidy, err := text.FormatSource(name, src)
		if err != nil || tidy != src {
			t.Errorf("%s: FormatSource gives %v\n%s\nstored is\n%s", name, err, tidy, src)
		}
	}
}
