package recovery

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/health"
)

// world is an API server in miniature, with operators who cordon and uncordon, faults
// that come and go, and writes that are late, refused or lost.
type world struct {
	t     *rapid.T
	now   time.Time
	m     *Machine
	c     Config
	nodes map[string]*Node
	pods  map[string]*Pod
	// operators' own: cordons of nodes that must stay, nodes and devices that they put
	// back while the fault was there.
	cordoned map[string]bool
	lifted   map[string]bool
	late     []Action
	beats    int
	uid      int
}

func newWorld(t *rapid.T) *world {
	c := Defaults()
	c.MaxNodesPercent = rapid.SampledFrom([]int{1, 10, 34, 50}).Draw(t, "nodes%")
	c.MaxDevicesPercent = rapid.SampledFrom([]int{1, 10, 34, 50}).Draw(t, "devices%")
	c.Evict = rapid.SampledFrom([]Evict{EvictNever, EvictFailed, EvictDegraded}).Draw(t, "evict")
	c.EvictOverMemory = rapid.Bool().Draw(t, "over")
	c.Verify = rapid.Bool().Draw(t, "verify")
	c.AgentSilentFor = 2 * time.Minute
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, c: c, m: New(c, Reliability{}), now: time.Unix(1_700_000_000, 0), nodes: map[string]*Node{}, pods: map[string]*Pod{}, cordoned: map[string]bool{}, lifted: map[string]bool{}}
	for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
		n := &Node{Name: fmt.Sprintf("n%02d", i), Ready: true, DriverReady: true}
		for d := range rapid.IntRange(1, 4).Draw(t, "devices") {
			n.Devices = append(n.Devices, Device{ID: fmt.Sprintf("GPU-%d", d)})
		}
		if rapid.Bool().Draw(t, "agent") {
			n.Agent = Agent{Heartbeat: "0", Pod: "agent-" + n.Name}
		}
		w.nodes[n.Name] = n
	}
	return w
}

func (w *world) node() *Node {
	return w.nodes[rapid.SampledFrom(slices.Sorted(maps.Keys(w.nodes))).Draw(w.t, "node")]
}

func (w *world) device() (*Node, *Device) {
	n := w.node()
	return n, &n.Devices[rapid.IntRange(0, len(n.Devices)-1).Draw(w.t, "device")]
}

// fleet is a copy, in any order.
func (w *world) fleet() (f Fleet) {
	for _, n := range w.nodes { // any order
		c := *n
		c.Devices = slices.Clone(n.Devices)
		f.Nodes = append(f.Nodes, c)
	}
	for _, p := range w.pods {
		f.Pods = append(f.Pods, *p)
	}
	return f
}

func (w *world) step() {
	plan := w.m.Step(w.now, w.fleet())
	for _, a := range plan.Actions {
		w.allowed(a)
	}
	for _, a := range plan.Actions {
		switch rapid.SampledFrom([]string{"now", "now", "now", "late", "refused", "lost"}).Draw(w.t, "write") {
		case "now":
			w.apply(a)
		case "late":
			w.late = append(w.late, a)
		case "refused":
			w.m.Failed(a)
		}
	}
	w.check()
}

// apply does what the adapter would.
func (w *world) apply(a Action) {
	switch a.Do {
	case EvictPods:
		for _, uid := range a.Pods {
			if p := w.pods[uid]; p != nil {
				p.Leaving = true
			}
		}
	case RestartAgent:
		w.nodes[a.Node].Agent.Pod += "+"
	case StartTest:
		outcome := rapid.SampledFrom([]Outcome{TestRuns, TestPassed, TestFailed}).Draw(w.t, "test")
		carryOut(w.nodes[a.Node], a, &Test{Started: w.now, Outcome: outcome})
	default:
		carryOut(w.nodes[a.Node], a, nil)
	}
}

