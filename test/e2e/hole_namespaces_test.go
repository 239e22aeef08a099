package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// zonal makes a claim in a namespace, bound to a volume that exists in one zone only,
// as the volume controller leaves them.
func (w *world) zonal(namespace, claim, zone string) {
	w.T.Helper()
	ctx, name := context.Background(), namespace+"-"+claim
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	class := ""
	pvc, err := w.Client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: name, StorageClassName: &class, Resources: v1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	w.Must(err)
	pv, err := w.Client.CoreV1().PersistentVolumes().Create(ctx, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes,
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "test.tangram.dev", VolumeHandle: name}},
			ClaimRef:               &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim, UID: pvc.UID},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{zone}}},
			}}}},
		},
	}, metav1.CreateOptions{})
	w.Must(err)
	pv.Status.Phase = v1.VolumeBound
	if _, err := w.Client.CoreV1().PersistentVolumes().UpdateStatus(ctx, pv, metav1.UpdateOptions{}); err != nil {
		w.T.Fatal(err)
	}
	pvc.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: size}
	if _, err := w.Client.CoreV1().PersistentVolumeClaims(namespace).UpdateStatus(ctx, pvc, metav1.UpdateOptions{}); err != nil {
		w.T.Fatal(err)
	}
}

// newZonedWorld has two zones of three nodes and two tenants, each with claims whose
// volumes are in its own zone: one a claim of the same name as the other's, one a claim
// of a name of its own. The zone of tenant one is full.
func newZonedWorld(t *testing.T) *world {
	w := newGangWorld(t, local.Options{}, `
pools:
- {name: a, count: 3, zone: a, gpu: {model: A100-80GB, count: 8}}
- {name: b, count: 3, zone: b, gpu: {model: A100-80GB, count: 8}}
`)
	w.AddQueue("idle", "{weight: 1}")
	for namespace, zone := range map[string]string{"one": "a", "two": "b"} {
		w.AddNamespace(namespace)
		w.zonal(namespace, "data", zone)
		w.zonal(namespace, "data-"+namespace, zone)
	}
	w.Scheduler(nil)
	for i := range 3 {
		w.Create(pod(fmt.Sprintf("full-%d", i), 8, cluster.On(v1.LabelTopologyZone, "a")))
	}
	w.gangNodes("full-", 3)
	return w
}

// zoneOfTwo waits until a gang of tenant two has all of its zone.
func (w *world) zoneOfTwo(gang, claim string) {
	w.T.Helper()
	w.createGang(gang, 3, 8, cluster.In("two"), claiming(claim))
	for node := range w.gangNodes(gang+"-", 3) {
		if !strings.HasPrefix(node, "b-") {
			w.T.Errorf("a pod of %s is on %s, its volume in zone b", gang, node)
		}
	}
}

// TestHoleClaimsOfOneName: tenant one's pods are refused by every node of the other
// zone, again and again. That is not held against tenant two, whose claim has the same
// name and whose zone is idle: its gang starts while those of tenant one wait.
func TestHoleClaimsOfOneName(t *testing.T) {
	t.Parallel()
	w := newZonedWorld(t)
	for _, round := range []struct{ gang, ofOne, ofTwo string }{{"own", "data-one", "data-two"}, {"same", "data", "data"}} {
		for i := range 3 {
			w.Create(pod(fmt.Sprintf("one-%d", i), 8, cluster.In("one"), claiming(round.ofOne)))
		}
		w.noneBound("one-", 15*time.Second)
		w.zoneOfTwo(round.gang, round.ofTwo)
		w.noneBound("one-", 0)
		w.Within("one").Clear()
		w.Within("two").Clear()
	}
}

// TestHoleRefusedGang: a gang of tenant one is planned onto the other zone, where its
// volumes are not, and refused, again and again. It steps back between its tries: the
// gang of tenant two, which can only be there, starts.
func TestHoleRefusedGang(t *testing.T) {
	t.Parallel()
	w := newZonedWorld(t)
	w.createGang("one", 3, 8, cluster.In("one"), claiming("data-one"))
	w.noneBound("one-", 10*time.Second)
	w.zoneOfTwo("two", "data-two")
	w.noneBound("one-", 0)
}

// TestHoleOtherResources: pods that ask for a resource which no node has do not keep
// other pods from a node or a card: plain pods start at their first attempt, as without
// them, and on the same cards.
func TestHoleOtherResources(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `
pools:
- {name: a100, count: 3, gpu: {model: A100-80GB, count: 8}}
- {name: t4, count: 5, gpu: {model: T4, count: 4}}
`)
	w.AddQueue("idle", "{weight: 1}")
	w.AddNamespace("hostile")
	scheduler := w.Scheduler(nil, cluster.Alone, cluster.OpenMetrics)
	const count = 20
	round := func(prefix string) (attempts int, nodes map[string]int) {
		before := w.Attempts(scheduler)
		var plain []*v1.Pod
		for i := range count {
			plain = append(plain, pod(fmt.Sprintf("%s-%d", prefix, i), 1))
		}
		w.CreateAll(plain)
		nodes = w.gangNodes(prefix+"-", count)
		attempts = w.Attempts(scheduler) - before
		for _, p := range plain {
			w.Delete(p.Name)
		}
		return attempts, nodes
	}
	_, want := round("alone")
	for i := range 5 {
		w.Create(pod(fmt.Sprintf("rdma-%d", i), 1, cluster.In("hostile"), cluster.Needs("rdma/hca", "1")))
	}
	w.Within("hostile").Waits("rdma-0")
	for i := range 3 {
		attempts, nodes := round(fmt.Sprintf("beside-%d", i))
		if attempts > 2*count {
			t.Errorf("%d attempts to place %d plain pods", attempts, count)
		}
		if !maps.Equal(nodes, want) {
			t.Errorf("beside pods that ask for rdma/hca they are on %v, alone on %v", nodes, want)
		}
	}
}
