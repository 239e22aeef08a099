package replica

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// Limits bound a simulation.
type Limits struct {
	// Steps is how many decisions are made at most, Horizon how far time goes.
	Steps   int
	Horizon time.Duration
}

// DefaultLimits are a question's.
func DefaultLimits() Limits { return Limits{Steps: 2000, Horizon: 30 * 24 * time.Hour} }

// Stop is why a simulation stopped.
type Stop string

// Reasons to stop.
const (
	StopDone    Stop = ""        // what was waited for has happened
	StopQuiet   Stop = "quiet"   // nothing is expected to end any more
	StopSteps   Stop = "steps"   // Limits.Steps
	StopHorizon Stop = "horizon" // Limits.Horizon
	StopContext Stop = "context" // the question was cancelled
)

// Run is a replica that is stepped through time: gangs end when they are expected to,
// victims go when their grace period ends and are created anew by their controllers.
type Run struct {
	*Replica
	limits Limits
	began  time.Time
	steps  int
	events events
	// lateTick is the last step that was asked for though nothing may happen then.
	lateTick time.Time
	serial   int
	// ends are the running gangs whose end is on the way, with the event's number; Lasts, when
	// not nil, says how long a gang really runs (a trace knows).
	ends  map[engine.ID]int
	Lasts func(engine.ID) (time.Duration, bool)
	// usual is how long gangs run of which nothing is known, 0 when that is not known either;
	// guessed counts ends that were expected by it.
	usual   time.Duration
	guessed int
	// Starts is when gangs got their first place here, places where pods did.
	Starts map[engine.ID]time.Time
	places map[types.UID]Started
	// evicted are victims, by the name of the gang that they go for.
	evicted map[string][]kubeengine.Victim
	// ended counts gangs that ended, lastEnd when the last did.
	ended   int
	lastEnd time.Time
}

// NewRun begins a simulation at the time of a snapshot.
func NewRun(s *kubeengine.Snapshot, l Limits) (*Run, error) {
	r, err := NewReplica(s)
	if err != nil {
		return nil, err
	}
	x := &Run{
		Replica: r, limits: l, began: r.Now(), ends: map[engine.ID]int{}, Starts: map[engine.ID]time.Time{},
		places: map[types.UID]Started{}, evicted: map[string][]kubeengine.Victim{}, usual: usualOf(s.Learned.Runtimes),
	}
	for _, p := range r.Leaving() { // pods that were told to go before
		x.push(event{at: p.DeletionTimestamp.Time, gone: p})
	}
	return x, nil
}

// event is something that happens at a time: a gang ends, a pod is gone, or nothing but a
// step.
type event struct {
	at     time.Time
	serial int
	gang   engine.ID
	gone   *v1.Pod
}

// events is a heap, soonest first.
type events []event

