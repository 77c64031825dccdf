//go:build !linux

package session

import "os/exec"

// dieWithParent does nothing here: a worker ends when its input pipe closes.
func dieWithParent(*exec.Cmd) {}
