package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/lab/local"
)

const (
	// warmupPods fill the connections, caches and Go heaps of all processes before the
	// measurement. Enough to reach every code path many times, few enough to take no
	// noticeable time.
	warmupPods = 100
	// stallLimit is how long no pod may be bound before a contender has failed.
	// kube-scheduler's longest pause between two attempts of a pod is 10 s.
	stallLimit = 60 * time.Second
	// quietPeriod and quietLimit: a contender is quiet once it uses less than
	// quietShare of one CPU for a period, and gets that long to become so.
	quietPeriod = 500 * time.Millisecond
	quietLimit  = 10 * time.Second
	quietShare  = 0.1
)

// trial is one contender in one round: its own control plane, its own fleet, one
// measurement.
type trial struct {
	config    *Config
	contender contender
	round     int
	// dir is this trial's own folder, self the command line of this command.
	dir      string
	self     []string
	progress *progress

	cluster *local.Cluster
	client  kubernetes.Interface
	process *local.Process
	load    load
	lost    <-chan error
	port    int // of the contender
}

// run measures once. An error means that there is nothing to report; a result
// with problems that the contender failed.
func (t *trial) run(ctx context.Context) (result Result, err error) {
	t.say("starting a control plane")
	if err := t.startCluster(ctx); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, t.cluster.Stop()) }()
	// Clients end before their server does.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.say("creating %d nodes", t.config.Nodes)
	if err := t.prepare(ctx); err != nil {
		return Result{}, err
	}
	t.say("starting the contender")
	if err := t.startContender(ctx); err != nil {
		return Result{}, err
	}
	warm, counted := newCohort("warm", t.config.warmupCount()), newCohort("pod", t.config.podCount())
	if t.config.Gangs > 0 {
		warm.inGangsOf(t.config.Size)
		counted.inGangsOf(t.config.Size)
	}
	if t.lost, err = watchBound(ctx, t.client, warm, counted); err != nil {
		return Result{}, err
	}
	t.say("warming up with %d pods", warm.size())
	if err := t.warmUp(ctx, warm); err != nil {
		return Result{}, err
	}
	if t.config.Pending > 0 {
		t.say("creating %d pods that fit nowhere", t.config.Pending)
		if err := t.createPending(ctx, t.config.Pending); err != nil {
			return Result{}, err
		}
	}
	t.say("creating and binding %d pods", counted.size())
	result, err = t.measure(ctx, counted)
	if err != nil {
		return Result{}, err
	}
	t.say("%.0f pods/s, %.2f ms CPU per pod; checking", result.PodsPerSecond, result.SchedulerCPU)
	if err := t.check(ctx, counted, &result); err != nil {
		return Result{}, err
	}
	if result.Locks, err = t.lockTimes(ctx); err != nil {
		return Result{}, fmt.Errorf("read lock times: %w", err)
	}
	return result, t.process.Stop()
}

func (t *trial) say(format string, args ...any) {
	t.progress.phase("round %d of %d, %s: %s", t.round, t.config.Rounds, t.contender.name, fmt.Sprintf(format, args...))
}

func (t *trial) startCluster(ctx context.Context) (err error) {
	if t.cluster, err = local.Start(ctx, local.Options{Dir: t.dir, Bin: t.config.Bin}); err != nil {
		return err
	}
	config := rest.CopyConfig(t.cluster.RESTConfig())
	config.ContentType = protobuf
	config.QPS = -1
	if t.client, err = kubernetes.NewForConfig(config); err != nil {
		return errors.Join(err, t.cluster.Stop())
	}
	return nil
}

// prepare creates the state that every contender starts from. There is no
// controller-manager, so it also creates the service account that pods need.
func (t *trial) prepare(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := t.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := t.client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create service account: %w", err)
	}
	if !t.config.Claims {
		return createNodes(ctx, t.client, t.config.Nodes, t.config.GPUs, func(*corev1.Node) {})
	}
	if err := createNodes(ctx, t.client, t.config.Nodes, t.config.GPUs, func(n *corev1.Node) {
		delete(n.Status.Capacity, names.ResourceNVIDIA)
		delete(n.Status.Allocatable, names.ResourceNVIDIA)
	}); err != nil {
		return err
	}
	return createSlices(ctx, t.client, t.config.Nodes, t.config.GPUs)
}

func (t *trial) startContender(ctx context.Context) error {
	port, err := local.FreePort()
	if err != nil {
		return err
	}
	t.port = port
	t.process, err = t.contender.start(ctx, t.cluster, site{
		dir: t.dir, kubeconfig: t.cluster.Kubeconfig(), port: port, self: t.self,
	}, t.config.Bin)
	t.load = load{client: t.client, schedulerName: t.contender.schedulerName, gpus: t.config.GPUsPerPod, claims: t.config.Claims}
	return err
}

// warmUp binds pods that do not count and deletes them again.
func (t *trial) warmUp(ctx context.Context, c *cohort) error {
	bodies, err := t.load.prepare(ctx, c)
	if err != nil {
		return err
	}
	if err := t.load.create(ctx, c, bodies, 0); err != nil {
		return err
	}
	if err := t.await(ctx, c, nil); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if err := t.load.remove(ctx, c); err != nil {
		return err
	}
	// A create from before the measurement must not be garbage during it.
	runtime.GC()
	_, err = t.awaitQuiet(ctx)
	return err
}

