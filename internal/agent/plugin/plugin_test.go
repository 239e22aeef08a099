package plugin

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

type granter struct{}

func (granter) Preferred(_ context.Context, _ string, available, _ []string, size int) []string {
	return available[:size]
}

func (granter) Allocate(_ context.Context, resource string, ids []string) (device.Answer, error) {
	if ids[0] == "bad" {
		return device.Answer{}, errors.New("not this one")
	}
	return device.Answer{CDI: []string{"k=" + resource + strings.Join(ids, "")}, Edits: device.Edits{
		Env: []string{"A=b=c"}, Nodes: []device.Node{{Path: "/dev/x"}}, Mounts: []device.Mount{{HostPath: "/h", ContainerPath: "/c", Options: []string{"ro"}}},
	}}, nil
}

func (granter) PreStart(_ context.Context, _ string, ids []string) error {
	if ids[0] == "bad" {
		return errors.New("not now")
	}
	return nil
}

// kubelet is the other side: it takes registrations and opens streams.
type kubelet struct {
	api.UnimplementedRegistrationServer
	dir    string
	server *grpc.Server
	calls  chan *api.RegisterRequest
	refuse atomic.Bool // the next registration
}

func startKubelet(t *testing.T, dir string) *kubelet {
	t.Helper()
	k := &kubelet{dir: dir, calls: make(chan *api.RegisterRequest, 100), server: grpc.NewServer()}
	socket := filepath.Join(dir, "kubelet.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	api.RegisterRegistrationServer(k.server, k)
	go func() { _ = k.server.Serve(l) }()
	t.Cleanup(k.server.Stop)
	return k
}

func (k *kubelet) Register(_ context.Context, r *api.RegisterRequest) (*api.Empty, error) {
	if k.refuse.Swap(false) {
		return nil, errors.New("not yet")
	}
	k.calls <- r
	return &api.Empty{}, nil
}

// connect is what kubelet does after a registration.
func (k *kubelet) connect(t *testing.T, r *api.RegisterRequest) (api.DevicePluginClient, *grpc.ClientConn, api.DevicePlugin_ListAndWatchClient) {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(k.dir, r.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := api.NewDevicePluginClient(conn)
	s, err := c.ListAndWatch(t.Context(), &api.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	return c, conn, s
}

func start(t *testing.T, dir string, offers ...device.Offer) (*Plugin, func()) {
	t.Helper()
	p := New(Options{Dir: dir, Granter: granter{}, Poll: 20 * time.Millisecond})
	p.Set(offers)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop := sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return p, stop
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "p") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func receive(t *testing.T, s api.DevicePlugin_ListAndWatchClient) string {
	t.Helper()
	r, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range r.Devices {
		id := d.ID + " " + d.Health
		for _, n := range d.GetTopology().GetNodes() {
			id += " " + string(rune('0'+n.ID))
		}
		out = append(out, id)
	}
	return strings.Join(out, ", ")
}

var offer = device.Offer{Resource: "nvidia.com/gpu", Devices: []device.Sold{{ID: "a", Healthy: true, NUMA: 1}, {ID: "b", NUMA: -1}}}

func TestCalls(t *testing.T) {
	dir := tempDir(t)
	k := startKubelet(t, dir)
	p, stop := start(t, dir, offer)
	r := <-k.calls
	if r.ResourceName != "nvidia.com/gpu" || r.Version != "v1beta1" || !r.Options.PreStartRequired || !r.Options.GetPreferredAllocationAvailable {
		t.Errorf("%+v", r)
	}
	c, _, s := k.connect(t, r)
	if got := receive(t, s); got != "a Healthy 1, b Unhealthy" {
		t.Errorf("%s", got)
	}
	p.Set([]device.Offer{{Resource: "nvidia.com/gpu", Devices: []device.Sold{{ID: "a", NUMA: 1}}}})
	if got := receive(t, s); got != "a Unhealthy 1" {
		t.Errorf("%s", got)
	}
	p.Set(nil) // the resource is gone: none of it is left
	if got := receive(t, s); got != "" {
		t.Errorf("%s", got)
	}
	if o, err := c.GetDevicePluginOptions(t.Context(), &api.Empty{}); err != nil || !o.PreStartRequired {
		t.Errorf("%+v, %v", o, err)
	}
	pref, err := c.GetPreferredAllocation(t.Context(), &api.PreferredAllocationRequest{ContainerRequests: []*api.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: []string{"a", "b"}, AllocationSize: 1}}})
	if err != nil || !slices.Equal(pref.ContainerResponses[0].DeviceIDs, []string{"a"}) {
		t.Errorf("%+v, %v", pref, err)
	}
	a, err := c.Allocate(t.Context(), &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: []string{"a"}}}})
	if err != nil {
		t.Fatal(err)
	}
	x := a.ContainerResponses[0]
	if x.Envs["A"] != "b=c" || x.CdiDevices[0].Name != "k=nvidia.com/gpua" || x.Devices[0].HostPath != "/dev/x" || x.Devices[0].Permissions != "rw" || !x.Mounts[0].ReadOnly {
		t.Errorf("%+v", x)
	}
	if _, err := c.Allocate(t.Context(), &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: []string{"bad"}}}}); err == nil || !strings.Contains(err.Error(), "not this one") {
		t.Errorf("%v", err)
	}
	if _, err := c.PreStartContainer(t.Context(), &api.PreStartContainerRequest{DevicesIds: []string{"bad"}}); err == nil || !strings.Contains(err.Error(), "not now") {
		t.Errorf("%v", err)
	}
	if _, err := c.PreStartContainer(t.Context(), &api.PreStartContainerRequest{DevicesIds: []string{"a"}}); err != nil {
		t.Error(err)
	}
	stop()
	if left, _ := filepath.Glob(filepath.Join(dir, "tangram-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := s.Recv(); err == nil {
		t.Error("the stream goes on")
	}
}

