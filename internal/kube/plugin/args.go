package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/json"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/scoring"
)

// FilterArgs are GPUFilter's arguments in a KubeSchedulerConfiguration.
type FilterArgs struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// GPUTypes are the GPU models this profile hands out, in any spelling
	// ("nvidia-tesla-v100", "A100-80GB"). Empty: all.
	GPUTypes []string `json:"gpuTypes,omitempty"`
	// TopologyLevels are the levels of domains across nodes, outermost first, each
	// told by a node label. Left out: zone, block, rack, clique. The scheduler has one
	// tree, so profiles that list levels must list the same.
	TopologyLevels *[]LevelArgs `json:"topologyLevels,omitempty"`
}

// LevelArgs is one level of domains.
type LevelArgs struct {
	Name  string `json:"name"`
	Label string `json:"label"`
}

// QueueArgs are GPUQueue's arguments in a KubeSchedulerConfiguration. There is one
// queue, so profiles that give them must give the same.
type QueueArgs struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// Reservations is how many gangs may have nodes kept for them at once. Left out: 1.
	Reservations *int `json:"reservations,omitempty"`
	// Patience is how long a gang waits before nodes are kept for it though it
	// is not known when they will be free. Left out: 6h.
	Patience string `json:"patience,omitempty"`
	// Backfill lets jobs pass those before them that do not fit. Left out: true.
	Backfill *bool `json:"backfill,omitempty"`
	// Preemption lets jobs take the place of others. Left out: true.
	Preemption *bool `json:"preemption,omitempty"`
	// ProtectedNamespaces are those whose pods are never evicted for others; pods of the
	// system-critical priority classes never are. Left out: kube-system.
	ProtectedNamespaces *[]string `json:"protectedNamespaces,omitempty"`
	// ReportEvery is how often the condition of a waiting pod is brought up to date at
	// most; the first time after a twentieth of it. Each is a write. Left out: 10s.
	ReportEvery string `json:"reportEvery,omitempty"`
	// Metrics say what metrics need to know: prices, targets, when a held GPU is idle.
	Metrics MetricsArgs `json:"metrics,omitempty"`
	// StepEvery, ShortestRun, Timeouts, Retries, Backoff and SelfCheck are how long and how
	// often the engine waits and tries: see settings.go for defaults and bounds.
	StepEvery   string        `json:"stepEvery,omitempty"`
	ShortestRun string        `json:"shortestRun,omitempty"`
	Timeouts    TimeoutArgs   `json:"timeouts,omitzero"`
	Retries     RetryArgs     `json:"retries,omitzero"`
	Backoff     BackoffsArgs  `json:"backoff,omitzero"`
	SelfCheck   SelfCheckArgs `json:"selfCheck,omitzero"`
	// State is where what was learned is kept for the next process.
	State StateArgs `json:"state,omitzero"`
	// Audit is the audit log of decisions.
	Audit AuditArgs `json:"audit,omitzero"`
	// Recording is of what the engine is told and decides.
	Recording RecordingArgs `json:"recording,omitzero"`
	// Autoscaling is about autoscalers of nodes.
	Autoscaling AutoscalingArgs `json:"autoscaling,omitzero"`
}

// AutoscalingArgs are about autoscalers of nodes.
type AutoscalingArgs struct {
	// Enabled: gpu-controller, with --autoscaling, is told for which domains nodes are
	// missing and which nodes are kept, and pods are marked with what autoscalers read.
	// Left out: false.
	Enabled  bool   `json:"enabled,omitempty"`
	Patience string `json:"patience,omitempty"`
	// PlaceholderNamespace is gpu-controller's --placeholder-namespace. Left out:
	// "tangram-system".
	PlaceholderNamespace string `json:"placeholderNamespace,omitempty"`
}

