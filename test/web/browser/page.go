package browser

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Page is one tab.
type Page struct {
	browser *Browser
	session string
	target  string

	mu       sync.Mutex
	problems []string
	hosts    map[string]int
	requests int
}

func (p *Page) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	return p.browser.call(ctx, p.session, method, params)
}

// event keeps what a test asks for afterwards: errors, violations of the policy, requests.
func (p *Page) event(method string, params json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch method {
	case "Runtime.exceptionThrown":
		var e struct {
			ExceptionDetails struct {
				Text      string
				Exception struct{ Description string }
			}
		}
		_ = json.Unmarshal(params, &e) // an empty problem is still one
		p.problems = append(p.problems, "exception: "+e.ExceptionDetails.Text+" "+e.ExceptionDetails.Exception.Description)
	case "Log.entryAdded":
		var e struct {
			Entry struct{ Source, Level, Text, URL string }
		}
		_ = json.Unmarshal(params, &e)
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			p.problems = append(p.problems, e.Entry.Source+": "+e.Entry.Text+" "+e.Entry.URL)
		}
	case "Runtime.consoleAPICalled":
		var e struct{ Type string }
		_ = json.Unmarshal(params, &e)
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			p.problems = append(p.problems, "console: "+string(params))
		}
	case "Audits.issueAdded":
		var e struct {
			Issue struct{ Code string }
		}
		_ = json.Unmarshal(params, &e)
		if strings.Contains(e.Issue.Code, "ContentSecurityPolicy") {
			p.problems = append(p.problems, "policy: "+string(params))
		}
	case "Network.requestWillBeSent":
		var e struct {
			Request struct{ URL string }
		}
		_ = json.Unmarshal(params, &e)
		p.requests++
		if p.hosts == nil {
			p.hosts = map[string]int{}
		}
		scheme, rest, _ := strings.Cut(e.Request.URL, "://")
		host, _, _ := strings.Cut(rest, "/")
		p.hosts[scheme+"://"+host]++
	}
}

// Problems are errors of scripts, warnings and violations of the Content-Security-Policy so
// far, and empties the list.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.problems
	p.problems = nil
	return out
}

// Hosts are the origins that were asked, with how often.
func (p *Page) Hosts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]int{}
	for k, v := range p.hosts {
		out[k] = v
	}
	return out
}

// Go opens an address and returns once it is loaded.
func (p *Page) Go(ctx context.Context, url string) error {
	result, err := p.call(ctx, "Page.navigate", map[string]any{"url": url})
	if err != nil {
		return err
	}
	var r struct{ ErrorText string }
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	if r.ErrorText != "" {
		return fmt.Errorf("open %s: %s", url, r.ErrorText)
	}
	return p.Wait(ctx, `document.readyState === 'complete'`)
}

// Eval evaluates JavaScript, awaits it, and decodes its value into out unless nil.
func (p *Page) Eval(ctx context.Context, script string, out any) error {
	result, err := p.call(ctx, "Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true, "userGesture": true})
	if err != nil {
		return err
	}
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	if r.ExceptionDetails != nil {
		return fmt.Errorf("%s: %s %s", script, r.ExceptionDetails.Text, r.ExceptionDetails.Exception.Description)
	}
	if out == nil || len(r.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(r.Result.Value, out)
}

// Wait returns once a condition holds. The page itself looks at it before every frame.
func (p *Page) Wait(ctx context.Context, condition string) error {
	for {
		var ok bool
		// One evaluation waits at most a second: a navigation ends it early.
		err := p.Eval(ctx, `new Promise((done) => {
			const end = Date.now() + 1000;
			const look = () => {
				let ok = false;
				try { ok = Boolean(`+condition+`); } catch {}
				if (ok || Date.now() > end) done(ok); else setTimeout(look, 20);
			};
			look();
		})`, &ok)
		switch {
		case err == nil && ok:
			return nil
		case ctx.Err() != nil:
			var now string
			late, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			_ = p.Eval(late, `location.hash + ' | ' + document.getElementById('status')?.textContent + ' | ' + document.body.innerText.slice(0, 700)`, &now)
			cancel()
			return fmt.Errorf("%s does not hold; the page says: %s", condition, now)
		case err != nil && !strings.Contains(err.Error(), "context"):
			return err
		}
	}
}

// Click presses the mouse button in the middle of an element (of its first line), as a
// person would: what lies over it gets the click.
func (p *Page) Click(ctx context.Context, selector string) error {
	var at struct{ X, Y float64 }
	script := `(() => { const e = document.querySelector(` + quote(selector) + `); e.scrollIntoView({block: 'center'}); const r = e.getClientRects()[0]; return {X: r.left + r.width / 2, Y: r.top + r.height / 2}; })()`
	if err := p.Eval(ctx, script, &at); err != nil {
		return err
	}
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		if _, err := p.call(ctx, "Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}); err != nil {
			return err
		}
	}
	return nil
}

// Type writes text where the focus is.
func (p *Page) Type(ctx context.Context, text string) error {
	_, err := p.call(ctx, "Input.insertText", map[string]any{"text": text})
	return err
}

// Press presses a key: Tab, Enter, ArrowDown, ...; "Shift+Tab" with the shift key.
func (p *Page) Press(ctx context.Context, key string) error {
	codes := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
	modifiers := 0
	if name, ok := strings.CutPrefix(key, "Shift+"); ok {
		key, modifiers = name, 8
	}
	down := map[string]any{"type": "rawKeyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key], "modifiers": modifiers}
	if key == "Enter" {
		down["type"], down["text"] = "keyDown", "\r"
	}
	if _, err := p.call(ctx, "Input.dispatchKeyEvent", down); err != nil {
		return err
	}
	_, err := p.call(ctx, "Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key], "modifiers": modifiers})
	return err
}

// Resize sets the size of the window, in CSS pixels, and how many pixels one has.
func (p *Page) Resize(ctx context.Context, width, height int, ratio float64) error {
	_, err := p.call(ctx, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": ratio, "mobile": width < 600})
	return err
}

// Prefers sets the system's colour scheme: light or dark.
func (p *Page) Prefers(ctx context.Context, scheme string) error {
	_, err := p.call(ctx, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
	return err
}

// Screenshot is the window as a PNG.
func (p *Page) Screenshot(ctx context.Context) ([]byte, error) {
	result, err := p.call(ctx, "Page.captureScreenshot", map[string]any{"format": "png"})
	if err != nil {
		return nil, err
	}
	var r struct{ Data string }
	if err := json.Unmarshal(result, &r); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(r.Data)
}

// Thing is something that a reader of the screen can reach, as the browser describes it.
type Thing struct {
	Role, Name string
	Focusable  bool
}

// Things are all that a reader of the screen can reach on the page.
func (p *Page) Things(ctx context.Context) ([]Thing, error) {
	result, err := p.call(ctx, "Accessibility.getFullAXTree", nil)
	if err != nil {
		return nil, err
	}
	type value struct{ Value any }
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name value
			Properties []struct {
				Name  string
				Value value
			}
		}
	}
	if err := json.Unmarshal(result, &tree); err != nil {
		return nil, err
	}
	var out []Thing
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		role, _ := n.Role.Value.(string)
		name, _ := n.Name.Value.(string)
		t := Thing{Role: role, Name: name}
		for _, property := range n.Properties {
			if property.Name == "focusable" {
				t.Focusable = property.Value.Value == true
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// Close closes the tab.
func (p *Page) Close(ctx context.Context) error {
	_, err := p.browser.call(ctx, "", "Target.closeTarget", map[string]any{"targetId": p.target})
	return err
}
