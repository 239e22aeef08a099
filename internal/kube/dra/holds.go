package dra

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Holder is the name under which a claim holds devices that no pod carries.
func Holder(uid types.UID) model.HolderID { return model.HolderID(string(uid) + "/claim") }

// Hold is what an allocated claim holds on one node, as the ledger counts it.
type Hold struct {
	Node string
	// Whole are cards, Parts are slices and shares of cards.
	Whole   []string
	Parts   []ledger.HeldPart
	Missing string // the likely node of a GPU that was never published; empty: all are known
}

// Empty says whether nothing is held.
func (h *Hold) Empty() bool { return len(h.Whole)+len(h.Parts) == 0 }

// Holds is what an allocation holds of GPUs. Admin access holds nothing. A device that was
// never seen is left out: of its card nothing is known.
func (b *Book) Holds(a *resourceapi.AllocationResult, nodes ...string) (out Hold) {
	if a == nil {
		return out
	}
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		if !dialect.IsGPUDriver(r.Driver) || r.AdminAccess != nil && *r.AdminAccess {
			continue
		}
		at, ok := b.locate(r, nodes...)
		if !ok {
			// Drivers name pools after nodes.
			out.Missing = append(slices.Clone(nodes), r.Pool)[0]
			continue
		}
		if out.Node != "" && out.Node != at.node {
			continue
		}
		out.Node = at.node
		ref := ledger.DeviceRef{UUID: at.device.Card, Index: -1}
		switch p := &at.device; {
		case !p.Whole() && p.Start < 0:
			// Where it lies is not known: the card is counted as held.
			out.Whole = append(out.Whole, p.Card)
		case !p.Whole():
			out.Parts = append(out.Parts, ledger.HeldPart{Device: ref, Known: true, Part: model.Part{Kind: model.Slice, Profile: p.Profile}, Start: p.Start})
		case r.ShareID != nil && !takesAll(r, p):
			out.Parts = append(out.Parts, ledger.HeldPart{Device: ref, Known: true, Part: shareOf(r)})
		case !slices.Contains(out.Whole, p.Card):
			out.Whole = append(out.Whole, p.Card)
		}
	}
	return out
}

// takesAll says whether a claim consumes all memory of a device that several may have: then
// it is the whole device.
func takesAll(r *resourceapi.DeviceRequestAllocationResult, p *dialect.Published) bool {
	for name, has := range p.Device.Capacity {
		if strings.HasSuffix("/"+string(name), "/memory") {
			q, ok := r.ConsumedCapacity[name]
			return ok && q.Cmp(has.Value) >= 0
		}
	}
	return false
}

// shareOf is what a claim consumes of a device that several may have.
func shareOf(r *resourceapi.DeviceRequestAllocationResult) model.Part {
	return share(func(name string) (resource.Quantity, bool) {
		for _, key := range []string{name, r.Driver + "/" + name} {
			if q, ok := r.ConsumedCapacity[resourceapi.QualifiedName(key)]; ok {
				return q, true
			}
		}
		return resource.Quantity{}, false
	})
}

// share is a share of a device by amounts of its capacities: memory in bytes, without which
// it is all of the device, and cores in hundredths of the device, without which compute is
// not limited.
func share(amount func(name string) (resource.Quantity, bool)) model.Part {
	memory, ok := amount("memory")
	if !ok || memory.Sign() <= 0 {
		return model.Part{Kind: model.Share, MemoryMilli: model.FullMilli}
	}
	out := model.Part{Kind: model.Share, Memory: mib(memory.Value())}
	if cores, ok := amount("cores"); ok && cores.Sign() > 0 {
		out.Milli = int(min(100, cores.Value())) * model.FullMilli / 100
	}
	return out
}

// mib rounds bytes up.
func mib(bytes int64) model.MiB { return model.MiB((bytes + 1<<20 - 1) >> 20) }

// Covers says whether the ledger holds the cards of a hold for a pod that is not bound.
type Covers func(*v1.Pod, *Hold) bool

// Carrier is the pod that a claim's devices are counted under: the first that the claim is
// reserved for, has not ended and is bound to their node, or, where it is not bound, has
// them in the ledger; nil when none does. A pod whose start failed is not in the list any
// more, and has them in the ledger all the same while it tries again.
func (b *Book) Carrier(c *resourceapi.ResourceClaim, h *Hold, covers Covers) *v1.Pod {
	for _, ref := range c.Status.ReservedFor {
		if ref.Resource != "pods" || ref.APIGroup != "" {
			continue
		}
		p, err := b.pods.Pods(c.Namespace).Get(ref.Name)
		if err != nil || p.UID != ref.UID || ended(p) {
			continue
		}
		if p.Spec.NodeName == h.Node || p.Spec.NodeName == "" && covers(p, h) {
			return p
		}
	}
	if p := b.First(c.Namespace + "/" + c.Name); p != nil && covers(p, h) {
		return p
	}
	return nil
}

