package records

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
)

const gpu = "nvidia.com/gpu"

func testFacts(amounts bool) facts {
	return facts{"n", testInventory(), func(string) bool { return amounts }, func(*v1.Pod, string, string) []string { return nil }}
}

func listing(k *fakeKubelet) Listing {
	l, _ := k.List(context.Background())
	return l
}

// carryOut applies corrections in their order, and fails when a record that is written
// names a device that another pod's record still names.
func carryOut(t *testing.T, pods []*v1.Pod, corrections []Correction) {
	t.Helper()
	inv := testInventory()
	for _, c := range corrections {
		delete(c.Pod.Annotations, names.AnnotationDevices)
		if c.Record == "" {
			continue
		}
		c.Pod.Annotations[names.AnnotationDevices] = c.Record
		mine, err := readRecord(c.Pod, "n")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pods {
			if other, _ := readRecord(p, "n"); p != c.Pod && anyOf(usesOf(mine, inv), usesOf(other, inv), use.excludes) {
				t.Errorf("the record of %s contests that of %s", c.Pod.Name, p.Name)
			}
		}
	}
}

func devicesOf(t *testing.T, p *v1.Pod, container string) string {
	t.Helper()
	r, err := readRecord(p, "n")
	if err != nil || r == nil {
		return "none"
	}
	var out []string
	for _, c := range r.Containers {
		if c.Name == container {
			for _, d := range c.Devices {
				s := d.UUID
				if d.Turn {
					s += " turn"
				}
				if d.MIG != "" {
					s += " " + d.MIG
				}
				if d.MemoryMiB > 0 {
					s += " amount"
				}
				out = append(out, s)
			}
		}
	}
	return strings.Join(out, ", ")
}

func TestNothingToCorrect(t *testing.T) {
	k := &fakeKubelet{}
	a := pod("a", want{name: "c", resource: gpu, count: 2, devices: []record.Device{gpuOf(1), gpuOf(0)}})
	b := pod("b", want{name: "c", resource: gpu, count: 1, devices: []record.Device{{Index: 3}}}) // without UUID
	k.give("a", "c", gpu, "GPU-a", "GPU-b")
	k.give("b", "c", gpu, "GPU-c")
	got, problems := testFacts(false).plan([]*v1.Pod{a, b}, listing(k))
	if len(got) != 0 || len(problems) != 0 {
		t.Errorf("%+v, %+v", got, problems)
	}
}

// TestSwap: two pods got each other's devices. One record makes room for the other.
func TestSwap(t *testing.T) {
	k := &fakeKubelet{}
	a := pod("a", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}})
	b := pod("b", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(1)}})
	k.give("a", "c", gpu, "GPU-b")
	k.give("b", "c", gpu, "GPU-a")
	pods := []*v1.Pod{a, b}
	got, problems := testFacts(false).plan(pods, listing(k))
	carryOut(t, pods, got)
	if devicesOf(t, a, "c") != "GPU-b" || devicesOf(t, b, "c") != "GPU-a" || len(got) != 3 || len(problems) != 0 {
		t.Errorf("a %s, b %s, %d writes, %v", devicesOf(t, a, "c"), devicesOf(t, b, "c"), len(got), problems)
	}
}

// TestTwoSwaps needs two records to make room.
func TestTwoSwaps(t *testing.T) {
	k := &fakeKubelet{}
	var pods []*v1.Pod
	uuids := []string{"GPU-a", "GPU-b", "", "GPU-c", "GPU-d"}
	for i, other := range map[int]int{0: 1, 1: 0, 3: 4, 4: 3} {
		name := "p" + uuids[i]
		pods = append(pods, pod(name, want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(i)}}))
		k.give(name, "c", gpu, uuids[other])
	}
	got, _ := testFacts(false).plan(pods, listing(k))
	carryOut(t, pods, got)
	if len(got) != 6 {
		t.Errorf("%d writes", len(got))
	}
	if again, _ := testFacts(false).plan(pods, listing(k)); len(again) != 0 {
		t.Errorf("not true afterwards: %+v", again)
	}
}

// TestChain: a took b's, b took c's: the last is written first, nothing is taken away.
func TestChain(t *testing.T) {
	k := &fakeKubelet{}
	a := pod("a", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}})
	b := pod("b", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(1)}})
	k.give("a", "c", gpu, "GPU-b")
	k.give("b", "c", gpu, "GPU-c")
	pods := []*v1.Pod{a, b}
	got, _ := testFacts(false).plan(pods, listing(k))
	carryOut(t, pods, got)
	if len(got) != 2 || got[0].Pod != b {
		t.Errorf("%+v", got)
	}
}

