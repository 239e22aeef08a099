package replica

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/query"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

const onePod = `
apiVersion: v1
kind: Pod
metadata:
  name: train
spec:
  schedulerName: gpu-scheduler
  containers:
  - name: main
    image: train:1
    resources:
      limits:
        nvidia.com/gpu: GPUS
`

func gpus(n string) string { return strings.ReplaceAll(onePod, "GPUS", n) }

func ask(t *testing.T, s *kubeengine.Snapshot, manifest string, see Sight) *query.WhatIf {
	t.Helper()
	out, err := stateOf(s).WhatIf(t.Context(), Question{Manifest: []byte(manifest), Sight: see})
	must(t, err)
	return out
}

// TestWhatIfNow: a pod that fits starts now, on a node and devices that are told.
func TestWhatIfNow(t *testing.T) {
	out := ask(t, world(1), gpus("2"), nil)
	if len(out.Gangs) != 1 || len(out.Refused) > 0 {
		t.Fatalf("got %+v", out)
	}
	g := out.Gangs[0]
	if g.Start.Known != query.StartsNow || !slices.Equal(g.Start.Nodes, []string{"n0"}) || len(g.Members) != 1 || g.Members[0].Node != "n0" || len(g.Members[0].Devices) != 2 || g.Reason != nil {
		t.Errorf("got %+v", g)
	}
	if g.Gang.Name != "train" || g.Gang.Namespace != "default" {
		t.Errorf("gang %+v", g.Gang)
	}
}

// TestWhatIfForecast: a pod that does not fit starts when what runs is expected to end; a
// pod that waits behind it is delayed.
func TestWhatIfForecast(t *testing.T) {
	s := world(1)
	s.Pods = []*v1.Pod{pod("a", 8, on("n0", 30*time.Minute), lasting("1h"))}
	out := ask(t, s, gpus("8"), nil)
	g := out.Gangs[0]
	if g.Start.Known != query.StartsForecast || g.Start.At == nil || g.Start.At.Sub(start) != 30*time.Minute || g.Reason == nil || g.Reason.Code == "" || len(g.Helps) == 0 {
		t.Fatalf("got %+v %+v", g.Start, g.Reason)
	}
	if !strings.Contains(g.Start.Because, "1 gang") || len(g.Members) != 1 || g.Members[0].Node != "n0" {
		t.Errorf("because %q, members %+v", g.Start.Because, g.Members)
	}
}

// TestWhatIfOverdue: a pod that should be gone by now holds up nothing.
func TestWhatIfOverdue(t *testing.T) {
	s := world(2)
	overdue := pod("late", 1, on("n1", time.Hour), lasting("2h"))
	at := metav1.NewTime(start.Add(-time.Second))
	overdue.DeletionTimestamp = &at
	s.Pods = []*v1.Pod{pod("a", 8, on("n0", 30*time.Minute), lasting("1h")), pod("b", 7, on("n1", 30*time.Minute), lasting("1h")), overdue}
	if g := ask(t, s, gpus("8"), nil).Gangs[0]; g.Start.Known != query.StartsForecast || g.Start.At.Sub(start) != 30*time.Minute {
		t.Errorf("got %+v", g.Start)
	}
}

// TestWhatIfUnknown: behind a pod whose runtime is not known no time is given.
func TestWhatIfUnknown(t *testing.T) {
	s := world(1)
	s.Pods = []*v1.Pod{pod("a", 8, on("n0", time.Hour))}
	if g := ask(t, s, gpus("8"), nil).Gangs[0]; g.Start.Known != query.StartsUnknown || g.Start.At != nil || !strings.Contains(g.Start.Because, "1 gang") {
		t.Errorf("got %+v", g.Start)
	}
	if g := ask(t, s, gpus("9"), nil).Gangs[0]; g.Start.Known != query.StartsNever || !g.Reason.Never {
		t.Errorf("got %+v", g.Start)
	}
}

