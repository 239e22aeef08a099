package web

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// world is a cluster with the scheduler and a controller that serves the page.
type world struct {
	*cluster.World
	url string
}

// startWorld starts a cluster that ends with the test. Its fleet is described by an agent.
func startWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: cluster.ForTest(t, cluster.Options{
		Programs:   []string{"gpu-scheduler", "gpu-controller", "gpu-agent"},
		Kubernetes: local.Options{ControllerManager: true, KWOK: true},
		Manifests:  cluster.Manifests(tenants, visitors),
	})}
	f, err := fleet.Parse("fleet.yaml", fleetFile)
	w.Must(err)
	w.Must(w.CreateNodes(t.Context(), f))
	path := filepath.Join(w.Dir(), "fleet.yaml")
	w.Must(os.WriteFile(path, fleetFile, 0o600))
	w.Start(local.Component{Name: "gpu-agent", Flags: []string{"--backend=simulated", "--fleet=" + path}})
	w.Must(w.AwaitFleet(t.Context(), f))
	w.damage()
	port, err := local.FreePort()
	w.Must(err)
	at := "127.0.0.1:" + strconv.Itoa(port)
	w.url = "https://" + at
	w.Controller(cluster.Alone, "--web-listen="+at)
	return w
}

// visitors: alice may list pods of namespace language and nothing else, carol everything,
// dave has a token that may not ask.
var visitors = cluster.Accounts(
	cluster.Account{Namespace: "language", Name: "alice", Everywhere: []string{"tangram-viewer"}, Own: []string{"list-pods"}},
	cluster.Account{Namespace: "language", Name: "carol", Everywhere: []string{"tangram-viewer", "list-everything"}},
	cluster.Account{Namespace: "vision", Name: "dave"},
)

