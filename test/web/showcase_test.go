package web

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/test/cluster"
)

// The cluster that the pictures of docs/img show: five teams, a fleet that is almost full,
// and gangs that wait for different reasons. Everything that the pictures say was computed
// by the scheduler.

//go:embed testdata/fleet.yaml
var fleetFile []byte

//go:embed testdata/tenants.yaml
var tenants []byte

// work is a Job or a Deployment.
type work struct {
	namespace, name, queue, user string
	pods                         int
	// limits of one pod, resource=amount; model is the node label accelerator.
	limits, model string
	// runtime is declared and true: the pods end after it. Empty: a Deployment.
	runtime  string
	topology string // as in the annotation
	class    string // PriorityClass
	busy     int    // percent, as the agent will measure
	// bag: the pods of the Job start one by one. missing: so many of the gang's pods are
	// never created.
	bag     bool
	missing int
}

const (
	h100 = "nvidia-tesla-h100"
	a100 = "nvidia-tesla-a100"
	l40s = "nvidia-l40s"
	v100 = "nvidia-tesla-v100"
	t4   = "nvidia-tesla-t4"
)

// mine is the gang that the person of the test looks for.
var mine = types.NamespacedName{Namespace: "language", Name: "mixture-8x22b"}

// waves are what is submitted, each once the one before it is decided. The last ones wait: mine
// with a reservation, of which there is one at a time, so it comes first; others with a
// forecast, for members, for quota, and for ever.
var waves = [][]work{{
	{namespace: "serving", name: "chat", queue: "serving", user: "ops", pods: 6, limits: "nvidia.com/mig-3g.40gb=1", class: "production", busy: 64},
	{namespace: "serving", name: "embed", queue: "serving", user: "ops", pods: 9, limits: "nvidia.com/mig-1g.10gb=1", class: "production", busy: 41},
	{namespace: "serving", name: "rerank", queue: "serving", user: "ops", pods: 9, limits: "nvidia.com/gpu=1,nvidia.com/gpumem=11000,nvidia.com/gpucores=25", model: l40s, class: "production", busy: 22},
	{namespace: "language", name: "llama-70b", queue: "language", user: "mei", pods: 3, limits: "nvidia.com/gpu=8", model: h100, runtime: "52m", topology: "required=rack", busy: 96},
	{namespace: "language", name: "distill", queue: "language", user: "lea", pods: 3, limits: "nvidia.com/gpu=8", model: h100, runtime: "3h", topology: "required=rack", busy: 94},
	{namespace: "speech", name: "asr-align", queue: "speech", user: "omar", pods: 10, limits: "nvidia.com/gpu=1", model: l40s, runtime: "3h", bag: true, busy: 71},
	{namespace: "batch", name: "nightly", queue: "batch", user: "cron", pods: 12, limits: "nvidia.com/gpu=1", model: v100, runtime: "75s", bag: true, busy: 88},
}, {
	{namespace: "language", name: "code-eval", queue: "language", user: "lea", pods: 1, limits: "nvidia.com/gpu=5", model: h100, runtime: "35m", busy: 83},
	{namespace: "language", name: "tokenizer", queue: "language", user: "lea", pods: 1, limits: "nvidia.com/gpu=5", model: h100, runtime: "45m", busy: 47},
	{namespace: "vision", name: "sam-finetune", queue: "vision", user: "ivan", pods: 3, limits: "nvidia.com/gpu=8", model: a100, runtime: "2h", topology: "required=rack", busy: 91},
	{namespace: "vision", name: "stereo", queue: "vision", user: "ana", pods: 6, limits: "nvidia.com/gpu=2", model: v100, runtime: "6h", topology: "required=nvlink", busy: 59},
}, {
	{namespace: "vision", name: "depth", queue: "vision", user: "ana", pods: 2, limits: "nvidia.com/gpu=8", model: a100, runtime: "80m", busy: 93},
	{namespace: "batch", name: "thumbnails", queue: "batch", user: "cron", pods: 12, limits: "nvidia.com/gpu=1", model: t4, runtime: "5h", bag: true, busy: 35},
	{namespace: "batch", name: "sweep", queue: "batch", user: "cron", pods: 7, limits: "nvidia.com/gpu=1", model: v100, runtime: "4h", bag: true, busy: 77},
}, { // takes the place of two of thumbnails
	{namespace: "batch", name: "reindex", queue: "batch", user: "noor", pods: 2, limits: "nvidia.com/gpu=1", model: t4, runtime: "8h", class: "urgent", busy: 68},
}, {
	{namespace: mine.Namespace, name: mine.Name, queue: "language", user: "mei", pods: 4, limits: "nvidia.com/gpu=8", model: h100, runtime: "10h", topology: "required=rack"},
}, {
	{namespace: "vision", name: "video-diffusion", queue: "vision", user: "ivan", pods: 4, limits: "nvidia.com/gpu=8", model: a100, runtime: "12h", topology: "required=rack"},
	{namespace: "vision", name: "world-model", queue: "vision", user: "ivan", pods: 2, limits: "nvidia.com/gpu=8", model: "nvidia-tesla-h200", runtime: "24h"},
	{namespace: "speech", name: "tts", queue: "speech", user: "omar", pods: 4, limits: "nvidia.com/gpu=1", model: l40s, runtime: "2h"},
	{namespace: "language", name: "rlhf", queue: "language", user: "lea", pods: 4, limits: "nvidia.com/gpu=2", model: a100, runtime: "1h", missing: 1},
}}

