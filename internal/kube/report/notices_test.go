package report

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestToldLess: numbers in a reason change all the time; what is written about it grows
// with the logarithm of the wait, and then is one write in minutes.
func TestToldLess(t *testing.T) {
	d := NewNotices()
	at, times, kinds := start, 0, 0
	var last *told
	for i := range 360 { // an hour
		next := d.next(last, fmt.Sprint(i), "Unschedulable", at)
		if next != last {
			times++
		}
		last, at = next, at.Add(Every)
	}
	if times < 12 || times > 18 {
		t.Errorf("told %d times in an hour", times)
	}
	for i := range 360 {
		next := d.next(last, "same", []string{"WaitingForTurn", "Unschedulable"}[i%2], at)
		if next != last {
			kinds++
		}
		last, at = next, at.Add(Every)
	}
	if kinds < 60 || kinds > 130 {
		t.Errorf("told %d times of another kind in an hour", kinds)
	}
	if next := d.next(last, "same", last.kind, at.Add(time.Hour)); next != last {
		t.Error("told what was told before")
	}
}

// TestGangsGone: nothing is kept of gangs that are gone, also where no step asks
// for what is due.
func TestGangsGone(t *testing.T) {
	d := NewNotices()
	for i := range 100_000 {
		id := engine.ID(fmt.Sprint(i))
		d.Ask(id, start)
		if i%10 > 0 {
			d.Forget(id)
		}
		if i%100 == 0 {
			d.Ask(id, start.Add(-time.Hour)) // sooner
		}
	}
	if len(d.due) > 2*len(d.at)+1000 || len(d.at) != 10_000 || len(d.told) > 0 {
		t.Errorf("%d questions about %d gangs", len(d.due), len(d.at))
	}
	for n := 0; ; n++ {
		if _, ok := d.Due(start); !ok {
			if n != 10_000 || !d.Next().IsZero() {
				t.Errorf("%d are asked, next %s", n, d.Next())
			}
			return
		}
	}
}

// TestDue: a gang is asked about at the soonest time, once.
func TestDue(t *testing.T) {
	d := NewNotices()
	d.Ask("a", start.Add(time.Minute))
	d.Ask("a", start.Add(time.Second))
	d.Ask("a", start.Add(time.Hour))
	if _, ok := d.Due(start); ok || !d.Next().Equal(start.Add(time.Second)) {
		t.Errorf("due at once, or at %s", d.Next())
	}
	if id, ok := d.Due(start.Add(time.Second)); !ok || id != "a" {
		t.Errorf("got %q, %v", id, ok)
	}
	if id, ok := d.Due(start.Add(time.Hour)); ok {
		t.Errorf("%s is asked about twice", id)
	}
	d.Touched("b", start)
	if id, ok := d.Due(start.Add(Every / 20)); !ok || id != "b" {
		t.Errorf("got %q, %v", id, ok)
	}
}

// TestTell: a pod is told the latest once; one whose condition does not show it is told
// again, without an event; one that comes later is told as well.
func TestTell(t *testing.T) {
	d := NewNotices()
	pod := func(name string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	}
	a, b := pod("a"), pod("b")
	reason := explain.Reason{Code: explain.Members, Need: 3, Exist: 1}
	shown := map[string]Notice{}
	shows := func(p *v1.Pod) (kind, text string) { return shown[p.Name].Reason, shown[p.Name].Text }
	tell := func(at time.Duration, pods ...*v1.Pod) (out string) {
		for _, n := range d.Tell("g", &reason, reason.Condition(), pods, shows, start.Add(at)) {
			out += fmt.Sprintf("%s %s %v %s;", n.Pod.Name, n.Reason, n.Event, n.Text)
			shown[n.Pod.Name] = n
		}
		return out
	}
	for i, tt := range []struct {
		before func()
		at     time.Duration
		pods   []*v1.Pod
		want   string
	}{
		{nil, 0, []*v1.Pod{a}, "a WaitingForMembers true waits for members: 1 of 3 exist;"},
		{nil, time.Second, []*v1.Pod{a}, ""},
		{nil, time.Second, []*v1.Pod{a, b}, "b WaitingForMembers true waits for members: 1 of 3 exist;"},
		{func() { delete(shown, "a") }, 2 * time.Second, []*v1.Pod{a, b}, "a WaitingForMembers false waits for members: 1 of 3 exist;"},
		{func() { shown["b"] = Notice{Reason: "WaitingForMembers", Text: "an older word"} }, 2 * time.Second, []*v1.Pod{a, b}, "b WaitingForMembers false waits for members: 1 of 3 exist;"},
		{func() { reason.Exist = 2 }, 3 * time.Second, []*v1.Pod{a, b}, ""}, // not so soon
		{nil, Every, []*v1.Pod{a}, "a WaitingForMembers true waits for members: 2 of 3 exist;"},
		{func() { d.Forget("g") }, Every, []*v1.Pod{a}, "a WaitingForMembers true waits for members: 2 of 3 exist;"},
	} {
		if tt.before != nil {
			tt.before()
		}
		if got := tell(tt.at, tt.pods...); got != tt.want {
			t.Errorf("%d: got %q, want %q", i, got, tt.want)
		}
	}
}

// TestUnschedulable: autoscalers look at pods that are Unschedulable, by Kubernetes' own word.
func TestUnschedulable(t *testing.T) {
	if got := explain.Nodes.Condition(); got != v1.PodReasonUnschedulable {
		t.Error(got)
	}
}
