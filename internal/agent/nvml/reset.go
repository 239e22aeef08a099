//go:build cgo && linux

package nvml

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Reset implements device.Backend with nvidia-smi, since NVML has no call for it. The
// driver resets a device only when no process has it open, so this process closes the driver
// for that time: other calls wait, and Watch registers anew.
func (b *Backend) Reset(ctx context.Context, uuid string) error {
	program, err := b.smi()
	if err != nil {
		return fmt.Errorf("nvml: reset: %w", err)
	}
	b.using.Lock()
	defer b.using.Unlock()
	if b.closed || !b.running {
		return fmt.Errorf("nvml: reset: %w: closed", device.ErrNoDriver)
	}
	if _, _, err := b.find(uuid); errors.Is(err, device.ErrNotFound) { // and not: lost
		return fmt.Errorf("nvml: reset: %w", err)
	}
	if err = b.idle(ctx, uuid); err == nil {
		err = b.stop(ctx)
	}
	if err != nil {
		return fmt.Errorf("nvml: reset %s: %w", uuid, err)
	}
	limited, cancel := context.WithTimeout(ctx, b.options.ChangeTimeout)
	defer cancel()
	out, failed := exec.CommandContext(limited, program, "--gpu-reset", "-i", uuid).CombinedOutput()
	if err := b.start(context.WithoutCancel(ctx)); err != nil { // the next call tries again
		return fmt.Errorf("nvml: open the driver after the reset of %s: %w", uuid, errors.Join(err, failed))
	}
	if failed != nil {
		if limited.Err() != nil {
			failed = ended(limited)
		}
		return fmt.Errorf("nvml: reset %s: %w: %s", uuid, failed, bytes.TrimSpace(out))
	}
	return nil
}

// idle fails with device.ErrBusy when a process uses a device. A device that does not
// even say is taken for idle: its reset is the way to make it answer, and the driver
// itself refuses where a process has it open.
func (b *Backend) idle(ctx context.Context, uuid string) error {
	g, h, err := b.find(uuid)
	if err != nil {
		return nil
	}
	r := &reader{ctx: ctx, b: b, lane: g.lane}
	if users := b.processes(r, g, h, nil); len(users) > 0 {
		return fmt.Errorf("%w by process %d", device.ErrBusy, users[0].PID)
	}
	return nil
}

// smi is the path of nvidia-smi as this process sees it.
func (b *Backend) smi() (string, error) {
	for _, f := range (driverFiles{root: b.options.DriverRootHere}).programs() {
		if filepath.Base(f.path) == "nvidia-smi" {
			return filepath.Join(b.options.DriverRootHere, f.path), nil
		}
	}
	return exec.LookPath("nvidia-smi")
}
