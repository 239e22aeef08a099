package chart

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

const rightsFleet = `
pools:
- {name: a100, count: 4, gpu: {model: A100-80GB, count: 4}}
- {name: full, count: 1, gpu: {model: T4, count: 4}}
- {name: cpu, count: 1, cpu: 16}
`

// unused are the rights that the work of this test does not use, each with the reason why
// it is granted all the same.
var unused = map[string]string{
	"agent: get pods":                                          "a record is corrected where kubelet decided otherwise; test/agent has a kubelet",
	"agent: patch pods":                                        "the same",
	"agent: patch gpunodes.tangram.dev":                        "the hardware of a node changes: a card is replaced, the driver updated",
	"agent: patch events":                                      "an event that repeats",
	"agent: update records.tangram.dev":                        "the policies of tenants ask for it, without a request; test/tenants",
	"controller: list queues.scheduling.run.ai":                "KAI's Queues, which this cluster has not; test/words has them",
	"controller: watch queues.scheduling.run.ai":               "the same",
	"controller: create pods/eviction":                         "recovery from faults; test/recovery has them",
	"controller: get nodes":                                    "the same",
	"controller: patch nodes":                                  "the same",
	"controller: get gpunodes.tangram.dev":                     "the same",
	"controller: patch gpunodes.tangram.dev":                   "the same",
	"controller: patch pods/status in tangram-system":          "a gang lacks nodes of one domain; test/autoscale has an autoscaler",
	"controller: patch events.events.k8s.io":                   "an event that repeats",
	"scheduler: patch events.events.k8s.io":                    "an event that repeats",
	"controller: update jobs/finalizers.batch.volcano.sh":      "the API server asks for it when a pod blocks its job's deletion, without a request",
	"scheduler: update pods/finalizers":                        "the same for claims",
	"scheduler: update resourceclaims/binding.resource.k8s.io": "the API server asks for it when a claim is allocated, without a request",
	"scheduler: patch resourceclaims/binding.resource.k8s.io":  "the same",
	"scheduler: patch resourceclaims/status.resource.k8s.io":   "a claim is given back: its pod could not be bound",
	"scheduler: delete resourceclaims.resource.k8s.io":         "the same for claims that the scheduler made",
	"scheduler: get resourceclaims.resource.k8s.io":            "a claim changed while it was being allocated",
	"scheduler: get pods":                                      "the answer to a write did not come, or the pod changed meanwhile",
	"extender: get pods":                                       "the same",
}

// TestRights installs the chart and works with every component under the rights that the
// chart gives its ServiceAccount. No request may be refused, so a right that is missing
// fails the test; every right must be used, so one that is not needed does, too.
func TestRights(t *testing.T) {
	t.Parallel()
	log, flags := auditFlags(t)
	// With the plugin that checks rights to objects that are owned.
	w := newWorld(t, rightsFleet, append(flags, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("refused: %s", strings.Join(refused(readAudit(t, log)), "\n"))
		}
	})
	w.reader()
	w.install(chartDir, append(append(w.extenderTLS(), pageFlags("extender-tls")...), "--set", "autoscaling.enabled=true", "--set", "monitoring.enabled=true", "--set", "monitoring.readers[0].kind=ServiceAccount,monitoring.readers[0].name=reader,monitoring.readers[0].namespace=default")...)
	w.throughExtender()
	w.helm("test", release, "--namespace", namespace, "--timeout", "60s") // the first GPU pod
	w.work()
	w.throughPage()
	w.readMetrics()

	requests := readAudit(t, log)
	for _, text := range refused(requests) {
		t.Errorf("refused: %s", text)
	}
	granted := w.rights()
	if len(granted) < 50 {
		t.Fatalf("only %d rights are granted: not all roles were found", len(granted))
	}
	for _, r := range granted {
		_, excused := unused[r.String()]
		used := slices.ContainsFunc(requests, r.covers)
		if r.verb == "list" { // what a watch begins with on API servers that cannot stream lists
			watch := r
			watch.verb = "watch"
			used = used || slices.ContainsFunc(requests, watch.covers)
		}
		if !used && !excused {
			t.Errorf("granted and not used: %s", r)
		}
	}
	for text := range unused {
		if !slices.ContainsFunc(granted, func(r right) bool { return r.String() == text }) {
			t.Errorf("the list of unused rights has %q, which is not granted", text)
		}
	}
	w.compareWithUpstream(granted)
	w.withoutBinding(log)
}

