package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/agent/config"
	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/grant"
	"github.com/tangram-dev/tangram/internal/agent/plugin"
	"github.com/tangram-dev/tangram/internal/agent/records"
	"github.com/tangram-dev/tangram/internal/agent/sharing"
	"github.com/tangram-dev/tangram/internal/agent/sharing/cdi"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mig"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mps"
)

// amounts says which resources are sold by amounts of memory and compute.
func amounts(a *Agent) func(resource string) bool {
	if !serves(a) || a.o.Config.Agent.SharesPerGPU == 0 {
		return nil
	}
	return func(resource string) bool { return resource == names.ResourceNVIDIA && serves(a) }
}

// makeSharing makes what makes allocations real.
func (a *Agent) makeSharing() error {
	c := a.o.Config
	o := a.o.Sharing
	o.Backend, o.CDIDir, o.StateDir, o.Live = a.o.Backend, c.Agent.CDIDir, c.Agent.StateDir, a.live
	if serves(a) {
		o.Turns = turnsSold(c)
	}
	if (serves(a) || c.Agent.DRA) && c.Agent.SharesPerGPU > 0 {
		o.Shares = map[config.Isolation]sharing.Mode{config.IsolationMPS: sharing.MPS, config.IsolationHAMi: sharing.HAMi, config.IsolationNone: sharing.TimeSlicing}[c.Agent.Isolation]
	}
	// Both were tried on a real GPU: docs/gpu-report.md.
	o.MPS.StateDir = c.Flags.MPSRoot
	o.MPS.MultiUser, o.MPS.ReadOnlyPipe = true, true
	o.MPS.Hooks = mps.Hooks{
		Died:   func(d mps.Death) { a.o.Metrics.MPS("died", d.Reason); a.daemonDied(d) },
		Failed: func(_ string, err error) { a.o.Metrics.MPS("start", err) },
		Ready:  func(string) { a.o.Metrics.MPS("start", nil) },
	}
	o.MIG.Linger, o.Grace = migLinger, prepareGrace
	o.MIG.Manager = a.migManager
	o.MIG.Busy = func(mig.Placement) { a.o.Metrics.MIG("destroy", device.ErrBusy) }
	var err error
	if a.sharing, err = sharing.New(o); err != nil {
		return err
	}
	if m := a.sharing.MPS(); m != nil {
		a.guard = mps.NewGuard(m, mps.GuardOptions{Container: func(podUID, id string) (string, bool) {
			_, name := a.containerByID(podUID, id)
			return name, name != ""
		}})
	}
	return nil
}

// live are all allocations of the node: of device plugins and of claims.
func (a *Agent) live(ctx context.Context) (out []device.Allocation, err error) {
	if a.granter != nil {
		if out, err = a.granter.Live(ctx); err != nil {
			return nil, err
		}
	}
	if a.claims != nil {
		out = append(out, a.claims.Live()...)
	}
	return out, nil
}

// makePlugin makes what serves kubelet.
func (a *Agent) makePlugin() {
	c := a.o.Config
	o := grant.Options{
		Book: a.book, Inventory: a.Inventory, Edits: a.o.Backend.Edits,
		Mounts:  c.Flags.DeviceListStrategy == config.VolumeMounts,
		ByIndex: c.Flags.DeviceIDStrategy == config.ByIndex, PassDeviceSpecs: c.Flags.PassDeviceSpecs,
		OneOnly: oneOnly(c), Amounts: amounts(a), Spec: a.prepare, Share: a.share,
		Granted: func() { a.corrector.Look(); a.offer() },
	}
	if c.Flags.DeviceListStrategy == config.CDICRI {
		o.CDI = cdi.Name
	}
	a.granter = grant.New(o)
	a.plugin = plugin.New(plugin.Options{Dir: filepath.Join(c.Agent.KubeletDir, "device-plugins"), Granter: &counted{a.granter, a}})
	a.seller = grant.NewSeller(grant.SellerOptions{
		Offers: a.offers, Set: a.plugin.Set, TopologyManager: c.Agent.TopologyManager, Book: a.book, Pods: a.o.Pods,
	})
}

// migLinger is how long an instance without an allocation is kept: the next container often
// wants the same.
const migLinger = 10 * time.Second

