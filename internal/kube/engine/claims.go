package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/dra"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// claims is what the engine remembers of ResourceClaims. It is guarded by the engine's
// lock but for asks.
type claims struct {
	// standing are claims that hold devices in the ledger for themselves, by
	// namespace/name.
	standing map[string]model.HolderID
	// pending are claims that a scheduling cycle has allocated and the API has not yet.
	pending map[model.HolderID]bool
	// seen is what the pods that name a claim were last looked at for, by namespace/name.
	seen map[string]seenClaim
	// rechecks are pods whose claims are missing, and when to look again.
	rechecks map[types.UID]recheck
	// unplaced are pods and claims whose devices were not known on their node, by node.
	unplaced map[model.NodeID]map[string]*v1.Pod
	// asks is what pods' claims asked for when their places were planned.
	asks sync.Map // types.UID -> *dra.Ask
	// left are allocated claims that may be given back, by namespace/name; leads: a step was
	// made, so this process leads.
	left  map[string]*leftover
	leads bool
	// vacated are shared claims whose users were evicted together, and until when no pod
	// starts with them.
	vacated sync.Map // namespace/name -> time.Time
	// awaiting are pods that wait for selectors to be evaluated, by the selectors' key.
	awaiting awaiting
}

// awaiting has a lock of its own: pods are read by who does not hold the engine's.
type awaiting struct {
	mu   sync.Mutex
	pods map[string]map[types.UID]*v1.Pod
}

func (a *awaiting) add(key string, pod *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods == nil {
		a.pods = map[string]map[types.UID]*v1.Pod{}
	}
	if a.pods[key] == nil {
		a.pods[key] = map[types.UID]*v1.Pod{}
	}
	a.pods[key][pod.UID] = pod
}

func (a *awaiting) take(key string) map[types.UID]*v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.pods[key]
	delete(a.pods, key)
	return out
}

// seenClaim is what of a claim decides about the pods that name it.
type seenClaim struct {
	// About all of them: whether it is there, is allocated, and is charged to a bound pod.
	uid              types.UID
	deleted, charged bool
	allocation       *resourceapi.AllocationResult
	// About one pod each: the one with which it is allocated, and the one that is counted
	// for it.
	first, carriedBy *v1.Pod
}

// same says whether nothing has changed that matters to all pods that name the claim.
func (s *seenClaim) same(o *seenClaim) bool {
	return s.uid == o.uid && s.deleted == o.deleted && s.charged == o.charged && (s.allocation == o.allocation || equality.Semantic.DeepEqual(s.allocation, o.allocation))
}

type recheck struct {
	pod *v1.Pod
	at  time.Time
	// moveOn: the pod has alternatives, and is to ask for the next one.
	moveOn bool
}

// alternativeFor is how long a waiting pod asks for one of its alternatives before it asks
// for the next.
const alternativeFor = 5 * time.Second

// FollowClaims makes the engine follow ResourceSlices, ResourceClaims and DeviceClasses. It
// is called before the informers are started.
func (e *Engine) FollowClaims(ctx context.Context, factory informers.SharedInformerFactory) error {
	push := func(k kind) func(string) {
		return func(key string) { e.feed.push(event{kind: k, key: key}, nil) }
	}
	book, err := dra.New(factory, dra.Changes{
		Node: push(aboutNode), Matched: push(aboutMatches), Evaluated: push(aboutSelectors), Claim: push(aboutClaim), Classes: func() { push(aboutClasses)("") },
	})
	if err != nil {
		return err
	}
	e.useBook(book)
	e.synced = append(e.synced, book.Synced()...)
	go book.Run(ctx)
	return nil
}

// useBook makes the engine read claims from a book.
func (e *Engine) useBook(book *dra.Book) {
	e.book = book
	e.claims.standing, e.claims.pending = map[string]model.HolderID{}, map[model.HolderID]bool{}
	e.claims.seen, e.claims.left = map[string]seenClaim{}, map[string]*leftover{}
	e.claims.rechecks, e.claims.unplaced = map[types.UID]recheck{}, map[model.NodeID]map[string]*v1.Pod{}
	e.inventory.SetDevices(book)
	e.reader.Claims = e.ask
}

