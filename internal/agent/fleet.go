package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"

	"github.com/tangram-dev/tangram/internal/agent/config"
	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/dra"
	"github.com/tangram-dev/tangram/internal/agent/export"
	"github.com/tangram-dev/tangram/internal/agent/health"
	"github.com/tangram-dev/tangram/internal/agent/kubeapi"
	"github.com/tangram-dev/tangram/internal/agent/nvml"
	"github.com/tangram-dev/tangram/internal/agent/publish"
	"github.com/tangram-dev/tangram/internal/agent/records"
	"github.com/tangram-dev/tangram/internal/agent/sharing"
	"github.com/tangram-dev/tangram/internal/agent/sharing/hami"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mps"
	"github.com/tangram-dev/tangram/internal/version"
)

// agents are those of one process: one, or one for each node of a simulated fleet.
type agents struct {
	all  []*Agent
	also []func(context.Context) error // what they share
}

// agents makes them, by the flags.
func (o *flags) agents(ctx context.Context, settings *config.Config, rest *restclient.Config, registry *prometheus.Registry) (*agents, error) {
	rest = restclient.CopyConfig(rest)
	rest.UserAgent = "gpu-agent/" + version.Get().Version
	if o.node == "" {
		rest.QPS, rest.Burst = 1000, 2000 // it stands for many
	}
	reachable := export.NewReachable()
	registry.MustRegister(reachable)
	rest.Wrap(reachable.Watch)
	client, err := kubeapi.New(rest)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(rest)
	if err != nil {
		return nil, err
	}
	recorder := client.NewRecorder(ctx, publish.Manager)
	pods := records.NewPods(client.Pods(""), o.node)
	out := &agents{also: []func(context.Context) error{func(ctx context.Context) error { pods.Run(ctx); return nil }}}
	var slicesOfDriver *dra.Observed
	if settings.Agent.DRA {
		slicesOfDriver = dra.NewObserved(client.Slices(), o.node)
		out.also = append(out.also, func(ctx context.Context) error { slicesOfDriver.Run(ctx); return nil })
	}
	var backend func(node string, metrics *export.Metrics) device.Backend
	nodes := []string{o.node}
	shared := sharing.Options{MPS: mps.Options{Control: o.mpsControl, ShmDir: o.mpsShm}, HAMi: hami.Options{LibraryDir: o.hamiLibrary}}
	switch o.backend {
	case "nvml":
		if err := imexMissing(settings); err != nil {
			return nil, err
		}
		shared.MPS.Exclusive = mps.SMI("nvidia-smi")
		backend = func(_ string, metrics *export.Metrics) device.Backend {
			return nvml.New(nvml.Options{
				DriverRoot: settings.Flags.DriverRoot, DriverRootHere: here(settings.Flags.DriverRoot, settings.Flags.ContainerDriverRoot),
				DevRoot: settings.Flags.DevRoot, IMEXChannels: settings.IMEX.Channels, Observe: metrics.Call,
			})
		}
	case "simulated":
		if err := o.simulator.Open(rest, client.Pods("")); err != nil {
			return nil, err
		}
		if o.node == "" {
			nodes = o.simulator.Nodes()
		} else if !slices.Contains(o.simulator.Nodes(), o.node) {
			return nil, fmt.Errorf("--node: %q is not in the fleet, or has no GPUs", o.node)
		}
		backend = func(node string, _ *export.Metrics) device.Backend { return o.simulator.Backend(node) }
		out.also = append(out.also, o.simulator.Run)
	}
	onDemand := o.node == "" || settings.Agent.Mode == config.Serve && settings.Flags.MIGStrategy == config.MIGMixed && o.migOnDemand
	for _, node := range nodes {
		metrics := export.NewMetrics(node)
		a, err := New(Options{
			Node: node, Backend: backend(node, metrics), Config: settings, Version: version.Get().Version, Kubelet: o.node != "", MIGOnDemand: onDemand,
			Slices: slicesOfDriver, MIGClaims: o.migOnDemand, Sharing: shared,
			Pods: pods.On(node), Client: client, Objects: objects, Events: recorder, Metrics: metrics,
		})
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", node, err)
		}
		out.all = append(out.all, a)
		registry.MustRegister(metrics, export.NewCollector(export.Options{Node: node, Sources: a.Sources(), XIDWindow: health.XIDWindow}))
	}
	return out, nil
}

// imexMissing says which IMEX channel does not exist though it is required.
func imexMissing(c *config.Config) error {
	if !c.IMEX.Required || c.Agent.Mode != config.Serve {
		return nil
	}
	for _, channel := range c.IMEX.Channels {
		if _, err := os.Stat(filepath.Join("/", c.Flags.DevRoot, nvml.IMEXPath(channel))); err != nil {
			return fmt.Errorf("imex.required: channel %d: %w", channel, err)
		}
	}
	return nil
}

// here is where this process sees the driver's root: below the folder where it is mounted
// into the agent's container, when there is one.
func here(root, mounted string) string {
	if _, err := os.Stat(mounted); err == nil && mounted != "" {
		return mounted
	}
	return root
}

// ready says whether all have looked at their hardware.
func (a *agents) ready() bool {
	return !slices.ContainsFunc(a.all, func(x *Agent) bool { return !x.Ready() })
}

// run works until the context ends, or one cannot go on.
func (a *agents) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	work := func(f func(context.Context) error) {
		running.Go(func() {
			if err := f(ctx); err != nil {
				cancel(err)
			}
		})
	}
	for _, x := range a.all {
		a.also = append(a.also, x.Run)
	}
	for _, f := range a.also {
		work(f)
	}
	<-ctx.Done()
	running.Wait()
	for _, x := range a.all {
		_ = x.o.Backend.Close() // the process ends
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