// TestCluster is the page as it is deployed: gpu-controller serves it with TLS, and passes
// questions on to the scheduler with the visitor's token. A person whose gang waits logs in,
// finds it, sees why, what would help and when; then there is room, and it starts. The
// pictures of docs/img are taken on the way.
func TestCluster(t *testing.T) {
	t.Parallel()
	v := visit(t)
	defer expect(v, "401", "403", "404", "503") // visitors without rights, and a gang of another namespace; also when a step ends the test
	w := startWorld(t)
	carol, alice, dave := w.Token("language", "carol"), w.Token("language", "alice"), w.Token("vision", "dave")
	page := cluster.Asker{Client: cluster.HTTPClient(nil, ""), Base: w.url} // what is tested is what it answers

	// Without a scheduler the page is there, and says what is missing.
	w.Complete("the page's port is open", func() string { // a little after the other
		if _, err := page.Try(t.Context(), "GET", "/", nil); err != nil {
			return err.Error()
		}
		return ""
	})
	if a := page.Bearer(carol).Do(t, "GET", query.PathFleet, nil); a.Status != 503 || !strings.Contains(a.Text, "NotLeader") {
		t.Fatalf("without a scheduler: %d %s", a.Status, a.Text)
	}
	w.Start(local.Component{Name: "gpu-scheduler", Answers: true})
	w.Endpoint("gpu-scheduler", nil) // until then the page has no scheduler to ask
	pause := time.Duration(0)
	if *update {
		pause = 22 * time.Second // a chart over time needs some
	}
	w.showcase(pause)

	t.Run("refused", func(t *testing.T) {
		for _, c := range []struct {
			name, method, path, token string
			body                      io.Reader
			status                    int
		}{
			{"no token", "GET", query.PathFleet, "", nil, 401},
			{"bad token", "GET", query.PathFleet, "bad", nil, 401},
			{"no right", "GET", query.PathFleet, dave, nil, 403},
			// The role names the questions: of others the answer does not say whether they exist.
			{"no such question", "GET", "/query/v1/secrets", carol, nil, 403},
			{"the controller's metrics", "GET", "/metrics", carol, nil, 404},
			{"the API server's paths", "GET", "/api/v1/pods", carol, nil, 404},
			{"oversized", "POST", query.PathWhatIf, carol, bytes.NewReader(make([]byte, query.MaxBody+1)), 413},
			{"a write to the page", "POST", "/", carol, nil, 405},
		} {
			if a := page.Bearer(c.token).Do(t, c.method, c.path, c.body); a.Status != c.status || !strings.Contains(a.Text, `"reason"`) {
				t.Errorf("%s: %d %.200s, want %d", c.name, a.Status, a.Text, c.status)
			}
		}
	})

	v.open(w.url + "/#/pending")
	v.login("bad")
	v.reads("This token was refused")
	v.login(dave)
	v.reads("may not get")
	v.click("#logout")
	v.login(carol)
	v.shown()
	v.reads("vision/video-diffusion")
	v.fill("#ns", mine.Namespace)
	v.fill("#q", "mixture")
	v.until(`document.querySelectorAll('tbody tr').length === 1 && document.querySelector('tbody a')?.textContent === ` + js(mine.String()))
	v.click("tbody a")
	v.until(`location.hash === ` + js("#/why/"+mine.String()))
	v.until(`document.querySelector('#answer')?.innerText.includes('4 members in one rack')`)
	v.until(`document.querySelector('#when').innerText.includes('nodes are reserved')`)
	v.until(`/in \d+ min/.test(document.querySelector('#when b').innerText)`)
	v.until(`document.querySelectorAll('#helps li').length > 1`)
	t.Logf("why: %s | %s | %s", eval[string](v, `document.querySelector('#answer').innerText`), eval[string](v, `document.querySelector('#when').innerText`), eval[string](v, `document.querySelector('#helps').innerText`))
	v.click("aside a[href^='#/plan/']")
	v.until(`document.querySelectorAll('.plan figure').length === 4 && document.querySelectorAll('.plan .linkgroup').length === 4`)
	v.reads("kept for it")
	v.click("#nav a[href='#/fleet']")
	v.shown()
	v.reads("28 of 30")
	v.click("#as")
	v.until(`document.querySelector('tbody tr')`)
	v.fill("#find", "llama")
	v.until(`document.querySelectorAll('tbody a[href="#/why/language/llama-70b"]').length === 24`)
	v.click("#nav a[href='#/queues']")
	v.shown()
	v.reads("research")
	v.click("#nav a[href='#/timeline']")
	v.shown()
	v.reads("batch/reindex") // two of thumbnails were evicted for it
	v.click("#nav a[href='#/health']")
	v.shown()
	v.reads("XID 79")
	v.reads("lost")
	v.open(w.url + "/#/plan/language/llama-70b")
	v.until(`document.querySelectorAll('.plan .device.mine').length === 24`)
	v.open(w.url + "/#/whatif")
	v.fill("#manifest", manifest)
	v.click("#ask")
	v.reads("language/trial")
	v.pictures(w.url, *update)
	v.click("#logout")

	// A visitor that may list one namespace sees no names of others and no nodes.
	v.login(alice)
	for _, hash := range []string{"#/pending", "#/fleet", "#/queues", "#/timeline", "#/health", "#/why/" + mine.String()} {
		v.open(w.url + "/" + hash)
		v.shown()
		text := eval[string](v, `document.body.innerText`)
		for _, other := range waves {
			for _, o := range other {
				if name := o.namespace + "/" + o.name; o.namespace != mine.Namespace && strings.Contains(text, name) {
					t.Errorf("%s shows %q to a visitor that may only list pods of %s", hash, name, mine.Namespace)
				}
			}
		}
	}
	v.open(w.url + "/#/why/vision/world-model")
	v.until(`document.querySelector('#trouble .error') || document.querySelector('#answer')`)
	t.Logf("another's gang: %s", eval[string](v, `document.querySelector('main').innerText`))

	// Room is made: the page says by itself that it runs.
	v.open(w.url + "/#/why/" + mine.String())
	v.shown()
	for _, name := range []string{"llama-70b", "code-eval", "tokenizer"} {
		w.Within(mine.Namespace).Remove(cluster.Jobs, name)
	}
	v.until(`[...document.querySelectorAll('.facts dd')].some((e) => e.textContent === 'Running')`)
	if hosts := v.asked(); len(hosts) != 1 || hosts[w.url] == 0 {
		t.Errorf("requests went to %v, want only %s", hosts, w.url)
	}
}

const manifest = `apiVersion: batch/v1
kind: Job
metadata: {name: trial, namespace: language}
spec:
  template:
    spec:
      schedulerName: gpu-scheduler
      restartPolicy: Never
      containers:
      - {name: main, image: pause, resources: {limits: {nvidia.com/gpu: 1}}}
`
