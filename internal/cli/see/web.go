package see

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/terminal"
)

func newWeb(c Config) *cobra.Command {
	var a *asking
	var address string
	var port int
	var noOpen bool
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Open the web page, with the kubeconfig's credentials",
		Long: `Serve the web page on this machine and open it in a browser, until Ctrl-C. Its questions
are asked with the credentials of the kubeconfig: it shows what you may see.

Others cannot use it: the page listens on a loopback address, wants a secret that is in the
printed URL (a cookie from then on), and answers to no other host name.`,
		Example: `  tangram web
  tangram web --no-open --address 127.0.0.1 --port 8080     # for ssh -L 8080:127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.Page == nil {
				return errors.New("this program has no web page")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return a.web(ctx, a.screen(cmd), webOptions{address: address, port: port, open: !noOpen})
		},
	}
	a = newAsking(c, cmd)
	cmd.Flags().StringVar(&address, "address", "", "loopback address to listen on (default: one of its own, so that no other local server gets the cookie)")
	cmd.Flags().IntVar(&port, "port", 0, "port to listen on (default: a free one)")
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "print the URL, and open no browser")
	return cmd
}

type webOptions struct {
	address string
	port    int
	open    bool
}

func (a *asking) web(ctx context.Context, s *terminal.Screen, o webOptions) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	// A question first: without rights or a leader there is nothing to show.
	if _, err := a.answer(ctx, s, ask.FleetQuestion()); err != nil {
		return err
	}
	listener, err := listenLoopback(o.address, o.port)
	if err != nil {
		return err
	}
	guard := newGuard(a.config.Page(client.Handler()))
	server := &http.Server{Handler: guard, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	at := guard.enter(listener.Addr().String())
	s.Line(terminal.Plain, "The web page is at %s", at)
	s.Line(terminal.Dim, "Whoever has this URL sees what you may see. Ctrl-C ends it.")
	if o.open && s.Terminal {
		remove, err := openBrowser(at)
		if err != nil {
			s.Line(terminal.Dim, "No browser was opened: %v", err)
		}
		defer remove()
	}
	if err := s.Failed(); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		return server.Close()
	}
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
			return nil, &ask.UsageError{Message: fmt.Sprintf("--address: %q is no loopback address: whoever reaches the page reads with your rights", address)}
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

// openBrowser opens a URL through a file that only the user can read: an argument would
// show the token to everyone who lists processes. remove removes the file.
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
