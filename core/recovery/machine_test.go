package recovery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/health"
)

// drill is a small fleet that a test breaks, with an API that does what it is told.
type drill struct {
	t   *testing.T
	m   *Machine
	now time.Time
	f   Fleet
	// said are the notices, did the actions, in words.
	said, did []string
	recovered []Recovery
}

func newDrill(t *testing.T, nodes int, change func(*Config)) *drill {
	c := Defaults()
	c.Evict = EvictFailed
	if change != nil {
		change(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	d := &drill{t: t, m: New(c, Reliability{}), now: time.Unix(1_700_000_000, 0)}
	for i := range nodes {
		n := Node{Name: fmt.Sprintf("n%02d", i), Ready: true, DriverReady: true, Agent: Agent{Heartbeat: "0", Pod: fmt.Sprintf("agent-n%02d", i)}}
		for j := range 8 {
			n.Devices = append(n.Devices, Device{ID: fmt.Sprintf("GPU-%d", j)})
		}
		d.f.Nodes = append(d.f.Nodes, n)
	}
	return d
}

// run lets time pass in steps of ten seconds, agents writing meanwhile.
func (d *drill) run(long time.Duration) {
	for end := d.now.Add(long); d.now.Before(end); {
		d.now = d.now.Add(10 * time.Second)
		for i := range d.f.Nodes {
			if n := &d.f.Nodes[i]; n.Agent.Heartbeat != "dead" {
				n.Agent.Heartbeat = d.now.String()
			}
		}
		plan := d.m.Step(d.now, d.f)
		for _, a := range plan.Actions {
			d.did = append(d.did, fmt.Sprintf("%s %s %s %s", a.Do, a.Node, a.Device, strings.Join(a.Pods, ",")))
			d.apply(a)
		}
		for _, n := range plan.Notices {
			d.said = append(d.said, n.Node+" "+n.Reason+": "+n.Text)
		}
		d.recovered = append(d.recovered, plan.Recovered...)
	}
}

func (d *drill) node(name string) *Node {
	i := slices.IndexFunc(d.f.Nodes, func(n Node) bool { return n.Name == name })
	return &d.f.Nodes[i]
}

func (d *drill) apply(a Action) {
	switch a.Do {
	case EvictPods:
		d.f.Pods = slices.DeleteFunc(d.f.Pods, func(p Pod) bool { return slices.Contains(a.Pods, p.UID) })
	default:
		carryOut(d.node(a.Node), a, &Test{Started: d.now, Outcome: TestPassed})
	}
}

// carryOut does to a node what the adapter would, on the object as it is now; test is the
// test pod that comes of a StartTest.
func carryOut(n *Node, a Action, test *Test) {
	var d *Device
	if i := slices.IndexFunc(n.Devices, func(x Device) bool { return x.ID == a.Device }); i >= 0 {
		d = &n.Devices[i]
	}
	var mark Mark
	if a.Mark != nil {
		mark = *a.Mark
	}
	switch a.Do {
	case IsolateNode:
		mark.Cordoned = !n.Unschedulable
		n.Mark, n.Unschedulable, n.Tainted = &mark, true, true
	case ReleaseNode:
		if n.Mark != nil {
			n.Unschedulable, n.Tainted, n.Mark = n.Unschedulable && !n.Mark.Cordoned, false, nil
		}
	case MarkNode:
		if n.Mark != nil {
			n.Mark, n.Tainted = &mark, n.Tainted && !mark.Lifted
		}
	case IsolateDevice:
		d.Mark, d.Isolated = &mark, true
	case ReleaseDevice:
		d.Mark, d.Isolated = nil, false
	case MarkDevice:
		d.Mark = &mark
	case StartTest:
		d.Test = test
	case EndTest:
		d.Test = nil
	}
}

// wants fails unless the actions since the last call are these.
func (d *drill) wants(want ...string) {
	d.t.Helper()
	if got := strings.Join(d.did, "\n"); got != strings.Join(want, "\n") {
		d.t.Errorf("did\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	d.did = nil
}

// TestFailedDevice: the device is isolated, its pod moved, others stay; when it is
// healthy again it is put back, and both times are measured.
func TestFailedDevice(t *testing.T) {
	d := newDrill(t, 4, nil)
	d.f.Pods = []Pod{{UID: "hurt", Name: "hurt", Node: "n01", Devices: []string{"GPU-3"}, GPUs: true}, {UID: "beside", Name: "beside", Node: "n01", Devices: []string{"GPU-4"}, GPUs: true}}
	d.run(time.Minute)
	d.wants()
	dev := &d.node("n01").Devices[3]
	dev.State, dev.Reason, dev.Since = health.Failed, "XID 79", d.now
	d.run(3 * time.Minute)
	d.wants("IsolateDevice n01 GPU-3 ", "EvictPods n01  hurt")
	dev.State = health.Healthy
	d.run(time.Minute)
	d.wants()
	d.run(5 * time.Minute)
	d.wants("ReleaseDevice n01 GPU-3 ")
	if len(d.recovered) != 2 || d.recovered[0].Of != "workload" || d.recovered[1].Of != "device" {
		t.Errorf("recoveries %+v", d.recovered)
	}
	if r := d.m.Reliability(); r.Failures != 1 || r.MTBFHours() <= 0 {
		t.Errorf("reliability %+v", r)
	}
}

// TestVerify: with verification a test pod runs before the device is put back.
func TestVerify(t *testing.T) {
	d := newDrill(t, 4, func(c *Config) { c.Verify, c.RestartAgent = true, false })
	dev := &d.node("n01").Devices[3]
	dev.State = health.Failed
	d.run(3 * time.Minute)
	dev.State = health.Healthy
	d.run(5 * time.Minute)
	d.wants("IsolateDevice n01 GPU-3 ", "StartTest n01 GPU-3 ", "ReleaseDevice n01 GPU-3 ", "EndTest n01 GPU-3 ")
}

// TestFalseAlarm: when all nodes report failures at once, nothing is isolated or evicted,
// and that is said.
func TestFalseAlarm(t *testing.T) {
	d := newDrill(t, 20, nil)
	for i := range d.f.Nodes {
		for j := range d.f.Nodes[i].Devices {
			d.f.Nodes[i].Devices[j].State = health.Failed
		}
		d.f.Pods = append(d.f.Pods, Pod{UID: fmt.Sprint(i), Node: d.f.Nodes[i].Name, Devices: []string{"GPU-0"}, GPUs: true})
	}
	d.run(30 * time.Minute)
	d.wants()
	if len(d.said) != noticesPerHold+1 || !strings.Contains(d.said[noticesPerHold], "160 GPUs look sick") {
		t.Errorf("said %q", d.said)
	}
}

// TestRollingAlarm: a false alarm that comes node by node, several in each look, ends
// the work of no pod either.
func TestRollingAlarm(t *testing.T) {
	d := newDrill(t, 20, nil)
	for i := range d.f.Nodes {
		d.f.Pods = append(d.f.Pods, Pod{UID: fmt.Sprint(i), Node: d.f.Nodes[i].Name, Devices: []string{"GPU-0"}, GPUs: true})
	}
	for i := range d.f.Nodes {
		for j := range d.f.Nodes[i].Devices {
			d.f.Nodes[i].Devices[j].State = health.Failed
		}
		d.run(30 * time.Second)
	}
	d.run(time.Hour)
	for _, did := range d.did {
		if !strings.HasPrefix(did, "RestartAgent") {
			t.Errorf("did %s", did)
		}
	}
}

// TestAlarmOfSilentAgents: agents that report all their GPUs as failed and then fall silent
// one after the other make the alarm no smaller.
func TestAlarmOfSilentAgents(t *testing.T) {
	d := newDrill(t, 20, nil)
	for i := range d.f.Nodes {
		for j := range d.f.Nodes[i].Devices {
			d.f.Nodes[i].Devices[j].State = health.Failed
		}
	}
	d.run(5 * time.Minute)
	for i := range d.f.Nodes {
		d.f.Nodes[i].Agent.Heartbeat = "dead"
		d.run(2 * time.Minute)
	}
	d.run(time.Hour)
	for _, did := range d.did {
		if strings.HasPrefix(did, "IsolateDevice") || strings.HasPrefix(did, "Evict") {
			t.Errorf("did %s", did)
		}
	}
}

// TestLostNode: it is isolated and its GPU pods moved, also the rest of a gang that
// cannot go on; an elastic gang goes on.
func TestLostNode(t *testing.T) {
	d := newDrill(t, 4, nil)
	for i, node := range []string{"n00", "n01"} {
		d.f.Pods = append(d.f.Pods,
			Pod{UID: fmt.Sprint("rigid", i), Name: fmt.Sprint("rigid", i), Node: node, GPUs: true, Gang: "rigid", GangMin: 2},
			Pod{UID: fmt.Sprint("elastic", i), Name: fmt.Sprint("elastic", i), Node: node, GPUs: true, Gang: "elastic", GangMin: 1},
			Pod{UID: fmt.Sprint("cpu", i), Name: fmt.Sprint("cpu", i), Node: node})
	}
	n := d.node("n01")
	n.Ready, n.NotReadySince = false, d.now
	d.run(2 * time.Minute)
	d.wants("IsolateNode n01  ", "EvictPods n01  rigid0,rigid1", "EvictPods n01  elastic1")
	n.Ready = true
	d.run(4 * time.Minute)
	d.wants("ReleaseNode n01  ")
	if n.Unschedulable {
		t.Error("the node is still cordoned")
	}
}

// TestOperatorsCordon: a node that an operator had cordoned before stays so.
func TestOperatorsCordon(t *testing.T) {
	d := newDrill(t, 4, nil)
	n := d.node("n01")
	n.Unschedulable, n.Ready = true, false
	d.run(2 * time.Minute)
	n.Ready = true
	d.run(4 * time.Minute)
	d.wants("IsolateNode n01  ", "ReleaseNode n01  ")
	if !n.Unschedulable {
		t.Error("the operator's cordon was lifted")
	}
}

// TestMaintenance: at its time the node is emptied but for pods that belong to it, and
// put back at its end.
func TestMaintenance(t *testing.T) {
	d := newDrill(t, 4, func(c *Config) { c.Evict = EvictNever })
	d.f.Pods = []Pod{{UID: "cpu", Node: "n01"}, {UID: "gpu", Node: "n01", GPUs: true, Critical: true}, {UID: "daemon", Node: "n01", Fixed: true}, {UID: "other", Node: "n02"}}
	d.node("n01").Maintenance = &Maintenance{From: d.now.Add(10 * time.Minute), Until: d.now.Add(20 * time.Minute)}
	d.run(9 * time.Minute)
	d.wants()
	d.run(2 * time.Minute)
	d.wants("IsolateNode n01  ", "EvictPods n01  cpu", "EvictPods n01  gpu")
	d.run(10 * time.Minute)
	d.wants("ReleaseNode n01  ")
}

// TestSilentAgent: it is restarted first; the node is isolated when that did not help, and
// no pod is evicted. Many silent agents are left alone.
func TestSilentAgent(t *testing.T) {
	d := newDrill(t, 4, nil)
	d.f.Pods = []Pod{{UID: "gpu", Node: "n01", GPUs: true, Devices: []string{"GPU-0"}}}
	n := d.node("n01")
	n.Agent.Heartbeat = "dead"
	d.run(17 * time.Minute)
	d.wants("RestartAgent n01  agent-n01")
	d.run(3 * time.Minute)
	d.wants("IsolateNode n01  ", "RestartAgent n01  agent-n01")
	n.Agent.Heartbeat = ""
	d.run(5 * time.Minute)
	d.wants("ReleaseNode n01  ")

	d = newDrill(t, 10, nil)
	for i := range d.f.Nodes {
		d.f.Nodes[i].Agent.Heartbeat = "dead"
	}
	d.run(time.Hour)
	d.wants()
	if len(d.said) != 10 {
		t.Errorf("said %q", d.said)
	}
}

// TestOverMemory: opt-in, only after it was seen several times in a row.
func TestOverMemory(t *testing.T) {
	for _, on := range []bool{false, true} {
		d := newDrill(t, 4, func(c *Config) { c.EvictOverMemory = on })
		d.f.Pods = []Pod{{UID: "greedy", Node: "n01", GPUs: true, UsedMiB: 200, GivenMiB: 100}, {UID: "fair", Node: "n01", GPUs: true, UsedMiB: 100, GivenMiB: 100}}
		d.run(50 * time.Second)
		d.wants()
		d.run(2 * time.Minute)
		if on {
			d.wants("EvictPods n01  greedy")
		} else {
			d.wants()
		}
	}
}

// TestRefusedEviction: it is asked for again with growing pauses.
func TestRefusedEviction(t *testing.T) {
	d := newDrill(t, 4, nil)
	n := d.node("n01")
	n.Devices[0].State = health.Failed
	n.Devices[0].Isolated, n.Devices[0].Mark = true, &Mark{Cause: DeviceFailed, Detected: d.now}
	pods := []Pod{{UID: "guarded", Node: "n01", GPUs: true, Devices: []string{"GPU-0"}}}
	tries := 0
	for range 360 { // an hour
		d.now = d.now.Add(10 * time.Second)
		for _, a := range d.m.Step(d.now, Fleet{Nodes: d.f.Nodes, Pods: pods}).Actions {
			if a.Do == EvictPods {
				tries++
				d.m.Failed(a)
			}
		}
	}
	if tries < 6 || tries > 10 {
		t.Errorf("%d tries in an hour", tries)
	}
}

// TestSchedulerSilent: a lease that is not renewed is reported once.
func TestSchedulerSilent(t *testing.T) {
	d := newDrill(t, 2, nil)
	d.f.Scheduler = Scheduler{Known: true, Renewal: "1"}
	d.run(30 * time.Minute)
	d.f.Scheduler.Renewal = "2"
	d.run(time.Minute)
	if len(d.said) != 2 || !strings.Contains(d.said[0], "SchedulerSilent") || !strings.Contains(d.said[1], "SchedulerBack") {
		t.Errorf("said %q", d.said)
	}
}

// TestValidate: a mistake is named by its field.
func TestValidate(t *testing.T) {
	for field, change := range map[string]func(*Config){
		"intervals.node":        func(c *Config) { c.NodeInterval = 0 },
		"intervals.scheduler":   func(c *Config) { c.SchedulerInterval = 48 * time.Hour },
		"confirmations":         func(c *Config) { c.Confirmations = 1 },
		"limits.nodesPercent":   func(c *Config) { c.MaxNodesPercent = 0 },
		"limits.devicesPercent": func(c *Config) { c.MaxDevicesPercent = 101 },
		"evict.from":            func(c *Config) { c.Evict = "Always" },
		"backoff.most":          func(c *Config) { c.BackoffMost = time.Second },
	} {
		c := Defaults()
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// BenchmarkStep is one step over 10,000 healthy nodes of 8 devices and 80,000 pods.
func BenchmarkStep(b *testing.B) {
	m := New(Defaults(), Reliability{})
	now := time.Unix(1_700_000_000, 0)
	var f Fleet
	for i := range 10_000 {
		n := Node{Name: fmt.Sprintf("n%05d", i), Ready: true, DriverReady: true, Agent: Agent{Heartbeat: "0", Pod: "agent"}}
		for j := range 8 {
			id := fmt.Sprintf("GPU-%d", j)
			n.Devices = append(n.Devices, Device{ID: id})
			f.Pods = append(f.Pods, Pod{UID: fmt.Sprint(i, "/", j), Name: fmt.Sprint(i, "/", j), Node: n.Name, GPUs: true, Devices: []string{id}})
		}
		f.Nodes = append(f.Nodes, n)
	}
	b.ResetTimer()
	for range b.N {
		now = now.Add(5 * time.Second)
		m.Step(now, f)
	}
}
