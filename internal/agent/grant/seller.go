package grant

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/records"
)

// SellerOptions are what a Seller needs.
type SellerOptions struct {
	// Offers are what the node sells now; nil while that is not known.
	Offers func() []device.Offer
	// Set hands offers to the device plugin.
	Set func([]device.Offer)
	// TopologyManager: kubelet's Topology Manager has another policy than none. Book and
	// Pods are needed for it alone.
	TopologyManager bool
	Book            *records.Book
	Pods            records.Source
}

// Seller keeps what the device plugin offers to kubelet equal to what can be given. Without
// Topology Manager these are all healthy devices; with it, those that another use of their
// GPU excludes are withheld (records.Book.Withhold).
type Seller struct {
	o    SellerOptions
	poke chan struct{}
}

// NewSeller prepares; Run starts it.
func NewSeller(o SellerOptions) *Seller { return &Seller{o, make(chan struct{}, 1)} }

// withholdEvery is how often devices are withheld, or offered again, when no pod changes:
// an answer to Allocate that kubelet does not list excludes other uses for a second.
const withholdEvery = 2 * time.Second

// Update offers what can be given now: at once, or with Topology Manager in the next moment,
// since kubelet has to be asked for it. It is to be called when Offers has changed, and after
// each call of kubelet that was granted.
func (s *Seller) Update() {
	if !s.o.TopologyManager {
		s.set(s.o.Offers())
		return
	}
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

func (s *Seller) set(offers []device.Offer) {
	if offers != nil {
		s.o.Set(offers)
	}
}

// Run withholds devices until the context ends; without Topology Manager it returns at once.
func (s *Seller) Run(ctx context.Context) {
	log, failing := klog.FromContext(ctx), false
	for s.o.TopologyManager {
		changed := s.o.Pods.Changed()
		offers, err := s.o.Book.Withhold(ctx, s.o.Offers())
		switch {
		case err == nil:
			s.set(offers)
			failing = false
		case !failing && ctx.Err() == nil:
			log.Error(err, "Devices are not offered to kubelet before it has listed its pods; will retry", "every", withholdEvery)
			failing = true
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-s.poke:
		case <-time.After(withholdEvery):
		}
	}
}
