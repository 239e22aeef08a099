package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/test/coretest"
)

// claim is a claim of NVIDIA devices by index.
func claim(holder string, since int64, count int, indexes ...int) ledger.Claim {
	c := ledger.Claim{Holder: model.HolderID(holder), Vendor: model.NVIDIA, Count: count, Since: since}
	for _, i := range indexes {
		c.Devices = append(c.Devices, ledger.DeviceRef{Index: i})
	}
	return c
}

func held(l *ledger.Ledger, h string) model.Mask {
	_, m := l.Held(model.HolderID(h))
	return m
}

func TestRecordedDevicesAreHeld(t *testing.T) {
	l := coretest.Ledger(t, coretest.Node("n").GPUs(4, "A100").Build())
	l.Put("n", claim("a", 1, 2, 1, 3))
	if got := held(l, "a"); got != 0b1010 {
		t.Errorf("held %b", got)
	}
	v, _ := l.View("n")
	if got := v.Free(model.NVIDIA); got != 0b0101 {
		t.Errorf("free %b", got)
	}
}

// TestUnrecordedHoldersAreCounted: a pod that another scheduler placed holds devices
// without a record. The lowest free ones are presumed, and they move when a record
// gives them to another pod.
func TestUnrecordedHoldersAreCounted(t *testing.T) {
	l := coretest.Ledger(t, coretest.Node("n").GPUs(4, "A100").Build())
	l.Put("n", claim("stranger", 1, 2))
	if got := held(l, "stranger"); got != 0b0011 {
		t.Errorf("presumed %b", got)
	}
	l.Put("n", claim("known", 2, 1, 0))
	if got := held(l, "stranger"); got != 0b0110 {
		t.Errorf("presumed %b after 0 was proven to be another's", got)
	}
}

