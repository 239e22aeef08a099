package see

import (
	"crypto/rand"
	"crypto/subtle"
	"io"
	"net"
	"net/http"
	"net/url"
)

const (
	webCookie = "tangram-web"
	webToken  = "token"
)

// guard lets only the user's own browser through to a page on a loopback address.
//
//   - Other users of the machine can connect, and know neither the token of the URL nor the
//     cookie that it is exchanged for.
//   - Pages of other sites can make the browser send requests: the cookie is SameSite=Strict,
//     and requests that say that they come from elsewhere are refused.
//   - A host name that is made to resolve to loopback (DNS rebinding) is no loopback address,
//     and is refused whatever it sends.
type guard struct {
	page          http.Handler
	token, cookie string
}

func newGuard(page http.Handler) *guard { return &guard{page, rand.Text(), rand.Text()} }

// enter is the URL that lets a browser in.
func (g *guard) enter(address string) string {
	u := url.URL{Scheme: "http", Host: address, Path: "/", RawQuery: url.Values{webToken: {g.token}}.Encode()}
	return u.String()
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	if !isLoopbackHost(r.Host) {
		http.Error(w, "Misdirected: use the address that tangram web printed", http.StatusMisdirectedRequest)
		return
	}
	if given := r.URL.Query().Get(webToken); given != "" && same(given, g.token) && r.Method == http.MethodGet {
		// Not a redirect: of a browser that was sent here by another page (the file of
		// openBrowser) it would count as that page's, and the cookie would stay away.
		http.SetCookie(w, &http.Cookie{Name: webCookie, Value: g.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, `<!doctype html><meta http-equiv="refresh" content="0; url=/"><title>Tangram</title>`)
		return
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		http.Error(w, "Forbidden: the request comes from another page", http.StatusForbidden)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		http.Error(w, "Forbidden: the request comes from another page", http.StatusForbidden)
		return
	}
	if c, err := r.Cookie(webCookie); err != nil || !same(c.Value, g.cookie) {
		http.Error(w, "Unauthorized: open the URL that tangram web printed", http.StatusUnauthorized)
		return
	}
	g.page.ServeHTTP(w, r)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// isLoopbackHost accepts a loopback address or localhost, with any port: an ssh tunnel may
// have changed it.
func isLoopbackHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	if name == "localhost" {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}
