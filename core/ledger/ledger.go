package ledger

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
)

// node is a node's entry. A node that was removed while holders are still bound to it
// stays as an entry without inventory, so that they count again if it returns.
type node struct {
	id     model.NodeID
	inv    *model.Node // nil: the node is not there
	kind   *Kind
	claims []Claim // sorted by Claim.compare
	// host is what the claims use together, extras what they leave.
	host   model.Host
	extras extrasLeft
	occupancy
	telemetry []model.Telemetry // by slot; nil: nothing was measured
	labels    *labels           // the ledger's
}

func (n *node) view() View { return n.viewAs(n.claims, &n.occupancy, n.host, n.extras) }

// viewAs is the node as it would be with other claims.
func (n *node) viewAs(claims []Claim, o *occupancy, used model.Host, left extrasLeft) View {
	v := viewOf(n.inv, n.kind, o, used)
	v.claims, v.byClaim, v.extras, v.telemetry, v.labels = claims, o.byClaim, left, n.telemetry, n.labels
	return v
}

func viewOf(inv *model.Node, kind *Kind, o *occupancy, host model.Host) View {
	return View{Node: inv, Kind: kind, Held: o.held, Shared: o.shared, FreeHost: inv.Host.Minus(host), usage: o.usage, room: o.room}
}

// Ledger records which holder has which device.
type Ledger struct {
	nodes      map[model.NodeID]*node
	holders    map[model.HolderID]*node
	kinds      kinds
	index      index
	owners     owners
	publishers publishers
	labels     labels
	measured   int // nodes with telemetry
	domains    *topology.Domains
	excess     Excess
	journal    journal
	changes    changes
	// fleetVersion counts changes of inventories.
	fleetVersion uint64
	version      uint64
	// order counts Puts.
	order uint64
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		nodes:      map[model.NodeID]*node{},
		holders:    map[model.HolderID]*node{},
		kinds:      kinds{byKey: map[string]*Kind{}},
		index:      index{buckets: map[bucketKey]*Bucket{}},
		owners:     owners{},
		publishers: publishers{},
		labels:     newLabels(),
		domains:    topology.NewDomains(model.NumVendors),
	}
}

// SetNode adds a node or replaces its inventory. The ledger keeps the value: the caller
// must not change it afterwards. An invalid inventory changes nothing, and neither does
// an equal one, so that adapters may repeat it cheaply.
func (l *Ledger) SetNode(inv *model.Node) error {
	if err := Validate(inv); err != nil {
		return fmt.Errorf("node %q: %w", inv.ID, err)
	}
	if n := l.nodes[inv.ID]; n != nil && n.inv != nil && n.kind.key == inv.KindKey() && n.inv.Host == inv.Host && n.inv.Extras.Equal(inv.Extras) && sameUUIDs(n.inv, inv) && slices.Equal(n.inv.Domains, inv.Domains) {
		return nil
	}
	l.setInventory(inv.ID, inv)
	return nil
}

// Validate checks an inventory, its MIG geometry included, and names the field that
// is broken.
func Validate(inv *model.Node) error {
	if err := inv.Validate(); err != nil {
		return err
	}
	for i, d := range inv.Devices {
		if len(d.MIG) > 0 {
			if _, err := mig.New(d.MIGSlices, d.MIG); err != nil {
				return fmt.Errorf("devices[%d].mig.%w", i, err)
			}
		}
	}
	return nil
}

// sameUUIDs compares what a kind's key leaves out of the devices.
func sameUUIDs(a, b *model.Node) bool {
	return slices.EqualFunc(a.Devices, b.Devices, func(x, y model.Device) bool { return x.UUID == y.UUID })
}

// RemoveNode takes a node away. Its holders' claims stay until they are dropped.
func (l *Ledger) RemoveNode(id model.NodeID) {
	if n := l.nodes[id]; n != nil && n.inv != nil {
		l.setInventory(id, nil)
	}
}

// Put sets what a holder holds on a node, replacing what it held before.
// Replacing an assumed claim by one that is not confirms it. A device that others named
// before stays theirs; one that the holder itself named before stays its own (Standing).
func (l *Ledger) Put(id model.NodeID, c Claim) {
	var before *Claim
	if old := l.holders[c.Holder]; old != nil && old.id == id {
		before = &old.claims[old.find(c.Holder)]
	} else if old != nil {
		l.setClaim(old.id, c.Holder, nil)
	}
	if c.Order == 0 {
		l.order++
		c.Standing = standing(l.order, &c, before)
	}
	l.setClaim(id, c.Holder, &c)
}

// Drop ends what a holder holds. Dropping a holder twice is harmless.
func (l *Ledger) Drop(h model.HolderID) {
	if n := l.holders[h]; n != nil {
		l.setClaim(n.id, h, nil)
	}
}

// Forget drops a holder whose claim is still assumed; a claim that was
// confirmed in the meantime stays.
func (l *Ledger) Forget(h model.HolderID) {
	if _, c, ok := l.Claim(h); ok && c.Assumed {
		l.Drop(h)
	}
}

// Claim returns a holder's claim and its node.
func (l *Ledger) Claim(h model.HolderID) (model.NodeID, Claim, bool) {
	n := l.holders[h]
	if n == nil {
		return "", Claim{}, false
	}
	return n.id, n.claims[n.find(h)], true
}

// Held returns the devices a holder holds on its node.
func (l *Ledger) Held(h model.HolderID) (model.NodeID, model.Mask) {
	n := l.holders[h]
	if n == nil {
		return "", 0
	}
	if n.inv == nil {
		return n.id, 0
	}
	return n.id, n.byClaim[n.find(h)]
}

