package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/local"
)

// fault is one thing that is broken, and what counts as recovered.
type fault struct {
	name string
	what string
	// together: it may run beside the others of that kind, each on nodes of its own.
	together bool
	run      func(*exercise) error
}

// faults in the order in which they are run.
func faults() []fault {
	return []fault{
		{"device-xid", "XID 79 on a GPU: it fell off the bus", true, func(x *exercise) error { return x.device("xid=79,gone") }},
		{"device-hot", "a GPU at 95 degrees", true, func(x *exercise) error { return x.device("hot=95") }},
		{"device-gone", "the driver no longer finds a GPU", true, func(x *exercise) error { return x.device("gone") }},
		{"device-reset", "a GPU that needs a reset, which the agent does once it is empty", true, (*exercise).deviceReset},
		{"node-lost", "a node whose kubelet is silent", true, (*exercise).nodeLost},
		{"agent-dead", "an agent that is killed and stays dead", true, (*exercise).agentDead},
		{"scheduler-killed", "the leading scheduler is killed", false, (*exercise).schedulerKilled},
		{"controller-killed", "gpu-controller is killed, and a GPU fails while it is away", false, (*exercise).controllerKilled},
		{"api-server-restarted", "kube-apiserver is killed and started again", false, (*exercise).apiServerRestarted},
		{"false-alarm", "all agents report all GPUs as failed at once", false, (*exercise).falseAlarm},
	}
}

// Names are the faults there are.
func Names() (out []string) {
	for _, f := range faults() {
		out = append(out, f.name)
	}
	return out
}

// exercise is one fault under way.
type exercise struct {
	ctx   context.Context
	w     *World
	began time.Time
	// node is where it happens, when it happens on one; pod is one of the service there.
	node   string
	pod    *v1.Pod
	limit  time.Duration // for each step
	o      *Options
	result *Result
}

// await polls until a condition holds, and returns the seconds since the fault. An error
// of the API server is as if it did not hold: it may be the one that was killed.
func (x *exercise) await(what string, holds func() (bool, error)) (float64, error) {
	deadline := time.Now().Add(x.limit)
	var last error
	for {
		ok, err := holds()
		if ok && err == nil {
			return time.Since(x.began).Seconds(), nil
		}
		if err != nil {
			last = err
		}
		if time.Now().After(deadline) || x.ctx.Err() != nil {
			return 0, fmt.Errorf("%s: not within %s (%w)", what, x.limit, errors.Join(last, x.ctx.Err()))
		}
		wait(x.ctx, 100*time.Millisecond)
	}
}

// device breaks the GPU of one pod of the service: the GPU is to be isolated, that pod
// replaced and no other touched, and the GPU back after its repair.
func (x *exercise) device(what string) error {
	if err := x.deviceBreaks(what); err != nil {
		return err
	}
	x.began = time.Now()
	if err := x.w.Break(x.ctx, x.node, ""); err != nil {
		return err
	}
	return x.deviceReturns()
}

// deviceReset is the same without a repair: evictions empty the GPU, and the agent resets
// it.
func (x *exercise) deviceReset() error {
	if err := x.deviceBreaks("recovery=GPU_RESET"); err != nil {
		return err
	}
	x.began = time.Now()
	return errors.Join(x.deviceReturns(), x.w.Break(x.ctx, x.node, ""))
}

func (x *exercise) deviceReturns() (err error) {
	x.result.Returned, err = x.await("return of the GPU", func() (bool, error) {
		gn, err := x.w.GPUNode(x.ctx, x.node)
		return err == nil && len(Isolated(gn)) == 0, err
	})
	return err
}

// deviceBreaks ends when the service is whole again.
func (x *exercise) deviceBreaks(what string) error {
	index := DevicesOf(x.pod)[0]
	others, err := x.w.service(x.ctx)
	if err != nil {
		return err
	}
	var neighbours []string
	for _, p := range others {
		if p.Spec.NodeName == x.node && p.UID != x.pod.UID {
			neighbours = append(neighbours, string(p.UID))
		}
	}
	x.began = time.Now()
	if err := x.w.Break(x.ctx, x.node, fmt.Sprintf("device=%d,%s", index, what)); err != nil {
		return err
	}
	isolated := func() (bool, error) {
		gn, err := x.w.GPUNode(x.ctx, x.node)
		return err == nil && slices.Contains(Isolated(gn), index), err
	}
	if x.result.Detected, err = x.await("isolation of the GPU", isolated); err != nil {
		return err
	}
	if x.result.Restored, err = x.await("the service", x.whole(func(p *v1.Pod) bool { return p.UID != x.pod.UID })); err != nil {
		return err
	}
	now, err := x.w.service(x.ctx)
	if err != nil {
		return err
	}
	for _, uid := range neighbours {
		if !slices.ContainsFunc(now, func(p v1.Pod) bool { return string(p.UID) == uid }) {
			return fmt.Errorf("a pod on another GPU of %s was moved too", x.node)
		}
	}
	return nil
}

