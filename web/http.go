package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/web/answer"
)

//go:embed assets
var assets embed.FS

// Assets are the files of the page. page.html is a template of html/template, for
// Prefix, Picture, Notebook and Embed.
func Assets() fs.FS {
	sub, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

// policy allows what the page itself serves and nothing else: no inline script
// or style, no other origin, no frames but those of outputs, which are sandboxed.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"

// maxWait is how long a request for one picture waits for its turn.
const maxWait = 10 * time.Second

func (s *server) routes() {
	m := http.NewServeMux()
	m.HandleFunc("GET /{$}", s.page("page.html"))
	m.HandleFunc("GET /nb/", s.page("page.html"))
	m.HandleFunc("GET /svg", s.svg)
	m.HandleFunc("GET /assets/", s.asset)
	m.HandleFunc("GET /frame/{id}", s.frame)
	m.HandleFunc("GET /ws", s.ws)
	m.HandleFunc("POST /login", s.login)
	s.mux = m
}

// ServeHTTP checks who asks, then routes.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-site")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
	if !s.hosts[r.Host] {
		s.refuse(w, r, http.StatusMisdirectedRequest, "This server answers only to its own address, "+s.address(false)+".")
		return
	}
	if s.prefix != "/" {
		// A proxy may pass the prefix on or take it away.
		r.URL.Path = "/" + strings.TrimLeft(strings.TrimPrefix(r.URL.Path, s.prefix), "/")
		r.URL.RawPath = ""
	}
	login := r.Method == http.MethodPost && r.URL.Path == "/login" && len(s.opt.Passwords) > 0
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !login {
		s.refuse(w, r, http.StatusMethodNotAllowed, "Only GET is answered here.")
		return
	}
	if o := r.Header.Get("Origin"); o != "" && !s.ownOrigin(o) || o == "" && login {
		s.refuse(w, r, http.StatusForbidden, "Requests from other pages are refused.")
		return
	}
	if len(r.URL.RawQuery) > answer.MaxQuery {
		s.refuse(w, r, http.StatusRequestURITooLong, fmt.Sprintf("The address has %d bytes; the limit is %d.", len(r.URL.RawQuery), answer.MaxQuery))
		return
	}
	if login {
		s.mux.ServeHTTP(w, r)
	} else if role, ok := s.admit(w, r); ok {
		s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), roleKey{}, role)))
	}
}

// ownOrigin reports whether an Origin header names this server.
func (s *server) ownOrigin(o string) bool {
	u, err := url.Parse(o)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && s.hosts[u.Host]
}

// admit lets a request pass that carries the cookie or needs none. A start token
// becomes the cookie and leaves the address by a redirect.
func (s *server) admit(w http.ResponseWriter, r *http.Request) (Role, bool) {
	role, known := s.cookieRole(r)
	query := without(r.URL.RawQuery, "token")
	if t := r.URL.Query().Get("token"); t != "" {
		if s.spend(t) {
			known = true
			s.setCookie(w, s.opt.Role)
		}
		if known {
			http.Redirect(w, r, s.path(r.URL.Path, query), http.StatusSeeOther)
			return "", false
		}
	}
	if known {
		return role, true
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/assets/"):
		return RoleView, true
	case r.URL.Path == "/svg" && !strings.Contains(r.URL.RawQuery, "%24") && !strings.Contains(r.URL.RawQuery, "$"):
		return RoleView, true // plain notation only: a variable of a notebook needs the cookie
	case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document":
		// A strict cookie does not come along from a link on another site, such
		// as a notebook at localhost. The page that loads itself again is ours.
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><title>Tilus Lab</title><meta http-equiv=\"refresh\" content=\"0;url=%s\">",
			template.HTMLEscapeString(s.path(r.URL.Path, query)))
		return "", false
	case len(s.opt.Passwords) > 0 && (r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/nb/")):
		s.askPassword(w, r.URL.Path, query, "")
		return "", false
	}
	s.refuse(w, r, http.StatusForbidden, "Open the explorer with the address that `tilus-lab up` prints: its token works once. Run `tilus-lab up` again for a new one.")
	return "", false
}

