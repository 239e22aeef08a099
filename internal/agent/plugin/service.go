package plugin

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/tangram-dev/tangram/internal/agent/device"
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
