package see

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/tangram-dev/tangram/internal/ask"
)

// Page is the web page, served on a loopback address to the user's own browser.
type Page struct {
	// URL lets a browser in.
	URL    string
	server *http.Server
	served chan error // why it ended
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
	return servePage(page, client, "", 0)
}

// servePage serves the page on a loopback address; any when it is empty. It closes the
// client in the end.
func servePage(page func(upstream http.Handler) http.Handler, client *ask.Client, address string, port int) (*Page, error) {
	listener, err := listenLoopback(address, port)
	if err != nil {
		client.Close()
		return nil, err
	}
	guard := newGuard(page(client.Handler()))
	p := &Page{
		URL: guard.enter(listener.Addr().String()), client: client, served: make(chan error, 1), remove: func() {},
		server: &http.Server{Handler: guard, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10},
	}
	go func() { p.served <- p.server.Serve(listener) }()
	return p, nil
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

// listenLoopback listens on a loopback address. Without a given one it takes a random one
// of 127.0.0.0/8 where the system has them (Linux): browsers keep cookies by address and
// not by port, so any other server of this machine on 127.0.0.1 would be sent ours.
func listenLoopback(address string, port int) (net.Listener, error) {
	if port < 0 || port > 65535 {
		return nil, &ask.UsageError{Message: fmt.Sprintf("--port: %d, want 0 to 65535", port)}
	}
	if address != "" {
		if ip := net.ParseIP(address); ip == nil || !ip.IsLoopback() {
			return nil, &ask.UsageError{Message: fmt.Sprintf("--address: %q is no loopback address: all who reach the page read with your rights", address)}
		}
		return net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(port)))
	}
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails
	own := net.IPv4(127, b[0], b[1], 1+b[2]%254)
	if l, err := net.Listen("tcp", net.JoinHostPort(own.String(), fmt.Sprint(port))); err == nil {
		return l, nil
	}
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
}

// openBrowser opens a URL through a file that only the user can read: an argument would
// show the token to all users who list processes. remove removes the file.
func openBrowser(at string) (remove func(), err error) {
	remove = func() {}
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return remove, errors.New("there is no display")
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return remove, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return remove, err
	}
	dir := filepath.Join(cache, "tangram")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return remove, err
	}
	file := filepath.Join(dir, "web-"+hex.EncodeToString([]byte(rand.Text()[:8]))+".html")
	text := `<!doctype html><meta http-equiv="refresh" content="0; url=` + html.EscapeString(at) + `"><title>Tangram</title>`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return remove, err
	}
	remove = func() { _ = os.Remove(file) }
	cmd := exec.Command(path, file)
	if err := cmd.Start(); err != nil {
		return remove, err
	}
	go func() { _ = cmd.Wait() }()
	return remove, nil
}
