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

	"github.com/tangram-dev/tangram/internal/local"
)

// zonal makes a claim in a namespace, bound to a volume that exists in one zone only,
// as the volume controller leaves them.
func (w *world) zonal(namespace, claim, zone string) {
	w.t.Helper()
	ctx, name := context.Background(), namespace+"-"+claim
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	class := ""
	pvc, err := w.client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: name, StorageClassName: &class, Resources: v1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	pv, err := w.client.CoreV1().PersistentVolumes().Create(ctx, &v1.PersistentVolume{
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
	if err != nil {
		w.t.Fatal(err)
	}
	pv.Status.Phase = v1.VolumeBound
	if _, err := w.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, pv, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	pvc.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: size}
	if _, err := w.client.CoreV1().PersistentVolumeClaims(namespace).UpdateStatus(ctx, pvc, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
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
	w.queueOf("idle", "{weight: 1}")
	for namespace, zone := range map[string]string{"one": "a", "two": "b"} {
		w.namespace(namespace)
		w.zonal(namespace, "data", zone)
		w.zonal(namespace, "data-"+namespace, zone)
	}
	w.scheduler(nil)
	for i := range 3 {
		w.create(pod(fmt.Sprintf("full-%d", i), 8, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: "a"} }))
	}
	w.gangNodes("full-", 3, 20*time.Second)
	return w
}

// zoneOfTwo waits until a gang of tenant two has all of its zone, and returns how long
// that took.
func (w *world) zoneOfTwo(gang, claim string) time.Duration {
	w.t.Helper()
	start := time.Now()
	w.createGang(gang, 3, 8, inNamespace("two"), claiming(claim))
	for node := range w.gangNodes(gang+"-", 3, 100*time.Second) {
		if !strings.HasPrefix(node, "b-") {
			w.t.Errorf("a pod of %s is on %s, its volume in zone b", gang, node)
		}
	}
	return time.Since(start)
}

// endAll deletes the pods of a namespace.
func (w *world) endAll(namespace string) {
	w.t.Helper()
	now := int64(0)
	if err := w.client.CoreV1().Pods(namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// TestHoleClaimsOfOneName: tenant one's pods are refused by every node of the other
// zone, again and again. That is not held against tenant two, whose claim has the same
// name and whose zone is idle: its gang starts as fast as with a claim of another name.
func TestHoleClaimsOfOneName(t *testing.T) {
	t.Parallel()
	knownHole(t, "H3-claims")
	w := newZonedWorld(t)
	round := func(gang, ofOne, ofTwo string) time.Duration {
		for i := range 3 {
			w.create(pod(fmt.Sprintf("one-%d", i), 8, inNamespace("one"), claiming(ofOne)))
		}
		w.noneBound("one-", 15*time.Second)
		took := w.zoneOfTwo(gang, ofTwo)
		w.endAll("one")
		w.endAll("two")
		return took
	}
	own := round("own", "data-one", "data-two")
	same := round("same", "data", "data")
	t.Logf("claims of their own names %s, of one name %s", own, same)
	if same > 2*own+3*time.Second {
		t.Errorf("with claims of one name the gang started after %s, with names of their own after %s", same, own)
	}
}

// TestHoleRefusedGang: a gang of tenant one is planned onto the other zone, where its
// volumes are not, and refused, again and again. It steps back between its tries: the
// gang of tenant two, which can only be there, starts.
func TestHoleRefusedGang(t *testing.T) {
	t.Parallel()
	knownHole(t, "H3-refused-gang")
	w := newZonedWorld(t)
	w.createGang("one", 3, 8, inNamespace("one"), claiming("data-one"))
	w.noneBound("one-", 10*time.Second)
	if took := w.zoneOfTwo("two", "data-two"); took > 20*time.Second {
		t.Errorf("started after %s on idle nodes", took)
	}
}

// TestHoleOtherResources: pods that ask for a resource which no node has do not keep
// other pods from a node or a card: plain pods start as fast as without them, and on the
// same cards.
func TestHoleOtherResources(t *testing.T) {
	knownHole(t, "H3-resources")
	w := newGangWorld(t, local.Options{}, `
pools:
- {name: a100, count: 3, gpu: {model: A100-80GB, count: 8}}
- {name: t4, count: 5, gpu: {model: T4, count: 4}}
`)
	w.queueOf("idle", "{weight: 1}")
	w.namespace("hostile")
	w.scheduler(nil)
	round := func(prefix string) (time.Duration, map[string]int) {
		start := time.Now()
		var plain []*v1.Pod
		for i := range 20 {
			plain = append(plain, pod(fmt.Sprintf("%s-%d", prefix, i), 1))
		}
		w.createAll(plain)
		nodes := w.gangNodes(prefix+"-", 20, time.Minute)
		took := time.Since(start)
		for _, p := range plain {
			w.gone(p.Name)
		}
		return took, nodes
	}
	round("warm")
	alone, want := round("alone")
	for i := range 5 {
		w.create(pod(fmt.Sprintf("rdma-%d", i), 1, inNamespace("hostile"), needing("rdma/hca", "1")))
	}
	w.eventually("they wait", 20*time.Second, func() (bool, string) {
		p := w.find("hostile", "rdma-0")
		return p != nil && scheduled(p).Message != "", waitsFor(p)
	})
	for i := range 3 {
		took, nodes := round(fmt.Sprintf("beside-%d", i))
		t.Logf("alone %s, beside them %s", alone, took)
		if took > 3*alone+2*time.Second {
			t.Errorf("20 plain pods started after %s, without the others after %s", took, alone)
		}
		if !maps.Equal(nodes, want) {
			t.Errorf("beside pods that ask for rdma/hca they are on %v, alone on %v", nodes, want)
		}
	}
}
