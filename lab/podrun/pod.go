package podrun

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/lab/local"
)

// Pauses between restarts of a container: the first, and the longest. kubelet's are
// longer; here a person waits.
const (
	firstPause   = 500 * time.Millisecond
	longestPause = 8 * time.Second
)

// pod is the life of one pod.
type pod struct {
	node    *Node
	object  *v1.Pod // as it was first seen; its spec does not change
	address string
	dir     string

	ending chan struct{} // closed when the pod is to be stopped
	once   sync.Once

	mu       sync.Mutex
	statuses []v1.ContainerStatus // in the order of the spec
	probed   []bool               // the readiness probe's last answer, by container
}

func newPod(n *Node, object *v1.Pod, address string) *pod {
	p := &pod{
		node: n, object: object, address: address,
		dir:    filepath.Join(n.dir, "pods", object.Namespace+"_"+object.Name),
		ending: make(chan struct{}),
	}
	for _, c := range object.Spec.Containers {
		p.statuses = append(p.statuses, v1.ContainerStatus{Name: c.Name, Image: c.Image, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}})
	}
	p.probed = make([]bool, len(p.statuses))
	return p
}

// end asks the pod to stop. How long it may take is bounded by local.Process, whatever
// its grace period.
func (p *pod) end() { p.once.Do(func() { close(p.ending) }) }

// live runs the containers until the pod is deleted or the node is stopped. Files that
// cannot be written are written again later, as kubelet does.
func (p *pod) live(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.ending:
			cancel()
		case <-ctx.Done():
		}
	}()
	var containers sync.WaitGroup
	for i := range p.object.Spec.Containers {
		containers.Go(func() { p.runContainer(ctx, i) })
	}
	containers.Wait()
	select {
	case <-p.ending:
		p.delete()
	default: // the node is stopped: the pod runs again when it is started
	}
}

// runContainer starts the program, and again when it ends.
func (p *pod) runContainer(ctx context.Context, i int) {
	c := &p.object.Spec.Containers[i]
	name := p.object.Name
	if len(p.object.Spec.Containers) > 1 {
		name += "." + c.Name
	}
	pause := firstPause
	for {
		began := time.Now()
		process, err := p.startContainer(ctx, i, name)
		if err == nil {
			p.report(ctx, i, func(s *v1.ContainerStatus) {
				s.State = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}}
			})
			p.probe(ctx, i, process)
			err = p.stopped(ctx, process)
		}
		if ctx.Err() != nil {
			return
		}
		p.report(ctx, i, func(s *v1.ContainerStatus) {
			s.RestartCount++
			s.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: fmt.Sprint(err)}}
		})
		if time.Since(began) > 10*longestPause {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

func (p *pod) startContainer(ctx context.Context, i int, name string) (*local.Process, error) {
	program, err := p.program(ctx, i)
	if err != nil {
		return nil, err
	}
	program.Name = name
	return p.node.o.Cluster.Run(ctx, program)
}

// stopped stops the process when the pod is to end, and returns once it has. The error
// says that the program ended by itself.
func (p *pod) stopped(ctx context.Context, process *local.Process) error {
	select {
	case <-process.Done():
		return fmt.Errorf("%s has ended; see %s", process.Name(), process.Log())
	case <-ctx.Done():
		return process.Stop()
	}
}

// delete removes the object, as kubelet does when all containers have ended.
func (p *pod) delete() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &p.object.UID}}
	// A pod that is gone already, or whose cluster is, needs no deletion.
	_ = p.node.client.CoreV1().Pods(p.object.Namespace).Delete(ctx, p.object.Name, now)
}