// allowed judges an action on the world as it was shown.
func (w *world) allowed(a Action) {
	switch a.Do {
	case IsolateNode:
		n := w.nodes[a.Node]
		if a.Cause == UnderRepair {
			if !n.Maintenance.inEffect(w.now) {
				w.t.Fatalf("%s is put under maintenance without one", a.Node)
			}
			return
		}
		if w.lifted[a.Node] {
			w.t.Fatalf("%s is isolated again though an operator put it back for this fault", a.Node)
		}
	case ReleaseNode:
		if n := w.nodes[a.Node]; a.Mark.Lifted {
			if !n.Ready || !n.DriverReady {
				w.t.Fatalf("%s: that an operator put it back is forgotten while its fault is there", a.Node)
			}
			delete(w.lifted, a.Node)
		}
	case IsolateDevice:
		if w.lifted[a.Node+"/"+a.Device] {
			w.t.Fatalf("%s/%s is isolated again though an operator put it back for this fault", a.Node, a.Device)
		}
		n := w.nodes[a.Node]
		if i := slices.IndexFunc(n.Devices, func(d Device) bool { return d.ID == a.Device }); n.Devices[i].Cordoned {
			w.t.Fatalf("%s/%s is isolated though an operator has cordoned it", a.Node, a.Device)
		}
	case EvictPods:
		hit := map[string]bool{} // gangs with an affected member
		for _, p := range w.pods {
			if w.affected(p) {
				hit[p.Gang] = true
			}
		}
		for _, uid := range a.Pods {
			p := w.pods[uid]
			if p == nil || p.Fixed || p.Critical && !w.affected(p) || !w.affected(p) && (p.Gang == "" || !hit[p.Gang]) {
				w.t.Fatalf("pod %+v is evicted (%s), and nothing concerns it", p, a.Why)
			}
		}
	}
}

// affected says it in another way than the code under test.
func (w *world) affected(p *Pod) bool {
	n := w.nodes[p.Node]
	if n == nil || p.Leaving {
		return false
	}
	if n.Maintenance.inEffect(w.now) && n.Mark != nil {
		return true
	}
	if p.Critical {
		return false
	}
	if w.c.EvictOverMemory && p.UsedMiB > p.GivenMiB && p.GivenMiB > 0 {
		return true
	}
	if w.c.Evict == EvictNever {
		return false
	}
	if p.GPUs && n.Mark != nil && (!n.Ready || !n.DriverReady) {
		return true
	}
	for _, d := range n.Devices {
		if slices.Contains(p.Devices, d.ID) && d.Isolated && (d.State == health.Failed || d.State == health.Degraded && w.c.Evict == EvictDegraded) {
			return true
		}
	}
	return false
}

// check is what must always hold in the API.
func (w *world) check() {
	nodes, devices, total := 0, 0, 0
	count := func(a Action) {
		switch {
		case a.Do == IsolateNode && a.Cause != UnderRepair && w.nodes[a.Node].Mark == nil:
			nodes++
		case a.Do == IsolateDevice:
			devices++
		}
	}
	for _, a := range w.late {
		count(a)
	}
	for _, n := range w.nodes {
		total += len(n.Devices)
		if n.Mark != nil && !n.Mark.Lifted && n.Mark.Cause != UnderRepair {
			nodes++
		}
		if w.cordoned[n.Name] && !n.Unschedulable {
			w.t.Fatalf("%s: an operator's cordon was lifted", n.Name)
		}
		for _, d := range n.Devices {
			if d.Isolated {
				devices++
			}
		}
	}
	if most := max(1, len(w.nodes)*w.c.MaxNodesPercent/100); nodes > most {
		w.t.Fatalf("%d nodes of %d are isolated, at most %d may be", nodes, len(w.nodes), most)
	}
	if most := max(1, total*w.c.MaxDevicesPercent/100); devices > most {
		w.t.Fatalf("%d devices of %d are isolated, at most %d may be", devices, total, most)
	}
}

// faulty says whether a node or device has a fault in the world.
func (w *world) unlift() {
	for key := range w.lifted {
		for _, n := range w.nodes {
			silent := n.Agent.Heartbeat != "" // may be silent: only a beat tells
			if key == n.Name && n.Ready && n.DriverReady && !silent {
				delete(w.lifted, key)
			}
			for _, d := range n.Devices {
				if key == n.Name+"/"+d.ID && d.State <= health.Suspect {
					delete(w.lifted, key)
				}
			}
		}
	}
}

