package plugin

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
)

// TestEventsOfAStartInAnOutage: a process that starts while the API server answers nothing about
// its groups writes events.k8s.io events afterwards; it may not write core events.
func TestEventsOfAStartInAnOutage(t *testing.T) {
	client := fake.NewClientset() // its discovery knows no group, as that of a server that is down
	if _, err := client.Discovery().ServerResourcesForGroupVersion("events.k8s.io/v1"); err == nil {
		t.Fatal("the server serves events.k8s.io/v1: the test shows nothing")
	}
	broadcaster := events.NewEventBroadcasterAdapterWithContext(t.Context(), eventsServed{client})
	broadcaster.StartRecordingToSink(t.Context().Done())
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p", UID: "u"}}
	broadcaster.NewRecorder("gpu-scheduler").Eventf(pod, nil, v1.EventTypeNormal, "Waiting", "Scheduling", "for capacity")
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		for _, a := range client.Actions() {
			if r := a.GetResource(); r.Resource == "events" {
				if r.Group != "events.k8s.io" {
					t.Fatalf("wrote an event of group %q", r.Group)
				}
				return
			}
		}
		if time.Now().After(end) {
			t.Fatal("no event was written")
		}
	}
}
