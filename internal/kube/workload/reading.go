package workload

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Reading is what a pod says by itself of its gang and of what it asks for, whatever its
// owners, its claims and its profile say. It is shared and must not be changed.
type Reading struct {
	pod    *v1.Pod
	levels topology.Levels
	// Membership is the pod's gang; MembershipErr names the field that is wrong.
	Membership    dialect.Membership
	MembershipErr error
	// Request is nil when the pod asks for no GPU; RequestErr names the field that is wrong.
	Request    *model.Request
	RequestErr error
}

// maxReadings bounds how many readings are kept. Those of pods that wait are dropped when
// the pods are bound or gone; a pod may be asked about once more after that.
const maxReadings = 50_000

// Read reads a pod. Each version of it is read once: for the gate, the waiting room, the gang
// and the scheduling cycle, or for the planner and the gang when it is bound.
func (r *Reader) Read(pod *v1.Pod) *Reading {
	levels := r.Levels()
	kept := r.bound.Load()
	if waiting, ok := r.readings.Load(pod.UID); ok {
		kept = waiting.(*Reading)
	}
	if kept != nil && kept.is(pod) && slices.Equal(kept.levels, levels) {
		return kept
	}
	x := &Reading{pod: pod, levels: levels}
	x.Membership, x.MembershipErr = dialect.MembershipOf(pod)
	x.Request, x.RequestErr = dialect.RequestOn(pod, levels)
	r.parsed.Add(1)
	if pod.Spec.NodeName != "" {
		r.bound.Store(x)
		return x
	}
	if _, there := r.readings.Swap(pod.UID, x); !there && r.kept.Add(1) > maxReadings {
		r.readings.Clear()
		r.kept.Store(0)
	}
	return x
}

// is says whether a reading is of this version of a pod.
func (x *Reading) is(pod *v1.Pod) bool {
	return x.pod == pod || pod.ResourceVersion != "" && x.pod.ResourceVersion == pod.ResourceVersion && x.pod.UID == pod.UID
}

// Forget drops the reading of a pod that is bound or gone.
func (r *Reader) Forget(uid types.UID) {
	if _, there := r.readings.LoadAndDelete(uid); there {
		r.kept.Add(-1)
	}
}

// Parsed is how many readings were made: a measure of what pods cost.
func (r *Reader) Parsed() int64 { return r.parsed.Load() }