// ask is what a pod's claims mean. Of a pod that is on its way to its place, or tries to get
// there again, it is what was planned for: meanwhile its claims are allocated one by one.
func (e *Engine) ask(pod *v1.Pod) (*dra.Ask, error) {
	if !hasClaims(pod) && !dra.Implicit(pod) {
		return nil, nil
	}
	if pod.Spec.NodeName == "" && e.keepsPlace(pod) {
		if a, ok := e.claims.asks.Load(pod.UID); ok {
			return a.(*dra.Ask), nil
		}
	}
	if key, _ := e.vacated(pod); key != "" && pod.Spec.NodeName == "" {
		return nil, errVacated(key)
	}
	a, err := e.book.Ask(pod)
	if key := dra.AwaitedSelectors(err); key != "" {
		e.claims.awaiting.add(key, pod)
	}
	if err == nil && a != nil && pod.Spec.NodeName == "" {
		e.claims.asks.Store(pod.UID, a)
	} else {
		e.claims.asks.Delete(pod.UID)
	}
	return a, err
}

// sameClaims says whether a pod was given the same claims.
func sameClaims(o, n *v1.Pod) bool {
	a, b := o.Status.ExtendedResourceClaimStatus, n.Status.ExtendedResourceClaimStatus
	if (a == nil) != (b == nil) || a != nil && a.ResourceClaimName != b.ResourceClaimName {
		return false
	}
	return slices.EqualFunc(o.Status.ResourceClaimStatuses, n.Status.ResourceClaimStatuses, func(x, y v1.PodResourceClaimStatus) bool {
		return x.Name == y.Name && (x.ResourceClaimName == nil) == (y.ResourceClaimName == nil) && (x.ResourceClaimName == nil || *x.ResourceClaimName == *y.ResourceClaimName)
	})
}

// hasClaims says whether a pod may be given devices by claims.
func hasClaims(p *v1.Pod) bool {
	return len(p.Spec.ResourceClaims) > 0 || p.Status.ExtendedResourceClaimStatus != nil
}

// claimsOf is what a bound pod holds, by itself and by claims; all: its node has every
// device that claims name. It waits for no lock but the book's.
func (e *Engine) claimsOf(pod *v1.Pod, node func() *model.Node) (out []ledger.Claim, all bool, problem error) {
	out, problem = dialect.Claims(pod)
	if e.book == nil || !hasClaims(pod) {
		return out, true, problem
	}
	out, all = e.book.AddTo(pod, out)
	n := node()
	if n == nil {
		return out, false, problem
	}
	for i := range out {
		all = number(&out[i], n) && all
	}
	return out, all, problem
}

// described is a node as the stores have it, for those who hold no lock.
func (e *Engine) described(name string) *model.Node {
	if d, there := e.inventory.Describe(name); there {
		return d.Node
	}
	return nil
}

// claimsLag says whether a pod is seen bound before the allocation of its claims is seen,
// which was written before: two informers do not keep in step. What the ledger assumed for
// the pod is right meanwhile.
func (e *Engine) claimsLag(pod *v1.Pod) bool {
	return e.book != nil && len(pod.Spec.ResourceClaims) > 0 && e.core.Assumes(model.HolderID(pod.UID)) && !e.book.Allocated(pod)
}

// number finds the index of each device that a claim names by UUID: the ledger knows
// devices by both. It says whether all were found.
func number(c *ledger.Claim, n *model.Node) bool {
	all := true
	find := func(ref *ledger.DeviceRef) {
		if ref.Index >= 0 {
			return
		}
		if slot := n.Slot(ref.Index, ref.UUID); slot >= 0 {
			ref.Index = n.Devices[slot].Index
		} else {
			all = false
		}
	}
	c.Devices, c.Parts = slices.Clone(c.Devices), slices.Clone(c.Parts)
	for i := range c.Devices {
		find(&c.Devices[i])
	}
	for i := range c.Parts {
		if c.Parts[i].Known {
			find(&c.Parts[i].Device)
		}
	}
	return all
}

// covers says whether the ledger holds all cards of a claim's hold for a pod that is not
// bound. One that was planned after its claim was allocated has none of them.
func (e *Engine) covers(p *v1.Pod, h *dra.Hold) bool {
	node, set := e.core.Held(model.HolderID(p.UID))
	if set == 0 || node != model.NodeID(h.Node) {
		return false
	}
	n := e.core.Inventory(node)
	if n == nil {
		return false
	}
	want := cards(h, n)
	return want != 0 && want&^set == 0
}