// measure creates the counted pods and waits for the last.
func (t *trial) measure(ctx context.Context, c *cohort) (Result, error) {
	bodies, err := t.load.prepare(ctx, c)
	if err != nil {
		return Result{}, err
	}
	var questions *asker
	if t.contender.asked {
		if questions, err = t.newAsker(ctx); err != nil {
			return Result{}, err
		}
	}
	before, err := sampleCPU(t.process.Pid())
	if err != nil {
		return Result{}, err
	}
	loading, stopLoading := context.WithCancel(ctx)
	defer stopLoading()
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		if err := t.load.create(loading, c, bodies, t.config.Rate); err != nil {
			failed <- err
		}
	}()
	go t.scrape(loading)
	stopAsking := questions.begin(loading, t.config, c)
	defer stopAsking()
	stalled := t.await(ctx, c, failed)
	after, err := sampleCPU(t.process.Pid())
	if err != nil {
		// The waiting side knows better why the contender has ended.
		return Result{}, cmp.Or(stalled, err)
	}
	if stalled != nil {
		stopLoading()
	}
	stopAsking()
	for range failed { // until the creators have ended and written their last
	}
	settled, err := t.awaitQuiet(ctx)
	if err != nil {
		return Result{}, err
	}
	peak, err := readPeakRSS(t.process.Pid())
	if err != nil {
		return Result{}, err
	}
	r := t.result(c, before, after)
	r.SchedulerCPUSettled = milliseconds(settled.contender-before.contender) / float64(c.size())
	r.PeakMemory = float64(peak) / (1 << 20)
	if questions != nil {
		var problem string
		if r.Asked, problem = questions.result(); problem != "" {
			r.Problems = append(r.Problems, problem)
		}
	}
	if stalled != nil {
		r.Problems = append(r.Problems, stalled.Error())
	}
	return r, nil
}

// result is what the clocks say.
func (t *trial) result(c *cohort, before, after cpuSample) Result {
	timing := c.timing()
	pods := float64(c.size())
	r := Result{
		Contender:        t.contender.name,
		Round:            t.round,
		Bound:            timing.bound,
		Seconds:          timing.span.Seconds(),
		SchedulerCPU:     milliseconds(after.contender-before.contender) / pods,
		ClientCPU:        milliseconds(after.client-before.client) / pods,
		ControlPlaneCPU:  milliseconds(after.controlPlane-before.controlPlane) / pods,
		CreateToBound:    timing.latency,
		CreatedPerSecond: timing.arrival,
	}
	if c.ganged {
		r.Gangs = &GangResult{LastCreateToBound: timing.gangs}
	}
	if timing.span > 0 {
		r.PodsPerSecond = float64(timing.bound) / timing.span.Seconds()
	}
	benchmark := (after.contender - before.contender) + (after.client - before.client) + (after.controlPlane - before.controlPlane)
	whole := after.at.Sub(before.at) * time.Duration(runtime.NumCPU())
	if whole > 0 {
		r.OtherCPU = max(0, float64(after.machine-before.machine-benchmark)/float64(whole))
	}
	return r
}

// await waits until every pod of a cohort is bound. It gives up when creating
// has failed, when the contender or the watch has ended, or when nothing has
// moved for stallLimit. failed is closed once everything is created; nil if it
// is already.
func (t *trial) await(ctx context.Context, c *cohort, failed <-chan error) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var last int64
	moved := time.Now()
	for {
		select {
		case <-c.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-t.lost:
			return err
		case err := <-t.cluster.Failed():
			return err
		case err, open := <-failed:
			if open {
				return err
			}
			failed = nil
			continue
		case <-t.process.Done():
			return fmt.Errorf("it ended with %d of %d pods bound; its log is %s", c.boundCount.Load(), c.size(), t.process.Log())
		case <-ticker.C:
		}
		created, bound := c.createdCount.Load(), c.boundCount.Load()
		t.progress.second("    %d created, %d bound of %d", created, bound, c.size())
		if now := time.Now(); created+bound != last {
			last, moved = created+bound, now
		} else if now.Sub(moved) > stallLimit {
			return fmt.Errorf("nothing bound for %v, with %d of %d pods bound; its log is %s", stallLimit, bound, c.size(), t.process.Log())
		}
	}
}

// awaitQuiet waits until the contender has nothing more to do, or quietLimit, and
// returns the CPU times at the end.
func (t *trial) awaitQuiet(ctx context.Context) (cpuSample, error) {
	last, err := sampleCPU(t.process.Pid())
	for end := time.Now().Add(quietLimit); err == nil && time.Now().Before(end); {
		if err := sleep(ctx, quietPeriod); err != nil {
			return last, err
		}
		var now cpuSample
		if now, err = sampleCPU(t.process.Pid()); err != nil {
			break
		}
		used := now.contender - last.contender
		last = now
		if float64(used) < quietShare*float64(quietPeriod) {
			break
		}
	}
	return last, err
}

// check reads the final state from the API and validates it.
func (t *trial) check(ctx context.Context, c *cohort, r *Result) error {
	list, err := t.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	want := expectation{
		gpusPerPod: t.config.GPUsPerPod,
		capacity:   make(map[string]int, t.config.Nodes),
		records:    t.contender.records && !t.config.Claims,
	}
	for i := range c.size() {
		want.pods = append(want.pods, c.podName(i))
	}
	for i := range t.config.Nodes {
		want.capacity[nodeName(i)] = t.config.GPUs
	}
	nodesUsed, problems := checkResult(want, list.Items)
	r.NodesUsed = nodesUsed
	r.Problems = append(r.Problems, problems...)
	if t.config.Claims && t.contender.name != Ceiling {
		claims, err := t.client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("check: %w", err)
		}
		r.Problems = append(r.Problems, checkClaims(want, list.Items, claims.Items)...)
	}
	if c.ganged {
		places, problems := checkGangs(c.gangs(), list.Items)
		r.Gangs.NodesPerGang, r.Gangs.MostNodes, r.Gangs.Partial = places.mean, places.most, places.partial
		r.Problems = append(r.Problems, problems...)
	}
	return nil
}
