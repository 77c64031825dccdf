//go:build !linux

package launch

// onCore runs f.
func onCore(_ int, f func()) { f() }
