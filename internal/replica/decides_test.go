package replica

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
)

// outcomeOf is a step's outcome in words, to be compared. Victims begin to terminate.
func (r *Replica) outcomeOf(t *testing.T) string {
	t.Helper()
	m, err := r.Step()
	must(t, err)
	var lines []string
	for _, s := range m.Started {
		lines = append(lines, fmt.Sprintf("start %s %s %b", s.Pod.Name, s.Node.ID, s.Grant.Set))
	}
	for _, v := range m.Evict {
		lines = append(lines, "evict "+v.Pod.Name+" for "+v.For)
		_, err := r.Evict(v.Pod)
		must(t, err)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// passingText is what passes, without gangs that pods are leaving: when all that is left of a
// gang is leaving, a process that has not known it before (a replica, or the next leader)
// takes each pod for a gang of its own.
func passingText(p engine.Passing) string {
	leaves := map[engine.ID]bool{}
	for _, l := range p.Leaving {
		name := strings.TrimPrefix(string(l.Holder), "uid-")
		leaves[engine.ID("pod/uid-"+name)] = true
		leaves[engine.ID("label/default/"+name[:strings.LastIndex(name, "-")])] = true
	}
	p.Gangs = slices.DeleteFunc(slices.Clone(p.Gangs), func(g engine.PassingGang) bool { return leaves[g.Gang] })
	return fmt.Sprintf("%+v", p)
}

// TestReplicaDecides: on random states the replica of a snapshot decides, for many steps,
// what the engine decides after it of which the snapshot was taken, and whatever becomes of
// the replica that engine is as before.
func TestReplicaDecides(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for run := range 12 {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, uint64(run)))
			t.Logf("seed %d", seed)
			live, err := NewReplica(world(2 + random.IntN(4)))
			must(t, err)
			grow(t, live, random)
			snapshot, err := live.Snapshot()
			must(t, err)
			copied, err := NewReplica(snapshot)
			must(t, err)
			again, err := copied.Snapshot()
			must(t, err)
			if got, want := passingText(again.Passing), passingText(snapshot.Passing); got != want {
				t.Fatalf("passing\n%s\nwant\n%s", got, want)
			}
			before := fmt.Sprintf("%+v", live.Nodes(0).Items)
			began := live.Now()
			var got []string
			for i := range 6 {
				copied.Advance(began.Add(time.Duration(i) * 5 * time.Second))
				got = append(got, copied.outcomeOf(t))
			}
			if fmt.Sprintf("%+v", live.Nodes(0).Items) != before {
				t.Fatal("the live engine changed")
			}
			// What was promised before the snapshot is bound in the copy: so it is here.
			for _, c := range live.engine.Starting() {
				bound, err := c.Bind(c.Pod, began)
				must(t, err)
				must(t, live.SetPod(bound))
			}
			live.sync()
			for i, want := range got {
				live.Advance(began.Add(time.Duration(i) * 5 * time.Second))
				if is := live.outcomeOf(t); is != want {
					t.Fatalf("step %d: the replica decided\n%s\nthe live engine\n%s", i, want, is)
				}
			}
		})
	}
}

// grow lets an engine decide for a while about random gangs that come and go.
func grow(t *testing.T, live *Replica, random *rand.Rand) {
	t.Helper()
	count := 0
	submit := func() {
		count++
		size, gpus := 1+random.IntN(4), []int{1, 1, 2, 4, 8}[random.IntN(5)]
		priority, runtime := int32(random.IntN(3)), []string{"", "10m", "1h", "5h"}[random.IntN(4)]
		for i := range size {
			p := pod(fmt.Sprintf("g%d-%d", count, i), gpus, priorityOf(priority))
			p.CreationTimestamp = metav1.NewTime(live.Now().Truncate(time.Second))
			if runtime != "" {
				lasting(runtime)(p)
			}
			if size > 1 {
				p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = fmt.Sprintf("g%d", count), fmt.Sprint(size)
			}
			must(t, live.SetPod(p))
		}
	}
	for range 10 + random.IntN(30) {
		live.Advance(live.Now().Add(time.Duration(random.IntN(900)) * time.Millisecond)) // seconds are cut off in objects
		switch random.IntN(5) {
		case 0, 1, 2:
			submit()
		case 3:
			live.Advance(live.Now().Add(time.Duration(random.IntN(1200)) * time.Second))
			for _, o := range live.pods.List() {
				if p := o.(*v1.Pod); p.Spec.NodeName != "" && (random.IntN(6) == 0 || p.DeletionTimestamp != nil) {
					live.RemovePod(p)
				}
			}
		}
		live.outcomeOf(t)
	}
	submit() // what no step has looked at
	if random.IntN(2) == 0 {
		live.engine.Step() // some may be on their way to their places
	}
}

// TestReplicaSees: what a replica says of a gang that waits is what the engine says.
func TestReplicaSees(t *testing.T) {
	s := world(1)
	s.Pods = append(s.Pods, pod("a", 8, on("n0", 0), lasting("1h")), pod("b", 8))
	live, err := NewReplica(s)
	must(t, err)
	live.outcomeOf(t)
	snapshot, err := live.Snapshot()
	must(t, err)
	r, err := NewReplica(snapshot)
	must(t, err)
	waiting := r.Waiting()
	if len(waiting) != 1 {
		t.Fatalf("%v wait", waiting)
	}
	want := reasonOf(live, waiting[0])
	if got := reasonOf(r, waiting[0]); got.String() != want.String() || !got.Is() {
		t.Errorf("got %q, want %q", got.String(), want.String())
	}
	ends := r.Endings()
	if len(ends) != 1 || !time.Unix(0, ends[0].At).Equal(start.Add(time.Hour)) {
		t.Errorf("ends %v", ends)
	}
	if id := r.GangOf(r.Pod("default", "a")); len(r.GangPods(id)) != 1 {
		t.Errorf("gang %q", id)
	}
}

// TestReplicaTellsNothing: a replica looks for no reason that it could not tell.
func TestReplicaTellsNothing(t *testing.T) {
	s := world(1)
	s.Pods = append(s.Pods, pod("a", 9))
	r, err := NewReplica(s)
	must(t, err)
	for range 10 {
		r.Advance(r.Now().Add(time.Minute))
		if turn := r.engine.Step(); len(turn.Notices)+len(turn.Lookups) > 0 {
			t.Fatalf("told %+v", turn.Notices)
		}
	}
}
