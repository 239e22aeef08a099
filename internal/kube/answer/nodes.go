package answer

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
	coreanswer "github.com/tangram-dev/tangram/core/answer"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/observe"
)

// maxRemoved is how many nodes that went are remembered, for questions about what changed.
const maxRemoved = 10_000

// nodePicture is the nodes as they were last shown, each with the version in which it
// changed. Versions begin at the time when this process began, so that those of an earlier
// leader are known to be of the past.
type nodePicture struct {
	mu            sync.Mutex
	at            time.Time
	version, base uint64
	names         []string // sorted
	nodes         map[string]*drawnNode
	removed       map[string]uint64
	levels        []string
}

type drawnNode struct {
	version uint64
	node    apiquery.Node
}

// Nodes are all nodes with devices, or those that changed after a version; 0: all. The
// answer's nodes are shared and must not be changed.
func (a *Answers) Nodes(since uint64) apiquery.Nodes {
	p := &a.nodes
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := a.Clock(); p.nodes == nil || now.Sub(p.at) >= a.Ages.Lists || now.Before(p.at) {
		p.draw(a, now)
	}
	out := apiquery.Nodes{At: p.at, Version: p.version, Items: []apiquery.Node{}, Levels: p.levels}
	out.Partial = since >= p.base && since <= p.version && since > 0
	for _, name := range p.names {
		if n := p.nodes[name]; !out.Partial || n.version > since {
			out.Items = append(out.Items, n.node)
		}
	}
	if out.Partial {
		for name, version := range p.removed { // sorted below
			if version > since {
				out.Removed = append(out.Removed, name)
			}
		}
		slices.Sort(out.Removed)
	}
	return out
}

// draw brings the picture up to date.
func (p *nodePicture) draw(a *Answers, now time.Time) {
	if p.nodes == nil {
		p.nodes, p.removed = map[string]*drawnNode{}, map[string]uint64{}
		p.version = uint64(now.UnixMicro())
		p.base = p.version
	}
	p.at, p.version = now, p.version+1
	p.levels = append([]string{}, a.Inventory.Levels().Names()...)
	var ids []model.NodeID
	a.look(func(v *View) { ids = v.Core.Nodes.DeviceNodes() })
	there := make(map[string]bool, len(ids))
	p.names = p.names[:0]
	for part := range slices.Chunk(ids, nodesAtOnce) {
		var states []nodeState
		a.look(func(v *View) { states = v.nodes(part, now) })
		for i := range states {
			node := a.node(&states[i], p.levels)
			p.names, there[node.Name] = append(p.names, node.Name), true
			delete(p.removed, node.Name)
			if old := p.nodes[node.Name]; old == nil || !reflect.DeepEqual(old.node, node) {
				p.nodes[node.Name] = &drawnNode{p.version, node}
			}
		}
	}
	for name := range p.nodes { // each for itself
		if !there[name] {
			delete(p.nodes, name)
			p.removed[name] = p.version
		}
	}
	if len(p.removed) > maxRemoved {
		clear(p.removed)
		p.base = p.version // questions about earlier changes get all
	}
}

// nodeState is what is read of a node under the lock.
type nodeState struct {
	coreanswer.NodeState
	condition coreanswer.Condition
	holders   map[model.HolderID]apiquery.Holder
	keptFor   *apiquery.GangRef
}

// nodes reads nodes and the names of the holders of their devices.
func (v *View) nodes(ids []model.NodeID, now time.Time) (out []nodeState) {
	claims := v.Claims.Holders()
	for _, id := range ids {
		s := nodeState{condition: v.Condition(id), holders: map[model.HolderID]apiquery.Holder{}}
		var there bool
		if s.NodeState, there = v.Core.Nodes.NodeState(id, s.condition, v.Observer.Idle(), now.UnixNano()); !there {
			continue // it went meanwhile
		}
		for i := range s.Devices {
			for _, h := range s.Devices[i].Holders {
				if _, named := s.holders[h.Holder]; !named {
					if holder, ok := v.holder(h.Holder, claims); ok {
						s.holders[h.Holder] = holder
					}
				}
			}
		}
		if g, ok := v.Core.Gangs.Gang(s.KeptFor); ok {
			ref := observe.GangRef(&g)
			s.keptFor = &ref
		}
		out = append(out, s)
	}
	return out
}

