package mps

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// SMI sets compute modes with nvidia-smi, for Options.Exclusive where no other way to
// the driver is at hand. program is its path or name.
func SMI(program string) func(ctx context.Context, gpu string, on bool) error {
	return func(ctx context.Context, gpu string, on bool) error {
		mode := "DEFAULT"
		if on {
			mode = "EXCLUSIVE_PROCESS"
		}
		said, err := exec.CommandContext(ctx, program, "-i", gpu, "-c", mode).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s -i %s -c %s: %w: %s", program, gpu, mode, err, shorten(strings.TrimSpace(string(said))))
		}
		return nil
	}
}
