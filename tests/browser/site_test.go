package browser

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

// The static explorer needs nothing of ours to be shown: a plain file server does,
// and the disk.
func TestSite(t *testing.T) {
	f := find(t)
	dir := t.TempDir()
	public := filepath.Join(dir, "some", "folder")
	cmd := exec.Command(need.Program(t), "site", public)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	// Go's file server knows the type of neither .wasm.gz nor anything else of ours.
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	f.script(t, "site.mjs", server.URL+"/some/folder/", "file://"+filepath.Join(public, "index.html"))
}
