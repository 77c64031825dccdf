//go:build linux && !android && (amd64 || arm64) && !nogpu

package cuda

import "github.com/ebitengine/purego"

// libraries are the names the driver is looked for under: the loader's search path first, then the
// directories in which containers and WSL mount it without telling the loader.
var libraries = []string{
	"libcuda.so.1",
	"/usr/local/nvidia/lib64/libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
}

// openLibrary loads the first of these libraries that there is.
func openLibrary(names []string) (uintptr, error) {
	var first error
	for _, name := range names {
		lib, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err == nil {
			return lib, nil
		}
		if first == nil {
			first = err
		}
	}
	return 0, first
}

// lookup gives the address of a driver function, or 0. It is Dlsym and not RegisterLibFunc because
// the latter panics on a missing symbol and allocates on each call.
func lookup(lib uintptr, name string) uintptr {
	fn, err := purego.Dlsym(lib, name)
	if err != nil {
		return 0
	}
	return fn
}

// call calls the C function at fn; pointers converted to uintptr in the argument list stay alive
// and in place until it returns.
//
//go:uintptrescapes
func call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
