// Package fake answers the questions of api/query from a made-up fleet, so that the page can
// be tried at 1,000 nodes, with hostile names and with failures, without a cluster.
//
// Read fleet.go for what there is, answers.go and reason.go for what a caller is answered.
package fake

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/kube/answer"
)

// Hostile are names that would run a script or break a layout if they were taken for
// markup. Kubernetes allows none of them for pods; other words that are shown (users,
// details, texts of webhooks) have no such rule.
var Hostile = []string{
	`<img src=x onerror="window.pwned=1">`, `<script>window.pwned=2</script>`, `"><svg onload=window.pwned=3>`, `javascript:window.pwned=4`, "\u202eesrever\u0000nul",
}

// Fleet is a made-up fleet. Its methods may be called from several goroutines.
type Fleet struct {
	mu      sync.Mutex
	random  *rand.Rand
	start   time.Time
	version uint64
	nodes   []query.Node
	changed map[string]uint64 // version of a node's last change
	gangs   []query.Gang
	events  []query.Event
	// Down makes every answer fail with this status; 0 for none.
	down int
	asks map[string]int
}

// New is a fleet of so many nodes with 8 devices, in racks of 16 and blocks of 4 racks; the
// same for the same arguments.
func New(nodes int, hostile bool) *Fleet {
	f := &Fleet{random: rand.New(rand.NewPCG(1, 2)), start: time.Now().Add(-2 * time.Hour), version: 1, changed: map[string]uint64{}, asks: map[string]int{}}
	models := []struct {
		name string
		mib  int64
	}{{"H100-SXM5-80GB", 81559}, {"A100-SXM4-80GB", 81920}, {"L40S", 46068}}
	for i := range nodes {
		rack := i / 16
		model := models[min(i*3/max(nodes, 1), 2)]
		n := query.Node{
			Name: fmt.Sprintf("node-%04d", i), State: "ready", CPUMilliFree: 64_000, MemoryMiBFree: 512 << 10,
			Domains: map[string]string{"block": fmt.Sprintf("b%02d", rack/4), "rack": fmt.Sprintf("r%03d", rack)},
		}
		if model.name != "L40S" {
			n.Links = []query.LinkGroup{{Link: "NVSwitch", Devices: []int{0, 1, 2, 3, 4, 5, 6, 7}}}
		} else {
			n.Links = []query.LinkGroup{{Link: "PIX", Devices: []int{0, 1}}, {Link: "PIX", Devices: []int{2, 3}}, {Link: "PIX", Devices: []int{4, 5}}, {Link: "PIX", Devices: []int{6, 7}}}
		}
		switch {
		case i%97 == 5:
			n.State = "cordoned"
		case i%211 == 9:
			n.State = "lost"
		}
		for d := range 8 {
			temp, use := int64(40+f.random.IntN(35)), int64(f.random.IntN(100))
			n.Devices = append(n.Devices, query.Device{
				Index: d, UUID: fmt.Sprintf("GPU-%04d-%d", i, d), Vendor: "nvidia", Model: model.name, MemoryMiB: model.mib, State: "free", Health: "healthy", Temperature: &temp, Utilization: &use,
			})
		}
		f.nodes = append(f.nodes, n)
		f.changed[n.Name] = 1
	}
	f.fill(hostile)
	return f
}

var namespaces = []string{"research", "vision", "speech", "platform", "batch", "serving"}

