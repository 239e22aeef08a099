package engine

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// pictureEvery is how old a picture of nodes or gangs may be that a question is answered
// with: however many ask, it is made once in that time.
const pictureEvery = time.Second

// How much is looked at under the lock at a time.
const (
	nodesAtOnce = 64
	gangsAtOnce = 256
)

// maxRemoved is how many nodes that went are remembered for those who ask what changed.
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
func (e *Engine) Nodes(since uint64) apiquery.Nodes {
	p := &e.pictures.nodes
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := e.clock(); p.nodes == nil || now.Sub(p.at) >= pictureEvery || now.Before(p.at) {
		p.draw(e, now)
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
func (p *nodePicture) draw(e *Engine, now time.Time) {
	if p.nodes == nil {
		p.nodes, p.removed = map[string]*drawnNode{}, map[string]uint64{}
		p.version = uint64(now.UnixMicro())
		p.base = p.version
	}
	p.at, p.version = now, p.version+1
	p.levels = append([]string{}, e.Levels().Names()...)
	var ids []model.NodeID
	e.look("query", func() { ids = e.core.DeviceNodes() })
	there := make(map[string]bool, len(ids))
	p.names = p.names[:0]
	for part := range slices.Chunk(ids, nodesAtOnce) {
		for _, s := range e.nodeStates(part, now) {
			node := e.nodeAnswer(&s, p.levels)
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
		p.base = p.version // who asks for earlier changes gets all
	}
}

// nodeState is what is read of a node under the lock.
type nodeState struct {
	engine.NodeState
	condition engine.Condition
	holders   map[model.HolderID]apiquery.Holder
	keptFor   *apiquery.GangRef
}

// nodeStates reads nodes and the names of who holds their devices.
func (e *Engine) nodeStates(ids []model.NodeID, now time.Time) (out []nodeState) {
	e.look("query", func() {
		claims := map[model.HolderID]string{}
		for key, h := range e.claims.standing { // each for itself
			claims[h] = key
		}
		for _, id := range ids {
			s := nodeState{condition: e.condition(id), holders: map[model.HolderID]apiquery.Holder{}}
			var there bool
			if s.NodeState, there = e.core.NodeState(id, s.condition, e.observed.idle, now.UnixNano()); !there {
				continue // it went meanwhile
			}
			for i := range s.Devices {
				for _, h := range s.Devices[i].Holders {
					if _, known := s.holders[h.Holder]; !known {
						if named, ok := e.holderAnswer(h.Holder, claims); ok {
							s.holders[h.Holder] = named
						}
					}
				}
			}
			if g, ok := e.core.Gang(s.KeptFor); ok {
				ref := gangRef(&g)
				s.keptFor = &ref
			}
			out = append(out, s)
		}
	})
	return out
}

// holderAnswer names who holds something: a pod, or a ResourceClaim that holds devices
// while no pod uses it (by holder: its "namespace/name"). False when neither is known. The
// caller holds the lock.
func (e *Engine) holderAnswer(h model.HolderID, claims map[model.HolderID]string) (apiquery.Holder, bool) {
	pod := model.HolderID(dialect.UIDOf(h))
	if m := e.work.Member(pod); m != nil {
		out := apiquery.Holder{Pod: podAnswer(m), Queue: e.core.QueueOf(pod)}
		if id, ok := e.core.Of(pod); ok {
			if g, ok := e.core.Gang(id); ok {
				out.Gang = gangRef(&g)
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

// nodeAnswer is a node as it travels.
func (e *Engine) nodeAnswer(s *nodeState, levels []string) apiquery.Node {
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
				troubles = e.inventory.Troubles(node.Name)
			}
			out.Detail = troubles[d.Index]
		}
		for _, h := range state.Holders {
			named, known := s.holders[h.Holder]
			if !known {
				out.Hidden++ // nobody knows its name
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
