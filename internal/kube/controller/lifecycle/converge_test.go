package lifecycle

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
)

// TestConverges runs random jobs: pods start, end, fail and are evicted, and the
// controller crashes between any two steps of a plan. Invariants hold after every step;
// and once no more faults occur, every job ends and stays ended.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{t: t, job: randomJob(t), pods: map[Slot]*Pod{}, now: noon}
		for range rapid.IntRange(0, 40).Draw(t, "turbulent steps") {
			c.happen()
			c.decide(true)
		}
		for step := 0; ; step++ {
			plan := c.decide(false)
			if Final(c.job.Status.State.Phase) && len(plan.Create)+len(plan.Delete) == 0 && !c.leaving() {
				break
			}
			if step > 400 {
				t.Fatalf("not ended: %s", describe(plan))
			}
			c.progress()
		}
		if again := c.decide(false); !reflect.DeepEqual(again.Status, c.job.Status) {
			t.Fatalf("a job that has ended changes: %+v", again.Status)
		}
	})
}

// cluster simulates the cluster of one job.
type cluster struct {
	t    *rapid.T
	job  *batch.Job
	pods map[Slot]*Pod
	now  time.Time
	made int
}

func randomJob(t *rapid.T) *batch.Job {
	j := &batch.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}
	j.Spec.MaxRetry = rapid.Int32Range(0, 3).Draw(t, "maxRetry")
	var total int32
	for i := range rapid.IntRange(1, 3).Draw(t, "tasks") {
		task := batch.TaskSpec{Name: fmt.Sprintf("t%d", i), Replicas: rapid.Int32Range(1, 3).Draw(t, "replicas"), Policies: randomPolicies(t)}
		if rapid.Bool().Draw(t, "has minimum") {
			n := rapid.Int32Range(0, task.Replicas).Draw(t, "minimum")
			task.MinAvailable = &n
		}
		if i > 0 && rapid.Bool().Draw(t, "depends") {
			task.DependsOn = &batch.DependsOn{Name: []string{fmt.Sprintf("t%d", i-1)}}
		}
		total += task.Replicas
		j.Spec.Tasks = append(j.Spec.Tasks, task)
	}
	j.Spec.MinAvailable = rapid.Int32Range(0, total).Draw(t, "minAvailable")
	if rapid.Bool().Draw(t, "has minSuccess") {
		n := rapid.Int32Range(1, total).Draw(t, "minSuccess")
		j.Spec.MinSuccess = &n
	}
	j.Spec.Policies = randomPolicies(t)
	return j
}

func randomPolicies(t *rapid.T) []batch.LifecyclePolicy {
	events := []bus.Event{bus.AnyEvent, bus.PodFailedEvent, bus.PodEvictedEvent, bus.TaskCompletedEvent, bus.TaskFailedEvent, bus.PodPendingEvent}
	actions := []bus.Action{bus.AbortJobAction, bus.RestartJobAction, bus.RestartTaskAction, bus.RestartPodAction, bus.RestartPartitionAction, bus.TerminateJobAction, bus.CompleteJobAction}
	var out []batch.LifecyclePolicy
	for range rapid.IntRange(0, 2).Draw(t, "policies") {
		p := batch.LifecyclePolicy{Event: rapid.SampledFrom(events).Draw(t, "event"), Action: rapid.SampledFrom(actions).Draw(t, "action")}
		if rapid.Bool().Draw(t, "waits") {
			p.Timeout = &metav1.Duration{Duration: 3 * time.Second}
		}
		out = append(out, p)
	}
	return out
}

// slots are those with a pod, in a fixed order.
func (c *cluster) slots() []Slot {
	return slices.SortedFunc(maps.Keys(c.pods), func(a, b Slot) int {
		if a.Task != b.Task {
			return slices.Compare([]byte(a.Task), []byte(b.Task))
		}
		return int(a.Index - b.Index)
	})
}

// happen changes some pods at random.
func (c *cluster) happen() {
	for _, s := range c.slots() {
		p := c.pods[s]
		switch rapid.SampledFrom([]string{"nothing", "on", "fail", "evict", "vanish"}).Draw(c.t, "fate") {
		case "on":
			c.advance(p)
		case "fail":
			if !p.Ended() {
				p.Phase, p.Since = v1.PodFailed, c.now
			}
		case "evict":
			p.Leaving, p.Since = true, c.now
		case "vanish":
			delete(c.pods, s)
		}
	}
}

// progress lets every pod succeed.
func (c *cluster) progress() {
	for _, s := range c.slots() {
		c.advance(c.pods[s])
	}
}

func (c *cluster) advance(p *Pod) {
	switch {
	case p.Leaving:
		delete(c.pods, p.Slot)
	case p.Phase == v1.PodPending:
		p.Phase, p.Since = v1.PodRunning, c.now
	case p.Phase == v1.PodRunning:
		p.Phase, p.Since = v1.PodSucceeded, c.now
	}
}

func (c *cluster) leaving() bool {
	for _, p := range c.pods {
		if p.Leaving {
			return true
		}
	}
	return false
}

// decide makes one decision, checks it, and carries it out, up to a random step if the
// controller may crash.
func (c *cluster) decide(crashes bool) Plan {
	c.now = c.now.Add(time.Second)
	seen := Observed{}
	for _, s := range c.slots() {
		seen.Pods = append(seen.Pods, *c.pods[s])
	}
	before := c.job.DeepCopy()
	plan := Decide(c.job, seen, c.now)
	if !reflect.DeepEqual(before, c.job) {
		c.t.Fatal("the job was changed in place")
	}
	c.check(plan, len(seen.Pods))
	goesOn := func() bool { return !crashes || rapid.IntRange(0, 9).Draw(c.t, "crash") > 0 }
	if !goesOn() {
		return plan
	}
	c.job.Status = plan.Status
	for _, d := range plan.Delete {
		if !goesOn() {
			return plan
		}
		c.pods[d.Slot].Leaving, c.pods[d.Slot].Since = true, c.now
	}
	for _, s := range plan.Create {
		if !goesOn() {
			return plan
		}
		c.made++
		c.pods[s] = &Pod{Slot: s, Name: s.PodName("j"), UID: types.UID(fmt.Sprint(c.made)), Version: plan.Status.Version, Phase: v1.PodPending, Since: c.now}
	}
	return plan
}

// check verifies the invariants.
func (c *cluster) check(p Plan, pods int) {
	was, is := &c.job.Status, &p.Status
	if is.RetryCount > c.job.Spec.MaxRetry || is.RetryCount < was.RetryCount || is.Version < was.Version {
		c.t.Fatalf("retries %d -> %d of %d, version %d -> %d", was.RetryCount, is.RetryCount, c.job.Spec.MaxRetry, was.Version, is.Version)
	}
	if Final(was.State.Phase) && is.State.Phase != was.State.Phase {
		c.t.Fatalf("%s became %s", was.State.Phase, is.State.Phase)
	}
	if sum := is.Pending + is.Running + is.Succeeded + is.Failed + is.Terminating + is.Unknown; int(sum) != pods {
		c.t.Fatalf("%d pods counted, there are %d", sum, pods)
	}
	for _, s := range p.Create {
		if c.pods[s] != nil {
			c.t.Fatalf("slot %v is filled twice", s)
		}
	}
	if len(p.Create) > 0 && is.State.Phase != batch.Pending && is.State.Phase != batch.Running {
		c.t.Fatalf("pods are made when %s", is.State.Phase)
	}
	if len(is.Conditions) > conditionsKept {
		c.t.Fatalf("%d conditions", len(is.Conditions))
	}
}
