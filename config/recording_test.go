package config

import (
	"bytes"
	"testing"
)

// TestWithRecording: the setting is where GPUQueue's arguments are.
func TestWithRecording(t *testing.T) {
	want := []byte("      preemption: true\n      recording: {megabytes: 7}\n")
	if got := WithRecording(Scheduler(), 7); bytes.Count(got, want) != 1 {
		t.Errorf("no recording in\n%s", got)
	}
}
