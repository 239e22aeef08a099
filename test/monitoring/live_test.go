package monitoring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/test/cluster"
)

// rare are metrics that a cluster without kubelets does not show within two minutes. Queries
// that use one of them may be empty; what they mean is tested by the cases of the alerts.
var rare = map[string]string{
	"tangram_agent_allocations_total": "counts what kubelet asks for; simulated nodes have no kubelet (test/node has)",
	"tangram_isolations_total":        isolated,
	"tangram_evictions_total":         isolated,
	"tangram_recovery_seconds_sum":    isolated,
}

const isolated = "gpu-controller looks every minute and acts when it has seen a fault twice: tangram drill waits for it"

// notYet are metrics of programs that do not export them yet. One that appears must leave
// this list.
var notYet = map[string]string{}

// liveLimit is how long the load runs at most until every picture shows something.
const liveLimit = 100 * time.Second

// TestLive: tangram up --monitoring scrapes all programs with a token, without which they
// say nothing; no rule fails; every query of every dashboard returns data under load; and
// an error that is injected raises its alert.
func TestLive(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short, and this test starts a control plane")
	}
	t.Parallel()
	c := startCluster(t)
	c.wantTargets("gpu-scheduler", "gpu-controller", "gpu-agent")
	c.wantNoEntry("gpu-scheduler")
	c.wantNoEntry("gpu-controller")
	load := c.load()
	c.Must(t, nil, "tangram", "fault", "a100-0", "--device", "3", "--xid", "79", "--dir", c.dir)
	c.wantPictures()
	eventually(t, "GPUXIDError fires", time.Minute, func() error {
		found, err := c.query(t.Context(), `ALERTS{alertname="GPUXIDError",alertstate="firing",severity="critical",Hostname="a100-0",gpu="3",xid="79"}`)
		if err == nil && len(found) == 0 {
			err = errors.New("it does not")
		}
		return err
	})
	load()
	c.wantRules()
}

// TestWithoutPrometheus: up says what to do, before it starts anything.
func TestWithoutPrometheus(t *testing.T) {
	t.Parallel()
	bin := cluster.Programs(t, "tangram", "gpu-scheduler", "gpu-controller", "gpu-agent", "kubectl")
	empty := t.TempDir()
	for _, name := range []string{"gpu-scheduler", "gpu-controller", "gpu-agent", "kubectl"} {
		if err := os.Symlink(filepath.Join(bin, name), filepath.Join(empty, name)); err != nil {
			t.Fatal(err)
		}
	}
	r := cluster.Commands{Bin: bin}.Run("tangram", "up", "--monitoring", "--bin", empty, "--dir", filepath.Join(t.TempDir(), "state"))
	if r.Code == 0 || !strings.Contains(r.Err, "lacks prometheus: run make monitoring") {
		t.Error(r)
	}
}

// liveCluster is what tangram up --monitoring started.
type liveCluster struct {
	prometheus
	cluster.Commands
	t   *testing.T
	dir string
}

const liveFleet = `pools:
- {name: a100, count: 2, gpu: {model: A100-80GB, count: 8}}
- {name: t4, count: 1, gpu: {model: T4, count: 2}}
`

const liveObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: load}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec: {weight: 2, guarantee: {resource: {nvidia.com/gpu: "2"}}, deserved: {nvidia.com/gpu: "8"}, capability: {nvidia.com/gpu: "16"}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: batch}
spec: {weight: 1}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
`

var address = regexp.MustCompile(`Prometheus is at (http://127\.0\.0\.1:\d+)`)

func startCluster(t *testing.T) *liveCluster {
	t.Helper()
	bin := cluster.Programs(t, "tangram", "gpu-scheduler", "gpu-controller", "gpu-agent", "etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kubectl", "prometheus")
	c := &liveCluster{t: t, dir: filepath.Join(t.TempDir(), "state")}
	c.Commands = cluster.Commands{Bin: bin, Kubeconfig: filepath.Join(c.dir, "kubeconfig")}
	fleet := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(fleet, []byte(liveFleet), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r := c.Run("tangram", "down", "--dir", c.dir); r.Code != 0 {
			t.Error(r)
		}
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(c.dir, "logs", "prometheus.log"))
			t.Logf("prometheus.log:\n%s", log)
		}
	})
	r := c.Must(t, nil, "tangram", "up", "--detach", "--monitoring", "--dir", c.dir, "--fleet", fleet)
	found := address.FindStringSubmatch(r.Out)
	if found == nil {
		t.Fatalf("up does not say where Prometheus is:\n%s", r)
	}
	c.url = found[1]
	c.Apply(t, liveObjects)
	return c
}

