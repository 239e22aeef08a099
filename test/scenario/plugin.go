package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/plugin"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

// pluginEngine is the real kube-scheduler with Tangram's plugins, configured as
// it ships, on a fake API.
type pluginEngine struct {
	api    *fakeAPI
	shared *plugin.Shared
	sched  *scheduler.Scheduler
	stop   func()
	// hasty: failed pods need not wait before they are tried again, so that the
	// queue's order depends on nothing but the order of events.
	hasty bool
}

// reportEvery makes schedulers write at once why a pod waits, and whenever that changes.
const reportEvery = 5 * time.Millisecond

// NewPlugin returns the engine that runs the plugins; it ends with the test.
func NewPlugin(t *testing.T) Engine {
	p := &pluginEngine{stop: func() {}}
	t.Cleanup(func() { p.stop() })
	return p
}

func (p *pluginEngine) Name() string            { return "plugin" }
func (p *pluginEngine) Patience() time.Duration { return 30 * time.Second }
func (p *pluginEngine) Now() time.Time          { return time.Now() }

func (p *pluginEngine) Tick(ctx context.Context, d time.Duration) error { return sleep(ctx, d) }

// Reset starts over with a new API and a new scheduler.
func (p *pluginEngine) Reset(ctx context.Context) error {
	p.stop()
	p.api = newFakeAPI()
	return p.start(ctx)
}

func (p *pluginEngine) Restart(ctx context.Context) error {
	p.stop()
	return p.start(ctx)
}

// start assembles a scheduler as internal/kube/plugin's Setup does, but for the
// connection.
func (p *pluginEngine) start(parent context.Context) error {
	cfg, err := shippedConfig()
	if err != nil {
		return err
	}
	if p.hasty {
		cfg.PodMaxBackoffSeconds = 0
	}
	// The zero logger is silent: what a story needs to know is in the objects.
	ctx, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(parent), klog.Logger{}))
	p.stop = cancel
	p.shared = plugin.NewShared(watch.Sources{
		GPUNodes: p.api.gpuNodes, NodeTopologies: p.api.topologies,
		Groups: map[schema.GroupVersionResource]cache.ListerWatcher{dialect.Queues: p.api.queues, dialect.PodGroups: p.api.podGroups},
	})
	factory := scheduler.NewInformerFactory(p.api.client, 0)
	p.sched, err = scheduler.New(ctx, p.api.client, factory, nil,
		func(string) events.EventRecorderLogger { return recorder{p.api} },
		scheduler.WithComponentConfigVersion(cfg.APIVersion),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(p.shared.Registry()),
		scheduler.WithPodInitialBackoffSeconds(cfg.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(cfg.PodMaxBackoffSeconds),
		scheduler.WithParallelism(cfg.Parallelism),
	)
	if err != nil {
		return err
	}
	p.shared.Engine().ReportEvery(reportEvery)
	p.shared.KeepOut(p.sched)
	p.shared.ScheduleByPlan(p.sched)
	p.shared.HandleFailures(p.sched)
	p.shared.RunLoop(ctx, p.sched)
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	if err := p.sched.WaitForHandlersSync(parent); err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { p.sched.Run(ctx) })
	p.stop = func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	}
	return nil
}

// shippedConfig is config/scheduler.yaml, completed as gpu-scheduler does.
func shippedConfig() (*schedulerconfig.KubeSchedulerConfiguration, error) {
	object, gvk, err := schedulerscheme.Codecs.UniversalDecoder().Decode(config.Scheduler(), nil, nil)
	if err != nil {
		return nil, err
	}
	cfg, ok := object.(*schedulerconfig.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("scheduler.yaml holds a %s", gvk)
	}
	cfg.APIVersion = gvk.GroupVersion().String()
	plugin.CompleteAll(cfg.Profiles)
	return cfg, nil
}

