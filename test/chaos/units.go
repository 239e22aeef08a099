package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/test/chaos/checker"
)

// Kinds of load.
const (
	loadWhole      = "whole"       // a pod with whole GPUs
	loadShare      = "share"       // a pod with a share of a card, in HAMi's vocabulary
	loadMIG        = "mig"         // a pod with a MIG slice, in a queue without a limit
	loadMIGLimited = "mig-limited" // the same in a queue with a limit
	loadGang       = "gang"        // a gang of whole GPUs, by labels
	loadShareGang  = "share-gang"  // a gang of shares
	loadJob        = "job"         // a Volcano Job, in a queue without a limit
	loadJobLimited = "job-limited" // the same in a queue with a limit
)

// LoadKinds are the kinds of load, all of them.
func LoadKinds() []string {
	return []string{loadWhole, loadShare, loadMIG, loadMIGLimited, loadGang, loadShareGang, loadJob, loadJobLimited}
}

// unit is what the load submits and deletes as one.
type unit struct {
	checker.Unit
	kind     string
	class    string        // PriorityClass
	runtime  time.Duration // 0: until it is deleted
	profile  string        // the scheduler's profile
	isJob    bool          // a Volcano Job; gpu-controller makes its pods
	accepted bool          // of a Job: it was created
	ending   string        // why it is being deleted; empty otherwise
}

// newUnit makes up a unit. It draws the same numbers whatever the cluster does.
func newUnit(r *rand.Rand, n int, kind string) *unit {
	u := &unit{kind: kind, profile: names.SchedulerName}
	u.Name = fmt.Sprintf("%s-%d", kind, n)
	u.Queue = []string{"", "", "", "team-a", "team-b", "team-b", "small"}[r.IntN(7)]
	u.class = []string{"", "", "", "low", "low", "high"}[r.IntN(6)]
	if r.IntN(3) == 0 {
		u.profile = names.VolcanoSchedulerName
	}
	if r.IntN(5) > 0 {
		u.runtime = time.Duration(3+r.IntN(27)) * time.Second
	}
	size, ask := 1, checker.Ask{}
	switch kind {
	case loadWhole:
		ask.Whole = []int{1, 1, 1, 2, 2, 4, 8}[r.IntN(7)]
	case loadShare:
		ask = randomShare(r)
	case loadMIG:
		u.Queue = ""
		ask.Profile = []string{"1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"}[r.IntN(5)]
	case loadMIGLimited:
		u.Queue = "small"
		ask.Profile = []string{"3g.40gb", "7g.80gb"}[r.IntN(2)]
	case loadGang:
		size, ask.Whole = 2+r.IntN(5), []int{1, 1, 2, 4}[r.IntN(4)]
	case loadShareGang:
		// Small shares on nodes that offer each device once: more of them fit on a
		// node's devices than the node offers GPUs.
		size, ask = 6+r.IntN(7), checker.Ask{ShareMiB: int64(1000 * (1 + r.IntN(5))), ShareMilli: 100, Pool: "a100"}
	case loadJob, loadJobLimited:
		size, ask.Whole = 2+r.IntN(4), 1+r.IntN(2)
		u.isJob, u.Queue = true, ""
		if kind == loadJobLimited {
			u.Queue = []string{"team-a", "team-b"}[r.IntN(2)]
		}
	}
	u.Minimum = size
	if u.isJob && size > 2 && r.IntN(2) == 0 {
		u.Minimum = size - 1
	}
	for range size {
		u.Pods = append(u.Pods, ask)
	}
	if limit := capabilities()[u.Queue].Capability; limit > 0 && int64(1000*u.devices()) > limit {
		u.Queue = "" // it could never start
	}
	return u
}

func randomShare(r *rand.Rand) checker.Ask {
	return checker.Ask{ShareMiB: int64(1000 * (2 + r.IntN(28))), ShareMilli: 100 * (1 + r.IntN(6))}
}

// devices is on how many devices the unit lies, at most.
func (u *unit) devices() int {
	n := 0
	for _, a := range u.Pods {
		n += max(1, a.Whole)
	}
	return n
}

// labels are those the checker reads.
func (u *unit) labels() map[string]string {
	l := map[string]string{checker.LabelUnit: u.Name, checker.LabelMinimum: fmt.Sprint(u.Minimum)}
	if u.Queue != "" {
		l[checker.LabelQueue] = u.Queue
	}
	return l
}

// podName is the name of the i-th pod of a unit that is no Job.
func (u *unit) podName(i int) string { return fmt.Sprintf("%s-%d", u.Name, i) }

// pod is the i-th pod.
func (u *unit) pod(i int) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: u.podName(i), Namespace: namespaced(), Labels: u.labels(), Annotations: map[string]string{}},
		Spec:       u.podSpec(i),
	}
	if u.Queue != "" {
		p.Labels[names.LabelQueue] = u.Queue
	}
	if u.Minimum > 1 {
		p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = u.Name, fmt.Sprint(u.Minimum)
	}
	if u.runtime > 0 {
		p.Annotations[names.AnnotationRuntime] = u.runtime.String()
	}
	return p
}

func (u *unit) podSpec(i int) v1.PodSpec {
	var selector map[string]string
	if pool := u.Pods[i].Pool; pool != "" {
		selector = map[string]string{labelPool: pool}
	}
	return v1.PodSpec{
		NodeSelector:  selector,
		SchedulerName: u.profile, PriorityClassName: u.class, RestartPolicy: v1.RestartPolicyNever,
		Containers: []v1.Container{{Name: "main", Image: "train", Resources: v1.ResourceRequirements{Limits: limitsOf(u.Pods[i])}}},
	}
}

// limitsOf writes an ask as a container's limits.
func limitsOf(a checker.Ask) v1.ResourceList {
	amount := func(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }
	switch {
	case a.Profile != "":
		return v1.ResourceList{v1.ResourceName("nvidia.com/mig-" + a.Profile): amount(1)}
	case a.Whole > 0:
		return v1.ResourceList{names.ResourceNVIDIA: amount(int64(a.Whole))}
	}
	return v1.ResourceList{
		names.ResourceNVIDIA:  amount(1),
		"nvidia.com/gpumem":   amount(a.ShareMiB),
		"nvidia.com/gpucores": amount(int64(a.ShareMilli / 10)),
	}
}

// job is the unit as a Volcano Job.
func (u *unit) job() map[string]any {
	annotations := map[string]any{}
	if u.runtime > 0 {
		annotations[names.AnnotationRuntime] = u.runtime.String()
	}
	labels := map[string]any{}
	for k, v := range u.labels() {
		labels[k] = v
	}
	queue := u.Queue
	if queue == "" {
		queue = "default"
	}
	spec := map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{
		"name": "main", "image": "train",
		"resources": map[string]any{"limits": map[string]any{names.ResourceNVIDIA: fmt.Sprint(u.Pods[0].Whole)}},
	}}}
	if u.class != "" {
		spec["priorityClassName"] = u.class
	}
	return map[string]any{
		"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
		"metadata": map[string]any{"name": u.Name, "namespace": namespaced()},
		"spec": map[string]any{
			"queue": queue, "minAvailable": int64(u.Minimum), "schedulerName": u.profile,
			"tasks": []any{map[string]any{
				"name": "worker", "replicas": int64(len(u.Pods)),
				"template": map[string]any{"metadata": map[string]any{"labels": labels, "annotations": annotations}, "spec": spec},
			}},
		},
	}
}
