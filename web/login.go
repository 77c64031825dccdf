package web

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Role is what a person may do.
type Role string

// The roles. Who views sees everything that the explorer shows and draws; who runs
// also runs cells and devices and changes notebooks.
const (
	RoleView Role = "view"
	RoleRun  Role = "run"
)

// ParseRole reads the name of a role.
func ParseRole(s string) (Role, error) {
	if r := Role(s); r == RoleView || r == RoleRun {
		return r, nil
	}
	return "", fmt.Errorf("there is no role %.20q; roles are view and run", s)
}

type roleKey struct{}

// roleOf is the role that admit found.
func roleOf(r *http.Request) Role {
	role, _ := r.Context().Value(roleKey{}).(Role)
	return role
}

// Password lets people in who know it, with a role.
type Password struct {
	Role Role
	Hash []byte // of bcrypt
}

// maxPasswords is the largest file of passwords, in bytes; a line of htpasswd has 66.
const maxPasswords = 64 << 10

// ReadPasswords reads a file of passwords, one a line: a hash of bcrypt or the
// password itself, after "view:" or "run:" where it gives a role of its own. That
// is what htpasswd -nB view prints. A file with a password that is not hashed must
// be its owner's alone. It has at most 64 KiB.
func ReadPasswords(file string, usual Role) ([]Password, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("password file: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxPasswords+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("password file: %w", err)
	case len(raw) > maxPasswords:
		return nil, fmt.Errorf("password file %s has more than %d bytes; give a file with one password or hash a line", file, maxPasswords)
	}
	var out []Password
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p := Password{Role: usual}
		for _, role := range []Role{RoleView, RoleRun} {
			if rest, ok := strings.CutPrefix(line, string(role)+":"); ok {
				p.Role, line = role, rest
				break
			}
		}
		if _, err := bcrypt.Cost([]byte(line)); err == nil {
			p.Hash = []byte(line)
		} else {
			info, err := f.Stat()
			if err != nil {
				return nil, fmt.Errorf("password file: %w", err)
			}
			if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
				return nil, fmt.Errorf("password file %s: others can read it (%v) and it holds a password as it is; chmod 600 it, or put a hash there (htpasswd -nB view)", file, info.Mode().Perm())
			}
			if p.Hash, err = bcrypt.GenerateFromPassword([]byte(line), bcrypt.DefaultCost); err != nil {
				return nil, fmt.Errorf("password file %s: %w", file, err)
			}
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("password file %s holds no password", file)
	}
	return out, nil
}

// cookieRole is what the request's cookie allows.
func (s *server) cookieRole(r *http.Request) (Role, bool) {
	c, err := r.Cookie(s.cookie)
	if err != nil {
		return "", false
	}
	for role, secret := range s.secrets {
		if subtle.ConstantTimeCompare([]byte(c.Value), []byte(secret)) == 1 {
			return role, true
		}
	}
	return "", false
}

func (s *server) setCookie(w http.ResponseWriter, role Role) {
	http.SetCookie(w, &http.Cookie{Name: s.cookie, Value: s.secrets[role], Path: s.prefix, HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: s.secure()})
}

// secure reports whether browsers reach this server by https.
func (s *server) secure() bool {
	return s.opt.TLSCert != "" || s.base != nil && s.base.Scheme == "https"
}

// local reports whether only this machine reaches the page's address.
func (s *server) local() bool {
	if s.base != nil && s.base.Host != "" {
		return isLoopback(s.base.Hostname())
	}
	return isLoopback(s.opt.Addr)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// guarded checks that who comes from other machines cannot take over by listening
// in: what runs code needs encryption.
func (s *server) guarded() error {
	if (s.opt.TLSCert == "") != (s.opt.TLSKey == "") {
		return errors.New("web: --tls-cert and --tls-key belong together")
	}
	if isLoopback(s.opt.Addr) || s.secure() {
		return nil
	}
	runs := s.opt.Role == RoleRun
	for _, p := range s.opt.Passwords {
		runs = runs || p.Role == RoleRun
	}
	switch {
	case runs:
		return fmt.Errorf("web: the role run on %s, beyond this machine, needs TLS: --tls-cert and --tls-key, or --base-url https://… of a proxy that has it", s.opt.Addr)
	case len(s.opt.Passwords) > 0:
		return fmt.Errorf("web: passwords on %s, beyond this machine, need TLS: --tls-cert and --tls-key, or --base-url https://… of a proxy that has it", s.opt.Addr)
	}
	return nil
}

// ownHosts are the names under which this machine is reached.
func ownHosts() []string {
	var out []string
	if name, err := os.Hostname(); err == nil {
		out = append(out, name)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return out
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			out = append(out, n.IP.String())
		}
	}
	return out
}

