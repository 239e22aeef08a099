package state

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/state"
)

// shares is a run of two queues of equal weight on 16 GPUs. For the first seconds pods of
// queue a hold all of them while pods of b wait; then both have pods of one GPU that run
// for some seconds. b is owed what it missed, and gets it back one pod at a time.
type shares struct {
	*world
	mu   sync.Mutex
	made int
	held map[string]held
	used map[string]float64 // GPU-seconds
	over bool
}

type held struct {
	queue string
	since time.Time
}

const (
	gpus     = 16
	alone    = 8 * time.Second  // how long a has everything
	downtime = 20 * time.Second // when the scheduler is killed
	whole    = 70 * time.Second // the run
	podRuns  = 2 * time.Second  // one to two of it
)

// see plays owners and kubelets, as the API server tells of pods.
func (s *shares) see(p *v1.Pod, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := p.Labels[names.LabelQueue]
	h, holds := s.held[p.Name]
	switch {
	case gone && holds:
		delete(s.held, p.Name)
		s.used[h.queue] += time.Since(h.since).Seconds()
	case !gone && !holds && p.Spec.NodeName != "":
		s.held[p.Name] = held{queue, time.Now()}
		runs := podRuns + rand.N(podRuns)
		if p.Annotations["runs"] == "long" {
			runs = alone
		}
		time.AfterFunc(runs, func() { s.end(p.Name, queue) })
	}
}

// end deletes a pod, and another one takes its place in the queue.
func (s *shares) end(name, queue string) {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if over {
		return
	}
	_ = s.delete(name) // the end of the test may be before it
	s.another(queue, "")
}

func (s *shares) another(queue, runs string) {
	s.mu.Lock()
	s.made++
	p := pod(fmt.Sprintf("%s-%d", queue, s.made), queue, 1)
	s.mu.Unlock()
	p.Annotations = map[string]string{"runs": runs, names.AnnotationPreemptible: "false"}
	s.create(p)
}

// share lets the run go on, with what happens to the scheduler in the middle of it, and
// returns what part of all GPU-seconds queue b has used.
func share(t *testing.T, restart func(s *shares, kill func(), start func())) float64 {
	s := &shares{world: newWorld(t, `[{name: n, count: 2, gpu: {model: A100-80GB, count: 8}}]`), held: map[string]held{}, used: map[string]float64{}}
	for _, q := range []string{"a", "b"} {
		s.apply(fmt.Sprintf("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: %s}, spec: {weight: 1}}", q))
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	factory := informers.NewSharedInformerFactory(s.Client, 0)
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { s.see(o.(*v1.Pod), false) },
		UpdateFunc: func(_, o any) { s.see(o.(*v1.Pod), false) },
		DeleteFunc: func(o any) {
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			s.see(o.(*v1.Pod), true)
		},
	}); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	configuration := arguments("state: {every: 1s}")
	process := s.scheduler(configuration)
	for range gpus {
		s.another("a", "long")
	}
	s.eventually("a has everything", 30*time.Second, func() (bool, string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.held) == gpus, fmt.Sprint(s.held)
	})
	begin := time.Now()
	for range gpus + 4 {
		s.another("a", "")
		s.another("b", "")
	}
	time.Sleep(time.Until(begin.Add(downtime)))
	restart(s, func() {
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
	}, func() { process = s.scheduler(configuration) })
	time.Sleep(time.Until(begin.Add(whole)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, h := range s.held {
		s.used[h.queue] += time.Since(h.since).Seconds()
	}
	b := s.used["b"] / (s.used["a"] + s.used["b"])
	t.Logf("queue b has %.4f of %.0f GPU-seconds", b, s.used["a"]+s.used["b"])
	return b
}

// TestRestartKeepsShares: a scheduler is killed in the middle of a run in which one queue
// is owed what it missed, and started anew. Over the whole run the queue has its half,
// as it does without the restart; without the state it does not. A balance is paid back as
// far as ten seconds of one pod, which is the grain of what a run of a minute can show.
func TestRestartKeepsShares(t *testing.T) {
	const grain = 10.0 / (gpus * float64(whole/time.Second))
	owed := func(s *shares) {
		s.saved("what b is owed", func(x *state.State) bool {
			for _, q := range x.Learned.Queues.Queues {
				if q.Queue == "b" && q.Owed["gpu/nvidia"] > 0 {
					return true
				}
			}
			return false
		})
	}
	var group sync.WaitGroup
	var plain, kept, lost float64
	for _, c := range []struct {
		name    string
		result  *float64
		restart func(s *shares, kill, start func())
	}{
		{"without a restart", &plain, func(*shares, func(), func()) {}},
		{"with a restart", &kept, func(s *shares, kill, start func()) {
			owed(s)
			kill()
			start()
		}},
		{"with a restart that forgets", &lost, func(s *shares, kill, start func()) {
			owed(s)
			kill()
			s.setState("")
			start()
		}},
	} {
		group.Go(func() { t.Run(c.name, func(t *testing.T) { *c.result = share(t, c.restart) }) })
	}
	group.Wait()
	if t.Failed() {
		return
	}
	for name, b := range map[string]float64{"without a restart": plain, "with a restart": kept} {
		if off := max(b-0.5, 0.5-b); off > 0.02*0.5+grain {
			t.Errorf("%s b has %.4f, more than 2 %% from a half", name, b)
		}
	}
	if off := 0.5 - lost; off <= 0.02*0.5+grain {
		t.Errorf("with a restart that forgets b has %.4f: this test shows nothing", lost)
	}
	if off := max(plain-kept, kept-plain); off > 0.02 {
		t.Errorf("the restart changes b's share from %.4f to %.4f", plain, kept)
	}
}