// TimeoutArgs are how long something may take.
type TimeoutArgs struct {
	Batch        string `json:"batch,omitempty"`
	Nudge        string `json:"nudge,omitempty"`
	Victims      string `json:"victims,omitempty"`
	AfterVictims string `json:"afterVictims,omitempty"`
	Reclaim      string `json:"reclaim,omitempty"`
	Terminating  string `json:"terminating,omitempty"`
	Contest      string `json:"contest,omitempty"`
	InvalidQueue string `json:"invalidQueue,omitempty"`
	Owner        string `json:"owner,omitempty"`
	NextRun      string `json:"nextRun,omitempty"`
}

// RetryArgs are how often something is tried.
type RetryArgs struct {
	Nudges   *int `json:"nudges,omitempty"`
	Bindings *int `json:"bindings,omitempty"`
}

// BackoffsArgs are pauses after something failed.
type BackoffsArgs struct {
	Start           BackoffArgs `json:"start,omitzero"`
	Veto            BackoffArgs `json:"veto,omitzero"`
	Outage          BackoffArgs `json:"outage,omitzero"`
	VetoEverywhere  string      `json:"vetoEverywhere,omitempty"`
	RefusedEviction string      `json:"refusedEviction,omitempty"`
	FutileEviction  string      `json:"futileEviction,omitempty"`
}

// BackoffArgs is a pause that doubles each time.
type BackoffArgs struct {
	Initial string `json:"initial,omitempty"`
	Max     string `json:"max,omitempty"`
}

// SelfCheckArgs are about the comparison of the ledger with the API.
type SelfCheckArgs struct {
	Every string `json:"every,omitempty"`
	Again string `json:"again,omitempty"`
	Nodes *int   `json:"nodes,omitempty"`
}

// StateArgs are about the ConfigMap that has what was learned.
type StateArgs struct {
	// Enabled: it is read when this process begins to lead, and written. Left out: true.
	Enabled *bool `json:"enabled,omitempty"`
	// Namespace and Name are the ConfigMap's. Left out: the namespace of the leader
	// election's lease, tangram-state.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Every     string `json:"every,omitempty"`
}

// RecordingArgs are about the recording of what the engine is told and decides, for `tangram
// replay`.
type RecordingArgs struct {
	// Megabytes is how much of it, the latest, is kept in memory and taken along by `tangram
	// dump`. Left out: 0, nothing is recorded.
	Megabytes int `json:"megabytes,omitempty"`
	// File has all of it, without a limit: for tests. Left out: there is none.
	File string `json:"file,omitempty"`
}

// maxRecording bounds a typing error, in megabytes.
const maxRecording = 4096

// AuditArgs are about the audit log.
type AuditArgs struct {
	// Path is the file; "-" is standard output. Left out: there is no audit log.
	Path       string `json:"path,omitempty"`
	MaxSizeMiB *int   `json:"maxSizeMiB,omitempty"`
	MaxFiles   *int   `json:"maxFiles,omitempty"`
	Buffer     *int   `json:"buffer,omitempty"`
}

// GangArgs are GPUGang's arguments in a KubeSchedulerConfiguration.
type GangArgs struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// PermitTimeout is how long a member waits at Permit for the others. Left out: 2m.
	PermitTimeout string `json:"permitTimeout,omitempty"`
}

// BindArgs are GPUBind's arguments in a KubeSchedulerConfiguration.
type BindArgs struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// RetryEvery and RetryFor are how often and how long a pod is read after a Binding
	// without an answer. Left out: 1s, 1m.
	RetryEvery string `json:"retryEvery,omitempty"`
	RetryFor   string `json:"retryFor,omitempty"`
}

// tuning checks the arguments that are durations and counts.
func (a *QueueArgs) tuning() (t tuning, err error) {
	if err := readAll(queueSettings(), a, &t); err != nil {
		return t, err
	}
	for _, b := range []struct {
		field string
		engine.Backoff
	}{{"backoff.start", t.core.Start}, {"backoff.veto", t.core.Veto}, {"backoff.outage", t.core.Suspend}, {"backoff.vetoEverywhere, backoff.veto", engine.Backoff{First: t.core.VetoEverywhere, Most: t.core.Veto.Most}}} {
		if b.First > b.Most {
			return t, fmt.Errorf("%s: the initial pause, %s, is above the longest, %s", b.field, b.First, b.Most)
		}
	}
	if problems := validation.IsDNS1123Subdomain(a.State.Name); a.State.Name != "" && len(problems) > 0 {
		return t, fmt.Errorf("state.name: %q: %s", a.State.Name, problems[0])
	}
	if problems := validation.IsDNS1123Label(a.State.Namespace); a.State.Namespace != "" && len(problems) > 0 {
		return t, fmt.Errorf("state.namespace: %q: %s", a.State.Namespace, problems[0])
	}
	return t, nil
}

