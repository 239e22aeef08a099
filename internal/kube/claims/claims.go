package claims

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/dra"
)

// Gate says whether pods are the engine's and have a place. It takes no lock.
type Gate interface {
	Owns(schedulerName string) bool
	Manages(*v1.Pod) bool
	KeepsPlace(*v1.Pod) bool
}

// Claims is what is remembered of ResourceClaims.
type Claims struct {
	book   *dra.Book
	ledger coreanswer.Nodes
	gate   Gate
	pods   corelisters.PodLister
	clock  func() time.Time

	// own are claims that hold devices in their own name, by namespace/name; pending are
	// those of them that a scheduling cycle has allocated and the API has not yet.
	own     map[string]model.HolderID
	pending map[model.HolderID]bool
	// seen is what the pods that name a claim were last read for, by namespace/name.
	seen map[string]seenClaim
	// rechecks are pods to be read again at a time.
	rechecks map[types.UID]recheck
	// unplaced are pods and claims whose devices were not known on their node, by node.
	unplaced map[model.NodeID]map[string]*v1.Pod
	left     map[string]*leftover // allocated claims that may be given back, by namespace/name
	shared   shared               // read and written also without the engine's lock
}

// New returns a Claims that reads a book.
func New(book *dra.Book, l coreanswer.Nodes, g Gate, pods corelisters.PodLister, clock func() time.Time) *Claims {
	return &Claims{
		book: book, ledger: l, gate: g, pods: pods, clock: clock,
		own: map[string]model.HolderID{}, pending: map[model.HolderID]bool{}, seen: map[string]seenClaim{}, left: map[string]*leftover{},
		rechecks: map[types.UID]recheck{}, unplaced: map[model.NodeID]map[string]*v1.Pod{},
		shared: shared{asks: map[types.UID]*dra.Ask{}, vacated: map[string]time.Time{}, awaiting: map[string]map[types.UID]*v1.Pod{}},
	}
}

// Ask is what a pod's claims mean. Of a pod that is on its way to its place, or tries to get
// there again, it is what was planned for: meanwhile its claims are allocated one by one. It
// is safe for concurrent use.
func (c *Claims) Ask(pod *v1.Pod) (*dra.Ask, error) {
	if !hasClaims(pod) && !dra.Implicit(pod) {
		return nil, nil
	}
	waits := pod.Spec.NodeName == ""
	if waits && c.gate.KeepsPlace(pod) {
		if a := c.shared.ask(pod.UID); a != nil {
			return a, nil
		}
	}
	if key, _ := c.Vacated(pod); key != "" && waits {
		return nil, &dra.Wait{Why: fmt.Sprintf("ResourceClaim %s is given back: the pods that used it were evicted together", key)}
	}
	a, err := c.book.Ask(pod)
	if key := dra.AwaitedSelectors(err); key != "" {
		c.shared.await(key, pod)
	}
	if err == nil && waits {
		c.shared.setAsk(pod.UID, a)
	} else {
		c.shared.setAsk(pod.UID, nil)
	}
	return a, err
}

// Same says whether a pod was given the same claims after an update as before.
func Same(o, n *v1.Pod) bool {
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

// Concern says whether claims of a pod matter here.
func (c *Claims) Concern(pod *v1.Pod) bool { return c != nil && hasClaims(pod) }

// HeldBy is what a bound pod holds, by itself and by claims; all: its node has every device
// that claims name. It is safe for concurrent use, if node is.
func (c *Claims) HeldBy(pod *v1.Pod, node func() *model.Node) (out []ledger.Claim, all bool, problem error) {
	out, problem = dialect.Claims(pod)
	if !c.Concern(pod) {
		return out, true, problem
	}
	out, all = c.book.AddTo(pod, out)
	n := node()
	if n == nil {
		return out, false, problem
	}
	for i := range out {
		all = number(&out[i], n) && all
	}
	return out, all, problem
}

// Lag says whether a pod is seen bound before the allocation of its claims is seen, which
// was written before: two informers do not keep in step. What the ledger assumed for the pod
// is right meanwhile.
func (c *Claims) Lag(pod *v1.Pod) bool {
	return c != nil && len(pod.Spec.ResourceClaims) > 0 && c.ledger.Assumes(model.HolderID(pod.UID)) && !c.book.Allocated(pod)
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
// bound. A pod that was planned after its claim was allocated has none of them.
func (c *Claims) covers(p *v1.Pod, h *dra.Hold) bool {
	node, set := c.ledger.Held(model.HolderID(p.UID))
	n := c.ledger.Inventory(node)
	if set == 0 || node != model.NodeID(h.Node) || n == nil {
		return false
	}
	want := cards(h, n)
	return want != 0 && want&^set == 0
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
