package dra

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/test/cluster"
)

// deny makes the API server refuse writes to objects of the namespace whose names begin with
// a prefix, and returns when it does. The returned function ends it.
func (w *world) deny(d cluster.Denial, prefix string, refused func() error) (end func()) {
	w.T.Helper()
	d.Name, d.Namespace = "deny-"+w.Namespace, w.Namespace
	d.Admits = fmt.Sprintf("!object.metadata.name.startsWith('%s')", prefix)
	w.Deny(d)
	w.Eventually("writes are refused", func() (bool, string) {
		err := refused()
		return err != nil && strings.Contains(err.Error(), "denied by the test"), fmt.Sprint(err)
	})
	return func() { w.Admit(d) }
}

// dryRun only asks.
var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// denyBindings refuses Bindings of pods whose names begin with a prefix.
func (w *world) denyBindings(prefix string) (end func()) {
	w.T.Helper()
	probe := pod(prefix+"-probe", func(p *v1.Pod) { p.Spec.SchedulerName = "no-scheduler" })
	w.create(probe)
	return w.deny(cluster.Bindings("", ""), prefix, func() error { return w.Bind(probe.Name, "only-0", nil, dryRun) })
}

// denyAllocations refuses writes of the status of claims whose names begin with a prefix.
func (w *world) denyAllocations(prefix string) (end func()) {
	w.T.Helper()
	probe := w.claim(prefix+"-probe", devices(request("gpu.tangram.dev", 1)))
	return w.deny(cluster.Denial{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims/status", Operation: "UPDATE"}, prefix, func() error {
		_, err := w.Client.ResourceV1().ResourceClaims(w.Namespace).UpdateStatus(context.Background(), probe, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// cordon makes a node take no more pods, or lets it.
func (w *world) cordon(node string, yes bool) {
	w.T.Helper()
	w.Patch(cluster.Nodes, node, fmt.Sprintf(`{"spec": {"unschedulable": %v}}`, yes))
}

// claimOf is the claim that was made for a pod from its template; nil: none yet.
func (w *world) claimOf(name string) *resourceapi.ResourceClaim {
	w.T.Helper()
	for _, s := range w.Get(name).Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			c, err := w.Client.ResourceV1().ResourceClaims(w.Namespace).Get(context.Background(), *s.ResourceClaimName, metav1.GetOptions{})
			w.Must(err)
			return c
		}
	}
	return nil
}

// TestGiveBack: allocations that starts left behind which failed, or whose scheduler ended in
// the middle, are given back; members of a gang try again at their own places.
func TestGiveBack(t *testing.T) {
	t.Parallel() // it waits most of the time
	w := newWorld(t, `[{name: only, count: 2}]`)
	w.publish("only-0", 4)
	w.publish("only-1", 4)
	ctx := context.Background()

	// The scheduler ended between the write of the claim and the Binding: so the claim is
	// reserved for the pod, and the pod is not bound. Its node takes no more pods.
	crash := w.on(t, "crash")
	claim := crash.claim("c", devices(request("gpu.tangram.dev", 1)))
	crash.create(pod("p", sharing("c")))
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpus", Driver: driver, Pool: "only-0", Device: "gpu-0"}}},
		NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"only-0"}}}}}}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: crash.Get("p").UID}}
	_, err := w.Client.ResourceV1().ResourceClaims("crash").UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	w.Must(err)
	w.cordon("only-0", true)
	w.scheduler()
	crash.Waits("p", "")
	w.Eventually("the pod is bound elsewhere", func() (bool, string) {
		p := crash.Get("p")
		return p.Spec.NodeName == "only-1", cluster.Waiting(p)
	})
	w.sound()
	w.cordon("only-0", false)

	t.Run("failed start", func(t *testing.T) {
		w := w.on(t, "failed")
		end := w.denyBindings("p")
		w.template("one", devices(request("gpu.tangram.dev", 1)))
		seen, err := w.Client.ResourceV1().ResourceClaims("failed").Watch(ctx, metav1.ListOptions{})
		w.Must(err)
		defer seen.Stop()
		w.create(pod("p", by("one")))
		node, given, limit := "", false, time.After(time.Minute)
		for !given {
			select {
			case e := <-seen.ResultChan():
				c, _ := e.Object.(*resourceapi.ResourceClaim)
				switch {
				case c == nil:
					t.Fatalf("watch of claims: %v", e)
				case c.Status.Allocation != nil:
					node = c.Status.Allocation.Devices.Results[0].Pool
				default:
					given = node != ""
				}
			case <-limit:
				t.Fatalf("allocated on node %q, not given back", node)
			}
		}
		w.cordon(node, true)
		t.Cleanup(func() { w.cordon(node, false) })
		end()
		w.Eventually("the pod is bound elsewhere", func() (bool, string) {
			p := w.Get("p")
			return p.Spec.NodeName != "" && p.Spec.NodeName != node, cluster.Waiting(p)
		})
		w.sound()
	})
	for _, what := range []string{"binding", "allocation"} {
		t.Run("gang, "+what+" refused", func(t *testing.T) {
			namespace := "retry-" + what
			w := w.on(t, namespace)
			w.template("two", devices(request("gpu.tangram.dev", 2)))
			deny := w.denyAllocations
			if what == "binding" {
				deny = w.denyBindings
			}
			end := deny("m-0")
			w.create(pod("m-0", by("two"), cluster.Gang("g", 2)), pod("m-1", by("two"), cluster.Gang("g", 2)))
			w.Bound("m-1")
			if what == "binding" {
				w.Eventually("its claim is allocated and its start failed", func() (bool, string) {
					c := w.claimOf("m-0")
					return c.Status.Allocation != nil && len(c.Status.ReservedFor) == 0, fmt.Sprint(c.Status)
				})
			}
			end()
			w.Bound("m-0")
			if j := w.sound(); len(j.planned[namespace+"/m-0"]) != 2 || !slices.Equal(j.planned[namespace+"/m-0"], j.allocated[namespace+"/m-0"]) {
				t.Errorf("planned %v, allocated %v", j.planned, j.allocated)
			}
		})
	}
}
