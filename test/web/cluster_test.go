package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// world is a cluster with the scheduler and a controller that serves the page.
type world struct {
	*cluster.Cluster
	url string
}

// startWorld starts a cluster that ends with the test.
func startWorld(t *testing.T) *world {
	t.Helper()
	bin := cluster.Bin(t, "kwok", "kube-controller-manager", "gpu-scheduler", "gpu-controller", "gpu-agent")
	w := &world{Cluster: cluster.ForTest(t, cluster.Options{
		Kubernetes: local.Options{Bin: bin, ControllerManager: true, KWOK: true},
		Manifests:  [][]byte{config.CRDs(), config.VolcanoCRDs(), config.RBAC(), config.ControllerRBAC(), config.AgentRBAC(), tenants, []byte(visitorRoles), visitors},
	})}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := w.fill(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}

// visitors: alice may list pods of namespace language and nothing else, carol everything,
// dave has a token that may not ask.
var visitors = cluster.Accounts(
	cluster.Account{Namespace: "language", Name: "alice", Everywhere: []string{"tangram-viewer"}, Own: []string{"page-pods"}},
	cluster.Account{Namespace: "language", Name: "carol", Everywhere: []string{"tangram-viewer", "page-everything"}},
	cluster.Account{Namespace: "vision", Name: "dave"},
)

// visitorRoles are what visitors may list.
const visitorRoles = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: page-pods}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: page-everything}
rules:
- {apiGroups: [""], resources: [pods, nodes], verbs: [list]}
- {apiGroups: [scheduling.volcano.sh], resources: [queues], verbs: [list]}
`

// fill makes the fleet, which an agent describes, and starts the controller.
func (w *world) fill(ctx context.Context) error {
	f, err := fleet.Parse("fleet.yaml", fleetFile)
	if err != nil {
		return err
	}
	if err := w.CreateNodes(ctx, f); err != nil {
		return err
	}
	path := filepath.Join(w.Dir(), "fleet.yaml")
	if err := os.WriteFile(path, fleetFile, 0o600); err != nil {
		return err
	}
	if _, err := w.Launch(ctx, local.Component{Name: "gpu-agent", Flags: []string{"--backend=simulated", "--fleet=" + path}}); err != nil {
		return err
	}
	if err := w.AwaitFleet(ctx, f); err != nil {
		return err
	}
	if err := w.damage(ctx); err != nil {
		return err
	}
	port, err := local.FreePort()
	if err != nil {
		return err
	}
	at := "127.0.0.1:" + strconv.Itoa(port)
	w.url = "https://" + at
	_, err = w.Launch(ctx, local.Component{Name: "gpu-controller", Flags: []string{cluster.Alone, "--web-listen=" + at}})
	return err
}

// scheduler starts the scheduler, and returns once its Lease says where it answers. Until
// then the page has nobody to ask.
func (w *world) scheduler(ctx context.Context) error {
	if _, err := w.Launch(ctx, local.Component{Name: "gpu-scheduler", Answers: true}); err != nil {
		return err
	}
	_, err := w.Endpoint(ctx, "gpu-scheduler", nil)
	return err
}

func (w *world) token(t *testing.T, namespace, name string) string {
	t.Helper()
	token, err := w.Token(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestCluster is the page as it is deployed: gpu-controller serves it with TLS, and passes
// questions on to the scheduler with the visitor's token. A person whose gang waits logs in,
// finds it, sees why, what would help and when; then there is room, and it starts. The
// pictures of docs/img are taken on the way.
func TestCluster(t *testing.T) {
	t.Parallel()
	v := visit(t)
	defer expect(v, "401", "403", "404", "503") // visitors without rights, and another's gang; also when a step ends the test
	w := startWorld(t)
	carol, alice, dave := w.token(t, "language", "carol"), w.token(t, "language", "alice"), w.token(t, "vision", "dave")
	ask := asker(w.url)

	// Without a scheduler the page is there, and says what is missing.
	if status, text := ask(t, "GET", query.PathFleet, carol, nil); status != 503 || !strings.Contains(text, "NotLeader") {
		t.Fatalf("without a scheduler: %d %s", status, text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := w.scheduler(ctx); err != nil {
		t.Fatal(err)
	}
	pause := time.Duration(0)
	if *update {
		pause = 22 * time.Second // a chart over time needs some
	}
	w.showcase(t, pause)

	t.Run("refused", func(t *testing.T) {
		for _, c := range []struct {
			name, method, path, token string
			body                      io.Reader
			status                    int
		}{
			{"no token", "GET", query.PathFleet, "", nil, 401},
			{"bad token", "GET", query.PathFleet, "bad", nil, 401},
			{"no right", "GET", query.PathFleet, dave, nil, 403},
			// The role names the questions: of others nobody learns whether there are any.
			{"no such question", "GET", "/query/v1/secrets", carol, nil, 403},
			{"the controller's metrics", "GET", "/metrics", carol, nil, 404},
			{"the API server's paths", "GET", "/api/v1/pods", carol, nil, 404},
			{"oversized", "POST", query.PathWhatIf, carol, bytes.NewReader(make([]byte, query.MaxBody+1)), 413},
			{"a write to the page", "POST", "/", carol, nil, 405},
		} {
			if status, text := ask(t, c.method, c.path, c.token, c.body); status != c.status || !strings.Contains(text, `"reason"`) {
				t.Errorf("%s: %d %.200s, want %d", c.name, status, text, c.status)
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
	v.reads("batch/reindex") // for whom two of thumbnails were evicted
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

	// A visitor who may list one namespace sees no other's names and no nodes.
	v.login(alice)
	for _, hash := range []string{"#/pending", "#/fleet", "#/queues", "#/timeline", "#/health", "#/why/" + mine.String()} {
		v.open(w.url + "/" + hash)
		v.shown()
		text := eval[string](v, `document.body.innerText`)
		for _, other := range waves {
			for _, o := range other {
				if name := o.namespace + "/" + o.name; o.namespace != mine.Namespace && strings.Contains(text, name) {
					t.Errorf("%s shows %q to a visitor who may only list pods of %s", hash, name, mine.Namespace)
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
		policy := metav1.DeletePropagationBackground
		if err := w.Client.BatchV1().Jobs(mine.Namespace).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
	}
	v.until(`[...document.querySelectorAll('.facts dd')].some((e) => e.textContent === 'Running')`)
	if hosts := v.Hosts(); len(hosts) != 1 || hosts[w.url] == 0 {
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

// asker asks without a browser.
func asker(url string) func(t *testing.T, method, path, token string, body io.Reader) (int, string) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // what is tested is what it answers
	return func(t *testing.T, method, path, token string, body io.Reader) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, body)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		var answer *http.Response
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { // the page's port opens a little after the other
			if answer, err = client.Do(r); err == nil || time.Now().After(end) || body != nil {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
}