// Len, Less, Swap, Push and Pop are for container/heap.
func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(e[i].at.Compare(e[j].at), cmp.Compare(e[i].serial, e[j].serial)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// push expects an event. What should have happened already happens now: a pod may be stuck
// beyond its deletion, a gang may run for longer than was expected.
func (x *Run) push(e event) {
	if now := x.Now(); e.at.Before(now) {
		e.at = now
	}
	x.serial++
	e.serial = x.serial
	heap.Push(&x.events, e)
}

// Settle lets the engine decide until it has nothing more to say now.
func (x *Run) Settle(ctx context.Context) (Stop, error) {
	for again := true; again; {
		switch {
		case ctx.Err() != nil:
			return StopContext, nil
		case x.steps >= x.limits.Steps:
			return StopSteps, nil
		}
		x.steps++
		m, err := x.Step()
		if err != nil {
			return StopDone, err
		}
		for _, s := range m.Started {
			x.places[s.Pod.UID] = s
			if _, known := x.Starts[s.Gang]; !known {
				x.Starts[s.Gang] = x.Now()
			}
		}
		for _, v := range m.Evict {
			at, err := x.Evict(v.Pod)
			if err != nil {
				return StopDone, err
			}
			x.evicted[v.For] = append(x.evicted[v.For], v)
			x.push(event{at: at, gone: v.Pod})
			delete(x.ends, x.GangOf(v.Pod)) // if it runs again, it ends later
		}
		again = m.More || len(m.Started)+len(m.Evict) > 0
	}
	x.expectEnds()
	return StopDone, nil
}

// expectEnds takes note of the ends of gangs that run. An end stays as it was first
// expected.
func (x *Run) expectEnds() {
	for _, e := range x.Endings() {
		if x.ends[e.Gang] > 0 {
			continue
		}
		at := time.Unix(0, e.At)
		if x.Lasts != nil {
			if d, known := x.Lasts(e.Gang); known {
				if began, here := x.Starts[e.Gang]; here {
					at, e.At = began.Add(d), 1
				}
			}
		}
		if e.At == 0 {
			if at = x.guess(&e); at.IsZero() {
				continue // not known
			}
			x.guessed++
		}
		x.push(event{at: at, gang: e.Gang})
		x.ends[e.Gang] = x.serial
	}
}

// guess is when a gang is taken to end of which nothing is known: after what is usual here,
// or once more after as long as it has run already. Services have no end.
func (x *Run) guess(e *coreanswer.Ending) time.Time {
	pods := x.GangPods(e.Gang)
	if x.usual == 0 || len(pods) == 0 {
		return time.Time{}
	}
	for _, p := range pods {
		if owner := metav1.GetControllerOf(p); owner != nil && slices.Contains([]string{"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"}, owner.Kind) {
			return time.Time{}
		}
	}
	since := time.Unix(0, e.Since)
	return since.Add(max(x.usual, 2*x.Now().Sub(since)))
}

// leastLearned is from how many learned runtimes on it is known what is usual.
const leastLearned = 5

// usualOf is the median of the runtimes that were learned, each counted as often as it was
// seen; 0 when too few were.
func usualOf(learned []arbiter.SavedRuntime) time.Duration {
	if len(learned) < leastLearned {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(learned), func(a, b arbiter.SavedRuntime) int { return cmp.Compare(a.Mean, b.Mean) })
	runs := int64(0)
	for _, r := range sorted {
		runs += r.Runs
	}
	for _, r := range sorted {
		if runs -= 2 * r.Runs; runs <= 0 {
			return r.Mean
		}
	}
	return 0
}

// Ticks of a simulation: the engine decides every few seconds though nothing happens, and
// waits before it reclaims. Beyond the first minute only what an event leads to is looked
// at, so that hours cost little.
const (
	tick       = 5 * time.Second
	firstTicks = 12
	lateTick   = 25 * time.Second // longer than it takes until a queue may reclaim
)

// Forward lets time pass until done says so.
func (x *Run) Forward(ctx context.Context, done func() bool) (Stop, error) {
	for i := range firstTicks {
		x.push(event{at: x.Now().Add(time.Duration(i+1) * tick)})
	}
	for {
		if why, err := x.Settle(ctx); err != nil || why != StopDone {
			return why, err
		}
		if done() {
			return StopDone, nil
		}
		if why := x.Pass(); why != StopDone {
			return why, nil
		}
	}
}

// Next is when the next event happens; false when none is expected.
func (x *Run) Next() (at time.Time, ok bool) {
	if x.events.Len() == 0 {
		return at, false
	}
	return x.events[0].at, true
}

// Pass moves to the next moment at which something happens, and lets it happen.
func (x *Run) Pass() Stop {
	if x.events.Len() == 0 {
		return StopQuiet
	}
	at := x.events[0].at
	if at.Before(x.Now()) { // a pod whose grace period is over and that is still there
		at = x.Now()
	}
	if wake := x.Wake(); !wake.IsZero() && wake.After(x.Now()) && wake.Before(at) {
		at = wake
	}
	if at.Sub(x.began) > x.limits.Horizon {
		return StopHorizon
	}
	happened := false
	until := at
	if x.Lasts == nil { // a trace is replayed as it was
		// Events are taken together that lie closer than the hundredth part of how far ahead
		// they are, so that a forecast of hours costs little more than one of minutes.
		until = at.Add(max(0, at.Sub(x.began)/100))
	}
	x.Advance(at)
	for x.events.Len() > 0 && !x.events[0].at.After(until) {
		e := heap.Pop(&x.events).(event)
		x.Advance(e.at)
		switch {
		case e.gone != nil:
			x.goes(e.gone)
			happened = true
		case e.gang != "" && x.ends[e.gang] == e.serial:
			x.finish(e.gang)
			happened = true
		}
	}
	if happened && x.Now().Sub(x.began) > firstTicks*tick && !x.lateTick.After(x.Now()) {
		x.lateTick = x.Now().Add(lateTick)
		x.push(event{at: x.lateTick})
	}
	return StopDone
}

// finish ends a gang: its pods succeed.
func (x *Run) finish(id engine.ID) {
	delete(x.ends, id)
	for _, p := range x.GangPods(id) {
		x.RemovePod(p)
	}
	x.ended++
	x.lastEnd = x.Now()
}

// goes takes a victim away, and creates it anew if it has a controller.
func (x *Run) goes(p *v1.Pod) {
	latest := x.Pod(p.Namespace, p.Name)
	if latest == nil || latest.UID != p.UID {
		return
	}
	x.RemovePod(latest)
	if metav1.GetControllerOf(latest) == nil {
		return
	}
	again := latest.DeepCopy()
	x.serial++
	again.UID = types.UID(fmt.Sprintf("%s+%d", latest.UID, x.serial))
	again.Name = fmt.Sprintf("%s+%d", latest.Name, x.serial)
	again.Spec.NodeName, again.DeletionTimestamp, again.Status = "", nil, v1.PodStatus{Phase: v1.PodPending}
	again.CreationTimestamp = metav1.NewTime(x.Now().Truncate(time.Second))
	for _, key := range []string{names.AnnotationDevices, names.AnnotationCharged, names.AnnotationClaims} {
		delete(again.Annotations, key)
	}
	_ = x.SetPod(again) // a pod has a key
}

// unknownEnds counts gangs that run and whose end is not known, nor guessed.
func (x *Run) unknownEnds() (n int) {
	for _, e := range x.Endings() {
		if e.At == 0 && x.guess(&e).IsZero() {
			n++
		}
	}
	return n
}

// guesses says, as a part of a sentence, how many runtimes were guessed; empty when none.
func (x *Run) guesses() string {
	if x.guessed == 0 {
		return ""
	}
	return fmt.Sprintf("; the runtime of %s is not known and was taken as %s, as is usual here", count(x.guessed, "gang"), x.usual.Round(time.Second))
}
