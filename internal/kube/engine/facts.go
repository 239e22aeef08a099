package engine

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/names"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/inventory"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// facts answers core's questions from what was read at the last drain: nothing in it
// changes during a decision.
type facts struct {
	work  *workload.Gangs
	nodes map[model.NodeID]*v1.Node // the Node objects; as many as the ledger has
	// claimsOnly are nodes whose GPUs only claims get.
	claimsOnly map[model.NodeID]bool
	budgets    budgets
}

var _ engine.Facts = &facts{}

func newFacts(work *workload.Gangs, budgetLister policylisters.PodDisruptionBudgetLister) *facts {
	return &facts{
		work: work, nodes: map[model.NodeID]*v1.Node{}, claimsOnly: map[model.NodeID]bool{},
		budgets: budgets{lister: budgetLister, byNamespace: map[string][]budget{}},
	}
}

func (f *facts) setNode(id model.NodeID, d *inventory.Description) {
	f.nodes[id] = d.Object
	if delete(f.claimsOnly, id); d.ClaimsOnly {
		f.claimsOnly[id] = true
	}
}

func (f *facts) removeNode(id model.NodeID) {
	delete(f.nodes, id)
	delete(f.claimsOnly, id)
}

// condition is what a node's object says about it.
func (f *facts) condition(id model.NodeID) coreanswer.Condition {
	node := f.nodes[id]
	if node == nil {
		return coreanswer.NodeLost
	}
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status != v1.ConditionTrue {
			return coreanswer.NodeLost
		}
	}
	if node.Spec.Unschedulable {
		return coreanswer.NodeCordoned
	}
	return coreanswer.Open
}

// May says why a node does not take pods of a shape, whatever runs there.
func (f *facts) May(s engine.Shape, id model.NodeID) *explain.Refusal {
	rules, node := f.work.Rules(s), f.nodes[id]
	if refusal := May(rules, node); refusal != nil || rules == nil {
		return refusal
	}
	if rules.Parts && f.claimsOnly[id] {
		return &explain.Refusal{Code: explain.NoDevices}
	}
	if rules.Claims != nil {
		return rules.Claims.May(node)
	}
	return nil
}

// May answers with what kube-scheduler's own plugins would say of a node whatever runs
// there: NodeUnschedulable, TaintToleration, NodeAffinity. nil: it takes such pods.
func May(rules *workload.Rules, node *v1.Node) *explain.Refusal {
	switch {
	case node == nil:
		return &explain.Refusal{Code: explain.NoDevices}
	case rules == nil:
		rules = &workload.Rules{}
	}
	if rules.Selects {
		if match, err := rules.Affinity.Match(node); err != nil || !match {
			return &explain.Refusal{Code: explain.Unselected, Detail: rules.Selector}
		}
	}
	if !node.Spec.Unschedulable && len(node.Spec.Taints) == 0 {
		return nil
	}
	isolation := slices.IndexFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Key == names.TaintIsolated })
	cordoned := func() *explain.Refusal {
		if isolation >= 0 { // gpu-controller cordons what it isolates
			return &explain.Refusal{Code: explain.Isolated, Detail: node.Spec.Taints[isolation].Value}
		}
		return &explain.Refusal{Code: explain.Cordoned}
	}
	cordon := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	if node.Spec.Unschedulable && !corev1helpers.TolerationsTolerateTaint(klog.Background(), rules.Tolerations, &cordon, false) {
		return cordoned()
	}
	taint, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, rules.Tolerations,
		func(t *v1.Taint) bool {
			return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
		}, false)
	switch {
	case !found:
		return nil
	case taint.Key == v1.TaintNodeUnschedulable, taint.Key == names.TaintIsolated:
		return cordoned()
	}
	return &explain.Refusal{Code: explain.Tainted, Detail: taint.ToString()}
}

// Apart says why pods of two shapes may not share a node.
func (f *facts) Apart(a, b engine.Shape) string {
	x, y := f.work.Rules(a), f.work.Rules(b)
	if x == nil || y == nil {
		return ""
	}
	return x.Apart(y)
}

// Budgets are a pod's disruption budgets.
func (f *facts) Budgets(h model.HolderID) (out []engine.Budget) {
	m := f.work.Member(h)
	if m == nil {
		return nil
	}
	for _, b := range f.budgets.protecting(m.Pod) {
		out = append(out, engine.Budget{Name: b.name, Allowed: b.allowed})
	}
	return slices.Clip(out)
}
