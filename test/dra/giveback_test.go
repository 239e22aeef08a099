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
	"k8s.io/apimachinery/pkg/types"
)

// deny makes the API server refuse writes to a resource of a namespace whose objects' names
// begin with a prefix, and returns when it does. The returned function ends it.
func (w *world) deny(namespace, group, version, resource, operation, prefix string, refused func() error) (end func()) {
	w.t.Helper()
	name := "deny-" + namespace
	w.apply(fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [%[3]q], apiVersions: [%[4]q], resources: [%[5]q], operations: [%[6]q]}]
  validations:
  - expression: '!object.metadata.name.startsWith("%[7]s")'
    message: denied by the test
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}}
`, name, namespace, group, version, resource, operation, prefix))
	w.eventually("writes are refused", time.Minute, func() (bool, string) {
		err := refused()
		return err != nil && strings.Contains(err.Error(), "denied by the test"), fmt.Sprint(err)
	})
	return func() {
		api := w.Client.AdmissionregistrationV1()
		if err := api.ValidatingAdmissionPolicyBindings().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
		if err := api.ValidatingAdmissionPolicies().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// denyBindings refuses Bindings of pods whose names begin with a prefix.
func (w *world) denyBindings(namespace, prefix string) (end func()) {
	w.t.Helper()
	probe := pod(namespace, prefix+"-probe", func(p *v1.Pod) { p.Spec.SchedulerName = "nobody" })
	w.create(probe)
	return w.deny(namespace, "", "v1", "pods/binding", "CREATE", prefix, func() error {
		return w.Client.CoreV1().Pods(namespace).Bind(context.Background(), &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: probe.Name}, Target: v1.ObjectReference{Kind: "Node", Name: "only-0"},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	})
}

// denyAllocations refuses writes of the status of claims whose names begin with a prefix.
func (w *world) denyAllocations(namespace, prefix string) (end func()) {
	w.t.Helper()
	ctx, api := context.Background(), w.Client.ResourceV1().ResourceClaims(namespace)
	probe, err := api.Create(ctx, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: prefix + "-probe"}, Spec: resourceapi.ResourceClaimSpec{Devices: devices(request("gpu.tangram.dev", 1))}}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.deny(namespace, "resource.k8s.io", "v1", "resourceclaims/status", "UPDATE", prefix, func() error {
		_, err := api.UpdateStatus(ctx, probe, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// cordon makes a node take no more pods, or lets it.
func (w *world) cordon(node string, yes bool) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"spec": {"unschedulable": %v}}`, yes)
	if _, err := w.Client.CoreV1().Nodes().Patch(context.Background(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// claimOf is the claim that was made for a pod from its template; nil: none yet.
func (w *world) claimOf(namespace, name string) *resourceapi.ResourceClaim {
	w.t.Helper()
	for _, s := range w.get(namespace, name).Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			c, err := w.Client.ResourceV1().ResourceClaims(namespace).Get(context.Background(), *s.ResourceClaimName, metav1.GetOptions{})
			if err != nil {
				w.t.Fatal(err)
			}
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
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: resourceapi.ResourceClaimSpec{Devices: devices(request("gpu.tangram.dev", 1))}}
	claim, err := w.Client.ResourceV1().ResourceClaims("crash").Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	crash.create(pod("crash", "p", sharing("c")))
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpus", Driver: driver, Pool: "only-0", Device: "gpu-0"}}},
		NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"only-0"}}}}}}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: crash.get("crash", "p").UID}}
	if _, err := w.Client.ResourceV1().ResourceClaims("crash").UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.cordon("only-0", true)
	w.scheduler()
	crash.waits("crash", "p", "")
	w.eventually("the pod is bound elsewhere", time.Minute, func() (bool, string) {
		p := w.get("crash", "p")
		return p.Spec.NodeName == "only-1", condition(p)
	})
	w.sound()
	w.cordon("only-0", false)

	t.Run("failed start", func(t *testing.T) {
		w := w.on(t, "failed")
		end := w.denyBindings("failed", "p")
		w.template("failed", "one", devices(request("gpu.tangram.dev", 1)))
		seen, err := w.Client.ResourceV1().ResourceClaims("failed").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer seen.Stop()
		w.create(pod("failed", "p", by("one")))
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
		w.eventually("the pod is bound elsewhere", time.Minute, func() (bool, string) {
			p := w.get("failed", "p")
			return p.Spec.NodeName != "" && p.Spec.NodeName != node, condition(p)
		})
		w.sound()
	})
	for _, what := range []string{"binding", "allocation"} {
		t.Run("gang, "+what+" refused", func(t *testing.T) {
			namespace := "retry-" + what
			w := w.on(t, namespace)
			w.template(namespace, "two", devices(request("gpu.tangram.dev", 2)))
			deny := w.denyAllocations
			if what == "binding" {
				deny = w.denyBindings
			}
			end := deny(namespace, "m-0")
			w.create(pod(namespace, "m-0", by("two"), gang("g", 2)), pod(namespace, "m-1", by("two"), gang("g", 2)))
			w.bound(namespace, "m-1")
			if what == "binding" {
				w.eventually("its claim is allocated and its start failed", time.Minute, func() (bool, string) {
					c := w.claimOf(namespace, "m-0")
					return c.Status.Allocation != nil && len(c.Status.ReservedFor) == 0, fmt.Sprint(c.Status)
				})
			}
			end()
			w.bound(namespace, "m-0")
			if j := w.sound(); len(j.planned[namespace+"/m-0"]) != 2 || !slices.Equal(j.planned[namespace+"/m-0"], j.allocated[namespace+"/m-0"]) {
				t.Errorf("planned %v, allocated %v", j.planned, j.allocated)
			}
		})
	}
}
