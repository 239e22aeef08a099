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
			t.Logf("%d calls granted, %d refused, %d records written, %d problems; restarts: kubelet %d, agent %d, both %d; pods failed by restarts %d, refused by kubelet %d, followed their record %d of %d; checkpoints overtaken %d",
				w.n.allocated.Load(), w.n.refused.Load(), w.api.writes, w.n.problems.Load(), w.restarts[0], w.restarts[1], w.restarts[2], w.failed, w.rejected, w.followed, w.recorded, w.kubelet.overtaken.Load())
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
	specs   *specs
	n       counts

	serial    int
	live      []*v1.Pod // admitted
	allocated int64     // containers that were given devices
	started   map[string][]part

	telling                              sync.Mutex
	story                                []string // of the last life
	restarts                             [3]int
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
		kubelet: newKubelet(dir, policy, scope, 2), specs: &specs{made: map[string]device.Allocation{}}, started: map[string][]part{},
	}
	w.api.judge, w.api.tell = noContest, w.tell
	if _, err := w.kubelet.start(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.agent = startAgent(t, w.api, w.kubelet, w.specs, &w.n)
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
	return w
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
		w.agent = startAgent(w.t, w.api, w.kubelet, w.specs, &w.n)
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
	w.api.finish(p)
	w.live = slices.DeleteFunc(w.live, func(q *v1.Pod) bool { return q.UID == p.UID })
	delete(w.started, string(p.UID))
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
		if i >= len(p.Spec.InitContainers) || sidecar(&c) {
			w.started[string(p.UID)] = append(w.started[string(p.UID)], partsOf(a)...)
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
