// Package coretest builds nodes, claims and requests for tests, and generates
// random ones. Only tests import it.
package coretest

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
)

// NodeBuilder makes nodes: Node("a").GPUs(8, "A100").Build().
type NodeBuilder struct{ n model.Node }

// Node starts a node without devices.
func Node(id string) *NodeBuilder {
	return &NodeBuilder{model.Node{ID: model.NodeID(id), Sellable: map[model.Vendor]int{}}}
}

// GPUs adds NVIDIA devices of a model with 80 GiB each.
func (b *NodeBuilder) GPUs(count int, name string) *NodeBuilder {
	return b.Devices(count, model.Device{Vendor: model.NVIDIA, Model: model.ParseModel(name), Memory: 80 * 1024, NUMA: model.NUMAUnknown})
}

// Devices adds copies of a device with ascending indexes and UUIDs made of the
// node's name.
func (b *NodeBuilder) Devices(count int, d model.Device) *NodeBuilder {
	for range count {
		d.Index = len(b.n.Devices)
		d.UUID = fmt.Sprintf("%s-%d", b.n.ID, d.Index)
		b.n.Devices = append(b.n.Devices, d)
		b.n.Sellable[d.Vendor]++
	}
	return b
}

// Link joins devices by index.
func (b *NodeBuilder) Link(class model.LinkClass, count int, between ...int) *NodeBuilder {
	b.n.Links = append(b.n.Links, model.Link{Between: between, Class: class, Count: count})
	return b
}

// Cordon keeps new work off a device.
func (b *NodeBuilder) Cordon(index int) *NodeBuilder {
	b.n.Devices[index].Cordoned = true
	return b
}

// Health sets the state of a device.
func (b *NodeBuilder) Health(index int, h model.Health) *NodeBuilder {
	b.n.Devices[index].Health = h
	return b
}

// Cuttable lets every NVIDIA device so far be cut like an A100-40GB.
func (b *NodeBuilder) Cuttable() *NodeBuilder {
	g := mig.Lookup(model.ParseModel("A100-40GB"), 40<<10)
	for i := range b.n.Devices {
		if b.n.Devices[i].Vendor == model.NVIDIA {
			b.n.Devices[i].MIG, b.n.Devices[i].MIGSlices = g.Profiles(), g.Slices()
		}
	}
	return b
}

// Attribute adds an attribute; keys must come in order.
func (b *NodeBuilder) Attribute(key, value string) *NodeBuilder {
	b.n.Attributes = append(b.n.Attributes, model.Attribute{Key: key, Value: value})
	return b
}

// Sellable sets how many devices of a vendor may be in use at once.
func (b *NodeBuilder) Sellable(v model.Vendor, count int) *NodeBuilder {
	b.n.Sellable[v] = count
	return b
}

// Domains puts the node into domains, outermost first.
func (b *NodeBuilder) Domains(path ...string) *NodeBuilder {
	b.n.Domains = path
	return b
}

// NUMA makes the node's kubelet align devices.
func (b *NodeBuilder) NUMA(p model.NUMAPolicy, perContainer bool) *NodeBuilder {
	b.n.NUMA, b.n.NUMAPerContainer = p, perContainer
	return b
}

// Extra adds a resource beside devices, CPU and memory.
func (b *NodeBuilder) Extra(name string, amount int64) *NodeBuilder {
	b.n.Extras = b.n.Extras.Plus(model.Extras{{Name: name, Amount: amount}})
	return b
}

// Build returns the node.
func (b *NodeBuilder) Build() *model.Node { return &b.n }

// T is a test or a property.
type T interface {
	Helper()
	Fatal(...any)
}

