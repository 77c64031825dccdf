package facts

import (
	_ "embed"
	"strings"
	"sync"
)

// cases says of each instruction of the catalogue which recorded facts check it: a
// line for each, its name and those of the cases. The test of this package writes it.
//
//go:embed cases.txt
var cases string

// CasesOf names the recorded facts that check an instruction of the catalogue, such as
// "cute.json mma_atom/SM80_16x8x16_F32F16F16F32_TN"; none where only tests of gpu/arch do.
func CasesOf(atom string) []string { return casesByAtom()[atom] }

var casesByAtom = sync.OnceValue(func() map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(cases) {
		name, list, _ := strings.Cut(strings.TrimSpace(line), "\t")
		out[name] = strings.Split(list, "\t")
	}
	return out
})
