package grant

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/records"
)

// sold are the healthy devices of offers.
func sold(offers []device.Offer) (out []string) {
	for _, o := range offers {
		for _, d := range o.Devices {
			if d.Healthy {
				out = append(out, d.ID)
			}
		}
	}
	return out
}

// TestSeller: without Topology Manager all healthy devices are offered, at once. With it,
// devices that another use of their GPU excludes are withheld until that use has ended.
func TestSeller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shared = "nvidia.com/gpu.shared"
		var got []string
		known := true
		n := &node{changed: make(chan struct{})}
		n.away.Store(true)
		o := SellerOptions{
			Offers: func() []device.Offer {
				if !known {
					return nil
				}
				return Offers(inventory(), []Sale{{Resource: gpu}, {Resource: shared, Turns: 1}}, nil, func(uuid string) bool { return uuid != "GPU-m" })
			},
			Set:  func(offers []device.Offer) { got = sold(offers) },
			Book: records.NewBook(records.Options{Node: "n", Pods: n, Kubelet: lister{n}, Inventory: inventory}),
			Pods: n,
		}
		all := []string{"GPU-a", "GPU-b", "GPU-a::0", "GPU-b::0"}
		check := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		known = false
		plain := NewSeller(o)
		plain.Update()
		check("the inventory is not known")
		known = true
		plain.Update()
		check("policy none", all...)
		plain.Run(t.Context()) // nothing to do

		got, o.TopologyManager = nil, true
		s := NewSeller(o)
		go s.Run(t.Context())
		s.Update()
		check("kubelet has never answered")
		n.away.Store(false)
		time.Sleep(withholdEvery)
		check("free", all...)
		p := n.add("p", "", map[string]string{shared: "1"})
		n.list[0].Containers[0].Devices = map[string][]string{shared: {"GPU-a::0"}}
		s.Update()
		withheld := []string{"GPU-b", "GPU-a::0", "GPU-b::0"}
		check("a turn is held", withheld...)
		n.away.Store(true)
		s.Update()
		check("what was known last counts", withheld...)
		n.away.Store(false)
		n.list, n.pods = nil, slices.Delete(n.pods, 0, 1)
		before := n.changed
		n.changed = make(chan struct{})
		close(before)
		check(p.Name+" has ended", all...)
	})
}
