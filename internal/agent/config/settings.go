package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/core/health"
	"github.com/tangram-dev/tangram/internal/strictyaml"
)

// setting is one thing that can be set from text: by a flag, by an environment variable,
// and where field is given by a field of the file's section flags.
type setting struct {
	flag        string
	env         []string // empty for our own
	field, help string
	// list: the file may hold a list instead of one text.
	list bool
	// boolean: the flag may stand without a value; the file holds a boolean.
	boolean bool
	set     func(text string) error
}

// settings is the table of all of them, which set fields of c. A flag goes before a variable,
// a variable before the file.
func settings(c *Config) []setting {
	return []setting{
		{flag: "mig-strategy", env: []string{"MIG_STRATEGY"}, field: "migStrategy",
			help: "how MIG instances are sold: none, single or mixed", set: choice(&c.Flags.MIGStrategy, MIGNone, MIGSingle, MIGMixed)},
		{flag: "fail-on-init-error", env: []string{"FAIL_ON_INIT_ERROR"}, field: "failOnInitError", boolean: true,
			help: "end when there is no driver; else wait for one", set: boolean(&c.Flags.FailOnInitError)},
		{flag: "mps-root", env: []string{"MPS_ROOT"}, field: "mpsRoot",
			help: "where MPS daemons keep their pipes, on the node", set: absolute(&c.Flags.MPSRoot)},
		{flag: "nvidia-driver-root", env: []string{"NVIDIA_DRIVER_ROOT"}, field: "nvidiaDriverRoot",
			help: "root of the driver's installation on the node", set: absolute(&c.Flags.DriverRoot)},
		{flag: "nvidia-dev-root", env: []string{"NVIDIA_DEV_ROOT"}, field: "nvidiaDevRoot",
			help: "root of the driver's device nodes on the node; the driver's root when empty", set: absolute(&c.Flags.DevRoot)},
		{flag: "container-driver-root", env: []string{"CONTAINER_DRIVER_ROOT", "DRIVER_ROOT_CTR_PATH"}, field: "plugin.containerDriverRoot",
			help: "where the driver's root is mounted in the agent's container", set: absolute(&c.Flags.ContainerDriverRoot)},
		{flag: "pass-device-specs", env: []string{"PASS_DEVICE_SPECS"}, field: "plugin.passDeviceSpecs", boolean: true,
			help: "list device nodes in the answer to kubelet", set: boolean(&c.Flags.PassDeviceSpecs)},
		{flag: "device-list-strategy", env: []string{"DEVICE_LIST_STRATEGY"}, field: "plugin.deviceListStrategy", list: true,
			help: "how a container is told its devices: cdi-cri, envvar or volume-mounts", set: c.setDeviceList},
		{flag: "device-id-strategy", env: []string{"DEVICE_ID_STRATEGY"}, field: "plugin.deviceIDStrategy",
			help: "how devices are named towards a container: uuid or index", set: choice(&c.Flags.DeviceIDStrategy, ByUUID, ByIndex)},
		{flag: "imex-channel-ids", env: []string{"IMEX_CHANNEL_IDS"},
			help: "IMEX channels that every container gets: 0 or nothing", set: c.setChannels},
		{flag: "imex-required", env: []string{"IMEX_REQUIRED"}, boolean: true,
			help: "refuse to serve when the IMEX channels do not exist", set: boolean(&c.IMEX.Required)},

		{flag: "mode", help: "observe (another device plugin serves the node) or serve (this one does)",
			set: choice(&c.Agent.Mode, Observe, Serve)},
		{flag: "serve", boolean: true, help: "the same as --mode=serve", set: c.setServe},
		{flag: "topology-manager", boolean: true, help: "kubelet's topologyManagerPolicy is not none: withhold devices from kubelet while another use of their GPU excludes them",
			set: boolean(&c.Agent.TopologyManager)},
		{flag: "shares-per-gpu", help: "shares by amount of memory and compute that a GPU may have at once, 2 to 48; 0 for none",
			set: number(&c.Agent.SharesPerGPU, 0, maxShares)},
		{flag: "isolation", help: "what enforces shares by amount: mps, hami or none",
			set: choice(&c.Agent.Isolation, IsolationMPS, IsolationHAMi, IsolationNone)},
		{flag: "state-dir", help: "where the agent keeps what must survive its restart", set: absolute(&c.Agent.StateDir)},
		{flag: "kubelet-dir", help: "kubelet's directory, with device-plugins and pod-resources below", set: absolute(&c.Agent.KubeletDir)},
		{flag: "cdi-dir", help: "where CDI specifications are written", set: absolute(&c.Agent.CDIDir)},
		{flag: "sample-interval", help: "time between samples of all devices",
			set: duration(&c.Agent.SampleInterval, time.Second, 10*time.Minute)},
		{flag: "publish-interval", help: "least time between two writes of telemetry to the GPUNode",
			set: duration(&c.Agent.PublishInterval, time.Second, 2*time.Minute)},
		{flag: "heartbeat-interval", help: "time after which telemetry is written though nothing moved, up to a quarter more; by it others see that the agent lives",
			set: duration(&c.Agent.HeartbeatInterval, time.Second, 10*time.Minute)},
		{flag: "hot-celsius", help: "temperature from which a GPU counts as hot; 0 for never",
			set: number(&c.Agent.Health.HotCelsius, 0, 200)},
		{flag: "hot-for", help: "how long a GPU must be hot before it is degraded", set: duration(&c.Agent.Health.HotFor, 0, 24*time.Hour)},
		{flag: "throttled-for", help: "how long the hardware must hold clocks down before a GPU is degraded",
			set: duration(&c.Agent.Health.ThrottledFor, 0, 24*time.Hour)},
		{flag: "silent-for", help: "how long the driver may not answer before a GPU is degraded",
			set: duration(&c.Agent.Health.SilentFor, 0, 24*time.Hour)},
		{flag: "quiet-percent", help: "scale of the quiet times after which a GPU is healthy again",
			set: number(&c.Agent.Health.QuietPercent, 0, 10000)},
		{flag: "blame-tenants", help: "namespaces whose application errors within an hour make a GPU suspect",
			set: number(&c.Agent.Health.Tenants, 2, 4)},
		{flag: "xid", help: "corrections of the table of driver errors, such as 109=RESET_GPU,31=IGNORE",
			set: c.Agent.Health.Table.Override},
		{flag: "ignore-causes", help: "causes that never make a GPU unhealthy, such as PCIeNarrow,Hot", set: c.setDisabled},
		{flag: "dra", boolean: true, help: "publish the node's GPUs as ResourceSlices, and prepare ResourceClaims for kubelet",
			set: boolean(&c.Agent.DRA)},
		{flag: "reset", boolean: true, help: "reset GPUs that need it, that no process uses and no container holds; needs CAP_SYS_ADMIN on the node",
			set: boolean(&c.Agent.Reset)},
	}
}

