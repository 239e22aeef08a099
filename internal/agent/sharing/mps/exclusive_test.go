package mps

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSMI(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "nvidia-smi")
	script := "#!/bin/sh\necho \"$@\" >>" + dir + "/calls\n[ $2 != GPU-bad ] || { echo Insufficient Permissions; exit 4; }\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	set := SMI(program)
	for _, on := range []bool{true, false} {
		if err := set(t.Context(), "GPU-a", on); err != nil {
			t.Error(err)
		}
	}
	if err := set(t.Context(), "GPU-bad", true); err == nil || !strings.Contains(err.Error(), "Insufficient Permissions") {
		t.Errorf("error %v, want what the program said", err)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "-i GPU-a -c EXCLUSIVE_PROCESS\n-i GPU-a -c DEFAULT\n-i GPU-bad -c EXCLUSIVE_PROCESS\n"; string(calls) != want {
		t.Errorf("calls %q", calls)
	}
}
