//go:build !unix

package cache

// lock does not wait: contents are the same whoever makes them.
func lock(string) func() { return func() {} }
