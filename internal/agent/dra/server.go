package dra

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Server speaks kubelet's protocols: the DRA plugin, version v1, on one socket, and the
// registration by which kubelet finds it on another. Kubelet looks at the folder of
// registrations, also after its restart, so nothing has to be repeated but for sockets
// that somebody deleted.
type Server struct {
	// KubeletDir has plugins and plugins_registry below.
	KubeletDir string
	Claims     *Claims
	// Registered hears of each registration, with kubelet's refusal; nil for nobody.
	Registered func(err error)
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
	sweep(filepath.Join(registry, prefix+"*.sock"))
	sweep(filepath.Join(plugins, "*.sock"))
	var tag [4]byte
	_, _ = rand.Read(tag[:]) // never fails
	log := klog.FromContext(ctx)
	poll := s.Poll
	if poll == 0 {
		poll = time.Second
	}
	var serving, registering *socket
	stop := func() {
		registering.stop() // first: kubelet is to ask no more
		serving.stop()
		serving, registering = nil, nil
	}
	defer func() { stop() }()
	for n := 0; ; n++ {
		if serving == nil || serving.gone() || registering.gone() {
			stop()
			name := fmt.Sprintf("%s-%d", hex.EncodeToString(tag[:]), n)
			var err error
			// The plugin first: kubelet calls it as soon as it finds the registration.
			if serving, err = listen(filepath.Join(plugins, name+".sock"), func(g *grpc.Server) {
				api.RegisterDRAPluginServer(g, &service{claims: s.Claims})
			}); err == nil {
				registering, err = listen(filepath.Join(registry, prefix+name+".sock"), func(g *grpc.Server) {
					registration.RegisterRegistrationServer(g, &registrar{server: s, endpoint: serving.path, log: log})
				})
			}
			if err != nil {
				log.Error(err, "The DRA plugin cannot serve; trying again")
				stop()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(poll):
		}
	}
}

// socket is a gRPC server on a Unix socket.
type socket struct {
	path   string
	server *grpc.Server
}

func listen(path string, register func(*grpc.Server)) (*socket, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	register(server)
	go func() { _ = server.Serve(l) }() // ends with stop
	return &socket{path, server}, nil
}

// gone says whether somebody deleted the socket.
func (s *socket) gone() bool {
	_, err := os.Lstat(s.path)
	return err != nil
}

func (s *socket) stop() {
	if s == nil {
		return
	}
	_ = os.Remove(s.path) // it may be gone already
	s.server.Stop()
}

// sweep removes sockets that a killed agent left behind: nobody answers there.
func sweep(pattern string) {
	old, _ := filepath.Glob(pattern)
	for _, path := range old {
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			conn.Close()
			continue
		}
		_ = os.Remove(path) // another agent may be sweeping, too
	}
}

// registrar answers who wants to know about the plugin.
type registrar struct {
	registration.UnimplementedRegistrationServer
	server   *Server
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
	var err error
	if status.GetPluginRegistered() {
		r.refused.Store(false)
		r.log.Info("Kubelet has registered the DRA plugin", "endpoint", r.endpoint)
	} else {
		err = fmt.Errorf("kubelet does not register the DRA plugin: %s", status.GetError())
		if !r.refused.Swap(true) {
			r.log.Error(err, "Kubelet tries again")
		}
	}
	if r.server.Registered != nil {
		r.server.Registered(err)
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
			klog.FromContext(ctx).Error(err, "A claim is not prepared", "claim", klog.KRef(c.GetNamespace(), c.GetName()))
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
			klog.FromContext(ctx).Error(err, "A claim is not given back", "claim", klog.KRef(c.GetNamespace(), c.GetName()))
		}
		out.Claims[c.GetUid()] = answer
	}
	return out, nil
}
