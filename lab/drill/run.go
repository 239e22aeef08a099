package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Options say what is drilled.
type Options struct {
	Dir, Bin string
	// Fast takes intervals of seconds instead of the documents' 30 s and 60 s: to see that
	// it works, not how long it takes.
	Fast bool
	// Faults are the ones to inject, by name; none for all.
	Faults []string
	// Nodes is how many there are.
	Nodes int
	// Target is the time within which the service must be whole again.
	Target time.Duration
	Say    func(format string, args ...any)
}

// Validate names the option that is wrong.
func (o *Options) Validate() error {
	for _, name := range o.Faults {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("--faults: %q is none of %s", name, strings.Join(Names(), ", "))
		}
	}
	if o.Nodes < 20 || o.Nodes > 1000 {
		return fmt.Errorf("--nodes: %d, want 20 to 1000", o.Nodes) // two may be isolated at once
	}
	if o.Target <= 0 {
		return fmt.Errorf("--target: %s, want more than 0", o.Target)
	}
	return nil
}

const namespace = "default"

// pods is how many pods the service has: as many as fill six nodes, one for each fault of a GPU or node and one to spare.
func (o *Options) pods() int { return 48 }

// watchAlarm is how long a false alarm is watched.
func (o *Options) watchAlarm() time.Duration {
	if o.Fast {
		return 10 * time.Second
	}
	return 3 * time.Minute
}

// The documents' intervals, and agents that show every half minute that they live. The
// defaults of both would find a dead agent after 15 minutes.
const (
	documented = `
evict: {from: Degraded}
agent: {silentFor: 2m}
`
	fast = `
intervals: {node: 1s, device: 2s, scheduler: 5s}
evict: {from: Degraded}
agent: {silentFor: 8s}
recoverAfter: 1s
backoff: {first: 1s, most: 30s}
`
)

func (o *Options) setup() Setup {
	s := Setup{Dir: o.Dir, Bin: o.Bin, Nodes: o.Nodes, Recovery: documented, Lease: 15 * time.Second, Say: o.Say,
		Agent: []string{"--heartbeat-interval=30s", "--hot-for=1m", "--simulated-speed=20", "--quiet-percent=1", "--reset"}}
	if o.Fast {
		s.Recovery, s.Lease = fast, 4*time.Second
		s.Agent = []string{"--heartbeat-interval=2s", "--publish-interval=1s", "--sample-interval=1s", "--hot-for=2s", "--simulated-speed=100", "--quiet-percent=0", "--reset"}
	}
	return s
}

// Run starts a cluster, drills and stops it.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	started := time.Now()
	w, err := Start(ctx, o.setup())
	if err != nil {
		return nil, err
	}
	report, err := drill(ctx, w, &o)
	if report != nil {
		report.WallSeconds = time.Since(started).Seconds()
	}
	return report, errors.Join(err, w.Stop())
}

func drill(ctx context.Context, w *World, o *Options) (*Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { w.FollowAgents(ctx) })
	defer following.Wait()
	defer cancel()
	if err := w.createService(ctx, o); err != nil {
		return nil, err
	}
	report := &Report{Nodes: o.Nodes, GPUs: 8 * o.Nodes, Fast: o.Fast, TargetSeconds: o.Target.Seconds()}
	var together, alone []fault
	for _, f := range faults() {
		switch {
		case len(o.Faults) > 0 && !slices.Contains(o.Faults, f.name):
		case f.together:
			together = append(together, f)
		default:
			alone = append(alone, f)
		}
	}
	places, err := w.places(ctx)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(together))
	var running sync.WaitGroup
	for i, f := range together {
		x := newExercise(ctx, w, o, f, &results[i])
		x.pod = &places[i%len(places)]
		x.node = x.pod.Spec.NodeName
		running.Go(func() { x.run(f) })
	}
	running.Wait()
	report.Results = append(report.Results, results...)
	for _, f := range alone {
		r := Result{}
		newExercise(ctx, w, o, f, &r).run(f)
		report.Results = append(report.Results, r)
	}
	return report, ctx.Err()
}

func newExercise(ctx context.Context, w *World, o *Options, f fault, r *Result) *exercise {
	*r = Result{Fault: f.name, What: f.what}
	limit := max(2*o.Target, 10*time.Minute)
	if o.Fast {
		limit = 90 * time.Second
	}
	return &exercise{ctx: ctx, w: w, o: o, limit: limit, result: r}
}

func (x *exercise) run(f fault) {
	x.o.Say("%s: %s", f.name, f.what)
	s, err := f.steps(x)
	if err == nil {
		err = x.do(s)
	}
	r := x.result
	r.OK = err == nil && r.Restored <= x.o.Target.Seconds()
	switch {
	case err != nil:
		r.Note = err.Error()
	case !r.OK:
		r.Note = fmt.Sprintf("the target is %s", x.o.Target)
	}
	x.o.Say("%s: detected after %.1f s, service whole after %.1f s, back %.1f s after the repair %s", f.name, r.Detected, r.Restored, r.Returned, r.Note)
}

// createService makes a Deployment of one-GPU pods and waits until all run.
func (w *World) createService(ctx context.Context, o *Options) error {
	manifest := fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: service, namespace: %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: service}}
  template:
    metadata: {labels: {app: service}}
    spec:
      schedulerName: gpu-scheduler
      containers: [{name: main, image: pause, resources: {limits: {nvidia.com/gpu: "1"}}}]
`, namespace, o.pods())
	if err := w.ApplyManifests(ctx, []byte(manifest)); err != nil {
		return err
	}
	x := &exercise{ctx: ctx, w: w, o: o, limit: 2 * time.Minute}
	if err := x.await(x.whole(func(*v1.Pod) bool { return true })); err != nil {
		return err
	}
	return x.await(condition{"the agents' pods", func() (bool, error) { return w.agentPod(ctx, Loner) != "", nil }})
}

// service are its pods that are not leaving.
func (w *World) service(ctx context.Context) ([]v1.Pod, error) {
	list, err := w.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=service"})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p v1.Pod) bool { return p.DeletionTimestamp != nil }), nil
}

// places is one pod of each node that has pods of the service, the loner left out.
func (w *World) places(ctx context.Context) ([]v1.Pod, error) {
	pods, err := w.service(ctx)
	if err != nil {
		return nil, err
	}
	var out []v1.Pod
	for _, p := range pods {
		if p.Spec.NodeName != Loner && !slices.ContainsFunc(out, func(q v1.Pod) bool { return q.Spec.NodeName == p.Spec.NodeName }) {
			out = append(out, p)
		}
	}
	if len(out) < 5 {
		return nil, fmt.Errorf("the service is on %d nodes, too few", len(out))
	}
	return out, nil
}
