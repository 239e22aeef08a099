//go:build !cgo || !linux

package nvml

import (
	"errors"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

func TestNewWithoutCgo(t *testing.T) {
	b, err := New(Options{})
	if b != nil || !errors.Is(err, device.ErrNoDriver) || !strings.Contains(err.Error(), "without cgo") {
		t.Errorf("New: %v, %v; want ErrNoDriver that says why", b, err)
	}
}
