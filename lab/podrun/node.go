package podrun

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"

	"github.com/tangram-dev/tangram/lab/local"
)

// Label is on the node, and a taint keeps all others off: only pods that select and
// tolerate it come here. Everything else is for simulated nodes.
const Label = "tangram.dev/local-runner"

// leaseDuration is kubelet's own; the lease is renewed four times within it.
const leaseDuration = 40 * time.Second

// Options are what a node works with.
type Options struct {
	Cluster *local.Cluster
	// Name of the node.
	Name string
	// Bin is the folder of the programs; a container of image registry/path/name:tag runs
	// Bin/name.
	Bin string
}

// Node runs the pods that are bound to it.
type Node struct {
	o      Options
	client kubernetes.Interface
	dir    string // of the files of pods, and of the node's own
	// network is the second and third byte of pods' addresses.
	network int

	mu        sync.Mutex
	pods      map[types.UID]*pod
	addresses int // the last that was given
	running   sync.WaitGroup
}

// Start creates the node, or takes it over, and runs its pods until the context ends;
// Wait returns when they have been stopped then.
func Start(ctx context.Context, o Options) (*Node, error) {
	client, err := kubernetes.NewForConfig(o.Cluster.RESTConfig())
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(o.Cluster.RESTConfig().Host)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(server.Port())
	if err != nil {
		return nil, fmt.Errorf("port of the API server: %w", err)
	}
	n := &Node{network: port, o: o, client: client, dir: filepath.Join(o.Cluster.Dir(), "nodes", o.Name), pods: map[types.UID]*pod{}}
	if err := n.register(ctx); err != nil {
		return nil, fmt.Errorf("create node %s: %w", o.Name, err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(l *metav1.ListOptions) {
		l.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", o.Name).String()
	}))
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { n.see(ctx, obj.(*v1.Pod)) },
		UpdateFunc: func(_, obj any) { n.see(ctx, obj.(*v1.Pod)) },
		DeleteFunc: n.forget,
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	// Without a lease that is renewed the node would be taken for lost.
	n.running.Go(func() {
		lease.NewController(clock.RealClock{}, client, o.Name, int32(leaseDuration/time.Second), nil, leaseDuration/4, o.Name, v1.NamespaceNodeLease, nil).Run(ctx)
	})
	return n, nil
}

// Root is the folder that stands for the node's file system: hostPath volumes are below.
func (n *Node) Root() string { return filepath.Join(n.dir, "root") }

// Wait returns once all pods have been stopped, after the context of Start has ended.
func (n *Node) Wait() { n.running.Wait() }

// register makes the node known and ready.
func (n *Node) register(ctx context.Context) error {
	nodes := n.client.CoreV1().Nodes()
	wanted := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.o.Name, Labels: map[string]string{Label: "true", v1.LabelHostname: n.o.Name, v1.LabelOSStable: "linux"}},
		Spec:       v1.NodeSpec{Taints: []v1.Taint{{Key: Label, Effect: v1.TaintEffectNoSchedule}}},
	}
	if _, err := nodes.Create(ctx, wanted, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	now := metav1.Now()
	room := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("256Gi"), v1.ResourcePods: resource.MustParse("110"),
	}
	patch, err := json.Marshal(map[string]any{"status": v1.NodeStatus{
		Capacity: room, Allocatable: room,
		Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "PodRunner", LastHeartbeatTime: now, LastTransitionTime: now}},
	}})
	if err != nil {
		return err
	}
	_, err = nodes.Patch(ctx, n.o.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// see starts the life of a new pod, or tells that of a known one about the change.
func (n *Node) see(ctx context.Context, object *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pods[object.UID]; p != nil {
		if object.DeletionTimestamp != nil {
			p.end()
		}
		return
	}
	if object.Status.Phase == v1.PodSucceeded || object.Status.Phase == v1.PodFailed {
		return
	}
	p := newPod(n, object.DeepCopy(), n.address())
	n.pods[object.UID] = p
	if object.DeletionTimestamp != nil {
		p.end()
	}
	n.running.Go(func() { p.live(ctx) })
}

// address is one that no other pod of this machine has: of the API server's port, which is
// another in every cluster, and of a number that no pod here has. Call it with the lock.
func (n *Node) address() string {
	taken := map[string]bool{}
	for _, p := range n.pods {
		taken[p.address] = true
	}
	for {
		n.addresses = n.addresses%250 + 1
		address := fmt.Sprintf("127.%d.%d.%d", n.network>>8, n.network&0xff, n.addresses)
		if !taken[address] || len(taken) >= 250 {
			return address
		}
	}
}

// forget ends a pod that was deleted without a grace period.
func (n *Node) forget(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	object, ok := obj.(*v1.Pod)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pods[object.UID]; p != nil {
		p.end()
		delete(n.pods, object.UID)
	}
}
