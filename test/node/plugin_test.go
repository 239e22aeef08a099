package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// fakePlugin is a device plugin of a test: what it answers is the test's business.
type fakePlugin struct {
	deviceplugin.UnimplementedDevicePluginServer
	devices  []*deviceplugin.Device
	allocate func(ids []string) (*deviceplugin.ContainerAllocateResponse, error)
	prestart func(ids []string) error
}

// serving is a device plugin that kubelet knows.
type serving struct {
	*fakePlugin
	stop chan struct{}
	lost chan struct{} // gets a word when kubelet ends a stream
	end  func()
}

func (p *fakePlugin) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{PreStartRequired: true}, nil
}

func (p *serving) ListAndWatch(_ *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse]) error {
	if err := stream.Send(&deviceplugin.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	select {
	case <-p.stop:
	case <-stream.Context().Done():
		select {
		case p.lost <- struct{}{}:
		default: // one word is enough
		}
	}
	return nil
}

func (p *fakePlugin) Allocate(_ context.Context, r *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	answer := &deviceplugin.AllocateResponse{}
	for _, c := range r.ContainerRequests {
		one, err := p.allocate(c.DevicesIds)
		if err != nil {
			return nil, err
		}
		answer.ContainerResponses = append(answer.ContainerResponses, one)
	}
	return answer, nil
}

func (p *fakePlugin) PreStartContainer(_ context.Context, r *deviceplugin.PreStartContainerRequest) (*deviceplugin.PreStartContainerResponse, error) {
	return &deviceplugin.PreStartContainerResponse{}, p.prestart(r.DevicesIds)
}

// serve registers the plugin with kubelet for a resource; it ends with the test, if not
// before.
func (p *fakePlugin) serve(t *testing.T, n *Node, resource string) *serving {
	t.Helper()
	s := &serving{fakePlugin: p, stop: make(chan struct{}), lost: make(chan struct{}, 1)}
	name := fmt.Sprintf("test-%p.sock", s)
	socket := filepath.Join(n.KubeletDir(), "device-plugins", name)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	deviceplugin.RegisterDevicePluginServer(server, s)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	s.end = sync.OnceFunc(func() {
		close(s.stop)
		server.Stop()
		_ = os.Remove(socket)
	})
	t.Cleanup(s.end)
	client := deviceplugin.NewRegistrationClient(dial(t, filepath.Join(n.KubeletDir(), "device-plugins", "kubelet.sock")))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := client.Register(ctx, &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: name, ResourceName: resource, Options: &deviceplugin.DevicePluginOptions{PreStartRequired: true},
	}); err != nil {
		t.Fatal(err)
	}
	n.AwaitDevices(resource, int64(len(p.devices)))
	return s
}
