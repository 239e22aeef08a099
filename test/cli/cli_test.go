package cli

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
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
	"github.com/tangram-dev/tangram/test/cluster"
)

// A user's job does not run. They ask what there is, find it, learn why it waits, that it
// will for ever, and what to change; and that the change would help.
func TestFindOutWhyAJobWaits(t *testing.T) {
	t.Parallel()
	c := demo(t)
	c.must(t, []string{"jobs", "-n", "ml-team", "--phase", "Waiting"}, "too-large", "Waiting", "16")
	c.must(t, []string{"why", "too-large", "-n", "ml-team"}, "ml-team/too-large (Pod", "16 GPUs", "8", "never, as things are", "What would help", "As of ")
	if r := c.run("why", "too-large", "-n", "ml-team", "--exit-code"); r.Code != 11 {
		t.Errorf("--exit-code of what never starts: %s", r)
	}
	var why query.Why
	r := c.must(t, []string{"why", "pod/too-large", "-n", "ml-team", "-o", "json"})
	if err := json.Unmarshal([]byte(r.Out), &why); err != nil {
		t.Fatal(err)
	}
	if !why.Found || !why.Reason.Never || why.Start.Known != query.StartsNever || len(why.Helps) == 0 {
		t.Errorf("why: %s", r.Out)
	}
	c.must(t, []string{"why", "too-large", "-n", "ml-team", "-o", "yaml"}, "found: true")

	smaller := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"smaller"},"spec":{"schedulerName":"gpu-scheduler","containers":[{"name":"c","image":"x","resources":{"limits":{"nvidia.com/gpu":"1"}}}]}}`
	file := filepath.Join(c.Dir, "smaller.json")
	if err := os.WriteFile(file, []byte(smaller), 0o600); err != nil {
		t.Fatal(err)
	}
	c.must(t, []string{"whatif", "-f", file, "-n", "ml-team", "--exit-code"}, "ml-team/smaller", "now", "POD")
	if r := c.Feed(strings.Replace(smaller, `"1"`, `"16"`, 1), "tangram", "whatif", "-f", "-", "--exit-code"); r.Code != 11 {
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
		if r := c.must(t, append(args, "-o", "json")); json.Unmarshal([]byte(r.Out), &v) != nil || v["at"] == nil {
			t.Errorf("%s", r)
		}
	}
}

// The same program is kubectl's plugin, with kubectl's flags.
func TestKubectlPlugin(t *testing.T) {
	t.Parallel()
	c := demo(t)
	r := c.Run("kubectl", "tangram", "why", "too-large", "-n", "ml-team", "--kubeconfig", c.Kubeconfig)
	if r.Code != 0 || !strings.Contains(r.Out, "never, as things are") {
		t.Error(r)
	}
}

// A question that was taken along is answered without the cluster, and alike.
func TestDump(t *testing.T) {
	t.Parallel()
	c := demo(t)
	file := filepath.Join(c.Dir, "cluster.dump")
	c.must(t, []string{"dump", "-f", file})
	var live, offline query.Why
	for out, args := range map[*query.Why][]string{&live: nil, &offline: {"--dump", file, "--kubeconfig", "/does/not/exist"}} {
		r := c.must(t, append([]string{"why", "too-large", "-n", "ml-team", "-o", "json"}, args...))
		if err := json.Unmarshal([]byte(r.Out), out); err != nil {
			t.Fatal(err)
		}
	}
	if live.Text != offline.Text || live.Reason.Code != offline.Reason.Code || live.Start.Known != offline.Start.Known || !offline.Found {
		t.Errorf("live %+v\noffline %+v", live, offline)
	}
	if r := c.run("why", "no-such-pod", "-n", "ml-team", "--dump", file); r.Code != 3 {
		t.Errorf("of a pod that is not in it: %s", r)
	}
	if r := c.run("why", "x", "--dump", filepath.Join(c.Bin, "tangram")); r.Code != 2 {
		t.Errorf("a file that is no dump: %s", r)
	}
}

// tenant may ask, and list pods of its own namespace.
var tenant = string(cluster.Accounts(cluster.Account{Namespace: "tenant", Name: "user", Everywhere: []string{"tangram-viewer"}, Own: []string{"view"}}))

// A tenant sees sums of others and no names; a caller that may not ask is told so, and exit
// codes tell scripts what went wrong.
func TestRights(t *testing.T) {
	t.Parallel()
	c := demo(t)
	c.kubectl(t, tenant, "apply", "-f", "-")
	token := c.kubectl(t, "", "create", "token", "user", "-n", "tenant")
	api := c.kubectl(t, "", "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	ca := filepath.Join(c.Dir, "ca.crt")
	data := c.kubectl(t, "", "config", "view", "--minify", "--raw", "-o", "jsonpath={.clusters[0].cluster.certificate-authority-data}")
	decoded, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca, decoded, 0o600); err != nil {
		t.Fatal(err)
	}
	as := func(token string, args ...string) cluster.Result {
		return c.run(append(args, "--server", api, "--certificate-authority", ca, "--token", token)...)
	}
	for _, args := range [][]string{{"jobs", "-A"}, {"jobs", "-A", "-o", "json"}, {"top"}, {"top", "devices"}, {"cost", "--by", "queue,namespace,user"}, {"queues"}} {
		r := as(token, args...)
		if r.Code != 0 || strings.Contains(r.Out, "too-large") || strings.Contains(r.Out, "ml-team") {
			t.Errorf("a tenant sees names of others, or nothing at all: %s", r)
		}
	}
	for want, r := range map[int]cluster.Result{
		3: as(token, "why", "too-large", "-n", "ml-team"),
		4: as(token, "dump", "-f", "-"),
		2: as(token, "jobs", "--phase", "Dancing"),
		5: c.run("jobs", "--server", "https://127.0.0.1:1"),
	} {
		if r.Code != want || r.Err == "" && r.Out == "" {
			t.Errorf("want exit code %d: %s", want, r)
		}
	}
	if r := as("nonsense", "jobs"); r.Code != 4 {
		t.Errorf("a bad token: %s", r)
	}
}

// The web page is there for the browser that has the printed URL, with the credentials of the
// kubeconfig behind it.
func TestWeb(t *testing.T) {
	t.Parallel()
	c := demo(t)
	ctx, cancel := context.WithTimeout(t.Context(), cluster.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin, "tangram"), "web", "--no-open")
	cmd.Dir, cmd.Env = c.Dir, c.Env
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
		answer := cluster.Asker{Client: client, Base: target.String()}.Do(t, http.MethodGet, "", nil)
		return answer.Status, answer.Text
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
