package cluster

import (
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
)

// Options say what a cluster consists of, in the order in which it is made.
type Options struct {
	// Programs are those that the test starts itself. What the other fields need is
	// required without being named here.
	Programs []string
	// Kubernetes says which components of Kubernetes run beside etcd and kube-apiserver.
	// Bin and Dir are filled in.
	Kubernetes local.Options
	// Manifests are applied in this order.
	Manifests [][]byte
	// Fleet is a fleet file (YAML): Nodes and GPUNodes that no agent measures. None when
	// empty.
	Fleet string
	// Tangram are the components that start, in this order.
	Tangram []local.Component
	// Operators start last, in this order.
	Operators []Operator
}

// Manifests are Tangram's kinds and the rights of its programs, as every cluster has them,
// and more.
func Manifests(more ...[]byte) [][]byte {
	return append([][]byte{config.CRDs(), config.VolcanoCRDs(), config.RBAC(), config.ControllerRBAC(), config.AgentRBAC()}, more...)
}

// Whole is a cluster whose nodes run pods and whose owners' deletions cascade, with a
// scheduler and a controller. More manifests are applied before these start.
func Whole(fleet string, more ...[]byte) Options {
	return Options{
		Kubernetes: local.Options{ControllerManager: true, KWOK: true},
		Manifests:  Manifests(more...),
		Fleet:      fleet,
		Tangram:    Tangram(nil),
	}
}

// programs are all programs that a cluster needs, besides etcd and kube-apiserver.
func (o Options) programs() []string {
	out := append([]string(nil), o.Programs...)
	for name, needed := range map[string]bool{
		"kube-controller-manager": o.Kubernetes.ControllerManager,
		"kube-scheduler":          o.Kubernetes.KubeScheduler,
		"kwok":                    o.Kubernetes.KWOK,
	} {
		if needed {
			out = append(out, name)
		}
	}
	for _, c := range o.Tangram {
		out = append(out, c.Name)
	}
	return out
}

// With is the cluster with operators.
func (o Options) With(operators ...Operator) Options {
	o.Operators = operators
	return o
}