func (p *pluginEngine) Apply(ctx context.Context, objects ...metav1.Object) error {
	for _, o := range objects {
		if err := p.api.apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (p *pluginEngine) Delete(ctx context.Context, objects ...metav1.Object) error {
	for _, o := range objects {
		if err := p.api.delete(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (p *pluginEngine) Observe(ctx context.Context) (*State, error) { return p.api.state(ctx) }

// Ask creates a question, waits for the answer and deletes the question.
func (p *pluginEngine) Ask(ctx context.Context, question *v1.Pod, done func(string) bool) error {
	pods := p.api.client.CoreV1().Pods(question.Namespace)
	if _, err := pods.Create(ctx, question, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := until(ctx, func() bool {
		now, err := pods.Get(ctx, question.Name, metav1.GetOptions{})
		return err == nil && answered(now) && done(scheduled(now).Message)
	}); err != nil {
		return err
	}
	return pods.Delete(ctx, question.Name, metav1.DeleteOptions{})
}

// Settle waits until the scheduler's ledger gives the answers that one rebuilt
// from the API gives, kube-scheduler's own cache has the same nodes and as many
// pods, and no pod is about to be tried or should be.
func (p *pluginEngine) Settle(ctx context.Context) error {
	var problem error
	_, err := await(ctx, p, func(state *State) bool {
		problem = p.compare(state)
		return problem == nil
	})
	return errors.Join(err, problem)
}

// compare says how the scheduler's view differs from the API.
func (p *pluginEngine) compare(state *State) error {
	rebuilt, err := state.LedgerWith(p.shared.Engine().Checker().Standings())
	if err != nil {
		return err
	}
	for _, node := range nodesOf(rebuilt) {
		for _, pod := range questions(node) {
			if err := p.ask(pod, rebuilt); err != nil {
				return err
			}
		}
		if err := p.rate(node, rebuilt); err != nil {
			return err
		}
	}
	if err := p.compareNodes(state); err != nil {
		return err
	}
	if _, err := p.shared.Engine().Checker().All(); err != nil {
		return err
	}
	bound := 0
	for _, pod := range state.Pods {
		if pod.Spec.NodeName != "" && !ended(pod) {
			bound++
		}
	}
	pods, err := p.sched.Cache.PodCount()
	if err != nil {
		return err
	}
	if err := difference("kube-scheduler's cache", fmt.Sprintf("%d pods", pods), fmt.Sprintf("%d pods", bound)); err != nil {
		return err
	}
	queue := p.sched.SchedulingQueue
	busy := len(queue.PodsInActiveQ()) > 0 || len(queue.InFlightPods()) > 0
	if busy && len(state.Nodes) > 0 { // without nodes it tries again and again
		return errors.New("kube-scheduler has pods to try")
	}
	return state.checkWaiting(rebuilt)
}

// compareNodes compares the nodes in kube-scheduler's cache with the API's.
func (p *pluginEngine) compareNodes(state *State) error {
	var cached []string
	for name, info := range p.sched.Cache.Dump().Nodes {
		node := info.Node()
		if node == nil {
			continue // gone, but pods are bound to it
		}
		cached = append(cached, name)
		now := state.Nodes[name]
		if now != nil && !(equality.Semantic.DeepEqual(node.Labels, now.Labels) && equality.Semantic.DeepEqual(node.Spec, now.Spec) &&
			equality.Semantic.DeepEqual(node.Status.Allocatable, now.Status.Allocatable)) {
			return fmt.Errorf("kube-scheduler's cache has an old node %s", name)
		}
	}
	slices.Sort(cached)
	return difference("kube-scheduler's cache", fmt.Sprint(cached), fmt.Sprint(slices.Sorted(maps.Keys(state.Nodes))))
}

// ask compares who can serve a pod, and why the others cannot.
func (p *pluginEngine) ask(pod *v1.Pod, rebuilt *ledger.Ledger) error {
	r, err := dialect.Request(pod)
	if err != nil {
		return err
	}
	nodes := p.shared.Engine().Search(r, score.DefaultWeights(), math.MaxInt)
	refused := p.shared.Engine().Reasons(r)
	fresh := planner.New(rebuilt)
	var want []model.NodeID
	for c := range fresh.Candidates(r, score.DefaultWeights()) {
		want = append(want, c.Node)
	}
	reasons := fresh.Reasons(r)
	return difference(fmt.Sprintf("the scheduler's ledger says of %v", pod.Annotations),
		fmt.Sprintf("%v, %s", nodes, refused.String()), fmt.Sprintf("%v, %s", want, reasons.String()))
}
