package arbiter

import (
	"slices"
	"time"
)

// Names of the two queues that always exist.
const (
	// Root is the queue above all others. It takes no jobs.
	Root = "root"
	// Default takes the jobs that name no queue.
	Default = "default"
)

// DefaultAging is how long a job waits before it goes ahead of its queue's order
// where the queue says nothing: shorter than a working day, so that a job submitted in
// the morning has waited long enough by the evening.
const DefaultAging = 6 * time.Hour

// MaxWeight bounds Queue.Weight, so that shares compare exactly.
const MaxWeight = 1 << 20

// Queue says how much its jobs may use. Jobs go to leaves only; the queues above
// divide what they have among those below.
//
// Invariant, per resource: Guarantee <= Deserved <= Capability.
type Queue struct {
	Name string
	// Parent is the queue above; empty is Root.
	Parent string
	// Weight is the queue's part of what siblings divide; 0 counts as 1.
	Weight int64
	// Priority puts a queue before siblings of lower priority, whatever their
	// shares. Only a sibling within its guarantee goes before it.
	Priority int32
	// Guarantee is kept for the queue even while it is idle: no other queue may use it.
	// Absent: nothing is kept.
	Guarantee map[Resource]int64
	// Deserved replaces the weight for the resources it names: the queue is
	// entitled to that much, and lends what it does not want. Absent: by weight.
	Deserved map[Resource]int64
	// Capability is the most it may use, lent or not. Absent: no limit.
	Capability map[Resource]int64
	// Reclaimable says that others may take back what this queue uses above its
	// share.
	Reclaimable bool
	// Closed keeps waiting jobs waiting; what runs goes on.
	Closed bool
	// Namespaces are those whose jobs the queue takes, and the queues below it; empty: of
	// all. Jobs of other namespaces wait, and what they run counts against the cluster alone.
	Namespaces []string
	// Order is the order of the jobs inside the queue.
	Order Policy
	// Aging is how long a job waits before it goes ahead of Order: then only jobs
	// of this queue that were submitted before it are offered before it. 0 is
	// DefaultAging, negative is never.
	Aging time.Duration
	// MinRuntime is how long jobs of the queue, and of the queues below it that name none,
	// are left alone once they run.
	MinRuntime time.Duration
}

func (q *Queue) weight() int64 { return max(q.Weight, 1) }

// takes says whether the queue's own list lets the jobs of a namespace in.
func (q *Queue) takes(namespace string) bool {
	return len(q.Namespaces) == 0 || slices.Contains(q.Namespaces, namespace)
}

func (q *Queue) aging() time.Duration {
	if q.Aging == 0 {
		return DefaultAging
	}
	return q.Aging
}

// Quota is the most that a namespace's jobs may use of some resources, whatever
// queues they are in. It is one more limit beside the cluster's own
// ResourceQuota objects: a job needs room in both.
type Quota struct {
	Namespace string
	Hard      map[Resource]int64
}
