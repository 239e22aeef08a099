package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tangram-dev/tangram/core/health"
)

// load reads a file of testdata (empty for none) with variables and arguments.
func load(t *testing.T, file string, env map[string]string, args ...string) (*Config, error) {
	t.Helper()
	var l Loader
	flags := flag.NewFlagSet("gpu-agent", flag.ContinueOnError)
	flags.SetOutput(&strings.Builder{})
	l.Register(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return l.Load(Sources{
		Env: func(name string) (string, bool) {
			if name == "CONFIG_FILE" && file != "" {
				return file, true
			}
			v, ok := env[name]
			return v, ok
		},
		Read: func(path string) ([]byte, error) { return os.ReadFile(filepath.Join("testdata", path)) },
	})
}

// bad is the message for each file that has a mistake.
var bad = map[string]string{
	"version":                 `version.bad.yaml:1: version: "v2": want v1`,
	"version-number":          `version-number.bad.yaml:1: version: 1, want a text`,
	"not-yaml":                `not-yaml.bad.yaml:1: not YAML: did not find expected ',' or ']'`,
	"not-an-object":           `not-an-object.bad.yaml:1: a list, want an object with the fields flags, imex, resources, sharing, version`,
	"two-documents":           `two-documents.bad.yaml:2: a second document, want one`,
	"manifest":                `manifest.bad.yaml:1: kind: this is a Kubernetes object; want the text below its data, as a mounted ConfigMap has it`,
	"unknown-field":           `unknown-field.bad.yaml:3: sharing.timeslicing: unknown field; is timeSlicing meant?`,
	"unknown-flag":            `unknown-flag.bad.yaml:3: flags.colour: unknown field; the fields here are deviceDiscoveryStrategy, failOnInitError, gdrcopyEnabled, gdsEnabled, gfd, migStrategy, mofedEnabled, mpsRoot, nvidiaDevRoot, nvidiaDriverRoot, plugin, useNodeFeatureAPI`,
	"unknown-resource-field":  `unknown-resource-field.bad.yaml:5: sharing.timeSlicing.resources[0].replica: unknown field; is replicas meant?`,
	"twice":                   `twice.bad.yaml:4: flags.migStrategy: is there twice`,
	"mig-strategy":            `mig-strategy.bad.yaml:2: flags.migStrategy: "multi": want none, single or mixed`,
	"mig-strategy-type":       `mig-strategy-type.bad.yaml:2: flags.migStrategy: a list, want a text`,
	"fail-on-init-error":      `fail-on-init-error.bad.yaml:2: flags.failOnInitError: the text "false", want true or false; write false without quotes`,
	"driver-root":             `driver-root.bad.yaml:2: flags.nvidiaDriverRoot: "run/nvidia/driver": want a path that begins with /`,
	"discovery":               `discovery.bad.yaml:2: flags.deviceDiscoveryStrategy: "tegra": want auto or nvml`,
	"device-list":             `device-list.bad.yaml:3: flags.plugin.deviceListStrategy: "cdi": want cdi-cri, envvar or volume-mounts`,
	"device-list-annotations": `device-list-annotations.bad.yaml:3: flags.plugin.deviceListStrategy: "cdi-annotations": kubelet passes CDI devices on by itself today; want cdi-cri`,
	"device-list-two":         `device-list-two.bad.yaml:3: flags.plugin.deviceListStrategy: "envvar,cdi-cri": want one strategy; cdi-cri goes before the others`,
	"device-list-type":        `device-list-type.bad.yaml:3: flags.plugin.deviceListStrategy[0]: 1, want a text`,
	"device-id":               `device-id.bad.yaml:3: flags.plugin.deviceIDStrategy: "name": want uuid or index`,
	"policy":                  `policy.bad.yaml:3: flags.plugin.sharedDevicesAllocationPolicy: "random": want distributed or packed`,
	"misplaced":               `misplaced.bad.yaml:2: flags.passDeviceSpecs: unknown field; the fields here are deviceDiscoveryStrategy, failOnInitError, gdrcopyEnabled, gdsEnabled, gfd, migStrategy, mofedEnabled, mpsRoot, nvidiaDevRoot, nvidiaDriverRoot, plugin, useNodeFeatureAPI`,
	"gfd-interval":            `gfd-interval.bad.yaml:3: flags.gfd.sleepInterval: "-1s": want a duration such as 60s`,
	"replicas-1":              `replicas-1.bad.yaml:5: sharing.timeSlicing.resources[0].replicas: 1, want at least 2; leave the resource out to sell devices whole`,
	"replicas-negative":       `replicas-negative.bad.yaml:5: sharing.timeSlicing.resources[0].replicas: -4, want at least 2; leave the resource out to sell devices whole`,
	"replicas-text":           `replicas-text.bad.yaml:5: sharing.timeSlicing.resources[0].replicas: the text "4", want a number`,
	"replicas-fraction":       `replicas-fraction.bad.yaml:5: sharing.timeSlicing.resources[0].replicas: 2.5, want a number`,
	"replicas-huge":           `replicas-huge.bad.yaml:5: sharing.timeSlicing.resources[0].replicas: 99999999999999999999, want a number`,
	"replicas-1001":           `replicas-1001.bad.yaml:5: sharing.timeSlicing.resources[0].replicas: 1001, want at most 1000`,
	"replicas-missing":        `replicas-missing.bad.yaml:5: sharing.timeSlicing.resources[0].replicas: is missing; want 2 or more`,
	"name-missing":            `name-missing.bad.yaml:5: sharing.timeSlicing.resources[0].name: is missing; want such as nvidia.com/gpu`,
	"name-other":              `name-other.bad.yaml:5: sharing.timeSlicing.resources[0].name: "amd.com/gpu": want nvidia.com/gpu or nvidia.com/mig-<profile>`,
	"name-shared":             `name-shared.bad.yaml:5: sharing.timeSlicing.resources[0].name: "nvidia.com/gpu.shared": want nvidia.com/gpu; renameByDefault adds .shared`,
	"name-twice":              `name-twice.bad.yaml:5: sharing.timeSlicing.resources[1].name: nvidia.com/gpu is there twice`,
	"rename":                  `rename.bad.yaml:5: sharing.timeSlicing.resources[0].rename: "half": a resource cannot be renamed at will; want renameByDefault: true, which adds .shared`,
	"devices":                 `devices.bad.yaml:5: sharing.timeSlicing.resources[0].devices: a list, want all: a part of a node's devices cannot be shared`,
	"resource-text":           `resource-text.bad.yaml:5: sharing.timeSlicing.resources[0]: the text "nvidia.com/gpu", want an object with the fields devices, name, rename, replicas`,
	"resources-missing":       `resources-missing.bad.yaml:3: sharing.timeSlicing.resources: is missing; want a list such as [{name: nvidia.com/gpu, replicas: 4}]`,
	"resources-empty":         `resources-empty.bad.yaml:3: sharing.mps.resources: is empty; want at least one resource, or leave sharing.mps out`,
	"resources-object":        `resources-object.bad.yaml:3: sharing.mps.resources: an object, want a list`,
	"rename-by-default":       `rename-by-default.bad.yaml:3: sharing.timeSlicing.renameByDefault: the text "no", want true or false`,
	"both":                    `sharing: timeSlicing and mps together; want one of them`,
	"mps-mixed":               `sharing.mps: does not work with migStrategy mixed; want migStrategy none, or sharing.timeSlicing`,
	"mps-mig":                 `mps-mig.bad.yaml:5: sharing.mps.resources[0].name: "nvidia.com/mig-1g.10gb": MIG instances cannot be shared with MPS; want nvidia.com/gpu`,
	"mps-49":                  `mps-49.bad.yaml:5: sharing.mps.resources[0].replicas: 49, want at most 48: one MPS server has so many clients`,
	"percents-over-100":       `percents-over-100.bad.yaml:5: sharing.mps.resources[0].percents: 101 % in total, want at most 100`,
	"percents-count":          `percents-count.bad.yaml:5: sharing.mps.resources[0].percents: 2 values, want one for each of the 3 replicas`,
	"percents-0":              `percents-0.bad.yaml:5: sharing.mps.resources[0].percents[1]: 0, want at least 1`,
	"percents-time-slicing":   `percents-time-slicing.bad.yaml:5: sharing.timeSlicing.resources[0].percents: unknown field; the fields here are devices, name, rename, replicas`,
	"gpu-renamed":             `gpu-renamed.bad.yaml:3: resources.gpus[0]: GPUs cannot be renamed; leave it out, they are sold as nvidia.com/gpu`,
	"mig-renamed":             `mig-renamed.bad.yaml:3: resources.mig[0]: MIG instances cannot be renamed; leave it out, they are sold as nvidia.com/mig-1g.5gb`,
	"imex":                    `imex.bad.yaml:2: imex.channelIDs[0]: 1, want at most 0: channel 0 is the only one that can be given to all`,
	"several":                 "several.bad.yaml:1: version: \"v3\": want v1\nseveral.bad.yaml:3: flags.migStrategy: \"x\": want none, single or mixed",
}

func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.bad.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(bad) {
		t.Errorf("%d files, %d messages", len(files), len(bad))
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".bad.yaml")
		t.Run(name, func(t *testing.T) {
			c, err := load(t, filepath.Base(f), nil)
			if err == nil {
				t.Fatalf("accepted: %+v", c)
			}
			if diff := cmp.Diff(bad[name], err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGoodFiles(t *testing.T) {
	tests := []struct {
		name string
		want func(c *Config)
	}{
		{"empty", func(*Config) {}},
		{"nulls", func(*Config) {}},
		{"seed-001", func(c *Config) {
			c.Sharing.TimeSlicing = &Replicated{Resources: []Resource{{Name: "nvidia.com/gpu", Replicas: 4}}}
		}},
		{"mixed", func(c *Config) {
			c.Flags.MIGStrategy, c.Flags.DeviceListStrategy = MIGMixed, EnvVar
			c.Sharing.TimeSlicing = &Replicated{RenameByDefault: true, FailRequestsGreaterThanOne: true, Resources: []Resource{
				{Name: "nvidia.com/gpu", Replicas: 10}, {Name: "nvidia.com/mig-1g.10gb.me", Replicas: 2}}}
		}},
		{"everything", func(c *Config) {
			c.Flags = Flags{MIGStrategy: MIGSingle, MPSRoot: "/run/mps", DriverRoot: "/run/nvidia/driver", DevRoot: "/run/nvidia/driver",
				ContainerDriverRoot: "/driver-root", PassDeviceSpecs: true, DeviceListStrategy: VolumeMounts, DeviceIDStrategy: ByIndex}
			c.Sharing.MPS = &Replicated{RenameByDefault: true, FailRequestsGreaterThanOne: true, Resources: []Resource{
				{Name: "nvidia.com/gpu", Replicas: 2, Percents: []int{70, 30}}}}
			c.IMEX = IMEX{Channels: []int{0}, Required: true}
			c.Notes = []string{
				"flags.gdsEnabled: has no effect: the agent adds no such devices to containers",
				"flags.useNodeFeatureAPI: has no effect: the agent writes node labels itself",
				"flags.plugin.cdiAnnotationPrefix: has no effect: CDI devices go to kubelet by name",
				"flags.plugin.nvidiaCTKPath: has no effect: no program is run to make CDI specifications",
				"flags.gfd: has no effect: the agent writes node labels itself",
			}
		}},
	}
	files, _ := filepath.Glob("testdata/*.good.yaml")
	if len(files) != len(tests) {
		t.Errorf("%d files, %d tests", len(files), len(tests))
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := load(t, tt.name+".good.yaml", nil)
			if err != nil {
				t.Fatal(err)
			}
			want := Default()
			want.Flags.DevRoot = "/"
			tt.want(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPrecedence: flags go before variables, variables before the file.
func TestPrecedence(t *testing.T) {
	env := map[string]string{"MIG_STRATEGY": "single", "FAIL_ON_INIT_ERROR": "false", "PASS_DEVICE_SPECS": "true", "DEVICE_LIST_STRATEGY": " volume-mounts",
		"DEVICE_ID_STRATEGY": "index", "NVIDIA_DRIVER_ROOT": "/run/nvidia/driver/", "MPS_ROOT": "", "DRIVER_ROOT_CTR_PATH": "/d", "IMEX_CHANNEL_IDS": "0", "GDS_ENABLED": "true"}
	c, err := load(t, "mixed.good.yaml", env)
	if err != nil {
		t.Fatal(err)
	}
	want := Flags{MIGStrategy: MIGSingle, PassDeviceSpecs: true, DeviceListStrategy: VolumeMounts, DeviceIDStrategy: ByIndex,
		DriverRoot: "/run/nvidia/driver", DevRoot: "/run/nvidia/driver", ContainerDriverRoot: "/d"}
	if diff := cmp.Diff(want, c.Flags); diff != "" {
		t.Error(diff)
	}
	if len(c.IMEX.Channels) != 1 || len(c.Notes) != 2 {
		t.Errorf("channels %v, notes %q", c.IMEX.Channels, c.Notes)
	}
	c, err = load(t, "mixed.good.yaml", env, "--mig-strategy=none", "--device-list-strategy", "cdi-cri", "--fail-on-init-error")
	if err != nil {
		t.Fatal(err)
	}
	if c.Flags.MIGStrategy != MIGNone || c.Flags.DeviceListStrategy != CDICRI || !c.Flags.FailOnInitError || c.Flags.DeviceIDStrategy != ByIndex {
		t.Errorf("%+v", c.Flags)
	}
	// The flag names the file before the variable does.
	c, err = load(t, "no-such.yaml", nil, "--config-file=seed-001.good.yaml")
	if err != nil || c.Sharing.TimeSlicing == nil {
		t.Errorf("%v, %+v", err, c)
	}
}

func TestOwnFlags(t *testing.T) {
	c, err := load(t, "", nil, "--mode=serve", "--shares-per-gpu=10", "--isolation=hami", "--state-dir=/s", "--kubelet-dir=/k/", "--cdi-dir=/c",
		"--sample-interval=5s", "--publish-interval=1m", "--heartbeat-interval=3m", "--hot-celsius=85", "--hot-for=1m", "--throttled-for=2m", "--silent-for=20s", "--quiet-percent=50",
		"--blame-tenants=2", "--xid=31=RESTART_APP", "--ignore-causes=PCIeNarrow, Hot", "--reset", "--topology-manager")
	if err != nil {
		t.Fatal(err)
	}
	want := Default().Agent
	want.Mode, want.SharesPerGPU, want.Isolation, want.StateDir, want.KubeletDir, want.CDIDir = Serve, 10, IsolationHAMi, "/s", "/k", "/c"
	want.SampleInterval, want.PublishInterval, want.HeartbeatInterval, want.Reset, want.TopologyManager = 5*time.Second, time.Minute, 3*time.Minute, true, true
	h := &want.Health
	h.HotCelsius, h.HotFor, h.ThrottledFor, h.SilentFor, h.QuietPercent, h.Tenants = 85, time.Minute, 2*time.Minute, 20*time.Second, 50, 2
	h.Table[31] = health.RestartApp
	h.Disabled = []health.Code{health.PCIeNarrow, health.Hot}
	if diff := cmp.Diff(want, c.Agent); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		args []string
		mode Mode
		note string
	}{
		{args: []string{"--serve", "--topology-manager"}, mode: Serve},
		{args: []string{"--mode=serve", "--serve=false"}, mode: Serve},
		{args: []string{"--topology-manager=true"}, mode: Observe, note: "--topology-manager: has no effect: another device plugin offers the node's devices to kubelet"},
	} {
		c, err := load(t, "", nil, tt.args...)
		if err != nil || c.Agent.Mode != tt.mode || strings.Join(c.Notes, "; ") != tt.note {
			t.Errorf("%v: %v, mode %s, notes %q", tt.args, err, c.Agent.Mode, c.Notes)
		}
	}
}

func TestBadFlagsAndVariables(t *testing.T) {
	tests := []struct {
		name string
		file string
		env  map[string]string
		args []string
		want string
	}{
		{name: "variable", env: map[string]string{"MIG_STRATEGY": "all"}, want: `environment variable MIG_STRATEGY: "all": want none, single or mixed`},
		{name: "boolean variable", env: map[string]string{"PASS_DEVICE_SPECS": "yes"}, want: `environment variable PASS_DEVICE_SPECS: "yes": want true or false`},
		{name: "channel", env: map[string]string{"IMEX_CHANNEL_IDS": "0,1"}, want: `environment variable IMEX_CHANNEL_IDS: "0,1": want 0 or nothing`},
		{name: "flag", args: []string{"--mode=both"}, want: `invalid value "both" for flag -mode: "both": want observe or serve`},
		{name: "policy of Topology Manager", args: []string{"--topology-manager=single-numa-node"}, want: `invalid boolean value "single-numa-node" for -topology-manager: "single-numa-node": want true or false`},
		{name: "serve", args: []string{"--serve=please"}, want: `invalid boolean value "please" for -serve: "please": want true or false`},
		{name: "share", args: []string{"--shares-per-gpu=1"}, want: `--shares-per-gpu: 1: want 0 for none, or 2 to 48`},
		{name: "49 shares", args: []string{"--shares-per-gpu=49"}, want: `invalid value "49" for flag -shares-per-gpu: "49": want a number from 0 to 48`},
		{name: "shares by environment", args: []string{"--shares-per-gpu=8", "--device-list-strategy=envvar"}, want: `--shares-per-gpu: needs deviceListStrategy cdi-cri, not envvar: shares differ by container, and only a CDI specification can`},
		{name: "shares and turns", file: "seed-001.good.yaml", args: []string{"--shares-per-gpu=8"}, want: `--shares-per-gpu: does not go with sharing of nvidia.com/gpu in turns; want one of them`},
		{name: "shares of single", args: []string{"--shares-per-gpu=8", "--mig-strategy=single"}, want: `--shares-per-gpu: does not go with migStrategy single, which sells MIG instances as nvidia.com/gpu`},
		{name: "interval", args: []string{"--sample-interval=1ms"}, want: `invalid value "1ms" for flag -sample-interval: "1ms": want a duration such as 30s, from 1s to 10m0s`},
		{name: "negative", args: []string{"--hot-celsius=-1"}, want: `invalid value "-1" for flag -hot-celsius: "-1": want a number from 0 to 200`},
		{name: "path", args: []string{"--state-dir=here"}, want: `invalid value "here" for flag -state-dir: "here": want a path that begins with /`},
		{name: "XID", args: []string{"--xid=31=OOPS"}, want: `invalid value "31=OOPS" for flag -xid: "31=OOPS": unknown class "OOPS"; the classes are [IGNORE APPLICATION ASK_DRIVER RESTART_APP INSPECT RESET_GPU REBOOT]`},
		{name: "silence", args: []string{"--silent-for=1h"}, want: `health: failedFor: 10m0s is shorter than SilentFor, 1h0m0s`},
		{name: "no file", file: "none.yaml", want: `configuration file: open testdata/none.yaml: no such file or directory`},
		{name: "mixed by variable", file: "everything.good.yaml", env: map[string]string{"MIG_STRATEGY": "mixed"}, want: `sharing.mps: does not work with migStrategy mixed; want migStrategy none, or sharing.timeSlicing`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := load(t, tt.file, tt.env, tt.args...)
			if err == nil {
				t.Fatalf("accepted: %+v", c)
			}
			if err.Error() != tt.want {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
		})
	}
	if _, err := load(t, "", nil, "--ignore-causes=Tired"); err == nil || !strings.Contains(err.Error(), `unknown cause "Tired"`) {
		t.Errorf("unknown cause: %v", err)
	}
}

func TestReplicated(t *testing.T) {
	r := &Replicated{RenameByDefault: true, Resources: []Resource{{Name: wholeGPU, Replicas: 3, Percents: []int{50, 30, 10}}}}
	if r.Sold(wholeGPU) != "nvidia.com/gpu.shared" || r.Sold("nvidia.com/mig-1g.5gb") != "nvidia.com/mig-1g.5gb" {
		t.Error("names")
	}
	r = nil
	if r.Sold(wholeGPU) != wholeGPU || r.Find(wholeGPU) != nil {
		t.Error("without sharing")
	}
}

// FuzzFile: whatever is in the file, the reader says something and does not crash; what
// it accepts is in range.
func FuzzFile(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("sharing: &a {timeSlicing: *a}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := Default()
		if err := readFile(c, "f", text); err != nil || c.check() != nil {
			return
		}
		for _, s := range []*Replicated{c.Sharing.TimeSlicing, c.Sharing.MPS} {
			if s == nil {
				continue
			}
			for _, r := range s.Resources {
				total := 0
				for _, p := range r.Percents {
					total += p
				}
				if r.Replicas < 2 || r.Replicas > maxReplicas || s == c.Sharing.MPS && (total > 100 || r.Replicas > maxMPSReplicas) {
					t.Errorf("accepted %+v", r)
				}
			}
		}
	})
}
