package replay_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/replay"
	"github.com/tangram-dev/tangram/test/coretest"
)

// TestKinds: every kind of event can be recorded. A new one needs a row in kinds.go.
func TestKinds(t *testing.T) {
	names, err := filepath.Glob("../engine/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name != "apply" || f.Recv == nil {
				continue
			}
			found++
			name := f.Recv.List[0].Type.(*ast.Ident).Name
			if !slices.Contains(replay.EventTypes(), name) {
				t.Errorf("event engine.%s has no row in core/replay/kinds.go", name)
			}
		}
	}
	if found < 20 {
		t.Fatalf("%d kinds of events found in core/engine", found)
	}
}

// TestFields: whatever an event holds is written: no field of it is private, or its type says
// how to write it.
func TestFields(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		if seen[typ] || typ.Implements(reflect.TypeFor[json.Marshaler]()) || typ.Implements(reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()) {
			return
		}
		seen[typ] = true
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(path, typ.Elem())
		case reflect.Map:
			walk(path, typ.Key())
			walk(path, typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				if !f.IsExported() {
					t.Errorf("%s.%s is private: it would be lost in a recording", path, f.Name)
					continue
				}
				walk(path+"."+f.Name, f.Type)
			}
		}
	}
	for _, e := range replay.ZeroEvents() {
		walk(fmt.Sprintf("%T", e), reflect.TypeOf(e))
	}
}

// picky refuses some nodes to some shapes, and changes its mind.
type picky struct{ mood int }

func (p *picky) May(s model.Shape, n model.NodeID) *explain.Refusal {
	if (len(s)+int(n[len(n)-1])+p.mood)%5 == 0 {
		return &explain.Refusal{Code: explain.Tainted, Detail: fmt.Sprint("mood=", p.mood)}
	}
	return nil
}
func (*picky) Apart(model.Shape, model.Shape) string { return "" }
func (p *picky) Budgets(h model.HolderID) []engine.Budget {
	if len(h)%3 == p.mood%3 {
		return []engine.Budget{{Name: "pdb", Allowed: p.mood}}
	}
	return nil
}