// TestContestedRecordsAreKnown: claims with an overruled record are listed. An assumed claim has no record yet, and a device that no longer exists is
// not contested.
func TestContestedRecordsAreKnown(t *testing.T) {
	share := func(holder string, since int64, memory model.MiB) ledger.Claim {
		return ledger.Claim{Holder: model.HolderID(holder), Vendor: model.NVIDIA, Since: since, Parts: []ledger.HeldPart{
			{Known: true, Device: ledger.DeviceRef{Index: 1}, Part: model.Part{Kind: model.Share, Memory: memory}},
		}}
	}
	promised := claim("promised", 0, 1, 2)
	promised.Assumed = true
	tests := []struct {
		name   string
		claims []ledger.Claim
		want   []ledger.Contested
	}{
		{"whole", []ledger.Claim{claim("first", 2, 1, 2), claim("second", 1, 1, 2)}, []ledger.Contested{{Holder: "second", Index: 2}}},
		{"whole of a shared one", []ledger.Claim{share("first", 2, 1), claim("second", 1, 2, 0, 1)}, []ledger.Contested{{Holder: "second", Index: 1}}},
		{"shares that fit", []ledger.Claim{share("a", 1, 1024), share("b", 2, 1024)}, nil},
		{"shares that do not", []ledger.Claim{share("a", 1, 60<<10), share("b", 2, 60<<10)}, []ledger.Contested{{Holder: "b", Index: 1}}},
		{"promise", []ledger.Claim{promised, claim("older", 1, 1, 2)}, nil},
		{"gone device", []ledger.Claim{claim("a", 1, 1, 9)}, nil},
		{"named twice by itself", []ledger.Claim{claim("a", 1, 2, 1, 1)}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := coretest.Ledger(t, coretest.Node("n").GPUs(4, "A100").Build())
			for _, c := range tt.claims {
				l.Put("n", c)
			}
			if got := l.Contested("n"); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestFixedDevices are sold in slices only, at the places that exist; also what
// others placed without a record is counted so.
func TestFixedDevices(t *testing.T) {
	n := coretest.Node("n").GPUs(2, "A100-40GB").Cuttable().Build()
	n.Devices[0].Fixed = true
	n.Devices[0].MIG = []model.MIGProfile{{ID: 19, Name: "1g.5gb", Size: 1, Starts: []int{2, 5}}}
	l := coretest.Ledger(t, n)
	part := func(p model.Part, at ...int) ledger.HeldPart {
		if len(at) == 0 {
			return ledger.HeldPart{Part: p}
		}
		return ledger.HeldPart{Part: p, Known: true, Start: at[0]}
	}
	slice, share := model.Part{Kind: model.Slice, Profile: "1g.5gb"}, model.Part{Kind: model.Share, Memory: 1}
	put := func(holder string, parts ...ledger.HeldPart) {
		l.Put("n", ledger.Claim{Holder: model.HolderID(holder), Vendor: model.NVIDIA, Since: 5, Parts: parts})
	}
	put("share", part(share))
	if got := held(l, "share"); got != 0b10 {
		t.Errorf("a share is on %b", got)
	}
	l.Drop("share")
	l.Put("n", claim("whole", 1, 1))
	l.Put("n", claim("recorded", 2, 1, 0))
	if held(l, "whole") != 0b10 || held(l, "recorded") != 0 || l.Debt("n") != 1 {
		t.Errorf("whole holds %b, recorded %b, debt %d", held(l, "whole"), held(l, "recorded"), l.Debt("n"))
	}
	put("a", part(slice, 5))
	put("b", part(slice, 3)) // no such instance: counted at the one that is left
	put("c", part(slice))
	v, _ := l.View("n")
	if u := v.Usage(0); u.Cut.Used != 1<<2|1<<5 || u.Tenants != 2 || held(l, "c") != 0 {
		t.Errorf("cut %b of %d tenants, c holds %b", u.Cut.Used, u.Tenants, held(l, "c"))
	}
	if v.Free(model.NVIDIA) != 0 {
		t.Errorf("free %b", v.Free(model.NVIDIA))
	}
}

// TestPercentOfUnknownMemory: a percentage of an unknown amount of memory fits nowhere,
// instead of everywhere.
func TestPercentOfUnknownMemory(t *testing.T) {
	l := coretest.Ledger(t, coretest.Node("n").Devices(1, model.Device{Vendor: model.NVIDIA}).Build())
	l.Put("n", ledger.Claim{Holder: "a", Vendor: model.NVIDIA, Parts: []ledger.HeldPart{{Part: model.Part{Kind: model.Share, MemoryMilli: 500}}}})
	if held(l, "a") != 0 || l.Debt("n") != 1 {
		t.Errorf("held %b, debt %d", held(l, "a"), l.Debt("n"))
	}
}

func TestShrinkingNodeLeavesDebtThatFreedDevicesPay(t *testing.T) {
	l := coretest.Ledger(t, coretest.Node("n").GPUs(4, "A100").Build())
	for i := range 4 {
		l.Put("n", claim(fmt.Sprint(i), int64(i), 1, i))
	}
	if err := l.SetNode(coretest.Node("n").GPUs(3, "A100").Build()); err != nil {
		t.Fatal(err)
	}
	if got := l.Debt("n"); got != 1 {
		t.Fatalf("debt %d", got)
	}
	l.Drop("0")
	v, _ := l.View("n")
	if l.Debt("n") != 0 || held(l, "3") != 0b001 || v.Room(model.NVIDIA) != 0 {
		t.Errorf("the freed device must go to the holder that lost its own: debt %d, 3 holds %b, room %d", l.Debt("n"), held(l, "3"), v.Room(model.NVIDIA))
	}
}

func TestVanishedNodeKeepsItsHolders(t *testing.T) {
	n := coretest.Node("n").GPUs(2, "A100").Build()
	l := coretest.Ledger(t, n)
	l.Put("n", claim("a", 1, 1, 1))
	l.RemoveNode("n")
	if _, ok := l.View("n"); ok {
		t.Fatal("a removed node has no view")
	}
	if err := l.SetNode(n); err != nil {
		t.Fatal(err)
	}
	if got := held(l, "a"); got != 0b10 {
		t.Errorf("held %b after the node returned", got)
	}
	l.RemoveNode("n")
	l.Drop("a")
	if got := l.String(); got != "" {
		t.Errorf("nothing should be left, got %s", got)
	}
}

func TestAssumeConfirmForget(t *testing.T) {
	l := coretest.Ledger(t, coretest.Node("n").GPUs(2, "A100").Build())
	assumed := claim("a", 0, 1, 1)
	assumed.Assumed = true
	l.Put("n", assumed)
	l.Put("n", claim("a", 5, 1, 1)) // seen in the API
	l.Forget("a")
	if held(l, "a") != 0b10 {
		t.Error("a confirmed claim must survive Forget")
	}
	assumed.Holder = "b"
	l.Put("n", assumed)
	if held(l, "a") != 0b10 || held(l, "b") != 0b01 {
		t.Error("an assumed claim must give way to a confirmed one")
	}
	l.Forget("b")
	l.Forget("b")
	if held(l, "b") != 0 {
		t.Error("a forgotten claim must be gone")
	}
}

func TestAgentMayAllowFewerThanListed(t *testing.T) {
	l := coretest.Ledger(t, coretest.Node("n").GPUs(4, "A100").Sellable(model.NVIDIA, 3).Build())
	l.Put("n", claim("a", 1, 2, 0, 1))
	if v, _ := l.View("n"); v.Room(model.NVIDIA) != 1 || v.Free(model.NVIDIA).Count() != 2 {
		t.Errorf("room %d of %d free", v.Room(model.NVIDIA), v.Free(model.NVIDIA).Count())
	}
}

// TestSwappedDevice: a replaced card is another device, though alike.
func TestSwappedDevice(t *testing.T) {
	l := coretest.Ledger(t, coretest.Node("n").GPUs(1, "A100").Build())
	swapped := coretest.Node("n").GPUs(1, "A100").Build()
	swapped.Devices[0].UUID = "new"
	if err := l.SetNode(swapped); err != nil {
		t.Fatal(err)
	}
	if len(l.Owners("new")) != 1 || len(l.Owners("n-0")) != 0 {
		t.Error("the old card's UUID is still known")
	}
	before := l.Version()
	if err := l.SetNode(swapped); err != nil || l.Version() != before {
		t.Error("saying the same again must change nothing")
	}
}

func TestInvalidNodeChangesNothing(t *testing.T) {
	l := coretest.Ledger(t, coretest.Node("n").GPUs(2, "A100").Build())
	before := l.String()
	bad := coretest.Node("n").GPUs(2, "A100").Build()
	bad.Devices[1].UUID = bad.Devices[0].UUID
	if err := l.SetNode(bad); err == nil || !strings.Contains(err.Error(), `node "n": devices[1].uuid`) {
		t.Errorf("got error %v", err)
	}
	if l.String() != before {
		t.Error("an invalid inventory must change nothing")
	}
}

// machine drives a ledger with random operations.
type machine struct {
	l *ledger.Ledger
	// What must be there, kept naively.
	nodes  map[model.NodeID]*model.Node
	claims map[model.HolderID]ledger.Claim
	at     map[model.HolderID]model.NodeID
}

func newMachine() *machine {
	return &machine{ledger.New(), map[model.NodeID]*model.Node{}, map[model.HolderID]ledger.Claim{}, map[model.HolderID]model.NodeID{}}
}

func (m *machine) step(t *rapid.T) {
	id := model.NodeID(fmt.Sprintf("n%d", rapid.IntRange(0, 4).Draw(t, "node")))
	h := model.HolderID(fmt.Sprintf("p%d", rapid.IntRange(0, 9).Draw(t, "holder")))
	switch rapid.SampledFrom([]string{"set", "remove", "put", "put", "put", "drop", "forget", "measure"}).Draw(t, "operation") {
	case "set":
		n := coretest.DrawNode(t, string(id))
		n.Extras = coretest.DrawExtras(t, 6)
		if err := m.l.SetNode(n); err != nil {
			t.Fatal(err)
		}
		m.nodes[id] = n
	case "measure":
		if n := m.nodes[id]; n != nil {
			before := m.l.Version()
			m.l.SetTelemetry(id, coretest.DrawTelemetry(t, n))
			if m.l.Version() != before {
				t.Fatal("a measurement is no change")
			}
		}
	case "remove":
		m.l.RemoveNode(id)
		delete(m.nodes, id)
	case "put":
		c := ledger.Claim{
			Holder:   h,
			Vendor:   rapid.SampledFrom(model.Vendors[:2]).Draw(t, "vendor"),
			Count:    rapid.IntRange(1, 4).Draw(t, "count"),
			Since:    int64(rapid.IntRange(0, 3).Draw(t, "since")),
			Priority: int32(rapid.IntRange(-1, 1).Draw(t, "priority")),
			Assumed:  rapid.Bool().Draw(t, "assumed"),
			Extras:   coretest.DrawExtras(t, 3),
		}
		if rapid.Bool().Draw(t, "recorded") {
			for range c.Count {
				ref := ledger.DeviceRef{Index: rapid.IntRange(0, 9).Draw(t, "index")}
				if rapid.Bool().Draw(t, "by uuid") {
					ref.UUID = fmt.Sprintf("%s-%d", id, ref.Index)
				}
				c.Devices = append(c.Devices, ref)
			}
		}
		if rapid.IntRange(0, 2).Draw(t, "parts") == 0 {
			c.Count, c.Devices = 0, nil
			for range rapid.IntRange(1, 3).Draw(t, "how many") {
				p := ledger.HeldPart{Part: coretest.DrawPart(t), Known: rapid.Bool().Draw(t, "known")}
				if p.Known {
					p.Device.Index = rapid.IntRange(0, 5).Draw(t, "part index")
					p.Start = rapid.IntRange(0, 7).Draw(t, "start")
				}
				c.Parts = append(c.Parts, p)
			}
		}
		affine := coretest.Request(1)
		coretest.DrawAffinity(t, affine)
		c.Labels, c.Apart = affine.Labels, place.AntiAffinity(affine.Affinity)
		m.l.Put(id, c)
		m.claims[h], m.at[h] = c, id
	case "drop":
		m.l.Drop(h)
		delete(m.claims, h)
		delete(m.at, h)
	case "forget":
		m.l.Forget(h)
		if m.claims[h].Assumed {
			delete(m.claims, h)
			delete(m.at, h)
		}
	}
}

// check compares the ledger with what must be there.
func (m *machine) check(t *rapid.T) {
	if err := m.l.Audit(); err != nil {
		t.Fatalf("%v\n%s", err, m.l)
	}
	if nodes, holders := m.l.Size(); nodes != len(m.nodes) || holders != len(m.claims) {
		t.Fatalf("ledger has %d nodes and %d holders, want %d and %d", nodes, holders, len(m.nodes), len(m.claims))
	}
	for h, c := range m.claims {
		at, got, ok := m.l.Claim(h)
		if !ok || at != m.at[h] || got.Count != c.Count || got.Assumed != c.Assumed {
			t.Fatalf("holder %s: got %v on %q (%v), want %v on %q", h, got, at, ok, c, m.at[h])
		}
	}
}

// TestInvariants: after any sequence of operations nothing is held twice, every
// index agrees with the claims, and a holding exists exactly while its claim does.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			m.step(t)
			m.check(t)
		}
	})
}

