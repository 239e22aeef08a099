package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/config"
	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/dra"
	"github.com/tangram-dev/tangram/internal/agent/export"
	"github.com/tangram-dev/tangram/internal/agent/grant"
	"github.com/tangram-dev/tangram/internal/agent/health"
	"github.com/tangram-dev/tangram/internal/agent/kubeapi"
	"github.com/tangram-dev/tangram/internal/agent/plugin"
	"github.com/tangram-dev/tangram/internal/agent/publish"
	"github.com/tangram-dev/tangram/internal/agent/records"
	"github.com/tangram-dev/tangram/internal/agent/sharing"
	"github.com/tangram-dev/tangram/internal/agent/sharing/atomicfile"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mps"
)

// Options are what the agent of one node works with.
type Options struct {
	// Node is the node's name.
	Node    string
	Backend device.Backend
	Config  *config.Config
	// Version is the agent's.
	Version string
	// Kubelet: there is one on this node, to be served or asked. Without it (a node that
	// KWOK plays) records are taken for what was given.
	Kubelet bool
	// MIGOnDemand: instances are cut as pods need them.
	MIGOnDemand bool
	// Slices are the driver's ResourceSlices, for an agent that is a DRA driver.
	Slices *dra.Observed
	// MIGClaims: instances are cut as ResourceClaims need them.
	MIGClaims bool
	// Sharing has what the settings do not say of how shares are enforced.
	Sharing sharing.Options
	// Pods are the node's.
	Pods    records.Source
	Client  *kubeapi.Client
	Objects dynamic.Interface
	Events  record.EventRecorder
	Metrics *export.Metrics
}

// Agent is the agent of one node.
type Agent struct {
	o   Options
	log klog.Logger

	publisher *publish.Publisher
	monitor   *health.Monitor
	// book, corrector: with a kubelet. plugin, granter, seller, sharing: when serving.
	book      *records.Book
	kubelet   *records.Kubelet
	corrector *records.Corrector
	plugin    *plugin.Plugin
	granter   *grant.Granter
	seller    *grant.Seller
	sharing   *sharing.Sharing
	guard     *mps.Guard
	// pool: as a DRA driver. claims: with a kubelet, too.
	pool   *dra.Publisher
	claims *dra.Claims

	holders     holders
	inventory   atomic.Pointer[device.Inventory]
	owned       atomic.Pointer[map[string]bool] // MIG instances that the agent has cut, by UUID
	problem     atomic.Pointer[string]          // why the driver cannot be used
	yielded     atomic.Bool                     // another device plugin serves: the agent must not
	given       atomic.Pointer[given]           // what claims may be given
	look, sweep chan struct{}

	mu      sync.Mutex
	claimed map[string]bool // devices that are being reset

	// tookOver: what an earlier agent left was compared with what containers hold. uncollected is
	// what the last collection failed with, under collecting.
	tookOver    atomic.Bool
	collecting  sync.Mutex
	uncollected string
}

// New checks the settings and makes the agent of one node; Run starts it.
func New(o Options) (*Agent, error) {
	a := &Agent{o: o, log: klog.Background().WithValues("node", o.Node), look: make(chan struct{}, 1), sweep: make(chan struct{}, 1), claimed: map[string]bool{}}
	mode, shares := v1alpha1.Observing, published(o.Config)
	switch {
	case !o.Kubelet: // a simulated node has no other device plugin, and all ways of sharing
		mode, shares = v1alpha1.Serving, &v1alpha1.Sharing{Strategy: v1alpha1.MPS, MaxShares: mps.MaxShares}
	case o.Config.Agent.Mode == config.Serve:
		mode = v1alpha1.Serving
	}
	a.publisher = publish.New(publish.Options{
		Node: o.Node, API: publish.NewAPI(o.Client.Nodes(), o.Objects), Events: o.Events,
		Version: o.Version, Mode: mode, Sharing: shares, MIGStrategy: migStrategy(a), Machine: textOf("/sys/class/dmi/id/product_name"),
		TelemetryEvery: o.Config.Agent.PublishInterval, Heartbeat: o.Config.Agent.HeartbeatInterval, Wrote: o.Metrics.GPUNodeWrite,
	})
	if err := a.makeMonitor(); err != nil {
		return nil, err
	}
	if o.Config.Agent.DRA {
		a.makePool()
	}
	if !o.Kubelet {
		return a, nil
	}
	a.kubelet = records.NewKubelet(filepath.Join(o.Config.Agent.KubeletDir, "pod-resources", "kubelet.sock"))
	a.book = records.NewBook(records.Options{
		Node: o.Node, Pods: o.Pods, Kubelet: asked{a.kubelet, o.Metrics}, Inventory: a.Inventory, Amounts: amounts(a), Distributed: o.Config.Flags.Distributed, Claimed: a.claimedDevices,
	})
	a.corrector = records.NewCorrector(records.CorrectorOptions{
		Book: a.book, Pods: func(namespace string) records.PodWriter { return o.Client.Pods(namespace) },
		Corrected: func(c records.Correction) {
			o.Metrics.RecordCorrected()
			a.event(c.Pod, v1.EventTypeNormal, "RecordCorrected", c.Why)
		},
		Problem: func(p records.Problem) { a.event(p.Pod, v1.EventTypeWarning, p.Reason, p.Message) },
	})
	if serves(a) || o.Config.Agent.DRA {
		if err := a.makeSharing(); err != nil {
			return nil, err
		}
	}
	if o.Config.Agent.DRA {
		if err := a.makeClaims(); err != nil {
			return nil, err
		}
	}
	if serves(a) {
		a.makePlugin()
	}
	return a, nil
}

