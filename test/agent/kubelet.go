package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugins "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// kubelet plays the part of kubelet that agents talk to: it lets plugins register,
// watches their devices, and lists which pods hold what.
type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	plugins.UnimplementedRegistrationServer
	dir string

	mu      sync.Mutex
	servers []*grpc.Server
	// held is what podresources lists, by pod: resource, then IDs.
	held map[string]*podresources.ContainerDevices
	// foreign is what another device plugin offers.
	foreign []*podresources.ContainerDevices
	// offered are the devices of plugins, by resource; endpoints their sockets.
	offered   map[string][]*plugins.Device
	endpoints map[string]string
	// registrations counts.
	registrations int
}

func newKubelet(dir string) (*kubelet, error) {
	k := &kubelet{dir: dir, held: map[string]*podresources.ContainerDevices{}, offered: map[string][]*plugins.Device{}, endpoints: map[string]string{}}
	return k, k.start()
}

// start serves both sockets. As kubelet's, it first removes those of plugins.
func (k *kubelet) start() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, dir := range []string{"device-plugins", "pod-resources"} {
		path := filepath.Join(k.dir, dir)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		old, err := filepath.Glob(filepath.Join(path, "*.sock"))
		if err != nil {
			return err
		}
		for _, socket := range old {
			if err := os.Remove(socket); err != nil {
				return err
			}
		}
		l, err := net.Listen("unix", filepath.Join(path, "kubelet.sock"))
		if err != nil {
			return err
		}
		s := grpc.NewServer()
		if dir == "device-plugins" {
			plugins.RegisterRegistrationServer(s, k)
		} else {
			podresources.RegisterPodResourcesListerServer(s, k)
		}
		k.servers = append(k.servers, s)
		go func() { _ = s.Serve(l) }() // ends with stop
	}
	return nil
}

// stop takes both sockets away.
func (k *kubelet) stop() {
	k.mu.Lock()
	servers := k.servers
	k.servers, k.registrations = nil, 0
	clear(k.offered)
	clear(k.endpoints)
	k.mu.Unlock()
	for _, s := range servers {
		s.Stop() // which removes its socket
	}
}

// Register is kubelet's.
func (k *kubelet) Register(_ context.Context, r *plugins.RegisterRequest) (*plugins.Empty, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.registrations++
	socket := filepath.Join(k.dir, "device-plugins", r.Endpoint)
	k.endpoints[r.ResourceName] = socket
	go k.follow(r.ResourceName, socket)
	return &plugins.Empty{}, nil
}

func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
}

// follow keeps what a plugin offers until it hangs up.
func (k *kubelet) follow(resource, socket string) {
	conn, err := dial(socket)
	if err != nil {
		return
	}
	defer conn.Close()
	stream, err := plugins.NewDevicePluginClient(conn).ListAndWatch(context.Background(), &plugins.Empty{})
	for err == nil {
		var list *plugins.ListAndWatchResponse
		if list, err = stream.Recv(); err == nil {
			k.mu.Lock()
			k.offered[resource] = list.Devices
			k.mu.Unlock()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.endpoints[resource] == socket {
		delete(k.offered, resource)
	}
}

// List is podresources'.
func (k *kubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := &podresources.ListPodResourcesResponse{}
	for pod, devices := range k.held {
		out.PodResources = append(out.PodResources, &podresources.PodResources{Namespace: "default", Name: pod,
			Containers: []*podresources.ContainerResources{{Name: "main", Devices: []*podresources.ContainerDevices{devices}}}})
	}
	return out, nil
}

// GetAllocatableResources is podresources': what is healthy.
func (k *kubelet) GetAllocatableResources(context.Context, *podresources.AllocatableResourcesRequest) (*podresources.AllocatableResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := &podresources.AllocatableResourcesResponse{Devices: slices.Clone(k.foreign)}
	for resource, devices := range k.offered {
		for _, d := range devices {
			if d.Health == plugins.Healthy {
				out.Devices = append(out.Devices, &podresources.ContainerDevices{ResourceName: resource, DeviceIds: []string{d.ID}})
			}
		}
	}
	return out, nil
}

// healthy are the IDs of a resource that may be given.
func (k *kubelet) healthy(resource string) (out []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range k.offered[resource] {
		if d.Health == plugins.Healthy {
			out = append(out, d.ID)
		}
	}
	return out
}

func (k *kubelet) registered() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.registrations
}

// forget makes podresources not list a pod, as before kubelet has heard of it; hear ends
// that.
func (k *kubelet) forget(pod string) *podresources.ContainerDevices {
	k.mu.Lock()
	defer k.mu.Unlock()
	held := k.held[pod]
	delete(k.held, pod)
	return held
}

func (k *kubelet) hear(pod string, held *podresources.ContainerDevices) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[pod] = held
}

// give gives a pod devices and starts its container: Allocate, then PreStartContainer.
// The devices stay given when the start fails, as with kubelet.
func (k *kubelet) give(pod, resource string, ids ...string) (*plugins.ContainerAllocateResponse, error) {
	k.mu.Lock()
	socket := k.endpoints[resource]
	k.mu.Unlock()
	if socket == "" {
		return nil, fmt.Errorf("no plugin sells %s", resource)
	}
	conn, err := dial(socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client := plugins.NewDevicePluginClient(conn)
	k.mu.Lock()
	_, again := k.held[pod]
	k.mu.Unlock()
	var answer *plugins.ContainerAllocateResponse
	if !again {
		all, err := client.Allocate(ctx, &plugins.AllocateRequest{ContainerRequests: []*plugins.ContainerAllocateRequest{{DevicesIds: ids}}})
		if err != nil {
			return nil, err
		}
		answer = all.ContainerResponses[0]
		k.mu.Lock()
		k.held[pod] = &podresources.ContainerDevices{ResourceName: resource, DeviceIds: ids}
		k.mu.Unlock()
	}
	_, err = client.PreStartContainer(ctx, &plugins.PreStartContainerRequest{DevicesIds: ids})
	return answer, err
}
