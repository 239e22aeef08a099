package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/node/view"
)

// The driver and its classes.
const (
	draDriver = "gpu.tangram.dev"
	gpuClass  = "gpu.tangram.dev"
	migClass  = "mig.tangram.dev"
)

// cutFleet is eight cards that can be cut, and are not cut yet.
const cutFleet = `pools: [{name: real, count: 1, gpu: {model: H100-80GB, count: 8, numaNodes: 2, mig: true}}]`

// TestClaims: what a ResourceClaim was given is what a real container gets from a real
// kubelet and containerd. The scheduler is Kubernetes' own, so that the driver is tried as
// any cluster would: it allocates, kube-controller-manager makes claims of templates and
// evicts. The agent is the node's device plugin at the same time. One node serves all
// parts, in order; each begins without pods.
func TestClaims(t *testing.T) {
	t.Parallel()
	m := require(t)
	if err := local.RequirePrograms(m.bin, "gpu-agent", "kube-controller-manager", "kube-scheduler"); err != nil {
		t.Skipf("skipped: %v", err)
	}
	cluster := startCluster(t, func(o *local.Options) { o.ControllerManager, o.KubeScheduler = true, true })
	if err := cluster.ApplyManifests(t.Context(), config.AgentDRA()); err != nil {
		t.Fatal(err)
	}
	w := newAgentWorldIn(t, cluster)
	o := agentOptions{fleet: cutFleet, flags: []string{"--dra", "--quiet-percent=0", "--simulated-memory=" + w.Dir("memory")}}
	agent := w.startAgent(o)
	w.AwaitDevices(gpuResource, gpuCount)
	w.awaitSlices("has all devices", nil)
	part := func(name string, f func(*agentWorld)) {
		t.Run(name, func(t *testing.T) { f(w.in(t)) })
	}
	part("a pod gets exactly its cards", getsItsCards)
	part("one card is not given through both doors", secondDoor)
	part("MIG instances on demand, through restarts", func(w *agentWorld) {
		agent = cutsForClaims(w, func(w *agentWorld) *local.Process {
			w.kill(agent)
			return w.startAgent(o)
		})
	})
	part("kubelet restarts", func(w *agentWorld) {
		w.Create(w.claimPod("lasting", w.template("lasting", gpuClass, 2)))
		before := indices(w.checkClaims("lasting")["lasting"])
		w.RestartKubelet() // which deletes the node's slices
		w.awaitSlices("has all devices again", nil)
		w.AwaitDevices(gpuResource, gpuCount)
		w.Create(w.claimPod("later", w.template("later", gpuClass, 1)))
		all := w.checkClaims("lasting", "later")
		w.disjoint(all, 3)
		if now := indices(all["lasting"]); !slices.Equal(now, before) || w.Get("lasting").Status.ContainerStatuses[0].RestartCount != 0 {
			w.t.Errorf("devices %v, before kubelet's restart %v", now, before)
		}
	})
	part("admin access beside the holder of the card", adminAccess)
	part("a device that is gone", deviceGone)
	part("a failed device is tainted, and its pod evicted", failedDevice)
}

// template makes a ResourceClaimTemplate of some devices of a class, and returns its name.
func (w *agentWorld) template(name, class string, count int64, selectors ...string) string {
	w.t.Helper()
	exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
	for _, s := range selectors {
		exactly.Selectors = append(exactly.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: s}})
	}
	_, err := w.client.ResourceV1().ResourceClaimTemplates(metav1.NamespaceDefault).Create(context.Background(), &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpus", Exactly: exactly}}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return name
}

// claimPod is a pod for kube-scheduler whose one container uses a claim of a template. It
// also tries every device of the node.
func (w *agentWorld) claimPod(name, template string) *v1.Pod {
	return w.Pod(name, nil, func(p *v1.Pod) {
		p.Spec.NodeName = ""
		p.Spec.Containers = []v1.Container{Container("main", nil, tryAll()...)}
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: &template}}
		p.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "gpus"}}
	})
}