// path is an address on this server.
func (s *server) path(p, query string) string {
	out := s.prefix + strings.TrimLeft(p, "/")
	if query != "" {
		out += "?" + query
	}
	return out
}

// without drops one name from a query and keeps the order of the others, which
// the grammar of addresses needs.
func without(query, name string) string {
	var keep []string
	for _, part := range strings.Split(query, "&") {
		if k, _, _ := strings.Cut(part, "="); k != name && part != "" {
			keep = append(keep, part)
		}
	}
	return strings.Join(keep, "&")
}

func (s *server) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	// The query stays out of the log: it may hold a token.
	fmt.Fprintf(s.opt.Log, "web: refused %s %.80q from %s: %d %s\n", r.Method, r.URL.Path, r.RemoteAddr, status, why)
	http.Error(w, why, status)
}

func (s *server) asset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/assets/")
	if name == "" || strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".html") {
		http.NotFound(w, r)
		return
	}
	http.ServeFileFS(w, r, Assets(), name)
}

// page serves the shell of the explorer. The picture in noscript is the one
// that the address describes, so that it is never blank.
func (s *server) page(name string) http.HandlerFunc {
	t := template.Must(template.ParseFS(assets, "assets/"+name))
	return func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		err := t.Execute(&b, map[string]any{
			"Prefix":   s.prefix,
			"Picture":  s.path("svg", r.URL.RawQuery),
			"Notebook": strings.HasPrefix(r.URL.Path, "/nb/"),
			"Embed":    r.URL.Query().Get("embed") == "1",
		})
		if err != nil {
			http.Error(w, "the page could not be written", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(b.Bytes())
	}
}

// svg answers with one picture of one pane, the same bytes that the page shows:
// ?v=1&p=layout&e=local(2)&name=threads. Without name it is the first picture; as=pdf
// gives it in another form, one of [answer.Forms], as a file.
func (s *server) svg(w http.ResponseWriter, r *http.Request) {
	f, status, err := s.picture(r)
	if err != nil {
		s.tell(err)
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "2")
		}
		http.Error(w, err.Error(), status)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.MIME)
	if !strings.HasPrefix(f.MIME, "image/svg") || r.URL.Query().Get("as") != "" {
		h.Set("Content-Disposition", `attachment; filename="`+f.Name+`"`)
	}
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "private, max-age=60")
	// Pictures of plain notation may stand in pages of other origins.
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	sum := sha256.Sum256(f.Data)
	h.Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.Data))
}

// picture draws what an address asks for. Anybody's page may ask for pictures, so
// they never take all of the machine; whoever reads the answer slowly does not
// keep others waiting, because it is drawn before it is sent.
func (s *server) picture(r *http.Request) (answer.File, int, error) {
	st, err := answer.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return answer.File{}, http.StatusBadRequest, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	select {
	case s.single <- struct{}{}:
		defer func() { <-s.single }()
	case <-ctx.Done():
		return answer.File{}, http.StatusServiceUnavailable, errors.New("too many pictures are being drawn; ask again in a moment")
	}
	view := st[0]
	res, err := s.draw.render(r.Context(), s.alone, s.vars.bind, view.Pane, view.Values)
	if err != nil {
		return answer.File{}, http.StatusBadRequest, err
	}
	f, err := view.Encode(res, r.URL.RawQuery)
	var none *answer.NoPicture
	switch {
	case errors.As(err, &none) && none.Form:
		return f, http.StatusBadRequest, err
	case errors.As(err, &none):
		return f, http.StatusNotFound, err
	case err != nil:
		return f, http.StatusInternalServerError, err
	}
	return f, http.StatusOK, nil
}
