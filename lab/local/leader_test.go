package local

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAcquired(t *testing.T) {
	const attempt = `I1115 20:42:40.100000   11 leaderelection.go:258] "Attempting to acquire leader lease..." lock="kube-system/gpu-scheduler"` + "\n"
	const success = `I1115 20:42:47.200000   11 leaderelection.go:272] "Successfully acquired lease" lock="kube-system/gpu-scheduler"` + "\n"
	tests := []struct {
		name, log, want string
	}{
		{"standby", attempt + "\n\nsome other line\n", ""},
		{"leader", attempt + success + "E1115 20:42:48.300000 an error\n", "1115 20:42:47.200000"},
		{"restarted", attempt + success + attempt, ""},
		{"nothing yet", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tt.log), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := acquired(path); got != tt.want {
				t.Errorf("acquired %q, want %q", got, tt.want)
			}
		})
	}
	if got := acquired(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("of no log: %q", got)
	}
}
