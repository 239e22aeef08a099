package checker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// story is a made-up history of a cluster with two nodes of two devices.
type story struct {
	*Checker
	t   *testing.T
	now time.Time
	rv  int
}

func uuid(node string, index int) string { return fmt.Sprintf("GPU-%s-%d", node, index) }

func twoNodes() Facts {
	f := Facts{Nodes: map[string]Node{}, Queues: map[string]Queue{
		"team": {Capability: 3000}, "a": {Parent: "team", Capability: 2000}, "b": {Parent: "team"},
	}}
	for _, name := range []string{"n-0", "n-1"} {
		n := Node{Devices: map[int]Device{}}
		for i := range 2 {
			n.Devices[i] = Device{UUID: uuid(name, i), MemoryMiB: 80000, Slices: 8, Profiles: map[string]int{"1g.10gb": 1, "3g.40gb": 4, "7g.80gb": 8}}
		}
		f.Nodes[name] = n
	}
	f.Nodes["t4"] = Node{Pool: "old", Devices: map[int]Device{0: {UUID: uuid("t4", 0), MemoryMiB: 16000}}}
	return f
}

func newStory(t *testing.T) *story {
	s := &story{Checker: New(twoNodes(), DefaultLimits()), t: t, now: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)}
	s.Able(s.now, true, "begin")
	s.after(10 * time.Second)
	return s
}

func (s *story) after(d time.Duration) {
	for range d / (100 * time.Millisecond) {
		s.now = s.now.Add(100 * time.Millisecond)
		s.Tick(s.now)
	}
}

func (s *story) see(p Pod, gone bool) {
	s.rv++
	s.now = s.now.Add(time.Millisecond)
	p.ResourceVersion = fmt.Sprint(s.rv)
	s.See(s.now, p, gone)
}

// whole is a pod bound to whole devices of a node.
func whole(name, node string, devices ...int) Pod {
	return Pod{UID: name, Name: name, Unit: name, Minimum: 1, Node: node, Phase: v1.PodRunning,
		Ask: Ask{Whole: len(devices)}, Record: recordOf(node, "nvidia.com/gpu", "", devices...)}
}

// recordOf writes a record; part is put beside the index of each device.
func recordOf(node, resource, part string, devices ...int) string {
	var list []string
	for _, i := range devices {
		list = append(list, fmt.Sprintf(`{"index":%d,"uuid":%q%s}`, i, uuid(node, i), part))
	}
	return fmt.Sprintf(`{"version":1,"node":%q,"containers":[{"name":"main","resource":%q,"devices":[%s]}]}`, node, resource, strings.Join(list, ","))
}

func share(name, node string, device int, mib int64, milli int) Pod {
	return Pod{UID: name, Name: name, Unit: name, Minimum: 1, Node: node, Phase: v1.PodRunning, Ask: Ask{ShareMiB: mib, ShareMilli: milli},
		Record: recordOf(node, "nvidia.com/gpu", fmt.Sprintf(`,"memoryMiB":%d,"computeMilli":%d`, mib, milli), device)}
}

func slice(name, node string, device int, profile string, start int) Pod {
	return Pod{UID: name, Name: name, Unit: name, Minimum: 1, Node: node, Phase: v1.PodRunning, Ask: Ask{Profile: profile},
		Record: recordOf(node, "nvidia.com/mig-"+profile, fmt.Sprintf(`,"mig":%q,"start":%d`, profile, start), device)}
}

func member(gang, name string, minimum int, node string, device int) Pod {
	p := whole(name, node, device)
	p.Unit, p.Minimum = gang, minimum
	return p
}

func waiting(p Pod) Pod {
	p.Node, p.Record, p.Phase = "", "", v1.PodPending
	return p
}

// wants checks which kinds of breaches were found.
func (s *story) wants(kinds ...Kind) []Breach {
	s.t.Helper()
	found := s.Breaches(s.now)
	var got []Kind
	for _, b := range found {
		got = append(got, b.Kind)
	}
	if !slices.Equal(got, kinds) {
		s.t.Fatalf("found %v, want %v: %+v", got, kinds, found)
	}
	return found
}

