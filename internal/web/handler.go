package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/tangram-dev/tangram/api/query"
)

//go:embed assets
var embedded embed.FS

// policy is the Content-Security-Policy: the page's own scripts, styles, pictures and
// questions; no inline script or style, no markup made from strings (trusted types), no
// frame around the page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// types are the kinds of files that there may be in assets.
var types = map[string]string{
	".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// asset is a file of the page as it is sent.
type asset struct {
	kind         string
	plain, small []byte // small: gzip
	tag          string
}

// Handler serves the page under / and passes everything below /query/ to upstream. Only GET
// and HEAD are answered for the page. Every answer has the headers that keep browsers from
// guessing, framing and running anything that is not the page's.
func Handler(upstream http.Handler) http.Handler {
	files := load()
	mux := http.NewServeMux()
	mux.Handle("/query/", upstream)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { serve(w, r, files) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("X-Frame-Options", "DENY")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		mux.ServeHTTP(w, r)
	})
}

func serve(w http.ResponseWriter, r *http.Request, files map[string]asset) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		Refuse(w, query.Error{Status: http.StatusMethodNotAllowed, Reason: "Invalid", Message: "the page is only read", Field: "method"})
		return
	}
	file, ok := files[cmp.Or(strings.TrimPrefix(r.URL.Path, "/"), "index.html")]
	if !ok {
		Refuse(w, query.Error{Status: http.StatusNotFound, Reason: "NotFound", Message: "there is no such page"})
		return
	}
	head := w.Header()
	head.Set("ETag", file.tag)
	// Asked for again each time, and sent only when it changed: a new version is used at once.
	head.Set("Cache-Control", "no-cache")
	head.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("If-None-Match"), file.tag) { // a list of tags, each in quotes
		w.WriteHeader(http.StatusNotModified)
		return
	}
	head.Set("Content-Type", file.kind)
	body := file.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		head.Set("Content-Encoding", "gzip")
		body = file.small
	}
	head.Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method == http.MethodGet {
		w.Write(body) // a visitor who has gone needs no answer
	}
}

// Refuse answers with an error as the query API does.
func Refuse(w http.ResponseWriter, e query.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(e.Status)
	json.NewEncoder(w).Encode(e) // a visitor who has gone needs no answer
}

// load reads the embedded files, by name. What cannot be served is a mistake of the build,
// so it panics; TestAssets would fail first.
func load() map[string]asset {
	out := map[string]asset{}
	entries, err := fs.ReadDir(embedded, "assets")
	if err != nil {
		panic(err)
	}
	for _, entry := range entries {
		data, err := fs.ReadFile(embedded, path.Join("assets", entry.Name()))
		if err != nil {
			panic(err)
		}
		kind, ok := types[path.Ext(entry.Name())]
		if !ok {
			panic("no content type for " + entry.Name())
		}
		var small bytes.Buffer
		z := gzip.NewWriter(&small)
		z.Write(data) // into memory
		z.Close()
		sum := sha256.Sum256(data)
		out[entry.Name()] = asset{kind: kind, plain: data, small: small.Bytes(), tag: `"` + hex.EncodeToString(sum[:12]) + `"`}
	}
	return out
}
