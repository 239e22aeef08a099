package records

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// server is kubelet's side of the socket.
type server struct {
	podresources.UnimplementedPodResourcesListerServer
	answer func(context.Context) (*podresources.ListPodResourcesResponse, error)
}

func (s *server) List(ctx context.Context, _ *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return s.answer(ctx)
}

func serve(t *testing.T, socket string, answer func(context.Context) (*podresources.ListPodResourcesResponse, error)) *grpc.Server {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.MaxSendMsgSize(maxListing))
	podresources.RegisterPodResourcesListerServer(g, &server{answer: answer})
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return g
}

func TestKubelet(t *testing.T) {
	dir, err := os.MkdirTemp("", "k") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	k := NewKubelet(socket)
	defer k.Close()
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := k.List(short); err == nil || !strings.Contains(err.Error(), socket) {
		t.Errorf("no socket: %v", err)
	}

	full := func(context.Context) (*podresources.ListPodResourcesResponse, error) {
		return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{
			{Namespace: "ns", Name: "p", Containers: []*podresources.ContainerResources{{Name: "c", Devices: []*podresources.ContainerDevices{
				{ResourceName: "r", DeviceIds: []string{"2"}}, {ResourceName: "r", DeviceIds: []string{"1", "2"}}, {ResourceName: "e"},
			}}}},
		}}, nil
	}
	g := serve(t, socket, full)
	is := func(what string) {
		t.Helper()
		l, err := k.List(t.Context())
		if err != nil || l.Find("ns", "p") == nil || !slices.Equal(l.Find("ns", "p").Devices("c", "r"), []string{"1", "2"}) || l.Find("ns", "p").Devices("x", "r") != nil {
			t.Errorf("%s: %+v, %v", what, l, err)
		}
	}
	is("first")
	g.Stop() // kubelet restarts
	calls := 0
	g = serve(t, socket, func(ctx context.Context) (*podresources.ListPodResourcesResponse, error) {
		if calls++; calls < 3 {
			return nil, status.Error(codes.ResourceExhausted, "too many calls")
		}
		return full(ctx)
	})
	is("after a restart, and when it limits calls")
	g.Stop()
	serve(t, socket, func(ctx context.Context) (*podresources.ListPodResourcesResponse, error) {
		<-ctx.Done() // it hangs
		return nil, ctx.Err()
	})
	short, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := k.List(short); err == nil {
		t.Error("a kubelet that hangs answered")
	}
}

// TestLargeListing: more than gRPC's usual 4 MiB.
func TestLargeListing(t *testing.T) {
	dir, err := os.MkdirTemp("", "k")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	id := strings.Repeat("x", 64<<10)
	serve(t, socket, func(context.Context) (*podresources.ListPodResourcesResponse, error) {
		out := &podresources.ListPodResourcesResponse{}
		for range 100 {
			out.PodResources = append(out.PodResources, &podresources.PodResources{Name: id})
		}
		return out, nil
	})
	k := NewKubelet(socket)
	defer k.Close()
	if l, err := k.List(t.Context()); err != nil || len(l) != 100 {
		t.Errorf("%d, %v", len(l), err)
	}
}
