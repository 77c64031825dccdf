//go:build !linux || android || !(amd64 || arm64) || nogpu

package cuda

import "fmt"

func openLibrary() (uintptr, error) {
	return 0, fmt.Errorf("%w (this binary is built without one)", ErrNoDriver)
}

func lookup(lib uintptr, name string) uintptr { return 0 }

//go:uintptrescapes
func call(fn uintptr, args ...uintptr) uintptr { return uintptr(codeNotSupported) }