// compareWithUpstream holds the scheduler's roles against those of the kube-scheduler that
// it is built from: what they have and ours have not must be on the list here, so that a
// new version of Kubernetes with a new rule fails the test.
func (w *world) compareWithUpstream(granted []right) {
	w.t.Helper()
	ours := map[right]bool{}
	for _, r := range granted {
		if r.component == "scheduler" {
			ours[right{"", "", r.group, r.resource, "", r.verb}] = true
		}
	}
	for _, name := range []string{"system:kube-scheduler", "system:volume-scheduler"} {
		role, err := w.Client.RbacV1().ClusterRoles().Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range expandRules("", "", role.Rules) {
			r.name = ""
			if !ours[r] && !notNeeded(r, ours) {
				w.t.Errorf("%s may %s %s %q, gpu-scheduler may not: does it need to?", name, r.verb, r.resource, r.group)
			}
		}
	}
}

// notNeeded lists what kube-scheduler may do and does not.
func notNeeded(r right, ours map[right]bool) bool {
	watch := r
	watch.verb = "watch"
	switch {
	case r.verb == "get" && ours[watch]: // it reads what it watches
	case r.group == "coordination.k8s.io" && r.resource == "leasecandidates": // coordinated election is off
	case r.group == "coordination.k8s.io" && r.resource == "leases" && (r.verb == "list" || r.verb == "watch"): // the same
	case r.group == "extensions": // gone since Kubernetes 1.16
	case r.resource == "bindings" && r.verb == "create": // it binds through pods/binding
	case r.resource == "events" && (r.group == "" || r.verb == "update"): // it writes events.k8s.io, and patches what repeats
	case r.verb == "patch" && (r.resource == "persistentvolumes" || r.resource == "persistentvolumeclaims" || r.resource == "resourceclaims"): // it updates
	case r.resource == "resourceclaims/status" && r.verb != "update" && r.verb != "patch": // it is part of the claim
	default:
		return false
	}
	return true
}

// work submits work.yaml and after.yaml and waits until all of it has happened.
func (w *world) work() {
	t := w.t
	w.eventually("agents describe the nodes", 30*time.Second, func() (bool, string) {
		list, err := w.Dynamic.Resource(v1alpha1.GPUNodes).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		return len(list.Items) == 5, fmt.Sprintf("%d of 5", len(list.Items))
	})
	w.apply("work.yaml")
	for _, name := range []string{"victim", "cpu-victim", "with-volume", "with-claim", "with-port"} {
		w.pod(name, "is bound", isBound)
	}
	for _, name := range []string{"long-worker-0", "long-worker-1"} {
		w.pod(name, "runs", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
	}
	w.pod("too-large", "is told why it waits", func(p *v1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled && c.Message != "" })
	})
	w.eventually("the claim is sent to a node", 30*time.Second, func() (bool, string) {
		claim, err := w.Client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "made", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return claim.Annotations["volume.kubernetes.io/selected-node"] != "", fmt.Sprint(claim.Annotations)
	})
	w.eventually("job taken is told that its pod's name is", 30*time.Second, func() (bool, string) {
		return w.hasEvent("gpu-controller", "taken", "exists and is not part of this job")
	})
	w.scale("long", 3)
	w.command("abort-absent", "absent", "00000000-0000-0000-0000-000000000000")
	w.apply("after.yaml")
	for _, name := range []string{"preemptor", "cpu-preemptor"} {
		w.pod(name, "is bound", isBound)
	}
	w.abort("long")
	w.gone("job short, after its time to live", func(ctx context.Context) error {
		_, err := w.Dynamic.Resource(jobs).Namespace("default").Get(ctx, "short", metav1.GetOptions{})
		return err
	})
	w.gone("pods of the aborted job", func(ctx context.Context) error {
		_, err := w.Client.CoreV1().Pods("default").Get(ctx, "long-worker-0", metav1.GetOptions{})
		return err
	})
	w.breakDevice()
}

var (
	jobs     = schema.GroupVersionResource{Group: "batch.volcano.sh", Version: "v1alpha1", Resource: "jobs"}
	commands = schema.GroupVersionResource{Group: "bus.volcano.sh", Version: "v1alpha1", Resource: "commands"}
)

