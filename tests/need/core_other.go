//go:build !linux

package need

// OnCore runs f; only Linux lets a process choose a core.
func OnCore(_ int, f func()) { f() }
