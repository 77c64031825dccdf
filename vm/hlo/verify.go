package hlo

import "github.com/tilus-lab/tilus-lab/vm/diag"

// Verify checks a module.
func Verify(m *Module) diag.List { return nil }