// whole: all pods of the service run, and each is fine.
func (x *exercise) whole(fine func(*v1.Pod) bool) func() (bool, error) {
	return func() (bool, error) {
		pods, err := x.w.service(x.ctx)
		if err != nil || len(pods) != x.o.pods() {
			return false, err
		}
		for i := range pods {
			if pods[i].Status.Phase != v1.PodRunning || !fine(&pods[i]) {
				return false, nil
			}
		}
		return true, nil
	}
}

func (x *exercise) nodeLost() (err error) {
	x.began = time.Now()
	if err := x.w.LoseNode(x.ctx, x.node); err != nil {
		return err
	}
	marked := func() (bool, error) {
		n, err := x.w.Client.CoreV1().Nodes().Get(x.ctx, x.node, metav1.GetOptions{})
		return err == nil && n.Annotations[names.AnnotationIsolated] != "", err
	}
	if x.result.Detected, err = x.await("isolation of the node", marked); err != nil {
		return err
	}
	if x.result.Restored, err = x.await("the service", x.whole(func(p *v1.Pod) bool { return p.Spec.NodeName != x.node })); err != nil {
		return err
	}
	x.began = time.Now()
	if err := x.w.FindNode(x.ctx, x.node); err != nil {
		return err
	}
	x.result.Returned, err = x.await("return of the node", func() (bool, error) {
		yes, err := marked()
		return !yes, err
	})
	return err
}

// agentDead: its pod is to be replaced, and the new agent to write.
func (x *exercise) agentDead() (err error) {
	before := x.w.agentPod(x.ctx, Loner)
	if before == "" {
		return errors.New("the agent has no pod")
	}
	x.began = time.Now()
	if err := x.w.KillAgent(); err != nil {
		return err
	}
	if x.result.Detected, err = x.await("a new pod of the agent", func() (bool, error) {
		now := x.w.agentPod(x.ctx, Loner)
		return now != "" && now != before, nil
	}); err != nil {
		return err
	}
	x.result.Restored, err = x.await("a heartbeat of the agent", func() (bool, error) {
		gn, err := x.w.GPUNode(x.ctx, Loner)
		return err == nil && gn.Status.MeasuredAt != nil && gn.Status.MeasuredAt.After(x.began.Add(2*time.Second)), err
	})
	return err
}

// placed waits until a new pod is bound.
func (x *exercise) placed(name string) (float64, error) {
	pods := x.w.Client.CoreV1().Pods(namespace)
	took, err := x.await("a pod that is bound", func() (bool, error) {
		p, err := pods.Get(x.ctx, name, metav1.GetOptions{})
		if err != nil {
			_, err = pods.Create(x.ctx, gpuPod(name), metav1.CreateOptions{})
			return false, err
		}
		return p.Spec.NodeName != "", nil
	})
	if err == nil {
		_ = pods.Delete(x.ctx, name, metav1.DeleteOptions{}) // it was only to be placed
	}
	return took, err
}

func gpuPod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
		SchedulerName: names.SchedulerName,
		Containers: []v1.Container{{Name: "main", Image: "pause", Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{names.ResourceNVIDIA: resource.MustParse("1")},
		}}},
	}}
}

func (x *exercise) schedulerKilled() (err error) {
	lease, err := x.w.Client.CoordinationV1().Leases("kube-system").Get(x.ctx, "gpu-scheduler", metav1.GetOptions{})
	if err != nil {
		return err
	}
	leader := *lease.Spec.HolderIdentity
	leading, err := x.w.leader(x.ctx)
	if err != nil {
		return err
	}
	x.began = time.Now()
	if err := leading.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if x.result.Detected, err = x.await("another leader", func() (bool, error) {
		l, err := x.w.Client.CoordinationV1().Leases("kube-system").Get(x.ctx, "gpu-scheduler", metav1.GetOptions{})
		return err == nil && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" && *l.Spec.HolderIdentity != leader, err
	}); err != nil {
		return err
	}
	x.result.Restored, err = x.placed("after-scheduler")
	return err
}