// fill gives devices to gangs, and lets some wait.
func (f *Fleet) fill(hostile bool) {
	gang := 0
	for i := range f.nodes {
		n := &f.nodes[i]
		namespace := namespaces[f.random.IntN(len(namespaces))]
		ref := query.GangRef{Namespace: namespace, Name: fmt.Sprintf("train-%d", gang)}
		if hostile && i < len(Hostile) {
			ref.Name = Hostile[i]
		}
		gang++
		if f.random.IntN(10) == 0 {
			continue // a free node
		}
		if n.Domains["rack"] == "r001" || f.random.IntN(6) == 0 {
			f.share(n, ref)
			continue
		}
		members := []query.Member{}
		for d := range n.Devices {
			f.hold(n, d, ref, "whole", query.Holder{Pod: query.PodRef{Namespace: ref.Namespace, Name: fmt.Sprintf("%s-%d", ref.Name, d)}, Milli: 1000})
			members = append(members, query.Member{Pod: query.PodRef{Namespace: ref.Namespace, Name: fmt.Sprintf("%s-%d", ref.Name, d)}, Role: "worker", Node: n.Name, State: "bound", Devices: []query.Part{{Index: d, Milli: 1000}}, Asks: []query.Asked{{Resource: "nvidia.com/gpu", Amount: "1"}}})
		}
		f.gangs = append(f.gangs, query.Gang{GangRef: ref, Kind: "Job", Owner: ref.Name, Queue: queueOf(namespace), User: "alice", Phase: query.PhaseRunning, Submitted: f.start, Need: 8, Exist: 8, Placed: 8, Milli: 8000, Members: members})
		f.event(query.EventStarted, ref, []string{n.Name}, 8000, "All members are bound.")
	}
	for i := range f.nodes {
		n := &f.nodes[i]
		for d := range n.Devices {
			device := &n.Devices[d]
			switch (i*8 + d) % 331 {
			case 17:
				device.State, device.Health, device.Detail = "failed", "failed", "XID 79: GPU has fallen off the bus"
			case 118:
				device.State, device.Health, device.Detail = "degraded", "degraded", "91 °C for 6 minutes"
			case 207:
				device.State = "cordoned"
			}
		}
	}
	f.wait(hostile)
}

// share cuts the devices of a node into MIG slices and shares.
func (f *Fleet) share(n *query.Node, ref query.GangRef) {
	for d := range n.Devices {
		pod := query.PodRef{Namespace: ref.Namespace, Name: fmt.Sprintf("%s-%d", ref.Name, d)}
		switch d % 3 {
		case 0:
			f.hold(n, d, ref, "mig", query.Holder{Pod: pod, Milli: 428, Profile: "3g.40gb", Start: 0, Size: 4})
			f.hold(n, d, query.GangRef{Namespace: "serving", Name: "chat"}, "mig", query.Holder{Pod: query.PodRef{Namespace: "serving", Name: "chat-0"}, Milli: 142, Profile: "1g.10gb", Start: 6, Size: 1})
		case 1:
			f.hold(n, d, ref, "shared", query.Holder{Pod: pod, Milli: 300, MemoryMiB: 16384})
			f.hold(n, d, query.GangRef{Namespace: "speech", Name: "notebook"}, "shared", query.Holder{Pod: query.PodRef{Namespace: "speech", Name: "notebook-0"}, Milli: 250, MemoryMiB: 8192, Starting: true})
		}
	}
}

func (f *Fleet) hold(n *query.Node, d int, gang query.GangRef, mode string, h query.Holder) {
	h.Gang, h.Queue = gang, queueOf(gang.Namespace)
	device := &n.Devices[d]
	device.State, device.Mode = "allocated", mode
	device.HeldMilli += h.Milli
	device.HeldMemoryMiB += h.MemoryMiB
	device.Holders = append(device.Holders, h)
}

