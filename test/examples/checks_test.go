package examples

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	authorization "k8s.io/api/authorization/v1"
	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	manifests "github.com/tangram-dev/tangram/examples"
	"github.com/tangram-dev/tangram/test/cluster"
)

// nothingToRun: the objects are there, and no pod comes of them.
func nothingToRun(e *example) {
	e.T.Helper()
	if found := e.live("*"); len(found) > 0 {
		e.T.Errorf("%d pods", len(found))
	}
}

// holdLease keeps schedulers that are only to be started from deciding: the Lease has another
// holder.
func holdLease(w *cluster.World) {
	w.T.Helper()
	holder, seconds, now := "test", int32(3600), metav1.NowMicro()
	lease := &coordination.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-scheduler", Namespace: "kube-system"},
		Spec:       coordination.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
	// The scheduler of the cluster says on the same Lease where it answers questions, before
	// or after this.
	lease.APIVersion, lease.Kind = "coordination.k8s.io/v1", "Lease"
	data, err := json.Marshal(lease)
	w.Must(err)
	force := true
	_, err = w.Client.CoordinationV1().Leases(lease.Namespace).Patch(context.Background(), lease.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "test", Force: &force})
	w.Must(err)
}

// schedulerStarts: gpu-scheduler takes the file, or the one in its ConfigMap, with all
// plugins and their arguments, and is ready to lead.
func schedulerStarts(e *example) {
	e.T.Helper()
	settings := manifests.Document(e.row.file)
	for _, o := range e.objects {
		if o.GetKind() == "ConfigMap" {
			text, _, _ := unstructured.NestedString(o.Object, "data", "scheduler-config.yaml")
			settings = []byte(text)
		}
	}
	p := e.Scheduler(settings, "--leader-elect=true", "--leader-elect-resource-name=gpu-scheduler", "--leader-elect-resource-namespace=kube-system")
	e.Must(p.Kill())
}

// kubeletReads: the file has only fields that kubelet knows, and what is said in it.
func kubeletReads(e *example) {
	e.T.Helper()
	var c kubelet.KubeletConfiguration
	if err := yaml.UnmarshalStrict(manifests.Document(e.row.file), &c); err != nil {
		e.T.Fatal(err)
	}
	if c.TopologyManagerPolicy != kubelet.SingleNumaNodeTopologyManagerPolicy || c.CPUManagerPolicy != "static" {
		e.T.Errorf("policies %q and %q", c.TopologyManagerPolicy, c.CPUManagerPolicy)
	}
}

// oneNUMANode: the pod's GPUs are on one NUMA node, by the GPUNode.
func oneNUMANode(e *example) {
	e.T.Helper()
	for _, p := range e.live("*") {
		node := cluster.Read[v1alpha1.GPUNode](e.World, cluster.GPUNodes, p.Spec.NodeName)
		numa := map[string]bool{}
		for _, held := range devices(&p) {
			for _, d := range node.Spec.Devices {
				if int(d.Index) == held.Index && d.NUMA != nil {
					numa[fmt.Sprint(*d.NUMA)] = true
				}
			}
		}
		if len(numa) != 1 {
			e.T.Errorf("%s has GPUs on NUMA nodes %v of %s", p.Name, numa, p.Spec.NodeName)
		}
	}
}

// oneCard: all pods of the file are on one card.
func oneCard(e *example) {
	e.T.Helper()
	cards := map[string]bool{}
	for _, p := range e.live("*") {
		for _, c := range cardsOf(&p) {
			cards[c] = true
		}
	}
	if len(cards) != 1 {
		e.T.Errorf("on cards %v, want one", cards)
	}
}

// nodeIsReady: the node has its GPUs and takes pods.
func nodeIsReady(e *example) {
	e.T.Helper()
	e.Eventually("gpu-node-1 is ready", func() (bool, string) {
		n := cluster.ReadIf[v1.Node](e.World, cluster.Nodes, "gpu-node-1")
		if n == nil {
			return false, "no Node"
		}
		gpus := n.Status.Allocatable["nvidia.com/gpu"]
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				return gpus.Value() == 8 && len(n.Spec.Taints) == 0, fmt.Sprintf("%s GPUs, taints %v", gpus.String(), n.Spec.Taints)
			}
		}
		return false, "not Ready"
	})
}

