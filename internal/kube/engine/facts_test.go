package engine

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// TestMay: who keeps pods off a node is told apart: an operator's cordon, gpu-controller's
// isolation with its cause, another taint.
func TestMay(t *testing.T) {
	isolated := v1.Taint{Key: names.TaintIsolated, Value: "DriverNotReady", Effect: v1.TaintEffectNoSchedule}
	cordon := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	other := v1.Taint{Key: "keep", Value: "out", Effect: v1.TaintEffectNoSchedule}
	all := []v1.Toleration{{Operator: v1.TolerationOpExists}}
	ours := []v1.Toleration{{Key: names.TaintIsolated, Operator: v1.TolerationOpExists}}
	for name, c := range map[string]struct {
		unschedulable bool
		taints        []v1.Taint
		tolerates     []v1.Toleration
		want          explain.Refusal
	}{
		"open":                              {want: explain.Refusal{}},
		"cordoned":                          {unschedulable: true, want: explain.Refusal{Code: explain.Cordoned}},
		"cordoned, as the controller does":  {taints: []v1.Taint{cordon}, want: explain.Refusal{Code: explain.Cordoned}},
		"isolated":                          {unschedulable: true, taints: []v1.Taint{cordon, isolated}, want: explain.Refusal{Code: explain.Isolated, Detail: "DriverNotReady"}},
		"isolated, cordon not yet a taint":  {unschedulable: true, taints: []v1.Taint{isolated}, want: explain.Refusal{Code: explain.Isolated, Detail: "DriverNotReady"}},
		"isolated, uncordoned by hand":      {taints: []v1.Taint{isolated}, want: explain.Refusal{Code: explain.Isolated, Detail: "DriverNotReady"}},
		"isolated, and the taint tolerated": {unschedulable: true, taints: []v1.Taint{isolated}, tolerates: ours, want: explain.Refusal{Code: explain.Isolated, Detail: "DriverNotReady"}},
		"isolated, and all tolerated":       {unschedulable: true, taints: []v1.Taint{isolated}, tolerates: all},
		"another taint":                     {taints: []v1.Taint{other}, want: explain.Refusal{Code: explain.Tainted, Detail: "keep=out:NoSchedule"}},
	} {
		t.Run(name, func(t *testing.T) {
			node := &v1.Node{Spec: v1.NodeSpec{Unschedulable: c.unschedulable, Taints: c.taints}}
			got := explain.Refusal{}
			if r := May(&workload.Rules{Tolerations: c.tolerates}, node); r != nil {
				got = *r
			}
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