// prepareGrace is how long a container that was prepared may take until kubelet lists it.
const prepareGrace = 10 * time.Second

// counted is the granter with metrics and logs, and without devices that are being reset.
type counted struct {
	*grant.Granter
	a *Agent
}

func (g *counted) Allocate(ctx context.Context, resource string, ids []string) (device.Answer, error) {
	err := g.a.unclaimed(resource, ids)
	var answer device.Answer
	if err == nil {
		answer, err = g.Granter.Allocate(ctx, resource, ids)
	}
	g.done("allocate", resource, ids, err)
	return answer, err
}

func (g *counted) PreStart(ctx context.Context, resource string, ids []string) error {
	err := g.a.unclaimed(resource, ids)
	if err == nil {
		err = g.Granter.PreStart(ctx, resource, ids)
	}
	g.done("prestart", resource, ids, err)
	return err
}

// done counts an answer, and logs a refusal with the holder, which kubelet is not told.
func (g *counted) done(step, resource string, ids []string, err error) {
	g.a.o.Metrics.Allocation(step, err)
	if err == nil {
		return
	}
	holder := ""
	if excluded := (*records.Excluded)(nil); errors.As(err, &excluded) {
		holder = excluded.By
	}
	g.a.log.Error(err, "Refused devices to a container", "step", step, "resource", resource, "devices", ids, "holder", holder)
}

// claim takes a device out of use, to reset it; not when a container holds it, or is
// promised it.
func (a *Agent) claim(uuid string) (release func(), ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if a.book != nil {
		if _, err := a.book.AllHoldings(ctx); err != nil {
			return nil, false // which containers hold it is not known
		}
	}
	a.refreshHolders(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.claimed[uuid] || len(a.holders.of(uuid)) > 0 || a.promised(uuid) || a.inClaim(uuid) {
		return nil, false
	}
	a.claimed[uuid] = true
	return func() {
		a.mu.Lock()
		delete(a.claimed, uuid)
		a.mu.Unlock()
		a.offer()
	}, true
}

// promised says whether the record of a pod that has not ended names a device.
func (a *Agent) promised(uuid string) bool {
	return slices.ContainsFunc(a.o.Pods.List(), func(p *v1.Pod) bool {
		return p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed && strings.Contains(p.Annotations[names.AnnotationDevices], uuid)
	})
}

// unclaimed refuses devices that are being reset.
func (a *Agent) unclaimed(resource string, ids []string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range ids {
		if id, err := records.ParseID(s); err == nil && a.claimed[id.UUID] {
			return fmt.Errorf("%s: device %s is being reset", resource, s)
		}
	}
	return nil
}

// offer tells kubelet what is sold now.
func (a *Agent) offer() {
	if a.seller != nil {
		a.seller.Update()
	}
}

// offers are what is sold now; nil while the inventory is not known.
func (a *Agent) offers() []device.Offer {
	if a.inventory.Load() == nil {
		return nil
	}
	healthy := func(uuid string) bool {
		a.mu.Lock()
		claimed := a.claimed[uuid]
		a.mu.Unlock()
		s, ok := a.monitor.Status(uuid)
		return ok && s.Usable() && !claimed
	}
	inv := a.Inventory()
	return grant.Offers(inv, sales(a.o.Config, onDemand(a), inv), a.knownOwned(), healthy)
}

// knownOwned are the UUIDs of MIG instances that the agent has cut, as last known.
func (a *Agent) knownOwned() map[string]bool {
	if known := a.owned.Load(); known != nil {
		return *known
	}
	return map[string]bool{}
}

// ownedInstances are the UUIDs of MIG instances in the inventory that the agent has cut;
// those it knew last where that cannot be found out.
func (a *Agent) ownedInstances(ctx context.Context) map[string]bool {
	out := map[string]bool{}
	if a.sharing == nil {
		return out
	}
	placements, err := a.sharing.Owned(ctx)
	if err != nil {
		a.log.Error(err, "Could not list the agent's own MIG instances; using the last known")
		return a.knownOwned()
	}
	defer a.owned.Store(&out)
	inv := a.Inventory()
	for p := range placements { // the order does not matter
		if d := inv.Find(p.GPU); d != nil && d.MIG != nil {
			for _, i := range d.MIG.Instances {
				if i.Start == p.Start && device.SameProfile(i.Profile, p.Profile) {
					out[i.UUID] = true
				}
			}
		}
	}
	return out
}

// prepare makes an allocation real before its container starts.
func (a *Agent) prepare(ctx context.Context, x device.Allocation) error {
	if !a.tookOver.Load() {
		if a.collectOnce(ctx); !a.tookOver.Load() {
			return errors.New("which devices running containers hold is not known yet: kubelet does not list all pods; the start is retried")
		}
	}
	err := a.sharing.Prepare(ctx, x)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EDQUOT) {
		a.o.Metrics.NotWritten("allocation")
	}
	if slices.ContainsFunc(x.Devices, func(g device.Grant) bool { return g.Profile != "" }) {
		a.o.Metrics.MIG("create", err)
		a.lookSoon()
	}
	return err
}