// record runs an engine through random events and returns its recording.
func record(t *rapid.T, max int) []byte {
	tree, err := arbiter.NewTree(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New()
	o := engine.DefaultOptions()
	facts := &picky{}
	o.Facts, o.BatchTimeout = facts, time.Minute
	e := engine.New(l, planner.New(l), tree, o)
	r, err := replay.Record(e, "test", max, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := int64(time.Second)
	e.Apply(now, engine.QueuesSet{Queues: []arbiter.Queue{{Name: "default", Reclaimable: true}, {Name: "q", Weight: 2, Reclaimable: true, Deserved: map[arbiter.Resource]int64{engine.GPU(model.NVIDIA): 4000}}}})
	nodes := rapid.IntRange(1, 4).Draw(t, "nodes")
	node := func(i int) engine.NodeSet {
		return engine.NodeSet{Node: coretest.Node(fmt.Sprint("n", i)).GPUs(4, "A100").Build()}
	}
	for i := range nodes {
		e.Apply(now, node(i))
	}
	e.Apply(now, engine.FleetCounted{})
	gangs := map[engine.ID]engine.Gang{}
	for i := range rapid.IntRange(5, 60).Draw(t, "steps") {
		now += int64(rapid.IntRange(1, 20).Draw(t, "seconds")) * int64(time.Second)
		ids := slices.Sorted(maps.Keys(gangs))
		switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
		case op <= 1 || len(ids) == 0:
			g := engine.Gang{ID: engine.ID(fmt.Sprint("g", i)), Name: fmt.Sprint("ns/g", i), Namespace: "ns", Submitted: now, Preemptible: true,
				Queue: rapid.SampledFrom([]string{"", "q"}).Draw(t, "queue"), Priority: int32(rapid.IntRange(0, 2).Draw(t, "priority")),
				Min: rapid.IntRange(1, 3).Draw(t, "members"), Runtime: time.Duration(rapid.IntRange(0, 100).Draw(t, "runtime")) * time.Second}
			role := engine.Role{Request: coretest.Request(rapid.IntRange(1, 4).Draw(t, "gpus")), Min: g.Min}
			for m := range g.Min + rapid.IntRange(0, 1).Draw(t, "more") {
				role.Members = append(role.Members, model.HolderID(fmt.Sprintf("%s/%d", g.ID, m)))
			}
			g.Roles = []engine.Role{role}
			gangs[g.ID] = g
			e.Apply(now, engine.Arrived{Request: role.Request}, engine.Submitted{Gang: g})
		case op == 2:
			id := rapid.SampledFrom(ids).Draw(t, "gone")
			e.Apply(now, engine.Ended{Holders: gangs[id].Roles[0].Members}, engine.Withdrawn{Gang: id})
			delete(gangs, id)
		case op == 3:
			facts.mood = rapid.IntRange(0, 4).Draw(t, "mood")
			e.Apply(now, engine.RulesChanged{})
		case op == 4:
			i := rapid.IntRange(0, nodes-1).Draw(t, "node")
			back := node(i)
			back.Telemetry = make([]model.Telemetry, 4)
			back.Telemetry[0].Utilization = model.Measured(rapid.IntRange(0, 100).Draw(t, "utilization"))
			e.Apply(now, rapid.SampledFrom([]engine.Event{engine.NodeGone{Node: back.Node.ID}, back, engine.NodeRulesChanged{Node: back.Node.ID}}).Draw(t, "what"))
			e.Apply(now, engine.FleetCounted{})
		case op == 5:
			h := gangs[rapid.SampledFrom(ids).Draw(t, "about")].Roles[0].Members[0]
			e.Apply(now, rapid.SampledFrom([]engine.Event{
				engine.Suspended{}, engine.Resumed{}, engine.Leaving{Holder: h, Until: now + int64(30*time.Second)}, engine.EvictionRefused{Holder: h},
				engine.AllNodesRefused{Holder: h, Why: explain.Refusal{Code: explain.Filtered, Detail: "volume"}, Except: []model.NodeID{"n0"}, Limited: true},
				engine.QuotasSet{Quotas: []arbiter.Quota{{Namespace: "ns", Hard: map[arbiter.Resource]int64{engine.GPU(model.NVIDIA): 9000}}}},
			}).Draw(t, "what"))
		default:
			plan := e.Step(now)
			for _, x := range plan.Evicts {
				e.Apply(now, engine.Ended{Holders: x.Members})
			}
			for _, x := range plan.Effects.Released {
				e.Apply(now, engine.CycleBegan{Holder: x.Holder, Ticket: x.Ticket})
				if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
					e.Apply(now, engine.NodeRefused{Holder: x.Holder, Node: x.Node.ID, Why: explain.Refusal{Code: explain.Filtered, Detail: "no"}},
						engine.StartFailed{Holder: x.Holder, Ticket: x.Ticket, AtFault: true})
					continue
				}
				e.Apply(now, engine.MemberReserved{Holder: x.Holder, Ticket: x.Ticket})
				if e.Releases.Holds(x.Holder, x.Ticket) {
					_, c, _ := l.Claim(x.Holder)
					c.Assumed, c.Since = false, now/int64(time.Second)
					e.Apply(now, engine.Bound{Node: x.Node.ID, Holders: []model.HolderID{x.Holder}, Claims: []ledger.Claim{c}})
				}
			}
			if err := e.Verify(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r.Bytes()
}

// TestReplay: a recording, played again, decides the same, and its engine ends in the same
// state.
func TestReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := record(t, 64<<20)
		entries := 0
		if _, err := replay.Play(bytes.NewReader(text), func(p *replay.Played) bool {
			entries++
			if p.Differs() {
				t.Fatalf("line %d: recorded:\n%snow:\n%s", p.Line, p.Did, p.Now)
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(text, []byte("\n")); entries != lines-1 {
			t.Fatalf("%d entries of %d lines", entries, lines)
		}
	})
}

// TestDiffers: a decision that was another one is found.
func TestDiffers(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		lines := strings.SplitAfter(string(record(t, 64<<20)), "\n")
		for i, line := range lines {
			if at := strings.Index(line, `"did":"start g`); at >= 0 {
				lines[i] = strings.Replace(line, `"did":"start g`, `"did":"start x`, 1)
				differs := 0
				if _, err := replay.Play(strings.NewReader(strings.Join(lines, "")), func(p *replay.Played) bool {
					if p.Differs() {
						differs = p.Line
					}
					return true
				}); err != nil || differs != i+1 {
					t.Fatalf("line %d was changed, line %d differs, %v", i+1, differs, err)
				}
				found++
				return
			}
		}
	})
	if found == 0 {
		t.Error("nothing ever started")
	}
}

// TestRing: what is in memory stays below the limit, begins with a checkpoint when it does not
// begin with the engine, and can be played.
func TestRing(t *testing.T) {
	turned := 0
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(30_000, 60_000).Draw(t, "limit")
		text := record(t, limit)
		if len(text) > limit+200 {
			t.Fatalf("%d bytes", len(text))
		}
		if strings.Contains(strings.SplitN(string(text), "\n", 3)[1], `"checkpoint":true`) {
			turned++
		}
		if _, err := replay.Play(bytes.NewReader(text), func(p *replay.Played) bool {
			if p.Differs() {
				t.Fatalf("line %d differs: recorded:\n%snow:\n%s", p.Line, p.Did, p.Now)
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d recordings had lost their beginning", turned)
	if turned == 0 {
		t.Error("no recording lost its beginning")
	}
}

// TestCutOff: a process that is killed leaves the beginning of a line, which is its end.
func TestCutOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := record(t, 64<<20)
		cut := rapid.IntRange(bytes.IndexByte(text, '\n')+1, len(text)).Draw(t, "cut")
		last := lastPlayed{}
		if _, err := replay.Play(bytes.NewReader(text[:cut]), func(p *replay.Played) bool {
			last = lastPlayed{p.Line, p.Ended}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		whole := text[cut-1] == '\n' || cut < len(text) && text[cut] == '\n'
		if lines := bytes.Count(text[:cut], []byte("\n")); !whole && (last.line != lines+1 || last.ended == "") {
			t.Fatalf("cut in line %d: %+v", lines+1, last)
		}
	})
}

// lastPlayed is the last entry of a recording: its line, and why nothing follows.
type lastPlayed struct {
	line  int
	ended string
}

// TestHostile: text that is no recording is refused with its line.
func TestHostile(t *testing.T) {
	header := `{"tangramRecording":1,"options":{}}` + "\n"
	for text, want := range map[string]string{
		"":                                     "line 1",
		"{}":                                   "line 1: tangramRecording: 0, but this program plays 1",
		"nonsense":                             "line 1",
		header + "nonsense":                    "line 2",
		header + `{"events":[{"explode":{}}]}`: `line 2: unknown kind of event "explode"`,
		header + `{"events":[{}]}`:             "line 2: an event without a kind",
		header + `{"at":1,"events":[{"node":{"Node":3}}]}`:                       "line 2",
		header + `{"at":1,"events":[{"node":{}},{"arrived":{}},{"assumed":{}}]}`: "",
		header + `{"at":1,"events":[{"submitted":{"Gang":{}}}]}`:                 "",
	} {
		_, err := replay.Play(strings.NewReader(text), func(*replay.Played) bool { return true })
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzPlay(f *testing.F) {
	f.Add([]byte(`{"tangramRecording":1,"options":{}}` + "\n" + `{"at":1,"events":[{"ended":{"Holders":["a"]}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = replay.Play(bytes.NewReader(text), func(*replay.Played) bool { return true })
	})
}
