//go:build !linux || android || !(amd64 || arm64) || nogpu

package cuda

import "errors"

var libraries []string

func openLibrary([]string) (uintptr, error) {
	return 0, errors.New("this binary is built without foreign libraries")
}

func lookup(lib uintptr, name string) uintptr { return 0 }

//go:uintptrescapes
func call(fn uintptr, args ...uintptr) uintptr { return uintptr(codeNotSupported) }
