package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// State is what an API server shows at one moment.
type State struct {
	Nodes    map[string]*v1.Node
	GPUNodes map[string]*v1alpha1.GPUNode
	// Topologies are NodeResourceTopologies.
	Topologies map[string]*unstructured.Unstructured
	// Pods by name: stories keep names unique, whatever the namespace.
	Pods map[string]*v1.Pod
	// Queues and PodGroups are Volcano's.
	Queues, PodGroups map[string]*unstructured.Unstructured
	// Namespaces are those with a quota.
	Namespaces map[string]*v1.Namespace
	Budgets    map[string]*policyv1.PodDisruptionBudget
	// Warnings are what was said about invalid objects.
	Warnings []Warning
}

// Warning is a complaint about an object, as its event tells it.
type Warning struct{ Kind, Name, Reason, Note string }

func (w Warning) compare(o Warning) int {
	return cmp.Or(cmp.Compare(w.Kind, o.Kind), cmp.Compare(w.Name, o.Name), cmp.Compare(w.Reason, o.Reason), cmp.Compare(w.Note, o.Note))
}

// ours says whether an event is one of the engine's complaints about objects. What pods
// wait for is in their conditions.
func ours(kind, reason string) bool {
	return !(kind == "Pod" && reason == "InvalidQueue") && slices.Contains([]string{"InvalidRecord", "InvalidInventory", "InvalidQueue", "InvalidQuota", "OverbookedNode", dialect.ContestedRecord}, reason)
}

func newState() *State {
	return &State{
		Nodes: map[string]*v1.Node{}, GPUNodes: map[string]*v1alpha1.GPUNode{}, Topologies: map[string]*unstructured.Unstructured{}, Pods: map[string]*v1.Pod{},
		Queues: map[string]*unstructured.Unstructured{}, PodGroups: map[string]*unstructured.Unstructured{},
		Namespaces: map[string]*v1.Namespace{}, Budgets: map[string]*policyv1.PodDisruptionBudget{},
	}
}

// shallow is a state with the same objects, but for pods and warnings.
func (s *State) shallow() *State {
	out := newState()
	maps.Copy(out.Nodes, s.Nodes)
	maps.Copy(out.GPUNodes, s.GPUNodes)
	maps.Copy(out.Topologies, s.Topologies)
	maps.Copy(out.Queues, s.Queues)
	maps.Copy(out.PodGroups, s.PodGroups)
	maps.Copy(out.Namespaces, s.Namespaces)
	maps.Copy(out.Budgets, s.Budgets)
	return out
}

// Ledger builds what a scheduler that starts now would know: the sum of the
// records on live pods.
func (s *State) Ledger() (*ledger.Ledger, error) {
	return s.LedgerWith(func(model.HolderID) ledger.Standing { return ledger.Standing{} })
}

// LedgerWith is Ledger, where it is known who was seen first.
func (s *State) LedgerWith(standing func(model.HolderID) ledger.Standing) (*ledger.Ledger, error) {
	l := ledger.New()
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		inv, _ := dialect.Describe(s.Nodes[name], dialect.Facts{GPUNode: s.GPUNodes[name], Topology: s.Topologies[name]}) // what is wrong is a warning elsewhere
		if err := l.SetNode(inv); err != nil {
			return nil, err
		}
		l.SetTelemetry(inv.ID, dialect.Telemetry(inv, s.GPUNodes[name]))
	}
	byAge := slices.SortedFunc(maps.Keys(s.Pods), func(a, b string) int {
		return cmp.Or(cmp.Compare(dialect.BoundSince(s.Pods[a]), dialect.BoundSince(s.Pods[b])), cmp.Compare(a, b))
	})
	for _, name := range byAge {
		for _, claim := range claimsOf(s.Pods[name]) {
			claim.Standing = standing(claim.Holder)
			l.Put(model.NodeID(s.Pods[name].Spec.NodeName), claim)
		}
	}
	return l, l.Audit()
}

// claimsOf is what a pod holds: nothing before it is bound and after it ended.
func claimsOf(pod *v1.Pod) []ledger.Claim {
	if pod.Spec.NodeName == "" || ended(pod) {
		return nil
	}
	claims, _ := dialect.Claims(pod) // a record that proves nothing is a warning elsewhere
	return claims
}

func ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// scheduled returns a pod's PodScheduled condition, or nil.
func scheduled(pod *v1.Pod) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == v1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// answered says whether the scheduler has said anything about a pod.
func answered(pod *v1.Pod) bool {
	c := scheduled(pod)
	return pod.Spec.NodeName != "" || c != nil && c.Status == v1.ConditionFalse
}

