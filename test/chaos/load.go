package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/test/chaos/checker"
)

// How much the load asks for: above what the fleet has, so that units wait, and not so
// much that a small machine is busy with waiting pods alone.
const (
	loadInterval = 150 * time.Millisecond
	loadDevices  = 90 // of 64
	loadUnits    = 60
)

// load submits units, deletes them, cordons nodes and reports devices as failed. It is
// also the owner of its pods: those that are lost are created again.
type load struct {
	w      *world
	random *rand.Rand

	mu    sync.Mutex
	units map[string]*unit
	made  int
	stop  bool                // nothing new is submitted
	shut  map[string]bool     // cordoned nodes
	sick  map[string]struct{} // nodes with a failed device
	// phases are what the API says of Jobs.
	phases map[string]batch.JobPhase
	pulses int
}

func newLoad(w *world) *load {
	return &load{
		w: w, random: rand.New(rand.NewPCG(w.cfg.Seed, 1)), units: map[string]*unit{},
		shut: map[string]bool{}, sick: map[string]struct{}{}, phases: map[string]batch.JobPhase{},
	}
}

// run works until ctx ends.
func (l *load) run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { eachTick(ctx, loadInterval, func() { l.step(ctx) }) })
	loops.Go(func() { eachTick(ctx, 500*time.Millisecond, func() { l.own(ctx) }) })
	loops.Go(func() { eachTick(ctx, 2*time.Second, func() { l.lookAtJobs(ctx) }) })
	loops.Go(func() { eachTick(ctx, 300*time.Millisecond, func() { l.pulse(ctx) }) })
	loops.Wait()
}

// step does one random thing.
func (l *load) step(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop || l.w.able.has(noAPI) {
		return // an API server that is down takes nothing
	}
	nodes := l.w.loadNodes()
	node := nodes[l.random.IntN(len(nodes))]
	// Failures of these calls are the faults' doing; the next steps and own see to it.
	switch what := l.random.IntN(100); {
	case what < 80:
		l.submit(ctx)
	case what < 90:
		l.deleteRandom(ctx)
	case what < 93:
		if len(l.shut) < 2 && l.w.cordon(ctx, node, true) == nil {
			l.shut[node] = true
			l.w.checker.Note(time.Now(), "cordon "+node)
		}
	case what < 96:
		l.openNodes(ctx)
	case what < 98:
		if len(l.sick) < 3 && l.w.health(ctx, node, l.random.IntN(2)) == nil {
			l.sick[node] = struct{}{}
			l.w.checker.Note(time.Now(), "a device of "+node+" fails")
		}
	default:
		l.healNodes(ctx)
	}
}

// submit adds a unit while there is too little asked for.
func (l *load) submit(ctx context.Context) {
	asked := 0
	for _, u := range l.units {
		asked += u.devices()
	}
	if asked > loadDevices || len(l.units) >= loadUnits {
		return
	}
	kind := l.w.cfg.Load.pick(l.random.IntN)
	if kind == "" {
		return
	}
	l.made++
	u := newUnit(l.random, l.made, kind)
	l.units[u.Name] = u
	l.create(ctx, u, nil)
}

// create makes the unit's pods, but for those that are there; what fails is made later.
func (l *load) create(ctx context.Context, u *unit, there map[string]bool) {
	if u.isJob {
		if u.accepted {
			return
		}
		_, err := l.w.dynamic.Resource(jobs).Namespace(namespaced()).Create(ctx, &unstructured.Unstructured{Object: u.job()}, metav1.CreateOptions{})
		u.accepted = err == nil || apierrors.IsAlreadyExists(err)
		return
	}
	for i := range u.Pods {
		if there[u.podName(i)] {
			continue
		}
		if _, err := l.w.client.CoreV1().Pods(namespaced()).Create(ctx, u.pod(i), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return
		}
	}
}

// own creates pods that are missing and ends units that are over.
func (l *load) own(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w.able.has(noAPI) || l.w.able.has(noWatch) {
		return
	}
	there, over := l.look()
	for _, name := range slices.Sorted(maps.Keys(l.units)) {
		u := l.units[name]
		if u.ending != "" {
			l.delete(ctx, u, u.ending)
			continue
		}
		if u.isJob && isOver(l.phases[name]) || !u.isJob && over[name] == len(u.Pods) {
			l.delete(ctx, u, "over")
			continue
		}
		l.create(ctx, u, there)
	}
}

