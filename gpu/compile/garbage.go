package compile

import (
	"runtime"
	"sync"
)

// room is memory that nothing uses. A compilation leaves 2 to 11 MB behind and keeps next
// to nothing, so that in a process with a heap as small as ours the collector came several
// times in each, for two fifths of its time: it waits until the heap is twice what lives.
// Pages that are never touched are never taken from the machine.
var room struct {
	once sync.Once
	data []byte
}

const roomBytes = 64 << 20

// Collect frees what compilations left behind, so that the next one writes to memory that the
// machine has given already: to be given new pages would be a quarter of its time. It takes some
// milliseconds of cores that nothing else needs, as where a driver makes machine code.
func Collect() { runtime.GC() }

// settle makes the collector wait for more.
func settle() {
	room.once.Do(func() {
		if runtime.GOARCH != "wasm" { // there pages are taken at once
			room.data = make([]byte, roomBytes)
		}
	})
}
