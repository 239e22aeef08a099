package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/lab/local"
)

// patience is how long a cluster may take to stop before it is killed. Seven
// components with five seconds each would be more, but only if all of them hang.
const patience = 20 * time.Second

func newDown() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End the cluster that tangram up started",
		Long: `End the cluster of a state directory and wait until all of it is gone. Its objects
stay: the next tangram up finds them. Delete the directory to forget them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			abs, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			text, err := down(cmd.Context(), abs)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", defaultDir, "the directory given to tangram up")
	return cmd
}

// down stops the owner of the directory and says what happened. It is no error if
// nothing runs.
func down(ctx context.Context, dir string) (string, error) {
	begin := time.Now()
	owner, running, err := local.Running(dir)
	if err != nil {
		return "", err
	}
	if !running {
		return fmt.Sprintf("nothing runs in %s", dir), nil
	}
	// The lock says that this process lives; when it goes, so do its children.
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, patience}, {syscall.SIGKILL, 5 * time.Second}} {
		if err := syscall.Kill(owner.PID, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return "", fmt.Errorf("stop pid %d: %w", owner.PID, err)
		}
		gone, err := awaitEnd(ctx, dir, owner, step.wait)
		if err != nil {
			return "", err
		}
		if gone {
			return fmt.Sprintf("stopped (%s); the state is kept in %s", local.Elapsed(begin), dir), nil
		}
	}
	return "", fmt.Errorf("pid %d does not end", owner.PID)
}

// awaitEnd polls until the owner has released the directory, which it does last, after
// its children have ended.
func awaitEnd(ctx context.Context, dir string, owner local.Owner, limit time.Duration) (bool, error) {
	const interval = 50 * time.Millisecond
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		now, running, err := local.Running(dir)
		if err != nil {
			return false, err
		}
		if !running || now.PID != owner.PID {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(interval):
		}
	}
	return false, nil
}
