package engine

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	policylisters "k8s.io/client-go/listers/policy/v1"
)

// budgets are the disruption budgets of each namespace, with their selectors compiled
// once.
type budgets struct {
	lister      policylisters.PodDisruptionBudgetLister
	byNamespace map[string][]budget
}

type budget struct {
	name     string
	selector labels.Selector
	allowed  int
}

// read reads a namespace's budgets.
func (b *budgets) read(namespace string) {
	delete(b.byNamespace, namespace)
	list, _ := b.lister.PodDisruptionBudgets(namespace).List(labels.Everything()) // the store knows no error
	for _, x := range list {
		selector, err := metav1.LabelSelectorAsSelector(x.Spec.Selector)
		if err == nil && x.DeletionTimestamp == nil {
			b.byNamespace[namespace] = append(b.byNamespace[namespace], budget{namespace + "/" + x.Name, selector, int(x.Status.DisruptionsAllowed)})
		}
	}
}

// protecting are the budgets that protect a pod.
func (b *budgets) protecting(pod *v1.Pod) (out []budget) {
	for _, x := range b.byNamespace[pod.Namespace] {
		if x.selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, x)
		}
	}
	return out
}
