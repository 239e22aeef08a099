package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/lab/local"
)

// TestAgent: what the scheduler decided is what a real container gets from a real
// kubelet and containerd, whatever is restarted, broken or changed meanwhile. One node
// serves all parts, in order; each begins without pods.
func TestAgent(t *testing.T) {
	t.Parallel()
	w := newAgentWorld(t)
	agent := w.startAgent(agentOptions{})
	w.AwaitDevices(gpuResource, gpuCount)
	part := func(name string, f func(*agentWorld)) {
		t.Run(name, func(t *testing.T) { f(w.in(t)) })
	}

	part("containers get what their records say", func(w *agentWorld) {
		w.awaitGPUNode("has the inventory", func(n *v1alpha1.GPUNode) string {
			if len(n.Spec.Devices) != gpuCount {
				return fmt.Sprintf("%d devices", len(n.Spec.Devices))
			}
			return ""
		})
		// At once, so that kubelet has a choice and several pods to confuse.
		w.Create(w.gpuPod("one", gpus(1)), w.gpuPod("two", gpus(1), gpus(2)), w.gpuPod("four", gpus(4)))
		w.disjoint(w.checkTrue("one", "two", "four"), gpuCount)
	})

	part("a container's own environment does not widen what it gets", func(w *agentWorld) {
		pod := w.gpuPod("greedy", gpus(1))
		pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}}
		w.Create(pod)
		w.disjoint(w.checkTrue("greedy"), 1)
	})

	part("an annotation does not open another pod's allocation", stealsNothing)
	part("a record that kubelet did not follow is corrected", correctsRecords)
	part("restarts", func(w *agentWorld) { agent = survivesRestarts(w, agent) })
	part("a sick device is not given, and is again when it is well", func(w *agentWorld) {
		w.stop(agent)
		agent = w.startAgent(agentOptions{flags: []string{"--quiet-percent=0"}})
		sickDevice(w)
	})
	part("an upgrade", func(w *agentWorld) { agent = upgrades(w, agent) })
	part("Topology Manager", alignsDevices)
	part("turns", func(w *agentWorld) {
		w.stop(agent)
		agent = w.startAgent(agentOptions{config: turnsConfig})
		givesTurns(w)
	})
	part("shares by amount", func(w *agentWorld) {
		w.stop(agent)
		agent = w.startAgent(agentOptions{flags: w.limiter()})
		givesShares(w)
	})
	part("MIG instances on demand", func(w *agentWorld) {
		w.stop(agent)
		agent = w.startAgent(agentOptions{fleet: migFleet, config: migConfig})
		cutsInstances(w)
	})
}

// The name of an allocation can be guessed: it is a hash of what podresources shows. A
// tenant who writes it into an annotation for CDI gets nothing: the runtime reads only
// what kubelet says of a container.
func stealsNothing(w *agentWorld) {
	w.Create(w.gpuPod("owner", gpus(1)))
	w.checkTrue("owner")
	files, err := filepath.Glob(filepath.Join(w.CDIDir(), "*.json"))
	if err != nil || len(files) == 0 {
		w.t.Fatalf("no CDI files: %v, %v", files, err)
	}
	thief := w.gpuPod("thief", nil)
	thief.Annotations = map[string]string{}
	for i, file := range files {
		_, id, ok := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".json"), "_")
		if !ok {
			w.t.Fatalf("%s does not name an allocation", file)
		}
		thief.Annotations[fmt.Sprintf("cdi.k8s.io/steal_%d", i)] = "tangram.dev/allocation=" + id
	}
	w.Create(thief)
	if given := w.LookInto(w.AwaitRunning("thief"), "main").Given(); len(given) > 0 {
		w.t.Errorf("annotations %v opened %+v", thief.Annotations, given)
	}
}

