package blueprint

import (
	"flag"
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

const pyTorchPort = 23456 // where PyTorch's rendezvous listens by default

// pyTorch sets the master's address and the pod's rank in every pod's environment.
type pyTorch struct {
	job            *batch.Job
	master, worker *lifecycle.Task // worker may be nil: the master trains alone
	port           int
	wait           bool // workers start when the master listens
	patience       int  // seconds they wait
	image          string
}

func newPyTorch(job *batch.Job, spec *lifecycle.Spec, args []string) (Plugin, error) {
	p := &pyTorch{job: job}
	f := flags()
	master := f.String("master", "master", "the task whose first pod is the master")
	worker := f.String("worker", "worker", "the task of the workers")
	f.IntVar(&p.port, "port", pyTorchPort, "the port the master listens on")
	f.BoolVar(&p.wait, "wait-master-enabled", false, "workers wait for the master in an init container")
	f.IntVar(&p.patience, "wait-master-timeout", 300, "seconds they wait")
	f.StringVar(&p.image, "wait-master-image", "busybox:1.36.1", "image of that container; it has sh and nc")
	if err := parse(f, args); err != nil {
		return nil, err
	}
	if p.port < 1 || p.port > 65535 {
		return nil, fmt.Errorf("--port=%d is not a port", p.port)
	}
	if p.master = spec.Task(*master); p.master == nil {
		return nil, fmt.Errorf("--master=%s: the job has no such task", *master)
	}
	if p.patience < 1 {
		return nil, fmt.Errorf("--wait-master-timeout=%d is not a number of seconds", p.patience)
	}
	asked := false
	f.Visit(func(set *flag.Flag) { asked = asked || set.Name == "worker" })
	if p.worker = spec.Task(*worker); p.worker == nil && asked {
		return nil, fmt.Errorf("--worker=%s: the job has no such task", *worker)
	}
	return p, nil
}

func (p *pyTorch) Objects() []Object { return nil }

func (p *pyTorch) Change(pod *v1.Pod, slot lifecycle.Slot) {
	world, rank := p.master.Replicas, slot.Index
	if p.worker != nil {
		world += p.worker.Replicas
	}
	switch {
	case slot.Task == p.master.Name:
	case p.worker != nil && slot.Task == p.worker.Name:
		rank += p.master.Replicas
	default:
		return // a task that does not train
	}
	addEnv(&pod.Spec,
		v1.EnvVar{Name: "MASTER_ADDR", Value: domain(p.job, p.master, 0)},
		v1.EnvVar{Name: "MASTER_PORT", Value: strconv.Itoa(p.port)},
		v1.EnvVar{Name: "WORLD_SIZE", Value: strconv.Itoa(int(world))},
		v1.EnvVar{Name: "RANK", Value: strconv.Itoa(int(rank))},
	)
	declares := func(c v1.ContainerPort) bool { return c.ContainerPort == int32(p.port) }
	if len(pod.Spec.Containers) > 0 && !slices.ContainsFunc(pod.Spec.Containers[0].Ports, declares) {
		first := &pod.Spec.Containers[0]
		first.Ports = append(first.Ports, v1.ContainerPort{Name: "pytorchjob-port", ContainerPort: int32(p.port), Protocol: v1.ProtocolTCP})
	}
	if p.wait && slot.Task != p.master.Name {
		pod.Spec.InitContainers = append([]v1.Container{p.waiter()}, pod.Spec.InitContainers...)
	}
}

// waiter is an init container that ends when the master is reachable, and fails after a
// timeout.
func (p *pyTorch) waiter() v1.Container {
	const script = `i=0; until nc -z -w 2 "$MASTER_ADDR" "$MASTER_PORT"; do i=$((i+2)); [ $i -ge "$0" ] && exit 1; sleep 2; done`
	return v1.Container{
		Name: "wait-for-master", Image: p.image, Command: []string{"sh", "-c", script, strconv.Itoa(p.patience)},
		Env: []v1.EnvVar{{Name: "MASTER_ADDR", Value: domain(p.job, p.master, 0)}, {Name: "MASTER_PORT", Value: strconv.Itoa(p.port)}},
	}
}
