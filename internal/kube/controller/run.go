package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/autoscale"
	"github.com/tangram-dev/tangram/internal/kube/recovery"
)

const component = "gpu-controller" // the controller's name in leases and events

// Workers per loop. Most of a reconcile is waiting for the API server.
const (
	jobWorkers   = 8
	groupWorkers = 8
	queueWorkers = 1 // one key, and memory of its own
)

// Controller is gpu-controller, independent of its flags.
type Controller struct {
	Config *rest.Config
	Elect  bool   // other replicas may run, and only the leader works
	Timing Timing // how long it waits; the zero value is DefaultTiming
	// Ready is called with false while the controller starts up, and with true when it
	// works, or when another replica leads.
	Ready func(bool)
	// Recovery is how sick nodes and devices are reacted to; nil for not at all.
	Recovery *recovery.Settings
	Metrics  *recovery.Metrics
	// Autoscaling is how what the scheduler asks of autoscalers is carried out. Where
	// Autoscales is false, what was done before is taken back.
	Autoscaling autoscale.Settings
	Autoscales  bool
}

// Run works until the context ends or the lease is lost.
func (c *Controller) Run(ctx context.Context) error {
	c.Timing = cmp.Or(c.Timing, DefaultTiming())
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	clients, err := newClients(c.Config, scheme)
	if err != nil {
		return err
	}
	clients.timing = c.Timing
	if !c.Elect {
		return c.work(ctx, clients, scheme)
	}
	return c.elect(ctx, func(ctx context.Context) error { return c.work(ctx, clients, scheme) })
}

// elect waits for the lease and works while it is held. Losing it is an error: the
// process must end, because another replica may already work.
func (c *Controller) elect(ctx context.Context, work func(context.Context) error) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	me := host + "_" + string(uuid.NewUUID())
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, "kube-system", component,
		resourcelock.ResourceLockConfig{Identity: me}, c.Config, c.Timing.Renew)
	if err != nil {
		return err
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, Name: component, ReleaseOnCancel: true,
		LeaseDuration: c.Timing.Lease, RenewDeadline: c.Timing.Renew, RetryPeriod: c.Timing.Retry,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				done <- work(ctx)
				cancel()
			},
			OnStoppedLeading: func() {},
			OnNewLeader:      func(leader string) { c.Ready(leader != me) },
		},
	})
	select {
	case err = <-done:
	default: // never elected, or about to end: the lease is gone either way
	}
	if err == nil && outer.Err() == nil {
		err = errors.New("lost the lease: another works now")
	}
	return err
}

func (c *Controller) work(ctx context.Context, clients *clients, scheme *runtime.Scheme) error {
	if err := c.awaitDefinitions(ctx, clients); err != nil {
		return ignoreEnd(ctx, err)
	}
	c.Ready(false)
	sources, err := newSources(clients)
	if err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.kube.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	recorder := broadcaster.NewRecorder(scheme, component)
	jobs, err := newJobs(clients, sources, recorder)
	if err != nil {
		return err
	}
	entrance := newEntrance()
	groups, err := newPodGroups(clients, sources, recorder, entrance)
	if err != nil {
		return err
	}
	queues, err := newQueues(clients, sources, recorder, entrance)
	if err != nil {
		return err
	}
	finished, err := newFinished(sources)
	if err != nil {
		return err
	}
	if err := c.Metrics.Registry().Register(finished); err != nil {
		return err
	}
	if !sources.start(ctx) {
		return ignoreEnd(ctx, errors.New("informer caches did not sync"))
	}
	klog.FromContext(ctx).Info("Controller started")
	c.Ready(true)
	var wg sync.WaitGroup
	wg.Go(func() { startOptional(ctx, clients, v1alpha1.GPUNodes, sources.gpuNodes) })
	wg.Go(func() { startOptional(ctx, clients, dialect.KAIQueues, sources.kaiQueues) })
	wg.Go(func() { jobs.run(ctx, jobWorkers) })
	wg.Go(func() { groups.run(ctx, groupWorkers) })
	wg.Go(func() { queues.run(ctx, queueWorkers) })
	if c.Recovery != nil {
		objects, err := dynamic.NewForConfig(c.Config)
		if err != nil {
			return err
		}
		healing := recovery.Recovery{
			Settings: *c.Recovery, Metrics: c.Metrics, Client: clients.kube, Objects: objects, Events: recorder,
			Sources: recovery.Sources{
				Nodes: sources.nodes.GetStore(), Pods: sources.pods.GetStore(), GPUNodes: sources.gpuNodes.GetStore(), PodGroups: sources.podGroups.GetStore(),
				Synced: sources.gpuNodes.HasSynced,
			},
		}
		wg.Go(func() { healing.Run(ctx) })
	}
	wg.Go(func() { c.autoscale(ctx, clients, sources) })
	c.Metrics.Leads(true)
	defer c.Metrics.Leads(false)
	wg.Wait()
	return nil
}

// autoscale carries out what the scheduler asks of autoscalers, or takes back what was done.
func (c *Controller) autoscale(ctx context.Context, clients *clients, sources *sources) {
	s := &autoscale.Scaler{Settings: c.Autoscaling, Client: clients.kube, Pods: sources.pods, Nodes: sources.nodes}
	if !c.Autoscales {
		s.Clean(ctx)
		return
	}
	if err := s.Run(ctx); ignoreEnd(ctx, err) != nil {
		klog.FromContext(ctx).Error(err, "Autoscaling ended")
	}
}

// ignoreEnd drops errors that are caused by the end of the context.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

const definitionsInterval = 2 * time.Second // how often a cluster without Volcano's CRDs is polled for them

func (c *Controller) awaitDefinitions(ctx context.Context, clients *clients) error {
	said := ""
	return wait.PollUntilContextCancel(ctx, definitionsInterval, true, func(context.Context) (bool, error) {
		missing, err := missingKinds(clients)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Discovery of API kinds failed, will be retried")
			return false, nil
		}
		if len(missing) == 0 {
			return true, nil
		}
		if text := strings.Join(missing, ", "); text != said {
			said = text
			klog.FromContext(ctx).Info("Waiting for CustomResourceDefinitions (config/crd/volcano)", "missing", text)
		}
		c.Ready(true) // waiting for CRDs is not a fault
		return false, nil
	})
}

func missingKinds(clients *clients) ([]string, error) {
	var missing []string
	for _, want := range []struct {
		gv    schema.GroupVersion
		names []string
	}{
		{batch.SchemeGroupVersion, []string{"jobs"}},
		{scheduling.SchemeGroupVersion, []string{"podgroups", "queues"}},
		{bus.SchemeGroupVersion, []string{"commands"}},
	} {
		var served []string
		list, err := clients.kube.Discovery().ServerResourcesForGroupVersion(want.gv.String())
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, err
		default:
			for _, r := range list.APIResources {
				served = append(served, r.Name)
			}
		}
		for _, name := range want.names {
			if !slices.Contains(served, name) {
				missing = append(missing, fmt.Sprintf("%s.%s", name, want.gv.Group))
			}
		}
	}
	return missing, nil
}
