package replica

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/sim"
)

// Replay is a trace that is replayed to see how far expected starts are off.
type Replay struct {
	Jobs              []sim.TimedJob
	GPUs, GPUsPerNode int
	// Declared: pods say how long they run; else that is learned from those before.
	Declared bool
	// Every is of how many jobs that wait one is asked about, Most how many at most.
	Every, Most int
}

// StartErrors are how far expected starts were off, in seconds: of jobs that had to wait,
// when they came.
type StartErrors struct {
	Jobs     int    `json:"jobs"`
	Waited   int    `json:"waited"`
	Asked    int    `json:"asked"`
	Unknown  int    `json:"unknown"` // no start was given
	Runtimes string `json:"runtimes"`
	// Median and P90 are of the absolute error, Signed is the median of expected minus real:
	// below 0 starts were expected too early. Wait is the median wait of those asked about,
	// Relative the median of error by wait.
	Median   float64 `json:"medianSeconds"`
	P90      float64 `json:"p90Seconds"`
	Signed   float64 `json:"signedSeconds"`
	Wait     float64 `json:"waitSeconds"`
	Relative float64 `json:"relative"`
}

// replayed is a replay under way.
type replayed struct {
	*Replay
	run     *run
	lasts   map[engine.ID]time.Duration
	came    map[engine.ID]time.Time
	expects map[engine.ID]time.Time
	waiting int
	out     StartErrors
}

// traceBegan is when replayed traces begin.
var traceBegan = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Measure replays a trace on a replica of an empty cluster, which decides as the scheduler
// would, and compares the starts that forecasts give jobs that must wait, at the moment they
// come, with when they then start. tell is called now and then with the part that is done.
func (p *Replay) Measure(ctx context.Context, tell func(part float64)) (*StartErrors, error) {
	s := kubeengine.NewSnapshot(traceBegan, names.SchedulerName)
	for i := range p.GPUs / p.GPUsPerNode {
		s.Nodes = append(s.Nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%05d", i)}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			names.ResourceNVIDIA: *resource.NewQuantity(int64(p.GPUsPerNode), resource.DecimalSI), v1.ResourcePods: resource.MustParse("1000")}}})
	}
	x, err := newRun(s, Limits{Steps: math.MaxInt, Horizon: math.MaxInt64})
	if err != nil {
		return nil, err
	}
	m := &replayed{Replay: p, run: x, lasts: map[engine.ID]time.Duration{}, came: map[engine.ID]time.Time{}, expects: map[engine.ID]time.Time{}}
	x.lasts = func(id engine.ID) (time.Duration, bool) { d, ok := m.lasts[id]; return d, ok }
	m.out.Runtimes = "learned"
	if p.Declared {
		m.out.Runtimes = "declared"
	}
	for i := range p.Jobs {
		if p.Jobs[i].GPUs > p.GPUs {
			continue
		}
		if err := m.until(ctx, traceBegan.Add(time.Duration(p.Jobs[i].Submitted))); err != nil {
			return nil, err
		}
		if err := m.submit(ctx, i); err != nil {
			return nil, err
		}
		if i%16 == 0 {
			tell(float64(i) / float64(len(p.Jobs)))
		}
	}
	for len(m.expects) > 0 && slices.ContainsFunc(ids(m.expects), func(id engine.ID) bool { _, ok := x.starts[id]; return !ok }) {
		if why := x.pass(); why != stopDone {
			break
		}
		if _, err := x.settle(ctx); err != nil || ctx.Err() != nil {
			return nil, cmpErr(err, ctx.Err())
		}
	}
	return m.sum(), nil
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func ids(m map[engine.ID]time.Time) (out []engine.ID) {
	for id := range m {
		out = append(out, id)
	}
	return out
}

// until lets happen what happens before a time.
func (m *replayed) until(ctx context.Context, at time.Time) error {
	for m.run.events.Len() > 0 && !m.run.events[0].at.After(at) {
		m.run.pass()
		if _, err := m.run.settle(ctx); err != nil || ctx.Err() != nil {
			return cmpErr(err, ctx.Err())
		}
	}
	m.run.Advance(at)
	return nil
}

// submit creates a job's pods, and asks when they start if they have to wait.
func (m *replayed) submit(ctx context.Context, i int) error {
	j := &m.Jobs[i]
	full, rest := j.GPUs/m.GPUsPerNode, j.GPUs%m.GPUsPerNode
	var sizes []int
	for range full {
		sizes = append(sizes, m.GPUsPerNode)
	}
	if rest > 0 {
		sizes = append(sizes, rest)
	}
	var first *v1.Pod
	for n, gpus := range sizes {
		p := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "trace", Name: fmt.Sprintf("job-%06d-%d", i, n), UID: types.UID(fmt.Sprintf("job-%06d-%d", i, n)),
				CreationTimestamp: metav1.NewTime(m.run.Now().Truncate(time.Second)), Labels: map[string]string{}, Annotations: map[string]string{names.AnnotationUser: j.Queue}},
			Spec: v1.PodSpec{SchedulerName: names.SchedulerName, Priority: &j.Priority, Containers: []v1.Container{{Name: "main", Image: "job", Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(int64(gpus), resource.DecimalSI)}}}}},
		}
		if len(sizes) > 1 {
			p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = fmt.Sprintf("job-%06d", i), fmt.Sprint(len(sizes))
		}
		if m.Declared {
			p.Annotations[names.AnnotationRuntime] = time.Duration(j.Duration).String()
		}
		if first == nil {
			first = p
		}
		if err := m.run.SetPod(p); err != nil {
			return err
		}
	}
	id := engine.ID("pod/" + string(first.UID))
	if len(sizes) > 1 {
		id = engine.ID("label/trace/" + first.Labels[names.LabelGang])
	}
	m.lasts[id], m.came[id] = time.Duration(j.Duration), m.run.Now()
	if _, err := m.run.settle(ctx); err != nil {
		return err
	}
	m.out.Jobs++
	if _, started := m.run.starts[id]; started {
		return nil
	}
	m.out.Waited++
	if m.waiting++; (m.waiting-1)%m.Every > 0 || m.out.Asked >= m.Most {
		return nil
	}
	return m.ask(ctx, id)
}

// ask forecasts the start of a job that has just come.
func (m *replayed) ask(ctx context.Context, id engine.ID) error {
	s, err := m.run.Snapshot()
	if err != nil {
		return err
	}
	x, err := newRun(s, DefaultLimits())
	if err != nil {
		return err
	}
	m.out.Asked++
	if _, err := x.forward(ctx, func() bool { _, ok := x.starts[id]; return ok }); err != nil {
		return err
	}
	if at, ok := x.starts[id]; ok {
		m.expects[id] = at
	} else {
		m.out.Unknown++
	}
	return ctx.Err()
}

// sum is what came of it.
func (m *replayed) sum() *StartErrors {
	var off, signed, waits, relative []float64
	for id, expected := range m.expects {
		began, ok := m.run.starts[id]
		if !ok {
			continue
		}
		d, wait := expected.Sub(began).Seconds(), began.Sub(m.came[id]).Seconds()
		off, signed, waits = append(off, math.Abs(d)), append(signed, d), append(waits, wait)
		relative = append(relative, math.Abs(d)/max(1, wait))
	}
	m.out.Median, m.out.P90, m.out.Signed = quantile(off, 0.5), quantile(off, 0.9), quantile(signed, 0.5)
	m.out.Wait, m.out.Relative = quantile(waits, 0.5), quantile(relative, 0.5)
	return &m.out
}

func quantile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[min(len(list)-1, int(q*float64(len(list))))]
}
