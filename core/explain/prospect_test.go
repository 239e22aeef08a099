package explain_test

import (
	"testing"
	"time"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// TestProspect: which nodes are kept for a gang, in words, and not too many of them.
func TestProspect(t *testing.T) {
	at := time.Date(2026, 3, 1, 13, 0, 0, 1, time.UTC).UnixNano()
	for want, p := range map[string]explain.Prospect{
		"": {},
		"node a kept for it, from when what runs there ends":             {Nodes: []model.NodeID{"a"}},
		"nodes a, b kept for it, start expected by 2026-03-01 13:01 UTC": {Nodes: []model.NodeID{"a", "b"}, At: at},
		"pods are being evicted for it on nodes a, b, c and 2 more":      {Nodes: []model.NodeID{"a", "b", "c", "d", "e"}, Freeing: true},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
