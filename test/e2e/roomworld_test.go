package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// roomWorld is a control plane with a leader, a standby and slots for pods.
type roomWorld struct {
	*world
	seed            uint64
	leader, standby *local.Serving
	doubles         *doubles
	slots           []*slot
	classes         sync.Mutex
	anyNode         string
}

// kind is what pods of a slot are like.
type kind struct {
	name string
	// make changes a pod of one GPU into one of the kind; n numbers slots.
	make func(p *v1.Pod, n int)
	// count is how many slots there are, size how many pods a slot has.
	count, size int
	// edit is a merge patch that makes a pod wait, or not, for another reason; "" for
	// none. The one with which all are free to go is last.
	edits []string
	// claim is the DeviceClass of the pod's claim, job says that it belongs to a Job: both
	// may come after the pod.
	claim string
	job   bool
	// never: it cannot run. managed: the engine says that it waits.
	never, managed bool
}

const (
	nicDriver = "nic.example.com"
	gpuDriver = "gpu.tangram.dev"
	// ungated lifts all gates of a pod; freed ends its finalizers.
	ungated = `{"spec":{"schedulingGates":null}}`
	freed   = `{"metadata":{"finalizers":null}}`
)

func withoutGPU(p *v1.Pod) { p.Spec.Containers[0].Resources = v1.ResourceRequirements{} }

func gated(p *v1.Pod, _ int) {
	p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/later"}}
}

func inQueueEdit(queue string) string {
	return fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, names.LabelQueue, queue)
}

// roomKinds are the kinds of pods. Their number is even: half of the slots of a kind are of
// the profile default-scheduler.
func roomKinds() []kind {
	bare := func(p *v1.Pod, _ int) { withoutGPU(p) }
	queued := func(p *v1.Pod, n int) { withoutGPU(p); p.Labels[names.LabelQueue] = []string{"open", "closed"}[n%2] }
	tolerant := func(p *v1.Pod, _ int) {
		withoutGPU(p)
		p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	}
	toQueue := []string{inQueueEdit(`"closed"`), inQueueEdit(`"missing"`), inQueueEdit(`"open"`), inQueueEdit("null")}
	return []kind{
		{name: "gpu", count: 64, edits: []string{`{"metadata":{"labels":{"x":"y"}}}`}},
		{name: "gang", count: 16, size: 2, make: func(p *v1.Pod, n int) { cluster.Gang(fmt.Sprint("gang-", n), 2)(p) }},
		{name: "cpu", count: 32, make: bare, edits: toQueue},
		{name: "queued", count: 32, make: queued, edits: toQueue},
		{name: "other", count: 16, make: func(p *v1.Pod, _ int) { withoutGPU(p); p.Spec.SchedulerName = "plain-scheduler" }, edits: toQueue},
		{name: "gated", count: 24, make: gated, edits: []string{ungated}},
		{name: "gated-cpu", count: 16, make: func(p *v1.Pod, n int) { queued(p, n/2); gated(p, n) }, edits: append(slices.Clone(toQueue), ungated)},
		{name: "held", count: 16, make: func(p *v1.Pod, _ int) { p.Finalizers = []string{"example.com/held"} }, edits: []string{freed}},
		{name: "job", count: 32, make: bare, job: true},
		{name: "nic", count: 24, make: tolerant, claim: "nic"},
		{name: "claim", count: 16, make: tolerant, claim: "gpu"},
		{name: "never", count: 8, make: func(p *v1.Pod, _ int) {
			p.Spec.Containers[0].Resources.Limits[names.ResourceNVIDIA] = resource.MustParse("64")
		}, never: true, managed: true},
		{name: "never-queued", count: 8, make: func(p *v1.Pod, _ int) { queued(p, 1) }, never: true, managed: true},
		{name: "never-gated", count: 8, make: gated, never: true},
		{name: "never-gated-cpu", count: 8, make: func(p *v1.Pod, n int) { withoutGPU(p); gated(p, n) }, never: true},
	}
}

const roomConfiguration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceName: gpu-scheduler, resourceNamespace: kube-system}
clientConnection: {qps: 5000, burst: 5000}
profiles:
- schedulerName: gpu-scheduler
  plugins: &ours {filter: {enabled: [{name: GPUFilter}]}}
- schedulerName: default-scheduler
  plugins: *ours
- schedulerName: plain-scheduler
`

func newRoomWorld(t *testing.T) *roomWorld {
	r := &roomWorld{seed: cluster.Seed(t, "TANGRAM_SEED", uint64(time.Now().UnixNano()))}
	// All but two nodes are full until the end, so most pods wait.
	r.world = newGangWorld(t, local.Options{}, `