// tries slows down whoever guesses passwords.
type tries struct {
	mu     sync.Mutex
	failed map[string]int // by address, since at
	at     time.Time
	busy   chan struct{} // one hash at a time: they are slow by design
}

// Limits of wrong passwords.
const (
	maxFailed   = 10 // by one address in failWindow
	maxAddrs    = 4096
	failWindow  = 5 * time.Minute
	maxPassword = 72 // bytes; bcrypt takes no more
)

func (t *tries) blocked(addr string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil || time.Since(t.at) > failWindow || len(t.failed) > maxAddrs {
		t.failed, t.at = map[string]int{}, time.Now()
	}
	return t.failed[addr] >= maxFailed
}

func (t *tries) fail(addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed[addr]++
}

// login takes a password from the form that askPassword shows.
func (s *server) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	if err := r.ParseForm(); err != nil {
		s.refuse(w, r, http.StatusBadRequest, "This is not the form of a password.")
		return
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	next, err := url.Parse(r.PostForm.Get("next"))
	if err != nil || next.Path != "/" && !strings.HasPrefix(next.Path, "/nb/") {
		next = &url.URL{Path: "/"}
	}
	if s.tries.blocked(host) {
		s.refuse(w, r, http.StatusTooManyRequests, fmt.Sprintf("There were too many wrong passwords from your address; wait %v.", failWindow))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	select {
	case s.tries.busy <- struct{}{}:
		defer func() { <-s.tries.busy }()
	case <-ctx.Done():
		s.refuse(w, r, http.StatusServiceUnavailable, "Too many people are logging in; try again in a moment.")
		return
	}
	given := r.PostForm.Get("password")
	for _, p := range s.opt.Passwords {
		if len(given) <= maxPassword && bcrypt.CompareHashAndPassword(p.Hash, []byte(given)) == nil {
			s.setCookie(w, p.Role)
			http.Redirect(w, r, s.path(next.Path, next.RawQuery), http.StatusSeeOther)
			return
		}
	}
	s.tries.fail(host)
	fmt.Fprintf(s.opt.Log, "web: wrong password from %s\n", host)
	s.askPassword(w, next.Path, next.RawQuery, "That is not the password.")
}

var loginPage = template.Must(template.New("login").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tilus Lab explorer: password</title>
<link rel="stylesheet" href="{{.Prefix}}assets/style.css">
</head>
<body>
<main>
<h1>Tilus Lab explorer</h1>
<form method="post" action="{{.Prefix}}login">
<p><label for="password">Password</label> <input id="password" name="password" type="password" autocomplete="current-password" required autofocus></p>
<input type="hidden" name="next" value="{{.Next}}">
<p><button type="submit">Open</button></p>
{{if .Said}}<p role="alert">{{.Said}}</p>
{{end}}</form>
</main>
</body>
</html>
`))

// askPassword is the page of a person who is not known yet.
func (s *server) askPassword(w http.ResponseWriter, path, query, said string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", strings.Replace(policy, "form-action 'none'", "form-action 'self'", 1))
	// A form of a page without referrer sends Origin: null, which is no one's.
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(http.StatusUnauthorized)
	next := url.URL{Path: path, RawQuery: query}
	if err := loginPage.Execute(w, map[string]string{"Prefix": s.prefix, "Next": next.String(), "Said": said}); err != nil {
		fmt.Fprintf(s.opt.Log, "web: %v\n", err)
	}
}