// look says which pods exist, and how many of each unit have ended.
func (l *load) look() (there map[string]bool, over map[string]int) {
	there, over = map[string]bool{}, map[string]int{}
	for _, p := range l.w.checker.Pods() {
		there[p.Name] = true
		if p.Phase == v1.PodSucceeded || p.Phase == v1.PodFailed {
			over[p.Unit]++
		}
	}
	return there, over
}

func (l *load) deleteRandom(ctx context.Context) {
	names := slices.Sorted(maps.Keys(l.units))
	if len(names) > 0 {
		l.delete(ctx, l.units[names[l.random.IntN(len(names))]], "deleted by its user")
	}
}

// delete takes a unit away, all of it; it stays with the load until that is done.
func (l *load) delete(ctx context.Context, u *unit, why string) {
	u.ending = why
	l.w.checker.UnitEnds(time.Now(), u.Name, "unit "+u.Name+": "+why)
	if u.isJob {
		policy := metav1.DeletePropagationBackground
		err := l.w.dynamic.Resource(jobs).Namespace(namespaced()).Delete(ctx, u.Name, metav1.DeleteOptions{PropagationPolicy: &policy})
		if err == nil || apierrors.IsNotFound(err) {
			delete(l.units, u.Name)
		}
		return
	}
	for i := range u.Pods {
		err := l.w.client.CoreV1().Pods(namespaced()).Delete(ctx, u.podName(i), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return
		}
	}
	delete(l.units, u.Name)
}

func (l *load) openNodes(ctx context.Context) {
	for _, node := range slices.Sorted(maps.Keys(l.shut)) {
		if l.w.cordon(ctx, node, false) == nil {
			delete(l.shut, node)
			l.w.checker.Note(time.Now(), "uncordon "+node)
		}
	}
}

func (l *load) healNodes(ctx context.Context) {
	for _, node := range slices.Sorted(maps.Keys(l.sick)) {
		if l.w.health(ctx, node) == nil {
			delete(l.sick, node)
			l.w.checker.Note(time.Now(), "the devices of "+node+" are healthy")
		}
	}
}

var jobs = batch.SchemeGroupVersion.WithResource("jobs")

// lookAtJobs reads the phases of all Jobs.
func (l *load) lookAtJobs(ctx context.Context) {
	list, err := l.w.dynamic.Resource(jobs).Namespace(namespaced()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.phases)
	for _, j := range list.Items {
		phase, _, _ := unstructured.NestedString(j.Object, "status", "state", "phase") // no phase yet: none
		l.phases[j.GetName()] = batch.JobPhase(phase)
	}
}

func isOver(phase batch.JobPhase) bool {
	switch phase {
	case batch.Completed, batch.Failed, batch.Aborted, batch.Terminated:
		return true
	}
	return false
}

// pulse keeps small pods coming to a node of their own, so that there is always
// something to bind, and deletes those that are over.
func (l *load) pulse(ctx context.Context) {
	if l.w.able.has(noAPI) || l.w.able.has(noWatch) {
		return
	}
	waiting := 0
	for _, p := range l.w.checker.Pods() {
		switch {
		case !p.Pulse:
		case p.Phase == v1.PodSucceeded || p.Phase == v1.PodFailed:
			_ = l.w.client.CoreV1().Pods(namespaced()).Delete(ctx, p.Name, metav1.DeleteOptions{}) // or the next time
		case p.Node == "":
			waiting++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if waiting >= 8 || l.stop {
		return
	}
	l.pulses++
	u := &unit{runtime: 2 * time.Second, profile: "gpu-scheduler"}
	u.Name, u.Minimum, u.Pods = fmt.Sprintf("pulse-%d", l.pulses), 1, []checker.Ask{{Whole: 1}}
	p := u.pod(0)
	p.Labels[checker.LabelPulse] = "true"
	p.Spec.NodeSelector = map[string]string{v1.LabelHostname: pulseNode}
	p.Spec.Tolerations = []v1.Toleration{{Key: "chaos.tangram.dev/pulse", Operator: v1.TolerationOpExists}}
	_, _ = l.w.client.CoreV1().Pods(namespaced()).Create(ctx, p, metav1.CreateOptions{}) // one pulse more or less
}