// maxReservations bounds a typing error: each reservation keeps nodes idle.
const maxReservations = 1000

// options checks GPUQueue's arguments, and returns what they change.
func (a *QueueArgs) options() (func(*engine.Options), error) {
	if n := a.Reservations; n != nil && (*n < 0 || *n > maxReservations) {
		return nil, fmt.Errorf("reservations: %d, must be 0 to %d", *n, maxReservations)
	}
	patience, err := time.ParseDuration(cmp.Or(a.Patience, arbiter.DefaultAging.String()))
	if err != nil || patience <= 0 {
		return nil, fmt.Errorf("patience: %q is not a duration like 90m or 6h", a.Patience)
	}
	return func(o *engine.Options) {
		o.Reservations, o.Patience = ptr.Deref(a.Reservations, o.Reservations), patience
		o.Backfill, o.Preempt = ptr.Deref(a.Backfill, o.Backfill), ptr.Deref(a.Preemption, o.Preempt)
	}, nil
}

// reportEvery checks how often conditions are brought up to date.
func (a *QueueArgs) reportEvery() (time.Duration, error) {
	every, err := time.ParseDuration(cmp.Or(a.ReportEvery, report.Every.String()))
	if err != nil || every < time.Millisecond {
		return 0, fmt.Errorf("reportEvery: %q is not a duration like 10s, of a millisecond or more", a.ReportEvery)
	}
	return every, nil
}

// ScoreArgs are GPUScore's arguments in a KubeSchedulerConfiguration.
type ScoreArgs = scoring.Args

// models parses and checks GPUFilter's arguments.
func (a *FilterArgs) models() ([]model.GPUModel, error) {
	var out []model.GPUModel
	for i, name := range a.GPUTypes {
		m := model.ParseModel(name)
		if !m.Known() {
			return nil, fmt.Errorf("gpuTypes[%d]: %q does not name a GPU model", i, name)
		}
		out = append(out, m)
	}
	return out, nil
}

// levels checks GPUFilter's levels of domains; nil when it lists none.
func (a *FilterArgs) levels() (topology.Levels, error) {
	if a.TopologyLevels == nil {
		return nil, nil
	}
	out := topology.Levels{}
	for _, l := range *a.TopologyLevels {
		out = append(out, topology.Level{Name: l.Name, Label: l.Label})
	}
	if err := out.Validate(); err != nil {
		return nil, fmt.Errorf("topologyLevels%w", err)
	}
	for i, l := range out {
		if problems := validation.IsQualifiedName(l.Label); len(problems) > 0 {
			return nil, fmt.Errorf("topologyLevels[%d].label: %q: %s", i, l.Label, problems[0])
		}
	}
	return out, nil
}

// decodeArgs reads a plugin's arguments strictly: an unknown field is an error
// that names it. The scheduler hands over what it does not know as raw bytes,
// and nil when the configuration says nothing.
func decodeArgs(obj runtime.Object, into any) error {
	if obj == nil {
		return nil
	}
	raw, ok := obj.(*runtime.Unknown)
	if !ok {
		return fmt.Errorf("args: got %T", obj)
	}
	if len(raw.Raw) == 0 {
		return errors.New("args: empty")
	}
	// The bytes are JSON already, whatever the file was.
	unknown, err := json.UnmarshalStrict(raw.Raw, into)
	if err = errors.Join(append(unknown, err)...); err != nil {
		return fmt.Errorf("args: %w", err)
	}
	return nil
}
