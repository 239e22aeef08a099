package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/internal/dialect"
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
		now, err := state.Ledger()
		if err != nil {
			return err
		}
		pending, err := c.news(now)
		if err != nil {
			return err
		}
		if len(pending) == 0 {
			c.known = now
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
func (c *clusterEngine) news(now *ledger.Ledger) ([]*v1.Pod, error) {
	var out []*v1.Pod
	for _, node := range nodesOf(now, c.known) {
		asked := 0
		for _, pod := range questions(node) {
			before, err := expectedAnswer(c.known, pod)
			if err != nil {
				return nil, err
			}
			after, err := expectedAnswer(now, pod)
			if err != nil {
				return nil, err
			}
			if before != after && asked < perNode {
				out = append(out, pod)
				asked++
			}
		}
	}
	return out, nil
}

// agrees asks until all answers are right, and keeps the ledger they are right
// for.
func (c *clusterEngine) agrees(ctx context.Context, pending []*v1.Pod) error {
	var problem, failure error
	for len(pending) > 0 {
		_, err := await(ctx, c, func(state *State) bool {
			// Pods the change woke may be placed meanwhile, so expectations move.
			var now *ledger.Ledger
			var want, got string
			if now, failure = state.Ledger(); failure != nil {
				return true
			}
			if want, failure = expectedAnswer(now, pending[0]); failure != nil {
				return true
			}
			if got, failure = c.ask(ctx, pending[0]); failure != nil {
				return true
			}
			problem = difference(fmt.Sprintf("the scheduler says of %v", pending[0].Annotations), got, want)
			if problem == nil {
				c.known = now
			}
			return problem == nil
		})
		if err := errors.Join(err, failure, problem); err != nil {
			return err
		}
		pending = pending[1:]
	}
	return nil
}

// ask creates a question, waits for the answer and deletes the question.
func (c *clusterEngine) ask(ctx context.Context, question *v1.Pod) (string, error) {
	c.asked++
	pod := question.DeepCopy()
	pod.Name, pod.Namespace = fmt.Sprintf("question-%d", c.asked), askNamespace
	if _, err := c.client.CoreV1().Pods(askNamespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	var now *v1.Pod
	if err := until(ctx, func() bool {
		now = c.pod(askNamespace, pod.Name)
		return now != nil && answered(now)
	}); err != nil {
		return "", fmt.Errorf("no answer to question %s: %w", pod.Name, err)
	}
	answer := "placed on " + now.Spec.NodeName
	if waits(now) {
		answer = reason(scheduled(now).Message)
	}
	return answer, c.Delete(ctx, now)
}

// expectedAnswer is what a scheduler with that ledger says: the counted reasons
// when no node has the GPUs; else, node by node, what is missing or that the
// question's selector does not match.
func expectedAnswer(l *ledger.Ledger, question *v1.Pod) (string, error) {
	r, err := dialect.Request(question)
	if err != nil {
		return "", err
	}
	res := place.Ask(l, r)
	if !res.Fits() {
		return res.Refused.String(), nil
	}
	counts := map[string]int{}
	for _, node := range nodesOf(l) {
		counts[refusalOn(l, node.ID, r)]++
	}
	var reasons []string
	for text, n := range counts {
		reasons = append(reasons, fmt.Sprintf("%d %s", n, text))
	}
	slices.Sort(reasons)
	return strings.Join(reasons, ", "), nil
}

func refusalOn(l *ledger.Ledger, id model.NodeID, r *model.Request) string {
	view, _ := l.View(id)
	if _, refusal := place.Fit(r, view); refusal != nil {
		return "node(s) had " + refusal.String()
	}
	return "node(s) didn't match Pod's node affinity/selector"
}
