package migrate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/kube/controller/blueprint"
)

func checkText(text string) *CheckReport { return Check([]Input{{Name: "f", Data: []byte(text)}}) }

const checked = `apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: train
  annotations: {volcano.sh/sla-waiting-time: 1h}
spec:
  schedulerName: volcano
  minAvailable: 2
  plugins: {svc: [], mpi: ["--master=m"]}
  colour: blue
  tasks:
  - replicas: 2
    name: w
    topologyPolicy: best-effort
    template:
      metadata:
        labels: {volcano.sh/preemptable: "true", tangram.dev/gang-sice: "2"}
        annotations: {nvidia.com/use-gputype: A100}
      spec:
        containers:
        - name: c
          resources: {limits: {volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 1000, nvidia.com/hostdev: 1}}
---
apiVersion: v1
kind: Pod
metadata:
  name: half
  namespace: ml
  labels: {kai.scheduler/queue: q, project: p}
  annotations: {gpu-fraction: "1.5", gpu-memory.limit: "3", mps: "true"}
spec:
  schedulerName: runai-scheduler
  containers: [{name: c}]
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: f}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: q}
spec: {weight: 0, capability: {nvidia.com/gpu: 3}, dequeueStrategy: fifo}
`

func TestCheck(t *testing.T) {
	r := checkText(checked)
	if len(r.Problems) > 0 || r.Objects != 4 {
		t.Errorf("%d objects, problems %v", r.Objects, r.Problems)
	}
	var have []string
	for _, f := range r.Findings {
		have = append(have, fmt.Sprintf("%d %s %s %s", f.Line, f.Object, f.Field, f.What))
		if f.Do == "" || f.System == "" || f.File != "f" {
			t.Errorf("%+v", f)
		}
	}
	want := []string{
		"5 Job/train metadata.annotations[volcano.sh/sla-waiting-time] unknown",
		"9 Job/train spec.plugins.mpi no effect",
		"10 Job/train spec.colour unknown",
		"14 Job/train spec.tasks[0].topologyPolicy no effect",
		"17 Job/train spec.tasks[0].template.metadata.labels[volcano.sh/preemptable] unknown",
		"17 Job/train spec.tasks[0].template.metadata.labels[tangram.dev/gang-sice] unknown",
		"22 Job/train spec.tasks[0].template.spec.containers[0].resources.limits[nvidia.com/hostdev] unknown",
		"30 Pod/ml/half metadata.annotations[gpu-memory.limit] refused",
		"30 Pod/ml/half metadata.annotations[mps] unknown",
		"32 Pod/ml/half spec.schedulerName unknown",
		"30 Pod/ml/half metadata.annotations[gpu-fraction] invalid",
		"35 JobFlow/f kind unknown",
		"42 Queue/q spec.dequeueStrategy no effect",
		"42 Queue/q spec.weight invalid",
	}
	slices.Sort(have)
	slices.Sort(want)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	if r.Known["volcano"] < 8 || r.Known["kai"] < 2 || r.Known["hami"] != 1 {
		t.Errorf("known: %v", r.Known)
	}
	if i := slices.IndexFunc(r.Findings, func(f Finding) bool { return strings.Contains(f.Field, "sice") }); i < 0 || !strings.Contains(r.Findings[i].Do, "did you mean tangram.dev/gang-size?") {
		t.Errorf("no suggestion for a typing error")
	}
}

// TestDefaults: what definitions set on every object is nothing to report.
func TestDefaults(t *testing.T) {
	r := checkText("apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\nspec: {weight: 1, dequeueStrategy: traverse}\n")
	if len(r.Findings) > 0 {
		t.Errorf("%v", r.Findings)
	}
}

// TestEveryWordIsKnown: what a vocabulary reads is never called unknown, whatever its place.
func TestEveryWordIsKnown(t *testing.T) {
	for _, w := range dialect.Words() {
		if w.Effect != dialect.Reads && w.Effect != dialect.Writes {
			continue
		}
		name := strings.Replace(w.Name, "*", "x", 1)
		manifest := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n"
		switch w.Kind {
		case dialect.Label:
			manifest += "  labels: {kai.scheduler/queue: q, " + name + ": x}\n"
		case dialect.Annotation:
			manifest += "  labels: {kai.scheduler/queue: q}\n  annotations: {" + name + ": x}\n"
		}
		if name == "kai.scheduler/queue" {
			manifest = strings.Replace(manifest, ", kai.scheduler/queue: x", "", 1)
		}
		manifest += "spec:\n  containers: [{name: c, resources: {limits: {"
		if w.Kind == dialect.Resource {
			manifest += name + ": 1"
		}
		manifest += "}}}]\n"
		r := checkText(manifest)
		if len(r.Problems) > 0 {
			t.Errorf("%s: %v", name, r.Problems)
		}
		for _, f := range r.Findings {
			if f.What == Unknown && strings.Contains(f.Field, "["+name+"]") {
				t.Errorf("%s %s is called unknown: %s", w.Kind, name, f.Do)
			}
		}
	}
}