// given are the devices of a pod's claim.
func (w *agentWorld) given(pod string) (out []string) {
	w.t.Helper()
	for _, s := range w.Get(pod).Status.ResourceClaimStatuses {
		c, err := w.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Get(context.Background(), *s.ResourceClaimName, metav1.GetOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			if r.Pool != w.Name || r.Driver != draDriver {
				w.t.Errorf("%s: allocated %+v", pod, r)
			}
			out = append(out, r.Device)
		}
	}
	return out
}

// checkClaims checks that the containers of running pods see exactly the cards of their
// claims, and may use these and no others; it returns what they saw.
func (w *agentWorld) checkClaims(pods ...string) map[string]*view.View {
	w.t.Helper()
	all := map[string]*view.View{}
	for _, name := range pods {
		seen := w.LookInto(w.AwaitRunning(name), "main")
		var want []int
		for _, device := range w.given(name) {
			var card int
			if _, err := fmt.Sscanf(device, "gpu-%d", &card); err != nil {
				w.t.Fatalf("%s: device %q", name, device)
			}
			want = append(want, card)
		}
		slices.Sort(want)
		if want = slices.Compact(want); !slices.Equal(indices(seen), want) || len(want) == 0 {
			w.t.Errorf("%s sees cards %v, its claim has %v", name, indices(seen), w.given(name))
		}
		w.onlyGiven(name, seen)
		all[name] = seen
	}
	return all
}

// pool is the node's devices, and what is wrong with its slices.
func (w *agentWorld) pool() (map[string]resourceapi.Device, error) {
	list, err := w.client.ResourceV1().ResourceSlices().List(context.Background(), metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + w.Name})
	if err != nil {
		return nil, err
	}
	out := map[string]resourceapi.Device{}
	for _, s := range list.Items {
		if s.Spec.Pool.ResourceSliceCount != int64(len(list.Items)) || s.Spec.Pool.Generation != list.Items[0].Spec.Pool.Generation {
			return nil, fmt.Errorf("%d slices, %s has %+v", len(list.Items), s.Name, s.Spec.Pool)
		}
		for _, d := range s.Spec.Devices {
			out[d.Name] = d
		}
	}
	if want := gpuCount * 26; len(out) != want {
		return nil, fmt.Errorf("%d devices, not %d", len(out), want)
	}
	return out, nil
}

// awaitSlices waits until the pool is complete and as wanted.
func (w *agentWorld) awaitSlices(what string, lacks func(map[string]resourceapi.Device) string) {
	w.t.Helper()
	eventually(w.t, time.Minute, "the pool "+what, func(context.Context) error {
		devices, err := w.pool()
		if err != nil {
			return err
		}
		if lacks == nil {
			return nil
		}
		if missing := lacks(devices); missing != "" {
			return fmt.Errorf("%s", missing)
		}
		return nil
	})
}

// prepared are the files of allocations that the container runtime could give.
func (w *agentWorld) prepared() int {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.CDIDir(), "*.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	return len(files)
}

// awaitUnprepared waits until nothing is left of any claim.
func (w *agentWorld) awaitUnprepared() {
	w.t.Helper()
	eventually(w.t, time.Minute, "all claims are given back", func(context.Context) error {
		journal, err := os.ReadFile(filepath.Join(w.Dir("agent"), "claims.json"))
		if err != nil {
			return err
		}
		if n := w.prepared(); n > 0 || !strings.Contains(string(journal), `"claims": []`) {
			return fmt.Errorf("%d files, %s", n, journal)
		}
		return nil
	})
}

// Several at once; a selector by attribute; two requests of one claim for two containers.
func getsItsCards(w *agentWorld) {
	w.Create(w.claimPod("one", w.template("one", gpuClass, 1)), w.claimPod("three", w.template("three", gpuClass, 3)),
		w.claimPod("chosen", w.template("chosen", gpuClass, 1, `device.attributes["gpu.tangram.dev"].index == 7 && device.capacity["gpu.tangram.dev"].memory.isGreaterThan(quantity("70Gi"))`)))
	all := w.checkClaims("one", "three", "chosen")
	w.disjoint(all, 5)
	if got := indices(all["chosen"]); !slices.Equal(got, []int{7}) {
		w.t.Errorf("the chosen card is %v", got)
	}
	w.Delete("one", "three", "chosen")
	w.awaitUnprepared()
}