// Charged says whether a bound pod is charged for a claim.
func (b *Book) Charged(c *resourceapi.ResourceClaim, h *Hold) bool {
	return b.Carrier(c, h, never) != nil
}

func ended(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// AddTo adds what a pod's claims hold to what it holds by itself, which has at least one
// entry; all: no GPU was left out that was never published.
func (b *Book) AddTo(pod *v1.Pod, claims []ledger.Claim) (_ []ledger.Claim, all bool) {
	var backed string
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		backed = s.ResourceClaimName
	}
	all = b.carried(pod, func(c *resourceapi.ResourceClaim, h Hold) {
		first := &claims[0]
		if c.Name == backed && first.Count == len(h.Whole) {
			first.Devices = nil // it counts them already: the claim says which they are
			first.Count = 0
		}
		h.addTo(first)
	})
	return claims, all
}

// carried visits the claims whose devices are counted under a bound pod; all: none of its
// claims has a GPU that was never published.
func (b *Book) carried(pod *v1.Pod, visit func(c *resourceapi.ResourceClaim, h Hold)) (all bool) {
	all = true
	for _, name := range claimNames(pod) {
		c := b.Claim(pod.Namespace + "/" + name)
		if c == nil || c.Status.Allocation == nil {
			continue
		}
		h := b.Holds(c.Status.Allocation, pod.Spec.NodeName)
		if !h.Empty() && h.Node == pod.Spec.NodeName && same(b.Carrier(c, &h, never), pod) {
			visit(c, h)
		}
		all = all && h.Missing == ""
	}
	return all
}

// Carried are the claims whose devices are counted under a bound pod, by namespace/name.
func (b *Book) Carried(pod *v1.Pod) (keys []string) {
	b.carried(pod, func(c *resourceapi.ResourceClaim, _ Hold) { keys = append(keys, c.Namespace+"/"+c.Name) })
	return keys
}

func never(*v1.Pod, *Hold) bool { return false }

func same(a, b *v1.Pod) bool { return a != nil && a.UID == b.UID }

// addTo adds a hold to a ledger's claim.
func (h *Hold) addTo(c *ledger.Claim) {
	if c.Vendor == "" {
		c.Vendor = model.NVIDIA
	}
	if len(c.Devices) < c.Count {
		c.Devices = nil // some of them are not known, so the ledger presumes all
		c.Count += len(h.Whole)
	} else {
		c.Count += len(h.Whole)
		c.Devices = slices.Clone(c.Devices)
		for _, card := range h.Whole {
			c.Devices = append(c.Devices, ledger.DeviceRef{UUID: card, Index: -1})
		}
	}
	c.Parts = append(slices.Clone(c.Parts), h.Parts...)
}

// Allocated says whether all claims of a pod are allocated, as far as is seen.
func (b *Book) Allocated(pod *v1.Pod) bool {
	for i := range pod.Spec.ResourceClaims {
		name, notMade := claimName(pod, &pod.Spec.ResourceClaims[i])
		if notMade {
			return false
		}
		if name == "" {
			continue
		}
		if c := b.Claim(pod.Namespace + "/" + name); c == nil || c.Status.Allocation == nil {
			return false
		}
	}
	return true
}

// OwnHolds is what claims hold that no pod carries, as the ledger counts it, by node.
func (b *Book) OwnHolds(covers Covers) map[string][]ledger.Claim {
	out := map[string][]ledger.Claim{}
	claims, _ := b.claims.List(labels.Everything()) // the store knows no error
	for _, c := range claims {
		if node, claim, ok := b.OwnHold(c, covers); ok {
			out[node] = append(out[node], claim)
		}
	}
	return out
}

// OwnHold is what a claim holds in its own name, since no pod carries it.
func (b *Book) OwnHold(c *resourceapi.ResourceClaim, covers Covers) (node string, claim ledger.Claim, ok bool) {
	h := b.Holds(c.Status.Allocation)
	if h.Empty() || b.Carrier(c, &h, covers) != nil {
		return "", ledger.Claim{}, false
	}
	claim = h.Claim(Holder(c.UID))
	claim.Since = c.CreationTimestamp.Unix()
	if t := c.Status.Allocation.AllocationTimestamp; t != nil {
		claim.Since = t.Unix()
	}
	return h.Node, claim, true
}

// Claim is a hold as the ledger counts it.
func (h *Hold) Claim(holder model.HolderID) ledger.Claim {
	c := ledger.Claim{Holder: holder, Vendor: model.NVIDIA}
	h.addTo(&c)
	return c
}