// TestWhatIfInvalid: what only its owner or an administrator can change does not start by
// itself, however long what runs takes; and no command names an object that is not there.
func TestWhatIfInvalid(t *testing.T) {
	s := world(1)
	s.Pods = []*v1.Pod{pod("a", 8, on("n0", time.Hour))}
	for label, code := range map[string]string{`tangram.dev/gang: g, tangram.dev/gang-size: "x"`: "Invalid", "tangram.dev/queue: nowhere": "NoQueue"} {
		manifest := strings.Replace(gpus("1"), "metadata:\n", "metadata:\n  labels: {"+label+"}\n", 1)
		g := ask(t, s, manifest, nil).Gangs[0]
		if g.Reason.Code != code || g.Start.Known != query.StartsNever || g.Start.Because == "" || len(g.Helps) == 0 {
			t.Errorf("%s: %+v, %+v", label, g.Reason, g.Start)
		}
		for _, h := range g.Helps {
			if strings.Contains(h.Command, "train") {
				t.Errorf("%s: %q", label, h.Command)
			}
		}
	}
}

// TestWhatIfDisplaces: who has to go is told, by name to who may see it only.
func TestWhatIfDisplaces(t *testing.T) {
	s := world(1)
	class(s, "high", 1000)
	s.Pods = []*v1.Pod{pod("a", 8, on("n0", time.Hour), priorityOf(0))}
	manifest := strings.Replace(gpus("8"), "spec:\n", "spec:\n  priorityClassName: high\n", 1)
	g := ask(t, s, manifest, nil).Gangs[0]
	if len(g.Displaces) != 1 || g.Displaces[0].Name != "a" || g.Start.Known != query.StartsForecast || g.Start.At.Sub(start) != 30*time.Second {
		t.Errorf("got %+v", g)
	}
	s.Pods[0].Namespace = "other"
	g = ask(t, s, manifest, only("default")).Gangs[0]
	if len(g.Displaces) > 0 || g.DisplacesHidden != 1 || len(g.Start.Nodes) > 0 {
		t.Errorf("got %+v", g)
	}
}

// only sees one namespace, and no nodes.
type only string

func (o only) MayListPods(namespace string) bool { return namespace == string(o) }
func (only) MayListNodes() bool                  { return false }
func (only) MayListQueues() bool                 { return false }

// TestWhatIfForbidden: nothing is said about a namespace that the caller may not see.
func TestWhatIfForbidden(t *testing.T) {
	manifest := strings.Replace(gpus("1"), "metadata:\n", "metadata:\n  namespace: other\n", 1)
	_, err := stateOf(world(1)).WhatIf(t.Context(), Question{Manifest: []byte(manifest), Sight: only("default")})
	var e *query.Error
	if !errors.As(err, &e) || e.Status != 403 {
		t.Errorf("got %v", err)
	}
}

// TestWhatIfDelays: a gang of higher priority delays one that waits.
func TestWhatIfDelays(t *testing.T) {
	s := world(1)
	class(s, "high", 1000)
	s.Pods = []*v1.Pod{pod("a", 8, on("n0", 30*time.Minute), lasting("1h"), priorityOf(1000)), pod("b", 8, lasting("2h"), priorityOf(0))}
	manifest := strings.Replace(gpus("8"), "spec:\n", "spec:\n  priorityClassName: high\n", 1)
	manifest = strings.Replace(manifest, "metadata:\n", "metadata:\n  annotations: {tangram.dev/runtime: 1h}\n", 1)
	g := ask(t, s, manifest, nil).Gangs[0]
	if len(g.Delays) != 1 || g.Delays[0].Gang.Name != "b" || g.Delays[0].Seconds != 3600 {
		t.Errorf("got %+v, start %+v", g.Delays, g.Start)
	}
}