// standingClaims are claims that hold devices for themselves, by node.
func (e *Engine) standingClaims() map[string][]ledger.Claim {
	if e.book == nil {
		return nil
	}
	out := e.book.Standing(func(p *v1.Pod, h *dra.Hold) (ok bool) {
		e.do("check", func(time.Time) { ok = e.covers(p, h) })
		return ok
	})
	for node, list := range out {
		if n := e.described(node); n != nil {
			for i := range list {
				number(&list[i], n)
			}
		}
	}
	return out
}

// claimHolders are the names under which claims hold devices for themselves. The caller
// holds the lock.
func (e *Engine) claimHolders() (out []model.HolderID) {
	for _, h := range e.claims.standing {
		out = append(out, h)
	}
	return out
}

// syncClaimsOf takes note of which claims a pod names, after the pod was looked at.
func (e *Engine) syncClaimsOf(pod *v1.Pod, now time.Time) {
	if e.book == nil {
		return
	}
	latest, err := e.pods.Pods(pod.Namespace).Get(pod.Name)
	var keys []string
	if err != nil || latest.UID != pod.UID || latest.Status.Phase == v1.PodSucceeded || latest.Status.Phase == v1.PodFailed {
		keys = e.book.Drop(pod)
		delete(e.claims.rechecks, pod.UID)
		e.claims.asks.Delete(pod.UID)
	} else {
		keys = e.book.Set(latest)
	}
	for _, key := range keys {
		e.stand(key, now)
		e.syncUsers(key, pod, now)
	}
}

// syncClaim looks at a claim, and at the pods that name it.
func (e *Engine) syncClaim(key string, now time.Time) {
	e.syncUsers(key, nil, now)
	e.stand(key, now)
}

// syncUsers looks at the pods whose fate a change of a claim, or of one of the pods that
// name it, decides: at all when the claim was allocated, deallocated, made or deleted, else
// at the one with which it is to be allocated and the one that is counted for it, before and
// now, for many pods may share a claim. looked: the pod that was just looked at; nil: the claim
// itself changed.
func (e *Engine) syncUsers(key string, looked *v1.Pod, now time.Time) {
	was, is := e.claims.seen[key], seenClaim{first: e.book.First(key)}
	if c := e.book.Claim(key); c != nil {
		is.uid, is.deleted, is.allocation = c.UID, c.DeletionTimestamp != nil, c.Status.Allocation
		if h := e.book.Holds(is.allocation); !h.Empty() {
			is.carriedBy = e.book.Carrier(c, &h, e.covers)
			is.charged = e.book.Charged(c, &h)
		}
	}
	if e.claims.seen[key] = is; is.uid == "" && is.first == nil {
		delete(e.claims.seen, key)
	}
	if !is.same(&was) {
		for _, p := range e.book.Users(key) {
			e.syncPod(p, now)
		}
		return
	}
	var some []*v1.Pod
	add := func(p *v1.Pod) {
		if p != nil && !slices.ContainsFunc(some, func(o *v1.Pod) bool { return o.UID == p.UID }) {
			some = append(some, p)
		}
	}
	others := func(p *v1.Pod) {
		if looked == nil || !samePod(looked, p) {
			add(p)
		}
	}
	if !samePod(was.first, is.first) {
		others(was.first)
		add(is.first)
	}
	if !samePod(was.carriedBy, is.carriedBy) {
		others(was.carriedBy)
	}
	others(is.carriedBy)
	for _, p := range some {
		e.syncPod(p, now)
	}
}

func samePod(a, b *v1.Pod) bool {
	return a == nil && b == nil || a != nil && b != nil && a.UID == b.UID
}

// stand makes the ledger's view of a claim that no pod carries equal to what the stores
// say.
func (e *Engine) stand(key string, now time.Time) {
	defer e.lookLeft(key, now)
	h, stood := e.claims.standing[key]
	node, _ := e.core.Held(h)
	e.place(key, h, stood)
	if after, _ := e.core.Held(e.claims.standing[key]); after != "" && after != node {
		e.findContested(after, now)
	}
	if node != "" {
		e.findContested(node, now) // what it gave free may settle a contest
	}
}