// Ledger is a ledger of some nodes, which must be valid.
func Ledger(t T, nodes ...*model.Node) *ledger.Ledger {
	t.Helper()
	l := ledger.New()
	for _, n := range nodes {
		if err := l.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// Request asks for whole NVIDIA devices in one container.
func Request(count int) *model.Request {
	return &model.Request{Vendor: model.NVIDIA, Containers: []model.Container{{Name: "main", Count: count}}}
}

// WholeClaim is the claim of a holder that is given a set of a node's devices.
func WholeClaim(holder string, n *model.Node, r *model.Request, set model.Mask) ledger.Claim {
	c := ledger.Claim{Holder: model.HolderID(holder), Vendor: r.Vendor, Count: r.Count(), Priority: r.Priority}
	for slot := range set.Slots() {
		c.Devices = append(c.Devices, ledger.DeviceRef{Index: n.Devices[slot].Index, UUID: n.Devices[slot].UUID})
	}
	return c
}

// DrawNode generates a valid node: up to 8 devices of up to two vendors, random
// links, health, attributes and selling limits.
func DrawNode(t *rapid.T, id string) *model.Node {
	b := Node(id)
	models := []string{"A100", "A10", "V100-32GB", "T4"}
	for range rapid.IntRange(0, 2).Draw(t, "device groups") {
		v := rapid.SampledFrom(model.Vendors[:2]).Draw(t, "vendor")
		tenants := rapid.SampledFrom([]int{0, 0, 2}).Draw(t, "tenants")
		b.Devices(rapid.IntRange(1, 4).Draw(t, "devices"), model.Device{
			Vendor:  v,
			Model:   model.ParseModel(rapid.SampledFrom(models).Draw(t, "model")),
			Memory:  model.MiB(rapid.SampledFrom([]int{16 << 10, 32510, 80 << 10}).Draw(t, "memory")),
			NUMA:    rapid.IntRange(-1, 1).Draw(t, "numa"),
			Health:  model.Health(rapid.SampledFrom([]int{0, 0, 0, 3}).Draw(t, "health")),
			Tenants: tenants, Replicated: tenants > 0 && rapid.Bool().Draw(t, "replicated"),
			Cordoned:  rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "cordoned") == 1,
			NoAmounts: rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "no amounts") == 1,
		})
		if v == model.NVIDIA && rapid.Bool().Draw(t, "can be cut") {
			b.Cuttable()
		}
	}
	if n := len(b.n.Devices); n >= 2 {
		for range rapid.IntRange(0, 3).Draw(t, "links") {
			between := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 2, n, rapid.ID[int]).Draw(t, "between")
			b.Link(model.LinkClass(rapid.IntRange(0, 6).Draw(t, "class")), rapid.IntRange(0, 4).Draw(t, "count"), between...)
		}
	}
	if rapid.Bool().Draw(t, "labelled") {
		b.Attribute("accelerator", rapid.SampledFrom(models).Draw(t, "label"))
	}
	if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		b.Sellable(model.NVIDIA, rapid.IntRange(0, 12).Draw(t, "sellable"))
	}
	b.Domains(rapid.SampledFrom([][]string{nil, nil, {"z1"}, {"z1", "r1"}, {"z1", "r2"}, {"", "r1"}}).Draw(t, "domains")...)
	if rapid.IntRange(0, 3).Draw(t, "aligned") == 0 {
		b.NUMA(model.NUMAPolicy(rapid.IntRange(0, 2).Draw(t, "policy")), rapid.Bool().Draw(t, "per container"))
	}
	return b.Build()
}

// DrawTelemetry generates measurements of a node's devices; nil for none.
func DrawTelemetry(t *rapid.T, n *model.Node) []model.Telemetry {
	if rapid.Bool().Draw(t, "unmeasured") {
		return nil
	}
	reading := func(what string, most int) (out model.Reading) {
		if rapid.Bool().Draw(t, what+" is known") {
			out = model.Measured(rapid.IntRange(0, most).Draw(t, what))
		}
		return out
	}
	out := make([]model.Telemetry, len(n.Devices))
	for i := range out {
		out[i] = model.Telemetry{
			Utilization: reading("utilization", 100), MemoryUsed: reading("memory used", 100<<10),
			Temperature: reading("temperature", 110), Power: reading("power", 1000),
		}
	}
	return out
}

// extraNames are the resources that DrawExtras draws amounts of.
var extraNames = []string{"ephemeral-storage", "nvidia.com/gpu", "pods", "rdma/hca"}

// DrawExtras generates amounts of some resources, up to most of each.
func DrawExtras(t *rapid.T, most int) model.Extras {
	var out []model.Extra
	for _, name := range extraNames {
		if rapid.Bool().Draw(t, "has "+name) {
			out = append(out, model.Extra{Name: name, Amount: int64(rapid.IntRange(0, most).Draw(t, name))})
		}
	}
	return model.MakeExtras(out)
}

// DrawAffinity gives a request labels, and sometimes affinity rules.
func DrawAffinity(t *rapid.T, r *model.Request) {
	words := []model.Label{{Scope: "a", Key: "app", Value: "x"}, {Scope: "a", Key: "app", Value: "y"}, {Scope: "b", Key: "app", Value: "x"}, {Scope: "b", Key: "tier", Value: "x"}}
	some := func(what string, least int) []model.Label {
		out := rapid.SliceOfNDistinct(rapid.SampledFrom(words), least, 2, rapid.ID[model.Label]).Draw(t, what)
		slices.SortFunc(out, model.Label.Compare)
		return out
	}
	r.Labels = some("labels", 0)
	for range rapid.IntRange(0, 2).Draw(t, "rules") {
		rule := model.AffinityRule{Kind: model.AffinityKind(rapid.IntRange(1, 4).Draw(t, "rule"))}
		if !rule.Kind.IsAnti() || rapid.Bool().Draw(t, "matching") {
			rule.Match = some("match", 1)
		}
		r.Affinity = append(r.Affinity, rule)
	}
}

