package tenants

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/examples"
)

// TestQuotaAndLimits: the example's quota and limits admit requirement document 003's own
// training job and refuse what is beyond them, by name. The document's own do not work.
func TestQuotaAndLimits(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	job := &unstructured.Unstructured{}
	manifests := strings.Split(string(examples.Document("003/5.1-training-job.yaml")), "\n---\n")
	if err := yaml.Unmarshal([]byte(manifests[len(manifests)-1]), &job.Object); err != nil {
		t.Fatal(err)
	}
	spec, _, err := unstructured.NestedMap(job.Object, "spec", "template", "spec")
	if err != nil {
		t.Fatal(err)
	}
	own := func(change func(containers map[string]any)) *unstructured.Unstructured {
		p := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"generateName": "own-"}}}
		copied := (&unstructured.Unstructured{Object: map[string]any{"spec": spec}}).DeepCopy().Object["spec"].(map[string]any)
		if change != nil {
			change(copied["containers"].([]any)[0].(map[string]any))
		}
		p.Object["spec"] = copied
		return p
	}
	amounts := func(gpus, cpus, memory string) func(map[string]any) {
		return func(c map[string]any) {
			list := func() map[string]any {
				return map[string]any{"nvidia.com/gpu": gpus, "cpu": cpus, "memory": memory}
			}
			c["resources"] = map[string]any{"requests": list(), "limits": list()}
		}
	}
	remove := func(o *unstructured.Unstructured) {
		w.remove(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}})
	}

	// The document's own quota, in a namespace of its own.
	namespace(t, w, "document")
	apply(t, w, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: document}, spec: {hard: {nvidia.com/gpu: "4", pods: "10"}}}`)
	eventually(t, "the document's quota counts pods and not GPUs", func() (bool, string) {
		if _, err := w.admin.submit("document", pod("many", 8, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "x.dev/never"}} })); err != nil {
			return false, err.Error()
		}
		q, err := w.admin.client.CoreV1().ResourceQuotas("document").Get(t.Context(), "q", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		pods, gpus := q.Status.Used["pods"], q.Status.Used["nvidia.com/gpu"]
		return pods.Value() > 0 && gpus.Value() == 0, fmt.Sprint(q.Status.Used)
	})
	apply(t, w, `{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: document}, spec: {limits: [{type: Container, default: {nvidia.com/gpu: "1", cpu: "2", memory: 8Gi}, max: {nvidia.com/gpu: "2", cpu: "8", memory: 32Gi}}]}}`)
	eventually(t, "the document's limits refuse its own job", func() (bool, string) {
		_, err := w.admin.dryRun("document", own(nil))
		problem := refused(err, "maximum nvidia.com/gpu usage per Container is 2, but limit is 4", "maximum cpu usage per Container is 8", "maximum memory usage per Container is 32Gi")
		return problem == "", problem
	})
	eventually(t, "the document's limits give a GPU to a container that asks for none", func() (bool, string) {
		p, err := w.admin.submit("document", pod("plain", 0))
		if err != nil {
			return false, err.Error()
		}
		w.remove(p)
		got := p.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]
		return got.String() == "1", got.String()
	})

	// The corrected ones.
	eventually(t, "the quota is counted", func() (bool, string) {
		q, err := w.admin.client.CoreV1().ResourceQuotas("ml-team").Get(t.Context(), "gpu-quota-ml-team", metav1.GetOptions{})
		return err == nil && len(q.Status.Used) == 4, "status.used"
	})
	apply(t, w, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: users, namespace: ml-team}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tangram-tenant-user}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: ml-team}]}`)
	first, err := w.admin.create("ml-team", own(nil))
	if err != nil {
		t.Fatalf("the document's job: %v", err)
	}
	defer remove(first)
	for what, tt := range map[string]struct {
		pod  *unstructured.Unstructured
		want string
	}{
		"too many GPUs for a container": {own(amounts("5", "1", "1Gi")), "maximum nvidia.com/gpu usage per Container is 4, but limit is 5"},
		"too much memory":               {own(amounts("1", "1", "65Gi")), "maximum memory usage per Container is 64Gi, but limit is 65Gi"},
	} {
		_, err := w.admin.create("ml-team", tt.pod)
		if problem := refused(err, tt.want); problem != "" {
			t.Errorf("%s: %s", what, problem)
		}
	}
	second, err := w.admin.create("ml-team", own(amounts("4", "8", "32Gi")))
	if err != nil {
		t.Fatalf("the second: %v", err)
	}
	defer remove(second)
	_, err = w.admin.create("ml-team", own(amounts("1", "1", "1Gi")))
	if problem := refused(err, "exceeded quota: gpu-quota-ml-team, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8"); problem != "" {
		t.Errorf("beyond the quota: %s", problem)
	}
	stock := func(p *v1.Pod) { p.Spec.SchedulerName = "default-scheduler" } // 0 GPUs are no reason to refuse it
	plain, err := w.as(t, "mel", "ml-team").submit("ml-team", pod("plain", 0, stock))
	if err != nil {
		t.Fatalf("a pod without GPUs: %v", err)
	}
	w.remove(plain)
	if got := plain.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]; !got.IsZero() {
		t.Errorf("a container that asked for no GPU got %s", got.String())
	}
}