// place is stand, but for contests.
func (e *Engine) place(key string, h model.HolderID, stood bool) {
	c := e.book.Claim(key)
	if c != nil {
		if hold := e.book.Holds(c.Status.Allocation); hold.Missing != "" {
			e.await(model.NodeID(hold.Missing), key, nil)
		}
		e.written(c)
		if node, claim, ok := e.book.Stands(c, e.covers); ok {
			if stood && h != claim.Holder {
				e.core.Ended(h)
			}
			id := model.NodeID(node)
			if n := e.core.Inventory(id); n == nil || !number(&claim, n) {
				e.await(id, key, nil)
			}
			e.core.Bound(id, []model.HolderID{claim.Holder}, []ledger.Claim{claim})
			e.claims.standing[key] = claim.Holder
			delete(e.claims.pending, claim.Holder)
			return
		}
		if own := dra.Holder(c.UID); e.claims.pending[own] && c.Status.Allocation == nil {
			return // its allocation is on its way
		}
	}
	e.fall(key)
}

// await takes note that devices of a pod, or of a claim, are not known on their node.
func (e *Engine) await(node model.NodeID, key string, pod *v1.Pod) {
	if e.claims.unplaced[node] == nil {
		e.claims.unplaced[node] = map[string]*v1.Pod{}
	}
	e.claims.unplaced[node][key] = pod
}

// placeClaims looks again at claims whose devices were not known on a node that changed.
func (e *Engine) placeClaims(node model.NodeID, now time.Time) {
	list := e.claims.unplaced[node]
	delete(e.claims.unplaced, node)
	for key, pod := range list {
		if pod != nil {
			e.syncPod(pod, now)
		} else {
			e.stand(key, now)
		}
	}
}

// awaitClaims makes sure that a waiting pod with claims is looked at again: its claims may
// never come, which it is told; or they turn out not to be about GPUs.
func (e *Engine) awaitClaims(pod *v1.Pod, now time.Time) {
	if e.book == nil || len(pod.Spec.ResourceClaims) == 0 && !dra.Implicit(pod) || !e.reader.Owns(pod.Spec.SchedulerName) {
		return
	}
	if key, until := e.vacated(pod); key != "" {
		e.claims.rechecks[pod.UID] = recheck{pod: pod, at: until}
		return
	}
	if m := e.work.Member(model.HolderID(pod.UID)); m != nil {
		r, there := e.claims.rechecks[pod.UID]
		switch {
		case m.Ask() == nil || !m.Ask().Alternatives || e.keepsPlace(pod):
			delete(e.claims.rechecks, pod.UID)
		case !there || !r.moveOn:
			e.claims.rechecks[pod.UID] = recheck{pod: pod, at: now.Add(alternativeFor), moveOn: true}
		}
		return
	}
	if !e.Manages(pod) {
		e.outbox.activate = append(e.outbox.activate, pod)
		return
	}
	if at := pod.CreationTimestamp.Add(workload.ClaimsFor + time.Second); at.After(now) {
		e.claims.rechecks[pod.UID] = recheck{pod: pod, at: at}
	}
}

// recheckClaims looks again at pods whose claims are missing, and lets pods move on to their
// next alternative.
func (e *Engine) recheckClaims(now time.Time) {
	for uid, r := range e.claims.rechecks {
		if !r.at.After(now) {
			delete(e.claims.rechecks, uid)
			if r.moveOn && !e.keepsPlace(r.pod) {
				e.book.MoveOn(r.pod)
			}
			e.syncPod(r.pod, now)
		}
	}
}

func (e *Engine) nextRecheck() (first time.Time) {
	for _, r := range e.claims.rechecks {
		if first.IsZero() || r.at.Before(first) {
			first = r.at
		}
	}
	return first
}

// claimsAgain has the claims of a pod looked at whose start was taken back: some may have
// been allocated meanwhile.
func (e *Engine) claimsAgain(pod *v1.Pod) {
	if e.book != nil && hasClaims(pod) {
		e.feed.push(event{kind: aboutPod, key: string(pod.UID)}, pod)
	}
}

// selectorsKnown looks again at the pods that wait for selectors that were evaluated, and at
// no others: a tenant's many selectors cost that tenant's pods alone.
func (e *Engine) selectorsKnown(key string, now time.Time) {
	for _, p := range e.claims.awaiting.take(key) {
		e.syncPod(p, now)
	}
}

// matchesChanged looks again at waiting pods with claims: selectors match other devices of
// a node than before.
func (e *Engine) matchesChanged(node string, now time.Time) {
	for _, p := range e.book.AllUsers() {
		if p.Spec.NodeName == "" {
			e.syncPod(p, now)
		}
	}
	if node != "" {
		e.core.NodeRulesChanged(model.NodeID(node))
	}
}

