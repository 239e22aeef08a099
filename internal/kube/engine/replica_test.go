package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
)

// outcomeOf is a step's outcome in words, to be compared.
func outcomeOf(starts map[string]string, evicts []Victim) string {
	var lines []string
	for pod, where := range starts {
		lines = append(lines, "start "+pod+" "+where)
	}
	for _, v := range evicts {
		lines = append(lines, "evict "+v.Pod.Name+" for "+v.For)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func where(r *engine.Release) string { return fmt.Sprintf("%s %b", r.Node.ID, r.Grant.Set) }

// stepLive steps the live engine once and binds what starts.
func (s *setup) stepLive() string {
	s.t.Helper()
	turn := s.Step()
	starts := map[string]string{}
	var pods []*v1.Pod
	for _, p := range turn.Activate {
		if s.Released(p) {
			pods = append(pods, p)
		}
	}
	releases := s.releases(pods)
	for i, p := range pods {
		starts[p.Name] = where(&releases[i])
		s.Reserved(p, releases[i].Ticket)
	}
	for i, p := range pods {
		s.bind(p, releases[i])
	}
	for _, v := range turn.Evict {
		s.terminate(v.Pod.Name)
	}
	return outcomeOf(starts, turn.Evict)
}

// passingText is what passes, without gangs that pods are leaving: when all that is left of a
// gang is leaving, who has not known it before (a copy, or the next process) takes each pod
// for a gang of its own.
func passingText(p engine.Passing) string {
	leaves := map[engine.ID]bool{}
	for _, l := range p.Leaving {
		name := strings.TrimPrefix(string(l.Holder), "uid-")
		leaves[engine.ID("pod/uid-"+name)] = true
		leaves[engine.ID("label/default/"+name[:strings.LastIndex(name, "-")+1])] = true
	}
	p.Gangs = slices.DeleteFunc(slices.Clone(p.Gangs), func(g engine.PassingGang) bool { return leaves[g.Gang] })
	return fmt.Sprintf("%+v", p)
}

// TestReplicaDecides: on random states the replica of a snapshot decides, for many steps,
// what the live engine decides after it, and whatever becomes of it the live engine is as
// before.
func TestReplicaDecides(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for run := range 12 {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(run)))
			t.Logf("seed %d", seed)
			s := newSetup(t, 2+r.IntN(4))
			count := 0
			submit := func() {
				count++
				size, gpus := 1+r.IntN(4), []int64{1, 1, 2, 4, 8}[r.IntN(5)]
				priority := int32(r.IntN(3))
				runtime := []string{"", "10m", "1h", "5h"}[r.IntN(4)]
				name := fmt.Sprintf("g%d-", count)
				s.gang(name, size, gpus, func(p *v1.Pod) {
					p.Spec.Priority = &priority
					if runtime != "" {
						p.Annotations[names.AnnotationRuntime] = runtime
					}
					if size == 1 {
						delete(p.Labels, names.LabelGang)
						delete(p.Labels, names.LabelGangSize)
					}
				})
			}
			for range 10 + r.IntN(30) {
				s.now = s.now.Add(time.Duration(r.IntN(900)) * time.Millisecond) // seconds are cut off in objects
				switch r.IntN(5) {
				case 0, 1, 2:
					submit()
				case 3:
					s.now = s.now.Add(time.Duration(r.IntN(1200)) * time.Second)
					for _, o := range s.podStore.List() {
						if p := o.(*v1.Pod); p.Spec.NodeName != "" && (r.IntN(6) == 0 || p.DeletionTimestamp != nil) {
							s.deletePod(p.Name)
						}
					}
				}
				s.stepLive()
			}
			submit() // what nobody has looked at
			if r.IntN(2) == 0 {
				s.Step() // some may be on their way to their places
			}
			snapshot, err := s.Snapshot()
			must(t, err)
			copied, err := NewReplica(snapshot)
			must(t, err)
			if got, want := passingText(copied.core.Passing()), passingText(snapshot.Passing); got != want {
				t.Fatalf("passing\n%s\nwant\n%s", got, want)
			}
			before := s.core.Confirmed()
			var got []string
			for i := range 6 {
				copied.Advance(s.now.Add(time.Duration(i) * 5 * time.Second))
				m, err := copied.Step()
				must(t, err)
				starts := map[string]string{}
				for _, x := range m.Started {
					starts[x.Pod.Name] = where(&x.Release)
				}
				for _, v := range m.Evict {
					_, err := copied.Evict(v.Pod)
					must(t, err)
				}
				got = append(got, outcomeOf(starts, m.Evict))
			}
			if s.core.Confirmed() != before {
				t.Fatal("the live engine changed")
			}
			// What was promised before the snapshot is bound in the copy: so it is here.
			for _, o := range s.podStore.List() {
				if p := o.(*v1.Pod); p.Spec.NodeName == "" && s.Released(p) {
					c, _ := s.Begin(p)
					s.Reserved(p, c.Ticket)
				}
			}
			for _, o := range s.podStore.List() {
				if p := o.(*v1.Pod); p.Spec.NodeName == "" && s.Released(p) {
					s.bind(p, s.release(p))
				}
			}
			began := s.now
			for i, want := range got {
				s.now = began.Add(time.Duration(i) * 5 * time.Second)
				if live := s.stepLive(); live != want {
					t.Fatalf("step %d: the replica decided\n%s\nthe live engine\n%s", i, want, live)
				}
			}
		})
	}
}

// TestReplicaSees: what a replica says of a gang that waits is what the engine says.
func TestReplicaSees(t *testing.T) {
	s := newSetup(t, 1)
	s.runs("a", 1, 8, func(p *v1.Pod) { p.Annotations[names.AnnotationRuntime] = "1h" })
	s.gang("b", 2, 8)
	s.Step()
	snapshot, err := s.Snapshot()
	must(t, err)
	r, err := NewReplica(snapshot)
	must(t, err)
	waiting := r.Waiting()
	if len(waiting) != 1 {
		t.Fatalf("%v wait", waiting)
	}
	want := s.core.Why(waiting[0])
	if got := r.Reason(waiting[0]); got.String() != want.String() || !got.Is() {
		t.Errorf("got %q, want %q", got.String(), want.String())
	}
	ends := r.Endings()
	if len(ends) != 1 || !time.Unix(0, ends[0].At).Equal(s.now.Add(time.Hour).Truncate(time.Second)) {
		t.Errorf("ends %v", ends)
	}
	if id := r.GangOf(s.latest("a0")); r.Placed(id) != 1 || len(r.GangPods(id)) != 1 {
		t.Errorf("gang %q", id)
	}
}
