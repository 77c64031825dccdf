package web

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/crypto/bcrypt"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

func TestReadPasswords(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("runs"), bcrypt.MinCost)
	must(t, err)
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		must(t, os.WriteFile(p, []byte(text), mode))
		must(t, os.Chmod(p, mode))
		return p
	}
	all, err := ReadPasswords(file("both", "# people\nplain\nrun:"+string(hash)+"\n", 0o600), RoleView)
	must(t, err)
	if len(all) != 2 || all[0].Role != RoleView || all[1].Role != RoleRun || bcrypt.CompareHashAndPassword(all[0].Hash, []byte("plain")) != nil {
		t.Errorf("read %v", all)
	}
	// What htpasswd writes has another letter for the same algorithm.
	all, err = ReadPasswords(file("htpasswd", "view:"+strings.Replace(string(hash), "$2a$", "$2y$", 1)+"\n", 0o644), RoleRun)
	must(t, err)
	if len(all) != 1 || all[0].Role != RoleView || bcrypt.CompareHashAndPassword(all[0].Hash, []byte("runs")) != nil {
		t.Errorf("read %v", all)
	}
	for name, path := range map[string]string{
		"chmod 600":      file("open", "plain\n", 0o644),
		"no password":    file("empty", "\n# nothing\n", 0o600),
		"no such file":   filepath.Join(dir, "nothing"),
		"password lengt": file("long", strings.Repeat("x", 100), 0o600),
		"more than 6553": file("large", "run:"+string(hash)+"\n"+strings.Repeat("# \n", 1<<15), 0o600),
	} {
		if _, err := ReadPasswords(path, RoleView); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What runs code, and passwords, need encryption beyond this machine.
func TestListening(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost)
	must(t, err)
	look, run := []Password{{RoleView, hash}}, []Password{{RoleRun, hash}}
	for _, c := range []struct {
		o    Options
		want string // role of the token, or what the error says
	}{
		{Options{}, "run"},
		{Options{Addr: "::1"}, "run"},
		{Options{Role: RoleView}, "view"},
		{Options{Addr: "0.0.0.0"}, "view"},
		{Options{Addr: "0.0.0.0", Role: RoleRun}, "needs TLS"},
		{Options{Addr: "0.0.0.0", Passwords: look}, "need TLS"},
		{Options{Addr: "0.0.0.0", Passwords: run}, "needs TLS"},
		{Options{Passwords: run}, "run"},
		{Options{Addr: "0.0.0.0", Role: RoleRun, BaseURL: "https://lab.example/x/"}, "run"},
		{Options{Addr: "0.0.0.0", Role: RoleRun, TLSCert: "c"}, "belong together"},
	} {
		c.o.DataDir = t.TempDir()
		s, err := newServer(c.o)
		switch {
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%+v: %v, want %s", c.o, err, c.want)
		case err == nil && string(s.opt.Role) != c.want:
			t.Errorf("%+v: role %s, want %s", c.o, s.opt.Role, c.want)
		}
		if err == nil {
			s.close()
		}
	}
}

