package autoscale

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/demand"
	"github.com/tangram-dev/tangram/api/names"
)

// Scaler carries out what the scheduler asks of autoscalers.
type Scaler struct {
	Settings
	Client      kubernetes.Interface
	Pods, Nodes cache.SharedIndexInformer // informers that the caller runs

	mu sync.Mutex
	// members are those of the document that was carried out last.
	members map[types.UID]bool
	kicked  chan struct{}
	problem string // what was last logged of the document
}

const (
	// lookEvery is how often everything is compared though nothing happens: what failed is
	// tried again, and an old document counts for nothing.
	lookEvery = 10 * time.Second
	// callTimeout bounds each call of the API server.
	callTimeout = 10 * time.Second
	component   = "gpu-controller"
)

// Run works until the context ends. The informers must have synced.
func (s *Scaler) Run(ctx context.Context) error {
	s.kicked = make(chan struct{}, 1)
	one := fields.OneTermEqualSelector("metadata.name", names.DemandName)
	source := cache.NewListWatchFromClient(s.Client.CoreV1().RESTClient(), "configmaps", names.DemandNamespace, one)
	demands := cache.NewSharedIndexInformer(source, &v1.ConfigMap{}, 0, cache.Indexers{})
	changed := func(any) { s.kick() }
	if _, err := demands.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(any, any) { s.kick() }, DeleteFunc: changed}); err != nil {
		return err
	}
	pods, err := s.Pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: s.podChanged, UpdateFunc: func(_, now any) { s.podChanged(now) }, DeleteFunc: s.podChanged})
	if err != nil {
		return err
	}
	defer func() { _ = s.Pods.RemoveEventHandler(pods) }() // it is there
	go demands.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), demands.HasSynced, pods.HasSynced) {
		return errors.New("what autoscalers are asked for could not be read")
	}
	klog.FromContext(ctx).Info("Autoscaling started", "placeholders", s.Namespace)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		s.round(ctx, s.document(ctx, demands.GetStore(), time.Now()))
		select {
		case <-ctx.Done():
			return nil
		case <-s.kicked:
		case <-tick.C:
		}
	}
}

// Clean takes back all that was ever done, for a controller that does not do it any more.
func (s *Scaler) Clean(ctx context.Context) { s.round(ctx, &demand.Document{}) }

// document is what is asked for now; an empty one when it cannot be read, or is of a
// scheduler that is gone.
func (s *Scaler) document(ctx context.Context, store cache.Store, now time.Time) *demand.Document {
	obj, there, err := store.GetByKey(names.DemandNamespace + "/" + names.DemandName)
	problem := ""
	doc := &demand.Document{}
	if err == nil && there {
		if text, has := obj.(*v1.ConfigMap).Data[demand.Key]; has {
			if doc, err = demand.Decode([]byte(text)); err != nil {
				doc, problem = &demand.Document{}, err.Error()
			} else if now.Sub(doc.At) > demand.Stale {
				doc, problem = &demand.Document{}, "the scheduler has not written it for "+demand.Stale.String()
			}
		}
	}
	if problem != s.problem && problem != "" {
		klog.FromContext(ctx).Info("What autoscalers are asked for is ignored", "configMap", klog.KRef(names.DemandNamespace, names.DemandName), "problem", problem)
	}
	s.problem = problem
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = map[types.UID]bool{}
	for i := range doc.Gangs {
		for _, m := range doc.Gangs[i].Members {
			s.members[types.UID(m.UID)] = true
		}
	}
	return doc
}

// kick makes the next round begin at once.
func (s *Scaler) kick() {
	select {
	case s.kicked <- struct{}{}:
	default:
	}
}

// podChanged looks at pods that are stood for, and at placeholders.
func (s *Scaler) podChanged(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	p, ok := obj.(*v1.Pod)
	if !ok {
		return
	}
	s.mu.Lock()
	stood := s.members[p.UID]
	s.mu.Unlock()
	if stood || p.Namespace == s.Namespace && p.Labels[names.LabelPlaceholder] != "" {
		s.kick()
	}
}

// round makes the API what it should be. What fails is logged and tried again in a later
// round.
func (s *Scaler) round(ctx context.Context, doc *demand.Document) {
	var placeholders []*v1.Pod
	for _, obj := range s.Pods.GetStore().List() {
		if p := obj.(*v1.Pod); p.Namespace == s.Namespace && p.Labels[names.LabelPlaceholder] != "" {
			placeholders = append(placeholders, p)
		}
	}
	var nodes []*v1.Node
	for _, obj := range s.Nodes.GetStore().List() {
		nodes = append(nodes, obj.(*v1.Node))
	}
	p := s.decide(doc, s.pod, placeholders, nodes)
	logger := klog.FromContext(ctx)
	did := func(what string, err error, about ...any) {
		switch {
		case err == nil:
			logger.Info(what, about...)
		case apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || ctx.Err() != nil:
		default:
			logger.Error(err, "Failed, will be retried: "+what, about...)
		}
	}
	// A placeholder whose member is bound must go before an autoscaler sees both.
	all(ctx, p.remove, func(x *v1.Pod) {
		did("Placeholder removed", s.remove(ctx, x), "pod", klog.KObj(x), "for", x.Annotations[names.AnnotationPlaceholderFor])
	})
	all(ctx, p.create, func(x *v1.Pod) {
		did("Placeholder made", s.create(ctx, x), "pod", klog.KObj(x), "for", x.Annotations[names.AnnotationPlaceholderFor])
	})
	all(ctx, p.show, func(x *v1.Pod) { did("Placeholder shown to autoscalers", s.show(ctx, x), "pod", klog.KObj(x)) })
	all(ctx, p.keep, func(n *v1.Node) {
		did("Node kept from being removed: it is kept for a gang", s.patch(ctx, n, keepPatch), "node", n.Name)
	})
	all(ctx, p.free, func(n *v1.Node) {
		did("Node not kept from being removed any more", s.patch(ctx, n, freePatch), "node", n.Name)
	})
}

const atOnce = 32 // how many objects are written at the same time

// all does something for all objects of a list, several at the same time.
func all[T any](ctx context.Context, list []T, do func(T)) {
	workqueue.ParallelizeUntil(ctx, atOnce, len(list), func(i int) { do(list[i]) })
}

func (s *Scaler) pod(namespace, name string) *v1.Pod {
	obj, there, err := s.Pods.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !there {
		return nil
	}
	return obj.(*v1.Pod)
}

func (s *Scaler) remove(ctx context.Context, p *v1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
}

func (s *Scaler) create(ctx context.Context, p *v1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	made, err := s.Client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{FieldManager: component})
	if err != nil {
		return err
	}
	return s.show(ctx, made)
}

// show lets autoscalers see a placeholder: what a scheduler would do that had tried it.
func (s *Scaler) show(ctx context.Context, p *v1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	patch := []byte(`{"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"stands for pod ` +
		p.Annotations[names.AnnotationPlaceholderFor] + `, which waits for nodes; it never runs"}]}}`)
	_, err := s.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: component}, "status")
	return err
}

func (s *Scaler) patch(ctx context.Context, n *v1.Node, change func(*v1.Node) ([]byte, error)) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := s.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		patch, err := change(now)
		if err != nil || patch == nil {
			return err
		}
		_, err = s.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: component})
		return err
	})
}