// View returns a node as it is now; false when it is not there.
func (l *Ledger) View(id model.NodeID) (View, bool) {
	n := l.nodes[id]
	if n == nil || n.inv == nil {
		return View{}, false
	}
	return n.view(), true
}

// ViewWith returns a node as it would be without some holders and with more
// claims. The ledger does not change.
func (l *Ledger) ViewWith(id model.NodeID, without func(model.HolderID) bool, with []Claim) (View, bool) {
	n := l.nodes[id]
	if n == nil || n.inv == nil {
		return View{}, false
	}
	claims := make([]Claim, 0, len(n.claims)+len(with))
	for _, c := range n.claims {
		if !without(c.Holder) {
			claims = append(claims, c)
		}
	}
	claims = append(claims, with...)
	slices.SortFunc(claims, func(a, b Claim) int { return a.compare(&b) })
	o := occupy(n.inv, n.kind, claims)
	return n.viewAs(claims, &o, hostOf(claims), extrasBeside(n.inv, claims)), true
}

// Version counts changes; equal versions of one ledger mean equal state.
func (l *Ledger) Version() uint64 { return l.version }

// Size returns the number of nodes that are there and of holders.
func (l *Ledger) Size() (nodes, holders int) { return l.index.size(), len(l.holders) }

// find returns the position of a holder's claim, or -1.
func (n *node) find(h model.HolderID) int {
	return slices.IndexFunc(n.claims, func(c Claim) bool { return c.Holder == h })
}

// setInventory is the one place where inventories change. A nil inventory takes
// the node away.
func (l *Ledger) setInventory(id model.NodeID, inv *model.Node) {
	l.fleetVersion++
	n := l.enter(id)
	l.journal.inventory(n)
	l.unindex(n)
	// The new kind before the old is released: if they are the same, it stays.
	var kind *Kind
	if inv != nil {
		kind = l.kinds.intern(inv)
	}
	if n.inv != nil {
		l.owners.remove(n.inv)
		l.publishers.count(n.inv.Extras, -1)
		l.kinds.release(n.kind)
	}
	l.SetTelemetry(id, nil) // it was taken of the devices as they were
	n.inv, n.kind, n.extras = inv, kind, nil
	if inv != nil {
		n.extras = extrasBeside(inv, n.claims)
		l.publishers.count(inv.Extras, +1)
		l.owners.add(inv)
	}
	l.settle(n)
}

// setClaim is the one place where claims change. A nil claim drops it.
func (l *Ledger) setClaim(id model.NodeID, h model.HolderID, c *Claim) {
	n := l.enter(id)
	i := n.find(h)
	var old *Claim
	if i >= 0 {
		prev := n.claims[i]
		old = &prev
	}
	l.journal.claim(id, h, old)
	l.unindex(n)
	l.labels.replace(n, old, c)
	// Views and the journal may share the old slice's claims: build a new one.
	claims := make([]Claim, 0, len(n.claims)+1)
	for j := range n.claims {
		if j != i {
			claims = append(claims, n.claims[j])
		}
	}
	if old != nil {
		delete(l.holders, h)
	}
	if c != nil {
		at, _ := slices.BinarySearchFunc(claims, c, func(a Claim, b *Claim) int { return a.compare(b) })
		claims = slices.Insert(claims, at, *c)
		l.holders[h] = n
	}
	n.claims = claims
	if n.inv != nil {
		n.extras = n.extras.replace(n.inv, old, c)
	}
	l.settle(n)
}

// enter returns the node's entry, making one if needed.
func (l *Ledger) enter(id model.NodeID) *node {
	n := l.nodes[id]
	if n == nil {
		n = &node{id: id, labels: &l.labels}
		l.nodes[id] = n
	}
	return n
}

// settle recomputes a changed node's occupancy and puts it back into the index,
// or drops an entry nothing is left of.
func (l *Ledger) settle(n *node) {
	l.version++
	l.changes.add(n.id)
	n.host = hostOf(n.claims)
	n.occupancy = occupancy{}
	if n.inv != nil {
		n.occupancy = occupy(n.inv, n.kind, n.claims)
		l.index.add(n)
		l.excess.add(n.excess(), +1)
	} else {
		l.excess.Absent++
		if len(n.claims) == 0 {
			delete(l.nodes, n.id)
		}
	}
	locate(l.domains, n)
}

func (l *Ledger) unindex(n *node) {
	if n.inv != nil {
		l.index.remove(n)
		l.excess.add(n.excess(), -1)
	}
}

// EachClaim yields the claims on a node, for reading only.
func (l *Ledger) EachClaim(id model.NodeID) iter.Seq[*Claim] {
	return func(yield func(*Claim) bool) {
		n := l.nodes[id]
		if n == nil {
			return
		}
		for i := range n.claims {
			if !yield(&n.claims[i]) {
				return
			}
		}
	}
}

// Nodes yields the nodes that are there, in no particular order.
func (l *Ledger) Nodes() iter.Seq[model.NodeID] {
	return func(yield func(model.NodeID) bool) {
		for id, n := range l.nodes {
			if n.inv != nil && !yield(id) {
				return
			}
		}
	}
}

// Claims returns a copy of the claims on a node.
func (l *Ledger) Claims(id model.NodeID) []Claim {
	if n := l.nodes[id]; n != nil {
		return slices.Clone(n.claims)
	}
	return nil
}

// AllClaims are the claims on all nodes, those that are gone included, sorted by node and in
// the order in which claims get devices.
func (l *Ledger) AllClaims() iter.Seq2[model.NodeID, Claim] {
	return func(yield func(model.NodeID, Claim) bool) {
		for _, id := range slices.Sorted(maps.Keys(l.nodes)) {
			for _, c := range l.Claims(id) {
				if !yield(id, c) {
					return
				}
			}
		}
	}
}
