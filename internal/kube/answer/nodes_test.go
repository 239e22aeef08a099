package answer

import (
	"testing"

	"github.com/tangram-dev/tangram/core/model"
)

// TestHealthNames: every health of a device has a name that travels.
func TestHealthNames(t *testing.T) {
	for h, want := range map[model.Health]string{
		model.Healthy: "healthy", model.Suspect: "degraded", model.Degraded: "degraded", model.Failed: "failed",
	} {
		if got := healthName(h); got != want {
			t.Errorf("health %d: %q, want %q", h, got, want)
		}
	}
}
