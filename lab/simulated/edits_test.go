package simulated

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

func TestEdits(t *testing.T) {
	s := newFleet(t, Options{DeviceNodes: []string{"/dev/null", "/dev/zero", "/dev/full"}})
	b := s.Backend("h-0")
	devices := inventory(t, b).Devices
	got, err := b.Edits(t.Context(), []string{devices[2].UUID, devices[0].UUID, devices[2].UUID})
	want := device.Edits{
		Env: []string{"NVIDIA_VISIBLE_DEVICES=void"},
		Nodes: []device.Node{
			{Path: "/dev/nvidia2", HostPath: "/dev/full"}, {Path: "/dev/nvidia0", HostPath: "/dev/null"},
		},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Edits = %+v, %v\nwant %+v", got, err, want)
	}
	if _, err := b.Edits(t.Context(), []string{devices[3].UUID}); err == nil || !strings.Contains(err.Error(), "no device node for device 3: 3 are given") {
		t.Errorf("a device without a node: %v", err)
	}
	if _, err := b.Edits(t.Context(), []string{"GPU-other"}); !errors.Is(err, device.ErrNotFound) {
		t.Errorf("an unknown device: %v", err)
	}

	if err := b.SetMIG(t.Context(), devices[1].UUID, true); err != nil {
		t.Fatal(err)
	}
	i, err := b.CreateInstance(t.Context(), devices[1].UUID, 19, 6)
	if err != nil {
		t.Fatal(err)
	}
	got, err = b.Edits(t.Context(), []string{i.UUID})
	want.Nodes = []device.Node{
		{Path: "/dev/nvidia1", HostPath: "/dev/zero"},
		{Path: "/dev/nvidia-caps/nvidia-cap147", HostPath: "/dev/zero", Permissions: "r"},
		{Path: "/dev/nvidia-caps/nvidia-cap148", HostPath: "/dev/zero", Permissions: "r"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Edits = %+v, %v\nwant %+v", got, err, want)
	}
	setFaults(t, s, "h-0", "device=1,gone")
	if _, err := b.Edits(t.Context(), []string{i.UUID}); !errors.Is(err, device.ErrNotFound) {
		t.Errorf("an instance of a device that is gone: %v", err)
	}

	plain := newFleet(t, Options{}).Backend("h-0")
	if got, err := plain.Edits(t.Context(), []string{devices[3].UUID}); err != nil || len(got.Nodes) != 0 || len(got.Env) != 1 {
		t.Errorf("without device nodes: %+v, %v", got, err)
	}
}

func TestParseDeviceNodes(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"b", "a"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, b := filepath.Join(folder, "a"), filepath.Join(folder, "b")
	for text, want := range map[string][]string{"": nil, folder: {a, b}, b + "," + a: {b, a}} {
		if got, err := ParseDeviceNodes(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("ParseDeviceNodes(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	if _, err := ParseDeviceNodes(a + "," + filepath.Join(folder, "c")); err == nil || !strings.Contains(err.Error(), "device nodes: path 2: ") {
		t.Errorf("a path that is missing: %v", err)
	}
}
