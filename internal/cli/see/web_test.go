package see

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestGuard: the page is for who has the URL of the terminal, and for no other user, page
// or name of this machine.
func TestGuard(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("the page " + r.URL.Path)) })
	g := newGuard(page)
	if len(g.token) < 20 || g.token == g.cookie || newGuard(page).token == g.token {
		t.Fatalf("secrets %q, %q", g.token, g.cookie)
	}
	good := &http.Cookie{Name: webCookie, Value: g.cookie}
	tests := []struct {
		name    string
		target  string
		host    string
		cookie  *http.Cookie
		headers map[string]string
		method  string
		want    int
	}{
		{name: "the URL", target: "/?token=" + g.token, want: 200},
		{name: "the URL, opened from a file", target: "/?token=" + g.token, headers: map[string]string{"Sec-Fetch-Site": "cross-site"}, want: 200},
		{name: "then the cookie", target: "/query/v1/fleet", cookie: good, want: 200},
		{name: "through an ssh tunnel", target: "/", host: "localhost:9999", cookie: good, want: 200},
		{name: "IPv6", target: "/", host: "[::1]:9999", cookie: good, want: 200},
		{name: "no cookie", target: "/", want: 401},
		{name: "another cookie", target: "/", cookie: &http.Cookie{Name: webCookie, Value: "x"}, want: 401},
		{name: "an empty cookie", target: "/", cookie: &http.Cookie{Name: webCookie}, want: 401},
		{name: "the token as a cookie", target: "/", cookie: &http.Cookie{Name: webCookie, Value: g.token}, want: 401},
		{name: "another token", target: "/?token=x", want: 401},
		{name: "an empty token", target: "/?token=", want: 401},
		{name: "a token in a POST", target: "/?token=" + g.token, method: "POST", want: 401},
		{name: "DNS rebinding", target: "/", host: "evil.example.com:8080", cookie: good, want: 421},
		{name: "DNS rebinding with the token", target: "/?token=" + g.token, host: "evil.example.com", want: 421},
		{name: "a name that begins like an address", target: "/", host: "127.0.0.1.evil.example.com", cookie: good, want: 421},
		{name: "another address of this machine", target: "/", host: "10.0.0.7:80", cookie: good, want: 421},
		{name: "no host", target: "/", host: " ", cookie: good, want: 421},
		{name: "another page's request", target: "/query/v1/fleet", cookie: good, headers: map[string]string{"Sec-Fetch-Site": "cross-site"}, want: 403},
		{name: "another port's page", target: "/query/v1/fleet", cookie: good, headers: map[string]string{"Sec-Fetch-Site": "same-site"}, want: 403},
		{name: "another origin", target: "/query/v1/whatif", method: "POST", cookie: good, headers: map[string]string{"Origin": "http://127.0.0.1:1"}, want: 403},
		{name: "its own origin", target: "/query/v1/whatif", method: "POST", cookie: good, headers: map[string]string{"Origin": "http://127.9.9.9:80", "Sec-Fetch-Site": "same-origin"}, want: 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			method := tt.method
			if method == "" {
				method = "GET"
			}
			r := httptest.NewRequest(method, tt.target, nil)
			r.Host = "127.9.9.9:80"
			if tt.host != "" {
				r.Host = strings.TrimSpace(tt.host)
			}
			if tt.cookie != nil {
				r.AddCookie(tt.cookie)
			}
			for k, v := range tt.headers {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("status %d, want %d: %s", w.Code, tt.want, w.Body)
			}
			if tt.want != 200 && (strings.Contains(w.Body.String(), "the page") || w.Header().Get("Set-Cookie") != "" || strings.Contains(w.Body.String(), g.token)) {
				t.Errorf("it gives away %q, %q", w.Body, w.Header())
			}
		})
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/?token="+g.token, nil)
	r.Host = "127.9.9.9:80"
	g.ServeHTTP(w, r)
	c := w.Result().Cookies()
	if len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode || c[0].Domain != "" || c[0].Value != g.cookie {
		t.Errorf("cookie %+v", c)
	}
	if strings.Contains(w.Body.String(), g.token) {
		t.Error("the token stays in the page")
	}
}

func TestListenLoopback(t *testing.T) {
	for _, address := range []string{"0.0.0.0", "192.168.0.1", "::", "evil.example.com", "localhost"} {
		if l, err := listenLoopback(address, 0); err == nil {
			l.Close()
			t.Errorf("listens on %s", address)
		}
	}
	l, err := listenLoopback("", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if host, _, _ := net.SplitHostPort(l.Addr().String()); !net.ParseIP(host).IsLoopback() {
		t.Errorf("listens on %s", host)
	}
	u, err := url.Parse(newGuard(nil).enter(l.Addr().String()))
	if err != nil || u.Host != l.Addr().String() || u.Query().Get(webToken) == "" {
		t.Errorf("URL %v, %v", u, err)
	}
}

// TestOpenBrowser: the browser is told the URL by a file that others cannot read, and not by
// an argument, which everyone on the machine can list.
func TestOpenBrowser(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("skipped: on macOS it is another program")
	}
	dir := t.TempDir()
	told := filepath.Join(dir, "told")
	script := "#!/bin/sh\necho \"$@\" > " + told + ".new && mv " + told + ".new " + told + "\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":0")
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	remove, err := openBrowser(`http://127.0.0.1:1/?token=secret"x`)
	if err != nil {
		t.Fatal(err)
	}
	var args []byte
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if args, err = os.ReadFile(told); err == nil {
			break
		}
	}
	file := strings.TrimSpace(string(args))
	if file == "" || strings.Contains(file, "secret") {
		t.Fatalf("arguments %q, %v", args, err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `url=http://127.0.0.1:1/?token=secret&#34;x"`) {
		t.Errorf("file %q, %v", text, err)
	}
	remove()
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file stays: %v", err)
	}
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	if _, err := openBrowser("http://127.0.0.1:1/"); err == nil {
		t.Error("a browser without a display")
	}
}