// wait adds gangs that wait; one of them, research/llama, is the one that tests look for.
func (f *Fleet) wait(hostile bool) {
	why := f.reason()
	for i := range 60 {
		ref := query.GangRef{Namespace: namespaces[i%len(namespaces)], Name: fmt.Sprintf("waits-%d", i)}
		if i == 6 {
			ref = query.GangRef{Namespace: "research", Name: "llama"}
		}
		user := "alice"
		if hostile && i < len(Hostile) {
			ref.Name, user = Hostile[i], Hostile[i]
		}
		submitted := time.Now().Add(-time.Duration(60-i) * time.Minute)
		g := query.Gang{
			GangRef: ref, Kind: "Job", Owner: ref.Name, Queue: queueOf(ref.Namespace), User: user, Priority: 500, Phase: query.PhaseWaiting, Submitted: submitted, Need: members, Exist: members, Milli: members * 8000, Position: i + 1, RuntimeSeconds: 7200, Learned: true,
		}
		g.Reason = new(answer.ReasonAnswer(&why, true))
		for m := range members {
			g.Members = append(g.Members, query.Member{Pod: query.PodRef{Namespace: ref.Namespace, Name: fmt.Sprintf("%s-%d", ref.Name, m)}, Role: "worker", State: "waiting", Asks: []query.Asked{{Resource: "nvidia.com/gpu", Amount: "8"}}})
		}
		if i%2 == 0 {
			at := time.Now().Add(time.Duration(7+i) * time.Minute)
			g.ExpectedStart = &at
		}
		if i%3 == 0 {
			g.Reserved = []string{"node-0003", "node-0004"}
		}
		f.gangs = append(f.gangs, g)
		f.event(query.EventReserved, ref, g.Reserved, g.Milli, "2 nodes kept for it")
	}
	victim := query.GangRef{Namespace: "batch", Name: "sweep-3"}
	f.event(query.EventEvicted, victim, []string{"node-0007"}, 8000, "1 pod evicted")
	f.events[len(f.events)-1].For = &query.GangRef{Namespace: "research", Name: "llama"}
}

func (f *Fleet) event(kind string, gang query.GangRef, nodes []string, milli int64, text string) {
	f.events = append(f.events, query.Event{
		Version: uint64(len(f.events) + 1), At: f.start.Add(time.Duration(len(f.events)) * 5 * time.Second), Kind: kind, Gang: gang, Queue: queueOf(gang.Namespace), Nodes: nodes, Milli: milli, Text: text,
	})
}

func queueOf(namespace string) string {
	if namespace == "platform" || namespace == "serving" {
		return "production"
	}
	return namespace
}

// Step changes so many nodes: what is held is freed, what is free is held.
func (f *Fleet) Step(nodes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	for range nodes {
		n := &f.nodes[f.random.IntN(len(f.nodes))]
		free := n.Devices[0].State == "free"
		n.Devices = slices.Clone(n.Devices)
		for d := range n.Devices {
			old := n.Devices[d]
			if old.State != "free" && old.State != "allocated" {
				continue
			}
			n.Devices[d].State, n.Devices[d].Mode, n.Devices[d].Holders, n.Devices[d].HeldMilli = "free", "", nil, 0
			if free {
				f.hold(n, d, query.GangRef{Namespace: "vision", Name: "new"}, "whole", query.Holder{Pod: query.PodRef{Namespace: "vision", Name: fmt.Sprintf("new-%d", d)}, Milli: 1000})
			}
		}
		f.changed[n.Name] = f.version
	}
}

// Start lets a waiting gang run, as when its turn has come.
func (f *Fleet) Start(ref query.GangRef) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.gangs {
		if f.gangs[i].GangRef == ref {
			g := &f.gangs[i]
			g.Phase, g.Reason, g.Position, g.ExpectedStart, g.Placed = query.PhaseRunning, nil, 0, nil, g.Need
			for m := range g.Members {
				g.Members[m].State, g.Members[m].Node = "bound", f.nodes[m].Name
				for d := range 8 {
					g.Members[m].Devices = append(g.Members[m].Devices, query.Part{Index: d, Milli: 1000})
				}
			}
		}
	}
	f.event(query.EventStarted, ref, nil, 0, "All members are bound.")
}

// Fail makes every question be answered with this status; 0 ends it.
func (f *Fleet) Fail(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = status
}

// Asks is how often each path was asked, with the parameter since as "path?since".
func (f *Fleet) Asks() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.asks)
}
