package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// doubles notices every device that is in the records of two live bound pods at once. It
// knows nothing of the scheduler but the record format.
type doubles struct {
	mu sync.Mutex
	// holders are the pods that hold a device, keyed by node/index.
	holders map[string]map[string]bool
	// since is when a device got its second holder; seen are all devices that ever had
	// two, with their holders.
	since map[string]time.Time
	seen  map[string]bool
}

func watchDoubles(w *world) *doubles {
	d := &doubles{holders: map[string]map[string]bool{}, since: map[string]time.Time{}, seen: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	w.T.Cleanup(cancel)
	_, err := w.Follow(ctx, d.see)
	w.Must(err)
	return d
}

func (d *doubles) see(before, after *v1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before != nil {
		for _, key := range wholeDevices(before) {
			if delete(d.holders[key], before.Name); len(d.holders[key]) < 2 {
				delete(d.since, key)
			}
		}
	}
	// A pod that is being deleted no longer counts: its devices are being given back.
	if after == nil || after.DeletionTimestamp != nil || !live(after) {
		return
	}
	for _, key := range wholeDevices(after) {
		if d.holders[key] == nil {
			d.holders[key] = map[string]bool{}
		}
		if d.holders[key][after.Name] = true; len(d.holders[key]) > 1 && d.since[key].IsZero() {
			d.since[key] = time.Now()
			d.seen[fmt.Sprint(key, " ", sortedKeys(d.holders[key]))] = true
		}
	}
}

// wholeDevices are the devices a bound pod holds by its record, as node/index.
func wholeDevices(p *v1.Pod) (keys []string) {
	rec, err := record.Decode(p.Annotations[names.AnnotationDevices])
	if err != nil || p.Spec.NodeName == "" {
		return nil
	}
	for _, c := range rec.Containers {
		for _, device := range c.Devices {
			keys = append(keys, fmt.Sprintf("%s/%d", rec.Node, device.Index))
		}
	}
	return keys
}

// open are the devices that have two holders now.
func (d *doubles) open() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return sortedKeys(d.since)
}

// ever are the devices that had two holders at some time, with the holders.
func (d *doubles) ever() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return sortedKeys(d.seen)
}

// TestHoleStoppedLeader: the leader is stopped in the middle of binding, for longer than
// its lease. The standby gives all devices to other pods. When the old leader is resumed,
// it must not write Bindings that it had decided on before: they would give devices out
// twice. A Binding that is already in flight is detected afterwards and healed.
func TestHoleStoppedLeader(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 25, gpu: {model: A100-80GB, count: 8}}]`)
	lead := cluster.Elect(3 * time.Second)
	w.AddPriorityClass("high", 1000, "preemptionPolicy: Never")
	watch := watchDoubles(w)
	const devices, rounds = 200, 3
	leader := w.Scheduler(nil, lead...)
	for round := range rounds {
		probe := fmt.Sprintf("probe-%d", round)
		w.starts(pod(probe, 1))
		w.Delete(probe)
		standby := w.Scheduler(nil, lead...)
		prefix := func(class string) string { return fmt.Sprintf("%s-%d-", class, round) }
		var low, high []*v1.Pod
		for i := range devices {
			low = append(low, pod(fmt.Sprintf("%s%d", prefix("low"), i), 1))
			high = append(high, pod(fmt.Sprintf("%s%d", prefix("high"), i), 1, cluster.Priority("high")))
		}
		var creating sync.WaitGroup
		creating.Go(func() { w.CreateAll(low) })
		w.Eventually("the leader is in the middle of work", func() (bool, string) {
			n := w.boundIn(prefix("low"))
			return n >= 10, fmt.Sprint(n)
		})
		signal(t, leader, syscall.SIGSTOP)
		creating.Wait()
		w.CreateAll(high)
		w.Eventually("the standby has given out everything", func() (bool, string) {
			n := w.boundIn("low-") + w.boundIn("high-")
			return n >= devices, fmt.Sprintf("%d pods are bound", n)
		})
		if open := watch.open(); len(open) > 0 {
			t.Errorf("round %d: given out twice before the old leader runs again: %v", round, open)
		}
		signal(t, leader, syscall.SIGCONT)
		// Bindings that the old leader still holds are written within moments.
		time.Sleep(5 * time.Second)
		w.Eventually("devices with two holders are healed", func() (bool, string) {
			return len(watch.open()) == 0, fmt.Sprint(watch.open())
		})
		for _, p := range w.AllPods() {
			now := int64(0)
			_ = w.Client.CoreV1().Pods(p.Namespace).Delete(context.Background(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		}
		_ = leader.Kill() // the usual end of a leader that lost its lease
		leader = standby
	}
	ever := watch.ever()
	t.Logf("%d devices had two holders in %d resumes: %v", len(ever), rounds, ever)
	// A Binding that had passed the last check when the process was stopped cannot be
	// called back: at most about one per resume, and it was healed above.
	if len(ever) > rounds {
		t.Errorf("%d devices had two holders, %d at most can have been in flight", len(ever), rounds)
	}
}

func signal(t *testing.T, p *local.Serving, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(p.Pid(), s); err != nil {
		t.Fatal(err)
	}
}

// TestHoleDoubleHealed: a device got into the records of two pods, as a leader that lost
// its lease can leave it. The younger pod is evicted, and an event says why; the older
// one stays.
func TestHoleDoubleHealed(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 1, gpu: {model: A100-80GB, count: 1}}]`)
	w.Scheduler(nil)
	w.Create(pod("older", 1))
	w.Placed("older")
	time.Sleep(1100 * time.Millisecond) // the API has the time of binding in whole seconds
	w.Create(pod("younger", 1))
	w.Waits("younger", "too few free GPUs (0 of 1)")
	w.Must(w.Bind("younger", "n-0", map[string]string{names.AnnotationDevices: w.Get("older").Annotations[names.AnnotationDevices]}))
	w.Eventually("the younger pod is evicted", func() (bool, string) {
		p := w.Find("younger")
		return p == nil || p.DeletionTimestamp != nil || !live(p), strings.Join(w.Events("Pod", "younger"), "; ")
	})
	w.Eventually("an event says why", func() (bool, string) {
		seen := strings.Join(w.Events("Pod", "younger"), "; ")
		return strings.Contains(seen, "Evict") && strings.Contains(seen, "older"), seen
	})
	if p := w.Get("older"); p.DeletionTimestamp != nil {
		t.Error("the older pod is evicted")
	}
}
