package query

import (
	"testing"

	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestFleet: every caller that may ask gets the sums.
func TestFleet(t *testing.T) {
	w := sharedWorld(t)
	viewer := w.as("ops/viewer")
	f := cluster.Ask[apiquery.Fleet](t, viewer, apiquery.PathFleet)
	if f.Nodes.Total < 10 || f.Nodes.Ready < 10 { // another test deletes one of eleven
		t.Errorf("nodes: %+v, want 10 or 11", f.Nodes)
	}
	if len(f.Models) != 1 || f.Models[0].Milli < 56_000 || f.Models[0].Milli > 60_000 {
		t.Errorf("models: %+v, want 56 or 60 GPUs of one", f.Models)
	}
	if f.Scheduler.Holder != w.endpoint.Holder || f.Scheduler.Version == "" {
		t.Errorf("scheduler: %+v, want holder %q", f.Scheduler, w.endpoint.Holder)
	}
}