// TestRollbackIsExact: rolling back restores byte-equal state, index included,
// however trials nest.
func TestRollbackIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		for range rapid.IntRange(0, 20).Draw(t, "before") {
			m.step(t)
		}
		before, buckets := m.l.String(), spell(m.l)
		outer := m.l.Begin()
		for range rapid.IntRange(0, 10).Draw(t, "outer steps") {
			m.step(t)
		}
		middle := m.l.String()
		inner := m.l.Begin()
		for range rapid.IntRange(0, 10).Draw(t, "inner steps") {
			m.step(t)
		}
		if rapid.Bool().Draw(t, "keep inner") {
			inner.Keep()
		} else {
			inner.Rollback()
			if got := m.l.String(); got != middle {
				t.Fatalf("inner rollback:\n%s\nwant\n%s", got, middle)
			}
		}
		outer.Rollback()
		if got := m.l.String(); got != before {
			t.Fatalf("rollback:\n%s\nwant\n%s", got, before)
		}
		if got := spell(m.l); got != buckets {
			t.Fatalf("rollback left other buckets:\n%s\nwant\n%s", got, buckets)
		}
		if err := m.l.Audit(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestOrderDoesNotMatter: a ledger rebuilt from the final nodes and claims with their
// standings, in any order, equals the one that lived through the events.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			m.step(t)
		}
		rebuilt := ledger.New()
		var events []func()
		for _, n := range m.nodes {
			events = append(events, func() { _ = rebuilt.SetNode(n) })
		}
		for h, c := range m.claims {
			_, lived, _ := m.l.Claim(h)
			c.Standing = lived.Standing // which is all that a ledger's past decides
			events = append(events, func() { rebuilt.Put(m.at[h], c) })
		}
		seed := rapid.Uint64().Draw(t, "seed")
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		for _, e := range events {
			e()
		}
		if got, want := rebuilt.String(), m.l.String(); got != want {
			t.Fatalf("rebuilt:\n%s\nlived:\n%s", got, want)
		}
		if got, want := spell(rebuilt), spell(m.l); got != want {
			t.Fatalf("rebuilt buckets:\n%s\nlived:\n%s", got, want)
		}
	})
}