// classesChanged looks again at everything that DeviceClasses decide.
func (e *Engine) classesChanged(now time.Time) {
	for _, d := range e.inventory.All() {
		if len(d.Published) > 0 {
			e.syncNode(d.Object.Name, now)
		}
	}
	e.matchesChanged("", now)
	pods, _ := e.pods.List(labels.Everything()) // the store knows no error
	for _, p := range pods {
		if p.Spec.NodeName == "" && dra.Implicit(p) {
			e.syncPod(p, now)
		}
	}
	e.core.Changed()
}

// Allocated tells which GPUs kube-scheduler's allocator has chosen for a pod's claims: what
// was planned, or, where the allocator was to choose, something else on the planned node.
// The error says why the ledger does not agree.
func (e *Engine) Allocated(pod *v1.Pod, t engine.Ticket, loose bool, list []*resourceapi.ResourceClaim) (r engine.Release, refusal *explain.Refusal) {
	h := model.HolderID(pod.UID)
	e.do("allocated", func(time.Time) {
		var ok bool
		if r, ok = e.core.Release(h); !ok || r.Ticket != t {
			refusal = &explain.Refusal{Code: explain.Taken}
			return
		}
		all := ledger.Claim{Vendor: model.NVIDIA}
		m := e.work.Member(h)
		for _, c := range list {
			if m != nil && m.Ask().Uses(c.Name) {
				refusal = &explain.Refusal{Code: explain.Taken} // planned with its allocation, which was given back since
				return
			}
			hold := e.book.Holds(c.Status.Allocation, string(r.Node.ID))
			if hold.Empty() {
				continue
			}
			if hold.Node != string(r.Node.ID) {
				refusal = &explain.Refusal{Code: explain.Taken}
				return
			}
			one := hold.Claim(h)
			all.Count += one.Count
			all.Devices, all.Parts = append(all.Devices, one.Devices...), append(all.Parts, one.Parts...)
		}
		if len(all.Devices)+len(all.Parts) == 0 {
			return // its claims are for other devices: GPUs it asks for as a resource
		}
		number(&all, r.Node)
		if !loose {
			var set model.Mask
			for _, d := range all.Devices {
				set = set.With(max(0, r.Node.Slot(d.Index, d.UUID)))
			}
			for _, p := range all.Parts {
				set = set.With(max(0, r.Node.Slot(p.Device.Index, p.Device.UUID)))
			}
			if set&^r.Grant.Set != 0 || len(all.Parts) == 0 && set != r.Grant.Set {
				refusal = &explain.Refusal{Code: explain.Taken}
			}
			return
		}
		r, refusal = e.core.Settle(h, t, all)
	})
	return r, refusal
}

// Pend holds the GPUs that kube-scheduler's allocator has chosen for claims of a pod that
// the engine does not place. It says why not when others hold them: then none is held.
func (e *Engine) Pend(list []*resourceapi.ResourceClaim) (refusal *explain.Refusal) {
	e.do("allocated", func(time.Time) {
		for i, c := range list {
			hold := e.book.Holds(c.Status.Allocation)
			if hold.Empty() {
				continue
			}
			key, holder := pendingAs(c)
			claim := hold.Claim(holder)
			if n := e.core.Inventory(model.NodeID(hold.Node)); n != nil {
				number(&claim, n)
			}
			if refusal = e.core.Pend(model.NodeID(hold.Node), claim); refusal != nil {
				e.unpend(list[:i])
				return
			}
			e.claims.pending[claim.Holder] = true
			e.claims.standing[key] = claim.Holder
		}
	})
	return refusal
}

// Unpend takes back what Pend held, unless the API has confirmed it meanwhile.
func (e *Engine) Unpend(list []*resourceapi.ResourceClaim) {
	if len(list) > 0 {
		e.do("allocated", func(time.Time) { e.unpend(list) })
	}
}

func (e *Engine) unpend(list []*resourceapi.ResourceClaim) {
	for _, c := range list {
		if key, h := pendingAs(c); e.claims.pending[h] {
			e.fall(key)
			e.feed.push(event{kind: aboutClaim, key: c.Namespace + "/" + c.Name}, nil)
		}
	}
}

// takeOver ends what claims hold for themselves that a bound pod is counted for from now on.
// The caller tells of the pod next, under the same lock: at no moment are the devices free,
// and at no moment do both hold them.
func (e *Engine) takeOver(pod *v1.Pod) {
	if e.book == nil {
		return
	}
	for _, key := range e.book.Carried(pod) {
		e.fall(key)
	}
	if e.claims.pending[dra.Holder(pod.UID)] && e.book.ExtendedSeen(pod) {
		e.fall(unwrittenKey(pod.UID))
	}
}