// A pod that was bound by hand, with a record that names a device that another pod
// has: kubelet cannot follow it, and the record is to say what the container really got.
// A pod without any record gets one.
func correctsRecords(w *agentWorld) {
	// Also bound by hand: of Tangram's own pods the scheduler ends those whose record is
	// contested.
	byHand := func(name string, count int64, change ...func(*v1.Pod)) *v1.Pod {
		return w.Pod(name, gpus(count), append(change, func(p *v1.Pod) { p.Spec.Containers[0].Args = tryAll() })...)
	}
	w.Create(byHand("holder", 1))
	w.AwaitPod("holder", "has a record", func(p *v1.Pod) bool { return p.Annotations[names.AnnotationDevices] != "" })
	w.checkTrue("holder")
	taken := w.recorded("holder", "main")[0]
	lie, err := record.Encode(record.Record{Node: w.Name, Containers: []record.Container{{Name: "main", Resource: gpuResource, Devices: []record.Device{taken}}}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Create(byHand("wrong", 1, func(p *v1.Pod) { p.Annotations[names.AnnotationDevices] = lie }), byHand("without", 2))
	w.AwaitPod("without", "has a record", func(p *v1.Pod) bool { return p.Annotations[names.AnnotationDevices] != "" })
	w.disjoint(w.checkTrue("holder", "wrong", "without"), 4)
	// The scheduler believes the corrected records: what it places next fits beside.
	w.Create(w.gpuPod("rest", gpus(4)))
	w.disjoint(w.checkTrue("holder", "wrong", "without", "rest"), gpuCount)
}

// Containers go on through restarts of kubelet, of the agent and of both, and one that
// restarts itself has the same devices again.
func survivesRestarts(w *agentWorld, agent *local.Process) *local.Process {
	lasting := w.gpuPod("lasting", gpus(2))
	lasting.Spec.RestartPolicy = v1.RestartPolicyAlways
	w.Create(lasting, w.gpuPod("steady", gpus(1)))
	devices := indices(w.checkTrue("lasting", "steady")["lasting/main"])
	crashes := int32(0)
	check := func(what string) {
		w.t.Helper()
		w.AwaitDevices(gpuResource, gpuCount)
		name := "after-" + strings.ReplaceAll(what, " ", "-")
		w.Create(w.gpuPod(name, gpus(2)))
		w.disjoint(w.checkTrue("lasting", "steady", name), 5)

		crashes++
		w.Kill(w.Get("lasting"), "main")
		w.AwaitPod("lasting", "runs again", func(p *v1.Pod) bool {
			c := p.Status.ContainerStatuses[0]
			return c.RestartCount == crashes && c.State.Running != nil
		})
		all := w.checkTrue("lasting", "steady", name)
		w.disjoint(all, 5)
		if now := indices(all["lasting/main"]); !slices.Equal(now, devices) {
			w.t.Errorf("after %s: the restarted container has %v, before it had %v", what, now, devices)
		}
		if n := w.Get("steady").Status.ContainerStatuses[0].RestartCount; n != 0 {
			w.t.Errorf("after %s: a container was restarted %d times without a cause", what, n)
		}
		w.Delete(name)
	}
	w.RestartKubelet()
	check("kubelet")
	w.kill(agent)
	agent = w.startAgent(agentOptions{})
	check("the agent")
	w.kill(agent)
	w.StopKubelet()
	agent = w.startAgent(agentOptions{}) // first, and has to wait for kubelet
	w.StartKubelet()
	check("both")
	return agent
}

// A device that falls off the bus is offered no more, and again when it is back; the
// GPUNode says so.
func sickDevice(w *agentWorld) {
	const sick = 3
	w.AwaitDevices(gpuResource, gpuCount)
	offered := func(count int64) {
		w.t.Helper()
		w.awaitNode(fmt.Sprintf("offers %d", count), func(n *v1.Node) bool {
			q := n.Status.Allocatable[names.ResourceNVIDIA]
			return q.Value() == count
		})
	}
	health := func(what string, healthy bool) {
		w.t.Helper()
		w.awaitGPUNode(what, func(n *v1alpha1.GPUNode) string {
			for _, d := range n.Status.Devices {
				if d.Index == sick && (d.Health == v1alpha1.Healthy) != healthy {
					return fmt.Sprintf("device %d is %s", sick, d.Health)
				}
			}
			if !healthy && len(n.Status.Devices) == 0 {
				return "no health"
			}
			return ""
		})
	}
	w.faults(fmt.Sprintf("device=%d,xid=79,gone", sick))
	health("says that the device is sick", false)
	offered(gpuCount - 1)
	w.Create(w.gpuPod("rest", gpus(gpuCount-1)))
	if got := indices(w.checkTrue("rest")["rest/main"]); slices.Contains(got, sick) {
		w.t.Errorf("a pod got the sick device: %v", got)
	}
	w.faults("")
	health("says that the device is well", true)
	offered(gpuCount)
	w.Create(w.gpuPod("late", gpus(1)))
	if got := indices(w.checkTrue("late")["late/main"]); !slices.Equal(got, []int{sick}) {
		w.t.Errorf("the last pod got %v, free is only %d", got, sick)
	}
}

// An upgrade: the new agent starts while the old one serves, and the old one ends later
// without taking anything down. What a newer version has written into the GPUNode, the
// old one keeps.
func upgrades(w *agentWorld, old *local.Process) *local.Process {
	w.widenCRD()
	// Fields that this agent does not know, beside ones that it writes.
	w.patchGPUNode(map[string]any{"spec": map[string]any{"future": "kept"}})
	w.patchGPUNode(map[string]any{"status": map[string]any{"future": "kept"}}, "status")

	w.Create(w.gpuPod("before", gpus(2)))
	w.checkTrue("before")
	latest := w.startAgent(agentOptions{flags: []string{"--quiet-percent=0"}})
	w.AwaitDevices(gpuResource, gpuCount)
	w.Create(w.gpuPod("during", gpus(2)))
	w.disjoint(w.checkTrue("before", "during"), 4)
	w.stop(old)
	// With the old one's stream kubelet gives up the new one's: it has to come back by
	// itself.
	w.AwaitDevices(gpuResource, gpuCount)
	w.Create(w.gpuPod("after", gpus(2)))
	w.disjoint(w.checkTrue("before", "during", "after"), 6)

	// Something to write about.
	w.faults("device=7,xid=79,gone")
	w.awaitGPUNode("says that the device is sick", func(n *v1alpha1.GPUNode) string {
		for _, d := range n.Status.Devices {
			if d.Index == 7 && d.Health != v1alpha1.Healthy {
				return ""
			}
		}
		return fmt.Sprintf("%+v", n.Status.Devices)
	})
	w.faults("")
	object, err := w.dynamic.Resource(v1alpha1.GPUNodes).Get(context.Background(), w.Name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, part := range []string{"spec", "status"} {
		fields, _ := object.Object[part].(map[string]any)
		if fields["future"] != "kept" {
			w.t.Errorf("%s.future is %v: a field of a newer version is lost", part, fields["future"])
		}
	}
	return latest
}

// widenCRD adds a field to spec and status of GPUNodes, as a newer version would.
func (w *agentWorld) widenCRD() {
	w.t.Helper()
	crds := w.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	path := "/spec/versions/0/schema/openAPIV3Schema/properties/%s/properties/future"
	patch := fmt.Sprintf(`[{"op":"add","path":"`+path+`","value":{"type":"string"}},{"op":"add","path":"`+path+`","value":{"type":"string"}}]`, "spec", "status")
	if _, err := crds.Patch(context.Background(), v1alpha1.GPUNodes.GroupResource().String(), types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
	// The API server takes the new field a moment later; until then it drops it.
	eventually(w.t, 30*time.Second, "GPUNodes have the new field", func(context.Context) error {
		w.patchGPUNode(map[string]any{"spec": map[string]any{"future": "try"}})
		object, err := w.dynamic.Resource(v1alpha1.GPUNodes).Get(context.Background(), w.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if fields, _ := object.Object["spec"].(map[string]any); fields["future"] != "try" {
			return fmt.Errorf("spec is %v", fields)
		}
		return nil
	})
}

// Topology Manager aligns and refuses by what the agent says of its devices, and what
// kubelet then gives is what the records say.
func alignsDevices(w *agentWorld) {
	for _, policy := range topologyPolicies {
		for _, scope := range topologyScopes {
			w.t.Run(policy+" by "+scope, func(t *testing.T) {
				w := w.in(t)
				w.RestartKubelet(Kubelet{TopologyPolicy: policy, TopologyScope: scope})
				w.AwaitDevices(gpuResource, gpuCount)
				topologyWorld{
					Node: w.Node, t: t,
					pod: func(name string, devices ...int64) *v1.Pod {
						var limits []map[string]int64
						for _, d := range devices {
							limits = append(limits, gpus(d))
						}
						return w.gpuPod(name, limits...)
					},
					numa: func(pod *v1.Pod, container string) []int {
						var at []int
						for _, i := range indices(w.checkTrue(pod.Name)[pod.Name+"/"+container]) {
							at = append(at, numaOf(i))
						}
						return at
					},
				}.check(policy, scope)
			})
		}
	}
	w.RestartKubelet(Kubelet{})
	w.AwaitDevices(gpuResource, gpuCount)
}

// turnsConfig is requirement document 001's: each GPU is sold four times, under its own
// name.
const turnsConfig = `version: v1
sharing:
  timeSlicing:
    renameByDefault: false
    resources:
    - name: nvidia.com/gpu
      replicas: 4
`

// A node that sells turns offers each device several times; a container has the device
// of its turn, and others have turns on it.
func givesTurns(w *agentWorld) {
	w.AwaitDevices(gpuResource, 4*gpuCount)
	var pods []string
	for i := range gpuCount + 1 { // one more than devices: two share
		name := fmt.Sprintf("turn-%d", i)
		w.Create(w.gpuPod(name, gpus(1)))
		pods = append(pods, name)
	}
	used := map[int]int{}
	for who, seen := range w.checkTrue(pods...) {
		pod, container, _ := strings.Cut(who, "/")
		if d := w.recorded(pod, container)[0]; !d.Turn {
			w.t.Errorf("%s has %+v, not a turn", who, d)
		}
		for _, i := range indices(seen) {
			used[i]++
		}
	}
	most := slices.Max(slices.Collect(maps.Values(used)))
	if most < 2 || most > 4 {
		w.t.Errorf("%d turns on %d devices of 4 turns each are so: %v", gpuCount+1, gpuCount, used)
	}
}

// limiter installs what stands for HAMi-core's library, and returns the flags with which
// the agent limits shares by it.
func (w *agentWorld) limiter() []string {
	w.t.Helper()
	folder := w.Dir("vgpu")
	for _, name := range []string{"libvgpu.so", "ld.so.preload"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	return []string{"--shares-per-gpu=10", "--isolation=hami", "--hami-library-dir=" + folder}
}

// Shares of one card that are bound at the same moment: kubelet cannot tell them apart
// when it allocates, and each container must still have its own limits.
func givesShares(w *agentWorld) {
	w.awaitNode("offers cards several times over", func(n *v1.Node) bool {
		q := n.Status.Allocatable[names.ResourceNVIDIA]
		return q.Value() > gpuCount
	})
	type share struct{ memory, percent int64 }
	shares := map[string]share{}
	for i := range int64(4) {
		name, s := fmt.Sprintf("share-%d", i), share{5000 + 1000*i, 10 + 5*i}
		shares[name] = s
		w.Create(w.gpuPod(name, map[string]int64{gpuResource: 1, "nvidia.com/gpumem": s.memory, "nvidia.com/gpucores": s.percent}))
	}
	used := map[int]bool{}
	for name, s := range shares {
		seen := w.checkTrue(name)[name+"/main"]
		used[indices(seen)[0]] = true
		if d := w.recorded(name, "main")[0]; d.MemoryMiB != s.memory || int64(d.ComputeMilli) != 10*s.percent {
			w.t.Errorf("%s asked for %+v and has the record %+v", name, s, d)
		}
		for variable, want := range map[string]string{
			"CUDA_DEVICE_MEMORY_LIMIT_0": fmt.Sprintf("%dm", s.memory),
			"CUDA_DEVICE_SM_LIMIT":       fmt.Sprint(s.percent),
		} {
			if got := seen.Values(variable); !slices.Equal(got, []string{want}) {
				w.t.Errorf("%s: %s is %q, want %q", name, variable, got, want)
			}
		}
		for _, target := range []string{"/usr/local/vgpu", "/usr/local/vgpu/libvgpu.so", "/etc/ld.so.preload"} {
			if _, ok := seen.Mounted(target); !ok {
				w.t.Errorf("%s: nothing is mounted at %s", name, target)
			}
		}
	}
	if len(used) != 1 {
		w.t.Errorf("70%% of compute and 26000 MiB are on devices %v: one is enough", used)
	}
}

// migFleet is two cards in MIG mode that are not cut yet.
const migFleet = `pools: [{name: real, count: 1, gpu: {model: H100-80GB, count: 2, mig: true}}]`

const migConfig = `version: v1
flags:
  migStrategy: mixed
`

// MIG instances are cut where the record says before their container starts, and removed
// when no container has them.
func cutsInstances(w *agentWorld) {
	const profile = "1g.10gb"
	resource := "nvidia.com/mig-" + profile
	w.awaitNode("offers places of instances", func(n *v1.Node) bool {
		q := n.Status.Allocatable[v1.ResourceName(resource)]
		return q.Value() > 0
	})
	for _, name := range []string{"slice-0", "slice-1"} {
		w.Create(w.gpuPod(name, map[string]int64{resource: 1}))
	}
	seen := w.checkTrue("slice-0", "slice-1")
	caps := map[string]string{}
	var cut []string
	for _, name := range []string{"slice-0", "slice-1"} {
		d := w.recorded(name, "main")[0]
		if d.MIG != profile {
			w.t.Errorf("%s has the record %+v", name, d)
		}
		cut = append(cut, fmt.Sprintf("%d %s@%d", d.Index, d.MIG, d.Start))
		rights := 0
		for _, given := range seen[name+"/main"].Given() {
			if !strings.HasPrefix(given.Path, "/dev/nvidia-caps/") {
				continue
			}
			rights++
			if other := caps[given.Path]; other != "" {
				w.t.Errorf("%s and %s both have %s: the same instance", name, other, given.Path)
			}
			caps[given.Path] = name
		}
		if rights != 2 {
			w.t.Errorf("%s has %d access rights: a GPU instance and a compute instance have one each", name, rights)
		}
	}
	slices.Sort(cut)
	instances := func(n *v1alpha1.GPUNode) []string {
		var have []string
		for _, d := range n.Spec.Devices {
			if d.MIG == nil {
				continue
			}
			for _, i := range d.MIG.Instances {
				have = append(have, fmt.Sprintf("%d %s@%d", d.Index, i.Profile, i.Start))
			}
		}
		slices.Sort(have)
		return have
	}
	w.awaitGPUNode("has the instances", func(n *v1alpha1.GPUNode) string {
		if have := instances(n); !slices.Equal(have, cut) {
			return fmt.Sprintf("instances %v, records %v", have, cut)
		}
		return ""
	})
	w.Delete("slice-0", "slice-1")
	w.awaitGPUNode("has no instances", func(n *v1alpha1.GPUNode) string {
		if have := instances(n); len(have) > 0 {
			return fmt.Sprint(have)
		}
		return ""
	})
}
