// Package web tests the page in a real browser (Chromium, headless), by what a person does:
// on a local cluster as it is deployed, and against a fake of the query API for scale,
// failures and hostile names.
//
//	go test ./test/web                       # all
//	go test ./test/web -run Measure -v       # first paint and update cost at 1,000 nodes
//	go test ./test/web -run Cluster -update  # the pictures of docs/img, anew
package web

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/internal/web"
	"github.com/tangram-dev/tangram/test/web/browser"
	"github.com/tangram-dev/tangram/test/web/fake"
)

var update = flag.Bool("update", false, "write the pictures of docs/img, which takes two minutes more")

// patience is how long anything may take that should take a second: test machines are slow.
const patience = 2 * time.Minute

// chromium is the one browser of all tests, started by the first that needs it.
var chromium struct {
	sync.Once
	*browser.Browser
	err error
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if chromium.Browser != nil {
		if err := chromium.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "chromium:", err)
		}
	}
	os.Exit(code)
}

// visit opens a page of its own. Problems that the test does not take with problems fail it.
func visit(t *testing.T) *visitor {
	t.Helper()
	path, err := browser.Find()
	if err != nil {
		t.Skipf("SKIPPED, the page is not tested: %v", err)
	}
	chromium.Do(func() { chromium.Browser, chromium.err = browser.Start(path) })
	if chromium.err != nil {
		t.Fatal(chromium.err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := chromium.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t: t, Page: p}
	t.Cleanup(func() {
		for _, problem := range p.Problems() {
			t.Errorf("the browser complains: %.600s", problem)
		}
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return v
}

// visitor is a person at the page: every step ends the test when it fails.
type visitor struct {
	t *testing.T
	*browser.Page
}

func (v *visitor) do(step func(context.Context) error) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := step(ctx); err != nil {
		v.t.Fatal(err)
	}
}

func (v *visitor) open(url string) {
	v.t.Helper()
	v.do(func(ctx context.Context) error { return v.Go(ctx, url) })
}

// until waits for a condition in JavaScript.
func (v *visitor) until(condition string) {
	v.t.Helper()
	v.do(func(ctx context.Context) error { return v.Wait(ctx, condition) })
}

// reads waits until the page shows a text.
func (v *visitor) reads(text string) {
	v.t.Helper()
	v.until(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

func (v *visitor) click(selector string) {
	v.t.Helper()
	v.until(fmt.Sprintf("document.querySelector(%q)", selector))
	v.do(func(ctx context.Context) error { return v.Click(ctx, selector) })
}

// fill puts the focus on a field and types.
func (v *visitor) fill(selector, text string) {
	v.t.Helper()
	v.click(selector)
	v.do(func(ctx context.Context) error { return v.Type(ctx, text) })
}

func (v *visitor) press(keys ...string) {
	v.t.Helper()
	for _, key := range keys {
		v.do(func(ctx context.Context) error { return v.Press(ctx, key) })
	}
}

// eval evaluates JavaScript into a value.
func eval[T any](v *visitor, script string) T {
	v.t.Helper()
	var out T
	v.do(func(ctx context.Context) error { return v.Eval(ctx, script, &out) })
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

// site serves the page over a fake fleet; open: without a token.
func site(t *testing.T, fleet *fake.Fleet, open bool) string {
	t.Helper()
	server := httptest.NewServer(web.Handler(fleet.Handler(open)))
	t.Cleanup(server.Close)
	return server.URL
}
