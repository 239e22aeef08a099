package engine_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/test/coretest"
)

// What runs on devices that failed, or on a node that is gone, takes nothing from those
// that wait: free devices are given out whatever the sums of the fleet say.
func TestHoldersOfWhatIsGone(t *testing.T) {
	for name, change := range map[string]func(*engine.Engine) error{
		"failed": func(e *engine.Engine) error {
			_, err := e.SetNode(coretest.Node("n000").GPUs(2, "A100").Health(0, model.Failed).Health(1, model.Failed).Build(), nil)
			return err
		},
		"removed": func(e *engine.Engine) error { e.RemoveNode("n000"); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, engine.DefaultOptions(), nil, coretest.Node("n000").GPUs(2, "A100").Build(), coretest.Node("n001").GPUs(2, "A100").Build())
			w.e.CountFleet()
			w.submit(simple("first", 1, 2), simple("second", 1, 2), simple("waits", 1, 2))
			w.decide()
			if err := change(w.e); err != nil {
				t.Fatal(err)
			}
			w.e.CountFleet()
			healthy := engine.ID("second")
			if w.e.NodeOf("first/000") == "n001" {
				healthy = "first"
			}
			w.ended(holders(healthy, 0, 1)[0])
			w.withdraw(healthy)
			w.decide()
			if got := w.e.NodeOf("waits/000"); got != "n001" {
				why := w.e.Why("waits")
				t.Errorf("two GPUs are free on n001, and the gang that needs two is on %q: %s", got, why.String())
			}
		})
	}
}

// A pod that must be where another one is starts when that one has started.
func TestCompanyStarts(t *testing.T) {
	w := newTest(t, 2, 2)
	label := model.Label{Key: "app", Value: "model"}
	cache, server := simple("cache", 1, 1), simple("server", 1, 1)
	cache.Roles[0].Request.Affinity = []model.AffinityRule{{Kind: model.SameNode, Match: []model.Label{label}}}
	server.Roles[0].Request.Labels = []model.Label{label}
	w.submit(cache)
	w.decide()
	w.submit(server)
	w.decide()
	w.decide()
	if got, want := w.e.NodeOf("cache/000"), w.e.NodeOf("server/000"); got == "" || got != want {
		t.Errorf("cache is on %q, its company on %q", got, want)
	}
}