// holder names a holder: a pod, or a ResourceClaim that holds devices while no pod uses it
// (by holder: its "namespace/name"). False when neither is known.
func (v *View) holder(h model.HolderID, claims map[model.HolderID]string) (apiquery.Holder, bool) {
	pod := model.HolderID(dialect.UIDOf(h))
	if m := v.Work.Member(pod); m != nil {
		out := apiquery.Holder{Pod: observe.PodRef(m.Pod), Queue: v.Core.Gangs.QueueOf(pod)}
		if id, ok := v.Core.Gangs.Of(pod); ok {
			if g, ok := v.Core.Gangs.Gang(id); ok {
				out.Gang = observe.GangRef(&g)
			}
		}
		if out.Gang.Name == "" { // it belongs to none, or leaves it
			out.Gang = apiquery.GangRef{Namespace: m.Pod.Namespace, Name: m.Pod.Name}
		}
		return out, true
	}
	if namespace, name, ok := strings.Cut(claims[h], "/"); ok {
		ref := apiquery.GangRef{Namespace: namespace, Name: "resourceclaims/" + name}
		return apiquery.Holder{Pod: apiquery.PodRef{Namespace: namespace, Name: ref.Name}, Gang: ref}, true
	}
	return apiquery.Holder{}, false
}

// node is a node as it travels.
func (a *Answers) node(s *nodeState, levels []string) apiquery.Node {
	inv := s.Node
	node := apiquery.Node{
		Name: string(inv.ID), State: [...]string{"ready", "cordoned", "lost"}[s.condition], Kept: s.KeptFor != "", KeptFor: s.keptFor,
		Devices: make([]apiquery.Device, len(inv.Devices)), CPUMilliFree: s.Free.CPU, MemoryMiBFree: int64(s.Free.Memory.MiB()),
	}
	for i, domain := range inv.Domains {
		if i < len(levels) && domain != "" {
			if node.Domains == nil {
				node.Domains = map[string]string{}
			}
			node.Domains[levels[i]] = domain
		}
	}
	for _, band := range topology.Bands(inv) {
		node.Links = append(node.Links, apiquery.LinkGroup{Link: band.Class.String(), Devices: band.Devices})
	}
	var troubles map[int]string
	for slot := range inv.Devices {
		d, state := &inv.Devices[slot], &s.Devices[slot]
		out := apiquery.Device{
			Index: d.Index, UUID: d.UUID, Vendor: string(d.Vendor), Model: d.Model.String(), MemoryMiB: int64(d.Memory),
			State: state.Use.String(), Health: healthName(d.Health), Mode: state.Mode.String(), HeldMilli: int64(state.Held), ChargedMilli: int64(state.Charged), HeldMemoryMiB: int64(state.Memory),
			Utilization: reading(state.Telemetry.Utilization), Temperature: reading(state.Telemetry.Temperature),
		}
		if d.Health != model.Healthy {
			if troubles == nil {
				troubles = a.Inventory.Troubles(node.Name)
			}
			out.Detail = troubles[d.Index]
		}
		for _, h := range state.Holders {
			named, known := s.holders[h.Holder]
			if !known {
				out.Hidden++ // its name is not known
				continue
			}
			named.Milli, named.MemoryMiB, named.Profile, named.Start, named.Size, named.Starting = int64(h.Milli), int64(h.Memory), h.Profile, h.Start, h.Size, h.Assumed
			out.Holders = append(out.Holders, named)
		}
		node.Devices[slot] = out
	}
	return node
}

// healthName is a device's health as it travels.
func healthName(h model.Health) string {
	switch h {
	case model.Healthy:
		return "healthy"
	case model.Failed:
		return "failed"
	}
	return "degraded"
}

// reading is what was measured; nil when nothing was.
func reading(r model.Reading) *int64 {
	if !r.Known {
		return nil
	}
	v := int64(r.Value)
	return &v
}