// leader is the scheduler that holds the lease. Both have this host's name in it, so one is
// stopped for a moment: if the lease is renewed meanwhile, it is the other.
func (w *World) leader(ctx context.Context) (*local.Process, error) {
	renewed := func() (time.Time, error) {
		l, err := w.Client.CoordinationV1().Leases("kube-system").Get(ctx, "gpu-scheduler", metav1.GetOptions{})
		if err != nil {
			return time.Time{}, err
		}
		if l.Spec.RenewTime == nil {
			return time.Time{}, errors.New("the scheduler's lease was never renewed")
		}
		return l.Spec.RenewTime.Time, nil
	}
	a, b := w.Process(SchedulerA), w.Process(SchedulerB)
	if err := a.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	before, err := renewed()
	wait(ctx, w.setup.Lease*4/15)
	after, err2 := renewed()
	if err := errors.Join(err, err2, a.Signal(syscall.SIGCONT)); err != nil {
		return nil, err
	}
	if after.After(before) {
		return b, nil
	}
	return a, nil
}

func (x *exercise) controllerKilled() (err error) {
	pods, err := x.w.service(x.ctx)
	if err != nil {
		return err
	}
	x.pod = &pods[0]
	x.node = x.pod.Spec.NodeName
	if err := x.w.Process(Controller).Signal(syscall.SIGKILL); err != nil {
		return err
	}
	return x.device("gone")
}

func (x *exercise) apiServerRestarted() (err error) {
	x.began = time.Now()
	if err := x.w.Process(APIServer).Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if x.result.Detected, err = x.await("the API server", func() (bool, error) {
		_, err := x.w.Client.CoreV1().Namespaces().Get(x.ctx, namespace, metav1.GetOptions{})
		return err == nil, err
	}); err != nil {
		return err
	}
	x.result.Restored, err = x.placed("after-api-server")
	return err
}

// breakAll sets the faults of all nodes at once.
func (x *exercise) breakAll(nodes []v1.Node, faults string) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { errs[i] = x.w.Break(x.ctx, n.Name, faults) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// falseAlarm: nothing is to be isolated and no pod evicted, and both are to be said.
func (x *exercise) falseAlarm() (err error) {
	before, err := x.w.service(x.ctx)
	if err != nil {
		return err
	}
	nodes, err := x.w.Client.CoreV1().Nodes().List(x.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	x.began = time.Now()
	if err := x.breakAll(nodes.Items, "device=all,gone"); err != nil {
		return err
	}
	if x.result.Detected, err = x.await("an event that says that nothing is done", func() (bool, error) {
		list, err := x.w.Client.EventsV1().Events("").List(x.ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, e := range list.Items {
			if e.Reason == "IsolationHeldBack" && strings.Contains(e.Note, "GPUs look sick") && e.CreationTimestamp.After(x.began.Add(-time.Second)) {
				return true, nil
			}
		}
		return false, nil
	}); err != nil {
		return err
	}
	wait(x.ctx, x.o.watchAlarm())
	isolated := 0
	for _, n := range nodes.Items {
		gn, err := x.w.GPUNode(x.ctx, n.Name)
		if err != nil {
			return err
		}
		isolated += len(Isolated(gn))
	}
	if most := x.o.Nodes * 8 / 10; isolated > most {
		return fmt.Errorf("%d GPUs were isolated, at most %d may be", isolated, most)
	}
	after, err := x.w.service(x.ctx)
	if err != nil {
		return err
	}
	moved := 0
	for _, p := range before {
		if !slices.ContainsFunc(after, func(q v1.Pod) bool { return q.UID == p.UID }) {
			moved++
		}
	}
	x.result.Note = fmt.Sprintf("%d of %d GPUs isolated, %d of %d pods moved", isolated, x.o.Nodes*8, moved, len(before))
	if moved > 0 || isolated > 0 {
		return errors.New(x.result.Note)
	}
	x.began = time.Now()
	if err := x.breakAll(nodes.Items, ""); err != nil {
		return err
	}
	x.result.Restored, err = x.await("all GPUs healthy", func() (bool, error) {
		for _, n := range nodes.Items {
			gn, err := x.w.GPUNode(x.ctx, n.Name)
			if err != nil {
				return false, err
			}
			if slices.ContainsFunc(gn.Status.Devices, func(d v1alpha1.DeviceStatus) bool { return d.Health != v1alpha1.Healthy }) {
				return false, nil
			}
		}
		return true, nil
	})
	return err
}
