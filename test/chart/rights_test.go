package chart

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/test/cluster"
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
	w.T.Helper()
	ours := map[right]bool{}
	for _, r := range granted {
		if r.component == "scheduler" {
			ours[right{"", "", r.group, r.resource, "", r.verb}] = true
		}
	}
	for _, name := range []string{"system:kube-scheduler", "system:volume-scheduler"} {
		role, err := w.Client.RbacV1().ClusterRoles().Get(w.T.Context(), name, metav1.GetOptions{})
		w.Must(err)
		for _, r := range expandRules("", "", role.Rules) {
			r.name = ""
			if !ours[r] && !notNeeded(r, ours) {
				w.T.Errorf("%s may %s %s %q, gpu-scheduler may not: does it need to?", name, r.verb, r.resource, r.group)
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
	t := w.T
	w.Eventually("agents describe the nodes", func() (bool, string) {
		if w.Object(definitions, "gpunodes.tangram.dev") == nil {
			return false, "no GPUNodes yet"
		}
		n := len(w.List(cluster.GPUNodes))
		return n == 5, fmt.Sprintf("%d of 5", n)
	})
	w.apply("work.yaml")
	for _, name := range []string{"victim", "cpu-victim", "with-volume", "with-claim", "with-port"} {
		w.pod(name, "is bound", isBound)
	}
	for _, name := range []string{"long-worker-0", "long-worker-1"} {
		w.pod(name, "runs", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
	}
	w.Waits("too-large")
	w.Eventually("the claim is sent to a node", func() (bool, string) {
		claim, err := w.Client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "made", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return claim.Annotations["volume.kubernetes.io/selected-node"] != "", fmt.Sprint(claim.Annotations)
	})
	w.Eventually("job taken is told that its pod's name is", func() (bool, string) {
		return w.hasEvent("gpu-controller", "taken", "exists and is not part of this job")
	})
	w.scale("long", 3)
	w.command("abort-absent", "absent", "00000000-0000-0000-0000-000000000000")
	w.apply("after.yaml")
	for _, name := range []string{"preemptor", "cpu-preemptor"} {
		w.pod(name, "is bound", isBound)
	}
	w.abort("long")
	w.Eventually("job short is gone after its time to live", func() (bool, string) { return w.Object(jobs, "short") == nil, "it is there" })
	w.Eventually("pods of the aborted job are gone", func() (bool, string) { return w.Find("long-worker-0") == nil, "they are there" })
	w.breakDevice()
}

var jobs = schema.GroupVersionResource{Group: "batch.volcano.sh", Version: "v1alpha1", Resource: "jobs"}

// abort ends a job by a command.
func (w *world) abort(name string) {
	w.T.Helper()
	w.command("abort-"+name, name, w.Object(jobs, name).GetUID())
}

// scale gives a job more pods, which changes its lists of hosts and its PodGroup.
func (w *world) scale(name string, replicas int) {
	w.T.Helper()
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/tasks/0/replicas","value":%d},{"op":"replace","path":"/spec/minAvailable","value":%d}]`, replicas, replicas)
	_, err := w.Dynamic.Resource(jobs).Namespace("default").Patch(w.T.Context(), name, types.JSONPatchType, patch, metav1.PatchOptions{})
	w.Must(err)
	w.pod(fmt.Sprintf("%s-worker-%d", name, replicas-1), "is bound", isBound)
}

func (w *world) command(name, job string, uid types.UID) {
	w.T.Helper()
	w.Apply(fmt.Sprintf(`{apiVersion: bus.volcano.sh/v1alpha1, kind: Command, metadata: {name: %s, namespace: default}, action: AbortJob, target: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: %s, uid: %s}}`, name, job, uid))
}

// breakDevice lets a simulated device fail, which its agent must report.
func (w *world) breakDevice() {
	w.T.Helper()
	w.Patch(cluster.GPUNodes, "a100-3", `{"metadata":{"annotations":{"tangram.dev/simulated-faults":"device=0,xid=79"}}}`)
	w.Eventually("event about the device", func() (bool, string) {
		return w.hasEvent("gpu-agent", "a100-3", "")
	})
}

// hasEvent looks for an event of a component about an object.
func (w *world) hasEvent(component, about, words string) (bool, string) {
	events, err := w.Client.EventsV1().Events("").List(w.T.Context(), metav1.ListOptions{})
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

// reader makes a ServiceAccount that reads metrics.
func (w *world) reader() {
	w.T.Helper()
	w.Apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: reader, namespace: default}}")
}

// readMetrics reads the scheduler's metrics: with a token that may, and without.
func (w *world) readMetrics() {
	t := w.T
	t.Helper()
	token := w.Token("default", "reader")
	for name, port := range map[string]string{"gpu-scheduler": "10259", "gpu-controller": "8889"} {
		pods := w.podsOf(name)
		if len(pods) != 2 {
			t.Fatalf("%d pods of %s, want 2", len(pods), name)
		}
		w.readMetricsOf("https://"+pods[0].Status.PodIP+":"+port, token)
	}
}

// readMetricsOf reads an address with a token that may, without one, and with a wrong one.
func (w *world) readMetricsOf(url, token string) {
	t := w.T
	t.Helper()
	program := cluster.Asker{Client: cluster.HTTPClient(nil, ""), Base: url}
	for _, test := range []struct {
		token string
		want  []int
	}{{token, []int{http.StatusOK}}, {"", []int{http.StatusUnauthorized, http.StatusForbidden}}, {"wrong", []int{http.StatusUnauthorized}}} {
		if a := program.Bearer(test.token).Do(t, http.MethodGet, "/metrics", nil); !slices.Contains(test.want, a.Status) {
			t.Errorf("%s with token %.5q...: %d, want one of %d", url, test.token, a.Status, test.want)
		}
	}
}

// withoutBinding takes one right away: the test above must see it.
func (w *world) withoutBinding(log string) {
	t := w.T
	role, err := w.Client.RbacV1().ClusterRoles().Get(t.Context(), "system:tangram:gpu-scheduler", metav1.GetOptions{})
	w.Must(err)
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "pods/binding") })
	_, err = w.Client.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{})
	w.Must(err)
	w.apply("late.yaml")
	w.Eventually("a refused binding in the audit log", func() (bool, string) {
		list := refused(readAudit(t, log))
		return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "/pods/late/binding") }), strings.Join(list, ", ")
	})
}
