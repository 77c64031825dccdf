package cell

import "reflect"

// Symbols are the packages of Tilus Lab that cells can import, filled by the generated files zsym_*.go.
var Symbols = map[string]map[string]reflect.Value{}

// newer is what the standard library has beyond yaegi's tables, filled by the generated files zstd_*.go.
var newer = map[string]map[string]reflect.Value{}

// Preimported are the import paths that every cell has by their package names.
var Preimported = []string{
	module + "vm/array", module + "vm/build", module + "vm/diag", module + "vm/dtype", module + "vm/ir", module + "vm/layout", module + "vm/layout/cute", module + "vm/layout/linear",
	module + "vm/text", module + "gpu/arch", module + "gpu/model/bank", module + "gpu/model/volta", module + "gpu/model/dispatch", module + "gpu/model/exercise", module + "gpu/model/trace", module + "gpu/notation", module + "gpu/qmm", module + "layoutviz", module + "kernel/lab", module + "kernel/display", module + "kernel/comm",
}

const module = "github.com/tilus-lab/tilus-lab/"

//go:generate go run ./gen
