package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// cause is why a pod cannot start, and what its owner must be told.
type cause struct {
	name string
	pod  func(*v1.Pod)
	// says are parts of the reason; alternatives are separated by "|".
	says []string
	// curable: a change of pods, cordons or taints would help, so "never" is wrong.
	curable bool
}

const reasonFleet = `
pools:
- {name: n, count: 2, gpu: {model: A100-80GB, count: 8}, cpu: 96, memory: 768Gi}
- {name: cordoned, count: 1, gpu: {model: H100-80GB, count: 8}, cpu: 64, memory: 512Gi}
- {name: tainted, count: 1, gpu: {model: L40S, count: 4}, cpu: 64, memory: 512Gi, taints: [{key: keep, value: out, effect: NoSchedule}]}
- {name: one, count: 1, gpu: {model: V100-32GB, count: 4}, cpu: 48, memory: 384Gi}
`

// causes are kube-scheduler's filters, one by one. Parts that are stable are numbers
// and the names of what is asked for.
func causes() []cause {
	model := func(m string) func(*v1.Pod) { return cluster.Annotate(names.AnnotationUseModel, m) }
	both := func(a, b func(*v1.Pod)) func(*v1.Pod) { return func(p *v1.Pod) { a(p); b(p) } }
	return []cause{
		{"cordon", model("H100"), []string{"cordon|unschedulable"}, true},
		{"taint", model("L40S"), []string{"taint", "keep"}, true},
		{"selector", cluster.On("disk", "ssd"), []string{"disk=ssd|disk: ssd"}, false},
		{"cpu", cluster.Needs("cpu", "500"), []string{"CPU|cpu", "500", "96"}, false},
		{"memory", cluster.Needs("memory", "4Ti"), []string{"memory", "4096|4Ti|4 Ti", "768"}, false},
		{"ports", both(model("V100"), hostPort), []string{"port", "8080"}, true},
		{"claim-missing", claiming("nope"), []string{"nope"}, true},
		{"claim-unbound", claiming("pending-data"), []string{"pending-data"}, true},
		{"anti-affinity", both(model("V100"), apartFrom("holder")), []string{"anti-affinity"}, true},
		{"resource", cluster.Needs("rdma/hca", "1"), []string{"rdma/hca"}, false},
		{"gpus", func(p *v1.Pod) { cluster.Needs(names.ResourceNVIDIA, "16")(p) }, []string{"GPU", "8", "16"}, false},
	}
}

func hostPort(p *v1.Pod) {
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
}

func apartFrom(app string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		}}}}
	}
}

// isTold says whether a reason names its cause, before anything about capacity, and in
// the words for a single pod.
func (c cause) isTold(reason string) (problem string) {
	for _, part := range c.says {
		if !slices.ContainsFunc(strings.Split(part, "|"), func(s string) bool { return strings.Contains(reason, s) }) {
			return fmt.Sprintf("does not say %q", part)
		}
	}
	banned := []string{
		"no new claims to deallocate", "preemption: 0/", // kube-scheduler's tails, which say nothing
		"1 member", "for the next", // a single pod is no gang to its owner
		"may not take it, or lack", // several causes in one
	}
	if c.curable {
		banned = append(banned, "never")
	}
	if strings.HasPrefix(c.name, "claim-") {
		banned = append(banned, "waits for capacity")
	}
	for _, b := range banned {
		if strings.Contains(reason, b) {
			return fmt.Sprintf("says %q", b)
		}
	}
	return ""
}

// reasonsIn makes one pod per cause in a fresh cluster and returns what each is told.
func reasonsIn(t *testing.T, wanted []cause, queue bool) map[string]string {
	w := newGangWorld(t, local.Options{}, reasonFleet)
	if queue {
		w.AddQueue("idle", "{weight: 1}")
	}
	ctx := context.Background()
	w.Patch(cluster.Nodes, "cordoned-0", `{"spec":{"unschedulable":true}}`)
	class := ""
	if _, err := w.Client.CoreV1().PersistentVolumeClaims("default").Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "pending-data"},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: &class,
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Scheduler(nil)
	w.Create(pod("holder", 1, cluster.Annotate(names.AnnotationUseModel, "V100"), cluster.Label("app", "holder"), hostPort))
	w.Placed("holder")
	for _, c := range wanted {
		w.Create(pod(c.name, 1, c.pod))
	}
	// All have the same time to be told: the last word counts.
	told := map[string]string{}
	deadline := time.Now().Add(40 * time.Second)
	for least := time.Now().Add(5 * time.Second); ; time.Sleep(500 * time.Millisecond) {
		done := time.Now().After(least)
		for _, c := range wanted {
			told[c.name] = cluster.Scheduled(w.Get(c.name)).Message
			done = done && told[c.name] != "" && c.isTold(told[c.name]) == ""
		}
		if done || time.Now().After(deadline) {
			return told
		}
	}
}

// TestHoleReasons: each cause for which a pod cannot start reaches its owner by name,
// with the number that is missing, and whether or not there is a queue somewhere makes
// no difference.
func TestHoleReasons(t *testing.T) {
	t.Parallel()
	all := causes()
	without, with := reasonsIn(t, all, false), reasonsIn(t, all, true)
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			for where, told := range map[string]string{"without a queue": without[c.name], "with an idle queue": with[c.name]} {
				t.Logf("%s: %s", where, told)
				if problem := c.isTold(told); problem != "" {
					t.Errorf("%s the reason %s: %q", where, problem, told)
				}
			}
			if with[c.name] != without[c.name] {
				t.Errorf("an idle queue elsewhere changes the reason:\nwithout: %s\nwith:    %s", without[c.name], with[c.name])
			}
		})
	}
}