// TestDisplaced: a pod that waits for its devices is planned on what the taker left.
func TestDisplaced(t *testing.T) {
	k := &fakeKubelet{}
	a := pod("a", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}})
	b := pod("b", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(1)}})
	stranger := pod("s", want{name: "c", resource: gpu, count: 1})
	c := pod("c", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(3)}})
	k.give("a", "c", gpu, "GPU-b")
	k.give("s", "c", gpu, "GPU-c")
	k.admit("b")
	pods := []*v1.Pod{a, b, stranger, c}
	got, problems := testFacts(false).plan(pods, listing(k))
	carryOut(t, pods, got)
	// b gets what a left; c, whose device a pod without record got, has nothing.
	if x, y, z, s := devicesOf(t, a, "c"), devicesOf(t, b, "c"), devicesOf(t, c, "c"), devicesOf(t, stranger, "c"); x != "GPU-b" || y != "GPU-a" || z != "none" || s != "GPU-c" {
		t.Errorf("a %s, b %s, c %s, s %s", x, y, z, s)
	}
	if len(problems) != 2 || problems[0].Reason != ReasonDisplaced {
		t.Errorf("%+v", problems)
	}
}

func TestImpossible(t *testing.T) {
	cases := []struct {
		name  string
		pod   *v1.Pod
		give  func(*fakeKubelet)
		words string
	}{
		{"unknown device", pod("p", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}}),
			func(k *fakeKubelet) { k.give("p", "c", gpu, "GPU-gone") }, "names no device"},
		{"wrong count", pod("p", want{name: "c", resource: gpu, count: 2, devices: []record.Device{gpuOf(0), gpuOf(1)}}),
			func(k *fakeKubelet) { k.give("p", "c", gpu, "GPU-c") }, "asks for 2"},
		{"not asked for", pod("p", want{name: "c"}),
			func(k *fakeKubelet) { k.give("p", "c", gpu, "GPU-c") }, "asks for 0"},
		{"two turns on one GPU", pod("p", want{name: "c", resource: "nvidia.com/gpu.shared", count: 2, devices: []record.Device{turnOf(0), turnOf(1)}}),
			func(k *fakeKubelet) { k.give("p", "c", "nvidia.com/gpu.shared", "GPU-a::1", "GPU-a::2") }, "listed twice"},
	}
	for _, c := range cases {
		k := &fakeKubelet{}
		c.give(k)
		got, problems := testFacts(false).plan([]*v1.Pod{c.pod}, listing(k))
		if len(got) != 0 || len(problems) != 1 || problems[0].Reason != ReasonImpossible || !strings.Contains(problems[0].Message, c.words) {
			t.Errorf("%s: %+v, %+v", c.name, got, problems)
		}
	}
}

// TestContested: two pods that really hold what excludes each other are reported.
func TestContested(t *testing.T) {
	k := &fakeKubelet{}
	a := pod("a", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}})
	b := pod("b", want{name: "c", resource: "nvidia.com/gpu.shared", count: 1, devices: []record.Device{turnOf(1)}})
	k.give("a", "c", gpu, "GPU-a")
	k.give("b", "c", "nvidia.com/gpu.shared", "GPU-a::0")
	_, problems := testFacts(false).plan([]*v1.Pod{a, b}, listing(k))
	if len(problems) != 1 || problems[0].Reason != ReasonContested || problems[0].Pod != b {
		t.Errorf("%+v", problems)
	}
}

