// Package web tests the page in a real browser (Chromium, headless), by what a person does:
// on a local cluster as it is deployed, and against a fake of the query API for scale,
// failures and hostile names.
//
//	go test ./test/web                       # all
//	go test ./test/web -run Measure -v       # first paint and update cost at 1,000 nodes
//	go test ./test/web -run Cluster -update  # the pictures of docs/img, anew
package web

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/internal/web"
	"github.com/tangram-dev/tangram/test/web/fake"
)

var update = flag.Bool("update", false, "write the pictures of docs/img, which takes two minutes more")

// patience is how long anything may take that should take a second: test machines are slow.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := endChromium(); err != nil {
		fmt.Fprintln(os.Stderr, "chromium:", err)
	}
	os.Exit(code)
}

// site serves the page over a fake fleet; open: without a token.
func site(t *testing.T, fleet *fake.Fleet, open bool) string {
	t.Helper()
	server := httptest.NewServer(web.Handler(fleet.Handler(open)))
	t.Cleanup(server.Close)
	return server.URL
}
