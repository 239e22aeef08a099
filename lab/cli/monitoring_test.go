package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/config"
)

// TestWithPrices: every profile counts cost, nothing else of the configuration changes, and
// a table that the user changed stays.
func TestWithPrices(t *testing.T) {
	s := &session{options: upOptions{dir: t.TempDir()}}
	data, err := s.withPrices(config.Scheduler())
	if err != nil {
		t.Fatal(err)
	}
	var before, after map[string]any
	if err := yaml.Unmarshal(config.Scheduler(), &before); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &after); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.options.dir, priceFile)
	changed := 0
	for _, p := range before["profiles"].([]any) {
		for _, c := range p.(map[string]any)["pluginConfig"].([]any) {
			if plugin := c.(map[string]any); plugin["name"] == "GPUQueue" {
				plugin["args"].(map[string]any)["metrics"] = map[string]any{"priceTable": path}
				changed++
			}
		}
	}
	if all := len(before["profiles"].([]any)); changed != all {
		t.Errorf("GPUQueue has arguments in %d profiles of %d", changed, all)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(path, []byte("currency: EUR\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.withPrices(config.Scheduler()); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(path); err != nil || string(kept) != "currency: EUR\n" {
		t.Errorf("%v: %s", err, kept)
	}
}

// TestRequireMonitoring: the message names the command that builds what is missing.
func TestRequireMonitoring(t *testing.T) {
	dir := t.TempDir()
	if err := requireMonitoring(dir); err == nil || !strings.Contains(err.Error(), "run make monitoring") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "prometheus"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := requireMonitoring(dir); err != nil {
		t.Error(err)
	}
}