// terminating is a pod as it is after a deletion with its own grace period; nil when it
// is gone at once.
func terminating(pod *v1.Pod, now time.Time) *v1.Pod {
	grace := pod.Spec.TerminationGracePeriodSeconds
	if grace == nil || *grace == 0 || pod.Spec.NodeName == "" {
		return nil
	}
	out := pod.DeepCopy()
	until := metav1.NewTime(now.Add(time.Duration(*grace) * time.Second))
	out.DeletionTimestamp, out.DeletionGracePeriodSeconds = &until, grace
	return out
}

// waits says whether a pod has no node yet.
func waits(pod *v1.Pod) bool { return pod.Spec.NodeName == "" && !ended(pod) }

// checkWaiting is another promise: a pod that only GPUs keep waiting does not wait
// once there are enough. It names the pod that does; usually the scheduler is just
// about to place it. Where gangs, queues, quotas or pods that leave have a say, the
// stories themselves say what is expected.
func (s *State) checkWaiting(l *ledger.Ledger) error {
	for _, n := range s.Nodes {
		if len(n.Spec.Taints) > 0 || n.Spec.Unschedulable {
			return nil // which pods may use the node is not for the ledger to say
		}
	}
	if len(s.Queues)+len(s.Namespaces) > 0 {
		return nil
	}
	for _, pod := range s.Pods {
		m, err := dialect.MembershipOf(pod)
		keepsOff := pod.Spec.Affinity != nil && pod.Spec.Affinity.PodAntiAffinity != nil
		if err != nil || m.Queue != "" || m.Runtime > 0 || keepsOff || pod.DeletionTimestamp != nil {
			return nil // it may keep nodes from others
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Pods)) {
		pod := s.Pods[name]
		r, err := dialect.Request(pod)
		if m, _ := dialect.MembershipOf(pod); m.Key != "" {
			continue
		}
		if err != nil || r == nil || !waits(pod) || beyondCore(pod) != nil || otherRules(pod, r) || needsCPU(pod) {
			continue
		}
		if r.Kind() != model.Whole {
			continue // kubelet may count fewer tenants than the device has room for
		}
		if survey := place.Ask(l, r); len(survey.Groups) > 0 {
			return fmt.Errorf("pod %s fits on node %s, and waits", name, survey.Groups[0].First)
		}
	}
	return nil
}

// otherRules says whether labels that do not describe GPUs decide about a pod.
func otherRules(pod *v1.Pod, r *model.Request) bool {
	known := func(key string) bool {
		return slices.ContainsFunc(r.Attributes, func(w model.Want) bool { return w.Key == key })
	}
	for key := range pod.Spec.NodeSelector {
		if !known(key) {
			return true
		}
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return pod.Spec.Affinity != nil
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	return required != nil && slices.ContainsFunc(required.NodeSelectorTerms[0].MatchExpressions, func(e v1.NodeSelectorRequirement) bool {
		return e.Operator != v1.NodeSelectorOpIn || !known(e.Key)
	})
}

// needsCPU says whether something else than GPUs may keep a pod waiting.
func needsCPU(pod *v1.Pod) bool {
	for _, c := range pod.Spec.Containers {
		if !c.Resources.Requests.Cpu().IsZero() || !c.Resources.Requests.Memory().IsZero() {
			return true
		}
	}
	return false
}

// checkRecords is the promise every story relies on: pods that Tangram placed have
// records that prove what they hold, and no device is whole in one and in another.
// How much of a device its parts may take together is for the ledger to say.
func (s *State) checkRecords(planted map[string]bool) error {
	whole, parts := map[string]string{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Pods)) {
		if planted[name] {
			continue
		}
		for _, c := range claimsOf(s.Pods[name]) {
			if c.Vendor == "" {
				continue
			}
			indexes := recorded(c)
			if indexes == nil {
				return fmt.Errorf("pod %s was placed, and no valid record says on which devices", name)
			}
			for _, index := range indexes {
				key := fmt.Sprintf("%s device %d of node %s", c.Vendor, index, s.Pods[name].Spec.NodeName)
				other := whole[key]
				if len(c.Parts) > 0 || hasTurn(s.Pods[name], index) {
					parts[key] = name
				} else {
					other = cmp.Or(other, parts[key])
					whole[key] = name
				}
				if other != "" {
					return fmt.Errorf("%s was given to pod %s and to pod %s", key, other, name)
				}
			}
		}
	}
	return nil
}

// hasTurn says whether a pod's record gives it a turn on a device, not the device.
func hasTurn(pod *v1.Pod, index int) bool {
	rec, err := record.Decode(pod.Annotations[names.AnnotationDevices])
	return err == nil && slices.ContainsFunc(rec.Containers, func(c record.Container) bool {
		return slices.ContainsFunc(c.Devices, func(d record.Device) bool { return d.Index == index && d.Turn })
	})
}