// serves says whether the agent is the node's device plugin, or is about to be.
func serves(a *Agent) bool { return a.o.Config.Agent.Mode == config.Serve && !a.yielded.Load() }

// onDemand says whether MIG instances are cut as pods need them.
func onDemand(a *Agent) bool { return a.o.MIGOnDemand && !a.yielded.Load() }

// migStrategy is what is published; empty where another device plugin decides it.
func migStrategy(a *Agent) string {
	if !serves(a) {
		return ""
	}
	return string(a.o.Config.Flags.MIGStrategy)
}

// textOf is the text of a file of the kernel; empty when it cannot be read.
func textOf(path string) string {
	text, _ := os.ReadFile(path)
	return strings.TrimSpace(string(text))
}

// paused waits; false when the context ended before.
func paused(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Run works until the context ends. It fails only when it cannot begin.
func (a *Agent) Run(ctx context.Context) error {
	if a.o.Config.Flags.FailOnInitError && serves(a) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		_, err := a.o.Backend.Inventory(ctx)
		cancel()
		if errors.Is(err, device.ErrNoDriver) {
			return fmt.Errorf("failOnInitError: %w", err)
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run := func(f func(context.Context)) { running.Go(func() { f(ctx) }) }
	try := func(f func(context.Context) error) {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			cancel(err)
		}
	}
	if a.sharing != nil {
		defer a.sharing.Close()
		if a.readInventory(ctx) == nil { // what an earlier agent left comes before anything new
			a.collectOnce(ctx)
		}
	}
	run(a.followInventory)
	a.o.Metrics.Serving(false)
	decided := make(chan struct{}) // whether the agent may serve
	run(func(ctx context.Context) {
		select { // or what is published would change at once
		case <-decided:
		case <-time.After(othersWithin):
		case <-ctx.Done():
		}
		a.publisher.Run(ctx)
	})
	run(a.monitor.Run)
	if a.pool != nil {
		run(a.pool.Run)
	}
	if a.claims != nil {
		run(a.reconcileClaims)
		server := &dra.Server{KubeletDir: a.o.Config.Agent.KubeletDir, Claims: a.claims}
		run(func(context.Context) { try(server.Run) })
	}
	run(a.followSamples)
	run(a.followHolders)
	if a.corrector != nil {
		run(a.corrector.Run)
	}
	if a.plugin == nil {
		close(decided)
		if a.sharing != nil {
			run(a.collect)
		}
	} else {
		run(func(ctx context.Context) {
			if why := a.awaitTurn(ctx); why != "" {
				a.yield(why)
				close(decided)
				if a.claims != nil {
					a.collect(ctx)
				}
				return
			}
			close(decided)
			a.o.Metrics.Serving(true)
			run(a.collect)
			run(a.seller.Run)
			try(a.plugin.Run)
		})
	}
	<-ctx.Done()
	a.saveHealth()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// healthPath is the file that keeps the health of devices over a restart of the agent.
func healthPath(a *Agent) string { return filepath.Join(a.o.Config.Agent.StateDir, "health.json") }

func (a *Agent) makeMonitor() (err error) {
	var saved []byte
	if a.o.Kubelet {
		saved, _ = os.ReadFile(healthPath(a)) // absent at the first start
	}
	c := &a.o.Config.Agent
	a.monitor, err = health.New(health.Options{
		Backend: a.o.Backend, Rules: &c.Health, SampleEvery: c.SampleInterval, CallTimeout: sampleTimeout,
		Tenants: a.holders.tenants, OnChange: a.healthChanged, OnCall: a.o.Metrics.Call,
		Reset: c.Reset, Claim: a.claim, OnReset: func(r health.ResetReport) { a.o.Metrics.Reset(r.Err); a.lookSoon() },
		Saved: saved, Boot: textOf("/proc/sys/kernel/random/boot_id"),
	})
	return err
}

func (a *Agent) saveHealth() {
	if !a.o.Kubelet {
		return
	}
	data, err := a.monitor.Save()
	if err == nil {
		err = atomicfile.Write(healthPath(a), data, 0o600, nil)
	}
	if err != nil {
		a.o.Metrics.NotWritten("health")
		a.log.Error(err, "Could not save the health of devices: after a restart of the agent it is judged from samples alone")
	}
}

// healthChanged hears of each change of a device's health.
func (a *Agent) healthChanged(c health.Change) {
	a.log.Info("Health of a device changed", "device", c.Index, "uuid", c.UUID, "instance", c.Instance,
		"from", c.From.State, "to", c.To.State, "reason", c.To.Reason)
	a.o.Metrics.HealthChange(c.To.State)
	a.publishHealth()
	a.offer()
	a.publishPool()
	a.saveHealth()
}

// publishHealth tells the publisher how all devices are.
func (a *Agent) publishHealth() {
	var all []publish.Health
	for _, r := range a.monitor.Readings() {
		h := publish.Health{UUID: r.Device.UUID, State: v1alpha1.Health(r.Health.State.String()), Reason: r.Health.Reason, Cause: string(r.Health.Code), Since: r.Health.Since}
		if xid, ok := r.Sample.Values[device.LastXID]; ok {
			h.LastXID = int(xid)
		}
		all = append(all, h)
	}
	a.publisher.SetHealth(all)
}

// followSamples passes what was measured on, until the context ends.
func (a *Agent) followSamples(ctx context.Context) {
	for paused(ctx, a.o.Config.Agent.SampleInterval) {
		answers := a.driverAnswers()
		if !answers && a.problem.Load() == nil {
			a.lookSoon() // it may be gone
		}
		a.o.Metrics.Driver(answers, a.monitor.Watched())
		var samples []device.Sample
		for _, r := range a.monitor.Readings() {
			if !r.Sample.At.IsZero() {
				samples = append(samples, r.Sample)
			}
		}
		a.publishHealth()
		a.publisher.SetSamples(samples)
		a.publisher.SetOverMemory(a.overMemory(samples))
		if a.guard != nil {
			for _, f := range a.guard.Check(ctx, samples) {
				a.shareExceeded(f)
			}
		}
	}
}

// readings are what the exporter shows.
func (a *Agent) readings() (out []export.Reading) {
	for _, r := range a.monitor.Readings() {
		out = append(out, export.Reading{Device: r.Device, Health: r.Health, Sample: r.Sample, XIDs: r.XIDs, RecentXIDs: r.RecentXIDs})
	}
	return out
}

// Sources are where the exporter reads.
func (a *Agent) Sources() export.Sources {
	return export.Sources{
		Driver: func() string { return a.Inventory().Driver }, Readings: a.readings,
		Holders: a.holders.of, Process: a.containerOf,
	}
}

// Ready says whether the agent has looked at the hardware.
func (a *Agent) Ready() bool { return a.inventory.Load() != nil || a.problem.Load() != nil }

// asked is kubelet, with a metric of whether it answers.
type asked struct {
	*records.Kubelet
	metrics *export.Metrics
}

// List is records.Lister's.
func (k asked) List(ctx context.Context) (records.Listing, error) {
	out, err := k.Kubelet.List(ctx)
	if err == nil || ctx.Err() == nil {
		k.metrics.Kubelet(err == nil)
	}
	return out, err
}

// event writes an event about a pod.
func (a *Agent) event(pod *v1.Pod, kind, reason, message string) {
	if a.o.Events != nil && pod != nil {
		a.o.Events.Event(pod, kind, reason, message)
	}
}
