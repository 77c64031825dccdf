package web

import (
	"bytes"
	"crypto/subtle"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

//go:embed assets
var assets embed.FS

// policy allows what the page itself serves and nothing else: no inline script
// or style, no other origin, no frames but those of outputs, which are sandboxed.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"

// maxQuery is the longest address in bytes.
const maxQuery = 8 << 10

func (s *server) routes() {
	m := http.NewServeMux()
	m.HandleFunc("GET /{$}", s.page("page.html"))
	m.HandleFunc("GET /nb/", s.page("page.html"))
	m.HandleFunc("GET /svg", s.svg)
	m.HandleFunc("GET /assets/", s.asset)
	m.HandleFunc("GET /frame/{id}", s.frame)
	m.HandleFunc("GET /ws", s.ws)
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
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.refuse(w, r, http.StatusMethodNotAllowed, "Only GET is answered here.")
		return
	}
	if o := r.Header.Get("Origin"); o != "" && !s.ownOrigin(o) {
		s.refuse(w, r, http.StatusForbidden, "Requests from other pages are refused.")
		return
	}
	if len(r.URL.RawQuery) > maxQuery {
		s.refuse(w, r, http.StatusRequestURITooLong, fmt.Sprintf("The address has %d bytes; the limit is %d.", len(r.URL.RawQuery), maxQuery))
		return
	}
	if s.prefix != "/" {
		// A proxy may pass the prefix on or take it away.
		r.URL.Path = "/" + strings.TrimLeft(strings.TrimPrefix(r.URL.Path, s.prefix), "/")
		r.URL.RawPath = ""
	}
	if s.admit(w, r) {
		s.mux.ServeHTTP(w, r)
	}
}

// ownOrigin reports whether an Origin header names this server.
func (s *server) ownOrigin(o string) bool {
	u, err := url.Parse(o)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && s.hosts[u.Host]
}

// admit lets a request pass that carries the cookie or needs none. A start token
// becomes the cookie and leaves the address by a redirect.
func (s *server) admit(w http.ResponseWriter, r *http.Request) bool {
	known := false
	if c, err := r.Cookie(s.cookie); err == nil {
		known = subtle.ConstantTimeCompare([]byte(c.Value), []byte(s.secret)) == 1
	}
	query := without(r.URL.RawQuery, "token")
	if t := r.URL.Query().Get("token"); t != "" {
		if s.spend(t) {
			known = true
			http.SetCookie(w, &http.Cookie{Name: s.cookie, Value: s.secret, Path: s.prefix, HttpOnly: true,
				SameSite: http.SameSiteStrictMode, Secure: s.base != nil && s.base.Scheme == "https"})
		}
		if known {
			http.Redirect(w, r, s.local(r.URL.Path, query), http.StatusSeeOther)
			return false
		}
	}
	if known {
		return true
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/assets/"):
		return true
	case r.URL.Path == "/svg" && !strings.Contains(r.URL.RawQuery, "%24") && !strings.Contains(r.URL.RawQuery, "$"):
		return true // plain notation only: a variable of a notebook needs the cookie
	case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document":
		// A strict cookie does not come along from a link on another site, such
		// as a notebook at localhost. The page that loads itself again is ours.
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><title>Tilus Lab</title><meta http-equiv=\"refresh\" content=\"0;url=%s\">",
			template.HTMLEscapeString(s.local(r.URL.Path, query)))
		return false
	}
	s.refuse(w, r, http.StatusForbidden, "Open the explorer with the address that `tilus-lab up` prints: its token works once. Run `tilus-lab up` again for a new one.")
	return false
}

// local is an address on this server.
func (s *server) local(p, query string) string {
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
	sub, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	name := strings.TrimPrefix(r.URL.Path, "/assets/")
	if name == "" || strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".html") {
		http.NotFound(w, r)
		return
	}
	http.ServeFileFS(w, r, sub, name)
}

// page serves the shell of the explorer. The picture in noscript is the one
// that the address describes, so that it is never blank.
func (s *server) page(name string) http.HandlerFunc {
	t := template.Must(template.ParseFS(assets, "assets/"+name))
	return func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		err := t.Execute(&b, map[string]any{
			"Prefix":   s.prefix,
			"Picture":  s.local("svg", r.URL.RawQuery),
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
// gives it in another form, one of [layoutviz.Formats], as a file.
func (s *server) svg(w http.ResponseWriter, r *http.Request) {
	st, err := parseState(r.URL.RawQuery)
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	// Anybody's page may ask for pictures, so they never take all of the machine.
	select {
	case s.single <- struct{}{}:
		defer func() { <-s.single }()
	case <-r.Context().Done():
		return
	}
	view := st[0]
	res, err := s.draw.render(r.Context(), s.vars.bind, view.Pane, view.Values)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name, form := view.Values["name"], layoutviz.Formats()[0]
	if as := view.Values["as"]; as != "" {
		i := slices.IndexFunc(layoutviz.Formats(), func(f layoutviz.Format) bool { return f.Name == as })
		if i < 0 {
			http.Error(w, fmt.Sprintf("there is no form %.20q", as), http.StatusBadRequest)
			return
		}
		form = layoutviz.Formats()[i]
	}
	for _, p := range res.Pictures {
		if name != "" && p.Name != name {
			continue
		}
		out := p.SVG
		if form.Name != "svg" {
			if out, err = form.Encode(p.Picture); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		h := w.Header()
		h.Set("Content-Type", form.MIME)
		if strings.HasPrefix(form.MIME, "text/") {
			h.Set("Content-Type", form.MIME+"; charset=utf-8")
		}
		if view.Values["as"] != "" {
			h.Set("Content-Disposition", `attachment; filename="`+view.Pane+"."+form.Name+`"`)
		}
		h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
		h.Set("Cache-Control", "private, max-age=60")
		// Pictures of plain notation may stand in pages of other origins.
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		w.Write(out)
		return
	}
	http.Error(w, "this pane has no such picture", http.StatusNotFound)
}

// view is one pane of an address.
type view struct {
	Pane   string      `json:"pane"`
	Values pane.Values `json:"values"`
}

// maxViews is how many panes one address may hold.
const maxViews = 16

// parseState reads address grammar 1: v=1, then for each pane p=NAME followed by
// its values. Without any p the values are those of the layout pane. Names that
// are not known are kept: what they mean is the pane's business, and panes ignore
// what they do not know; the values of names that they know, they check.
func parseState(query string) ([]view, error) {
	if len(query) > maxQuery {
		return nil, fmt.Errorf("the address has %d bytes; the limit is %d", len(query), maxQuery)
	}
	var out []view
	first := pane.Values{} // values before any pane
	for _, part := range strings.Split(query, "&") {
		k, v, _ := strings.Cut(part, "=")
		k, err1 := url.QueryUnescape(k)
		v, err2 := url.QueryUnescape(v)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("the address has a broken %% escape in %.40q", part)
		}
		switch {
		case k == "v" && len(out) == 0:
			// Newer versions only add fields.
			if n, err := strconv.Atoi(v); err != nil || n < 1 {
				return nil, fmt.Errorf("the address has version %.20q; versions are numbers from 1", v)
			}
		case k == "p":
			if len(out) == maxViews {
				return nil, fmt.Errorf("the address has more than %d panes", maxViews)
			}
			out = append(out, view{Pane: v, Values: pane.Values{}})
		case len(out) > 0:
			out[len(out)-1].Values[k] = v
		default:
			first[k] = v
		}
	}
	if len(out) == 0 {
		out = []view{{Pane: "layout", Values: first}}
	}
	return out, nil
}
