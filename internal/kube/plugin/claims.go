package plugin

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/metrics"
)

// stockClaims is the plugin that GPUClaims takes the place of, claimsWeight its weight among
// scores.
const (
	stockClaims  = dynamicresources.Name
	claimsWeight = 2
)

// claims is GPUClaims: kube-scheduler's own DynamicResources, which sees of the planned node
// only the GPUs that were planned, and of all others only those that the ledger does not
// hold. So its allocator proves every allocation, and the planner chooses.
type claims struct {
	*dynamicresources.DynamicResources
	engine  *kubeengine.Engine
	manager *steered
}

var (
	_ fwk.PreEnqueuePlugin  = &claims{}
	_ fwk.PreFilterPlugin   = &claims{}
	_ fwk.FilterPlugin      = &claims{}
	_ fwk.PostFilterPlugin  = &claims{}
	_ fwk.ScorePlugin       = &claims{}
	_ fwk.ReservePlugin     = &claims{}
	_ fwk.PreBindPlugin     = &claims{}
	_ fwk.EnqueueExtensions = &claims{}
)

// filterTimeout is how long the allocator may look at one node: kube-scheduler's default.
const filterTimeout = 10 * time.Second

func (s *Shared) newClaims(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	e, _, args, err := enlist[ClaimsArgs](ctx, s, h, obj)
	if err != nil {
		return nil, err
	}
	var t tuning
	if err := readAll(claimsSettings(), args, &t); err != nil {
		return nil, fmt.Errorf("args: %w", err)
	}
	stock := &config.DynamicResourcesArgs{FilterTimeout: &metav1.Duration{Duration: t.claims.filter}, BindingTimeout: &metav1.Duration{Duration: t.claims.bind}}
	manager := &steered{SharedDRAManager: h.SharedDRAManager()}
	p, err := dynamicresources.New(ctx, stock, steeredHandle{h, manager, s.writer(h)}, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, err
	}
	return &claims{DynamicResources: p.(*dynamicresources.DynamicResources), engine: e, manager: manager}, nil
}

// ClaimsArgs are GPUClaims' arguments: those of DynamicResources.
type ClaimsArgs struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// FilterTimeout is how long the allocator may look at one node, BindingTimeout how long
	// devices may take to become ready: durations like "10s". Empty: kube-scheduler's.
	FilterTimeout  string `json:"filterTimeout,omitempty"`
	BindingTimeout string `json:"bindingTimeout,omitempty"`
}

// Name is the plugin's name in configurations.
func (p *claims) Name() string { return names.PluginClaims }

// PreFilter prepares the allocation, with what the plan says of the pod.
func (p *claims) PreFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	s := &steering{engine: p.engine, pod: pod.UID}
	if c := readCycle(cs); c.released() {
		s.plan(c)
	}
	cs.Write(steeringKey, s)
	defer p.manager.steer(s)()
	return p.DynamicResources.PreFilter(ctx, cs, pod, nodes)
}

// Reserve takes note of what the allocator chose, if the ledger agrees.
func (p *claims) Reserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	data, err := cs.Read(steeringKey)
	if err != nil {
		return p.DynamicResources.Reserve(ctx, cs, pod, node)
	}
	s := data.(*steering)
	s.chosen = nil
	stop := p.manager.steer(s)
	status := p.DynamicResources.Reserve(ctx, cs, pod, node)
	stop()
	if !status.IsSuccess() || len(s.chosen) == 0 {
		return status
	}
	var refusal *explain.Refusal
	if c := readCycle(cs); c.released() {
		refusal = c.Allocated(s.only == nil, s.chosen)
	} else {
		refusal = p.engine.HoldClaims(s.chosen)
		s.holds = refusal == nil
	}
	if refusal != nil {
		metrics.Conflict(metrics.ConflictPlace)
		return fwk.NewStatus(fwk.Unschedulable, "a GPU that its claims were to get is held by another pod")
	}
	return status
}

// Unreserve takes back what Reserve took note of.
func (p *claims) Unreserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) {
	p.DynamicResources.Unreserve(ctx, cs, pod, node)
	if data, err := cs.Read(steeringKey); err == nil {
		if s := data.(*steering); s.holds {
			s.holds = false
			p.engine.UnholdClaims(s.chosen)
		}
	}
}

// steeringKey is where a cycle keeps its steering.
const steeringKey fwk.StateKey = "tangram.dev/steering"

// steering is what one scheduling cycle lets the allocator see.
type steering struct {
	engine *kubeengine.Engine
	pod    types.UID
	// node is the planned node; empty: the pod is not placed by the engine.
	node      string
	only      sets.Set[structured.DeviceID] // the devices that were planned; nil: the allocator chooses
	allocated sets.Set[structured.DeviceID] // what the allocator was told is allocated
	// chosen are the claims that the allocator has allocated, with their allocation; holds:
	// the ledger holds their devices in the claims' own name.
	chosen []*resourceapi.ResourceClaim
	holds  bool
}

// Clone shares the steering: it is written by one goroutine.
func (s *steering) Clone() fwk.StateData { return s }

// plan takes over what was planned: whole cards, or parts of cards by profile and place.
func (s *steering) plan(c *cycle) {
	s.node = string(c.Node.ID)
	if c.Claims != nil && c.Claims.Loose || c.Request.Vendor == "" {
		return
	}
	s.only = sets.New[structured.DeviceID]()
	for _, p := range s.engine.Claims().Published(s.node) {
		if planned(&p, c) {
			s.only.Insert(structured.MakeDeviceID(p.Driver, p.Pool, p.Device.Name))
		}
	}
}

