package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// findChromium is the path of a Chromium, or an error that says how to get one.
func findChromium() (string, error) {
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

// chromium is the one browser of all tests, which the first that needs it starts.
var chromium browser

type browser struct {
	sync.Once
	context.Context
	err error
}

func (b *browser) start(path string) { b.Context, b.err = startChromium(path) }

// startChromium resolves no name but loopback's, so a page that asks another host fails.
func startChromium(path string) (context.Context, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.IgnoreCertErrors, chromedp.DisableGPU,
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // its sandbox does not work for root
	}
	allocator, _ := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(allocator) // endChromium cancels it
	return ctx, chromedp.Do(ctx)
}

// endChromium ends the browser, if a test started it.
func endChromium() error {
	if chromium.Context == nil || chromium.err != nil {
		return nil
	}
	return chromedp.Cancel(chromium.Context)
}

// visitor is a person at the page: every step ends the test when it fails.
type visitor struct {
	t   *testing.T
	tab context.Context

	mu       sync.Mutex
	problems []string
	hosts    map[string]int
}

// visit opens a page with storage of its own. Problems that the test does not take with
// expect fail it.
func visit(t *testing.T) *visitor {
	t.Helper()
	path, err := findChromium()
	if err != nil {
		t.Skipf("SKIPPED, the page is not tested: %v", err)
	}
	chromium.Do(func() { chromium.start(path) })
	if chromium.err != nil {
		t.Fatal(chromium.err)
	}
	v := &visitor{t: t, hosts: map[string]int{}}
	tab, end := chromedp.NewContext(chromium.Context, chromedp.WithNewBrowserContext())
	v.tab = tab
	if err := chromedp.Do(tab); err != nil { // without a limit: that would end the tab
		t.Fatal(err)
	}
	v.listen()
	call(v, audits.Enable, cdp.Empty{})
	call(v, accessibility.Enable, cdp.Empty{})
	// Pages are tested side by side: each is to behave as the one in front.
	call(v, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	v.resize(1280, 900, 1)
	t.Cleanup(func() {
		expect(v)
		end()
	})
	return v
}

// listen keeps what a test asks for afterwards: errors and warnings of the page, violations
// of its policy, and where requests went.
func (v *visitor) listen() {
	messages, issues, requests := chromedp.Console(v.tab), chromedp.Events(v.tab, audits.IssueAdded), chromedp.Events(v.tab, network.RequestWillBeSent)
	add := func(problem string) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.problems = append(v.problems, problem)
	}
	go func() {
		for m, err := range messages {
			switch {
			case err != nil:
				return
			case m.Type == chromedp.ConsoleDebug && strings.HasPrefix(m.Text, "sync "):
				add(m.Text)
			case m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning || m.Type == chromedp.ConsoleException || m.Type == "assert":
				add(cmp.Or(m.Source, string(m.Type)) + ": " + m.Text + " " + m.URL)
			}
		}
	}()
	go func() {
		for e, err := range issues {
			if err == nil && strings.Contains(string(e.Issue.Code), "ContentSecurityPolicy") {
				add(fmt.Sprintf("policy: %+v", e.Issue.Details.ContentSecurityPolicyIssueDetails))
			}
		}
	}()
	go func() {
		for e, err := range requests {
			if err != nil {
				return
			}
			if at, err := url.Parse(e.Request.URL); err == nil {
				v.mu.Lock()
				v.hosts[at.Scheme+"://"+at.Host]++
				v.mu.Unlock()
			}
		}
	}()
}

// takeProblems are the problems of the page so far, which are forgotten. The page says a word
// first, and what it said before that has been heard once that has.
func (v *visitor) takeProblems() (out []string) {
	v.t.Helper()
	word := fmt.Sprintf("sync %d", time.Now().UnixNano())
	eval[any](v, `console.debug(`+js(word)+`)`)
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		v.mu.Lock()
		all := v.problems
		v.mu.Unlock()
		for i, problem := range all {
			if problem == word {
				v.mu.Lock()
				v.problems = v.problems[i+1:]
				v.mu.Unlock()
				return all[:i]
			}
		}
		if time.Now().After(end) {
			v.t.Fatal("the browser's console says nothing")
		}
	}
}

// expect takes the browser's own complaints about refused requests, and fails for others.
func expect(v *visitor, statuses ...string) {
	v.t.Helper()
	for _, problem := range v.takeProblems() {
		known := false
		for _, status := range statuses {
			known = known || strings.HasPrefix(problem, "network:") && strings.Contains(problem, "status of "+status)
		}
		if !known {
			v.t.Errorf("the browser complains: %.600s", problem)
		}
	}
}

