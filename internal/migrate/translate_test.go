package migrate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// read translates files of testdata.
func read(t *testing.T, o Options, files ...string) *Report {
	t.Helper()
	var in []Input
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		in = append(in, Input{Name: name, Data: data})
	}
	return Translate(in, o)
}

// expect compares rows, written "field value: verdict counterpart", with what is wanted;
// a row that is not wanted is fine.
func expect(t *testing.T, r *Report, want ...string) {
	t.Helper()
	for _, p := range r.Problems {
		t.Errorf("problem: %s", p.Error())
	}
	var have []string
	for _, x := range r.Rows {
		have = append(have, strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", x.Field, x.Value, x.Verdict, x.Here)))
		if x.Line == 0 || x.File == "" || x.From == "" {
			t.Errorf("no place: %+v", x)
		}
		if x.Do == "" && (x.Verdict == None || x.Verdict == Differs) {
			t.Errorf("%s:%d %s: %s, and nothing says what to do", x.File, x.Line, x.Field, x.Verdict)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(want), func(w string) bool { return slices.Contains(have, w) })
	if len(missing) > 0 {
		t.Errorf("no rows\n%s\nin\n%s", strings.Join(missing, "\n"), strings.Join(have, "\n"))
	}
}

// configOf is the resulting configuration.
func configOf(t *testing.T, r *Report) map[string]any {
	t.Helper()
	text, err := r.Result.Config()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// argsOf are a plugin's arguments in the profile of a scheduler; nil without one.
func argsOf(t *testing.T, conf map[string]any, scheduler, plugin string) map[string]any {
	t.Helper()
	for _, p := range conf["profiles"].([]any) {
		profile := p.(map[string]any)
		if profile["schedulerName"] != scheduler {
			continue
		}
		for _, c := range profile["pluginConfig"].([]any) {
			if c.(map[string]any)["name"] == plugin {
				return c.(map[string]any)["args"].(map[string]any)
			}
		}
	}
	return nil
}

func TestVolcano(t *testing.T) {
	r := read(t, Options{}, "volcano-scheduler.conf")
	expect(t, r,
		"actions preempt: set GPUQueue.preemption: true",
		"actions (no reclaim): differs GPUQueue.preemption: true",
		"tiers[0].plugins[1].enablePreemptable false: always",
		"tiers[1].plugins[3].arguments.sla-waiting-time 1h30m: set GPUQueue.patience",
		"tiers[1].plugins[4].arguments.nodeaffinity.weight 5: set plugins.score: NodeAffinity",
		"tiers[1].plugins[5].arguments.binpack.weight 10: set GPUScore.volcano[binpack.weight]",
		"tiers[1].plugins[6].arguments.deviceshare.ScheduleWeight 10: set GPUScore.weights.utilization",
		"configurations[0].arguments.overcommit-factor 1.5: no counterpart",
	)
	conf := configOf(t, r)
	for _, scheduler := range []string{"gpu-scheduler", "volcano"} {
		if a := argsOf(t, conf, scheduler, "GPUQueue"); a["patience"] != "1h30m0s" || a["preemption"] != true {
			t.Errorf("%s: GPUQueue %v", scheduler, a)
		}
		score := argsOf(t, conf, scheduler, "GPUScore")
		if v := score["volcano"].(map[string]any); v["binpack.weight"] != 10.0 || v["binpack.resources.nvidia.com/gpu"] != 8.0 || score["weights"].(map[string]any)["utilization"] != 10.0 {
			t.Errorf("%s: GPUScore %v", scheduler, score)
		}
		if s := argsOf(t, conf, scheduler, "NodeResourcesFit")["scoringStrategy"].(map[string]any); s["type"] != "MostAllocated" {
			t.Errorf("%s: NodeResourcesFit %v", scheduler, s)
		}
	}
	values, err := r.Result.Values()
	if err != nil || !strings.Contains(string(values), "NodeAffinity") {
		t.Errorf("values: %s, %v", values, err)
	}
}

// TestVolcanoDefault: the configuration that Volcano installs evicts nothing, and packs.
func TestVolcanoDefault(t *testing.T) {
	r := Translate([]Input{{Name: "c", Data: []byte("actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: gang\n  - name: binpack\n")}}, Options{})
	expect(t, r, "actions (neither preempt nor reclaim): set GPUQueue.preemption: false")
	conf := configOf(t, r)
	if a := argsOf(t, conf, "volcano", "GPUQueue"); a["preemption"] != false {
		t.Errorf("GPUQueue %v", a)
	}
	if a := argsOf(t, conf, "volcano", "GPUScore"); a["volcano"].(map[string]any)["binpack.weight"] != 1.0 {
		t.Errorf("GPUScore %v", a["volcano"])
	}
}

func TestKAI(t *testing.T) {
	r := read(t, Options{}, "kai.yaml")
	expect(t, r,
		"spec.placementStrategy.gpu spread: set GPUScore.placement: spread",
		"spec.partitionLabelValue pool-a: differs label kai.scheduler/node-pool",
		"spec.plugins.minruntime.enabled false: no counterpart",
		"spec.actions (neither preempt nor reclaim): set GPUQueue.preemption: false",
		"spec.global.schedulerName my-kai: set profiles[].schedulerName",
		"spec.global.queueLabelKey team: no counterpart",
		"Queue/research : always Queue/research",
		"Queue/research spec.preemptMinRuntime, reclaimMinRuntime 10m0s: differs tangram.dev/min-runtime",
	)
	conf := configOf(t, r)
	if a := argsOf(t, conf, "my-kai", "GPUQueue"); a["preemption"] != false {
		t.Errorf("GPUQueue of my-kai: %v", a)
	}
	queues, err := r.Result.Queues()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"parent: org", "priority: 100", "weight: 2", `nvidia.com/gpu: "16"`, `cpu: "32"`, "memory: 61035Mi"} {
		if !strings.Contains(string(queues), want) {
			t.Errorf("queues have no %q:\n%s", want, queues)
		}
	}
}

func TestKAIConfigMap(t *testing.T) {
	r := read(t, Options{}, "kai-configmap.yaml")
	expect(t, r,
		"data.config.yaml.actions consolidation: no counterpart",
		"data.config.yaml.actions stalegangeviction: no counterpart",
		"data.config.yaml.tiers[0].plugins[2].arguments.gpu binpack: set GPUScore.placement: binpack",
	)
	if r.Rows[0].From != "kai" {
		t.Errorf("taken for %s", r.Rows[0].From)
	}
}

func TestHAMi(t *testing.T) {
	r := read(t, Options{}, "hami-values.yaml", "hami-device.yaml")
	expect(t, r,
		"resourcePriority nvidia.com/priority: no counterpart",
		"mluResourceName cambricon.com/vmlu: no counterpart",
		"scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy binpack: set GPUScore.placement: binpack",
		"scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy spread: differs hami.io/gpu-scheduler-policy",
		"devicePlugin.deviceSplitCount 10: differs agent.extraArgs: --shares-per-gpu=10",
		"devicePlugin.nodeConfiguration.config.nodeconfig[0].filterdevices.uuid [GPU-1]: differs GPUNode n1 spec.cordoned",
		"data.device-config.yaml.nvidia.defaultMemory 4096: no counterpart",
		"data.device-config.yaml.vnpus.configs[0] Ascend310P: always",
		"data.device-config.yaml.vnpus.configs[1] Ascend910B3: differs",
	)
	if a := argsOf(t, configOf(t, r), "hami-scheduler", "GPUScore"); a["placement"] != "binpack" {
		t.Errorf("placement %v", a["placement"])
	}
	if values, _ := r.Result.Values(); strings.Contains(string(values), "agent:") {
		t.Errorf("the agent is changed though HAMi's plugin stays:\n%s", values)
	}

	r = read(t, Options{Serve: true}, "hami-values.yaml")
	expect(t, r, "devicePlugin.deviceSplitCount 10: set agent.extraArgs: --shares-per-gpu=10")
	values, err := r.Result.Values()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mode: serve", "--shares-per-gpu=10", "--isolation=hami", "migStrategy: mixed", "driverRoot: /run/nvidia/driver"} {
		if !strings.Contains(string(values), want) {
			t.Errorf("values have no %q:\n%s", want, values)
		}
	}
}

func TestKueue(t *testing.T) {
	r := read(t, Options{}, "kueue.yaml")
	expect(t, r,
		"ClusterQueue/research : set Queue/research",
		"spec.cohortName org: set Queue spec.parent",
		"spec.fairSharing.weight 1.5: set Queue spec.weight",
		"spec.queueingStrategy StrictFIFO: differs GPUQueue.backfill: false",
		"spec.stopPolicy Hold: differs Command CloseQueue",
		"LocalQueue/team-a/user-queue : set annotation tangram.dev/namespaces of Queue/research",
	)
	text, err := r.Result.Queues()
	if err != nil {
		t.Fatal(err)
	}
	queues := map[string]map[string]any{}
	for _, doc := range strings.Split(string(text), "---\n") {
		var q map[string]any
		if err := yaml.UnmarshalStrict([]byte(doc), &q); err != nil {
			t.Fatal(err)
		}
		queues[q["metadata"].(map[string]any)["name"].(string)] = q
	}
	spec := func(name string) string { return fmt.Sprint(queues[name]["spec"]) }
	for name, want := range map[string]string{
		"org":      "map[capability:map[cpu:64 gpu.tangram.dev/a100:20 nvidia.com/gpu:28] weight:2]",
		"research": "map[capability:map[gpu.tangram.dev/a100:24 nvidia.com/gpu:24] deserved:map[cpu:64 gpu.tangram.dev/a100:16 nvidia.com/gpu:16] guarantee:map[resource:map[nvidia.com/gpu:6]] parent:org weight:3]",
		"batch":    "map[deserved:map[nvidia.com/gpu:8] parent:org reclaimable:true weight:2]",
	} {
		if spec(name) != want {
			t.Errorf("%s: %s, want %s", name, spec(name), want)
		}
	}
	if n := queues["research"]["metadata"].(map[string]any)["annotations"]; fmt.Sprint(n) != "map[tangram.dev/namespaces:team-a]" {
		t.Errorf("annotations of research: %v", n)
	}
}

// TestProblems: input that cannot be read, or that no table knows, is named by file, line and
// field.
func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		"actions: [":                  "f:1: not YAML: ",
		"actions: \"allocate, fly\"":  `f:1: actions: "fly" is not an action of Volcano`,
		"actions: {}":                 "f:1: actions: must be a list of actions",
		"actions: allocate\nspeed: 5": "f:2: speed: not a field of volcano-scheduler.conf",
		"actions: allocate\ntiers:\n- plugins:\n  - nam: gang":                                                      "f:4: tiers[0].plugins[0]: has no name",
		"actions: allocate\ntiers:\n- plugins:\n  - name: magic":                                                    `f:4: tiers[0].plugins[0].name: "magic" is not a plugin of Volcano`,
		"actions: allocate\ntiers:\n- plugins:\n  - {name: gang, x: 1}":                                             "f:4: tiers[0].plugins[0].x: not a field of a plugin",
		"actions: allocate\ntiers:\n- plugins:\n  - name: nodeorder\n    arguments: {nodeaffinity.weight: many}":    `f:5: tiers[0].plugins[0].arguments.nodeaffinity.weight: "many" is not a whole number`,
		"actions: allocate\ntiers:\n- plugins:\n  - name: sla\n    arguments: {sla-waiting-time: soon}":             `f:5: tiers[0].plugins[0].arguments.sla-waiting-time: "soon" is not a duration`,
		"actions: allocate\nactions: backfill":                                                                      "f:2: actions: is there twice",
		"color: blue":                                                                                               "f:1: neither volcano-scheduler.conf, KAI's configuration nor HAMi's values: it has color",
		"- a":                                                                                                       "f:1: a configuration is a mapping",
		"apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nspec:\n  wings: 2":                                    "f:4: spec.wings: not a field of a SchedulingShard",
		"apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nspec:\n  placementStrategy: {gpu: diagonal}":          `f:4: spec.placementStrategy.gpu: "diagonal" is not binpack or spread`,
		"apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: q}\nspec: {resources: {gpu: {quota: -7}}}": "f:1: spec.resources.gpu.quota: -7 is not an amount",
		"apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: q}\nspec:\n  magic: 1":            "f:5: spec.magic: not a field of a ClusterQueue",
		"apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: q}\nspec:\n  resourceGroups: [{flavors: [{name: a, resources: [{name: cpu, nominalQuota: lots}]}]}]": `f:5: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: "lots" is not an amount`,
		"devicePlugin: {deviceSplitCount: ten}": `f:1: devicePlugin.deviceSplitCount: "ten" is not a whole number`,
		"devicePlugin: {wings: 2}":              "f:1: devicePlugin.wings: not a value of HAMi's chart",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  volcano-scheduler.conf: |\n    actions: allocate\n    speed: 5": "f:7: data.volcano-scheduler.conf.speed: not a field",
		"a: &a [*a]": "f:",
	} {
		r := Translate([]Input{{Name: "f", Data: []byte(text)}}, Options{})
		if len(r.Problems) == 0 || !strings.HasPrefix(r.Problems[0].Error(), want) {
			t.Errorf("%q: %v, want %s", text, r.Problems, want)
		}
	}
	// Two inputs that contradict each other.
	r := Translate([]Input{{Name: "a", Data: []byte("actions: preempt")}, {Name: "b", Data: []byte("actions: allocate")}}, Options{From: "volcano"})
	if len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0].Error(), "b:1: actions: GPUQueue.preemption is set to another value") {
		t.Errorf("contradiction: %v", r.Problems)
	}
}

// TestSkipped: other objects are named.
func TestSkipped(t *testing.T) {
	r := Translate([]Input{{Name: "f", Data: []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}")}}, Options{})
	if len(r.Skipped) != 2 || len(r.Rows)+len(r.Problems) != 0 {
		t.Errorf("%+v", r)
	}
}

func FuzzTranslate(f *testing.F) {
	for _, name := range []string{"volcano-scheduler.conf", "kai.yaml", "kai-configmap.yaml", "hami-values.yaml", "hami-device.yaml", "kueue.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := Translate([]Input{{Name: "f", Data: data}}, Options{Serve: true})
		for _, out := range []func() ([]byte, error){r.Result.Config, r.Result.Values, r.Result.Queues} {
			if text, err := out(); err == nil {
				for _, doc := range strings.Split(string(text), "\n---\n") {
					var v any
					if err := yaml.Unmarshal([]byte(doc), &v); err != nil {
						t.Errorf("not YAML: %v\n%s", err, doc)
					}
				}
			}
		}
		Check([]Input{{Name: "f", Data: data}})
	})
}
