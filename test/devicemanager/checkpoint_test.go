package devicemanager

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// plain is a pod of any scheduler that asks for one device.
func (w *world) plain(name, what string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.Now(), Annotations: map[string]string{}},
		Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceName(what): *resource.NewQuantity(1, resource.DecimalSI)}}}}},
	}
	w.api.create(p)
	return p
}

// TestOvertakenCheckpoint: kubelet writes an older checkpoint over a newer one, because a
// message of the device plugin came together with an Allocate. The agent lets it write
// once more, so that a restart some seconds later loses nothing.
func TestOvertakenCheckpoint(t *testing.T) {
	w := newWorld(t, "none", "container", 1)
	var mu sync.Mutex
	var last map[[2]string]bool // the containers in the file
	begun, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var first, newer sync.Once
	main := [2]string{"uid-of-pod", "main"}
	w.kubelet.writing = func(containers map[[2]string]bool) func() {
		older := false
		first.Do(func() { older = true })
		if older {
			close(begun)
			<-release
		}
		return func() {
			mu.Lock()
			last = containers
			mu.Unlock()
			if older {
				close(done)
			} else if containers[main] {
				newer.Do(func() { close(release) })
			}
		}
	}
	// A device becomes unhealthy while a pod is admitted.
	w.agent.plugin.Set(offers(inventory(), func(uuid string) bool { return uuid != inventory().Devices[1].UUID }))
	<-begun
	p := w.plain("pod", gpu)
	if err := w.kubelet.admit(p); err != nil {
		t.Fatal(err)
	}
	w.start(p)
	has := w.held(p)
	<-done
	w.await("the checkpoint has the pod's device", func() error {
		mu.Lock()
		defer mu.Unlock()
		if !last[main] {
			return fmt.Errorf("it has %v", last)
		}
		return nil
	})
	w.restartKubelet()
	if now := w.held(p); !slices.Equal(now, has) {
		t.Errorf("after a restart of kubelet the pod has %v, before it had %v", now, has)
	}
}
