package grant

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/records"
)

// Spec makes an allocation real before its container starts: MIG instances, limits, and
// the CDI specification of the device tangram.dev/allocation=<ID>. It is called before
// each start, and must do nothing where all is done.
type Spec func(ctx context.Context, a device.Allocation) error

// Options are what a Granter needs.
type Options struct {
	Book *records.Book
	// Inventory is what the node has at the moment; never nil.
	Inventory func() *device.Inventory
	// Edits are what containers need to use devices; the back end's. For device nodes
	// with PassDeviceSpecs.
	Edits func(ctx context.Context, uuids []string) (device.Edits, error)
	// CDI is the full name of an allocation's CDI device (deviceListStrategy cdi-cri): kubelet
	// is told that name, and Spec is called before each start. Nil: NVIDIA's container runtime
	// reads the devices from an environment variable (envvar) or, with Mounts, from the names
	// of mounts, which a container cannot forge (volume-mounts).
	CDI    func(id string) string
	Spec   Spec
	Mounts bool
	// ByIndex names GPUs by index instead of UUID in environment variables and mounts.
	ByIndex bool
	// PassDeviceSpecs adds device nodes to answers that are not CDI.
	PassDeviceSpecs bool
	// OneOnly says whether a container may have one device of a resource only
	// (failRequestsGreaterThanOne). Nil for no resource.
	OneOnly func(resource string) bool
	// Amounts says whether a resource is sold by amounts, as in records.Options.
	Amounts func(resource string) bool
	// Share is what containers need besides where CDI is nil; nil for nothing.
	Share func(ctx context.Context, resource string, devices []device.Grant) (device.Edits, error)
	// Granted is called after each call that succeeded: records may have to be
	// corrected. Refused hears of each refusal. They may be nil.
	Granted func()
	Refused func(resource string, err error)
}

// Granter answers kubelet's calls for one node.
type Granter struct{ o Options }

// New makes a Granter.
func New(o Options) *Granter {
	if o.OneOnly == nil {
		o.OneOnly = func(string) bool { return false }
	}
	if o.Amounts == nil {
		o.Amounts = func(string) bool { return false }
	}
	return &Granter{o}
}

// Preferred is what kubelet should take; see records.Book.
func (g *Granter) Preferred(ctx context.Context, resource string, available, mustInclude []string, size int) []string {
	return g.o.Book.Preferred(ctx, resource, available, mustInclude, size)
}

// Allocate answers with what a container on these devices needs, or refuses. Whose
// container it is, kubelet does not say. A refusal is final for the pod.
func (g *Granter) Allocate(ctx context.Context, resource string, ids []string) (device.Answer, error) {
	answer, err := g.allocate(ctx, resource, ids)
	return answer, g.done(resource, err)
}

func (g *Granter) allocate(ctx context.Context, resource string, ids []string) (device.Answer, error) {
	if len(ids) == 0 {
		return device.Answer{}, fmt.Errorf("%s: no devices", resource)
	}
	if len(ids) > 1 && g.o.OneOnly(resource) {
		return device.Answer{}, fmt.Errorf("%s: a container asks for %d, and failRequestsGreaterThanOne allows 1: more turns are no more of a GPU", resource, len(ids))
	}
	answer, err := g.answer(ctx, resource, ids)
	if err != nil {
		return device.Answer{}, err
	}
	return answer, g.o.Book.Reserve(ctx, resource, ids)
}

// PreStart is called before each start of a container: now kubelet lists its pod. A
// refusal keeps the container from starting; kubelet tries again.
func (g *Granter) PreStart(ctx context.Context, resource string, ids []string) error {
	return g.done(resource, g.preStart(ctx, resource, ids))
}

func (g *Granter) preStart(ctx context.Context, resource string, ids []string) error {
	h, err := g.o.Book.Identify(ctx, resource, ids)
	if err != nil {
		return err
	}
	if err := g.environment(h); err != nil {
		return err
	}
	if err := g.promised(h); err != nil {
		return err
	}
	all, err := g.o.Book.Holdings(ctx)
	if err != nil {
		return err
	}
	holder := ""
	if c := g.o.Book.ClaimedBy(h); c != nil {
		holder = c.ToldTo(h.Pod.Namespace)
	}
	for i := range all {
		if o := &all[i]; o.Excludes(h) && o.Before(h) {
			holder = o.ToldTo(h.Pod.Namespace)
			break
		}
	}
	if holder != "" {
		return fmt.Errorf("%s: %s of pod %s/%s cannot start on %s: %s holds it, or a part of it that excludes this use",
			resource, h.Path, h.Pod.Namespace, h.Pod.Name, strings.Join(h.IDs, ", "), holder)
	}
	if err := fits(g.o.Inventory(), h, all); err != nil {
		return err
	}
	if g.o.CDI != nil {
		if err := g.o.Spec(ctx, allocation(h)); err != nil {
			return fmt.Errorf("%s: %s of pod %s/%s: %w", resource, h.Path, h.Pod.Namespace, h.Pod.Name, err)
		}
	}
	g.o.Book.MarkStarted(h)
	return nil
}

