package devicemanager

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname

	cadvisor "github.com/google/cadvisor/info/v1"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// newManagerImpl is kubelet's constructor with a directory of one's own; the exported
// one always uses /var/lib/kubelet, where a real kubelet may run.
//
//go:linkname newManagerImpl k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManagerImpl(logger klog.Logger, socketPath string, topology []cadvisor.Node, store topologymanager.Store) (*devicemanager.ManagerImpl, error)

// kubelet is the part of kubelet that hands out devices. What a restart does not lose
// (the checkpoint, the pods, the containers that run) outlives it.
type kubelet struct {
	dir    string
	policy string
	scope  string
	numa   []cadvisor.Node

	mu      sync.Mutex
	pods    []*v1.Pod         // active ones
	running map[string]string // container ID by pod UID and container

	// listing is held by podresources while kubelet frees the devices of pods that it has
	// not among its active ones. Kubelet itself has no such lock: a pod that comes after
	// that list was made, and has its devices before it is used, loses them. That takes a
	// thread that stands still for as long as an Allocate; on a busy test machine it does.
	listing sync.RWMutex

	// writing, when not nil, is called before each write of the checkpoint, with the
	// containers in it (pod UID and name), and what it returns is called after. overtaken counts writes that were left out because a
	// newer one had come before.
	// deaf is how long after its start kubelet hears of no pods, as it does without a
	// container runtime.
	deaf      time.Duration
	writing   func(containers map[[2]string]bool) func()
	overtaken atomic.Int64

	manager  *devicemanager.ManagerImpl
	topology topologymanager.Manager
	served   *grpc.Server
	sources  *sources
}

// sources says whether kubelet has heard of all pods.
type sources struct {
	mu    sync.Mutex
	ready bool
}

func (s *sources) AddSource(string) {}
func (s *sources) AllReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

func newKubelet(dir, policy, scope string, numaNodes int) *kubelet {
	k := &kubelet{dir: dir, policy: policy, scope: scope, running: map[string]string{}}
	for i := range numaNodes {
		k.numa = append(k.numa, cadvisor.Node{Id: i})
	}
	return k
}

func (k *kubelet) socket() string { return filepath.Join(k.dir, "podresources.sock") }

// start begins a life of kubelet: the checkpoint is read, plugins may register, pods of
// the life before are admitted again. It returns those that were refused.
func (k *kubelet) start(ctx context.Context) (refused []*v1.Pod, err error) {
	k.topology, err = topologymanager.NewManager(k.numa, k.policy, k.scope, nil)
	if err != nil {
		return nil, err
	}
	plugins := filepath.Join(k.dir, "plugins")
	k.manager, err = newManagerImpl(klog.Background(), filepath.Join(plugins, "kubelet.sock"), k.numa, k.topology)
	if err != nil {
		return nil, err
	}
	watchCheckpoints(k, k.manager)
	k.topology.AddHintProvider(klog.Background(), k.manager)
	containers, alive := containermap.NewContainerMap(), sets.New[string]()
	k.mu.Lock()
	for key, id := range k.running {
		var uid, name string
		if _, err := fmt.Sscanf(key, "%s %s", &uid, &name); err == nil {
			containers.Add(uid, name, id)
			alive.Insert(id)
		}
	}
	k.mu.Unlock()
	k.sources = &sources{}
	if err := k.manager.Start(klog.Background(), k.active, k.sources, containers, alive); err != nil {
		return nil, err
	}
	k.served = grpc.NewServer()
	podresourcesapi.RegisterPodResourcesListerServer(k.served, podresources.NewV1PodResourcesServer(ctx, podresources.PodResourcesProviders{
		Pods: k, Devices: k, Cpus: nothing{}, Memory: nothing{}, DynamicResources: nothing{},
	}))
	l, err := net.Listen("unix", k.socket())
	if err != nil {
		return nil, err
	}
	// Kubelet serves podresources before it hears of pods, and then takes them one by one.
	k.mu.Lock()
	pods := k.pods
	k.pods = nil
	k.mu.Unlock()
	go func() { _ = k.served.Serve(l) }()
	time.Sleep(k.deaf)
	for _, p := range pods {
		k.mu.Lock()
		k.pods = append(k.pods, p)
		k.mu.Unlock()
		if !k.topology.Admit(&lifecycle.PodAdmitAttributes{Pod: p}).Admit {
			refused = append(refused, p)
		}
	}
	for _, p := range refused {
		k.remove(p)
	}
	k.sources.mu.Lock()
	k.sources.ready = true
	k.sources.mu.Unlock()
	return refused, nil
}

func (k *kubelet) stop() error {
	k.served.Stop()
	return k.manager.Stop(klog.Background())
}

func (k *kubelet) active() []*v1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.pods)
}

// admit gives a pod its devices, as when kubelet hears of it.
func (k *kubelet) admit(pod *v1.Pod) error {
	k.listing.Lock()
	k.mu.Lock()
	k.pods = append(k.pods, pod)
	k.mu.Unlock()
	k.listing.Unlock()
	if r := k.topology.Admit(&lifecycle.PodAdmitAttributes{Pod: pod}); !r.Admit {
		k.remove(pod)
		return fmt.Errorf("%s: %s", r.Reason, r.Message)
	}
	return nil
}

// create asks for what a container needs, as when kubelet creates it.
func (k *kubelet) create(ctx context.Context, pod *v1.Pod, c *v1.Container) (*devicemanager.DeviceRunContainerOptions, error) {
	out, err := k.manager.GetDeviceRunContainerOptions(ctx, pod, c)
	if err == nil {
		k.mu.Lock()
		k.running[string(pod.UID)+" "+c.Name] = "id-" + string(pod.UID) + "-" + c.Name
		k.mu.Unlock()
	}
	return out, err
}

func (k *kubelet) remove(pod *v1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods = slices.DeleteFunc(k.pods, func(p *v1.Pod) bool { return p.UID == pod.UID })
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		delete(k.running, string(pod.UID)+" "+c.Name)
	}
}

// What podresources asks for; as kubelet's container manager answers.

func (k *kubelet) GetActivePods() []*v1.Pod { return k.active() }
func (k *kubelet) GetPods() []*v1.Pod       { return k.active() }
func (k *kubelet) GetPodByName(namespace, name string) (*v1.Pod, bool) {
	for _, p := range k.active() {
		if p.Namespace == namespace && p.Name == name {
			return p, true
		}
	}
	return nil, false
}
func (k *kubelet) UpdateAllocatedDevices() {
	k.listing.RLock()
	defer k.listing.RUnlock()
	k.manager.UpdateAllocatedDevices()
}
func (k *kubelet) GetDevices(uid, container string) (out []*podresourcesapi.ContainerDevices) {
	for resource, devices := range k.manager.GetDevices(uid, container) {
		for id := range devices {
			out = append(out, &podresourcesapi.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}})
		}
	}
	return out
}
func (k *kubelet) GetAllocatableDevices() []*podresourcesapi.ContainerDevices { return nil }

// nothing are the resources that the test does not need.
type nothing struct{}

func (nothing) GetCPUs(string, string) []int64                              { return nil }
func (nothing) GetAllocatableCPUs() []int64                                 { return nil }
func (nothing) GetMemory(string, string) []*podresourcesapi.ContainerMemory { return nil }
func (nothing) GetAllocatableMemory() []*podresourcesapi.ContainerMemory    { return nil }
func (nothing) GetDynamicResources(*v1.Pod, *v1.Container) []*podresourcesapi.DynamicResource {
	return nil
}
