package devicemanager

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/grant"
)

var (
	seed   = flag.Uint64("seed", 1, "of the random choices")
	volume = flag.Int("allocations", 1000, "how many devices' allocations to make in all")
	noisy  = flag.Bool("kubelet-log", false, "show kubelet's log")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !*noisy {
		klog.LogToStderr(false)
		klog.SetOutput(io.Discard)
	}
	os.Exit(m.Run())
}

// TestVolume lets pods come and go under each policy of Topology Manager, with restarts
// of kubelet, of the agent and of both.
func TestVolume(t *testing.T) {
	policies := []struct{ policy, scope string }{
		{"none", "container"}, {"best-effort", "container"}, {"restricted", "container"}, {"single-numa-node", "pod"},
	}
	for i, p := range policies {
		t.Run(p.policy+"/"+p.scope, func(t *testing.T) {
			w := newWorld(t, p.policy, p.scope, *seed+uint64(i))
			w.until(int64(*volume / len(policies)))
			if p.policy == "none" && w.followed*100 < w.recorded*95 {
				t.Errorf("%d of %d pods were given the devices of their record; kubelet leaves the choice to the agent", w.followed, w.recorded)
			}
			t.Logf("%d calls granted, %d refused, %d records written, %d problems; restarts: kubelet %d, agent %d, both %d, with a lost checkpoint %d; pods failed by restarts %d, refused by kubelet %d, followed their record %d of %d; checkpoints overtaken %d",
				w.n.allocated.Load(), w.n.refused.Load(), w.api.writes, w.n.problems.Load(), w.restarts[0], w.restarts[1], w.restarts[2], w.restarts[3], w.failed, w.rejected, w.followed, w.recorded, w.kubelet.overtaken.Load())
		})
	}
}

// world is one node with its kubelet, agent and API server, and a scheduler that knows
// records only.
type world struct {
	t       *testing.T
	ctx     context.Context
	rng     *rand.Rand
	api     *cluster
	kubelet *kubelet
	agent   *agent
	granter *grant.Granter // of the agent that runs, or ran last
	specs   *specs
	n       counts

	serial    int
	live      []*v1.Pod // admitted
	allocated int64     // containers that were given devices
	// started are the parts of containers that run, lost the records of pods that kubelet
	// has forgotten; by pod UID.
	started map[string][]part
	lost    map[string]string

	telling                              sync.Mutex
	story                                []string // of the last life
	restarts                             [4]int
	failed, rejected, followed, recorded int
}

// tell notes what happened, for a failure's message.
func (w *world) tell(format string, args ...any) {
	w.telling.Lock()
	defer w.telling.Unlock()
	w.story = append(w.story, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (w *world) held(p *v1.Pod) (out []string) {
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for r, devices := range w.kubelet.manager.GetDevices(string(p.UID), c.Name) {
			for id := range devices {
				out = append(out, c.Name+" "+r+" "+id)
			}
		}
	}
	return out
}

func newWorld(t *testing.T, policy, scope string, seed uint64) *world {
	dir, err := os.MkdirTemp("", "dm") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.MkdirAll(dir+"/plugins", 0o755); err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, ctx: t.Context(), rng: rand.New(rand.NewPCG(seed, 1)), api: newCluster(t),
		kubelet: newKubelet(dir, policy, scope, 2), specs: &specs{made: map[string]device.Allocation{}}, started: map[string][]part{}, lost: map[string]string{},
	}
	w.kubelet.deaf = 20 * time.Millisecond
	w.api.judge, w.api.tell = noContest, w.tell
	if _, err := w.kubelet.start(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.startAgent()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("what happened last:\n" + strings.Join(w.story[max(0, len(w.story)-60):], "\n"))
		}
		w.agent.stop()
		if err := w.kubelet.stop(); err != nil {
			t.Error(err)
		}
	})
	w.ready()
	watched := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(watched)
		w.watchLive(done)
	}()
	t.Cleanup(func() { close(done); <-watched })
	return w
}

// watchLive looks whether the agent ever says that a container which runs holds nothing:
// what was made for it would be taken down.
func (w *world) watchLive(done <-chan struct{}) {
	uids := func() map[string]bool {
		w.telling.Lock()
		defer w.telling.Unlock()
		out := map[string]bool{}
		for uid := range w.started {
			out[uid] = true
		}
		return out
	}
	told := map[string]bool{}
	for {
		select {
		case <-done:
			return
		case <-time.After(5 * time.Millisecond):
		}
		w.telling.Lock()
		granter := w.granter
		w.telling.Unlock()
		before := uids()
		live, err := granter.Live(w.ctx)
		if err != nil {
			continue
		}
		for _, a := range live {
			delete(before, a.PodUID)
		}
		after := uids()
		for uid := range before {
			if after[uid] && !told[uid] {
				told[uid] = true
				w.t.Errorf("the agent takes %s for ended, and it runs", uid)
				w.tell("the agent takes %s for ended, and it runs", uid)
			}
		}
	}
}