// asked are the origins that requests went to, with how many.
func (v *visitor) asked() map[string]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.hosts)
}

// run runs a step that must succeed.
func run[T any](v *visitor, step chromedp.Action[T]) T {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.tab, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, step)
	if err != nil {
		v.t.Fatal(err)
	}
	return out
}

// call is run for one command of the protocol.
func call[P, R any](v *visitor, command cdp.Command[P, R], params P) R {
	v.t.Helper()
	return run(v, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, command, params) })
}

// eval evaluates JavaScript, awaits it and returns its value.
func eval[T any](v *visitor, script string) T {
	v.t.Helper()
	return run(v, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

func (v *visitor) open(url string) {
	v.t.Helper()
	run(v, chromedp.Navigate(url))
}

// until waits for a condition in JavaScript. One evaluation waits at most a second: a
// navigation ends it early.
func (v *visitor) until(condition string) {
	v.t.Helper()
	script := `new Promise((done) => {
		const end = Date.now() + 1000;
		const look = () => {
			let ok = false;
			try { ok = Boolean(` + condition + `); } catch {}
			if (ok || Date.now() > end) done(ok); else setTimeout(look, 20);
		};
		look();
	})`
	for end := time.Now().Add(patience); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(v.tab, patience)
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script, chromedp.EvalAwaitPromise))
		cancel()
		if ok {
			return
		}
		if err != nil && !strings.Contains(err.Error(), "context") {
			v.t.Fatal(err)
		}
	}
	v.t.Fatalf("%s does not hold; the page says: %s", condition,
		eval[string](v, `location.hash + ' | ' + document.getElementById('status')?.textContent + ' | ' + document.body.innerText.slice(0, 700)`))
}

// reads waits until the page shows a text.
func (v *visitor) reads(text string) {
	v.t.Helper()
	v.until(`document.body.innerText.includes(` + js(text) + `)`)
}

// click presses the mouse button in the middle of an element (of its first line), as a
// person would: what lies over it gets the click.
func (v *visitor) click(selector string) {
	v.t.Helper()
	v.until(`document.querySelector(` + js(selector) + `)`)
	at := eval[struct{ X, Y float64 }](v, `(() => { const e = document.querySelector(`+js(selector)+`); e.scrollIntoView({block: 'center'}); const r = e.getClientRects()[0]; return {X: r.left + r.width / 2, Y: r.top + r.height / 2}; })()`)
	run(v, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at.X, at.Y))
	run(v, chromedp.MouseClickXY(at.X, at.Y))
}

// fill puts the focus on a field and types.
func (v *visitor) fill(selector, text string) {
	v.t.Helper()
	v.click(selector)
	call(v, input.InsertText, input.InsertTextParams{Text: text})
}

// keys are those that a person presses.
var keys = map[string]string{"Tab": kb.Tab, "Enter": kb.Enter, "Home": kb.Home, "End": kb.End, "PageDown": kb.PageDown, "ArrowDown": kb.ArrowDown, "ArrowRight": kb.ArrowRight}

func (v *visitor) press(names ...string) {
	v.t.Helper()
	for _, name := range names {
		run(v, chromedp.KeyEvent(keys[name]))
	}
}

// resize sets the size of the window, in CSS pixels, and how many pixels one has.
func (v *visitor) resize(width, height int, ratio float64) {
	v.t.Helper()
	call(v, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: int64(width), Height: int64(height), DeviceScaleFactor: ratio, Mobile: width < 600})
}

// prefers sets the system's colour scheme: light or dark.
func (v *visitor) prefers(scheme string) {
	v.t.Helper()
	call(v, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// thing is something that a screen reader can reach, as the browser describes it.
type thing struct {
	role, name string
	focusable  bool
}

// things are all that a screen reader can reach on the page.
func (v *visitor) things() (out []thing) {
	v.t.Helper()
	text := func(value *accessibility.Value) string {
		if value == nil {
			return ""
		}
		return strings.Trim(string(value.Value), `"`)
	}
	for _, n := range call(v, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if n.Ignored {
			continue
		}
		t := thing{role: text(n.Role), name: text(n.Name)}
		for _, property := range n.Properties {
			t.focusable = t.focusable || property.Name == accessibility.PropertyNameFocusable && text(property.Value) == "true"
		}
		out = append(out, t)
	}
	return out
}

// login pastes a token.
func (v *visitor) login(token string) {
	v.t.Helper()
	v.until(`document.querySelector('#token') === document.activeElement`)
	v.fill("#token", token)
	v.press("Enter")
}

// shown waits until a view has data.
func (v *visitor) shown() {
	v.t.Helper()
	v.until(`document.getElementById('status').dataset.kind === 'live' && document.getElementById('view')?.childElementCount > 0`)
}
