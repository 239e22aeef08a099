package query

import (
	"testing"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// TestFleet: everyone who may ask gets the sums.
func TestFleet(t *testing.T) {
	w := sharedWorld(t)
	viewer := w.as(t, "ops/viewer")
	f := get[apiquery.Fleet](t, viewer, apiquery.PathFleet)
	if f.Nodes.Total != 7 || f.Nodes.Ready != 7 {
		t.Errorf("nodes: %+v, want 7", f.Nodes)
	}
	if len(f.Models) != 1 || f.Models[0].Milli != 44_000 {
		t.Errorf("models: %+v, want 44 GPUs of one", f.Models)
	}
	if f.Scheduler.Holder != w.endpoint.Holder || f.Scheduler.Version == "" {
		t.Errorf("scheduler: %+v, want holder %q", f.Scheduler, w.endpoint.Holder)
	}
}