func TestTruthOfOneContainer(t *testing.T) {
	half := gpuOf(0)
	half.MemoryMiB, half.ComputeMilli = 500, 300
	cases := []struct {
		name    string
		amounts bool
		pod     *v1.Pod
		ids     []string
		res     string
		want    string
	}{
		{"amounts move with the container", true, pod("p", want{name: "c", resource: gpu, count: 1, devices: []record.Device{half}, limits: map[string]string{"nvidia.com/gpumem": "500"}}), []string{"GPU-b::4"}, gpu, "GPU-b amount"},
		{"a whole card sold by amounts stays whole", true, pod("p", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}}), []string{"GPU-b::0"}, gpu, "GPU-b"},
		{"turns without renaming", false, pod("p", want{name: "c", resource: gpu, count: 1, devices: []record.Device{turnOf(0)}}), []string{"GPU-b::0"}, gpu, "GPU-b turn"},
		{"a whole request on a node that sells turns", false, pod("p", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}}), []string{"GPU-a::0"}, gpu, "GPU-a turn"},
		{"no record", false, pod("p", want{name: "c", resource: gpu, count: 1}), []string{"GPU-b"}, gpu, "GPU-b"},
		{"an instance that exists", false, pod("p", want{name: "c", resource: "nvidia.com/mig-3g.71gb", count: 1}), []string{"MIG-i"}, "nvidia.com/mig-3g.71gb", "GPU-m 3g.71gb"},
		{"slots tell nothing", false, pod("p", want{name: "c", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}}), []string{"GPU-b-3"}, gpu, "GPU-a"},
	}
	for _, c := range cases {
		k := &fakeKubelet{}
		k.give("p", "c", c.res, c.ids...)
		got, problems := testFacts(c.amounts).plan([]*v1.Pod{c.pod}, listing(k))
		carryOut(t, []*v1.Pod{c.pod}, got)
		if x := devicesOf(t, c.pod, "c"); x != c.want || len(problems) > 0 {
			t.Errorf("%s: %s, %+v", c.name, x, problems)
		}
	}
	// A pod of another scheduler with amounts cannot get a record.
	k := &fakeKubelet{}
	k.give("p", "c", gpu, "GPU-b::4")
	p := pod("p", want{name: "c", resource: gpu, count: 1, limits: map[string]string{"nvidia.com/gpumem": "500"}})
	if got, problems := testFacts(true).plan([]*v1.Pod{p}, listing(k)); len(got) != 0 || len(problems) != 1 || !strings.Contains(problems[0].Message, "gpumem") {
		t.Errorf("%+v, %+v", got, problems)
	}
}

// TestInvalidRecordIsReplaced: what does not decode, or is of another node, is replaced
// as soon as the truth is known, and left alone before.
func TestInvalidRecordIsReplaced(t *testing.T) {
	for _, text := range []string{"{", `{"version":1,"node":"other","containers":[{"name":"c","resource":"nvidia.com/gpu","devices":[{"index":0}]}]}`, strings.Repeat("x", 1<<17)} {
		p := pod("p", want{name: "c", resource: gpu, count: 1})
		p.Annotations[names.AnnotationDevices] = text
		k := &fakeKubelet{}
		k.admit("p")
		if got, _ := testFacts(false).plan([]*v1.Pod{p}, listing(k)); len(got) != 0 {
			t.Errorf("written without knowing: %+v", got)
		}
		k.give("p", "c", gpu, "GPU-b")
		got, _ := testFacts(false).plan([]*v1.Pod{p}, listing(k))
		carryOut(t, []*v1.Pod{p}, got)
		if x := devicesOf(t, p, "c"); x != "GPU-b" {
			t.Errorf("%s", x)
		}
	}
}

// TestInitContainer: kubelet does not list it; its pod's later containers tell.
func TestInitContainer(t *testing.T) {
	k := &fakeKubelet{}
	p := pod("p", want{name: "warm", resource: gpu, count: 1, init: true, devices: []record.Device{gpuOf(0)}},
		want{name: "c", resource: gpu, count: 2, devices: []record.Device{gpuOf(0), gpuOf(1)}})
	k.give("p", "c", gpu, "GPU-c", "GPU-b")
	got, _ := testFacts(false).plan([]*v1.Pod{p}, listing(k))
	carryOut(t, []*v1.Pod{p}, got)
	if x := devicesOf(t, p, "warm"); x != "GPU-b" && x != "GPU-c" {
		t.Errorf("%s", x)
	}
	// The agent itself saw it.
	f := testFacts(false)
	f.inits = func(*v1.Pod, string, string) []string { return []string{"GPU-c"} }
	got, _ = f.plan([]*v1.Pod{p}, listing(k))
	carryOut(t, []*v1.Pod{p}, got)
	if x := devicesOf(t, p, "warm"); x != "GPU-c" {
		t.Errorf("%s", x)
	}
}

// TestBetweenContainers: while kubelet serves a pod's containers, its record is left.
func TestBetweenContainers(t *testing.T) {
	k := &fakeKubelet{}
	p := pod("p", want{name: "a", resource: gpu, count: 1, devices: []record.Device{gpuOf(0)}}, want{name: "b", resource: gpu, count: 1, devices: []record.Device{gpuOf(1)}})
	k.give("p", "a", gpu, "GPU-c")
	if got, problems := testFacts(false).plan([]*v1.Pod{p}, listing(k)); len(got)+len(problems) != 0 {
		t.Errorf("%+v, %+v", got, problems)
	}
}
