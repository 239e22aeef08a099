package claims

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/kube/dra"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// seenClaim is what of a claim decides about the pods that name it.
type seenClaim struct {
	// About all of them: whether it is there, is allocated, and is charged to a bound pod.
	uid              types.UID
	deleted, charged bool
	allocation       *resourceapi.AllocationResult
	// About one pod each: the first to allocate it, and the one that is counted for it.
	first, carriedBy *v1.Pod
}

// same says whether nothing has changed that matters to all pods that name the claim.
func (s *seenClaim) same(o *seenClaim) bool {
	return s.uid == o.uid && s.deleted == o.deleted && s.charged == o.charged && (s.allocation == o.allocation || equality.Semantic.DeepEqual(s.allocation, o.allocation))
}

// recheck is a pod to be read again.
type recheck struct {
	pod *v1.Pod
	at  time.Time
	// moveOn: the pod has alternatives, and is to ask for the next one.
	moveOn bool
}

// alternativeFor is how long a waiting pod asks for one of its alternatives before it asks
// for the next.
const alternativeFor = 5 * time.Second

// PodRead takes note of the claims that a pod names, after it was read: latest is the pod as
// the store has it, nil when it is gone or has ended. It returns the claims that are to be
// looked at for it, by namespace/name: Update, then Users.
func (c *Claims) PodRead(pod, latest *v1.Pod) (keys []string) {
	switch {
	case c == nil:
		return nil
	case latest != nil:
		return c.book.Set(latest)
	}
	delete(c.rechecks, pod.UID)
	c.shared.setAsk(pod.UID, nil)
	return c.book.Drop(pod)
}

// Users are the pods to be read again after a change of a claim, or of one of the pods that
// name it: all when the claim was allocated, deallocated, made or deleted, else the one with
// which it is to be allocated and the one that is counted for it, before and now, for many
// pods may share a claim. read is the pod that was read just now; nil: the claim itself
// changed.
func (c *Claims) Users(key string, read *v1.Pod) (out []*v1.Pod) {
	was, is := c.seen[key], seenClaim{first: c.book.First(key)}
	if claim := c.book.Claim(key); claim != nil {
		is.uid, is.deleted, is.allocation = claim.UID, claim.DeletionTimestamp != nil, claim.Status.Allocation
		if h := c.book.Holds(is.allocation); !h.Empty() {
			is.carriedBy = c.book.Carrier(claim, &h, c.covers)
			is.charged = c.book.Charged(claim, &h)
		}
	}
	if c.seen[key] = is; is.uid == "" && is.first == nil {
		delete(c.seen, key)
	}
	if !is.same(&was) {
		return c.book.Users(key)
	}
	add := func(p, but *v1.Pod) {
		if p != nil && !samePod(p, but) && !slices.ContainsFunc(out, func(o *v1.Pod) bool { return o.UID == p.UID }) {
			out = append(out, p)
		}
	}
	if !samePod(was.first, is.first) {
		add(was.first, read)
		add(is.first, nil)
	}
	if !samePod(was.carriedBy, is.carriedBy) {
		add(was.carriedBy, read)
	}
	add(is.carriedBy, read)
	return out
}

func samePod(a, b *v1.Pod) bool {
	return a == nil && b == nil || a != nil && b != nil && a.UID == b.UID
}

// Unplaced takes note that devices of a pod, or of a claim (then the pod is nil), are not
// known on their node. key is the pod's UID or the claim's namespace/name.
func (c *Claims) Unplaced(node model.NodeID, key string, pod *v1.Pod) {
	if c.unplaced[node] == nil {
		c.unplaced[node] = map[string]*v1.Pod{}
	}
	c.unplaced[node][key] = pod
}

// NodeChanged returns the pods to be read again, and the claims to be updated, whose devices
// were not known on a node before it changed.
func (c *Claims) NodeChanged(node model.NodeID) (pods []*v1.Pod, keys []string) {
	if c == nil {
		return nil, nil
	}
	for key, pod := range c.unplaced[node] { // sorted below
		if pod != nil {
			pods = append(pods, pod)
		} else {
			keys = append(keys, key)
		}
	}
	delete(c.unplaced, node)
	slices.Sort(keys)
	return byUID(pods), keys
}

func byUID(pods []*v1.Pod) []*v1.Pod {
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}

// Await makes sure that a waiting pod with claims is read again: its claims may never come,
// which it is told; or they turn out not to be about GPUs. member is the pod as a gang's
// member, nil when it is in none. free: the pod is kube-scheduler's to place.
func (c *Claims) Await(pod *v1.Pod, member *workload.Member, now time.Time) (free bool) {
	if c == nil || len(pod.Spec.ResourceClaims) == 0 && !dra.Implicit(pod) || !c.gate.Owns(pod.Spec.SchedulerName) {
		return false
	}
	if key, until := c.Vacated(pod); key != "" {
		c.rechecks[pod.UID] = recheck{pod: pod, at: until}
		return false
	}
	if member != nil {
		ask := member.Ask
		r, there := c.rechecks[pod.UID]
		switch {
		case ask == nil || !ask.Alternatives || c.gate.KeepsPlace(pod):
			delete(c.rechecks, pod.UID)
		case !there || !r.moveOn:
			c.rechecks[pod.UID] = recheck{pod: pod, at: now.Add(alternativeFor), moveOn: true}
		}
		return false
	}
	if !c.gate.Manages(pod) {
		return true
	}
	if at := pod.CreationTimestamp.Add(workload.ClaimsFor + time.Second); at.After(now) {
		c.rechecks[pod.UID] = recheck{pod: pod, at: at}
	}
	return false
}

// Due are the pods to be read again by now: their claims are missing, or they are to move on
// to their next alternative.
func (c *Claims) Due(now time.Time) (out []*v1.Pod) {
	if c == nil {
		return nil
	}
	for uid, r := range c.rechecks { // sorted below
		if r.at.After(now) {
			continue
		}
		delete(c.rechecks, uid)
		if r.moveOn && !c.gate.KeepsPlace(r.pod) {
			c.book.MoveOn(r.pod)
		}
		out = append(out, r.pod)
	}
	return byUID(out)
}

// Next is when Due or GiveBack have something to say; the zero time when they have not.
func (c *Claims) Next() (first time.Time) {
	if c == nil {
		return first
	}
	sooner := func(at time.Time) {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	for _, r := range c.rechecks {
		sooner(r.at)
	}
	for _, l := range c.left {
		if !l.underWay {
			sooner(l.at)
		}
	}
	return first
}

// Evaluated are the pods to be read again, which waited for selectors that were evaluated,
// and no others: a tenant's many selectors cost that tenant's pods alone.
func (c *Claims) Evaluated(key string) []*v1.Pod { return byUID(c.shared.evaluated(key)) }

// Waiting are the waiting pods with claims, to be read again when selectors match other
// devices than before.
func (c *Claims) Waiting() []*v1.Pod {
	return byUID(slices.DeleteFunc(c.book.AllUsers(), func(p *v1.Pod) bool { return p.Spec.NodeName != "" }))
}

// WaitingByClass are the waiting pods to be read again when a DeviceClass has changed.
func (c *Claims) WaitingByClass() []*v1.Pod {
	all, _ := c.pods.List(labels.Everything()) // the store knows no error
	implicit := slices.DeleteFunc(all, func(p *v1.Pod) bool { return p.Spec.NodeName != "" || !dra.Implicit(p) })
	return append(c.Waiting(), byUID(implicit)...)
}