// abort ends a job by a command.
func (w *world) abort(name string) {
	w.t.Helper()
	job, err := w.Dynamic.Resource(jobs).Namespace("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.command("abort-"+name, name, job.GetUID())
}

// scale gives a job more pods, which changes its lists of hosts and its PodGroup.
func (w *world) scale(name string, replicas int) {
	w.t.Helper()
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/tasks/0/replicas","value":%d},{"op":"replace","path":"/spec/minAvailable","value":%d}]`, replicas, replicas)
	if _, err := w.Dynamic.Resource(jobs).Namespace("default").Patch(w.t.Context(), name, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.pod(fmt.Sprintf("%s-worker-%d", name, replicas-1), "is bound", isBound)
}

func (w *world) command(name, job string, uid types.UID) {
	w.t.Helper()
	command := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": map[string]any{"name": name}, "action": "AbortJob",
		"target": map[string]any{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job, "uid": string(uid)},
	}}
	if _, err := w.Dynamic.Resource(commands).Namespace("default").Create(w.t.Context(), command, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// gone waits until a get finds nothing.
func (w *world) gone(what string, get func(context.Context) error) {
	w.t.Helper()
	w.eventually(what+" gone", 30*time.Second, func() (bool, string) {
		err := get(w.t.Context())
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

// breakDevice lets a simulated device fail, which its agent must report.
func (w *world) breakDevice() {
	w.t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"tangram.dev/simulated-faults":"device=0,xid=79"}}}`)
	nodes := w.Dynamic.Resource(v1alpha1.GPUNodes)
	if _, err := nodes.Patch(w.t.Context(), "a100-3", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("event about the device", 30*time.Second, func() (bool, string) {
		return w.hasEvent("gpu-agent", "a100-3", "")
	})
}

// hasEvent looks for an event of a component about an object.
func (w *world) hasEvent(component, about, words string) (bool, string) {
	events, err := w.Client.EventsV1().Events("").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		return false, err.Error()
	}
	var seen []string
	for _, e := range events.Items {
		if e.ReportingController != component {
			continue
		}
		if e.Regarding.Name == about && strings.Contains(e.Note, words) {
			return true, ""
		}
		seen = append(seen, e.Regarding.Name+": "+e.Note)
	}
	return false, strings.Join(seen, "; ")
}

// reader makes a ServiceAccount for who reads metrics.
func (w *world) reader() {
	w.t.Helper()
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}
	if _, err := w.Client.CoreV1().ServiceAccounts("default").Create(w.t.Context(), account, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// readMetrics reads the scheduler's metrics: with a token that may, and without.
func (w *world) readMetrics() {
	t := w.t
	t.Helper()
	token, err := w.Token(t.Context(), "default", "reader")
	if err != nil {
		t.Fatal(err)
	}
	for name, port := range map[string]string{"gpu-scheduler": "10259", "gpu-controller": "8889"} {
		pods, err := w.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
		if err != nil || len(pods.Items) != 2 {
			t.Fatalf("%d pods of %s, want 2: %v", len(pods.Items), name, err)
		}
		w.readMetricsOf("https://"+pods.Items[0].Status.PodIP+":"+port+"/metrics", token)
	}
}

// readMetricsOf reads an address with a token that may, without one, and with a wrong one.
func (w *world) readMetricsOf(url, token string) {
	t := w.t
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, test := range []struct {
		token string
		want  []int
	}{{token, []int{http.StatusOK}}, {"", []int{http.StatusUnauthorized, http.StatusForbidden}}, {"wrong", []int{http.StatusUnauthorized}}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if test.token != "" {
			request.Header.Set("Authorization", "Bearer "+test.token)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if !slices.Contains(test.want, response.StatusCode) {
			t.Errorf("%s with token %.5q...: %s, want one of %d", url, test.token, response.Status, test.want)
		}
	}
}

// withoutBinding takes one right away: the test above must see it.
func (w *world) withoutBinding(log string) {
	t := w.t
	role, err := w.Client.RbacV1().ClusterRoles().Get(t.Context(), "system:tangram:gpu-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "pods/binding") })
	if _, err := w.Client.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.apply("late.yaml")
	w.eventually("a refused binding in the audit log", 30*time.Second, func() (bool, string) {
		list := refused(readAudit(t, log))
		return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "/pods/late/binding") }), strings.Join(list, ", ")
	})
}
