// Package metrics tests the scheduler's metrics from outside: a real API server, the
// scheduler as its users run it, and scrapes over HTTPS with tokens.
package metrics

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// world is one control plane with a scheduler, whose metrics are asked for.
type world struct {
	*cluster.World
	asker   cluster.Asker
	process *local.Process // of the scheduler
}

// newWorld starts a control plane with nodes and a scheduler.
func newWorld(t *testing.T, nodes, configuration string, manifests ...[]byte) *world {
	t.Helper()
	w := &world{World: cluster.ForTest(t, cluster.Options{
		Programs:   []string{"gpu-scheduler"},
		Kubernetes: local.Options{KWOK: true},
		Manifests:  cluster.Manifests(manifests...),
		Fleet:      nodes,
	})}
	w.asker.Client = cluster.HTTPClient(w.RESTConfig().CAData, "")
	w.scheduler(configuration)
	return w
}

// scheduler starts gpu-scheduler as the manifests do: with leader election, and asking the
// API server for the right to read its metrics. From now on it is the one that is asked.
func (w *world) scheduler(configuration string) {
	w.T.Helper()
	p := w.Start(local.Component{Name: "gpu-scheduler", Config: []byte(configuration)})
	w.process = p.Process
	w.asker.Base = fmt.Sprintf("https://127.0.0.1:%d", p.Port)
}

// readers may and may not read metrics.
var readers = cluster.Accounts(
	cluster.Account{Namespace: "default", Name: "prometheus", Everywhere: []string{"metrics"}},
	cluster.Account{Namespace: "default", Name: "stranger"},
)

// metricsRole is the right to read metrics.
const metricsRole = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: metrics}, rules: [{nonResourceURLs: [/metrics], verbs: [get]}]}`

// scrape reads all samples.
func (w *world) scrape(token string) cluster.Samples {
	w.T.Helper()
	answer := w.asker.Bearer(token).Do(w.T, http.MethodGet, "/metrics", nil)
	if answer.Status != http.StatusOK {
		w.T.Fatalf("status %d: %s", answer.Status, answer.Text)
	}
	out, err := cluster.ParseSamples(answer.Text)
	w.Must(err)
	return out
}

// expect waits until a scrape has these values.
func (w *world) expect(token string, want cluster.Samples) (got cluster.Samples) {
	w.T.Helper()
	w.Complete("samples", func() string {
		got = w.scrape(token)
		var wrong []string
		for key, value := range want {
			if got[key] != value {
				name, _, _ := strings.Cut(key, "{")
				wrong = append(wrong, fmt.Sprintf("%s: want %g, have\n%s", key, value, got.Of(name)))
			}
		}
		return strings.Join(wrong, "\n")
	})
	return got
}
