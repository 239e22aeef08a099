package dra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/tangram-dev/tangram/internal/agent/socket"
)

// Server speaks kubelet's protocols: the DRA plugin, version v1, on one socket, and the
// registration by which kubelet finds it on another. Kubelet looks at the folder of
// registrations, also after its restart, so nothing has to be repeated but for sockets
// that were deleted.
type Server struct {
	// KubeletDir has plugins and plugins_registry below.
	KubeletDir string
	Claims     *Claims
	// Poll is how often the sockets are looked at; 0 means one second.
	Poll time.Duration
}

// prefix begins the names of registration sockets.
const prefix = Driver + "-"

// Run serves until the context ends, then removes its sockets, so that kubelet knows at
// once. Two agents may serve at the same time, during an upgrade: kubelet asks the one that
// came last.
func (s *Server) Run(ctx context.Context) error {
	registry := filepath.Join(s.KubeletDir, "plugins_registry")
	plugins := filepath.Join(s.KubeletDir, "plugins", Driver)
	for _, dir := range []string{registry, plugins} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("kubelet's folder of plugins: %w", err)
		}
	}
	socket.Sweep(filepath.Join(registry, prefix+"*.sock"))
	socket.Sweep(filepath.Join(plugins, "*.sock"))
	tag, log := socket.Tag(), klog.FromContext(ctx)
	var serving, registering *socket.Socket
	stop := func() {
		registering.Stop() // first: kubelet is to ask no more
		serving.Stop()
		serving, registering = nil, nil
	}
	defer func() { stop() }()
	for n := 0; ; n++ {
		if serving == nil || serving.Gone() || registering.Gone() {
			stop()
			name := fmt.Sprintf("%s-%d", tag, n)
			var err error
			// The plugin first: kubelet calls it as soon as it finds the registration.
			if serving, err = socket.Listen(filepath.Join(plugins, name+".sock"), func(g *grpc.Server) {
				api.RegisterDRAPluginServer(g, &service{claims: s.Claims})
			}); err == nil {
				registering, err = socket.Listen(filepath.Join(registry, prefix+name+".sock"), func(g *grpc.Server) {
					registration.RegisterRegistrationServer(g, &registrar{endpoint: serving.Path, log: log})
				})
			}
			if err != nil {
				log.Error(err, "Could not serve the DRA plugin; will retry")
				stop()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(cmp.Or(s.Poll, time.Second)):
		}
	}
}

// registrar tells kubelet about the plugin.
type registrar struct {
	registration.UnimplementedRegistrationServer
	endpoint string
	log      klog.Logger
	refused  atomic.Bool
}

// GetInfo names the plugin, and where it is.
func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.DRAPlugin, Name: Driver, Endpoint: r.endpoint, SupportedVersions: []string{api.DRAPluginService}}, nil
}

// NotifyRegistrationStatus hears whether kubelet takes it.
func (r *registrar) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	switch refused := !status.GetPluginRegistered(); {
	case !refused:
		r.log.Info("Kubelet has registered the DRA plugin", "endpoint", r.endpoint)
		r.refused.Store(false)
	case !r.refused.Swap(true):
		r.log.Error(errors.New(status.GetError()), "Kubelet refused to register the DRA plugin; it will retry", "endpoint", r.endpoint)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// service answers kubelet's calls.
type service struct {
	api.UnimplementedDRAPluginServer
	claims *Claims
}

// NodePrepareResources prepares claims, each for itself.
func (s *service) NodePrepareResources(ctx context.Context, request *api.NodePrepareResourcesRequest) (*api.NodePrepareResourcesResponse, error) {
	out := &api.NodePrepareResourcesResponse{Claims: map[string]*api.NodePrepareResourceResponse{}}
	for _, c := range request.GetClaims() {
		answer := &api.NodePrepareResourceResponse{}
		devices, err := s.claims.Prepare(ctx, c.GetNamespace(), c.GetName(), c.GetUid())
		if err != nil {
			answer.Error = err.Error()
			klog.FromContext(ctx).Error(err, "Could not prepare a claim", "claim", klog.KRef(c.GetNamespace(), c.GetName()))
		}
		for _, d := range devices {
			device := &api.Device{RequestNames: []string{d.Request}, PoolName: d.Pool, DeviceName: d.Device, CdiDeviceIds: []string{d.CDI}}
			if d.Share != "" {
				device.ShareId = &d.Share
			}
			answer.Devices = append(answer.Devices, device)
		}
		out.Claims[c.GetUid()] = answer
	}
	return out, nil
}

// NodeUnprepareResources gives claims back, each for itself.
func (s *service) NodeUnprepareResources(ctx context.Context, request *api.NodeUnprepareResourcesRequest) (*api.NodeUnprepareResourcesResponse, error) {
	out := &api.NodeUnprepareResourcesResponse{Claims: map[string]*api.NodeUnprepareResourceResponse{}}
	for _, c := range request.GetClaims() {
		answer := &api.NodeUnprepareResourceResponse{}
		if err := s.claims.Unprepare(ctx, c.GetUid()); err != nil {
			answer.Error = err.Error()
			klog.FromContext(ctx).Error(err, "Could not unprepare a claim", "claim", klog.KRef(c.GetNamespace(), c.GetName()))
		}
		out.Claims[c.GetUid()] = answer
	}
	return out, nil
}
