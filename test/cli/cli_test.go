package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/api/query"
)

// A user's job does not run. They ask what there is, find it, learn why it waits, that it
// will for ever, and what to change; and that the change would help.
func TestFindOutWhyAJobWaits(t *testing.T) {
	t.Parallel()
	c := demo(t)
	c.must(t, []string{"jobs", "-n", "ml-team", "--phase", "Waiting"}, "too-large", "Waiting", "16")
	c.must(t, []string{"why", "too-large", "-n", "ml-team"}, "ml-team/too-large (Pod", "16 GPUs", "8", "never, as things are", "What would help", "As of ")
	if r := c.run("why", "too-large", "-n", "ml-team", "--exit-code"); r.code != 11 {
		t.Errorf("--exit-code of what never starts: %s", r)
	}
	var why query.Why
	r := c.must(t, []string{"why", "pod/too-large", "-n", "ml-team", "-o", "json"})
	if err := json.Unmarshal([]byte(r.out), &why); err != nil {
		t.Fatal(err)
	}
	if !why.Found || !why.Reason.Never || why.Start.Known != query.StartsNever || len(why.Helps) == 0 {
		t.Errorf("why: %s", r.out)
	}
	c.must(t, []string{"why", "too-large", "-n", "ml-team", "-o", "yaml"}, "found: true")

	smaller := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"smaller"},"spec":{"schedulerName":"gpu-scheduler","containers":[{"name":"c","image":"x","resources":{"limits":{"nvidia.com/gpu":"1"}}}]}}`
	file := filepath.Join(c.dir, "smaller.json")
	if err := os.WriteFile(file, []byte(smaller), 0o600); err != nil {
		t.Fatal(err)
	}
	c.must(t, []string{"whatif", "-f", file, "-n", "ml-team", "--exit-code"}, "ml-team/smaller", "now", "POD")
	if r := c.program(patience, strings.Replace(smaller, `"1"`, `"16"`, 1), filepath.Join(c.bin, "tangram"), "whatif", "-f", "-", "--exit-code"); r.code != 11 {
		t.Errorf("whatif of what never starts: %s", r)
	}
}

// What runs: where, why there, on which devices, for which queue, at what cost.
func TestLookAround(t *testing.T) {
	t.Parallel()
	c := demo(t)
	c.must(t, []string{"top"}, "leader", "Nodes", "MODEL", "a100")
	c.must(t, []string{"top", "nodes"}, "a100-0", "ready")
	c.must(t, []string{"top", "devices"}, "ml-team/", "allocated", "free")
	c.must(t, []string{"queues"}, "QUEUE", "default", "ENTITLED")
	c.must(t, []string{"jobs", "-A", "-o", "wide"}, "Running", "PRIORITY")
	c.must(t, []string{"cost", "--by", "queue,namespace"}, "ml-team", "GPU HOURS", "Counted since")
	pod := c.kubectl(t, "", "get", "pods", "-n", "ml-team", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[0].metadata.name}")
	c.must(t, []string{"explain", pod, "-n", "ml-team"}, "ml-team/"+pod+" is on ", "OBJECTIVE", "total")
	c.must(t, []string{"__complete", "why", "-n", "ml-team", "too"}, "too-large\tPod, Waiting")
	for _, args := range [][]string{{"top"}, {"top", "nodes"}, {"queues"}, {"jobs", "-A"}, {"cost"}} {
		var v map[string]any
		if r := c.must(t, append(args, "-o", "json")); json.Unmarshal([]byte(r.out), &v) != nil || v["at"] == nil {
			t.Errorf("%s", r)
		}
	}
}

// The same program is kubectl's plugin, with kubectl's flags.
func TestKubectlPlugin(t *testing.T) {
	t.Parallel()
	c := demo(t)
	r := c.program(patience, "", filepath.Join(c.bin, "kubectl"), "tangram", "why", "too-large", "-n", "ml-team", "--kubeconfig", filepath.Join(c.dir, ".tangram", "kubeconfig"))
	if r.code != 0 || !strings.Contains(r.out, "never, as things are") {
		t.Error(r)
	}
}

// A question that was taken along is answered without the cluster, and alike.
func TestDump(t *testing.T) {
	t.Parallel()
	c := demo(t)
	file := filepath.Join(c.dir, "cluster.dump")
	c.must(t, []string{"dump", "-f", file})
	var live, offline query.Why
	for out, args := range map[*query.Why][]string{&live: nil, &offline: {"--dump", file, "--kubeconfig", "/does/not/exist"}} {
		r := c.must(t, append([]string{"why", "too-large", "-n", "ml-team", "-o", "json"}, args...))
		if err := json.Unmarshal([]byte(r.out), out); err != nil {
			t.Fatal(err)
		}
	}
	if live.Text != offline.Text || live.Reason.Code != offline.Reason.Code || live.Start.Known != offline.Start.Known || !offline.Found {
		t.Errorf("live %+v\noffline %+v", live, offline)
	}
	if r := c.run("why", "no-such-pod", "-n", "ml-team", "--dump", file); r.code != 3 {
		t.Errorf("of a pod that is not in it: %s", r)
	}
	if r := c.run("why", "x", "--dump", filepath.Join(c.bin, "tangram")); r.code != 2 {
		t.Errorf("a file that is no dump: %s", r)
	}
}

// tenant may ask, and list pods of its own namespace.
const tenant = `
apiVersion: v1
kind: Namespace
metadata: {name: tenant}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: user, namespace: tenant}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tenant-asks}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tangram-viewer}
subjects: [{kind: ServiceAccount, name: user, namespace: tenant}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: view, namespace: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: user, namespace: tenant}]
`

// A tenant sees sums of others and no names; who may not ask learns so, and exit codes tell
// scripts what went wrong.
func TestRights(t *testing.T) {
	t.Parallel()
	c := demo(t)
	c.kubectl(t, tenant, "apply", "-f", "-")
	token := c.kubectl(t, "", "create", "token", "user", "-n", "tenant")
	api := c.kubectl(t, "", "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	ca := filepath.Join(c.dir, "ca.crt")
	data := c.kubectl(t, "", "config", "view", "--minify", "--raw", "-o", "jsonpath={.clusters[0].cluster.certificate-authority-data}")
	decoded := c.program(patience, data, "/usr/bin/env", "base64", "-d")
	if err := os.WriteFile(ca, []byte(decoded.out), 0o600); err != nil {
		t.Fatal(err)
	}
	as := func(token string, args ...string) result {
		return c.run(append(args, "--server", api, "--certificate-authority", ca, "--token", token)...)
	}
	for _, args := range [][]string{{"jobs", "-A"}, {"jobs", "-A", "-o", "json"}, {"top"}, {"top", "devices"}, {"cost", "--by", "queue,namespace,user"}, {"queues"}} {
		r := as(token, args...)
		if r.code != 0 || strings.Contains(r.out, "too-large") || strings.Contains(r.out, "ml-team") {
			t.Errorf("a tenant sees another's names, or nothing at all: %s", r)
		}
	}
	for want, r := range map[int]result{
		3: as(token, "why", "too-large", "-n", "ml-team"),
		4: as(token, "dump", "-f", "-"),
		2: as(token, "jobs", "--phase", "Dancing"),
		5: c.run("jobs", "--server", "https://127.0.0.1:1"),
	} {
		if r.code != want || r.errOut == "" && r.out == "" {
			t.Errorf("want exit code %d: %s", want, r)
		}
	}
	if r := as("nonsense", "jobs"); r.code != 4 {
		t.Errorf("a bad token: %s", r)
	}
}

// The web page is there for who has the printed URL, with the credentials of the
// kubeconfig behind it.
func TestWeb(t *testing.T) {
	t.Parallel()
	c := demo(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "tangram"), "web", "--no-open")
	cmd.Dir, cmd.Env = c.dir, c.environment()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(regexp.MustCompile(`http://\S+`).FindString(line))
	if err != nil || at.Host == "" {
		t.Fatalf("%q, %v", line, err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	get := func(client *http.Client, path string) (int, string) {
		t.Helper()
		target := *at
		if path != "" {
			target.Path, target.RawQuery = path, ""
		}
		r, err := client.Get(target.String())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(body)
	}
	browser, other := &http.Client{Jar: jar}, &http.Client{}
	if code, _ := get(other, "/query/v1/fleet"); code != http.StatusUnauthorized {
		t.Errorf("another user: %d", code)
	}
	if code, _ := get(browser, ""); code != http.StatusOK {
		t.Errorf("the URL: %d", code)
	}
	if code, body := get(browser, "/"); code != http.StatusOK || !strings.Contains(body, "<html") {
		t.Errorf("the page: %d %.200s", code, body)
	}
	var fleet query.Fleet
	if code, body := get(browser, "/query/v1/fleet"); code != http.StatusOK || json.Unmarshal([]byte(body), &fleet) != nil || fleet.Nodes.Total == 0 {
		t.Errorf("a question: %d %.200s", code, body)
	}
}
