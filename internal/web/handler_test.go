package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func answer(t *testing.T, h http.Handler, method, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func upstream() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "asked "+r.URL.Path) })
}

func TestAssets(t *testing.T) {
	h := Handler(upstream())
	index := answer(t, h, "GET", "/")
	text := body(t, index)
	if index.StatusCode != 200 || !strings.Contains(text, "<title>Tangram</title>") || index.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("/: %d %v", index.StatusCode, index.Header)
	}
	tag := index.Header.Get("ETag")
	for _, given := range []string{tag, "W/" + tag, `"other", ` + tag} {
		if r := answer(t, h, "GET", "/", "If-None-Match", given); r.StatusCode != 304 || body(t, r) != "" {
			t.Errorf("If-None-Match %s: %d", given, r.StatusCode)
		}
	}
	if r := answer(t, h, "GET", "/", "If-None-Match", `"other"`); r.StatusCode != 200 {
		t.Errorf("another tag: %d", r.StatusCode)
	}
	if r := answer(t, h, "HEAD", "/app.js"); r.StatusCode != 200 || body(t, r) != "" || r.Header.Get("Content-Length") == "0" {
		t.Errorf("HEAD: %d %v", r.StatusCode, r.Header)
	}
	small := answer(t, h, "GET", "/app.js", "Accept-Encoding", "gzip, br")
	z, err := gzip.NewReader(small.Body)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil || string(plain) != body(t, answer(t, h, "GET", "/app.js")) {
		t.Errorf("compressed it is another: %v", err)
	}
	for _, wrong := range []string{"/nothing", "/assets/app.js", "/app.js/", "/../handler.go", "/doc.go", "/index.html/x"} {
		if r := answer(t, h, "GET", wrong); r.StatusCode != 404 && r.StatusCode/100 != 3 {
			t.Errorf("%s: %d", wrong, r.StatusCode)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"} {
		if r := answer(t, h, method, "/"); r.StatusCode != 405 || r.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d", method, r.StatusCode)
		}
	}
	if got := body(t, answer(t, h, "GET", "/query/v1/fleet")); got != "asked /query/v1/fleet" {
		t.Errorf("a question: %q", got)
	}
}

// TestHeaders: on every answer, questions and errors included.
func TestHeaders(t *testing.T) {
	h := Handler(upstream())
	for _, path := range []string{"/", "/app.js", "/nothing", "/query/v1/fleet"} {
		head := answer(t, h, "GET", path).Header
		policy := head.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy lacks %s", path, want)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, "http") {
			t.Errorf("%s: the policy allows too much: %s", path, policy)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"} {
			if got := head.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
}

// TestAssetsAreOurs: the page loads nothing from elsewhere, makes no markup from strings,
// keeps the token in sessionStorage alone, and names only files that there are.
func TestAssetsAreOurs(t *testing.T) {
	files := load()
	foreign := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]{2,}`)
	imports := regexp.MustCompile(`(?:from '\./|href="|src=")([\w.-]+)['"]`)
	for name, file := range files {
		text := strings.ReplaceAll(string(file.plain), "http://www.w3.org/2000/svg", "")
		if found := foreign.FindString(text); found != "" {
			t.Errorf("%s names another host: %s", name, found)
		}
		for _, banned := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "localStorage.setItem('tangram.token", "srcdoc", ` style="`, ` onclick="`} {
			if strings.Contains(strings.ReplaceAll(text, "there is no innerHTML anywhere", ""), banned) {
				t.Errorf("%s uses %s", name, banned)
			}
		}
		for _, match := range imports.FindAllStringSubmatch(text, -1) {
			if _, ok := files[match[1]]; !ok {
				t.Errorf("%s names %s, which is not there", name, match[1])
			}
		}
	}
}
