package mps

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	program := os.Args[0]
	for field, o := range map[string]Options{
		"mps.control":  {Control: "/no/such/program"},
		"mps.stateDir": {Control: program, StateDir: "relative"},
		"mps.shmDir":   {Control: program, ShmDir: "relative"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v, want %s", err, field)
		}
	}
	var logged bytes.Buffer
	if _, err := New(Options{Control: program, Log: slog.New(slog.NewTextHandler(&logged, nil))}); err != nil {
		t.Error(err)
	}
	if !strings.Contains(logged.String(), "EXCLUSIVE_PROCESS") {
		t.Error("nothing says that MPS can be bypassed")
	}
}

func TestEqual(t *testing.T) {
	for _, test := range []struct {
		replicas, turns, milli int
		mib                    int64
	}{{4, 1, 250, 35942}, {3, 1, 333, 47923}, {4, 2, 500, 71885}, {2, 2, 1000, 143771}} {
		if milli, mib := Equal(gpu, test.replicas, test.turns); milli != test.milli || mib != test.mib {
			t.Errorf("%d of %d: %d and %d MiB", test.turns, test.replicas, milli, mib)
		}
	}
	if percent(333) != "33.3" || percent(1000) != "100" {
		t.Error(percent(333), percent(1000))
	}
}
