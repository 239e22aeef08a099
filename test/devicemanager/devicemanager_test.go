package devicemanager

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
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
			t.Logf("%d calls granted, %d refused, %d records written, %d problems; restarts: kubelet %d, agent %d, both %d; pods failed by restarts %d, refused by kubelet %d, followed their record %d of %d",
				w.n.allocated.Load(), w.n.refused.Load(), w.api.writes, w.n.problems.Load(), w.restarts[0], w.restarts[1], w.restarts[2], w.failed, w.rejected, w.followed, w.recorded)
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
		if err := w.kubelet.stop(); err != nil {
			w.t.Fatal(err)
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
	if what != 0 {
		w.agent = startAgent(w.t, w.api, w.kubelet, w.specs, &w.n)
	}
	w.ready()
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

func (w *world) isTrue(p *v1.Pod) error {
	r := recordOf(p)
	if r == nil {
		return fmt.Errorf("%s has no record", p.Name)
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if slices.ContainsFunc(p.Spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name && !sidecar(&i) }) {
			continue // nobody but the agent that answered knows; what it says must be the pod's
		}
		var have, want []string
		for _, devices := range w.kubelet.manager.GetDevices(string(p.UID), c.Name) {
			for id := range devices {
				have = append(have, strip(id))
			}
		}
		for _, rc := range r.Containers {
			if rc.Name != c.Name {
				continue
			}
			for _, d := range rc.Devices {
				id := d.UUID
				if d.MIG != "" {
					id = fmt.Sprintf("%s::mig-%s@%d", d.UUID, d.MIG, d.Start)
				} else if d.Turn {
					id += "::"
				}
				want = append(want, id)
			}
		}
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			return fmt.Errorf("%s, container %s has %v, its record says %v", p.Name, c.Name, have, want)
		}
	}
	var all []part
	for _, h := range w.held(p) {
		id := h[strings.LastIndex(h, " ")+1:]
		uuid, _, turn := strings.Cut(id, "::")
		x := partOf(uuid, "", 0, turn)
		if i := strings.Index(id, "mig-"); i >= 0 {
			profile, start, _ := strings.Cut(id[i+4:], "@")
			n, _ := strconv.Atoi(start)
			x = partOf(uuid, profile, n, false)
		}
		all = append(all, x)
	}
	for _, x := range recorded(p) {
		if !slices.Contains(all, x) {
			return fmt.Errorf("%s has %v, its record says %v too", p.Name, all, x)
		}
	}
	return nil
}

// strip leaves the number of a turn out: records do not have it.
func strip(id string) string {
	if uuid, rest, ok := strings.Cut(id, "::"); ok && !strings.HasPrefix(rest, "mig-") {
		return uuid + "::"
	}
	return id
}

func sidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// bind makes a random pod with a record on devices that no record names; nil when there
// is no room. Some pods are of a scheduler that writes no records.
func (w *world) bind(hasty bool) *v1.Pod {
	w.serial++
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", w.serial), UID: types.UID(fmt.Sprintf("uid-%d", w.serial)),
			CreationTimestamp: metav1.NewTime(time.Unix(int64(w.serial), 0)), Annotations: map[string]string{}},
		Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "plain"}}},
	}
	if hasty {
		p.Labels = map[string]string{hastily: "true"}
	}
	r := record.Record{Node: node}
	what := []string{gpu, gpu, gpu, shared, small, large}[w.rng.IntN(6)]
	var taken []part
	for _, q := range w.api.podsByUID() {
		taken = append(taken, recorded(q)...)
	}
	add := func(name string, init bool, always bool, from []record.Device, n int) []record.Device {
		var got []record.Device
		if from == nil {
			got = w.pick(what, n, &taken)
		} else {
			got = from[:n]
		}
		if got == nil {
			return nil
		}
		c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceName(what): *resource.NewQuantity(int64(n), resource.DecimalSI)}}}
		if always {
			policy := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &policy
		}
		if init || always {
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		} else {
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		r.Containers = append(r.Containers, record.Container{Name: name, Resource: what, Devices: got})
		return got
	}
	n := 1 + w.rng.IntN(2)
	main := w.pick(what, n, &taken)
	if main == nil {
		return nil
	}
	if w.rng.IntN(5) == 0 {
		add("warmup", true, false, main, 1+w.rng.IntN(n))
	}
	if w.rng.IntN(10) == 0 {
		add("side", false, true, nil, 1)
	}
	add("main", false, false, main, n)
	if w.rng.IntN(5) == 0 {
		add("second", false, false, nil, 1)
	}
	if w.rng.IntN(12) != 0 || what == shared { // no record could name two turns on one GPU
		text, err := record.Encode(r)
		if err != nil {
			w.t.Fatal(err)
		}
		p.Annotations[names.AnnotationDevices] = text
	}
	w.api.create(p)
	w.tell("%s is bound, hasty %v: %s", p.Name, hasty, p.Annotations[names.AnnotationDevices])
	return p
}

// pick chooses devices that no record names.
func (w *world) pick(what string, n int, taken *[]part) []record.Device {
	var all []record.Device
	for _, d := range inventory().Devices {
		for _, start := range []int{0, 1, 2, 3, 4, 5, 6} {
			v := record.Device{Index: d.Index, UUID: d.UUID}
			switch {
			case what == small && d.MIG != nil:
				v.MIG, v.Start = "1g.18gb", start
			case what == large && d.MIG != nil && start%4 == 0:
				v.MIG, v.Start = "3g.71gb", start
			case what == shared && d.MIG == nil && start == 0:
				v.Turn = true
			case what == gpu && d.MIG == nil && start == 0:
			default:
				continue
			}
			all = append(all, v)
		}
	}
	w.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var out []record.Device
	for _, d := range all {
		p := partOf(d.UUID, d.MIG, d.Start, d.Turn)
		turns := 0
		for _, t := range *taken {
			if t.turns && t.gpu == p.gpu {
				turns++
			}
		}
		if len(out) < n && !clash([]part{p}, *taken) && turns < 4 {
			out = append(out, d)
			*taken = append(*taken, p)
		}
	}
	if len(out) < n {
		return nil
	}
	return out
}
