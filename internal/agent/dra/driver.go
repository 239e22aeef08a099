package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Door decides whether a claim may have its devices. It calls note while no other
// container or claim can be given a device, and returns an error, without calling it, when a
// container holds one of them.
type Door func(ctx context.Context, c *Claim, note func() error) error

// DriverOptions are what a Claims works with.
type DriverOptions struct {
	Node string
	// Journal is the file of prepared claims.
	Journal string
	// Get reads a claim from the API server.
	Get func(ctx context.Context, namespace, name string) (*resourceapi.ResourceClaim, error)
	// Parts is what the node has to give now; an error while that is not known.
	Parts func() ([]Part, error)
	Door  Door
	// Prepare makes an allocation real, and may be called again for the same one; Release
	// undoes it.
	Prepare func(ctx context.Context, a device.Allocation) error
	Release func(ctx context.Context, id string) error
	// CDI is the full name of an allocation's CDI device.
	CDI func(id string) string
	// Done hears of each call that changed or refused something, for metrics; it may be nil.
	Done func(call string, err error)
}

// Claims prepares claims of one node, and remembers which are prepared.
type Claims struct {
	o   DriverOptions
	log klog.Logger

	// working serialises calls: each changes devices.
	working sync.Mutex

	mu      sync.Mutex
	journal journal
	written stamp // of the journal's file
	// orphans are claims that the API server did not have when it was asked last.
	orphans map[string]bool
}

// NewClaims reads the journal.
func NewClaims(o DriverOptions) (*Claims, error) {
	at := stampOf(o.Journal)
	j, err := load(o.Journal)
	if err != nil {
		return nil, err
	}
	if o.Done == nil {
		o.Done = func(string, error) {}
	}
	return &Claims{o: o, log: klog.Background().WithValues("node", o.Node), journal: j, written: at, orphans: map[string]bool{}}, nil
}

// refresh reads the journal again when another agent has written it: during an upgrade two
// serve the node, and kubelet asks either. It needs the lock.
func (d *Claims) refresh() {
	at := stampOf(d.o.Journal)
	if at == d.written {
		return
	}
	j, err := readJournal(d.o.Journal)
	if err != nil {
		d.log.Error(err, "Could not read the journal of claims that another agent wrote; using the last known")
		return
	}
	d.journal, d.written = j, at
}

// save needs the lock.
func (d *Claims) save() error {
	err := d.journal.save(d.o.Journal)
	d.written = stampOf(d.o.Journal)
	return err
}

// Prepared is one device of a prepared claim, as kubelet is told.
type Prepared struct {
	Request, Pool, Device, Share, CDI string
}

// Prepare makes a claim's devices ready for containers. Calling it again for a prepared
// claim does what is missing. On an error nothing is held for the claim that was not held
// before; kubelet tries again.
func (d *Claims) Prepare(ctx context.Context, namespace, name, uid string) (out []Prepared, err error) {
	d.working.Lock()
	defer d.working.Unlock()
	defer func() { d.o.Done("prepare", err) }()
	known := d.find(uid)
	c, err := d.read(ctx, namespace, name, uid, known)
	if err != nil {
		return nil, err
	}
	if known != nil && !known.same(c) { // allocated anew while kubelet or the agent forgot
		if err := d.drop(ctx, known); err != nil {
			return nil, err
		}
		known = nil
	}
	if known == nil {
		if err := d.admit(ctx, c); err != nil {
			return nil, err
		}
	}
	for i := range c.Devices {
		h := &c.Devices[i]
		if err := d.o.Prepare(ctx, h.allocation(c)); err != nil {
			err = fmt.Errorf("%s: device %s: %w", c, h.Device, err)
			if known == nil {
				err = errors.Join(err, d.drop(ctx, c))
			}
			return nil, err
		}
		out = append(out, Prepared{Request: h.Request, Pool: h.Pool, Device: h.Device, Share: h.Share, CDI: d.o.CDI(h.id(c))})
	}
	if known == nil {
		d.log.Info("Claim prepared", "claim", klog.KRef(c.Namespace, c.Name), "devices", c.names())
	}
	return out, nil
}

// read is the claim as it is allocated. While the API server is away, or a device of it is
// gone, what the journal knows counts: the claim may be in use.
func (d *Claims) read(ctx context.Context, namespace, name, uid string, known *Claim) (*Claim, error) {
	object, err := d.o.Get(ctx, namespace, name)
	if err == nil && string(object.UID) != uid {
		return nil, fmt.Errorf("ResourceClaim %s/%s: has the UID %s, kubelet means the one with %s, which is gone", namespace, name, object.UID, uid)
	}
	var parts []Part
	if err == nil {
		parts, err = d.o.Parts()
	}
	var c *Claim
	if err == nil {
		c, err = read(object, d.o.Node, parts)
	} else {
		err = fmt.Errorf("ResourceClaim %s/%s: %w", namespace, name, err)
	}
	if err != nil && known != nil {
		return known, nil
	}
	return c, err
}

// admit notes a claim, unless a container or another claim holds one of its devices.
func (d *Claims) admit(ctx context.Context, c *Claim) error {
	if other, h := d.rival(c); other != nil {
		return fmt.Errorf("%s: device %s is prepared for %s, which kubelet has not given back yet", c, h.Device, other)
	}
	if err := d.room(c); err != nil {
		return err
	}
	return d.o.Door(ctx, c, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.refresh()
		d.journal.Claims = append(d.journal.Claims, *c)
		if err := d.save(); err != nil {
			d.journal.Claims = slices.DeleteFunc(d.journal.Claims, func(x Claim) bool { return x.UID == c.UID })
			return err
		}
		return nil
	})
}

