package records

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Lister says which devices kubelet has given to which containers.
type Lister interface {
	// List returns the active pods that kubelet knows, with the devices of their
	// containers. A pod that kubelet has admitted and given nothing is listed too, also
	// while its devices are being chosen. Init containers that end before the next
	// container starts are never listed: kubelet leaves them out.
	List(ctx context.Context) (Listing, error)
}

// Listing is what the node's pods hold at one time, in no order.
type Listing []Listed

// Listed is one pod. Kubelet does not tell its UID.
type Listed struct {
	Namespace, Name string
	Containers      []ListedContainer
}

// ListedContainer is one container with its device IDs by resource, sorted, and the names
// of the ResourceClaims that it uses.
type ListedContainer struct {
	Name    string
	Devices map[string][]string
	Claims  []string
}

// Find returns a pod by name, or nil.
func (l Listing) Find(namespace, name string) *Listed {
	for i := range l {
		if l[i].Name == name && l[i].Namespace == namespace {
			return &l[i]
		}
	}
	return nil
}

// Devices are the IDs that a container of the pod has of a resource; none for a
// pod (nil) or container that is not listed.
func (p *Listed) Devices(container, resource string) []string {
	if p == nil {
		return nil
	}
	for _, c := range p.Containers {
		if c.Name == container {
			return c.Devices[resource]
		}
	}
	return nil
}

// Kubelet reads podresources, version 1, from a Unix socket. It connects when it is
// used and again after kubelet's restart.
type Kubelet struct {
	socket string

	mu   sync.Mutex
	conn *grpc.ClientConn
}

// Limits of a listing. A node of 500 pods with 100 devices each takes 5 MiB.
const maxListing = 64 << 20

// NewKubelet returns a client for a socket.
func NewKubelet(socket string) *Kubelet { return &Kubelet{socket: socket} }

// List is Lister's. It returns within the context's deadline, or 5 s, and waits as long
// for a kubelet that is away. Kubelet limits how often it answers (100 times a second):
// then it is asked again.
func (k *Kubelet) List(ctx context.Context) (Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := k.client()
	if err != nil {
		return nil, fmt.Errorf("podresources at %s: %w", k.socket, err)
	}
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		got, err := client.List(ctx, &podresources.ListPodResourcesRequest{}, grpc.WaitForReady(true))
		if err == nil {
			return read(got), nil
		}
		c := status.Code(err)
		if c != codes.ResourceExhausted && c != codes.Unavailable || !waited(ctx, pause) {
			return nil, fmt.Errorf("podresources at %s: %w", k.socket, err)
		}
	}
}

// waited waits; false when the context ended before.
func waited(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Allocatable are the devices that device plugins offer to kubelet now and that are
// healthy, by resource: those of a plugin that has ended are not among them.
func (k *Kubelet) Allocatable(ctx context.Context) (map[string][]string, error) {
	client, err := k.client()
	if err != nil {
		return nil, err
	}
	got, err := client.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("podresources at %s: %w", k.socket, err)
	}
	out := map[string][]string{}
	for _, d := range got.GetDevices() {
		if len(d.GetDeviceIds()) > 0 {
			out[d.ResourceName] = append(out[d.ResourceName], d.DeviceIds...)
		}
	}
	return out, nil
}

// Close ends the connection.
func (k *Kubelet) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		return nil
	}
	err := k.conn.Close()
	k.conn = nil
	return err
}

// reconnect is how often the socket is tried: kubelet is back within seconds of its restart,
// and a container may wait for the answer.
var reconnect = backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}

func (k *Kubelet) client() (podresources.PodResourcesListerClient, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		conn, err := grpc.NewClient("unix://"+k.socket,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithAuthority("localhost"),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: time.Second}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxListing)))
		if err != nil {
			return nil, err
		}
		k.conn = conn
	}
	return podresources.NewPodResourcesListerClient(k.conn), nil
}

// read turns kubelet's answer into a Listing. A device on two NUMA nodes, and devices
// of one resource in several entries, are put together.
func read(got *podresources.ListPodResourcesResponse) (out Listing) {
	for _, p := range got.GetPodResources() {
		if p == nil {
			continue
		}
		pod := Listed{Namespace: p.Namespace, Name: p.Name}
		for _, c := range p.Containers {
			if c == nil {
				continue
			}
			held := ListedContainer{Name: c.Name, Devices: map[string][]string{}}
			for _, d := range c.Devices {
				if len(d.GetDeviceIds()) > 0 {
					held.Devices[d.ResourceName] = append(held.Devices[d.ResourceName], d.DeviceIds...)
				}
			}
			for _, d := range c.DynamicResources {
				if d != nil {
					held.Claims = append(held.Claims, d.ClaimName)
				}
			}
			for r, ids := range held.Devices {
				slices.Sort(ids)
				held.Devices[r] = slices.Compact(ids)
			}
			pod.Containers = append(pod.Containers, held)
		}
		out = append(out, pod)
	}
	return out
}
