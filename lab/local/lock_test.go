package local

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func TestLock(t *testing.T) {
	dir := t.TempDir()
	if _, running, err := Running(dir); running || err != nil {
		t.Fatalf("Running before the start = %v, %v", running, err)
	}
	since := time.Date(2026, 11, 15, 12, 0, 0, 0, time.Local)
	f, err := lock(dir, since)
	if err != nil {
		t.Fatal(err)
	}
	owner, running, err := Running(dir)
	if err != nil || !running || owner.PID != os.Getpid() || !owner.Since.Equal(since) {
		t.Errorf("Running = %+v, %v, %v, want this process", owner, running, err)
	}
	_, err = lock(dir, since)
	var taken *RunningError
	if !errors.As(err, &taken) {
		t.Fatalf("second lock = %v, want a RunningError", err)
	}
	for _, want := range []string{"already running (pid ", "since 2026-11-15 12:00:00", dir + "/kubeconfig", "tangram down --dir " + dir} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("message lacks %q: %v", want, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, running, err := Running(dir); running || err != nil {
		t.Errorf("Running after the end = %v, %v", running, err)
	}
	again, err := lock(dir, since)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestRunningOfNoDirectory(t *testing.T) {
	if _, running, err := Running(t.TempDir() + "/absent"); running || err != nil {
		t.Errorf("Running = %v, %v, want false, nil", running, err)
	}
}