func (w *world) startAgent() {
	a := startAgent(w.t, w.api, w.kubelet, w.specs, &w.n)
	w.telling.Lock()
	defer w.telling.Unlock()
	w.agent, w.granter = a, a.granter
}

// ready waits until kubelet can give all resources.
func (w *world) ready() {
	w.await("kubelet knows all resources", func() error {
		_, have, _ := w.kubelet.manager.GetCapacity()
		sold := offers(inventory(), func(string) bool { return true })
		if w.kubelet.policy != "none" {
			var err error
			if sold, err = w.agent.book.Withhold(w.ctx, sold); err != nil {
				return err
			}
		}
		for _, o := range sold {
			healthy := 0
			for _, d := range o.Devices {
				if d.Healthy {
					healthy++
				}
			}
			q := have[v1.ResourceName(o.Resource)]
			if int(q.Value()) != healthy {
				return fmt.Errorf("%d of %s, want %d", q.Value(), o.Resource, healthy)
			}
		}
		return nil
	})
}

// await looks until something is so; the time is for a machine that is busy.
func (w *world) await(what string, is func() error) {
	w.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := is()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("waited for: %s: %v", what, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (w *world) until(allocations int64) {
	for w.allocated < allocations {
		switch n := w.rng.IntN(100); {
		case n < 2:
			w.restart(0)
		case n < 4:
			w.restart(1)
		case n < 5:
			w.restart(2)
		case n < 6:
			w.lose()
		case n < 40 || len(w.live) > 7:
			w.end()
		default:
			hasty := w.rng.IntN(5) == 0 // the scheduler decides before records are corrected
			if !hasty {
				w.check()
			}
			w.arrive(1+w.rng.IntN(3), hasty)
		}
		if w.rng.IntN(10) == 0 {
			w.check()
		}
	}
	w.check()
}

// lose lets kubelet forget a pod over a restart, and sometimes restarts the agent, too.
// The pod's record is true by then: it is all that is left.
func (w *world) lose() {
	if len(w.live) == 0 {
		return
	}
	w.check()
	w.restarts[3]++
	p := w.live[w.rng.IntN(len(w.live))]
	w.tell("kubelet loses %s", p.Name)
	for _, q := range w.api.podsByUID() {
		if q.UID == p.UID {
			w.lost[string(p.UID)] = q.Annotations[names.AnnotationDevices]
		}
	}
	both := w.rng.IntN(2) == 0
	if both {
		w.agent.stop()
	}
	w.restartKubelet(p)
	if both {
		w.startAgent()
	}
	w.ready()
}

// restart ends and starts kubelet (0), the agent (1) or both (2).
func (w *world) restart(what int) {
	w.restarts[what]++
	w.tell("restart %d", what)
	if what != 0 {
		w.agent.stop()
	}
	if what != 1 {
		w.restartKubelet()
	}
	if what != 0 {
		w.startAgent()
	}
	w.ready()
}

func (w *world) restartKubelet(forgets ...*v1.Pod) {
	w.t.Helper()
	if err := w.kubelet.stop(); err != nil {
		w.t.Fatal(err)
	}
	for _, p := range forgets {
		if err := w.kubelet.forget(p); err != nil {
			w.t.Fatal(err)
		}
	}
	refused, err := w.kubelet.start(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range refused {
		w.failed++
		w.forget(p)
	}
}

// end takes a random pod away.
func (w *world) end() {
	if len(w.live) > 0 {
		w.forget(w.live[w.rng.IntN(len(w.live))])
	}
}

func (w *world) forget(p *v1.Pod) {
	w.tell("%s ends", p.Name)
	w.kubelet.remove(p)
	w.telling.Lock()
	delete(w.started, string(p.UID))
	delete(w.lost, string(p.UID))
	w.telling.Unlock()
	w.api.finish(p)
	w.live = slices.DeleteFunc(w.live, func(q *v1.Pod) bool { return q.UID == p.UID })
}

// arrive binds some pods, and lets kubelet hear of them in any order.
func (w *world) arrive(n int, hasty bool) {
	var pods []*v1.Pod
	for range n {
		if p := w.bind(hasty); p != nil {
			pods = append(pods, p)
		}
	}
	w.rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	for _, p := range pods {
		if err := w.kubelet.admit(p); err != nil {
			w.rejected++
			w.tell("%s is refused: %v; %s", p.Name, err, p.Annotations[names.AnnotationDevices])
			if *noisy {
				w.t.Logf("%s: %v", p.Name, err)
			}
			w.api.finish(p)
			continue
		}
		w.live = append(w.live, p)
		if p.Annotations[names.AnnotationDevices] != "" {
			w.recorded++
			if w.isTrue(p) == nil {
				w.followed++
			}
		}
		w.tell("%s is admitted: %v; %s", p.Name, w.held(p), p.Annotations[names.AnnotationDevices])
		w.start(p)
	}
}

// start creates a pod's containers, one after the other.
func (w *world) start(p *v1.Pod) {
	for i, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		options, err := w.kubelet.create(w.ctx, p, &c)
		if err != nil {
			w.t.Fatalf("%s, container %s: %v", p.Name, c.Name, err)
		}
		if len(c.Resources.Limits) == 0 {
			continue
		}
		w.allocated++
		if options == nil || len(options.CDIDevices) != 1 {
			w.t.Fatalf("%s, container %s: kubelet passes on %+v", p.Name, c.Name, options)
		}
		a, ok := w.specs.read(options.CDIDevices[0].Name)
		if !ok || a.PodUID != string(p.UID) || a.Container != c.Name {
			w.t.Fatalf("%s, container %s: the specification of %s is of %+v", p.Name, c.Name, options.CDIDevices[0].Name, a)
		}
		w.judgeKubelet(p, &c, a)
		w.judgeTopology(p)
		for uid, other := range w.started {
			if uid != string(p.UID) && clash(other, partsOf(a)) {
				w.t.Fatalf("%s, container %s was started on %v, which pod %s uses: %v", p.Name, c.Name, partsOf(a), uid, other)
			}
		}
		w.api.run(p, c.Name)
		w.await("the agent knows that a container runs", func() error {
			if q := w.agent.pods.Get(p.Namespace, p.Name); q == nil || !slices.ContainsFunc(slices.Concat(q.Status.InitContainerStatuses, q.Status.ContainerStatuses), func(s v1.ContainerStatus) bool { return s.Name == c.Name }) {
				return fmt.Errorf("%s, container %s", p.Name, c.Name)
			}
			return nil
		})
		if i >= len(p.Spec.InitContainers) || sidecar(&c) {
			w.telling.Lock()
			w.started[string(p.UID)] = append(w.started[string(p.UID)], partsOf(a)...)
			w.telling.Unlock()
		}
	}
}

// judgeKubelet compares an allocation with what kubelet gave.
func (w *world) judgeKubelet(p *v1.Pod, c *v1.Container, a device.Allocation) {
	have := 0
	for _, devices := range w.kubelet.manager.GetDevices(string(p.UID), c.Name) {
		for id := range devices {
			have++
			if !slices.ContainsFunc(a.Devices, func(g device.Grant) bool {
				want := g.UUID
				if g.Profile != "" {
					want = fmt.Sprintf("%s::mig-%s@%d", g.UUID, g.Profile, g.Start)
				}
				return id == want || g.Turn && strings.HasPrefix(id, g.UUID+"::")
			}) {
				w.t.Fatalf("%s, container %s has %s from kubelet, and %+v from the agent", p.Name, c.Name, id, a.Devices)
			}
		}
	}
	if have != len(a.Devices) {
		w.t.Fatalf("%s, container %s has %d devices from kubelet, and %+v from the agent", p.Name, c.Name, have, a.Devices)
	}
}

// judgeTopology: under single-numa-node, with the pod as its scope, a pod's devices are
// of one NUMA node. GPUs 0 to 3 are of the first.
func (w *world) judgeTopology(p *v1.Pod) {
	if w.kubelet.policy != "single-numa-node" {
		return
	}
	seen := map[bool]bool{}
	for _, h := range w.held(p) {
		for _, d := range inventory().Devices {
			if strings.Contains(h, d.UUID) {
				seen[d.NUMA == 0] = true
			}
		}
	}
	if len(seen) != 1 {
		w.t.Fatalf("%s has devices of two NUMA nodes: %v", p.Name, w.held(p))
	}
}

// check waits until every record is true, and looks whether any was contested on the way.
func (w *world) check() {
	w.t.Helper()
	w.await("every record is true", func() error {
		for _, p := range w.api.podsByUID() {
			if err := w.isTrue(p); err != nil {
				return err
			}
		}
		return nil
	})
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	if w.api.wrong != nil {
		w.t.Fatal(w.api.wrong)
	}
}

func (c *cluster) podsByUID() []*v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods()
}

func sidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}