// Kubelet's device plugin pods and claims want the same cards: the one that comes second waits,
// or is refused, and is told why.
func secondDoor(w *agentWorld) {
	bound := func(name string, count int64) *v1.Pod {
		return w.Pod(name, gpus(count), func(p *v1.Pod) { p.Spec.Containers[0].Args = tryAll() })
	}
	w.Create(w.claimPod("claimed", w.template("claimed", gpuClass, 1)))
	first := w.checkClaims("claimed")
	// Kubelet takes other cards where it has a choice, and is refused where it has none.
	w.Create(bound("beside", gpuCount-1))
	seen := w.LookInto(w.AwaitRunning("beside"), "main")
	w.disjoint(map[string]*view.View{"claimed": first["claimed"], "beside": seen}, gpuCount)
	w.Create(bound("second", 1))
	if p := w.AwaitFailed("second"); !strings.Contains(p.Status.Message, "another container or claim holds it") {
		w.t.Errorf("the second at the device plugin's door: %s", describe(p))
	}
	// The other way round: the scheduler cannot know, and the claim is not prepared.
	w.Create(w.claimPod("waits", w.template("waits", gpuClass, 1)))
	w.awaitEvent("waits", "pod default/beside, container main holds it")
	if p := w.Get("waits"); p.Status.Phase != v1.PodPending {
		w.t.Errorf("the second at the claims' door: %s", describe(p))
	}
	w.Delete("beside")
	all := w.checkClaims("claimed", "waits")
	w.disjoint(all, 2)
}

// awaitEvent waits until an event of a pod has a text.
func (w *agentWorld) awaitEvent(pod, text string) {
	w.t.Helper()
	eventually(w.t, time.Minute, fmt.Sprintf("an event of %s says %q", pod, text), func(ctx context.Context) error {
		if events := w.events(ctx, pod); !strings.Contains(events, text) {
			return fmt.Errorf("events%s", events)
		}
		return nil
	})
}

// Instances are cut when kubelet prepares the claim, stay while the agent is restarted, and
// are removed after kubelet has given the claim back. Cards that are cut are not given whole.
func cutsForClaims(w *agentWorld, restart func(*agentWorld) *local.Process) *local.Process {
	w.Create(w.claimPod("cut", w.template("cut", migClass, 2, `device.attributes["gpu.tangram.dev"].profile == "1g.10gb"`)))
	rights := func(name string) (out []string) {
		for _, d := range w.LookInto(w.AwaitRunning(name), "main").Given() {
			if strings.HasPrefix(d.Path, "/dev/nvidia-caps/") {
				out = append(out, d.Path)
			}
		}
		return out
	}
	w.checkClaims("cut")
	if n := len(rights("cut")); n != 4 {
		w.t.Errorf("two instances have %d access rights: a GPU instance and a compute instance have one each", n)
	}
	cards := map[string]bool{}
	for _, d := range w.given("cut") {
		cards[strings.SplitN(d, "-mig-", 2)[0]] = true
	}
	agent := restart(w)
	w.AwaitDevices(gpuResource, int64(gpuCount-len(cards))) // what is cut is not sold whole
	w.awaitSlices("is the same", nil)
	// All that is left, whole, and a third instance beside the two.
	w.Create(w.claimPod("rest", w.template("rest", gpuClass, int64(gpuCount-len(cards)))), w.claimPod("third", w.template("third", migClass, 1)))
	all := w.checkClaims("cut", "rest", "third")
	for _, i := range indices(all["rest"]) {
		if cards[fmt.Sprintf("gpu-%d", i)] {
			w.t.Errorf("card %d is cut and whole", i)
		}
	}
	old, mine := rights("cut"), rights("third")
	if len(mine) != 2 || slices.ContainsFunc(mine, func(path string) bool { return slices.Contains(old, path) }) {
		w.t.Errorf("the third instance has %v, the first two %v", mine, old)
	}
	w.Delete("cut", "rest", "third") // prepared by the agent before, given back to this one
	w.awaitUnprepared()
	w.AwaitDevices(gpuResource, gpuCount)
	return agent
}

