package cache

import (
	"bytes"
	"debug/elf"
	"os"
	"sync"
)

// Build names the code of this executable, to be part of the keys of what its code makes of
// other things; "" where that is not known, and nothing must be kept.
//
// It is the build ID that Go's linker writes, a hash of all that was linked.
var Build = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	note := f.Section(".note.go.buildid")
	if note == nil {
		return ""
	}
	data, err := note.Data()
	const head = 16 // sizes of name and content, type, "Go\0\0"
	if err != nil || len(data) <= head || string(data[12:15]) != "Go\x00" {
		return ""
	}
	return string(bytes.TrimRight(data[head:], "\x00"))
})
