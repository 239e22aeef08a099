package chaos

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/chaos/checker"
	"github.com/tangram-dev/tangram/test/cluster"
)

// Names of processes that faults are about.
const (
	schedulerA = "gpu-scheduler-a"
	schedulerB = "gpu-scheduler-b"
	controller = "gpu-controller"
	apiServer  = "kube-apiserver"
	etcd       = "etcd"
)

// callTimeout bounds every call of load and faults: a stopped API server must not
// stop them too.
const callTimeout = 5 * time.Second

// world is the cluster under test with its checker.
type world struct {
	*local.Cluster
	cfg     Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
	// watching has no time limit on its calls.
	watching kubernetes.Interface
	fleet    *fleet.Fleet
	checker  *checker.Checker
	able     *ability
	outMu    sync.Mutex
	began    time.Time
}

// newWorld starts everything but the load and the faults.
func newWorld(ctx context.Context, cfg Config) (*world, error) {
	parsed, err := fleet.Parse("fleet", []byte(fleetFile))
	if err != nil {
		return nil, err
	}
	if cfg.Bin, err = filepath.Abs(cfg.Bin); err != nil {
		return nil, err
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	if err := local.RequirePrograms(cfg.Bin, "gpu-scheduler", "gpu-controller"); err != nil {
		return nil, err
	}
	started, err := local.Start(ctx, local.Options{
		Dir: filepath.Join(cfg.Dir, "cluster"), Bin: cfg.Bin, ControllerManager: true, KWOK: true, KeepRestarting: true,
	})
	if err != nil {
		return nil, err
	}
	w := &world{Cluster: started, cfg: cfg, fleet: parsed, checker: checker.New(facts(parsed), checker.DefaultLimits()), began: time.Now()}
	w.able = newAbility(w)
	if err := w.prepare(ctx); err != nil {
		_ = started.Stop() // the first error says more
		return nil, err
	}
	return w, nil
}

// prepare creates what the run needs and starts Tangram.
func (w *world) prepare(ctx context.Context) error {
	if err := w.connect(); err != nil {
		return err
	}
	for _, manifest := range [][]byte{config.CRDs(), config.VolcanoCRDs(), config.RBAC(), config.ControllerRBAC(), []byte(classes), []byte(queues)} {
		if err := w.ApplyManifests(ctx, manifest); err != nil {
			return err
		}
	}
	if err := w.CreateFleet(ctx, w.fleet); err != nil {
		return err
	}
	for _, n := range w.fleet.Nodes() {
		if err := w.publish(ctx, n.Name); err != nil {
			return err
		}
	}
	for _, name := range []string{schedulerA, schedulerB} {
		if err := w.startScheduler(ctx, name); err != nil {
			return err
		}
	}
	return w.startController(ctx)
}

func (w *world) connect() error {
	unlimited := func(timeout time.Duration) *rest.Config {
		c := w.RESTConfig()
		c.QPS, c.Burst, c.Timeout = -1, 0, timeout
		return c
	}
	var err error
	if w.client, err = kubernetes.NewForConfig(unlimited(callTimeout)); err != nil {
		return err
	}
	if w.dynamic, err = dynamic.NewForConfig(unlimited(callTimeout)); err != nil {
		return err
	}
	w.watching, err = kubernetes.NewForConfig(unlimited(0))
	return err
}

func (w *world) startScheduler(ctx context.Context, name string) error {
	file := filepath.Join(recordings(w.cfg.Dir), name)
	_, err := w.Launch(ctx, local.Component{
		Name: "gpu-scheduler", As: name, Config: cluster.QueueArguments(fmt.Sprintf("recording: {file: %q}", file)), Restart: true, Lease: w.cfg.Lease,
	})
	return err
}

func (w *world) startController(ctx context.Context) error {
	_, err := w.Launch(ctx, local.Component{Name: "gpu-controller", As: controller, Restart: true, Ready: "/readyz", Flags: []string{"--leader-elect=false"}})
	return err
}

// say writes a line of progress.
func (w *world) say(format string, args ...any) {
	if w.cfg.Out == nil {
		return
	}
	w.outMu.Lock()
	defer w.outMu.Unlock()
	fmt.Fprintf(w.cfg.Out, "%7.1fs "+format+"\n", append([]any{time.Since(w.began).Seconds()}, args...)...)
}

// eachTick calls f until ctx ends, as often as the interval says.
func eachTick(ctx context.Context, interval time.Duration, f func()) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			f()
		}
	}
}

func namespaced() string { return v1.NamespaceDefault }