// TestWhatIfKinds: the pods of every kind that is expanded belong together as the operator's
// would.
func TestWhatIfKinds(t *testing.T) {
	template := `{metadata: {labels: {app: x}}, spec: {schedulerName: gpu-scheduler, containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}}`
	for name, tt := range map[string]struct {
		manifest     string
		gangs, pods  int
		kind         string
		assumed      bool
		refusedField string
	}{
		"Job":           {manifest: `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 3, completions: 3, completionMode: Indexed, template: TEMPLATE}}`, gangs: 1, pods: 3},
		"Job of single": {manifest: `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 3, completions: 9, template: TEMPLATE}}`, gangs: 3, pods: 3, assumed: true},
		"Deployment":    {manifest: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2, selector: {matchLabels: {app: x}}, template: TEMPLATE}}`, gangs: 2, pods: 2},
		"ReplicaSet":    {manifest: `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: d}, spec: {selector: {matchLabels: {app: x}}, template: TEMPLATE}}`, gangs: 1, pods: 1},
		"StatefulSet":   {manifest: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: d}, spec: {replicas: 2, podManagementPolicy: Parallel, serviceName: s, selector: {matchLabels: {app: x}}, template: TEMPLATE}}`, gangs: 2, pods: 2},
		"StatefulSet in order": {manifest: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: d}, spec: {replicas: 2, serviceName: s, selector: {matchLabels: {app: x}}, template: TEMPLATE}}`,
			gangs: 1, pods: 1, assumed: true},
		"JobSet": {manifest: `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: s}, spec: {replicatedJobs: [{name: a, replicas: 2, template: {spec: {parallelism: 2, completions: 2, template: TEMPLATE}}}]}}`, gangs: 1, pods: 4},
		"Volcano Job": {manifest: `{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: v}, spec: {minAvailable: 3, schedulerName: volcano, tasks: [{name: a, replicas: 1, template: TEMPLATE}, {name: b, replicas: 2, template: TEMPLATE}]}}`,
			gangs: 1, pods: 3},
		"PodGroup": {manifest: `
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g}
spec: {minMember: 2}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {scheduling.k8s.io/group-name: g}}, spec: {schedulerName: gpu-scheduler, containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, annotations: {scheduling.k8s.io/group-name: g}}, spec: {schedulerName: gpu-scheduler, containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}}
`, gangs: 1, pods: 2},
		"RayCluster":      {manifest: `{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: r}, spec: {headGroupSpec: {template: TEMPLATE}, workerGroupSpecs: [{groupName: w, replicas: 2, template: TEMPLATE}]}}`, gangs: 1, pods: 3},
		"RayJob":          {manifest: `{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r}, spec: {entrypoint: x, rayClusterSpec: {headGroupSpec: {template: TEMPLATE}, workerGroupSpecs: [{groupName: w, replicas: 2, template: TEMPLATE}]}}}`, gangs: 1, pods: 3, assumed: true},
		"LeaderWorkerSet": {manifest: `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l}, spec: {replicas: 2, leaderWorkerTemplate: {size: 3, workerTemplate: TEMPLATE}}}`, gangs: 2, pods: 6},
		"PyTorchJob":      {manifest: `{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: p}, spec: {pytorchReplicaSpecs: {Master: {replicas: 1, template: TEMPLATE}, Worker: {replicas: 2, template: TEMPLATE}}}}`, gangs: 1, pods: 3},
		"CronJob":         {manifest: `{apiVersion: batch/v1, kind: CronJob, metadata: {name: p}, spec: {schedule: "* * * * *"}}`, refusedField: "kind"},
		"List":            {manifest: `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {}}, {apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: TEMPLATE}}]}`, gangs: 1, pods: 1},
		"head":            {manifest: `{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: r}, spec: {headGroupSpec: {}}}`, refusedField: "spec.headGroupSpec.template"},
	} {
		t.Run(name, func(t *testing.T) {
			out := ask(t, world(2), strings.ReplaceAll(tt.manifest, "TEMPLATE", template), nil)
			if tt.refusedField != "" {
				if len(out.Refused) != 1 || out.Refused[0].Field != tt.refusedField || len(out.Gangs) > 0 {
					t.Errorf("got %+v", out)
				}
				return
			}
			pods := 0
			for _, g := range out.Gangs {
				if pods += len(g.Members); g.Start.Known != query.StartsNow {
					t.Errorf("starts %+v because %+v", g.Start, g.Reason)
				}
			}
			if len(out.Gangs) != tt.gangs || pods != tt.pods || len(out.Refused) > 0 || (len(out.Assumed) > 0) != tt.assumed {
				t.Errorf("%d gangs of %d pods, refused %+v, assumed %q", len(out.Gangs), pods, out.Refused, out.Assumed)
			}
		})
	}
}

// TestWhatIfWrong: what is wrong is named, with its field; nothing crashes.
func TestWhatIfWrong(t *testing.T) {
	for name, tt := range map[string]struct{ manifest, field string }{
		"unknown field":  {strings.Replace(gpus("1"), "image:", "imag:", 1), "spec.containers[0].imag"},
		"no name":        {strings.Replace(gpus("1"), "name: train", "namespace: default", 1), "metadata.name"},
		"negative":       {gpus(`"-1"`), "spec.containers[0].resources.limits[nvidia.com/gpu]"},
		"no class":       {strings.Replace(gpus("1"), "spec:\n", "spec:\n  priorityClassName: none\n", 1), "spec.priorityClassName"},
		"other":          {strings.Replace(gpus("1"), "gpu-scheduler", "default-scheduler", 1), "spec.schedulerName"},
		"no containers":  {`{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {schedulerName: gpu-scheduler}}`, "spec.containers"},
		"bound":          {strings.Replace(gpus("1"), "spec:\n", "spec:\n  nodeName: n0\n", 1), "spec.nodeName"},
		"gated":          {strings.Replace(gpus("1"), "spec:\n", "spec:\n  schedulingGates: [{name: a}]\n", 1), "spec.schedulingGates"},
		"too many":       {`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 1000000000, template: {}}}`, "spec.parallelism"},
		"negative job":   {`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: -1, template: {}}}`, "spec.parallelism"},
		"completions":    {`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {completions: -1, template: {}}}`, "spec.completions"},
		"negative set":   {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: -7, template: {}}}`, "spec.replicas"},
		"name of yaml":   {strings.Replace(gpus("1"), "name: train", "name: y", 1), "metadata.name"},
		"of a type":      {`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: many, template: {}}}`, "spec.parallelism"},
		"suspended":      {`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {suspend: true, template: {}}}`, "spec.suspend"},
		"metadata":       {`{apiVersion: v1, kind: Pod}`, "metadata"},
		"group missing":  {strings.Replace(gpus("1"), "metadata:\n", "metadata:\n  annotations: {scheduling.k8s.io/group-name: g}\n", 1), "metadata.annotations[scheduling.k8s.io/group-name]"},
		"metadata text":  {`{apiVersion: v1, kind: Pod, metadata: 3}`, "metadata"},
		"name":           {strings.Replace(gpus("1"), "name: train", "name: Train_", 1), "metadata.name"},
		"requests above": {strings.Replace(gpus("1"), "limits:", "requests: {nvidia.com/gpu: 2}\n      limits:", 1), "spec.containers[0].resources.requests[nvidia.com/gpu]"},
	} {
		t.Run(name, func(t *testing.T) {
			out := ask(t, world(1), tt.manifest, nil)
			if len(out.Refused) != 1 || out.Refused[0].Field != tt.field || out.Refused[0].Message == "" || len(out.Gangs) > 0 {
				t.Errorf("got %+v", out)
			}
		})
	}
	if out := ask(t, world(1), `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 0, template: {}}}`, nil); len(out.Refused) > 0 || len(out.Assumed) != 1 || !strings.Contains(out.Assumed[0], "makes no pods") {
		t.Errorf("0 replicas: %+v", out)
	}
	for name, manifest := range map[string]string{
		"empty": "", "no kind": "a: b", "not yaml": "a: [", "a list": "- a\n- b", "scalar": "3", "twice": "kind: Pod\nkind: Pod\napiVersion: v1",
		"aliases": "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := stateOf(world(1)).WhatIf(t.Context(), Question{Manifest: []byte(manifest)})
			var e *query.Error
			if !errors.As(err, &e) || e.Status != 400 || e.Field != "manifest" {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestWhatIfHidesPlaces: who may not list nodes does not learn them, nor the devices by which
// they can be told.
func TestWhatIfHidesPlaces(t *testing.T) {
	s := world(1)
	s.Pods = []*v1.Pod{pod("a", 4, on("n0", 30*time.Minute), lasting("1h"))}
	for _, gpu := range []string{"2", "8"} { // now, and later
		m := ask(t, s, gpus(gpu), only("default")).Gangs[0].Members
		if len(m) != 1 || m[0].State != "starting" || m[0].Node != "" || m[0].Devices != nil {
			t.Errorf("%s GPUs: %+v", gpu, m)
		}
	}
}

// TestWhatIfEnds: what ends within the simulation is in the answer all the same.
func TestWhatIfEnds(t *testing.T) {
	s := world(1)
	s.Pods = []*v1.Pod{pod("a", 7, on("n0", 30*time.Minute), lasting("1h")), pod("b", 8, lasting("1h"))}
	short := strings.Replace(gpus("1"), "metadata:\n", "metadata:\n  annotations: {tangram.dev/runtime: 1m}\n", 1)
	if out := ask(t, s, short, nil); len(out.Gangs) != 1 || out.Gangs[0].Gang.Name != "train" || len(out.Gangs[0].Members) != 1 || out.Gangs[0].Start.Known != query.StartsNow {
		t.Errorf("alone: %+v", out)
	}
	long := strings.Replace(gpus("8"), "name: train", "name: second", 1)
	out := ask(t, s, short+"---"+long, nil)
	if len(out.Gangs) != 2 || out.Gangs[0].Gang.Name != "train" || out.Gangs[1].Gang.Name != "second" || out.Gangs[1].Start.Known != query.StartsForecast {
		t.Errorf("with another: %+v", out)
	}
}

// TestWhatIfDelaysAreReal: wherever the simulation stops, a gang that is not delayed is not
// said to be, and no delay is negative; one that the manifest delays for good is named.
func TestWhatIfDelaysAreReal(t *testing.T) {
	s := world(2)
	s.Pods = []*v1.Pod{pod("a", 8, on("n0", 30*time.Minute), lasting("1h")), pod("b", 8, lasting("1h")), pod("c", 8, on("n1", 30*time.Minute), lasting("10h"))}
	short := strings.Replace(gpus("8"), "metadata:\n", "metadata:\n  annotations: {tangram.dev/runtime: 1m}\n", 1) // behind b
	unknown := false
	for steps := range 120 {
		state := stateOf(s)
		state.limits.Steps = steps
		out, err := state.WhatIf(t.Context(), Question{Manifest: []byte(short)})
		must(t, err)
		for _, g := range out.Gangs {
			if len(g.Delays) > 0 {
				t.Errorf("%d steps: %+v", steps, g.Delays)
			}
		}
		unknown = unknown || slices.ContainsFunc(out.Assumed, func(text string) bool { return strings.HasPrefix(text, "whether 1 gang") })
	}
	if !unknown {
		t.Error("it is never said that delays are not known")
	}
	class(s, "high", 1000)
	s.Pods[1].Spec.Priority = new(int32(0))
	forever := strings.Replace(gpus("8"), "spec:\n", "spec:\n  priorityClassName: high\n", 1)
	s.Pods[0].Spec.Priority, s.Pods[2].Spec.Priority = new(int32(1000)), new(int32(1000))
	s.Pods = s.Pods[:2]
	s.Nodes = s.Nodes[:1]
	if g := ask(t, s, forever, nil).Gangs[0]; len(g.Delays) != 1 || g.Delays[0].Gang.Name != "b" || g.Delays[0].Seconds <= 0 {
		t.Errorf("for good: %+v, start %+v", g.Delays, g.Start)
	}
}

// TestWhatIfQueues: who may not list queues cannot put one into a manifest: it could replace
// another tenant's, and the answer would say what is used of it.
func TestWhatIfQueues(t *testing.T) {
	manifest := "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: theirs}\nspec: {weight: 1}\n---" + gpus("1")
	out := ask(t, world(1), manifest, only("default"))
	if len(out.Refused) != 1 || out.Refused[0].Field != "kind" || len(out.Gangs) != 1 {
		t.Errorf("got %+v", out)
	}
	if out := ask(t, world(1), manifest, nil); len(out.Refused) > 0 || len(out.Gangs) != 1 {
		t.Errorf("who may: %+v", out)
	}
}
