package dra

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/test/cluster"
)

// load creates and deletes pods of all kinds at random.
type load struct {
	*world
	random *rand.Rand
	next   int
	// groups are the pods that were created and not deleted, members of a gang together.
	groups [][]string
}

// TestRandom: singles, gangs, shares and MIG instances, through claims and through the
// device plugin, come and go at random on nodes that publish both; the scheduler is
// restarted on the way. No card is held twice, every allocation is what was planned, no
// gang starts in part, and no claim is lost: in the end all cards are free again.
func TestRandom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `[{name: both, count: 4, gpu: {model: A100-80GB, count: 8}}]`)
	w.publish("both-0", 8)
	w.publish("both-1", 8)
	w.publish("both-2", 8, cuttable)
	w.counters("both-2", maxCuttable)
	w.publish("both-3", 8, shareable)
	process := w.scheduler()
	w = w.in("random")
	for _, n := range []int64{1, 2, 4, 8} {
		w.template(fmt.Sprintf("gpus-%d", n), devices(request("gpu.tangram.dev", n)))
	}
	w.template("slice", devices(request("mig.tangram.dev", 1, `device.attributes["gpu.tangram.dev"].profile == "1g.10gb"`)))
	// On cards that several claims may have: by memory, and by memory and cores.
	part := request("gpu.tangram.dev", 1, `device.allowMultipleAllocations`)
	part.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("24Gi")}}
	w.template("share", devices(part))
	part = *part.DeepCopy()
	part.Exactly.Capacity.Requests["memory"], part.Exactly.Capacity.Requests["cores"] = resource.MustParse("9Gi"), resource.MustParse("40")
	w.template("cores", devices(part))
	l := &load{world: w, random: rand.New(rand.NewPCG(12, 36))}
	for step := range 160 {
		l.step()
		if step%10 == 9 {
			l.settled()
		}
		if step == 75 {
			w.Must(process.Stop())
			process = w.scheduler()
		}
	}
	w.Eventually("no gang is there in part", l.wholeGangs)
	l.settled()
	w.clear()
	var all []string
	for i := range 4 {
		all = append(all, fmt.Sprintf("all-%d", i))
		w.create(pod(all[i], by("gpus-8"), cluster.Gang("all", 4)))
	}
	w.Bound(all...)
	w.sound()
}

// step creates or deletes something.
func (l *load) step() {
	l.T.Helper()
	name := fmt.Sprintf("p-%d", l.next)
	l.next++
	claim := func() func(*v1.Pod) { return by(fmt.Sprintf("gpus-%d", 1<<l.random.IntN(3))) }
	switch pick := l.random.IntN(100); {
	case pick < 25:
		l.add(pod(name, claim()))
	case pick < 40:
		size, ask := 2+l.random.IntN(3), claim()
		if l.random.IntN(3) == 0 {
			ask = limit("nvidia.com/gpu", 2)
		}
		var members []*v1.Pod
		for i := range size {
			members = append(members, pod(fmt.Sprintf("%s-%d", name, i), ask, cluster.Gang(name, size)))
		}
		l.add(members...)
	case pick < 55:
		l.add(pod(name, limit("nvidia.com/gpu", 1+l.random.Int64N(3))))
	case pick < 63:
		l.add(pod(name, limit("nvidia.com/gpu", 1), limit("nvidia.com/gpumem", 20000)))
	case pick < 69:
		l.add(pod(name, by("slice")))
	case pick < 73:
		l.add(pod(name, by("share")))
	case pick < 76:
		l.add(pod(name, by("cores")))
	case len(l.groups) > 0:
		at := l.random.IntN(len(l.groups))
		for _, name := range l.groups[at] {
			l.DeleteIf(name)
		}
		l.groups = slices.Delete(l.groups, at, at+1)
	}
}

func (l *load) add(pods ...*v1.Pod) {
	l.T.Helper()
	l.create(pods...)
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	l.groups = append(l.groups, names)
}

// settled fails the test when a card is held twice, or a plan was not followed, in two
// readings one after the other: the objects of one reading are not of one moment.
func (l *load) settled() {
	l.T.Helper()
	var before []string
	for range 5 {
		j := l.judge()
		found := j.conflicts()
		if len(found) == 0 {
			return
		}
		if slices.Equal(found, before) {
			l.T.Fatal(found)
		}
		before = found
		time.Sleep(100 * time.Millisecond)
	}
}

// wholeGangs says whether of every gang all members are bound, or none.
func (l *load) wholeGangs() (bool, string) {
	node := map[string]string{}
	for _, p := range l.Pods("") {
		node[p.Name] = p.Spec.NodeName
	}
	for _, g := range l.groups {
		bound := 0
		for _, name := range g {
			if node[name] != "" {
				bound++
			}
		}
		if bound != 0 && bound != len(g) {
			return false, fmt.Sprintf("%d of %v", bound, g)
		}
	}
	return true, ""
}
