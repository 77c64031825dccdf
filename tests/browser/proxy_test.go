package browser

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

// freePort is a port that nobody listens on. It lies below those that the system gives to whoever asks for any, so that none is
// given it before the server for which it is meant listens.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.IntN(20_000)
		if ln, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			ln.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// The explorer behind the real jupyter-server-proxy, under the base URL that it has
// there.
func TestServerProxy(t *testing.T) {
	f := find(t)
	py := need.Jupyter(t)
	proxy := filepath.Join(need.Root(t), "tests", ".env", "serverproxy")
	if _, err := os.Stat(filepath.Join(proxy, ".requirements")); err != nil {
		t.Skip("jupyter-server-proxy not found; run `bash tests/setup/serverproxy.sh`")
	}
	exe := need.Program(t)
	h := newHome(t)
	outer, inner := freePort(t), freePort(t)
	base := fmt.Sprintf("http://127.0.0.1:%d/user/ada/proxy/%d/", outer, inner)

	jupyter := exec.Command(py, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", fmt.Sprint("--ServerApp.port=", outer),
		"--ServerApp.port_retries=0", "--ServerApp.base_url=/user/ada/", "--IdentityProvider.token=tilus", "--ServerApp.root_dir="+h.notebooks,
		`--ServerApp.jpserver_extensions={"jupyter_server_proxy": True}`)
	jupyter.Dir, jupyter.Env = h.dir, h.env("PYTHONPATH="+proxy)
	start(t, jupyter, func(string) {})

	up := exec.Command(exe, "up", "--no-browser", "--port", fmt.Sprint(inner), "--base-url", base, "--notebooks", h.notebooks)
	up.Dir, up.Env = h.dir, h.env()
	printed := make(chan string, 1)
	start(t, up, func(line string) {
		if address, ok := strings.CutPrefix(line, "Explorer  "); ok {
			printed <- address
		}
	})
	var address string
	select {
	case address = <-printed:
	case <-time.After(startLimit):
		t.Fatal("tilus-lab up prints no address")
	}
	if !strings.HasPrefix(address, base+"?token=") {
		t.Fatalf("the address is %s, want one under %s", address, base)
	}
	login := fmt.Sprintf("http://127.0.0.1:%d/user/ada/", outer)
	for end := time.Now().Add(startLimit); ; time.Sleep(100 * time.Millisecond) {
		if r, err := http.Get(login + "api/status?token=tilus"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatalf("Jupyter does not answer after %s", startLimit)
		}
	}
	f.script(t, "proxy.mjs", login, address)
}
