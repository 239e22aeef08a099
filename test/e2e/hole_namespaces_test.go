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

// TestHoleClaimsOfOneName: two tenants have a claim of the same name, with volumes in
// different zones. The zone of the first is full, so its gang is refused by every node
// of the other zone, again and again. That is not held against the second tenant, whose
// zone is idle: its gang starts as fast as with a claim of another name.
func TestHoleClaimsOfOneName(t *testing.T) {
	t.Parallel()
	knownHole(t, "H3-claims")
	w := newGangWorld(t, local.Options{}, `
pools:
- {name: a, count: 3, zone: a, gpu: {model: A100-80GB, count: 8}}
- {name: b, count: 3, zone: b, gpu: {model: A100-80GB, count: 8}}
`)
	for namespace, zone := range map[string]string{"one": "a", "two": "b"} {
		w.namespace(namespace)
		w.zonal(namespace, "data", zone)
		w.zonal(namespace, "data-"+namespace, zone)
	}
	w.scheduler(nil)
	round := func(claimOf func(namespace string) string) time.Duration {
		for i := range 3 {
			w.create(pod(fmt.Sprintf("full-%d", i), 8, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: "a"} }))
		}
		w.gangNodes("full-", 3, 20*time.Second)
		w.createGang("one", 3, 8, inNamespace("one"), claiming(claimOf("one")))
		w.noneBound("one-", 15*time.Second)
		start := time.Now()
		w.createGang("two", 3, 8, inNamespace("two"), claiming(claimOf("two")))
		for node := range w.gangNodes("two-", 3, 2*time.Minute) {
			if !strings.HasPrefix(node, "b-") {
				t.Errorf("a pod of two is on %s, its volume in zone b", node)
			}
		}
		took := time.Since(start)
		now := int64(0)
		for _, p := range w.pods() {
			if err := w.client.CoreV1().Pods(p.Namespace).Delete(context.Background(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
				t.Fatal(err)
			}
		}
		return took
	}
	own := round(func(namespace string) string { return "data-" + namespace })
	same := round(func(string) string { return "data" })
	t.Logf("claims of their own names %s, of one name %s", own, same)
	if same > 2*own+3*time.Second {
		t.Errorf("with claims of one name the gang started after %s, with names of their own after %s", same, own)
	}
}

// TestHoleOtherResources: pods that ask for a resource which no node has keep nobody
// else from a node or a card: plain pods start as fast as without them, and on the same
// cards.
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
