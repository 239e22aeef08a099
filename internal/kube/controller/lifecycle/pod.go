package lifecycle

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
)

// Pod is what a decision needs to know about a pod of the job.
type Pod struct {
	Slot
	Name    string
	UID     types.UID
	Version int32 // the job's version when it was created
	Phase   v1.PodPhase
	Leaving bool // it is being deleted
	Evicted bool // it was evicted (DisruptionTarget, or by the kubelet), whether or not the object is deleted
	// ExitCodes are the non-zero ones of its containers.
	ExitCodes []int32
	Restarts  int32     // of its containers, in place
	Since     time.Time // when it got into its phase, or began to leave
}

// Ended says whether the pod has succeeded or failed.
func (p *Pod) Ended() bool { return p.Phase == v1.PodSucceeded || p.Phase == v1.PodFailed }

// PodOf reads a pod. Invalid annotations give a slot that no task has: the pod is
// deleted and created again.
func PodOf(in *v1.Pod) Pod {
	index, err := strconv.ParseInt(in.Annotations[batch.TaskIndex], 10, 32)
	if err != nil {
		index = -1
	}
	version, err := strconv.ParseInt(in.Annotations[batch.JobVersion], 10, 32)
	if err != nil {
		version = -1
	}
	p := Pod{
		Slot: Slot{Task: in.Annotations[batch.TaskSpecKey], Index: int32(index)},
		Name: in.Name, UID: in.UID, Version: int32(version), Phase: cmp.Or(in.Status.Phase, v1.PodPending),
		Leaving: in.DeletionTimestamp != nil,
		Since:   in.CreationTimestamp.Time,
	}
	for _, c := range in.Status.Conditions {
		if c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue {
			p.Evicted = true
		}
		if c.Type == v1.PodReady && p.Phase != v1.PodPending && c.LastTransitionTime.After(p.Since) {
			p.Since = c.LastTransitionTime.Time
		}
	}
	p.Evicted = p.Evicted || in.Status.Reason == "Evicted" // set by kubelet
	for _, c := range slices.Concat(in.Status.InitContainerStatuses, in.Status.ContainerStatuses) {
		p.Restarts += c.RestartCount
		if end := c.State.Terminated; end != nil {
			if end.ExitCode != 0 {
				p.ExitCodes = append(p.ExitCodes, end.ExitCode)
			}
			if p.Ended() && end.FinishedAt.After(p.Since) {
				p.Since = end.FinishedAt.Time
			}
		}
	}
	if p.Leaving {
		p.Since = in.DeletionTimestamp.Time
		if s := in.DeletionGracePeriodSeconds; s != nil {
			p.Since = p.Since.Add(-time.Duration(*s) * time.Second)
		}
	}
	return p
}