// planned says whether a published device is one that was planned.
func planned(p *dialect.Published, c *cycle) bool {
	slot := c.Node.Slot(-1, p.Card)
	if slot < 0 || !c.Grant.Set.Has(slot) {
		return false
	}
	if c.Request.Kind() != model.Slice {
		return p.Whole()
	}
	for _, g := range c.Grant.Parts {
		if g.Slot == slot && g.Part.Profile == p.Profile && g.Start == p.Start {
			return true
		}
	}
	return false
}

// addTaken adds devices to the allocated ones that the ledger holds for others, though not
// through claims: of a card that nothing of is allocated, the whole device, which leaves
// nothing for its parts.
func (s *steering) addTaken(allocated sets.Set[structured.DeviceID]) {
	nodes := []string{s.node}
	if s.node == "" {
		nodes = s.engine.Claims().Nodes()
	} else if s.only != nil {
		return // it sees nothing but what is its own
	}
	for node, taken := range s.engine.Taken(nodes, s.pod) {
		if len(taken) == 0 {
			continue
		}
		published := s.engine.Claims().Published(node)
		byClaim, whole := map[string]bool{}, map[string]bool{}
		for _, p := range published {
			byClaim[p.Card] = byClaim[p.Card] || allocated.Has(structured.MakeDeviceID(p.Driver, p.Pool, p.Device.Name))
			whole[p.Card] = whole[p.Card] || p.Whole()
		}
		for _, p := range published {
			if taken[p.Card] && !byClaim[p.Card] && p.Whole() == whole[p.Card] {
				allocated.Insert(structured.MakeDeviceID(p.Driver, p.Pool, p.Device.Name))
			}
		}
	}
}

// narrow leaves of the slices those that matter on the planned node, and of its GPUs those
// that were planned or are allocated. The latter must stay: their counters count.
func (s *steering) narrow(all []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	if s.node == "" {
		return all
	}
	var out []*resourceapi.ResourceSlice
	for _, slice := range all {
		switch {
		case slice.Spec.NodeName != nil && *slice.Spec.NodeName != s.node:
			continue
		case s.only == nil || slice.Spec.NodeName == nil || !dialect.IsGPUDriver(slice.Spec.Driver):
			out = append(out, slice)
			continue
		}
		less := *slice
		less.Spec.Devices = slices.DeleteFunc(slices.Clone(slice.Spec.Devices), func(d resourceapi.Device) bool {
			id := structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, d.Name)
			return !s.only.Has(id) && !s.allocated.Has(id)
		})
		out = append(out, &less)
	}
	return out
}

// steeredHandle is a profile's handle with a steered manager, and a client that writes while
// this process leads.
type steeredHandle struct {
	fwk.Handle
	manager *steered
	client  kubernetes.Interface
}

// ClientSet is the client that claims are written with.
func (h steeredHandle) ClientSet() kubernetes.Interface { return h.client }

// SharedDRAManager is the steered manager.
func (h steeredHandle) SharedDRAManager() fwk.SharedDRAManager { return h.manager }

// steered is the scheduler's manager of claims and slices, seen through the steering of the
// cycle under way. Cycles follow each other.
type steered struct {
	fwk.SharedDRAManager
	now atomic.Pointer[steering]
}

// steer sets the steering until the returned function is called.
func (m *steered) steer(s *steering) (stop func()) {
	m.now.Store(s)
	return func() { m.now.Store(nil) }
}

// ResourceClaims are the claims, with devices that the ledger holds among the allocated.
func (m *steered) ResourceClaims() fwk.ResourceClaimTracker {
	return steeredClaims{m.SharedDRAManager.ResourceClaims(), m}
}

// ResourceSlices are the slices, narrowed to what was planned.
func (m *steered) ResourceSlices() fwk.ResourceSliceLister {
	return steeredSlices{m.SharedDRAManager.ResourceSlices(), m}
}

type steeredClaims struct {
	fwk.ResourceClaimTracker
	m *steered
}

// GatherAllocatedState is what is allocated, or held otherwise.
func (c steeredClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	state, err := c.ResourceClaimTracker.GatherAllocatedState()
	if s := c.m.now.Load(); err == nil && state != nil && s != nil {
		s.addTaken(state.AllocatedDevices)
		s.allocated = state.AllocatedDevices
	}
	return state, err
}

// ListAllAllocatedDevices is the same where consumable capacity is turned off.
func (c steeredClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	devices, err := c.ResourceClaimTracker.ListAllAllocatedDevices()
	if s := c.m.now.Load(); err == nil && s != nil {
		s.addTaken(devices)
		s.allocated = devices
	}
	return devices, err
}

// SignalClaimPendingAllocation takes note of what the allocator chose.
func (c steeredClaims) SignalClaimPendingAllocation(uid types.UID, claim *resourceapi.ResourceClaim) error {
	err := c.ResourceClaimTracker.SignalClaimPendingAllocation(uid, claim)
	if s := c.m.now.Load(); err == nil && s != nil {
		s.chosen = append(s.chosen, claim)
	}
	return err
}

type steeredSlices struct {
	fwk.ResourceSliceLister
	m *steered
}

// ListWithDeviceTaintRules are the slices that the cycle's pod may get devices of.
func (l steeredSlices) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	all, err := l.ResourceSliceLister.ListWithDeviceTaintRules()
	if s := l.m.now.Load(); err == nil && s != nil {
		all = s.narrow(all)
	}
	return all, err
}