pools:
- {name: n, count: 20, gpu: {model: A100-80GB, count: 8}}
- {name: d, count: 6, gpu: {model: A100-80GB, count: 8}, taints: [{key: only, value: claims, effect: NoSchedule}]}
`)
	for _, queue := range []string{"open", "closed"} {
		r.AddQueue(queue, "{weight: 1}")
	}
	r.Patch(cluster.Queues, "closed", `{"status":{"state":"Closed"}}`, "status")
	for _, n := range cluster.ReadAll[v1.Node](r.World, cluster.Nodes) {
		if r.anyNode = n.Name; len(n.Spec.Taints) > 0 {
			r.publish(n.Name)
		}
	}
	r.class("gpu", gpuDriver)
	r.leader = r.replica()
	for i := range 18 {
		r.Create(pod(fmt.Sprint("filler-", i), 8))
	}
	r.gangNodes("filler-", 18)
	r.standby = r.replica()
	r.doubles = watchDoubles(r.world)
	for _, k := range roomKinds() {
		for n := range k.count {
			r.slots = append(r.slots, &slot{world: r, kind: &k, n: n})
		}
	}
	rand.New(rand.NewPCG(r.seed, 1000)).Shuffle(len(r.slots), func(i, j int) { r.slots[i], r.slots[j] = r.slots[j], r.slots[i] })
	return r
}

// replica starts a scheduler whose metrics need no token.
func (r *roomWorld) replica() *local.Serving {
	r.T.Helper()
	return r.Scheduler([]byte(roomConfiguration), append(cluster.Elect(5*time.Second), cluster.OpenMetrics)...)
}

// publish makes a node publish its GPUs, and 32 network cards.
func (r *roomWorld) publish(node string) {
	r.T.Helper()
	gn := r.Object(cluster.GPUNodes, node)
	cards, _, _ := unstructured.NestedSlice(gn.Object, "spec", "devices")
	for driver, count := range map[string]int{gpuDriver: len(cards), nicDriver: 32} {
		s := &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver},
			Spec:       resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1, Generation: 1}},
		}
		for i := range count {
			kind, id := "gpu", fmt.Sprint("nic-", i)
			if driver == gpuDriver {
				id = cards[i].(map[string]any)["uuid"].(string)
			}
			s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("dev-", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"type": {StringValue: &kind}, "uuid": {StringValue: &id}}})
		}
		if _, err := r.Client.ResourceV1().ResourceSlices().Create(context.Background(), s, metav1.CreateOptions{}); err != nil {
			r.T.Fatal(err)
		}
	}
}

// class makes a DeviceClass one of a driver's devices; "" deletes it.
func (r *roomWorld) class(name, driver string) {
	r.classes.Lock()
	defer r.classes.Unlock()
	api, ctx := r.Client.ResourceV1().DeviceClasses(), context.Background()
	if driver == "" {
		r.check(api.Delete(ctx, name, metav1.DeleteOptions{}))
		return
	}
	c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}}}}
	if _, err := api.Create(ctx, c, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		old, err := api.Get(ctx, name, metav1.GetOptions{})
		r.check(err)
		old.Spec = c.Spec
		_, err = api.Update(ctx, old, metav1.UpdateOptions{})
		r.check(err)
	} else {
		r.check(err)
	}
}

// flipClass makes the class of network cards one of GPUs, or takes it away.
func (r *roomWorld) flipClass(rng *rand.Rand) {
	r.class("nic", []string{nicDriver, nicDriver, gpuDriver, ""}[rng.IntN(4)])
}

// check fails the test for an error that is none of a race with the scheduler or with a
// deletion.
func (r *roomWorld) check(err error) {
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		r.T.Errorf("%v", err)
	}
}

// counted waits until kube-scheduler counts so many pods that wait outside its queue and none
// inside, in both replicas, and the engine so many that wait for it.
func (r *roomWorld) counted(gated, managed int) {
	r.T.Helper()
	want := fmt.Sprintf("gated %d, inside 0, pending %d; standby: gated %d, inside 0", gated, managed, gated)
	r.Eventually(want, func() (bool, string) {
		gated, inside, pending, err := r.counts(r.leader)
		standby, insideIt, _, err2 := r.counts(r.standby)
		if err := errors.Join(err, err2); err != nil {
			return false, err.Error()
		}
		seen := fmt.Sprintf("gated %d, inside %d, pending %d; standby: gated %d, inside %d", gated, inside, pending, standby, insideIt)
		return seen == want, seen
	})
}

// counts are kube-scheduler's and our gauges of pods that wait.
func (r *roomWorld) counts(p *local.Serving) (gated, inside, pending int, err error) {
	samples, err := cluster.Scrape(p)
	gated = int(samples[`scheduler_pending_pods{queue="gated"}`])
	return gated, int(samples.Sum("scheduler_pending_pods", "")) - gated, int(samples.Sum("tangram_pending_pods", "")), err
}