// placed is how many waves get a place.
const placed = 4

// faults are what the agent will find: annotations of GPUNodes.
var faults = map[string]string{"v100-2": "device=5,xid=79", "l40s-1": "device=2,remap=pending"}

// submit creates the pods' owners.
func (w *world) submit(all []work) {
	w.T.Helper()
	ctx := context.Background()
	for _, o := range all {
		template := v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Labels:      map[string]string{"app": o.name, names.LabelQueue: o.queue},
				Annotations: map[string]string{names.AnnotationUser: o.user, names.AnnotationSimulatedUtilization: strconv.Itoa(o.busy)},
			},
			Spec: v1.PodSpec{SchedulerName: names.SchedulerName, PriorityClassName: o.class, Containers: []v1.Container{{Name: "main", Image: "pause", Resources: v1.ResourceRequirements{Limits: limits(o.limits)}}}},
		}
		if o.model != "" {
			template.Spec.NodeSelector = map[string]string{names.LabelAccelerator: o.model}
		}
		if o.runtime != "" {
			template.Annotations[names.AnnotationRuntime] = o.runtime
		}
		if o.topology != "" {
			template.Annotations[names.AnnotationTopology] = o.topology
		}
		meta, pods := metav1.ObjectMeta{Namespace: o.namespace, Name: o.name}, int32(o.pods-o.missing)
		if o.missing > 0 {
			template.Labels[names.LabelGang], template.Labels[names.LabelGangSize] = o.name, strconv.Itoa(o.pods)
		}
		var err error
		if o.runtime == "" {
			_, err = w.Client.AppsV1().Deployments(o.namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
				Replicas: &pods, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": o.name}}, Template: template,
			}}, metav1.CreateOptions{})
		} else {
			job := &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: &pods, Completions: &pods, Template: template}}
			job.Spec.Template.Spec.RestartPolicy = v1.RestartPolicyNever
			if !o.bag {
				mode := batchv1.IndexedCompletion
				job.Spec.CompletionMode = &mode
			}
			_, err = w.Client.BatchV1().Jobs(o.namespace).Create(ctx, job, metav1.CreateOptions{})
		}
		w.Must(err)
	}
}

func limits(text string) v1.ResourceList {
	out := v1.ResourceList{}
	for part := range strings.SplitSeq(text, ",") {
		name, amount, _ := strings.Cut(part, "=")
		out[v1.ResourceName(name)] = resource.MustParse(amount)
	}
	return out
}

// damage makes the fleet as fleets are: devices that failed or are hot, one that an operator
// keeps out of use, a node that is cordoned and one that does not answer.
func (w *world) damage() {
	w.T.Helper()
	for node, fault := range faults {
		w.Patch(cluster.GPUNodes, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, names.AnnotationSimulatedFaults, fault))
	}
	w.Patch(cluster.GPUNodes, "a100-7", `{"spec":{"cordoned":["6"]}}`)
	w.Patch(cluster.Nodes, "l40s-5", `{"spec":{"unschedulable":true}}`)
	lost := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}},"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}`, names.AnnotationSimulatedLost)
	w.Patch(cluster.Nodes, "t4-3", lost)
	// Conditions are merged by their type, which only a strategic merge patch does.
	_, err := w.Client.CoreV1().Nodes().Patch(context.Background(), "t4-3", types.StrategicMergePatchType, []byte(lost), metav1.PatchOptions{}, "status")
	w.Must(err)
}

// showcase brings the cluster to the state that is shown. Between waves it waits as long as
// between says: a chart over time needs some.
func (w *world) showcase(between time.Duration) {
	w.T.Helper()
	for i, wave := range waves {
		w.submit(wave)
		total := 0
		for _, o := range wave {
			total += o.pods - o.missing
		}
		w.Complete(fmt.Sprintf("wave %d", i), func() string { return w.undecided(wave, total, i >= placed) })
		if i == placed {
			w.Complete("nodes are kept for "+mine.String(), w.unkept)
		}
		time.Sleep(between) // nothing but with -update
	}
}

// undecided says which pods of some work have no node; with told, nor a condition that says
// why not.
func (w *world) undecided(all []work, total int, told bool) string {
	seen := 0
	for _, o := range all {
		for _, p := range w.Within(o.namespace).Pods("app=" + o.name) {
			c := cluster.Scheduled(&p)
			if p.Spec.NodeName == "" && !(told && c.Status == v1.ConditionFalse && c.Message != "") {
				return p.Namespace + "/" + p.Name
			}
			seen++
		}
	}
	if seen < total {
		return fmt.Sprintf("%d of %d pods exist", seen, total)
	}
	return ""
}

// unkept is what the pods of mine were told, as long as that is not that nodes are kept.
func (w *world) unkept() string {
	told := "nothing"
	for _, p := range w.Within(mine.Namespace).Pods("app=" + mine.Name) {
		if told = cluster.Scheduled(&p).Message; strings.Contains(told, "kept for it") {
			return ""
		}
	}
	return told
}
