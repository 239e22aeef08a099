package controller

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// TestUnseenPods: a pod is asked for once while the informer is behind, and again when it
// has been seen and is gone, when a restart wants another, and when it does not show
// up at all.
func TestUnseenPods(t *testing.T) {
	b, at := newUnseenPods(), time.Unix(100, 0)
	job := &batch.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: "1"}}
	slots := []lifecycle.Slot{{Task: "a", Index: 0}, {Task: "a", Index: 1}}
	check := func(what string, missing []lifecycle.Slot, after time.Duration, want int, wantWait time.Duration) {
		t.Helper()
		left, wait := b.left(job, missing, at.Add(after))
		if len(left) != want || wait != wantWait || len(left) > 0 && !slices.Equal(left, missing[len(missing)-want:]) {
			t.Errorf("%s: %v left, wait %v", what, left, wait)
		}
	}
	check("nothing made", slots, 0, 2, 0)
	b.made(job, slots[0], at)
	check("one made", slots, time.Second, 1, unseenPatience-time.Second)
	b.made(job, slots[1], at.Add(time.Second))
	check("both made", slots, time.Second, 0, unseenPatience)
	check("one seen", slots[1:], 2*time.Second, 0, unseenPatience-time.Second)
	check("it is gone", slots[:1], 2*time.Second, 1, 0)
	b.made(job, slots[0], at)
	check("it does not show up", slots[:1], unseenPatience, 1, 0)
	b.made(job, slots[0], at)
	job.Status.Version++
	check("a restart", slots[:1], 0, 1, 0)
	b.made(job, slots[0], at)
	job.UID = "2"
	check("another job of the name", slots[:1], 0, 1, 0)
	b.made(job, slots[0], at)
	b.forget("j")
	if len(b.of) != 0 {
		t.Errorf("%d jobs are remembered", len(b.of))
	}
}
