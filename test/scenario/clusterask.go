package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// perNode is how many questions are asked about a node that changed. The first
// ones show nearly everything; more would only cost time.
const perNode = 2

// Settle asks the scheduler about every node whose answers have changed since it
// was last asked, until it gives those of a ledger rebuilt from the API; then it
// waits for the pods that should be placed.
func (c *clusterEngine) Settle(ctx context.Context) error {
	for {
		state, err := c.Observe(ctx)
		if err != nil {
			return err
		}
		pending, err := c.news(state)
		if err != nil {
			return err
		}
		if len(pending) == 0 {
			c.known = state
			break
		}
		if err := c.agrees(ctx, pending); err != nil {
			return err
		}
	}
	var problem error
	_, err := await(ctx, c, func(state *State) bool {
		now, err := state.Ledger()
		if problem = err; err == nil {
			problem = state.checkWaiting(now)
		}
		return problem == nil
	})
	return errors.Join(err, problem)
}

// news are the questions whose answer is not what it was.
func (c *clusterEngine) news(now *State) ([]*v1.Pod, error) {
	before, err := c.known.answers()
	if err != nil {
		return nil, err
	}
	after, err := now.answers()
	if err != nil {
		return nil, err
	}
	var out []*v1.Pod
	for _, node := range nodesOf(after.ledger, before.ledger) {
		asked := 0
		for _, pod := range questions(node) {
			demand(pod, extra)
			if before.to(pod) != after.to(pod) && asked < perNode {
				out = append(out, pod)
				asked++
			}
		}
	}
	return out, nil
}

// agrees asks until all answers are right, and keeps the state they are right for.
func (c *clusterEngine) agrees(ctx context.Context, pending []*v1.Pod) error {
	for _, question := range pending {
		var problem error
		c.asked++
		pod := question.DeepCopy()
		pod.Name, pod.Namespace = fmt.Sprintf("question-%d", c.asked), askNamespace
		waiting, cancel := context.WithTimeout(ctx, c.Patience())
		err := c.Ask(waiting, pod, func(got string) bool {
			// Pods the change woke may be placed meanwhile, so expectations move.
			state, err := c.Observe(ctx)
			if err != nil {
				problem = err
				return false
			}
			now, err := state.answers()
			if err != nil {
				problem = err
				return false
			}
			problem = difference(fmt.Sprintf("the scheduler says of %v", question.Annotations), got, now.to(question))
			if problem == nil {
				c.known = state
			}
			return problem == nil
		})
		cancel()
		if err != nil {
			return errors.Join(err, problem)
		}
	}
	return nil
}

// Ask creates a question, waits for the answer and deletes the question.
func (c *clusterEngine) Ask(ctx context.Context, question *v1.Pod, done func(string) bool) error {
	pod := question.DeepCopy()
	pod.UID, pod.CreationTimestamp = "", metav1.Time{}
	if err := c.namespace(ctx, pod.Namespace); err != nil {
		return err
	}
	if _, err := c.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	err := until(ctx, func() bool {
		now := c.pod(pod.Namespace, pod.Name)
		return now != nil && answered(now) && waits(now) && done(reason(scheduled(now).Message))
	})
	if err != nil {
		err = fmt.Errorf("no answer to question %s: %w", pod.Name, err)
	}
	return errors.Join(err, c.Delete(context.WithoutCancel(ctx), pod))
}

// answers are what a scheduler that knows of a state says to questions.
type answers struct {
	ledger *ledger.Ledger
	state  *State
}

// answers makes them of a state, with the fillers.
func (s *State) answers() (*answers, error) {
	l, err := s.Ledger()
	if err != nil {
		return nil, err
	}
	for name := range s.Nodes {
		claims, problem := dialect.Claims(filler(name))
		if problem != nil {
			return nil, problem
		}
		for _, claim := range claims {
			l.Put(model.NodeID(name), claim)
		}
	}
	return &answers{l, s}, nil
}

// to is the reason that core gives for a pod that is alone in its queue.
func (a *answers) to(question *v1.Pod) string {
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	reader := &workload.Reader{Namespaces: corelisters.NewNamespaceLister(none), Levels: topology.DefaultLevels}
	reader.Own(names.SchedulerName, workload.Profile{Weights: score.DefaultWeights()})
	work := workload.New(reader, corelisters.NewPodLister(none), workload.Objects{})
	pod := question.DeepCopy()
	pod.Name, pod.Namespace, pod.UID = "question", askNamespace, "question"
	work.Set(pod, firstDay)
	gang, _ := work.Describe("pod/question", firstDay, noPlace)
	queues, _ := a.state.usableQueues()
	tree, err := arbiter.NewTree(queues, nil)
	if err != nil {
		return err.Error()
	}
	options := engine.DefaultOptions()
	options.Facts = &coreFacts{work: work, api: a.state}
	e := engine.New(a.ledger, planner.New(a.ledger), tree, options)
	if err := e.Apply(0, engine.FleetCounted{}, engine.Submitted{Gang: gang}).Err; err != nil {
		return err.Error()
	}
	why := e.Reasons.Why(gang.ID)
	return why.String()
}

// fill puts a small pod on a node.
func (c *clusterEngine) fill(ctx context.Context, node string) error {
	_, err := c.client.CoreV1().Pods(askNamespace).Create(ctx, filler(node), metav1.CreateOptions{})
	return err
}

// extra is a resource of which each node has one, and the filler has it: so questions
// show what a node's devices lack, and are never placed.
const extra v1.ResourceName = "scenario.tangram.dev/extra"

// withExtra is a node that has one.
func withExtra(node *v1.Node) *v1.Node {
	out := node.DeepCopy()
	out.Status.Allocatable[extra], out.Status.Capacity[extra] = resource.MustParse("1"), resource.MustParse("1")
	return out
}

// demand makes a pod ask for one of a resource.
func demand(pod *v1.Pod, name v1.ResourceName) {
	r := &pod.Spec.Containers[0].Resources
	r.Requests, r.Limits = maps.Clone(r.Requests), maps.Clone(r.Limits)
	if r.Requests == nil {
		r.Requests, r.Limits = v1.ResourceList{}, v1.ResourceList{}
	}
	r.Requests[name], r.Limits[name] = resource.MustParse("1"), resource.MustParse("1")
}

// filler is a pod that uses a node's extra resource, and that is not evicted.
func filler(node string) *v1.Pod {
	noGrace := int64(0)
	pod := &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: askNamespace, Name: "filler-" + node, UID: types.UID("filler-" + node)},
		Spec: v1.PodSpec{
			NodeName: node, SchedulerName: "scenario", PriorityClassName: "system-node-critical", TerminationGracePeriodSeconds: &noGrace,
			Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists}},
			Containers:  []v1.Container{{Name: "main", Image: "scenario"}},
		},
	}
	demand(pod, extra)
	return pod
}