// share is what containers need besides their devices, where no CDI file says it.
func (a *Agent) share(ctx context.Context, resource string, devices []device.Grant) (device.Edits, error) {
	return a.sharing.Edits(ctx, device.Allocation{ID: resource, Resource: resource, Devices: devices})
}

// collectEvery is how often what ended allocations left is collected.
const collectEvery = 10 * time.Second

// collect does that until the context ends.
func (a *Agent) collect(ctx context.Context) {
	for {
		every := collectEvery
		if !a.tookOver.Load() {
			every = time.Second
		}
		select {
		case <-ctx.Done():
			return
		case <-a.sweep:
		case <-time.After(every):
		}
		a.collectOnce(ctx)
	}
}

func (a *Agent) collectOnce(ctx context.Context) {
	a.collecting.Lock()
	defer a.collecting.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	live, err := a.live(ctx)
	if err != nil {
		// Kubelet does not answer, which the corrector reports, or has not heard of all pods:
		// nothing is taken away meanwhile.
		if text := errorText(err); errors.Is(err, records.ErrIncomplete) && a.o.Pods.Synced() && text != a.uncollected {
			a.uncollected = text
			a.log.Info("Ended allocations are not collected: kubelet does not list all pods yet", "err", err)
		}
		return
	}
	a.tookOver.Store(true)
	before, beforeErr := a.sharing.Owned(ctx)
	err = a.sharing.Collect(ctx, live)
	if text := errorText(err); text != a.uncollected {
		if a.uncollected = text; text != "" {
			a.log.Error(err, "Could not collect everything that ended allocations left (MIG instances, MPS daemons, CDI files); will retry")
		} else {
			a.log.Info("Collected everything that ended allocations left")
		}
	}
	if after, err := a.sharing.Owned(ctx); err == nil && beforeErr == nil && len(after) < len(before) {
		a.o.Metrics.MIG("destroy", nil)
		a.lookSoon()
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// migManager names another program that cuts the node's devices, by its label; empty for none.
func (a *Agent) migManager() string {
	const label = "nvidia.com/mig.config.state"
	if state := a.publisher.NodeLabel(label); state != "" {
		return label + "=" + state
	}
	return ""
}

// daemonDied tells the pods whose programs ended with an MPS daemon.
func (a *Agent) daemonDied(d mps.Death) {
	for _, s := range d.Shares {
		a.event(a.o.Pods.Get(s.Namespace, s.Pod), v1.EventTypeWarning, "MPSDaemonDied",
			fmt.Sprintf("The MPS daemon of %s ended (%v); CUDA programs of container %s on this GPU ended with it. The daemon is started again", d.GPU, d.Reason, s.Container))
	}
}

// shareExceeded tells a pod that it used more than it was promised.
func (a *Agent) shareExceeded(f mps.Finding) {
	a.o.Metrics.MPS(string(f.Kind), f.Err)
	a.log.Info("Container uses more than its share", "kind", f.Kind, "pod", f.Share.Namespace+"/"+f.Share.Pod, "container", f.Share.Container,
		"gpu", f.GPU, "pid", f.PID, "detail", f.Detail, "ended", f.Ended, "err", f.Err)
	a.event(a.o.Pods.Get(f.Share.Namespace, f.Share.Pod), v1.EventTypeWarning, string(f.Kind), f.Detail)
}
