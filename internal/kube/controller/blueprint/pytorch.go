package blueprint

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// pyTorchPort is where PyTorch's rendezvous listens by default.
const pyTorchPort = 23456

// pyTorch tells every pod who the master is and which rank it has.
type pyTorch struct {
	job            *batch.Job
	master, worker *lifecycle.Task // worker may be nil: the master trains alone
	port           int
}

func newPyTorch(job *batch.Job, spec *lifecycle.Spec, args []string) (Plugin, error) {
	p := &pyTorch{job: job}
	f := flags()
	master := f.String("master", "master", "the task whose first pod is the master")
	worker := f.String("worker", "worker", "the task of the workers")
	f.IntVar(&p.port, "port", pyTorchPort, "the port the master listens on")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if p.port < 1 || p.port > 65535 {
		return nil, fmt.Errorf("--port=%d is not a port", p.port)
	}
	if p.master = spec.Task(*master); p.master == nil {
		return nil, fmt.Errorf("--master=%s: the job has no such task", *master)
	}
	p.worker = spec.Task(*worker)
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
	if first := &pod.Spec.Containers[0]; !listens(first, int32(p.port)) {
		first.Ports = append(first.Ports, v1.ContainerPort{Name: "pytorchjob-port", ContainerPort: int32(p.port), Protocol: v1.ProtocolTCP})
	}
}

// listens says whether a container declares a port.
func listens(c *v1.Container, port int32) bool {
	for _, p := range c.Ports {
		if p.ContainerPort == port {
			return true
		}
	}
	return false
}