// selfSigned writes a certificate for 127.0.0.1 and returns who trusts it.
func selfSigned(t *testing.T) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	must(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	must(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	c := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must(t, os.WriteFile(cert, c, 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600))
	trust = x509.NewCertPool()
	trust.AppendCertsFromPEM(c)
	return cert, key, trust
}

// Listening on all addresses, with TLS and passwords of both roles: who views sees
// pictures and notebooks and runs nothing.
func TestRoles(t *testing.T) {
	cert, key, trust := selfSigned(t)
	var passwords []Password
	for role, word := range map[Role]string{RoleView: "looks", RoleRun: "runs"} {
		hash, err := bcrypt.GenerateFromPassword([]byte(word), bcrypt.MinCost)
		must(t, err)
		passwords = append(passwords, Password{role, hash})
	}
	data := need.Scratch(t)
	root := t.TempDir()
	must(t, os.WriteFile(filepath.Join(root, "01-first.ipynb"), []byte(smallBook), 0o644))
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- Serve(ctx, Options{Addr: "0.0.0.0", Port: -1, DataDir: data, Root: root, Passwords: passwords, TLSCert: cert, TLSKey: key, Ready: func(s string) { ready <- s }})
	}()
	defer func() {
		stop()
		must(t, <-ended)
	}()
	var start string
	select {
	case start = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	u, err := url.Parse(start)
	must(t, err)
	if u.Scheme != "https" {
		t.Errorf("start address %s", start)
	}
	base := "https://127.0.0.1:" + u.Port()
	secure := &tls.Config{RootCAs: trust}
	person := func() *http.Client {
		jar, err := cookiejar.New(nil)
		must(t, err)
		return &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}
	}
	login := func(c *http.Client, word, origin string) (int, string, *url.URL) {
		form := url.Values{"password": {word}, "next": {"/?v=1&p=layout&e=local(3)"}}
		r, err := http.NewRequest("POST", base+"/login", strings.NewReader(form.Encode()))
		must(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w, err := c.Do(r)
		must(t, err)
		defer w.Body.Close()
		body, err := io.ReadAll(w.Body)
		must(t, err)
		return w.StatusCode, string(body), w.Request.URL
	}

	c := person()
	w, err := c.Get(base + "/?v=1&p=layout")
	must(t, err)
	body, err := io.ReadAll(w.Body)
	w.Body.Close()
	if err != nil || w.StatusCode != 401 || !strings.Contains(string(body), `type="password"`) || !strings.Contains(string(body), "/?v=1&amp;p=layout") ||
		!strings.Contains(w.Header.Get("Content-Security-Policy"), "form-action 'self'") || strings.Contains(string(body), "<script") {
		t.Errorf("a stranger gets %d %s", w.StatusCode, body)
	}
	if status, body, _ := login(c, "wrong", base); status != 401 || !strings.Contains(body, "not the password") {
		t.Errorf("a wrong password: %d %s", status, body)
	}
	for _, origin := range []string{"", "https://evil.example", "null"} {
		if status, _, _ := login(c, "runs", origin); status != 403 {
			t.Errorf("a password from %q: %d", origin, status)
		}
	}

	ask := func(c *http.Client, kind string, body any) (string, string) {
		t.Helper()
		at, err := url.Parse(base)
		must(t, err)
		d := websocket.Dialer{TLSClientConfig: secure, Jar: c.Jar}
		ws, _, err := d.Dial("wss://"+at.Host+"/ws", http.Header{"Origin": {base}})
		must(t, err)
		defer ws.Close()
		page := &client{t: t, ws: ws}
		return page.ask(kind, body)
	}
	for word, role := range map[string]Role{"looks": RoleView, "runs": RoleRun} {
		c := person()
		status, _, at := login(c, word, base)
		if status != 200 || at.RawQuery != "v=1&p=layout&e=local(3)" {
			t.Errorf("%s: %d at %s", word, status, at)
		}
		if kind, body := ask(c, "hello", nil); kind != "ok" || !strings.Contains(body, fmt.Sprintf(`"role":%q`, role)) {
			t.Errorf("%s: hello %s %.100s", word, kind, body)
		}
		if kind, body := ask(c, "render", map[string]any{"view": "a", "pane": "layout"}); kind != "ok" {
			t.Errorf("%s draws: %s %s", word, kind, body)
		}
		if kind, body := ask(c, "nb.open", map[string]string{"name": "01"}); kind != "ok" {
			t.Errorf("%s opens: %s %s", word, kind, body)
		}
		for _, q := range []string{"nb.run", "nb.save", "nb.restart", "nb.interrupt", "nb.comm", "nb.trust", "run", "devices"} {
			_, body := ask(c, q, map[string]any{"name": "01", "cell": "c", "source": "x"})
			if refused := strings.Contains(body, "role view"); refused != (role == RoleView) {
				t.Errorf("%s asks for %s: %s", word, q, body)
			}
		}
	}
	raw, err := os.ReadFile(filepath.Join(root, "01-first.ipynb"))
	must(t, err)
	if role := "view"; strings.Contains(string(raw), role) {
		t.Error("the notebook was changed")
	}
	// Who guesses is stopped.
	status := 0
	for range maxFailed + 1 {
		status, _, _ = login(person(), "guess", base)
	}
	if status != 429 {
		t.Errorf("after %d wrong passwords: %d", maxFailed+1, status)
	}
}