// rival is another claim that holds a device of this one.
func (d *Claims) rival(c *Claim) (*Claim, *Held) {
	parts, _ := d.o.Parts() // without it instances count as one slice long; MIG itself refuses more
	for _, other := range d.List() {
		for i := range c.Devices {
			h := &c.Devices[i]
			if !h.Admin && slices.ContainsFunc(other.Devices, func(o Held) bool { return !o.Admin && h.excludes(&o, parts) }) {
				return &other, h
			}
		}
	}
	return nil, nil
}

// room says why the shares of a claim do not fit beside those of other claims: a scheduler
// may have given out more than there is, or kubelet has not given back an ended one yet.
func (d *Claims) room(c *Claim) error {
	parts, err := d.o.Parts()
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	others := d.List()
	for i := range c.Devices {
		h := &c.Devices[i]
		k := slices.IndexFunc(parts, func(p Part) bool { return p.Name == h.Device })
		if h.MemoryMiB == 0 || k < 0 {
			continue
		}
		used := int64(0)
		for _, list := range append([]Claim{*c}, others...) {
			for _, o := range list.Devices {
				if o.GPU == h.GPU && !o.Admin {
					used += o.MemoryMiB
				}
			}
		}
		if has := parts[k].GPU.MemoryMiB; used > has {
			return fmt.Errorf("%s: device %s has %d MiB, and the claims on it have %d with this one's %d", c, h.Device, has, used, h.MemoryMiB)
		}
	}
	return nil
}

// Unprepare undoes Prepare. A claim that is not prepared is no error: kubelet may ask
// again.
func (d *Claims) Unprepare(ctx context.Context, uid string) (err error) {
	d.working.Lock()
	defer d.working.Unlock()
	c := d.find(uid)
	if c == nil {
		return nil
	}
	defer func() { d.o.Done("unprepare", err) }()
	if err := d.drop(ctx, c); err != nil {
		return err
	}
	d.log.Info("Claim unprepared", "claim", klog.KRef(c.Namespace, c.Name), "devices", c.names())
	return nil
}

// drop takes a claim's allocations away and forgets it.
func (d *Claims) drop(ctx context.Context, c *Claim) error {
	for i := range c.Devices {
		if err := d.o.Release(ctx, c.Devices[i].id(c)); err != nil {
			return fmt.Errorf("%s: device %s: %w", c, c.Devices[i].Device, err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refresh()
	k := d.journal.find(c.UID)
	if k < 0 {
		return nil
	}
	was := d.journal.Claims[k]
	d.journal.Claims = slices.Delete(d.journal.Claims, k, k+1)
	delete(d.orphans, c.UID)
	if err := d.save(); err != nil {
		d.journal.Claims = append(d.journal.Claims, was)
		return err
	}
	return nil
}

// Reconcile gives back claims that kubelet has forgotten: those that the API server has no
// more, seen so twice, and that kubelet does not list. Kubelet itself gives back the claims
// of pods that it knows, also when they were deleted by force.
func (d *Claims) Reconcile(ctx context.Context, listed func(namespace, name string) bool) {
	for _, c := range d.List() {
		object, err := d.o.Get(ctx, c.Namespace, c.Name)
		gone := apierrors.IsNotFound(err) || err == nil && string(object.UID) != c.UID
		d.mu.Lock()
		was, orphan := d.orphans[c.UID], gone && !listed(c.Namespace, c.Name)
		if d.orphans[c.UID] = orphan; !orphan {
			delete(d.orphans, c.UID)
		}
		d.mu.Unlock()
		if orphan && was {
			d.log.Info("Claim no longer exists, and kubelet did not unprepare it", "claim", klog.KRef(c.Namespace, c.Name))
			if err := d.Unprepare(ctx, c.UID); err != nil {
				d.log.Error(err, "Unprepare failed; will retry", "claim", klog.KRef(c.Namespace, c.Name))
			}
		}
	}
}

func (d *Claims) find(uid string) *Claim {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refresh()
	if k := d.journal.find(uid); k >= 0 {
		c := d.journal.Claims[k]
		return &c
	}
	return nil
}

// List are the claims that are prepared or being prepared.
func (d *Claims) List() []Claim {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refresh()
	return slices.Clone(d.journal.Claims)
}

// Live are their allocations, so that what was made for others can be taken down.
func (d *Claims) Live() (out []device.Allocation) {
	for _, c := range d.List() {
		for i := range c.Devices {
			out = append(out, c.Devices[i].allocation(&c))
		}
	}
	return out
}

func (c *Claim) names() (out []string) {
	for _, h := range c.Devices {
		out = append(out, h.Device)
	}
	return out
}

// excludes says whether two devices cannot be held at the same time.
func (h *Held) excludes(o *Held, parts []Part) bool {
	if h.GPU != o.GPU || h.MemoryMiB > 0 && o.MemoryMiB > 0 {
		return false // shares: what fits is counted
	}
	if h.Profile == "" || o.Profile == "" {
		return true
	}
	size := func(x *Held) int {
		if k := slices.IndexFunc(parts, func(p Part) bool { return p.Name == x.Device && p.Profile != nil }); k >= 0 {
			return parts[k].Profile.Size
		}
		return 1
	}
	return h.Start < o.Start+size(o) && o.Start < h.Start+size(h)
}
