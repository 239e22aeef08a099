//go:build !cgo || !linux

package nvml

import (
	"errors"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

func TestNewWithoutCgo(t *testing.T) {
	_, err := New(Options{}).Inventory(t.Context())
	if !errors.Is(err, device.ErrNoDriver) || !strings.Contains(err.Error(), "without cgo") {
		t.Errorf("Inventory: %v; want ErrNoDriver that says why", err)
	}
}