// TestAdviceIsAboutUnknownWords: advice about a word that is known would never be given.
func TestAdviceIsAboutUnknownWords(t *testing.T) {
	for _, a := range advice {
		kinds, name, _ := strings.Cut(a.path, "/")
		if strings.HasSuffix(a.path, "*") {
			continue
		}
		for kind := range strings.SplitSeq(kinds, "|") {
			if w, ok := dialect.FindWord(dialect.WordKind(kind), name); ok && !strings.Contains(w.Name, "*") {
				t.Errorf("%s %s is known (%s)", kind, name, w.Effect)
			}
		}
	}
	for _, k := range dialect.KnownKinds() {
		of := k.Group + "/" + k.Kind
		if do := advise("kind/" + of); do != "" && k.Group != "kueue.x-k8s.io" { // of which Topologies are read
			t.Errorf("kind %s is read, and advice says %q", of, do)
		}
		for _, path := range k.Fields {
			if do := advise("field/" + of + "/" + path); do != "" {
				t.Errorf("field %s of %s is read, and advice says %q", path, of, do)
			}
		}
	}
}

// TestVolcanoTypes: every field of Volcano's Job, PodGroup and Queue is known, or there is
// advice about it: a newer version of its types fails here.
func TestVolcanoTypes(t *testing.T) {
	for _, x := range []struct {
		group, kind string
		spec        any
	}{
		{"batch.volcano.sh", "Job", batch.JobSpec{}},
		{"scheduling.volcano.sh", "PodGroup", scheduling.PodGroupSpec{}},
		{"scheduling.volcano.sh", "Queue", scheduling.QueueSpec{}},
	} {
		at := slices.IndexFunc(dialect.KnownKinds(), func(k dialect.KnownKind) bool { return k.Group == x.group && k.Kind == x.kind })
		k := dialect.KnownKinds()[at]
		fields := 0
		var walk func(typ reflect.Type, path string)
		walk = func(typ reflect.Type, path string) {
			if k.Knows(path) || k.Knows(path+".x") || advise("field/"+x.group+"/"+x.kind+"/"+path) != "" || advise("field/"+x.group+"/"+x.kind+"/"+path+".x") != "" {
				fields++
				return
			}
			for typ.Kind() == reflect.Pointer {
				typ = typ.Elem()
			}
			switch {
			case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct:
				walk(typ.Elem(), path+"[]")
			case typ.Kind() == reflect.Struct && strings.Contains(typ.PkgPath(), "volcano.sh"):
				for i := range typ.NumField() {
					name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
					walk(typ.Field(i).Type, path+"."+name)
				}
			case path == "spec.plugins":
			default:
				t.Errorf("%s: field %s is neither known nor is there advice about it", x.kind, path)
			}
		}
		walk(reflect.TypeOf(x.spec), "spec")
		if fields < 7 {
			t.Errorf("%s: %d fields seen", x.kind, fields)
		}
	}
}

// TestVolcanoPlugins: the plugins of Jobs that are called known are those of gpu-controller.
func TestVolcanoPlugins(t *testing.T) {
	k := dialect.KnownKinds()[slices.IndexFunc(dialect.KnownKinds(), func(k dialect.KnownKind) bool { return k.Kind == "Job" })]
	for _, name := range []string{"svc", "env", "ssh", "pytorch", "tensorflow", "mpi", "ray", "hcclrank"} {
		if got := k.Knows("spec.plugins." + name); got != slices.Contains(blueprint.PluginNames(), name) {
			t.Errorf("plugin %s: known is %v, gpu-controller has %v", name, got, blueprint.PluginNames())
		}
	}
}

// TestCheckPlaces: a resource that is written as an annotation, or the other way round, is
// named with its place.
func TestCheckPlaces(t *testing.T) {
	r := checkText(`apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {volcano.sh/vgpu-number: "1"}}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/use-gputype: 1, volcano.sh/gpu-index: 1}}}]}
`)
	var have []string
	for _, f := range r.Findings {
		have = append(have, f.Field+" "+f.What+": "+f.Do)
	}
	slices.Sort(have)
	want := []string{
		"metadata.annotations[volcano.sh/vgpu-number] unknown: known as a resource, not as an annotation: write it there",
		"spec.containers[0].resources.limits[nvidia.com/use-gputype] unknown: known as an annotation, not as a resource: write it there",
		"spec.containers[0].resources.limits[volcano.sh/gpu-index] unknown: known as an annotation, not as a resource: write it there",
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}

func TestCheckProblems(t *testing.T) {
	for text, want := range map[string]string{
		"a: b": "f:1: not an object",
		"a: [": "f:1: not YAML",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: [1]}]}": "f:1: not a pod",
	} {
		r := checkText(text)
		if len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0].Error(), want) {
			t.Errorf("%q: %v, want %s", text, r.Problems, want)
		}
	}
	deep := "apiVersion: v1\nkind: Pod\nx: " + strings.Repeat("[", 300) + strings.Repeat("]", 300)
	if r := checkText(deep); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, "deep") {
		t.Errorf("deep: %v", r.Problems)
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'j'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Trim(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	if r := checkText("apiVersion: v1\nkind: Pod\n" + bomb); len(r.Problems) != 1 {
		t.Errorf("aliases: %v", r.Problems)
	}
}