func TestDevices(t *testing.T) {
	tests := []struct {
		name string
		pods []Pod
		want []Kind
	}{
		{"apart", []Pod{whole("a", "n-0", 0), whole("b", "n-0", 1), whole("c", "n-1", 0, 1)}, nil},
		{"one whole device twice", []Pod{whole("a", "n-0", 0, 1), whole("b", "n-0", 1)}, []Kind{DoubleBooking}},
		{"shares that fit", []Pod{share("a", "n-0", 0, 40000, 500), share("b", "n-0", 0, 40000, 500)}, nil},
		{"shares over the memory", []Pod{share("a", "n-0", 0, 40000, 100), share("b", "n-0", 0, 40001, 100)}, []Kind{DoubleBooking}},
		{"shares over the compute", []Pod{share("a", "n-0", 0, 100, 600), share("b", "n-0", 0, 100, 500)}, []Kind{DoubleBooking}},
		{"three shares, the third over", []Pod{share("a", "n-0", 0, 30000, 1), share("b", "n-0", 0, 30000, 1), share("c", "n-0", 0, 30000, 1)}, []Kind{DoubleBooking}},
		{"share beside whole", []Pod{whole("a", "n-0", 0), share("b", "n-0", 0, 1, 1)}, []Kind{DoubleBooking}},
		{"slices side by side", []Pod{slice("a", "n-0", 0, "3g.40gb", 0), slice("b", "n-0", 0, "3g.40gb", 4)}, nil},
		{"slices overlap", []Pod{slice("a", "n-0", 0, "3g.40gb", 4), slice("b", "n-0", 0, "1g.10gb", 6)}, []Kind{DoubleBooking}},
		{"slice beside share", []Pod{slice("a", "n-0", 0, "1g.10gb", 6), share("b", "n-0", 0, 1, 1)}, []Kind{DoubleBooking}},
		{"slice beyond the device", []Pod{slice("a", "n-0", 0, "3g.40gb", 5)}, []Kind{BadRecord}},
		{"no record", []Pod{{UID: "a", Name: "a", Node: "n-0", Ask: Ask{Whole: 1}}}, []Kind{BadRecord}},
		{"a pod without GPUs", []Pod{{UID: "a", Name: "a", Node: "n-0"}}, nil},
		{"record of another node", []Pod{{UID: "a", Name: "a", Node: "n-1", Ask: Ask{Whole: 1}, Record: recordOf("n-0", "nvidia.com/gpu", "", 0)}}, []Kind{BadRecord}},
		{"fewer devices than asked for", []Pod{{UID: "a", Name: "a", Node: "n-0", Ask: Ask{Whole: 2}, Record: recordOf("n-0", "nvidia.com/gpu", "", 0)}}, []Kind{BadRecord}},
		{"less memory than asked for", []Pod{{UID: "a", Name: "a", Node: "n-0", Ask: Ask{ShareMiB: 2}, Record: recordOf("n-0", "nvidia.com/gpu", `,"memoryMiB":1`, 0)}}, []Kind{BadRecord}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStory(t)
			for _, p := range tt.pods {
				s.see(waiting(p), false)
				s.see(p, false)
			}
			s.wants(tt.want...)
		})
	}
}