// Bounds.
const (
	maxShares      = 48   // clients of one MPS server
	maxMPSReplicas = 48   // likewise
	maxReplicas    = 1000 // of GPUNode
)

// The kinds of values: each sets what it points to.

func choice[T ~string](to *T, values ...T) func(string) error {
	return func(text string) error {
		if !slices.Contains(values, T(text)) {
			return unknownChoice(text, values...)
		}
		*to = T(text)
		return nil
	}
}

func unknownChoice[T ~string](text string, values ...T) error {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return fmt.Errorf("%q: want %s or %s", strictyaml.Clip(text), strings.Join(words[:len(words)-1], ", "), words[len(words)-1])
}

func boolean(to *bool) func(string) error {
	return parsed(to, strconv.ParseBool, func(bool) bool { return true }, "true or false")
}

func number(to *int, least, most int) func(string) error {
	return parsed(to, strconv.Atoi, func(v int) bool { return v >= least && v <= most }, fmt.Sprintf("a number from %d to %d", least, most))
}

func duration(to *time.Duration, least, most time.Duration) func(string) error {
	return parsed(to, time.ParseDuration, func(v time.Duration) bool { return v >= least && v <= most },
		fmt.Sprintf("a duration such as 30s, from %s to %s", least, most))
}

// parsed is a value that parse reads and that is valid; want says what it may be.
func parsed[T any](to *T, parse func(string) (T, error), valid func(T) bool, want string) func(string) error {
	return func(text string) error {
		v, err := parse(text)
		if err != nil || !valid(v) {
			return fmt.Errorf("%q: want %s", strictyaml.Clip(text), want)
		}
		*to = v
		return nil
	}
}

// absolute is a path; an empty text leaves what was there.
func absolute(to *string) func(string) error {
	return func(text string) error {
		if text == "" {
			return nil
		}
		if !path.IsAbs(text) || strings.ContainsRune(text, 0) {
			return fmt.Errorf("%q: want a path that begins with /", strictyaml.Clip(text))
		}
		*to = path.Clean(text)
		return nil
	}
}

// setServe takes true for mode serve; false changes nothing.
func (c *Config) setServe(text string) error {
	var yes bool
	if err := boolean(&yes)(text); err != nil || !yes {
		return err
	}
	c.Agent.Mode = Serve
	return nil
}

// setDeviceList takes one strategy; the NVIDIA plugin takes several, and a container
// would get its devices by each of them.
func (c *Config) setDeviceList(text string) error {
	var chosen DeviceListStrategy
	for word := range strings.SplitSeq(text, ",") {
		switch s := DeviceListStrategy(strings.TrimSpace(word)); s {
		case EnvVar, VolumeMounts, CDICRI:
			if chosen != "" && chosen != s {
				return fmt.Errorf("%q: want one strategy; cdi-cri goes before the others", strictyaml.Clip(text))
			}
			chosen = s
		case "cdi-annotations":
			return errors.New(`"cdi-annotations": kubelet passes CDI devices on by itself today; want cdi-cri`)
		default:
			return unknownChoice(word, CDICRI, EnvVar, VolumeMounts)
		}
	}
	c.Flags.DeviceListStrategy = chosen
	return nil
}

// setChannels takes nothing or 0: kubelet has no other way to divide channels.
func (c *Config) setChannels(text string) error {
	c.IMEX.Channels = nil
	switch strings.Trim(text, "[] ") {
	case "":
	case "0":
		c.IMEX.Channels = []int{0}
	default:
		return fmt.Errorf("%q: want 0 or nothing", strictyaml.Clip(text))
	}
	return nil
}

func (c *Config) setDisabled(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			c.Agent.Health.Disabled = append(c.Agent.Health.Disabled, health.Code(word))
		}
	}
	return c.Agent.Health.Validate()
}
