package starts

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
	"github.com/tangram-dev/tangram/lab/sim"
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

// Errors are how far expected starts were off, in seconds: of jobs that had to wait,
// when they came.
type Errors struct {
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

// replay is a Replay under way.
type replay struct {
	*Replay
	timeline *timeline
	asked    []question
	out      Errors
}

// question is what was asked of a job that had to wait.
type question struct {
	gang           engine.ID
	came, expected time.Time
}

// traceBegan is when replayed traces begin.
var traceBegan = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Measure replays a trace on a replica of an empty cluster, which decides as the scheduler
// would, and compares the starts that forecasts give jobs that must wait, at the moment they
// come, with when they then start. tell is called now and then with the part that is done.
func (p *Replay) Measure(ctx context.Context, tell func(part float64)) (*Errors, error) {
	var nodes []*v1.Node
	for i := range p.GPUs / p.GPUsPerNode {
		nodes = append(nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%05d", i)}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			names.ResourceNVIDIA: *resource.NewQuantity(int64(p.GPUsPerNode), resource.DecimalSI), v1.ResourcePods: resource.MustParse("1000")}}})
	}
	line, err := newTimeline(traceBegan, nodes)
	if err != nil {
		return nil, err
	}
	m := &replay{Replay: p, timeline: line, out: Errors{Runtimes: "learned"}}
	if p.Declared {
		m.out.Runtimes = "declared"
	}
	for i := range p.Jobs {
		if p.Jobs[i].GPUs > p.GPUs {
			continue
		}
		if err := line.until(ctx, traceBegan.Add(time.Duration(p.Jobs[i].Submitted))); err != nil {
			return nil, err
		}
		if err := m.submit(ctx, i); err != nil {
			return nil, err
		}
		if i%16 == 0 {
			tell(float64(i) / float64(len(p.Jobs)))
		}
	}
	for more := true; more && slices.ContainsFunc(m.asked, m.waits); {
		if more, err = line.next(ctx); err != nil {
			return nil, err
		}
	}
	return m.sum(), nil
}

// waits says that a job that was asked about has not started.
func (m *replay) waits(q question) bool {
	_, started := m.timeline.started(q.gang)
	return !started
}

// submit creates a job's pods, and asks when they start if they have to wait.
func (m *replay) submit(ctx context.Context, i int) error {
	came := m.timeline.now()
	gang, err := m.timeline.submit(ctx, time.Duration(m.Jobs[i].Duration), m.pods(i)...)
	if err != nil {
		return err
	}
	m.out.Jobs++
	if _, started := m.timeline.started(gang); started {
		return nil
	}
	m.out.Waited++
	if (m.out.Waited-1)%m.Every > 0 || m.out.Asked >= m.Most {
		return nil
	}
	m.out.Asked++
	expected, known, err := m.timeline.forecast(ctx, gang)
	if known {
		m.asked = append(m.asked, question{gang, came, expected})
	} else {
		m.out.Unknown++
	}
	return err
}

// pods are those of a job: as many whole nodes as it fills, and one pod for the rest.
func (m *replay) pods(i int) (out []*v1.Pod) {
	j := &m.Jobs[i]
	for left := j.GPUs; left > 0; left -= m.GPUsPerNode {
		name := fmt.Sprintf("job-%06d-%d", i, len(out))
		p := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "trace", Name: name, UID: types.UID(name), Labels: map[string]string{},
				CreationTimestamp: metav1.NewTime(m.timeline.now().Truncate(time.Second)), Annotations: map[string]string{names.AnnotationUser: j.Queue}},
			Spec: v1.PodSpec{SchedulerName: names.SchedulerName, Priority: &j.Priority, Containers: []v1.Container{{Name: "main", Image: "job", Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{names.ResourceNVIDIA: *resource.NewQuantity(int64(min(left, m.GPUsPerNode)), resource.DecimalSI)}}}}},
		}
		if m.Declared {
			p.Annotations[names.AnnotationRuntime] = time.Duration(j.Duration).String()
		}
		out = append(out, p)
	}
	for _, p := range out {
		if len(out) > 1 {
			p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = fmt.Sprintf("job-%06d", i), fmt.Sprint(len(out))
		}
	}
	return out
}

// sum compares what was expected with what happened.
func (m *replay) sum() *Errors {
	var off, signed, waits, relative []float64
	for _, q := range m.asked {
		began, ok := m.timeline.started(q.gang)
		if !ok {
			continue
		}
		d, wait := q.expected.Sub(began).Seconds(), began.Sub(q.came).Seconds()
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
