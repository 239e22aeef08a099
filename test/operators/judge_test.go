package operators

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/test/chaos/checker"
	"github.com/tangram-dev/tangram/test/cluster"
)

// judge follows all pods of the cluster and shows them to the checker, which knows
// nothing of what the scheduler decides.
type judge struct {
	*checker.Checker
	stop context.CancelFunc

	mu      sync.Mutex
	known   map[string]*v1.Pod
	changes chan struct{} // closed at the next change
	// units say which pods belong together, and how many must run at once.
	units []unit
	// old is how many breaches earlier tests had.
	old int
}

// unit is the pods that a test knows to belong together.
type unit struct {
	name string
	has  func(*v1.Pod) bool
	min  int
}

// watchPods starts to follow pods and returns once it knows them.
func (w *world) watchPods() {
	w.T.Helper()
	facts := checker.Facts{Nodes: map[string]checker.Node{}}
	for _, node := range cluster.ReadAll[v1alpha1.GPUNode](w.World, cluster.GPUNodes) {
		devices := map[int]checker.Device{}
		for _, d := range node.Spec.Devices {
			devices[int(d.Index)] = checker.Device{UUID: d.UUID, MemoryMiB: d.MemoryMiB}
		}
		facts.Nodes[node.Name] = checker.Node{Devices: devices}
	}
	j := &judge{Checker: checker.New(facts, checker.DefaultLimits()), known: map[string]*v1.Pod{}, changes: make(chan struct{})}
	w.judge = j
	j.Able(time.Now(), true, "the tests begin")
	life, stop := context.WithCancel(context.Background())
	j.stop = stop
	_, err := w.Follow(life, func(before, after *v1.Pod) {
		if p := cmp.Or(after, before); p.Namespace == v1.NamespaceDefault {
			j.see(p, after == nil)
		}
	})
	w.Must(err)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				j.Tick(now)
			case <-life.Done():
				return
			}
		}
	}()
}

// see takes a pod as the API server delivered it.
func (j *judge) see(p *v1.Pod, gone bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if gone {
		delete(j.known, string(p.UID))
	} else {
		j.known[string(p.UID)] = p
	}
	close(j.changes)
	j.changes = make(chan struct{})
	seen := checker.FromAPI(p)
	for _, u := range j.units {
		if u.has(p) {
			seen.Unit, seen.Minimum = u.name, u.min
			break
		}
	}
	j.See(time.Now(), seen, gone)
}

// expect tells which pods belong together, before they are made.
func (j *judge) expect(name string, least int, has func(*v1.Pod) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.units = append(j.units, unit{name, has, least})
}

// ends tells that the test takes an object away, with all units that are called after it;
// an empty name means all.
func (j *judge) ends(object string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, u := range j.units {
		if object == "" || u.name == object || strings.HasPrefix(u.name, object+"/") {
			j.UnitEnds(time.Now(), u.name, "the test removes it")
		}
	}
}

// forget forgets the units of a test.
func (j *judge) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.units = nil
}

// breaches are those since the last call.
func (j *judge) breaches() []checker.Breach {
	all := j.Breaches(time.Now())
	out := all[j.old:]
	j.old = len(all)
	return out
}

// pods are those that exist, by name.
func (j *judge) pods() []*v1.Pod {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.SortedFunc(maps.Values(j.known), func(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
}

// changed is closed at the next change of any pod.
func (j *judge) changed() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.changes
}

// label matches pods with a label.
func label(key, value string) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool { return p.Labels[key] == value }
}

// both matches pods that two conditions match.
func both(a, b func(*v1.Pod) bool) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool { return a(p) && b(p) }
}

// Labels by which operators mark the pods of an object.
const (
	rayCluster = "ray.io/cluster"
	jobSet     = "jobset.sigs.k8s.io/jobset-name"
	replicated = "jobset.sigs.k8s.io/replicatedjob-name"
	lws        = "leaderworkerset.sigs.k8s.io/name"
	lwsGroup   = "leaderworkerset.sigs.k8s.io/group-index"
)

func number(n int) string { return strconv.Itoa(n) }