func TestAnySequenceKeepsThePromises(t *testing.T) {
	if f := flag.Lookup("rapid.steps"); f.Value.String() == f.DefValue { // confirmation takes several steps
		_ = f.Value.Set("150")
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		operation := map[string]func(*rapid.T){
			"time": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "s")) * time.Second)
				for _, a := range w.late {
					w.apply(a)
				}
				w.late = nil
				w.step()
			},
			"device": func(t *rapid.T) {
				_, d := w.device()
				d.State, d.Since = rapid.SampledFrom([]health.State{health.Healthy, health.Suspect, health.Degraded, health.Failed, health.Failed}).Draw(t, "state"), w.now
				w.unlift()
			},
			"alarm": func(t *rapid.T) { // a false alarm, or its end, on many nodes
				s := rapid.SampledFrom([]health.State{health.Healthy, health.Healthy, health.Failed}).Draw(t, "state")
				for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
					if rapid.IntRange(0, 9).Draw(t, "spared") == 0 {
						continue
					}
					for i := range w.nodes[name].Devices {
						w.nodes[name].Devices[i].State = s
					}
				}
				w.unlift()
			},
			"ready": func(t *rapid.T) {
				n := w.node()
				n.Ready, n.NotReadySince = !n.Ready, w.now
				w.unlift()
			},
			"driver": func(t *rapid.T) {
				n := w.node()
				n.DriverReady, n.DriverSince = !n.DriverReady, w.now
				w.unlift()
			},
			"beat": func(t *rapid.T) {
				w.beats++
				for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
					if n := w.nodes[name]; n.Agent.Heartbeat != "" && rapid.IntRange(0, 4).Draw(t, "dead") > 0 {
						n.Agent.Heartbeat = fmt.Sprint(w.beats)
						if n.Ready && n.DriverReady {
							delete(w.lifted, n.Name)
						}
					}
				}
			},
			"cordon": func(t *rapid.T) {
				n := w.node()
				if !n.Unschedulable && len(w.late) == 0 {
					n.Unschedulable, w.cordoned[n.Name] = true, true
				}
			},
			"uncordon": func(t *rapid.T) {
				n := w.node()
				if !n.Unschedulable || len(w.late) > 0 {
					return
				}
				n.Unschedulable = false
				delete(w.cordoned, n.Name)
				if n.Mark != nil && n.Mark.Cordoned && n.Mark.Cause != UnderRepair && (!n.Ready || !n.DriverReady) {
					w.lifted[n.Name] = true
				}
				w.step() // a controller sees it before the operator changes his mind
			},
			"cordonDevice": func(t *rapid.T) { _, d := w.device(); d.Cordoned = !d.Cordoned },
			"freeDevice": func(t *rapid.T) {
				n, d := w.device()
				if d.Isolated && len(w.late) == 0 {
					if d.Isolated = false; d.State > health.Suspect {
						w.lifted[n.Name+"/"+d.ID] = true
					}
				}
			},
			"maintenance": func(t *rapid.T) {
				n := w.node()
				n.Maintenance = rapid.SampledFrom([]*Maintenance{nil, {From: w.now}, {From: w.now, Until: w.now.Add(2 * time.Minute)}, {From: w.now.Add(time.Minute)}}).Draw(t, "maintenance")
			},
			"pod": func(t *rapid.T) {
				n, d := w.device()
				w.uid++
				uid := fmt.Sprintf("p%03d", w.uid)
				p := &Pod{UID: uid, Name: uid, Node: n.Name, GPUs: true, Devices: []string{d.ID}, GivenMiB: 100,
					UsedMiB: rapid.SampledFrom([]int64{0, 50, 100, 101}).Draw(t, "used"),
					Fixed:   rapid.IntRange(0, 9).Draw(t, "fixed") == 0, Critical: rapid.IntRange(0, 9).Draw(t, "critical") == 0}
				if rapid.Bool().Draw(t, "cpu") {
					p.GPUs, p.Devices = false, nil
				}
				if rapid.Bool().Draw(t, "gang") {
					p.Gang, p.GangMin = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "gang"), rapid.IntRange(1, 4).Draw(t, "min")
				}
				w.pods[uid] = p
			},
			"ended": func(t *rapid.T) {
				for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
					if w.pods[uid].Leaving {
						delete(w.pods, uid)
					}
				}
			},
			"killed": func(t *rapid.T) { // the controller; what it wrote has arrived by then
				for _, n := range w.nodes {
					if n.Mark != nil && n.Mark.Cordoned && (w.cordoned[n.Name] || !n.Unschedulable) {
						return // an operator who uncordons and cordons again is seen, unless the controller dies in between
					}
				}
				for _, a := range w.late {
					w.apply(a)
				}
				w.late = nil
				w.m = New(w.c, w.m.Reliability())
			},
		}
		t.Repeat(operation)
	})
}
