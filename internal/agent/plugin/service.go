package plugin

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/socket"
)

// service answers kubelet's calls for one resource.
type service struct {
	api.UnimplementedDevicePluginServer
	plugin   *Plugin
	resource string

	mu      sync.Mutex
	devices []device.Sold
	changed chan struct{} // closed with the next change
	// stream numbers the calls of ListAndWatch; kubelet listens to the newest one. open
	// says whether it goes on, hung gets a message when it ends.
	stream int
	open   bool
	hung   chan struct{}
}

func newService(p *Plugin, resource string) *service {
	return &service{plugin: p, resource: resource, changed: make(chan struct{}), hung: make(chan struct{}, 1)}
}

// set changes what is sold.
func (s *service) set(devices []device.Sold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(devices, s.devices) {
		return
	}
	s.devices = slices.Clone(devices)
	s.send()
}

// again sends the list once more.
func (s *service) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send()
}

// send lets the list be sent. The caller holds the lock.
func (s *service) send() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *service) state() ([]device.Sold, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.devices, s.changed
}

// GetDevicePluginOptions says that the agent wants to choose devices and to be called
// before each start.
func (s *service) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return options(), nil
}

func options() *api.DevicePluginOptions {
	return &api.DevicePluginOptions{PreStartRequired: true, GetPreferredAllocationAvailable: true}
}

// ListAndWatch sends what is sold: at once, after each change, and after answers to
// Allocate.
func (s *service) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	s.mu.Lock()
	s.stream++
	number := s.stream
	s.open = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stream == number {
			s.open = false
			select {
			case s.hung <- struct{}{}:
			default:
			}
		}
	}()
	for {
		devices, changed := s.state()
		list := &api.ListAndWatchResponse{}
		for _, d := range devices {
			sold := &api.Device{ID: d.ID, Health: api.Unhealthy}
			if d.Healthy {
				sold.Health = api.Healthy
			}
			if d.NUMA >= 0 {
				sold.Topology = &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: int64(d.NUMA)}}}
			}
			list.Devices = append(list.Devices, sold)
		}
		if err := stream.Send(list); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-changed:
		}
	}
}

func (s *service) streaming() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// GetPreferredAllocation chooses devices. It does not fail: kubelet would fail the pod.
func (s *service) GetPreferredAllocation(ctx context.Context, r *api.PreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	out := &api.PreferredAllocationResponse{}
	for _, c := range r.GetContainerRequests() {
		ids := s.plugin.o.Granter.Preferred(ctx, s.resource, c.GetAvailableDeviceIDs(), c.GetMustIncludeDeviceIDs(), int(c.GetAllocationSize()))
		out.ContainerResponses = append(out.ContainerResponses, &api.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return out, nil
}

// Allocate answers with what containers on devices need.
func (s *service) Allocate(ctx context.Context, r *api.AllocateRequest) (*api.AllocateResponse, error) {
	defer s.plugin.settle(s)
	out := &api.AllocateResponse{}
	for _, c := range r.GetContainerRequests() {
		a, err := s.plugin.o.Granter.Allocate(ctx, s.resource, c.GetDevicesIds())
		if err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		out.ContainerResponses = append(out.ContainerResponses, response(a))
	}
	return out, nil
}

// PreStartContainer makes devices ready for the container that kubelet starts.
func (s *service) PreStartContainer(ctx context.Context, r *api.PreStartContainerRequest) (*api.PreStartContainerResponse, error) {
	if err := s.plugin.o.Granter.PreStart(ctx, s.resource, r.GetDevicesIds()); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &api.PreStartContainerResponse{}, nil
}

func response(a device.Answer) *api.ContainerAllocateResponse {
	out := &api.ContainerAllocateResponse{Envs: map[string]string{}}
	for _, e := range a.Edits.Env {
		name, value, _ := strings.Cut(e, "=")
		out.Envs[name] = value
	}
	for _, m := range a.Edits.Mounts {
		out.Mounts = append(out.Mounts, &api.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, ReadOnly: slices.Contains(m.Options, "ro")})
	}
	for _, n := range a.Edits.Nodes {
		out.Devices = append(out.Devices, &api.DeviceSpec{ContainerPath: n.Path, HostPath: cmp.Or(n.HostPath, n.Path), Permissions: cmp.Or(n.Permissions, "rw")})
	}
	for _, name := range a.CDI {
		out.CdiDevices = append(out.CdiDevices, &api.CDIDevice{Name: name})
	}
	return out
}

// run serves and registers until the context ends. It registers again when kubelet's
// socket is another one (kubelet restarted), when its own socket is gone (kubelet
// deletes all on its start), and when kubelet hung up: it does so when a stream of an
// older registration of the same resource ends, even though a newer one is in place.
func (s *service) run(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("resource", s.resource)
	kubelet := filepath.Join(s.plugin.o.Dir, "kubelet.sock")
	var (
		own        *socket.Socket
		registered socket.File   // kubelet's socket at the last registration
		at         time.Time     // of the last registration
		pause      time.Duration // after failures
		failing    bool
	)
	defer func() { own.Stop() }()
	for n := 0; ; {
		if own != nil && own.Gone() {
			log.Info("The socket was deleted; serving on a new one", "path", own.Path)
			own.Stop()
			own, registered = nil, socket.File{}
		}
		if own == nil {
			n++
			var err error
			path := filepath.Join(s.plugin.o.Dir, s.plugin.socketName(s.resource, n))
			if own, err = socket.Listen(path, func(g *grpc.Server) { api.RegisterDevicePluginServer(g, s) }); err != nil {
				log.Error(err, "Could not serve the resource to kubelet; will retry", "socket", path)
			}
		}
		// Kubelet opens its stream right after a registration.
		silent := !s.streaming() && time.Since(at) > 10*s.plugin.o.Poll
		if now := socket.FileAt(kubelet); own != nil && now != (socket.File{}) && (now != registered || silent) {
			err := s.register(ctx, kubelet, filepath.Base(own.Path))
			at = time.Now()
			if err != nil {
				registered = socket.File{}
				pause = min(max(2*pause, s.plugin.o.Poll/4), 10*s.plugin.o.Poll)
				if !failing {
					log.Info("Kubelet refused the registration; will retry", "err", err)
				}
				failing = true
			} else {
				registered, pause, failing = now, 0, false
				log.Info("Registered with kubelet", "socket", own.Path)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.hung:
			// A moment for kubelet to finish, and for a stream that takes this one's place.
			select {
			case <-ctx.Done():
				return
			case <-time.After(s.plugin.o.Poll / 10):
			}
			if !s.streaming() {
				registered = socket.File{}
			}
		case <-time.After(s.plugin.o.Poll + pause):
		}
	}
}

func (s *service) register(ctx context.Context, kubelet, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = api.NewRegistrationClient(conn).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: endpoint, ResourceName: s.resource, Options: options(),
	})
	if err != nil {
		return fmt.Errorf("register at %s: %w", kubelet, err)
	}
	return nil
}