// pendingAs is under which key and holder a claim is held that the API does not have
// allocated yet. One for extended resources is not even written: it is known by its pod.
func pendingAs(c *resourceapi.ResourceClaim) (key string, h model.HolderID) {
	if pod := dra.Unwritten(c); pod != "" {
		return unwrittenKey(pod), dra.Holder(pod)
	}
	return c.Namespace + "/" + c.Name, dra.Holder(c.UID)
}

// unwrittenKey is no claim's namespace and name.
func unwrittenKey(pod types.UID) string { return "/" + string(pod) }

// fall ends what a claim holds for itself, if it does.
func (e *Engine) fall(key string) {
	if h, stood := e.claims.standing[key]; stood {
		e.core.Ended(h)
		delete(e.claims.standing, key)
		delete(e.claims.pending, h)
	}
}

// written ends what is held for a pod's extended resources once the claim is seen that was
// written for them, which holds the same devices.
func (e *Engine) written(c *resourceapi.ResourceClaim) {
	pod := dra.ForExtended(c)
	if pod == "" || !e.claims.pending[dra.Holder(pod)] {
		return
	}
	hold := e.book.Holds(c.Status.Allocation)
	n := e.core.Inventory(model.NodeID(hold.Node))
	if _, set := e.core.Held(dra.Holder(pod)); n != nil && set != 0 && set&^cards(&hold, n) == 0 {
		e.fall(unwrittenKey(pod))
	}
}

// cards are the cards of a node that a hold names.
func cards(h *dra.Hold, n *model.Node) (set model.Mask) {
	add := func(uuid string) {
		if slot := n.Slot(-1, uuid); slot >= 0 {
			set = set.With(slot)
		}
	}
	for _, card := range h.Whole {
		add(card)
	}
	for _, p := range h.Parts {
		add(p.Device.UUID)
	}
	return set
}

// Taken are the cards of a node, by UUID, that the ledger holds for others than a pod.
func (e *Engine) Taken(node string, but types.UID) (out map[string]bool) {
	e.do("allocated", func(time.Time) { out = e.taken(model.NodeID(node), model.HolderID(but)) })
	return out
}

// AllTaken is Taken of all nodes that publish GPUs.
func (e *Engine) AllTaken(nodes []string, but types.UID) map[string]map[string]bool {
	out := make(map[string]map[string]bool, len(nodes))
	e.do("allocated", func(time.Time) {
		for _, node := range nodes {
			out[node] = e.taken(model.NodeID(node), model.HolderID(but))
		}
	})
	return out
}

func (e *Engine) taken(node model.NodeID, but model.HolderID) map[string]bool {
	n := e.core.Inventory(node)
	if n == nil {
		return nil
	}
	out := map[string]bool{}
	for slot := range e.core.Unfree(node, but).Slots() {
		out[n.Devices[slot].UUID] = true
	}
	return out
}

// Published are the GPUs that a node publishes; none where they are not watched.
func (e *Engine) Published(node string) []dialect.Published {
	if e.book == nil {
		return nil
	}
	return e.book.Published(node)
}

// PublishingNodes are the nodes that publish GPUs.
func (e *Engine) PublishingNodes() []string {
	if e.book == nil {
		return nil
	}
	return e.book.Nodes()
}

// ByClaim says whether the pod's GPUs are asked for through ResourceClaims.
func (c *Cycle) ByClaim() bool { return c.Claims != nil && c.Claims.By != nil }

// ClaimsGPUs is the field by which a pod asks for GPUs through ResourceClaims, allocated or
// not; empty when it does not.
func (e *Engine) ClaimsGPUs(pod *v1.Pod) (field string, err error) {
	if e.book == nil || len(pod.Spec.ResourceClaims) == 0 {
		return "", nil
	}
	return e.book.ClaimsGPUs(pod)
}

// ByClaims says whether a pod's GPUs come, or may come, by claims: then the plan alone
// decides where it goes. It waits for no lock.
func (e *Engine) ByClaims(pod *v1.Pod, planned model.NodeID) bool {
	if e.book == nil {
		return false
	}
	return len(pod.Spec.ResourceClaims) > 0 || len(e.book.Backed()) > 0 && len(e.book.Published(string(planned))) > 0
}