// A claim with admin access sees a card that another pod has.
func adminAccess(w *agentWorld) {
	w.Create(w.claimPod("owner", w.template("owner", gpuClass, 1)))
	card := indices(w.checkClaims("owner")["owner"])
	namespaces := w.client.CoreV1().Namespaces()
	ns, err := namespaces.Get(context.Background(), metav1.NamespaceDefault, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	ns.Labels["resource.kubernetes.io/admin-access"] = "true"
	if _, err := namespaces.Update(context.Background(), ns, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, 30*time.Second, "admin access is allowed in the namespace", func(context.Context) error {
		return w.allocate("monitor", fmt.Sprintf("gpu-%d", card[0]), true)
	})
	seen := w.LookInto(w.AwaitRunning("monitor"), "main")
	if got := indices(seen); !slices.Equal(got, card) {
		w.t.Errorf("the monitor sees %v, the owner %v", got, card)
	}
	w.onlyGiven("monitor", seen)
	w.Delete("monitor") // which takes nothing from the owner
	if got := indices(w.checkClaims("owner")["owner"]); !slices.Equal(got, card) {
		w.t.Errorf("the owner sees %v, before %v", got, card)
	}
}

// allocate makes a claim and a pod on this node that uses it, and allocates a device to it
// as a scheduler would. Kubernetes' own does not give admin access to a card whose counters
// are used up.
func (w *agentWorld) allocate(name, device string, admin bool) error {
	w.t.Helper()
	claims := w.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault)
	request := &resourceapi.ExactDeviceRequest{DeviceClassName: gpuClass, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
	result := resourceapi.DeviceRequestAllocationResult{Request: "gpus", Driver: draDriver, Pool: w.Name, Device: device}
	if admin {
		request.AdminAccess, result.AdminAccess = &admin, &admin
	}
	claim, err := claims.Create(context.Background(), &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpus", Exactly: request}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pod := w.claimPod(name, "")
	pod.Spec.NodeName = w.Name
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimName: &claim.Name}}
	w.Create(pod)
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: w.Get(name).UID}}
	_, err = claims.UpdateStatus(context.Background(), claim, metav1.UpdateOptions{})
	return err
}

// A claim that names a device which the node does not have says so, on the pod.
func deviceGone(w *agentWorld) {
	if err := w.allocate("stale", "gpu-19", false); err != nil {
		w.t.Fatal(err)
	}
	w.awaitEvent("stale", `ResourceClaim default/stale: status.allocation.devices.results[0].device: "gpu-19" is not on this node any more: it has gpu-0, gpu-1`)
}

// A card fails under a pod: it is tainted with all its parts, the pod is evicted, and the
// next one gets another card. Healed, it can be had again.
func failedDevice(w *agentWorld) {
	pin := `device.attributes["gpu.tangram.dev"].index == 2`
	w.Create(w.claimPod("victim", w.template("victim", gpuClass, 1, pin)))
	w.checkClaims("victim")
	uid := w.Get("victim").UID
	awaitTainted := func(what string, want int) {
		w.awaitSlices(what, func(devices map[string]resourceapi.Device) string {
			n := 0
			for name, d := range devices {
				if len(d.Taints) == 0 {
					continue
				}
				n++
				if !strings.HasPrefix(name, "gpu-2") || d.Taints[0].Key != draDriver+"/health" || d.Taints[0].Effect != resourceapi.DeviceTaintEffectNoExecute {
					w.t.Errorf("%s: %+v", name, d.Taints)
				}
			}
			if n != want {
				return fmt.Sprintf("%d devices are tainted", n)
			}
			return ""
		})
	}
	w.faults("device=2,xid=79,gone")
	awaitTainted("has a failed card", 26)
	eventually(w.t, time.Minute, "the pod is evicted", func(ctx context.Context) error {
		p, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "victim", metav1.GetOptions{})
		if err == nil && p.UID == uid {
			return fmt.Errorf("%s%s", describe(p), w.events(ctx, "victim"))
		}
		return nil
	})
	w.Create(w.claimPod("victim", "victim"))
	w.AwaitPod("victim", "is not scheduled to the failed card", func(p *v1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
				return true
			}
		}
		return false
	})
	w.faults("")
	awaitTainted("is well again", 0)
	w.checkClaims("victim")
}
