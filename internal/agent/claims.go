package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/dra"
	"github.com/tangram-dev/tangram/internal/agent/export"
	"github.com/tangram-dev/tangram/internal/agent/records"
	"github.com/tangram-dev/tangram/internal/agent/sharing/cdi"
)

// given is what claims may be given: an inventory with what is known of its cuts, read
// together, so that an instance that the agent has just made never looks like another
// program's.
type given struct {
	inv  *device.Inventory
	cuts dra.Cuts
}

// makePool makes what publishes ResourceSlices.
func (a *Agent) makePool() {
	a.pool = dra.NewPublisher(dra.PublisherOptions{Node: a.o.Node, Observed: a.o.Slices, UID: func(ctx context.Context) (string, error) {
		n, err := a.o.Client.Nodes().Get(ctx, a.o.Node, metav1.GetOptions{})
		return string(n.UID), err
	}})
}

// setGiven notes what there is to give, and publishes it.
func (a *Agent) setGiven(ctx context.Context, inv *device.Inventory, owned map[string]bool) {
	if a.pool == nil {
		return
	}
	cuts := dra.Cuts{OnDemand: a.o.MIGClaims && a.migManager() == "", Instances: owned, Shares: a.o.Config.Agent.SharesPerGPU}
	if a.sharing != nil {
		modes, err := a.sharing.Modes(ctx)
		if last := a.given.Load(); err != nil && last != nil {
			modes = last.cuts.Modes
		}
		cuts.Modes = modes
	}
	a.given.Store(&given{inv, cuts})
	a.publishPool()
}

// publishPool publishes what there is to give, as healthy as it is now.
func (a *Agent) publishPool() {
	g := a.given.Load()
	if a.pool == nil || g == nil {
		return
	}
	state := dra.State{Inventory: g.inv, Cuts: g.cuts, Health: a.monitor.Status}
	if why := a.problem.Load(); why != nil {
		state.Problem = *why
	}
	a.pool.Set(state.Slices())
}

// makeClaims makes what prepares claims.
func (a *Agent) makeClaims() (err error) {
	a.claims, err = dra.NewClaims(dra.DriverOptions{
		Node: a.o.Node, Journal: filepath.Join(a.o.Config.Agent.StateDir, "claims.json"),
		Get: a.o.Client.Claim, Door: a.door, Prepare: a.prepare, CDI: cdi.Name,
		Parts: func() ([]dra.Part, error) {
			g := a.given.Load()
			if g == nil {
				return nil, errors.New("the node's GPUs are not known yet")
			}
			return dra.Parts(g.inv, g.cuts), nil
		},
		Release: func(ctx context.Context, id string) error {
			defer nudge(a.sweep) // instances that no claim has any more
			return a.sharing.Release(ctx, id)
		},
		Done: a.o.Metrics.Allocation,
	})
	return err
}

// door lets a claim in, unless a container holds one of its devices through a device
// plugin, or it is being reset. Allocate is refused what claims hold in the same way:
// of two that want a device, the second is refused.
func (a *Agent) door(ctx context.Context, c *dra.Claim, note func() error) error {
	return a.book.Take(ctx, a.claimedAs(c), func() error {
		a.mu.Lock() // a reset waits until the claim is noted, or the claim until it is over
		defer a.mu.Unlock()
		for _, h := range c.Devices {
			if a.claimed[h.GPU] && !h.Admin {
				return fmt.Errorf("%s: device %s is being reset", c, h.Device)
			}
		}
		return note()
	})
}

// devicesOf are a claim's devices as records name them, without those it may only look at.
func (a *Agent) devicesOf(c *dra.Claim) (out []record.Device) {
	inv := a.Inventory()
	for _, h := range c.Devices {
		if h.Admin {
			continue
		}
		d := record.Device{UUID: h.GPU, MIG: h.Profile, Start: h.Start, MemoryMiB: h.MemoryMiB, ComputeMilli: h.ComputeMilli}
		if gpu := inv.Find(h.GPU); gpu != nil {
			d.Index = gpu.Index
		}
		out = append(out, d)
	}
	return out
}

// claimedDevices are what claims hold.
func (a *Agent) claimedDevices() (out []records.Claimed) {
	if a.claims == nil {
		return nil
	}
	for _, c := range a.claims.List() {
		out = append(out, a.claimedAs(&c))
	}
	return out
}

// claimedAs is what a claim holds.
func (a *Agent) claimedAs(c *dra.Claim) records.Claimed {
	return records.Claimed{Namespace: c.Namespace, Name: c.String(), Devices: a.devicesOf(c)}
}

// inClaim says whether a claim holds a device, or a part of it.
func (a *Agent) inClaim(uuid string) bool {
	return slices.ContainsFunc(a.claimedDevices(), func(c records.Claimed) bool {
		return slices.ContainsFunc(c.Devices, func(d record.Device) bool { return d.UUID == uuid })
	})
}

// claimHolders adds the containers that use claims.
func (a *Agent) claimHolders(add func(d record.Device, h export.Holder)) {
	if a.claims == nil {
		return
	}
	for _, c := range a.claims.List() {
		for _, pod := range a.o.Pods.List() {
			for _, container := range usersOf(pod, &c) {
				for _, d := range a.devicesOf(&c) {
					add(d, export.Holder{Namespace: pod.Namespace, Pod: pod.Name, Container: container})
				}
			}
		}
	}
}

// usersOf are the containers of a pod that use a claim. An extended resource that DRA backs is a
// claim, too.
func usersOf(pod *v1.Pod, c *dra.Claim) (out []string) {
	if pod.Namespace != c.Namespace {
		return nil
	}
	local, claim := "", c.Name
	for _, r := range pod.Spec.ResourceClaims {
		if r.ResourceClaimName != nil && *r.ResourceClaimName == claim {
			local = r.Name
		}
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil && *s.ResourceClaimName == claim {
			local = s.Name
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if local != "" && slices.ContainsFunc(c.Resources.Claims, func(r v1.ResourceClaim) bool { return r.Name == local }) {
			out = append(out, c.Name)
		}
	}
	if x := pod.Status.ExtendedResourceClaimStatus; x != nil && x.ResourceClaimName == claim {
		for _, m := range x.RequestMappings {
			if !slices.Contains(out, m.ContainerName) {
				out = append(out, m.ContainerName)
			}
		}
	}
	return out
}

// reconcileEvery is how often claims are looked for that kubelet has forgotten.
const reconcileEvery = time.Minute

// reconcileClaims does that until the context ends.
func (a *Agent) reconcileClaims(ctx context.Context) {
	for paused(ctx, reconcileEvery) {
		if len(a.claims.List()) == 0 {
			continue
		}
		if listed, err := a.book.ClaimListed(ctx); err == nil { // else the corrector reports that kubelet does not answer
			a.claims.Reconcile(ctx, listed)
		}
	}
}
