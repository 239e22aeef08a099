package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"

	"github.com/tangram-dev/tangram/api/names"
)

// binders is how many Bindings the no-thought binder has under way at a time.
// kube-scheduler has no such limit; beyond this many the API server is busy
// anyway and the rate no longer grows.
const binders = 32

// binder is the ceiling: the least that any scheduler must do. It hears of pods
// through an informer as a scheduler would, takes the next node in turn that has
// GPUs left, and posts a Binding. It weighs nothing, writes no event and no
// status. No scheduler on the same API can be faster for long.
type binder struct {
	kubeconfig    string
	schedulerName string
	// address serves /readyz, as kube-scheduler does.
	address string
	log     io.Writer
}

// run binds until ctx ends.
func (b *binder) run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", b.kubeconfig)
	if err != nil {
		return fmt.Errorf("binder: %w", err)
	}
	config.ContentType = protobuf
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("binder: %w", err)
	}
	ring, err := readRing(ctx, client)
	if err != nil {
		return fmt.Errorf("binder: %w", err)
	}

	queue := workqueue.NewTyped[*corev1.Pod]()
	defer context.AfterFunc(ctx, queue.ShutDown)()
	// The same selector as kube-scheduler's own informer, hence the same events.
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = "status.phase!=Succeeded,status.phase!=Failed"
	}))
	pods := factory.Core().V1().Pods().Informer()
	handler, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if pod, ok := o.(*corev1.Pod); ok && pod.Spec.SchedulerName == b.schedulerName {
				queue.Add(pod)
			}
		},
		DeleteFunc: func(o any) {
			if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
				ring.give(pod.Spec.NodeName, podGPUs(pod))
			}
		},
	})
	if err != nil {
		return fmt.Errorf("binder: %w", err)
	}
	var ready atomic.Bool
	stop, err := serveReady(b.address, &ready)
	if err != nil {
		return fmt.Errorf("binder: %w", err)
	}
	defer stop()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return fmt.Errorf("binder: %w", context.Cause(ctx))
	}
	ready.Store(true)

	var wg sync.WaitGroup
	for range binders {
		wg.Go(func() {
			for {
				pod, ended := queue.Get()
				if ended || ctx.Err() != nil {
					return
				}
				if err := bindNext(ctx, client, ring, pod); err != nil && ctx.Err() == nil {
					fmt.Fprintln(b.log, err)
				}
				queue.Done(pod)
			}
		})
	}
	wg.Wait()
	return nil
}

// bindNext binds a pod to the next node with room. A pod that is bound already
// only takes its room.
func bindNext(ctx context.Context, client kubernetes.Interface, ring *ring, pod *corev1.Pod) error {
	gpus := podGPUs(pod)
	if pod.Spec.NodeName != "" {
		ring.give(pod.Spec.NodeName, -gpus)
		return nil
	}
	node, ok := ring.take(gpus)
	if !ok {
		return fmt.Errorf("bind %s/%s: no node has %d GPUs left", pod.Namespace, pod.Name, gpus)
	}
	err := client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if err == nil {
		return nil
	}
	ring.give(node, gpus)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("bind %s/%s: %w", pod.Namespace, pod.Name, err)
}

func podGPUs(pod *corev1.Pod) int {
	gpus := int64(0)
	for i := range pod.Spec.Containers {
		q := pod.Spec.Containers[i].Resources.Requests[names.ResourceNVIDIA]
		gpus += q.Value()
	}
	return int(gpus)
}

// ring hands out nodes in turn.
type ring struct {
	mu    sync.Mutex
	nodes []string
	free  map[string]int
	next  int
}

func readRing(ctx context.Context, client kubernetes.Interface) (*ring, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	r := &ring{free: map[string]int{}}
	for i := range list.Items {
		n := &list.Items[i]
		q := n.Status.Allocatable[names.ResourceNVIDIA]
		r.nodes = append(r.nodes, n.Name)
		r.free[n.Name] = int(q.Value())
	}
	return r, nil
}

// take reserves GPUs on the next node that has them.
func (r *ring) take(gpus int) (node string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range r.nodes {
		node := r.nodes[r.next]
		r.next = (r.next + 1) % len(r.nodes)
		if r.free[node] >= gpus {
			r.free[node] -= gpus
			return node, true
		}
	}
	return "", false
}

func (r *ring) give(node string, gpus int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free[node] += gpus
}

// serveReady answers /readyz with 200 once ready is set, and with 503 before.
func serveReady(address string, ready *atomic.Bool) (stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	// Serve ends when stop closes the server, and has nothing else to say.
	go func() { _ = server.Serve(listener) }()
	return func() { server.Close() }, nil
}
