package devicemanager

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/grant"
	"github.com/tangram-dev/tangram/internal/agent/kubeapi"
	"github.com/tangram-dev/tangram/internal/agent/plugin"
	"github.com/tangram-dev/tangram/internal/agent/records"
	"github.com/tangram-dev/tangram/internal/agent/sharing/cdi"
)

const node = "node-1"

// inventory is the scripted hardware: eight GPUs on two NUMA nodes, the last two cut by
// MIG.
func inventory() *device.Inventory {
	inv := &device.Inventory{}
	for i := range 8 {
		d := device.Device{Index: i, UUID: fmt.Sprintf("GPU-0000000%d-0000-0000-0000-000000000000", i), Vendor: "nvidia", Model: "NVIDIA H200", MemoryMiB: 143771, NUMA: i / 4}
		if i == 3 || i == 7 {
			d.MIG = &device.MIG{Enabled: true, Profiles: []device.Profile{
				{ID: 19, Name: "1g.18gb", Starts: []int{0, 1, 2, 3, 4, 5, 6}, Size: 1},
				{ID: 9, Name: "3g.71gb", Starts: []int{0, 4}, Size: 4},
			}}
		}
		inv.Devices = append(inv.Devices, d)
	}
	inv.Links = []device.Link{{Between: []int{0, 1, 2, 3, 4, 5, 6, 7}, Class: "NVSwitch"}}
	return inv
}

// offers: GPUs 0, 1, 4 and 5 whole; 2 and 6 whole and in four turns; 3 and 7 in slices.
// Kubelet does not know that two IDs are of one GPU.
func offers(inv *device.Inventory, healthy func(string) bool) []device.Offer {
	return grant.Offers(inv, []grant.Sale{
		{Resource: gpu}, {Resource: shared, Turns: 4}, {Resource: small, Profile: "1g.18gb", OnDemand: true}, {Resource: large, Profile: "3g.71gb", OnDemand: true},
	}, nil, healthy)
}

const (
	gpu    = "nvidia.com/gpu"
	shared = "nvidia.com/gpu.shared"
	small  = "nvidia.com/mig-1g.18gb"
	large  = "nvidia.com/mig-3g.71gb"
)

// specs are the CDI specifications on the node's disk: they outlive the agent.
type specs struct {
	mu   sync.Mutex
	made map[string]device.Allocation // by CDI device
}

func (s *specs) write(_ context.Context, a device.Allocation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made["tangram.dev/allocation="+a.ID] = a
	return nil
}

func (s *specs) read(name string) (device.Allocation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.made[name]
	return a, ok
}

// agent is one life of the agent.
type agent struct {
	book      *records.Book
	granter   *grant.Granter
	plugin    *plugin.Plugin
	corrector *records.Corrector
	pods      records.Source
	stop      func()
}

// fakePods say, as the fake clientset does, that they cannot list by watching.
type fakePods struct{ kubeapi.Reader[v1.PodList] }

func (fakePods) IsWatchListSemanticsUnSupported() bool { return true }

// counts are over all lives.
type counts struct{ allocated, refused, problems atomic.Int64 }

func startAgent(t *testing.T, c *cluster, k *kubelet, s *specs, n *counts) *agent {
	ctx, cancel := context.WithCancel(t.Context())
	inv := inventory()
	pods := records.NewPods(fakePods{c.client.CoreV1().Pods("")}, node)
	reader := records.NewKubelet(k.socket())
	a := &agent{pods: pods.On(node)}
	a.book = records.NewBook(records.Options{Node: node, Pods: a.pods, Kubelet: reader, Inventory: func() *device.Inventory { return inv }})
	a.corrector = records.NewCorrector(records.CorrectorOptions{
		Book: a.book, Pods: func(ns string) records.PodWriter { return c.client.CoreV1().Pods(ns) }, Every: 300 * time.Millisecond, Soon: 10 * time.Millisecond,
		Problem: func(records.Problem) { n.problems.Add(1) },
	})
	var seller *grant.Seller
	a.granter = grant.New(grant.Options{
		Book: a.book, Inventory: func() *device.Inventory { return inv }, Spec: s.write, CDI: cdi.Name,
		Granted: func() { n.allocated.Add(1); a.corrector.Look(); seller.Update() },
		Refused: func(string, error) { n.refused.Add(1) },
	})
	a.plugin = plugin.New(plugin.Options{Dir: filepath.Join(k.dir, "plugins"), Granter: a.granter, Poll: 20 * time.Millisecond})
	seller = grant.NewSeller(grant.SellerOptions{
		Offers: func() []device.Offer { return offers(inv, func(string) bool { return true }) },
		Set:    a.plugin.Set, TopologyManager: k.policy != "none", Book: a.book, Pods: a.pods,
	})
	var running sync.WaitGroup
	running.Go(func() { pods.Run(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), a.pods.Synced) {
		t.Fatal("the pods were never read")
	}
	running.Go(func() { a.corrector.Run(ctx) })
	running.Go(func() {
		if err := a.plugin.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	seller.Update()
	running.Go(func() { seller.Run(ctx) })
	a.stop = func() {
		cancel()
		running.Wait()
		reader.Close()
	}
	return a
}
