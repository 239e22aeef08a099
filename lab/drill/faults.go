package drill

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/lab/local"
)

// fault is one thing that is broken, and what counts as recovered.
type fault struct {
	name string
	what string
	// together: it may run beside the others of that kind, each on nodes of its own.
	together bool
	steps    func(*exercise) (*steps, error)
}

// faults in the order in which they are run.
func faults() []fault {
	device := func(what string) func(*exercise) (*steps, error) {
		return func(x *exercise) (*steps, error) { return x.device(what) }
	}
	return []fault{
		{"device-xid", "XID 79 on a GPU: it fell off the bus", true, device("xid=79,gone")},
		{"device-hot", "a GPU at 95 degrees", true, device("hot=95")},
		{"device-gone", "the driver no longer finds a GPU", true, device("gone")},
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

// device breaks the GPU of one pod of the service: the GPU is to be isolated, that pod
// replaced and no other touched, and the GPU back after its repair.
func (x *exercise) device(what string) (*steps, error) {
	index := DevicesOf(x.pod)[0]
	before, err := x.w.service(x.ctx)
	if err != nil {
		return nil, err
	}
	neighbours := slices.DeleteFunc(before, func(p v1.Pod) bool { return p.Spec.NodeName != x.node || p.UID == x.pod.UID })
	isolated := func(done func([]int) bool) func() (bool, error) {
		return func() (bool, error) {
			gn, err := x.w.GPUNode(x.ctx, x.node)
			return err == nil && done(Isolated(gn)), err
		}
	}
	return &steps{
		inject:   func() error { return x.w.Break(x.ctx, x.node, fmt.Sprintf("device=%d,%s", index, what)) },
		detected: condition{"isolation of the GPU", isolated(func(list []int) bool { return slices.Contains(list, index) })},
		restored: x.whole(func(p *v1.Pod) bool { return p.UID != x.pod.UID }),
		check: func() error {
			moved, err := x.moved(neighbours)
			if err == nil && moved > 0 {
				err = fmt.Errorf("%d pods on other GPUs of %s were moved too", moved, x.node)
			}
			return err
		},
		repair:   func() error { return x.w.Break(x.ctx, x.node, "") },
		returned: condition{"return of the GPU", isolated(func(list []int) bool { return len(list) == 0 })},
	}, nil
}

// moved counts pods of the service that are not there any more.
func (x *exercise) moved(before []v1.Pod) (n int, err error) {
	now, err := x.w.service(x.ctx)
	for _, p := range before {
		if !slices.ContainsFunc(now, func(q v1.Pod) bool { return q.UID == p.UID }) {
			n++
		}
	}
	return n, err
}

// deviceReset is a device without a repair: evictions empty the GPU, and the agent resets
// it.
func (x *exercise) deviceReset() (*steps, error) {
	s, err := x.device("recovery=GPU_RESET")
	if err == nil {
		s.repair, s.clear = nil, s.repair
	}
	return s, err
}

func (x *exercise) nodeLost() (*steps, error) {
	isolated := func(want bool) func() (bool, error) {
		return func() (bool, error) {
			n, err := x.w.Client.CoreV1().Nodes().Get(x.ctx, x.node, metav1.GetOptions{})
			return err == nil && (n.Annotations[names.AnnotationIsolated] != "") == want, err
		}
	}
	return &steps{
		inject:   func() error { return x.w.LoseNode(x.ctx, x.node) },
		detected: condition{"isolation of the node", isolated(true)},
		restored: x.whole(func(p *v1.Pod) bool { return p.Spec.NodeName != x.node }),
		repair:   func() error { return x.w.FindNode(x.ctx, x.node) },
		returned: condition{"return of the node", isolated(false)},
	}, nil
}

// agentDead: its pod is to be replaced, and the new agent to write.
func (x *exercise) agentDead() (*steps, error) {
	before := x.w.agentPod(x.ctx, Loner)
	if before == "" {
		return nil, errors.New("the agent has no pod")
	}
	began := time.Now()
	return &steps{
		inject: x.w.KillAgent,
		detected: condition{"a new pod of the agent", func() (bool, error) {
			now := x.w.agentPod(x.ctx, Loner)
			return now != "" && now != before, nil
		}},
		restored: condition{"a heartbeat of the agent", func() (bool, error) {
			gn, err := x.w.GPUNode(x.ctx, Loner)
			return err == nil && gn.Status.MeasuredAt != nil && gn.Status.MeasuredAt.After(began.Add(2*time.Second)), err
		}},
	}, nil
}

// placed holds once a new pod is bound.
func (x *exercise) placed(name string) condition {
	pods := x.w.Client.CoreV1().Pods(namespace)
	return condition{"a pod that is bound", func() (bool, error) {
		p, err := pods.Get(x.ctx, name, metav1.GetOptions{})
		if err != nil {
			_, err = pods.Create(x.ctx, gpuPod(name), metav1.CreateOptions{})
			return false, err
		}
		if p.Spec.NodeName == "" {
			return false, nil
		}
		_ = pods.Delete(x.ctx, name, metav1.DeleteOptions{}) // it was only to be placed
		return true, nil
	}}
}

func gpuPod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
		SchedulerName: names.SchedulerName,
		Containers: []v1.Container{{Name: "main", Image: "pause", Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{names.ResourceNVIDIA: resource.MustParse("1")},
		}}},
	}}
}

