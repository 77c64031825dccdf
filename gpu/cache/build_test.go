package cache

import (
	"runtime"
	"strings"
	"testing"
)

func TestBuild(t *testing.T) {
	id := Build()
	if runtime.GOOS == "linux" && strings.Count(id, "/") != 3 {
		t.Errorf("the build ID is %q", id)
	}
}
