package recovery

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/core/recovery"
)

// Settings are the configuration file (docs/guides/recovery.md).
type Settings struct {
	// Intervals are the times between two looks.
	Intervals struct {
		Node      metav1.Duration `json:"node"`
		Device    metav1.Duration `json:"device"`
		Scheduler metav1.Duration `json:"scheduler"`
	} `json:"intervals"`
	Confirmations int `json:"confirmations"`
	// Limits bound what is isolated at once.
	Limits struct {
		NodesPercent   int `json:"nodesPercent"`
		DevicesPercent int `json:"devicesPercent"`
	} `json:"limits"`
	Isolate struct {
		Nodes   bool `json:"nodes"`
		Devices bool `json:"devices"`
	} `json:"isolate"`
	Evict struct {
		From       recovery.Evict `json:"from"`
		OverMemory bool           `json:"overMemory"`
		// Protected are namespaces whose pods only a maintenance moves.
		Protected []string `json:"protected"`
	} `json:"evict"`
	Agent struct {
		SilentFor metav1.Duration `json:"silentFor"`
		Restart   bool            `json:"restart"`
		// Namespace and Selector find the agents' pods.
		Namespace string `json:"namespace"`
		Selector  string `json:"selector"`
	} `json:"agent"`
	RecoverAfter metav1.Duration `json:"recoverAfter"`
	Verify       Verify          `json:"verify"`
	Backoff      struct {
		First metav1.Duration `json:"first"`
		Most  metav1.Duration `json:"most"`
	} `json:"backoff"`
	// Scheduler is the lease of the scheduler that is watched over.
	Scheduler struct {
		Namespace string `json:"namespace"`
		Lease     string `json:"lease"`
	} `json:"scheduler"`

	selector labels.Selector
}

// Verify is the test pod.
type Verify struct {
	// Image is what it runs; without one, the agent's word that the device is healthy is
	// enough.
	Image     string          `json:"image"`
	Command   []string        `json:"command"`
	Namespace string          `json:"namespace"`
	Timeout   metav1.Duration `json:"timeout"`
}

// Defaults are the settings without a file.
func Defaults() Settings {
	c := recovery.Defaults()
	var s Settings
	s.Intervals.Node.Duration, s.Intervals.Device.Duration, s.Intervals.Scheduler.Duration = c.NodeInterval, c.DeviceInterval, c.SchedulerInterval
	s.Confirmations = c.Confirmations
	s.Limits.NodesPercent, s.Limits.DevicesPercent = c.MaxNodesPercent, c.MaxDevicesPercent
	s.Isolate.Nodes, s.Isolate.Devices = c.IsolateNodes, c.IsolateDevices
	s.Evict.From, s.Evict.Protected = c.Evict, []string{"kube-system"}
	s.Agent.SilentFor.Duration, s.Agent.Restart, s.Agent.Selector = c.AgentSilentFor, c.RestartAgent, "app.kubernetes.io/name=gpu-agent"
	s.Agent.Namespace = "tangram-system"
	s.RecoverAfter.Duration = c.RecoverAfter
	s.Verify.Timeout.Duration, s.Verify.Namespace = c.VerifyTimeout, "tangram-system"
	s.Backoff.First.Duration, s.Backoff.Most.Duration = c.BackoffFirst, c.BackoffMost
	s.Scheduler.Namespace, s.Scheduler.Lease = "kube-system", "gpu-scheduler"
	s.selector = labels.SelectorFromSet(labels.Set{"app.kubernetes.io/name": "gpu-agent"})
	return s
}

// Parse reads a configuration file over the defaults. Errors name the field.
func Parse(file []byte) (Settings, error) {
	s := Defaults()
	text, err := yaml.YAMLToJSONStrict(file)
	if err != nil {
		return Settings{}, err
	}
	unknown, err := json.UnmarshalStrict(text, &s)
	if err = errors.Join(append(unknown, err)...); err != nil {
		return Settings{}, err
	}
	if err := s.config().Validate(); err != nil {
		return Settings{}, err
	}
	if s.selector, err = labels.Parse(s.Agent.Selector); err != nil {
		return Settings{}, fmt.Errorf("agent.selector: %w", err)
	}
	if s.selector.Empty() {
		return Settings{}, errors.New("agent.selector: empty, which would be every pod")
	}
	for field, name := range map[string]string{"agent.namespace": s.Agent.Namespace, "verify.namespace": s.Verify.Namespace, "scheduler.namespace": s.Scheduler.Namespace, "scheduler.lease": s.Scheduler.Lease} {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return Settings{}, fmt.Errorf("%s: %q: %s", field, name, problems[0])
		}
	}
	if len(s.Verify.Command) > 0 && s.Verify.Image == "" {
		return Settings{}, errors.New("verify.command: needs verify.image")
	}
	return s, nil
}

// config is what core needs of it.
func (s *Settings) config() recovery.Config {
	return recovery.Config{
		NodeInterval: s.Intervals.Node.Duration, DeviceInterval: s.Intervals.Device.Duration, SchedulerInterval: s.Intervals.Scheduler.Duration,
		Confirmations: s.Confirmations, MaxNodesPercent: s.Limits.NodesPercent, MaxDevicesPercent: s.Limits.DevicesPercent,
		IsolateNodes: s.Isolate.Nodes, IsolateDevices: s.Isolate.Devices, Evict: s.Evict.From, EvictOverMemory: s.Evict.OverMemory,
		AgentSilentFor: s.Agent.SilentFor.Duration, RestartAgent: s.Agent.Restart, RecoverAfter: s.RecoverAfter.Duration,
		Verify: s.Verify.Image != "", VerifyTimeout: s.Verify.Timeout.Duration,
		BackoffFirst: s.Backoff.First.Duration, BackoffMost: s.Backoff.Most.Duration,
	}
}

// tick is the time between two steps: intervals are for looks at all nodes and devices,
// while what is under way goes on with every step.
func (s *Settings) tick() time.Duration {
	least := min(s.Intervals.Node.Duration, s.Intervals.Device.Duration)
	return min(max(least/10, 100*time.Millisecond), 5*time.Second)
}
