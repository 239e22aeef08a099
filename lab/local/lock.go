package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const lockFile = "lock"

// Owner is what the process that works on a state directory writes about itself.
type Owner struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

// RunningError says that another process works on the state directory.
type RunningError struct {
	Dir   string
	Owner Owner
}

func (e *RunningError) Error() string {
	return fmt.Sprintf("already running (pid %d, since %s): kubeconfig %s; stop it with tangram down --dir %s",
		e.Owner.PID, e.Owner.Since.Local().Format(time.DateTime), filepath.Join(e.Dir, "kubeconfig"), e.Dir)
}

// lock makes this process the owner of the directory, or returns a *RunningError.
// The kernel drops the lock when its holder dies, so a stale file never blocks.
func lock(dir string, now time.Time) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			owner, err := readOwner(f)
			if err != nil {
				return nil, err
			}
			return nil, &RunningError{Dir: dir, Owner: owner}
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	data, err := json.Marshal(Owner{PID: os.Getpid(), Since: now})
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("write %s: %w", f.Name(), err)
	}
	return f, nil
}

// Running returns the owner of a state directory, and false when no process works on it
// or it does not exist.
func Running(dir string) (Owner, bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return Owner{}, false, nil
	}
	if err != nil {
		return Owner{}, false, err
	}
	defer f.Close() // also gives up the lock, should we have got it
	// A shared lock, so that two concurrent readers do not see each other as owners.
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		return Owner{}, false, nil
	}
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return Owner{}, false, fmt.Errorf("lock %s: %w", dir, err)
	}
	owner, err := readOwner(f)
	return owner, err == nil, err
}

// readOwner reads the owner until two readings agree: between taking the lock and
// writing the owner the file is empty, or still names an owner that has died.
func readOwner(f *os.File) (Owner, error) {
	var last Owner
	var err error
	for range 20 {
		var owner Owner
		var data []byte
		if data, err = io.ReadAll(io.NewSectionReader(f, 0, 1<<12)); err != nil {
			return Owner{}, err
		}
		if err = json.Unmarshal(data, &owner); err == nil && owner.PID > 0 {
			if owner.PID == last.PID && owner.Since.Equal(last.Since) {
				return owner, nil
			}
			last = owner
		}
		time.Sleep(10 * time.Millisecond)
	}
	return Owner{}, fmt.Errorf("another process holds %s but does not identify itself: %w", f.Name(), err)
}