// TestComesBack: kubelet restarts (and deletes all sockets), the socket is deleted,
// kubelet hangs up, kubelet refuses at first.
func TestComesBack(t *testing.T) {
	dir := tempDir(t)
	// A socket that a killed agent left.
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "tangram-dead.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	_, _ = start(t, dir, offer, device.Offer{Resource: "nvidia.com/gpu.shared"}) // before kubelet
	k := startKubelet(t, dir)
	both := func() (r *api.RegisterRequest) {
		t.Helper()
		seen := map[string]bool{}
		for len(seen) < 2 {
			x := <-k.calls
			seen[x.ResourceName] = true
			if x.ResourceName == "nvidia.com/gpu" {
				r = x
			}
			_, _, s := k.connect(t, x)
			receive(t, s)
		}
		return r
	}
	both()
	if _, err := os.Stat(filepath.Join(dir, "tangram-dead.sock")); err == nil {
		t.Error("the dead socket is still there")
	}

	k.server.Stop()
	sockets, _ := filepath.Glob(filepath.Join(dir, "*.sock"))
	for _, s := range sockets {
		os.Remove(s)
	}
	k = startKubelet(t, dir)
	r := both()

	os.Remove(filepath.Join(dir, r.Endpoint))
	// Kubelet may hear twice of a resource: when a stream of its life before ends late.
	again := <-k.calls
	for again.ResourceName != r.ResourceName || again.Endpoint == r.Endpoint {
		again = <-k.calls
	}
	_, conn, s := k.connect(t, again)
	receive(t, s)

	k.refuse.Store(true)
	conn.Close() // kubelet hangs up
	for x := range k.calls {
		if x.Endpoint == again.Endpoint {
			break
		}
	}
}

// TestSettles: some time after Allocate the list is sent again, so that kubelet writes its
// checkpoint when it writes nothing else.
func TestSettles(t *testing.T) {
	dir := tempDir(t)
	k := startKubelet(t, dir)
	p := New(Options{Dir: dir, Granter: granter{}, Poll: 20 * time.Millisecond, Settle: 50 * time.Millisecond})
	p.Set([]device.Offer{offer})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	c, _, s := k.connect(t, <-k.calls)
	first := receive(t, s)
	for range 3 {
		asked := time.Now()
		if _, err := c.Allocate(t.Context(), &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: []string{"a"}}}}); err != nil {
			t.Fatal(err)
		}
		for last := false; !last; last = time.Since(asked) >= 50*time.Millisecond {
			if got := receive(t, s); got != first {
				t.Errorf("%s, want %s", got, first)
			}
		}
	}
}

// TestTwoAgents run side by side during an upgrade and leave each other's sockets alone.
func TestTwoAgents(t *testing.T) {
	dir := tempDir(t)
	k := startKubelet(t, dir)
	_, stop := start(t, dir, offer)
	first := <-k.calls
	_, _, s1 := k.connect(t, first)
	receive(t, s1)
	start(t, dir, offer)
	second := <-k.calls
	if first.Endpoint == second.Endpoint {
		t.Fatal("both serve on one socket")
	}
	_, conn, s2 := k.connect(t, second)
	receive(t, s2)
	stop() // the old one goes; kubelet then hangs up on the new one
	if _, err := s1.Recv(); err == nil {
		t.Error("the old stream goes on")
	}
	conn.Close()
	if x := <-k.calls; x.Endpoint != second.Endpoint {
		t.Errorf("%+v", x)
	}
}