// TestDoubleBookingTold: a double booking names its pods, its device, the fault that
// was active, how long it lasted, and the events around it.
func TestDoubleBookingTold(t *testing.T) {
	s := newStory(t)
	s.see(whole("first", "n-0", 0), false)
	s.after(5 * time.Second)
	s.FaultBegins(s.now, "leader-stop", "SIGSTOP to gpu-scheduler-a")
	s.see(whole("second", "n-0", 0), false)
	s.see(whole("unrelated", "n-1", 0), false)
	s.after(3 * time.Second)
	s.see(whole("first", "n-0", 0), true)
	s.after(20 * time.Second)
	b := s.wants(DoubleBooking)[0]
	if !slices.Equal(b.Pods, []string{"second", "first"}) || !slices.Equal(b.Devices, []string{"n-0/0"}) || b.LastFault != "leader-stop" || !slices.Equal(b.Active, []string{"leader-stop"}) {
		t.Errorf("told as %+v", b)
	}
	if b.LastedMillis < 3000 || b.LastedMillis > 3100 || !b.BothRan {
		t.Errorf("lasted %d ms, both ran: %t", b.LastedMillis, b.BothRan)
	}
	all := strings.Join(b.History, "\n")
	for _, words := range []string{"first bound to n-0", "leader-stop begins", "second bound to n-0", "first deleted"} {
		if !strings.Contains(all, words) {
			t.Errorf("the history lacks %q:\n%s", words, all)
		}
	}
	if strings.Contains(all, "unrelated") {
		t.Errorf("the history tells of an unrelated pod:\n%s", all)
	}
}

func TestEndedPodsHoldNothing(t *testing.T) {
	s := newStory(t)
	p := whole("first", "n-0", 0)
	s.see(p, false)
	p.Terminating = true
	s.see(p, false)
	s.see(whole("too-early", "n-0", 0), false)
	s.wants(DoubleBooking)
	s = newStory(t)
	p = whole("first", "n-0", 0)
	s.see(p, false)
	p.Phase = v1.PodSucceeded
	s.see(p, false)
	s.see(whole("next", "n-0", 0), false)
	s.wants()
}

// TestRecordRewritten: a record that is changed to other devices frees the old ones.
func TestRecordRewritten(t *testing.T) {
	s := newStory(t)
	p := whole("first", "n-0", 0)
	s.see(p, false)
	p.Record = whole("first", "n-0", 1).Record
	s.see(p, false)
	s.see(whole("second", "n-0", 0), false)
	s.wants()
	s.see(whole("third", "n-0", 1), false)
	s.wants(DoubleBooking)
}

func byHand(p Pod) Pod { p.Hand = true; return p }

func TestBoundByHand(t *testing.T) {
	s := newStory(t)
	s.see(whole("ours", "n-0", 0), false)
	s.see(byHand(whole("theirs", "n-0", 0)), false) // the fault's own doing
	s.wants()
	s.after(2 * time.Second)
	s.see(whole("more", "n-0", 1), false) // with two devices and three pods
	s.wants(Overbooked)

	s = newStory(t)
	s.see(byHand(whole("theirs", "n-0", 0)), false) // onto a free device
	s.see(whole("at-once", "n-0", 0), false)
	s.wants() // no scheduler could know
	s.after(2 * time.Second)
	s.see(whole("later", "n-0", 0), false)
	s.wants(DoubleBooking)

	s = newStory(t)
	bare := byHand(whole("bare", "n-0", 0))
	bare.Record = ""
	s.see(bare, false)
	s.after(2 * time.Second)
	s.see(whole("ours", "n-0", 0), false)
	s.wants()
	s.see(share("one-too-many", "n-0", 1, 1, 1), false)
	s.wants(Overbooked)
}

func in(queue string, p Pod) Pod { p.Queue = queue; return p }

func TestLimits(t *testing.T) {
	s := newStory(t)
	s.see(in("a", whole("a-0", "n-0", 0, 1)), false)
	s.see(in("b", whole("b-0", "n-1", 0)), false)
	s.wants()
	s.see(in("a", share("a-1", "n-1", 1, 8000, 10)), false) // a tenth of a GPU above
	found := s.wants(LimitExceeded, LimitExceeded)
	if found[0].Queue != "a" || found[1].Queue != "team" {
		t.Errorf("queues %s and %s", found[0].Queue, found[1].Queue)
	}

	// A slice counts by the models that have its profile, also where others exist.
	s = newStory(t)
	for i, node := range []string{"n-0", "n-0", "n-1"} {
		s.see(in("a", slice(fmt.Sprint("slice-", i), node, i%2, "7g.80gb", 0)), false)
	}
	s.wants(LimitExceeded)

	// What ended is not charged.
	s = newStory(t)
	p := in("a", whole("a-0", "n-0", 0, 1))
	s.see(p, false)
	s.see(p, true)
	s.see(in("a", whole("a-1", "n-0", 0, 1)), false)
	s.wants()
}

