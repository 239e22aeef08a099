package stories

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/planner"
)

// TestStories runs the files of testdata.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := newWorld(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t, w.d, w.read = t, d, map[string]bool{}
			verb := verbs()[d.Cmd]
			if verb == nil {
				d.Fatalf(t, "unknown verb %q", d.Cmd)
			}
			out := verb(w)
			for _, a := range d.CmdArgs {
				if len(a.Vals) > 0 && !w.read[a.Key] {
					d.Fatalf(t, "%s does not know %s=", d.Cmd, a.Key)
				}
			}
			if err := w.e.Verify(); err != nil {
				d.Fatalf(t, "%v", err)
			}
			if err := w.l.Audit(); err != nil {
				d.Fatalf(t, "%v", err)
			}
			return out
		})
	})
}

// world is an engine and what a story has told it.
type world struct {
	t *testing.T
	d *datadriven.TestData
	// read are the arguments that the verb has looked at: others are mistakes.
	read map[string]bool

	e *engine.Engine
	l *ledger.Ledger
	o engine.Options

	now    int64
	queues []arbiter.Queue
	quotas map[string]map[arbiter.Resource]int64
	nodes  map[model.NodeID]*model.Node
	gangs  map[engine.ID]*engine.Gang
	// released are the releases of members that are not bound yet.
	released map[model.HolderID]engine.Release
	// leaving are the members that terminate, and by when they are gone.
	leaving map[model.HolderID]int64
	facts   *facts
}

// facts are what Kubernetes' rules say in a story.
type facts struct {
	cordoned map[model.NodeID]bool
	tainted  map[model.NodeID]string
	apart    map[[2]model.Shape]string
	budgets  map[string]int            // how many disruptions each allows
	covers   map[model.HolderID]string // the budget of a holder
}

func (f *facts) May(_ model.Shape, n model.NodeID) *explain.Refusal {
	switch {
	case f.cordoned[n]:
		return &explain.Refusal{Code: explain.Cordoned}
	case f.tainted[n] != "":
		return &explain.Refusal{Code: explain.Tainted, Detail: f.tainted[n]}
	}
	return nil
}

func (f *facts) Apart(a, b model.Shape) string { return f.apart[[2]model.Shape{a, b}] }

func (f *facts) Budgets(h model.HolderID) []engine.Budget {
	if name := f.covers[h]; name != "" {
		return []engine.Budget{{Name: name, Allowed: f.budgets[name]}}
	}
	return nil
}

func newFacts() *facts {
	return &facts{cordoned: map[model.NodeID]bool{}, tainted: map[model.NodeID]string{}, apart: map[[2]model.Shape]string{}, budgets: map[string]int{}, covers: map[model.HolderID]string{}}
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, o: engine.DefaultOptions()}
	w.facts = newFacts()
	w.reset()
	return w
}

// reset makes an engine that knows nothing.
func (w *world) reset() {
	w.l, w.queues, w.quotas, w.nodes, w.gangs = ledger.New(), []arbiter.Queue{{Name: arbiter.Default, Weight: 1, Reclaimable: true, Order: arbiter.Priority}}, map[string]map[arbiter.Resource]int64{}, map[model.NodeID]*model.Node{}, map[engine.ID]*engine.Gang{}
	w.released, w.leaving = map[model.HolderID]engine.Release{}, map[model.HolderID]int64{}
	w.o.Facts = w.facts
	tree, err := arbiter.NewTree(w.queues, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.e = engine.New(w.l, planner.New(w.l), tree, w.o)
}

// apply tells the engine of events and returns what came of them.
func (w *world) apply(events ...engine.Event) string {
	out := w.e.Apply(w.now, events...)
	w.follow(&out.Effects)
	return out.String()
}

// follow keeps track of releases.
func (w *world) follow(fx *engine.Effects) {
	for _, h := range fx.Revoked {
		delete(w.released, h)
	}
	for _, r := range fx.Released {
		w.released[r.Holder] = r
	}
}

// words are the arguments without a value: names.
func (w *world) words() (out []string) {
	for _, a := range w.d.CmdArgs {
		if len(a.Vals) == 0 {
			out = append(out, a.Key)
		}
	}
	return out
}

// value is an argument's value, or what is given.
func (w *world) value(key, otherwise string) string {
	for _, v := range w.values(key) {
		return v
	}
	return otherwise
}

// values are all values of an argument, which may be there several times.
func (w *world) values(key string) (out []string) {
	w.read[key] = true
	for _, a := range w.d.CmdArgs {
		if a.Key == key {
			out = append(out, a.Vals...)
		}
	}
	return out
}

func (w *world) has(key string) bool {
	w.read[key] = true
	return slices.ContainsFunc(w.d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == key })
}

func (w *world) number(key string, otherwise int) int {
	n, err := strconv.Atoi(w.value(key, strconv.Itoa(otherwise)))
	if err != nil {
		w.d.Fatalf(w.t, "%s: %v", key, err)
	}
	return n
}

func (w *world) duration(key string, otherwise time.Duration) time.Duration {
	text := w.value(key, "")
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		w.d.Fatalf(w.t, "%s: %v", key, err)
	}
	return d
}

// amounts are amounts by resource: a number counts GPUs, name:number another resource.
func (w *world) amounts(key string) map[arbiter.Resource]int64 {
	w.read[key] = true
	for _, a := range w.d.CmdArgs {
		if a.Key != key {
			continue
		}
		out := map[arbiter.Resource]int64{}
		for _, v := range a.Vals {
			resource, scale, text := engine.GPU(model.NVIDIA), int64(model.FullMilli), v
			if name, amount, named := strings.Cut(v, ":"); named {
				text = amount
				switch name {
				case "cpu":
					resource, scale = engine.CPU, 1000
				default:
					resource = engine.Model(name)
				}
			}
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				w.d.Fatalf(w.t, "%s: %v", key, err)
			}
			out[resource] = int64(n * float64(scale))
		}
		return out
	}
	return nil
}

// gang is a gang that the story knows.
func (w *world) gang(name string) *engine.Gang {
	g := w.gangs[engine.ID(name)]
	if g == nil {
		w.d.Fatalf(w.t, "no gang %q", name)
	}
	return g
}

// members are holders by "gang/member", all of a gang by its name, or of all gangs whose names
// begin with what stands before a "*".
func (w *world) members(names ...string) (out []model.HolderID) {
	for _, name := range names {
		if prefix, all := strings.CutSuffix(name, "*"); all {
			for _, id := range slices.Sorted(maps.Keys(w.gangs)) {
				if strings.HasPrefix(string(id), prefix) {
					out = append(out, w.members(string(id))...)
				}
			}
			continue
		}
		if strings.Contains(name, "/") {
			out = append(out, model.HolderID(name))
			continue
		}
		for _, r := range w.gang(name).Roles {
			out = append(out, r.Members...)
		}
	}
	return out
}

func lines(list ...string) string { return strings.Join(list, "") }