// DrawPart generates a valid share or slice.
func DrawPart(t *rapid.T) model.Part {
	if rapid.IntRange(0, 2).Draw(t, "slice") == 0 {
		return model.Part{Kind: model.Slice, Profile: rapid.SampledFrom([]string{"1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "7g.40gb", "9g.1gb"}).Draw(t, "profile")}
	}
	p := model.Part{Kind: model.Share, Milli: rapid.SampledFrom([]int{0, 100, 300, 500, 1000}).Draw(t, "milli")}
	if rapid.Bool().Draw(t, "percent") {
		p.MemoryMilli = rapid.SampledFrom([]int{100, 125, 333, 500, 1000}).Draw(t, "memory in thousandths")
	} else {
		p.Memory = model.MiB(rapid.SampledFrom([]int{1, 4 << 10, 16 << 10, 90 << 10}).Draw(t, "memory"))
	}
	return p
}

// DrawRequest generates a valid request.
func DrawRequest(t *rapid.T) *model.Request {
	r := Request(rapid.IntRange(1, 5).Draw(t, "count"))
	if rapid.Bool().Draw(t, "in parts") {
		kind := DrawPart(t)
		r.Containers = nil
		for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
			part := DrawPart(t)
			if part.Kind != kind.Kind {
				part = kind
			}
			phase := model.Main
			if i == 0 {
				phase = rapid.SampledFrom([]model.Phase{model.Main, model.Init, model.Sidecar}).Draw(t, "phase")
			}
			r.Containers = append(r.Containers, model.Container{Name: fmt.Sprint(i), Phase: phase, Count: rapid.IntRange(1, 2).Draw(t, "devices"), Part: part})
		}
		r.Placement = model.Placement(rapid.IntRange(0, 2).Draw(t, "placement"))
	}
	r.NodePlacement = model.Placement(rapid.IntRange(0, 2).Draw(t, "node placement"))
	r.Vendor = rapid.SampledFrom(model.Vendors[:2]).Draw(t, "vendor")
	r.MinMemory = model.MiB(rapid.SampledFrom([]int{0, 0, 32 << 10}).Draw(t, "minMemory"))
	r.Priority = int32(rapid.IntRange(-2, 2).Draw(t, "priority"))
	r.TenantPriority = rapid.IntRange(0, 100).Draw(t, "tenant priority")
	r.Workload = model.Workload(rapid.IntRange(0, 3).Draw(t, "workload"))
	pick := func(what string) []model.GPUModel {
		if rapid.IntRange(0, 3).Draw(t, what) > 0 {
			return nil
		}
		return []model.GPUModel{model.ParseModel(rapid.SampledFrom([]string{"A100", "V100", "T4"}).Draw(t, what+" model"))}
	}
	r.UseModels, r.AvoidModels, r.PreferModels = pick("use"), pick("avoid"), pick("prefer")
	if rapid.IntRange(0, 4).Draw(t, "attribute") == 0 {
		r.Attributes = []model.Want{{Key: "accelerator", Values: []string{"A100", "T4"}}}
	}
	if rapid.IntRange(0, 4).Draw(t, "uuids") == 0 {
		uuid := fmt.Sprintf("n%d-%d", rapid.IntRange(0, 5).Draw(t, "uuid node"), rapid.IntRange(0, 3).Draw(t, "uuid device"))
		if rapid.Bool().Draw(t, "avoid uuid") {
			r.AvoidUUIDs = []string{uuid}
		} else {
			r.UseUUIDs = []string{uuid}
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "close") == 0 {
		r.Require, r.Prefer = drawCloseness(t), drawCloseness(t)
	}
	if rapid.IntRange(0, 5).Draw(t, "indexes") == 0 {
		r.UseIndexes = rapid.SliceOfNDistinct(rapid.IntRange(0, 7), 1, 8, rapid.ID[int]).Draw(t, "use indexes")
		slices.Sort(r.UseIndexes)
	}
	return r
}

func drawCloseness(t *rapid.T) model.Closeness {
	c := model.Closeness{Bond: model.Bond{
		Link: rapid.SampledFrom([]model.LinkClass{model.SYS, model.SYS, model.PHB, model.NVLink}).Draw(t, "link"),
		NUMA: rapid.IntRange(0, 3).Draw(t, "one NUMA node") == 0,
	}}
	if rapid.IntRange(0, 3).Draw(t, "level") == 0 {
		c.Level = model.Level{Name: "rack", Label: "r", Depth: rapid.IntRange(-1, 1).Draw(t, "depth")}
	}
	return c
}