// serviceHasThree: the Service finds the three replicas.
func serviceHasThree(e *example) {
	e.T.Helper()
	e.Eventually("the Service has three endpoints", func() (bool, string) {
		list, err := e.Client.DiscoveryV1().EndpointSlices(e.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=inference-service"})
		if err != nil {
			return false, err.Error()
		}
		ready := 0
		for _, s := range list.Items {
			for _, endpoint := range s.Endpoints {
				if endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
					ready++
				}
			}
		}
		return ready == 3, fmt.Sprintf("%d endpoints", ready)
	})
}

var metricName = regexp.MustCompile(`\b(tangram_[a-z_]+|DCGM_[A-Z_]+)`)

// alertsAreKnown: the alerts speak of metrics that our programs have.
func alertsAreKnown(e *example) {
	e.T.Helper()
	known := ""
	for _, file := range []string{"metrics.md", "agent.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", file))
		if err != nil {
			e.T.Fatal(err)
		}
		known += string(text)
	}
	found := metricName.FindAllString(string(manifests.Document(e.row.file)), -1)
	if len(found) != 2 {
		e.T.Errorf("metrics %v, want two", found)
	}
	for _, name := range found {
		if !strings.Contains(known, strings.TrimSuffix(name, "_bucket")) {
			e.T.Errorf("no program has the metric %s", name)
		}
	}
}

// rightsAreGranted: the engineer reads nodes everywhere and pods of the team alone.
func rightsAreGranted(e *example) {
	e.T.Helper()
	may := func(verb, resource, namespace string) bool {
		review, err := e.Client.AuthorizationV1().SubjectAccessReviews().Create(context.Background(), &authorization.SubjectAccessReview{
			Spec: authorization.SubjectAccessReviewSpec{User: "ml-engineer", ResourceAttributes: &authorization.ResourceAttributes{Verb: verb, Resource: resource, Namespace: namespace}},
		}, metav1.CreateOptions{})
		if err != nil {
			e.T.Fatal(err)
		}
		return review.Status.Allowed
	}
	for _, right := range []struct {
		verb, resource, namespace string
		want                      bool
	}{
		{"list", "nodes", "", true}, {"list", "pods", e.Namespace, true},
		{"list", "pods", "default", false}, {"create", "pods", e.Namespace, false}, {"update", "nodes", "", false},
	} {
		e.Eventually(fmt.Sprintf("ml-engineer may %s %s in %q: %t", right.verb, right.resource, right.namespace, right.want), func() (bool, string) {
			return may(right.verb, right.resource, right.namespace) == right.want, ""
		})
	}
}

// quotaCounts: the quota counts GPUs, and limits refuse more than they say.
func quotaCounts(e *example) {
	e.T.Helper()
	ask := func(gpus int64) error {
		_, err := e.Client.CoreV1().Pods(e.Namespace).Create(context.Background(), &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "asks"},
			Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "training:latest", Resources: v1.ResourceRequirements{
				Limits: v1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)},
			}}}},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	e.Eventually("the quota is counted", func() (bool, string) {
		q, err := e.Client.CoreV1().ResourceQuotas(e.Namespace).Get(context.Background(), "gpu-quota-ml-team", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		_, counted := q.Status.Used["requests.nvidia.com/gpu"]
		return counted, fmt.Sprint(q.Status.Used)
	})
	e.Eventually("five GPUs in one container are refused, four are not", func() (bool, string) {
		five, four := ask(5), ask(4)
		return five != nil && strings.Contains(five.Error(), "maximum nvidia.com/gpu usage per Container is 4") && four == nil, fmt.Sprint(five, "; ", four)
	})
}