// load submits pods until the function that it returns is called.
func (c *liveCluster) load() (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for round := 0; ctx.Err() == nil; round++ {
			if r := c.Kubectl(manifests(round), "apply", "-f", "-"); r.Code != 0 && c.t.Context().Err() == nil {
				c.t.Error(r)
			}
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

// manifests are the pods of one round.
func manifests(round int) string {
	var out bytes.Buffer
	pod := func(name, queue string, gpus int, runtime, more string) {
		annotations := ""
		if runtime != "" {
			annotations = fmt.Sprintf("tangram.dev/runtime: %s", runtime)
		}
		fmt.Fprintf(&out, `---
apiVersion: v1
kind: Pod
metadata:
  name: %s-%d
  namespace: load
  labels: {tangram.dev/queue: %s, app: %s%s}
  annotations: {%s}
spec:
  schedulerName: gpu-scheduler
  restartPolicy: Never
  %s
  containers:
  - {name: main, image: none, resources: {limits: {nvidia.com/gpu: "%d"}}}
`, name, round, queue, strings.TrimRight(name, "0123456789-"), gang(name, round), annotations, more, gpus)
	}
	// Some that end soon, and some that kube-scheduler spreads although they would be packed.
	pod("short-r", "research", 1, "2s", "")
	pod("short-b", "batch", 1, "2s", "")
	for i := range 3 {
		pod(fmt.Sprintf("spread-%d", i), "research", 1, "4s", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: spread}}}]`)
	}
	// In turn: most of both large nodes is taken; one of these pods is in the way of an
	// urgent one; a gang has to wait until the other ends, and is told when.
	switch round % 8 {
	case 0:
		pod("long-0", "batch", 6, "12s", "")
		pod("long-1", "batch", 6, "12s", "")
	case 1:
		pod("urgent", "batch", 5, "2s", "priorityClassName: urgent")
	case 2:
		pod("gang-0", "research", 6, "2s", "")
		pod("gang-1", "research", 6, "2s", "")
	}
	if round == 0 {
		pod("too-large", "research", 9, "", "")
	}
	return out.String()
}

// gang is the labels of a member, for names that begin so.
func gang(name string, round int) string {
	if !strings.HasPrefix(name, "gang-") {
		return ""
	}
	return fmt.Sprintf(", tangram.dev/gang: gang-%d, tangram.dev/gang-size: \"2\"", round)
}

// wantTargets waits until Prometheus scrapes the programs.
func (c *liveCluster) wantTargets(jobs ...string) {
	c.t.Helper()
	eventually(c.t, "Prometheus scrapes "+strings.Join(jobs, ", "), 30*time.Second, func() error {
		for _, job := range jobs {
			found, err := c.query(c.t.Context(), fmt.Sprintf("up{job=%q} == 1", job))
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return fmt.Errorf("%s is not up", job)
			}
		}
		return nil
	})
}

// wantNoEntry asks for metrics as Prometheus does, but without a token.
func (c *liveCluster) wantNoEntry(job string) {
	c.t.Helper()
	found, err := c.query(c.t.Context(), fmt.Sprintf("up{job=%q}", job))
	if err != nil || len(found) != 1 {
		c.t.Fatalf("%v, %d targets", err, len(found))
	}
	program := cluster.Asker{Client: cluster.HTTPClient(nil, ""), Base: "https://" + found[0].Metric["instance"]}
	if a := program.Do(c.t, http.MethodGet, "/metrics", nil); a.Status != http.StatusUnauthorized && a.Status != http.StatusForbidden {
		c.t.Errorf("%s without a token: %d, want 401 or 403", job, a.Status)
	}
}

// wantPictures waits until every query of every dashboard has returned a number once.
func (c *liveCluster) wantPictures() {
	c.t.Helper()
	missing := map[string]string{}
	for _, d := range dashboards(c.t) {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				missing[concrete(q.Expr, "30s")] = d.Title + ", " + p.Title
			}
		}
	}
	total := len(missing)
	begin := time.Now()
	for len(missing) > 0 && time.Since(begin) < liveLimit {
		for _, expr := range slices.Sorted(maps.Keys(missing)) {
			found, err := c.query(c.t.Context(), expr)
			if err != nil {
				c.t.Fatalf("%s: %v", missing[expr], err)
			}
			if slices.ContainsFunc(found, func(s sample) bool { return s.Value[1] != "NaN" }) {
				if why := c.excuse(expr, notYet); why != "" {
					c.t.Errorf("%s: %q shows something now: take its metrics out of notYet (%s)", missing[expr], expr, why)
				}
				delete(missing, expr)
			}
		}
		if c.onlyExcused(missing) {
			break
		}
		time.Sleep(time.Second)
	}
	c.t.Logf("%d of %d queries returned data within %v", total-len(missing), total, time.Since(begin).Round(time.Second))
	for _, expr := range slices.Sorted(maps.Keys(missing)) {
		if why := c.excuse(expr, rare) + c.excuse(expr, notYet); why != "" {
			c.t.Logf("%s: empty, as expected (%s)", missing[expr], why)
		} else {
			c.t.Errorf("%s: no data within %v: %s", missing[expr], liveLimit, expr)
		}
	}
}

func (c *liveCluster) onlyExcused(missing map[string]string) bool {
	for expr := range missing {
		if c.excuse(expr, rare) == "" && c.excuse(expr, notYet) == "" {
			return false
		}
	}
	return true
}

// excuse is the reason of a list for a metric that an expression uses; empty for none.
func (c *liveCluster) excuse(expr string, list map[string]string) string {
	u, err := parse(c.t, expr)
	if err != nil {
		c.t.Fatal(err)
	}
	for name := range u.metrics {
		if why := list[name]; why != "" {
			return why
		}
	}
	return ""
}

// wantRules: all rules have been evaluated, and none failed.
func (c *liveCluster) wantRules() {
	c.t.Helper()
	var answer struct {
		Groups []struct {
			Name  string
			Rules []struct{ Name, Health, LastError string }
		}
	}
	eventually(c.t, "all rules are evaluated", 90*time.Second, func() error {
		if err := c.api(c.t.Context(), "rules", nil, &answer); err != nil {
			return err
		}
		n := 0
		for _, g := range answer.Groups {
			for _, r := range g.Rules {
				n++
				if r.Health != "ok" {
					return fmt.Errorf("%s: %s: health %s: %s", g.Name, r.Name, r.Health, r.LastError)
				}
			}
		}
		if want := len(rules(c.t)); n != want {
			return fmt.Errorf("%d rules, want %d", n, want)
		}
		return nil
	})
}
