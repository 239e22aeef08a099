package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/score"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/observe"
	"github.com/tangram-dev/tangram/internal/kube/report"
	"github.com/tangram-dev/tangram/internal/kube/watch"
)

// TestQueueArgs: what GPUQueue's arguments change, and what they may not say.
func TestQueueArgs(t *testing.T) {
	read := func(text string) (engine.Options, error) {
		var args QueueArgs
		o := engine.DefaultOptions()
		err := decodeArgs(&runtime.Unknown{Raw: []byte(text)}, &args)
		if err != nil {
			return o, err
		}
		change, err := args.options()
		if err == nil {
			change(&o)
		}
		return o, err
	}
	o, err := read(`{"reservations": 3, "patience": "90m", "backfill": false, "preemption": false}`)
	if err != nil || o.Reservations != 3 || o.Patience != 90*time.Minute || o.Backfill || o.Preempt {
		t.Errorf("got %+v, %v", o, err)
	}
	if o, err := read(`{}`); err != nil || o.Reservations != 1 || o.Patience != 6*time.Hour || !o.Backfill || !o.Preempt {
		t.Errorf("by default %+v, %v", o, err)
	}
	for text, want := range map[string]string{
		`{"reservations": -1}`: "reservations: -1", `{"patience": "-1h"}`: `patience: "-1h"`, `{"patience": "soon"}`: `patience: "soon"`, `{"reserve": 1}`: "reserve",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	// One queue: who says nothing says the same.
	profiles := []config.KubeSchedulerProfile{{SchedulerName: "a"}, {SchedulerName: "b", PluginConfig: []config.PluginConfig{{Name: names.PluginQueue, Args: &runtime.Unknown{}}}}}
	shareQueueArgs(profiles)
	if len(profiles[0].PluginConfig) != 1 || profiles[0].PluginConfig[0].Args != profiles[1].PluginConfig[0].Args || len(profiles[1].PluginConfig) != 1 {
		t.Errorf("got %+v", profiles)
	}
}

func TestArgs(t *testing.T) {
	raw := func(text string) *runtime.Unknown { return &runtime.Unknown{Raw: []byte(text)} }
	var s ScoreArgs
	if err := decodeArgs(raw(`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"GPUScoreArgs","weights":{"utilization":40,"typeMatch":30,"topology":30}}`), &s); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Settings(); err != nil || got.Weights != (score.Weights{40, 30, 30}) {
		t.Errorf("three-weight form: got %v, %v", got, err)
	}
	if err := decodeArgs(nil, &s); err != nil {
		t.Errorf("no args: %v", err)
	}
	for name, text := range map[string]string{"unknown": `{"weight":{}}`, "nested": `{"weights":{"x":1}}`, "placements": `{"placements":{"queue":{}}}`, "tenants": `{"tenants":{"queues":{}}}`, "type": `{"weights":[]}`, "empty": ``} {
		var args ScoreArgs
		err := decodeArgs(raw(text), &args)
		if err == nil {
			_, err = args.Settings()
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTopologyLevels(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                    "",
		`{"topologyLevels":[]}`: "",
		`{"topologyLevels":[{"name":"row","label":"example.com/row"}]}`:                                       "",
		`{"topologyLevels":[{"name":"numa","label":"x"}]}`:                                                    `topologyLevels[0].name: "numa" is a word for devices of one node`,
		`{"topologyLevels":[{"name":"a","label":"x"},{"name":"a","label":"y"}]}`:                              `topologyLevels[1].name: "a" is also the name of [0]`,
		`{"topologyLevels":[{"name":"a"}]}`:                                                                   "topologyLevels[0].label: empty",
		`{"topologyLevels":[{"name":"a","label":"no label"}]}`:                                                `topologyLevels[0].label: "no label": name part must`,
		`{"topologyLevels":[{"name":"a","key":"x"}]}`:                                                         `args: unknown field "topologyLevels[0].key"`,
		`{"topologyLevels":[` + strings.Repeat(`{"name":"a","label":"x"},`, 8) + `{"name":"a","label":"x"}]}`: "topologyLevels: 9 levels, at most 8",
	} {
		var args FilterArgs
		err := decodeArgs(&runtime.Unknown{Raw: []byte(text)}, &args)
		if err == nil {
			_, err = args.levels()
		}
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestProfilesShareLevels: there is one tree of domains, so profiles must agree.
func TestProfilesShareLevels(t *testing.T) {
	gpuNodes := cachetesting.NewFakeControllerSource()
	defer gpuNodes.Shutdown()
	e, err := kubeengine.New(kubeengine.Config{Factory: informers.NewSharedInformerFactory(fake.NewClientset(), 0), Sources: watch.Sources{GPUNodes: gpuNodes}, Observer: observe.New(), Reporter: func(report.Complaint) {}})
	if err != nil {
		t.Fatal(err)
	}
	s := NewShared(watch.Sources{})
	s.engine = e
	row, rack := &[]LevelArgs{{"row", "example.com/row"}}, &[]LevelArgs{{"rack", "example.com/rack"}}
	for _, tt := range []struct {
		profile string
		levels  *[]LevelArgs
		wantErr string
	}{
		{"a", nil, ""},
		{"b", row, ""},
		{"c", row, ""},
		{"d", nil, ""},
		{"e", rack, `topologyLevels: other levels than in profile "b", and the scheduler has one tree of domains`},
		{"f", &[]LevelArgs{}, `topologyLevels: other levels than in profile "b", and the scheduler has one tree of domains`},
	} {
		err := s.setLevels(tt.profile, &FilterArgs{TopologyLevels: tt.levels})
		if (err == nil) != (tt.wantErr == "") || err != nil && err.Error() != tt.wantErr {
			t.Errorf("%s: got %v, want %q", tt.profile, err, tt.wantErr)
		}
	}
	if got := e.Levels(); len(got) != 1 || got[0].Name != "row" {
		t.Errorf("got %v", got)
	}
	for _, tt := range []struct {
		profile string
		age     time.Duration
		wantErr string
	}{
		{"a", 0, ""}, {"b", 10 * time.Minute, ""}, {"c", 600 * time.Second, ""}, {"d", 0, ""},
		{"e", 20 * time.Minute, `telemetryMaxAge: 20m0s, but 10m0s in profile "b", and there is one for all`},
	} {
		err := s.setTelemetryMaxAge(tt.profile, tt.age)
		if (err == nil) != (tt.wantErr == "") || err != nil && err.Error() != tt.wantErr {
			t.Errorf("%s: got %v, want %q", tt.profile, err, tt.wantErr)
		}
	}
}

// load reads a configuration as the scheduler does and completes its profiles.
func load(t *testing.T, text string) *config.KubeSchedulerConfiguration {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := options.LoadConfigFromFile(klog.Background(), file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Profiles {
		Complete(&cfg.Profiles[i])
	}
	return cfg
}

// points builds a profile's framework and says what runs at each point.
func points(t *testing.T, p *config.KubeSchedulerProfile) *config.Plugins {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	metrics.Register() // the framework counts from the start
	registry := frameworkruntime.Registry{}
	stub := func(name string) frameworkruntime.PluginFactory {
		return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			switch name {
			case names.PluginFilter:
				return &filter{}, nil
			case names.PluginScore:
				return &scorer{}, nil
			case names.PluginReserve:
				return &reserve{}, nil
			case names.PluginBind:
				return &bind{}, nil
			case names.PluginQueue:
				return &queue{}, nil
			case names.PluginGang:
				return &gang{}, nil
			case "DefaultBinder":
				return &otherBinder{}, nil
			case "PrioritySort":
				return &sorter{nothing{name}}, nil
			}
			return &nothing{name}, nil
		}
	}
	seen := map[string]bool{}
	for _, set := range []config.PluginSet{p.Plugins.MultiPoint, p.Plugins.Filter, p.Plugins.Score, p.Plugins.Bind} {
		for _, e := range set.Enabled {
			if !seen[e.Name] {
				seen[e.Name] = true
				registry[e.Name] = stub(e.Name)
			}
		}
	}
	p = p.DeepCopy()
	p.PluginConfig = nil
	f, err := frameworkruntime.NewFramework(ctx, registry, p)
	if err != nil {
		t.Fatal(err)
	}
	return f.ListPlugins()
}

type nothing struct{ name string }

func (n *nothing) Name() string { return n.name }

type sorter struct{ nothing }

func (*sorter) Less(fwk.QueuedPodInfo, fwk.QueuedPodInfo) bool { return false }

type otherBinder struct{}

func (*otherBinder) Name() string                                                      { return "DefaultBinder" }
func (*otherBinder) Bind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

func TestComplete(t *testing.T) {
	cfg := load(t, `
profiles:
- schedulerName: seed
  plugins:
    filter: {enabled: [{name: GPUFilter}]}
    score: {enabled: [{name: GPUScore, weight: 7}]}
- schedulerName: stock
- schedulerName: choosy
  plugins:
    multiPoint: {enabled: [{name: GPUFilter}], disabled: [{name: GPUScore}]}
`)
	enabled := func(s config.PluginSet, name string) (int, int32) {
		for i, p := range s.Enabled {
			if p.Name == name {
				return i, p.Weight
			}
		}
		return -1, 0
	}
	seed := points(t, &cfg.Profiles[0])
	for _, tt := range []struct {
		point string
		set   config.PluginSet
		name  string
		first bool
	}{
		{"preFilter", seed.PreFilter, names.PluginFilter, false},
		{"filter", seed.Filter, names.PluginFilter, true},
		{"preScore", seed.PreScore, names.PluginScore, false},
		{"score", seed.Score, names.PluginScore, false},
		{"reserve", seed.Reserve, names.PluginReserve, false},
		{"bind", seed.Bind, names.PluginBind, true},
		{"queueSort", seed.QueueSort, names.PluginQueue, true},
		{"preEnqueue", seed.PreEnqueue, names.PluginQueue, false},
		{"permit", seed.Permit, names.PluginGang, false},
	} {
		if at, _ := enabled(tt.set, tt.name); at < 0 || tt.first && at > 0 {
			t.Errorf("%s: %s is at position %d of %v", tt.point, tt.name, at, tt.set.Enabled)
		}
	}
	if _, weight := enabled(seed.Score, names.PluginScore); weight != 7 {
		t.Errorf("the configured weight was lost: %d", weight)
	}
	if stock := points(t, &cfg.Profiles[1]); len(stock.Filter.Enabled) != 0 || stock.Bind.Enabled[0].Name != "DefaultBinder" {
		t.Errorf("a profile without our plugins was changed: %+v", stock.Bind)
	}
	for i, want := range []bool{true, false, true} {
		ignores := false
		for _, c := range cfg.Profiles[i].PluginConfig {
			if args, ok := c.Args.(*config.NodeResourcesFitArgs); ok {
				ignores = slices.Contains(args.IgnoredResources, "nvidia.com/mig-1g.10gb") && slices.Contains(args.IgnoredResources, names.ResourceGPUMemory)
			}
		}
		if ignores != want {
			t.Errorf("%s: NodeResourcesFit ignores what Tangram counts: %v, want %v", cfg.Profiles[i].SchedulerName, ignores, want)
		}
	}
	if at, _ := enabled(points(t, &cfg.Profiles[2]).Score, names.PluginScore); at >= 0 {
		t.Error("a disabled plugin was enabled")
	}
}

func TestPlain(t *testing.T) {
	tests := []struct {
		name   string
		change func(*v1.Pod)
		want   bool
	}{
		{"nothing", func(*v1.Pod) {}, true},
		{"required affinity", func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{}}}
		}, true},
		{"hard spread", func(p *v1.Pod) {
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{WhenUnsatisfiable: v1.DoNotSchedule}}
		}, true},
		{"soft spread", func(p *v1.Pod) {
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{WhenUnsatisfiable: v1.ScheduleAnyway}}
		}, false},
		{"preferred node", func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: make([]v1.PreferredSchedulingTerm, 1)}}
		}, false},
		{"preferred neighbour", func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: make([]v1.WeightedPodAffinityTerm, 1)}}
		}, false},
		{"unloved neighbour", func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: make([]v1.WeightedPodAffinityTerm, 1)}}
		}, false},
		// A nomination decides nothing: victims, and the place they leave, are the engine's.
		{"nominated", func(p *v1.Pod) { p.Status.NominatedNodeName = "n" }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &v1.Pod{}
			tt.change(p)
			if got := plain(p); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestDefaultConfiguration: without --config our own defaults are used.
func TestDefaultConfiguration(t *testing.T) {
	text, err := os.ReadFile("../../../config/scheduler.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := NewShared(watch.Sources{})
	s.defaults = text
	cfg, err := s.loadConfig(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Profiles[0].SchedulerName != names.SchedulerName || cfg.LeaderElection.ResourceName != names.SchedulerName {
		t.Errorf("got %s, lease %s", cfg.Profiles[0].SchedulerName, cfg.LeaderElection.ResourceName)
	}
	profiles := map[string]bool{}
	for _, p := range cfg.Profiles {
		profiles[p.SchedulerName] = uses(p.Plugins)
	}
	for _, name := range []string{names.SchedulerName, names.VolcanoSchedulerName, names.KAISchedulerName, names.KoordSchedulerName, names.HAMiSchedulerName, names.CustomSchedulerName, "scheduler-plugins-scheduler"} {
		if !profiles[name] {
			t.Errorf("profile %s is missing, or does not use the plugins", name)
		}
	}
}

// TestEventsStandBack: while a binding is under way an event waits its patience
// out; when it ends, the event goes at once.
func TestEventsStandBack(t *testing.T) {
	y := newYielding()
	if !y.TryAccept() {
		t.Error("nothing binds: an event need not wait")
	}
	y.bindingStarts()
	y.bindingStarts()
	y.bindingEnds()
	if y.TryAccept() {
		t.Error("a binding is under way")
	}
	passed := make(chan error, 1)
	go func() { passed <- y.Wait(context.Background()) }()
	for y.backlog() == 0 {
		time.Sleep(time.Millisecond)
	}
	y.bindingEnds()
	if err := <-passed; err != nil {
		t.Error(err)
	}
	y.bindingStarts()
	if err := y.Wait(context.Background()); err != nil { // patience ends, too
		t.Error(err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	y.turn <- struct{}{}
	if err := y.Wait(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := y.backlog(); n != 0 {
		t.Errorf("%d events still wait", n)
	}
}
