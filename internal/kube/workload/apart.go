package workload

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// apart is what keeps pods off each other's nodes by Kubernetes' own rules: ports of the
// host, required anti-affinity and spreading by host. kube-scheduler's filters judge one
// member after the other, so a plan that puts such members together fails with the
// second of them, whichever node it is on.
type apart struct {
	ports []v1.ContainerPort
	terms []antiTerm
	most  int // how many members of its gang may share a node by spreading; 0: any number
}

type antiTerm struct {
	namespaces []string // nil: all
	selector   labels.Selector
}

// apartOf reads a pod's rules; nil for most pods.
func apartOf(pod *v1.Pod) *apart {
	a := apart{}
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.HostPort > 0 {
				a.ports = append(a.ports, p)
			}
		}
	}
	if pod.Spec.Affinity != nil && pod.Spec.Affinity.PodAntiAffinity != nil {
		for _, t := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
			if err != nil || t.TopologyKey != v1.LabelHostname {
				continue // left to kube-scheduler
			}
			switch s := t.NamespaceSelector; {
			case s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0:
				a.terms = append(a.terms, antiTerm{nil, selector})
			case s == nil && len(t.Namespaces) > 0:
				a.terms = append(a.terms, antiTerm{t.Namespaces, selector})
			default: // of namespaces that labels choose, its own at most
				a.terms = append(a.terms, antiTerm{[]string{pod.Namespace}, selector})
			}
		}
	}
	for _, t := range pod.Spec.TopologySpreadConstraints {
		selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
		if err == nil && t.TopologyKey == v1.LabelHostname && t.WhenUnsatisfiable == v1.DoNotSchedule && selector.Matches(labels.Set(pod.Labels)) &&
			(a.most == 0 || int(t.MaxSkew) < a.most) {
			a.most = int(t.MaxSkew)
		}
	}
	if len(a.ports)+len(a.terms)+a.most == 0 {
		return nil
	}
	return &a
}

// String is equal for pods with the same rules.
func (a *apart) String() string {
	if a == nil {
		return ""
	}
	var b strings.Builder
	for _, p := range a.ports {
		fmt.Fprintf(&b, "|p%s:%d/%s", p.HostIP, p.HostPort, p.Protocol)
	}
	for _, t := range a.terms {
		fmt.Fprintf(&b, "|x%v %s", t.namespaces, t.selector)
	}
	return b.String()
}

// from says why a pod may not be where another is; empty when it may.
func (a *apart) from(other *v1.Pod) string {
	for _, t := range a.terms {
		if (t.namespaces == nil || slices.Contains(t.namespaces, other.Namespace)) && t.selector.Matches(labels.Set(other.Labels)) {
			return "pod anti-affinity"
		}
	}
	if len(a.ports) == 0 {
		return ""
	}
	for i := range other.Spec.Containers {
		for _, theirs := range other.Spec.Containers[i].Ports {
			if slices.ContainsFunc(a.ports, func(p v1.ContainerPort) bool { return clash(p, theirs) }) {
				return fmt.Sprintf("host port %d is taken", theirs.HostPort)
			}
		}
	}
	return ""
}

// clash says whether two containers want the same port of a host.
func clash(a, b v1.ContainerPort) bool {
	any := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	return a.HostPort == b.HostPort && a.Protocol == b.Protocol && (a.HostIP == b.HostIP || any(a.HostIP) || any(b.HostIP))
}