func (g *Granter) done(resource string, err error) error {
	switch {
	case err != nil && g.o.Refused != nil:
		g.o.Refused(resource, err)
	case err == nil && g.o.Granted != nil:
		g.o.Granted()
	}
	return err
}

// promised refuses a container that asks for amounts and has no record of them.
func (g *Granter) promised(h *records.Holding) error {
	if !g.o.Amounts(h.Resource) {
		return nil
	}
	word, asks := records.ByAmount(h.Pod, h.Container)
	has := slices.ContainsFunc(grants(h), func(d device.Grant) bool { return d.MemoryMiB > 0 || d.ComputeMilli > 0 })
	switch {
	case asks && !has:
		return fmt.Errorf("%s.resources.limits[%s]: no valid record says what the container was promised: only pods that Tangram scheduled can have amounts of a GPU", h.Path, word)
	case has && g.o.CDI == nil:
		return fmt.Errorf("%s.resources.limits[%s]: amounts of a GPU need deviceListStrategy cdi-cri", h.Path, word)
	}
	return nil
}

// environment refuses a container whose own environment would widen what it gets: with
// strategies that are not CDI a container's own variable wins over the device plugin's.
// What comes from a ConfigMap or Secret cannot be seen and is only logged.
func (g *Granter) environment(h *records.Holding) error {
	c := records.ContainerOf(h.Pod, h.Container)
	if g.o.CDI != nil || c == nil {
		return nil
	}
	for i, e := range c.Env {
		if e.Name == visible {
			return fmt.Errorf("%s.env[%d]: %s is set by the container itself and would replace what it was given; remove it", h.Path, i, visible)
		}
	}
	if len(c.EnvFrom) > 0 {
		klog.Background().Info("A container takes environment variables from other objects; whether "+visible+" is among them cannot be seen", "pod", klog.KObj(h.Pod), "field", h.Path+".envFrom")
	}
	return nil
}

// AllocationID names an allocation.
func AllocationID(resource string, ids []string) string {
	h := sha256.New()
	h.Write([]byte(resource))
	for _, id := range slices.Sorted(slices.Values(ids)) {
		h.Write([]byte{0})
		h.Write([]byte(id))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func allocation(h *records.Holding) device.Allocation {
	a := device.Allocation{ID: AllocationID(h.Resource, h.IDs), Resource: h.Resource, Container: h.Container, Devices: grants(h)}
	if h.Pod != nil {
		a.Namespace, a.Pod, a.PodUID = h.Pod.Namespace, h.Pod.Name, string(h.Pod.UID)
	}
	return a
}

// Live are all allocations that are held now, so that what was made for others can be
// taken down. On an error nothing may be taken down.
func (g *Granter) Live(ctx context.Context) ([]device.Allocation, error) {
	all, err := g.o.Book.AllHoldings(ctx)
	if err != nil {
		return nil, err
	}
	var out []device.Allocation
	for i := range all {
		out = append(out, allocation(&all[i]))
	}
	return out, nil
}

// grants are the devices of a holding, in the order of their IDs: what the ID says, with
// the amounts of the record.
func grants(h *records.Holding) (out []device.Grant) {
	left := slices.Clone(h.Devices)
	for _, s := range h.IDs {
		id, err := records.ParseID(s)
		if err != nil {
			continue // not one of ours
		}
		g := device.Grant{UUID: id.UUID, Turn: id.Kind == records.Turn, Number: id.Turn}
		i := slices.IndexFunc(left, func(d record.Device) bool {
			return d.UUID == id.UUID && (id.Kind != records.NewSlice || d.Start == id.Start)
		})
		if i < 0 { // an existing instance: the record names its GPU
			i = slices.IndexFunc(left, func(d record.Device) bool { return d.MIG != "" })
		}
		if i >= 0 {
			d := left[i]
			left = slices.Delete(left, i, i+1)
			g.Profile, g.Start, g.MemoryMiB, g.ComputeMilli = d.MIG, d.Start, d.MemoryMiB, d.ComputeMilli
			if g.Turn = d.Turn; !g.Turn {
				g.Number = 0
			}
		}
		if id.Kind == records.NewSlice {
			g.Profile, g.Start = id.Profile, id.Start
		}
		out = append(out, g)
	}
	return out
}