func TestGangs(t *testing.T) {
	m := func(i int) Pod { return member("g", fmt.Sprint("g-", i), 3, []string{"n-0", "n-0", "n-1"}[i], i%2) }
	begin := func(t *testing.T) *story {
		s := newStory(t)
		for i := range 3 {
			s.see(waiting(m(i)), false)
		}
		return s
	}
	t.Run("bound at once", func(t *testing.T) {
		s := begin(t)
		for i := range 3 {
			s.see(m(i), false)
		}
		s.after(time.Minute)
		s.wants()
	})
	t.Run("half for three seconds", func(t *testing.T) {
		s := begin(t)
		s.see(m(0), false)
		s.see(m(1), false)
		s.after(3 * time.Second)
		s.see(m(2), false)
		b := s.wants(HalfGang)[0]
		if !strings.Contains(b.Text, "2 of 3") || len(b.Pods) != 3 {
			t.Errorf("told as %q, pods %v", b.Text, b.Pods)
		}
	})
	t.Run("half for one second", func(t *testing.T) {
		s := begin(t)
		s.see(m(0), false)
		s.after(time.Second)
		s.see(m(1), false)
		s.see(m(2), false)
		s.after(time.Minute)
		s.wants()
		if sum := s.Summary(); sum.HalfGangs != 1 || sum.HalfGangLongest < time.Second {
			t.Errorf("%+v", sum)
		}
	})
	t.Run("half during an outage", func(t *testing.T) {
		s := begin(t)
		s.see(m(0), false)
		s.Able(s.now, false, "killed")
		s.after(time.Minute)
		s.Able(s.now, true, "leads again")
		s.after(6 * time.Second) // 5 to settle
		s.wants()
		s.after(2 * time.Second)
		s.wants(HalfGang)
	})
	t.Run("half after an outage that a binding ends", func(t *testing.T) {
		s := begin(t)
		s.see(m(0), false)
		s.Able(s.now, false, "killed")
		s.after(time.Minute)
		s.Able(s.now, true, "leads again")
		s.see(whole("other", "n-1", 1), false)
		s.after(2200 * time.Millisecond)
		s.wants(HalfGang)
	})
	t.Run("members succeed one after the other", func(t *testing.T) {
		s := begin(t)
		for i := range 3 {
			s.see(m(i), false)
		}
		for i := range 3 {
			p := m(i)
			p.Phase = v1.PodSucceeded
			s.see(p, false)
			s.after(10 * time.Second)
		}
		s.wants()
	})
	t.Run("left below its minimum by an eviction", func(t *testing.T) {
		s := begin(t)
		for i := range 3 {
			s.see(m(i), false)
		}
		s.after(10 * time.Second)
		s.see(m(1), true)
		s.after(3 * time.Second)
		b := s.wants(HalfGang)[0]
		if !strings.Contains(b.Text, "after it lost members") {
			t.Error(b.Text)
		}
	})
	t.Run("lost members to a node", func(t *testing.T) {
		s := begin(t)
		for i := range 3 {
			s.see(m(i), false)
		}
		s.NodeLost(s.now.Add(time.Millisecond), "n-0")
		s.after(time.Second)
		s.see(m(1), true)
		s.after(time.Minute)
		s.wants()
	})
	t.Run("deleted by the load", func(t *testing.T) {
		s := begin(t)
		for i := range 3 {
			s.see(m(i), false)
		}
		s.UnitEnds(s.now, "g", "delete g")
		s.see(m(1), true)
		s.after(time.Minute)
		s.wants()
	})
}
