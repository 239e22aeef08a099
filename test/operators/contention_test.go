package operators

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/examples"
)

// load is one object of a contended cluster and the units of pods that must be whole.
type load struct {
	object *unstructured.Unstructured
	gpus   int
	units  []unit
	// It has run when one of these has been whole.
	done []unit
}

// TestContention: operators' own samples and the requirement document's RayCluster, at twice
// the cluster's capacity. No unit is ever there in part, and every object gets its turn as
// others end.
func TestContention(t *testing.T) {
	w := newWorld(t, "kuberay", "jobset", "lws")
	var all []load
	for i := range 2 {
		all = append(all, w.contenders(i)...)
	}
	asked := 0
	for _, l := range all {
		for _, u := range l.units {
			w.judge.expect(u.name, u.min, u.has)
		}
		asked += l.gpus
	}
	if asked < 2*capacity {
		t.Fatalf("%d GPUs are asked for, less than twice %d", asked, capacity)
	}
	for _, l := range all {
		w.create(l.object)
	}
	// What has run whole for a while ends and makes room.
	waits, since := map[string]load{}, map[string]time.Time{}
	for _, l := range all {
		waits[l.object.GetName()] = l
	}
	deadline := time.After(3 * time.Minute)
	for len(waits) > 0 {
		changed := w.judge.changed()
		now := time.Now()
		for name, l := range waits {
			switch {
			case !l.ran(w.judge.pods()):
				delete(since, name)
			case since[name].IsZero():
				since[name] = now
			case now.Sub(since[name]) > time.Second:
				w.remove(l.object.GetKind(), name)
				delete(waits, name)
			}
		}
		select {
		case <-changed:
		case <-time.After(200 * time.Millisecond): // what ran for a while ends
		case <-deadline:
			t.Fatalf("%d of %d objects never ran: %s", len(waits), len(all), summary(w.judge.pods()))
		}
	}
	t.Logf("%d objects, %d GPUs asked for of %d", len(all), asked, capacity)
}

// ran says whether enough of the load has its place.
func (l load) ran(pods []*v1.Pod) bool {
	for _, u := range l.done {
		n := 0
		for _, p := range pods {
			if u.has(p) && p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
				n++
			}
		}
		if n >= u.min {
			return true
		}
	}
	return false
}

// contenders are one of each kind: together they ask for more than the whole cluster.
func (w *world) contenders(i int) []load {
	w.T.Helper()
	name := func(kind string) string { return fmt.Sprintf("%s-%d", kind, i) }
	var out []load
	add := func(o *unstructured.Unstructured, gpus int, units ...unit) {
		for u := range units {
			if units[u].name == "" {
				units[u].name = fmt.Sprintf("%s/%d", o.GetName(), u)
			}
		}
		out = append(out, load{o, gpus, units, units})
	}
	seed := parse(w.T, string(examples.Document("002/09-raycluster.yaml")))[0]
	seed.SetName(name("seed"))
	seed.SetNamespace("default")
	add(seed, 4, unit{"", label(rayCluster, seed.GetName()), 4})

	sample := w.ray(name("ray"), 3, 6)
	add(sample, 18, unit{"", label(rayCluster, sample.GetName()), 4})

	job := adapt(w.sample("kuberay", "samples/ray-job.sample.yaml", "RayJob", 0), name("rayjob"), workers(8))
	add(job, 8, unit{"", madeBy(job.GetName()), 2})

	service := adapt(w.sample("kuberay", "samples/ray-service.sample.yaml", "RayService", 0), name("rayservice"), workers(8))
	add(service, 8, unit{"", madeBy(service.GetName()), 2})

	for nth, stages := range []map[string]int{{"driver": 1, "workers": 2}, {"messagequeue": 1, "driver": 4, "worker": 4}} {
		o := adapt(w.sample("jobset", "104-StartupPolicy/README.md", "JobSet", nth), name("order"+number(nth)), everywhere(2))
		var units []unit
		total := 0
		for stage, n := range stages {
			total += n
			units = append(units, unit{o.GetName() + "/" + stage, both(label(jobSet, o.GetName()), label(replicated, stage)), n})
		}
		add(o, 2*total, units...)
		out[len(out)-1].done = []unit{{"", label(jobSet, o.GetName()), total}}
	}
	groups := adapt(w.sample("lws", "samples/leaderworkerset_v1_leaderworkerset.yaml", "LeaderWorkerSet", 0), name("lws"), everywhere(2))
	var units []unit
	for g := range 3 {
		units = append(units, unit{fmt.Sprintf("%s/%d", groups.GetName(), g), both(label(lws, groups.GetName()), label(lwsGroup, number(g))), 4})
	}
	add(groups, 24, units...)
	return out
}
