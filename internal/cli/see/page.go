package see

import (
	"net/http"
	"time"

	"github.com/tangram-dev/tangram/internal/ask"
)

// Page is the web page, served on a loopback address to the user's own browser.
type Page struct {
	// URL lets a browser in.
	URL    string
	server *http.Server
	client *ask.Client
	remove func()
}

// ServePage serves the page with the credentials of a kubeconfig until it is closed. Whether
// a scheduler leads is not asked: the page says so.
func ServePage(page func(upstream http.Handler) http.Handler, o ask.Options) (*Page, error) {
	client, err := ask.New(o)
	if err != nil {
		return nil, err
	}
	listener, err := listenLoopback("", 0)
	if err != nil {
		client.Close()
		return nil, err
	}
	guard := newGuard(page(client.Handler()))
	server := &http.Server{Handler: guard, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() { _ = server.Serve(listener) }() // it ends with Close
	return &Page{URL: guard.enter(listener.Addr().String()), server: server, client: client, remove: func() {}}, nil
}

// Open opens a browser.
func (p *Page) Open() (err error) {
	p.remove, err = openBrowser(p.URL)
	return err
}

// Close ends the page.
func (p *Page) Close() {
	p.remove()
	_ = p.server.Close() // the listener is gone either way
	p.client.Close()
}
