package recovery

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/core/recovery"
)

// Sources are where objects are read.
type Sources struct {
	Nodes, Pods, GPUNodes, PodGroups cache.Store
	// Synced says whether the GPUNodes are all there; until then nothing is done.
	Synced func() bool
}

// Recovery is the loop. Its fields are set before Run.
type Recovery struct {
	Settings Settings
	Sources  Sources
	Client   kubernetes.Interface
	Objects  dynamic.Interface
	Events   events.EventRecorder
	Metrics  *Metrics

	machine   *recovery.Machine
	read      map[types.UID]readPod
	scheduler recovery.Scheduler
	asked     time.Time // when the scheduler's lease was last read
	told      map[string]time.Time
	saved     saved
}

// callTimeout bounds each call of the API server; core takes a write that is not seen
// after a minute for lost.
const callTimeout = 10 * time.Second

// Run works until the context ends.
func (r *Recovery) Run(ctx context.Context) {
	r.told = map[string]time.Time{}
	r.machine = recovery.New(r.Settings.config(), r.load(ctx))
	tick := time.NewTicker(r.Settings.tick())
	defer tick.Stop()
	klog.FromContext(ctx).Info("Health and recovery started", "evictFrom", r.Settings.Evict.From, "nodesPercent", r.Settings.Limits.NodesPercent, "devicesPercent", r.Settings.Limits.DevicesPercent)
	for {
		if r.Sources.Synced() {
			r.step(ctx, time.Now())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *Recovery) step(ctx context.Context, now time.Time) {
	r.askScheduler(ctx, now)
	plan := r.machine.Step(now, r.fleet(now))
	r.Metrics.plan(&plan, r.machine.Reliability())
	for _, a := range plan.Actions {
		if ctx.Err() != nil {
			return
		}
		if err := r.act(ctx, a); err != nil {
			r.machine.Failed(a)
			if a.Do == recovery.EvictPods {
				continue // each pod was reported
			}
			klog.FromContext(ctx).Info("Recovery step failed, will be retried", "step", a.Do, "node", a.Node, "device", a.Device, "err", err.Error())
		}
	}
	for _, n := range plan.Notices {
		r.notice(ctx, n)
	}
	r.save(ctx, now)
}

// askScheduler reads the scheduler's lease, as often as it is to be looked at and a few
// times more, so that an age is known. It is not watched: it changes every two seconds.
func (r *Recovery) askScheduler(ctx context.Context, now time.Time) {
	if every := min(r.Settings.Intervals.Scheduler.Duration, 15*time.Second); !r.asked.IsZero() && now.Sub(r.asked) < every {
		return
	}
	r.asked = now
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	lease, err := r.Client.CoordinationV1().Leases(r.Settings.Scheduler.Namespace).Get(ctx, r.Settings.Scheduler.Lease, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err): // a scheduler that needs no lease
		r.scheduler = recovery.Scheduler{}
	case err != nil:
		klog.FromContext(ctx).Info("The scheduler's lease could not be read", "err", err.Error())
	default:
		r.scheduler = recovery.Scheduler{Known: true}
		if t := lease.Spec.RenewTime; t != nil {
			r.scheduler.Renewal = t.UTC().String()
		}
	}
}

// notice tells about a node, or about the cluster: then it is an event of the controller's
// own lease.
func (r *Recovery) notice(ctx context.Context, n recovery.Notice) {
	klog.FromContext(ctx).Info(n.Text, "reason", n.Reason, "node", n.Node)
	kind := v1.EventTypeWarning
	if n.Reason == "SchedulerBack" {
		kind = v1.EventTypeNormal
	}
	if n.Node == "" {
		r.event(&v1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: "kube-system", Name: "gpu-controller"}, kind, n.Reason, n.Text)
		return
	}
	r.nodeEvent(n.Node, kind, n.Reason, n.Text)
}

func (r *Recovery) nodeEvent(name, kind, reason, note string) {
	if obj, ok, err := r.Sources.Nodes.GetByKey(name); err == nil && ok {
		r.event(obj.(*v1.Node), kind, reason, note)
	}
}

const maxNote = 1024 // what an event's note may hold

func (r *Recovery) event(about runtime.Object, kind, reason, note string) {
	r.Events.Eventf(about, nil, kind, reason, "Recovery", "%s", note[:min(len(note), maxNote)])
}

// once does something for a key at most once an hour.
func (r *Recovery) once(key string, f func()) {
	if at, ok := r.told[key]; ok && time.Since(at) < time.Hour {
		return
	}
	if len(r.told) > 10_000 {
		clear(r.told)
	}
	r.told[key] = time.Now()
	f()
}