// TestViewWith: the hypothetical view equals the view after really doing it.
func TestViewWith(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		for range rapid.IntRange(5, 30).Draw(t, "steps") {
			m.step(t)
		}
		for id := range m.nodes {
			gone := model.HolderID(fmt.Sprintf("p%d", rapid.IntRange(0, 9).Draw(t, "gone")))
			extra := claim("extra", 0, rapid.IntRange(1, 3).Draw(t, "extra"))
			got, _ := m.l.ViewWith(id, func(h model.HolderID) bool { return h == gone }, []ledger.Claim{extra})
			tx := m.l.Begin()
			if m.at[gone] == id {
				m.l.Drop(gone)
			}
			m.l.Put(id, extra)
			want, _ := m.l.View(id)
			tx.Rollback()
			if !got.Equal(want) {
				t.Fatalf("node %s without %s: got %+v, want %+v", id, gone, got, want)
			}
		}
	})
}

// spell lists the buckets in canonical order.
func spell(l *ledger.Ledger) string {
	var lines []string
	for b := range l.Buckets() {
		v, _ := b.View(nil)
		lines = append(lines, fmt.Sprint(slices.Collect(b.Nodes()), v.Held, v.Room(model.NVIDIA), v.Room(model.AMD)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// BenchmarkAssumeForget is what one pod costs the ledger.
func BenchmarkAssumeForget(b *testing.B) {
	for _, nodes := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			l := ledger.New()
			for i := range nodes {
				_ = l.SetNode(coretest.Node(fmt.Sprintf("n%05d", i)).GPUs(8, "A100").Build())
			}
			c := claim("a", 0, 1, 0)
			c.Assumed = true
			for b.Loop() {
				l.Put("n00050", c)
				l.Forget("a")
			}
		})
	}
}

// TestDomainsFollowClaims: what is free in a domain is what its nodes have free, also
// inside trials and after them; a node that moves takes it along.
func TestDomainsFollowClaims(t *testing.T) {
	l := ledger.New()
	a := coretest.Node("a").GPUs(8, "A100").Domains("z", "r1").Build()
	for _, n := range []*model.Node{a, coretest.Node("b").GPUs(4, "A100").Domains("z", "r2").Build(), coretest.Node("c").GPUs(4, "A100").Build()} {
		if err := l.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	nvidia := model.NVIDIA.Index()
	free := func(path string) int64 {
		return l.Domains().Free(topology.Domain{Depth: strings.Count(path, "/"), Path: path}, nvidia)
	}
	expect := func(zone, rack int64) {
		t.Helper()
		if err := l.Audit(); err != nil {
			t.Fatal(err)
		}
		if z, r := free("z"), free("z/r1"); z != zone || r != rack {
			t.Errorf("zone %d, rack %d, want %d, %d", z, r, zone, rack)
		}
	}
	expect(12, 8)
	tx := l.Begin()
	l.Put("a", coretest.WholeClaim("p", a, coretest.Request(3), 0b111))
	expect(9, 5)
	l.RemoveNode("b")
	expect(5, 5)
	tx.Rollback()
	expect(12, 8)
	moved := *a
	moved.Domains = []string{"z", "r9"}
	if err := l.SetNode(&moved); err != nil {
		t.Fatal(err)
	}
	expect(12, 0)
}