func (x *exercise) schedulerKilled() (*steps, error) {
	holder := func() (string, error) {
		l, err := x.w.Client.CoordinationV1().Leases("kube-system").Get(x.ctx, "gpu-scheduler", metav1.GetOptions{})
		if err != nil || l.Spec.HolderIdentity == nil {
			return "", err
		}
		return *l.Spec.HolderIdentity, nil
	}
	before, err := holder()
	leading := local.Leader(x.w.Process(SchedulerA), x.w.Process(SchedulerB))
	if err != nil || leading == nil {
		return nil, errors.Join(err, errors.New("no scheduler leads"))
	}
	return &steps{
		inject: func() error { return leading.Signal(syscall.SIGKILL) },
		detected: condition{"another leader", func() (bool, error) {
			now, err := holder()
			return now != "" && now != before, err
		}},
		restored: x.placed("after-scheduler"),
	}, nil
}

func (x *exercise) controllerKilled() (*steps, error) {
	pods, err := x.w.service(x.ctx)
	if err != nil {
		return nil, err
	}
	x.pod = &pods[0]
	x.node = x.pod.Spec.NodeName
	if err := x.w.Process(Controller).Signal(syscall.SIGKILL); err != nil {
		return nil, err
	}
	return x.device("gone")
}

func (x *exercise) apiServerRestarted() (*steps, error) {
	return &steps{
		inject: func() error { return x.w.Process(APIServer).Signal(syscall.SIGKILL) },
		detected: condition{"the API server", func() (bool, error) {
			_, err := x.w.Client.CoreV1().Namespaces().Get(x.ctx, namespace, metav1.GetOptions{})
			return err == nil, err
		}},
		restored: x.placed("after-api-server"),
	}, nil
}

// falseAlarm: nothing is to be isolated and no pod evicted, and both are to be said.
func (x *exercise) falseAlarm() (*steps, error) {
	before, err := x.w.service(x.ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := x.w.Client.CoreV1().Nodes().List(x.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	// all calls f for each node, at once.
	all := func(f func(node string) error) error {
		var calls errgroup.Group
		for _, n := range nodes.Items {
			calls.Go(func() error { return f(n.Name) })
		}
		return calls.Wait()
	}
	began := time.Now()
	return &steps{
		inject: func() error {
			return all(func(node string) error { return x.w.Break(x.ctx, node, "device=all,gone") })
		},
		detected: condition{"an event that says that nothing is done", func() (bool, error) {
			list, err := x.w.Client.EventsV1().Events("").List(x.ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
				return e.Reason == "IsolationHeldBack" && strings.Contains(e.Note, "GPUs look sick") && e.CreationTimestamp.After(began.Add(-time.Second))
			}), nil
		}},
		check: func() error {
			wait(x.ctx, x.o.watchAlarm())
			isolated := 0
			for _, n := range nodes.Items {
				gn, err := x.w.GPUNode(x.ctx, n.Name)
				if err != nil {
					return err
				}
				isolated += len(Isolated(gn))
			}
			moved, err := x.moved(before)
			x.result.Note = fmt.Sprintf("%d of %d GPUs isolated, %d of %d pods moved", isolated, x.o.Nodes*8, moved, len(before))
			if err == nil && moved+isolated > 0 {
				err = errors.New(x.result.Note)
			}
			return err
		},
		repair: func() error { return all(func(node string) error { return x.w.Break(x.ctx, node, "") }) },
		restored: condition{"all GPUs healthy", func() (bool, error) {
			for _, n := range nodes.Items {
				gn, err := x.w.GPUNode(x.ctx, n.Name)
				if err != nil || slices.ContainsFunc(gn.Status.Devices, func(d v1alpha1.DeviceStatus) bool { return d.Health != v1alpha1.Healthy }) {
					return false, err
				}
			}
			return true, nil
		}},
		harmless: true,
	}, nil
}
