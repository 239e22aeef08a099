// Package browser drives a headless Chromium through the DevTools protocol, over a pipe: what
// a test of the page needs, and no more.
//
// Read browser.go (the process and its pages), then page.go (what a person does).
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Browser is a running Chromium. Its methods may be called from several goroutines.
type Browser struct {
	cmd *exec.Cmd
	to  io.WriteCloser
	dir string

	mu      sync.Mutex
	next    int
	waiting map[int]chan answer
	pages   map[string]*Page // by session
	ended   error
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// Find is the path of a Chromium, or an error that says how to get one.
func Find() (string, error) {
	if path := os.Getenv("TANGRAM_CHROMIUM"); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no chromium: hack/build.sh browser installs it (needs root and apt-get), or set TANGRAM_CHROMIUM")
}

// Start runs a Chromium that keeps its profile in a folder of its own. It resolves no name
// but loopback's, so a page that asks another host fails.
func Start(path string) (*Browser, error) {
	dir, err := os.MkdirTemp("", "tangram-chromium-")
	if err != nil {
		return nil, err
	}
	fromUs, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, toUs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, "--headless=new", "--remote-debugging-pipe", "--user-data-dir="+dir, "--no-first-run", "--no-default-browser-check",
		"--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--hide-scrollbars", "--force-color-profile=srgb", "--mute-audio", "--ignore-certificate-errors",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost", "about:blank")
	if os.Geteuid() == 0 {
		cmd.Args = append(cmd.Args, "--no-sandbox") // its sandbox does not work for root
	}
	cmd.ExtraFiles = []*os.File{fromUs, toUs} // file descriptors 3 and 4
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	fromUs.Close()
	toUs.Close()
	b := &Browser{cmd: cmd, to: to, dir: dir, waiting: map[int]chan answer{}, pages: map[string]*Page{}}
	go b.read(from)
	return b, nil
}

// Close ends the browser and removes its profile.
func (b *Browser) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, _ = b.call(ctx, "", "Browser.close", nil) // it is killed below if it does not
	gone := make(chan error, 1)
	go func() { gone <- b.cmd.Wait() }()
	select {
	case <-gone:
	case <-ctx.Done():
		b.cmd.Process.Kill()
		<-gone
	}
	b.to.Close()
	return os.RemoveAll(b.dir)
}

// read gives answers to those who wait, and events to their page.
func (b *Browser) read(from io.Reader) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		line, err := in.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			b.ended = fmt.Errorf("chromium ended: %w", err)
			for id, c := range b.waiting {
				close(c)
				delete(b.waiting, id)
			}
			b.mu.Unlock()
			return
		}
		var m struct {
			answer
			ID        int
			Method    string
			Params    json.RawMessage
			SessionID string `json:"sessionId"`
		}
		if json.Unmarshal(line[:len(line)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		c, page := b.waiting[m.ID], b.pages[m.SessionID]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		switch {
		case m.ID != 0 && c != nil:
			c <- m.answer
		case m.Method != "" && page != nil:
			page.event(m.Method, m.Params)
		}
	}
}

// call sends a command and returns its result.
func (b *Browser) call(ctx context.Context, session, method string, params any) (json.RawMessage, error) {
	if params == nil {
		params = struct{}{}
	}
	c := make(chan answer, 1)
	b.mu.Lock()
	if b.ended != nil {
		b.mu.Unlock()
		return nil, b.ended
	}
	b.next++
	id := b.next
	b.waiting[id] = c
	message := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		message["sessionId"] = session
	}
	data, err := json.Marshal(message)
	if err == nil {
		_, err = b.to.Write(append(data, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	select {
	case a, ok := <-c:
		switch {
		case !ok:
			return nil, fmt.Errorf("%s: chromium ended", method)
		case a.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, a.Error.Message)
		}
		return a.Result, nil
	case <-ctx.Done():
		b.mu.Lock()
		delete(b.waiting, id)
		b.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// Open makes a page of its own profile: cookies and storage are not shared with others.
func (b *Browser) Open(ctx context.Context) (*Page, error) {
	var made struct {
		BrowserContextID string `json:"browserContextId"`
		TargetID         string `json:"targetId"`
		SessionID        string `json:"sessionId"`
	}
	steps := []struct {
		method string
		params func() any
	}{
		{"Target.createBrowserContext", func() any { return nil }},
		{"Target.createTarget", func() any {
			return map[string]any{"url": "about:blank", "browserContextId": made.BrowserContextID, "width": 1280, "height": 900}
		}},
		{"Target.attachToTarget", func() any { return map[string]any{"targetId": made.TargetID, "flatten": true} }},
	}
	for _, step := range steps {
		result, err := b.call(ctx, "", step.method, step.params())
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(result, &made); err != nil {
			return nil, err
		}
	}
	p := &Page{browser: b, session: made.SessionID, target: made.TargetID}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Network", "Log", "DOM", "Accessibility", "Audits"} {
		if _, err := p.call(ctx, domain+".enable", nil); err != nil {
			return nil, err
		}
	}
	// Pages are tested side by side: each is to behave as the one in front.
	if _, err := p.call(ctx, "Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}); err != nil {
		return nil, err
	}
	return p, p.Resize(ctx, 1280, 900, 1)
}

// quote is a string as JavaScript.
func quote(s string) string {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.Encode(s) // a string always encodes
	return strings.TrimSpace(out.String())
}
