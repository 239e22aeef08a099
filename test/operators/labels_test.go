package operators

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/test/cluster"
)

// workload is a StatefulSet or a Deployment whose pods are a gang by two labels.
func workload(kind, name string, replicas, size int, more string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: %s
metadata: {name: %s, namespace: default}
spec:
  replicas: %d
  %s
  selector: {matchLabels: {app: %s}}
  template:
    metadata: {labels: {app: %s, tangram.dev/gang: %s, tangram.dev/gang-size: "%d"}}
    spec: {schedulerName: gpu-scheduler, containers: [{name: main, image: pause, resources: {limits: {nvidia.com/gpu: 8}}}]}
`, kind, name, replicas, more, name, name, name, size)
}

// TestLabels: the pods of StatefulSets and Deployments are gangs by two labels. A
// StatefulSet that creates its pods one after the other is not waited for.
func TestLabels(t *testing.T) {
	for name, tt := range map[string]struct{ kind, more string }{
		"Deployment":  {"Deployment", ""},
		"StatefulSet": {"StatefulSet", "podManagementPolicy: Parallel"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.judge.expect("whole", 5, label("app", "whole"))
			w.apply(workload(tt.kind, "whole", 5, 5, tt.more))
			w.running("app", "whole", 5)
			w.judge.expect("large", 4, label("app", "large"))
			w.apply(workload(tt.kind, "large", 4, 4, tt.more))
			w.waiting("app", "large", 4, "needs 4 members, 3 can be placed")
			w.remove(tt.kind, "whole")
			w.running("app", "large", 4)
		})
	}
	t.Run("StatefulSet in order", func(t *testing.T) {
		w := newWorld(t)
		w.apply(workload("StatefulSet", "order", 4, 4, ""))
		w.running("app", "order", 4)
	})
}

// TestKubeGroups: Kubernetes' own PodGroups.
func TestKubeGroups(t *testing.T) {
	w := newWorld(t)
	w.judge.expect("pg", 3, label("gang", "pg"))
	w.apply(`{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: pg, namespace: default}, spec: {schedulingPolicy: {gang: {minCount: 3}}}}`)
	for i := range 3 {
		if i == 2 {
			w.eventually("two members wait for the third", func(pods []*v1.Pod) (bool, string) {
				return len(pods) == 2 && bound(pods) == 0 && cluster.Scheduled(pods[0]).Message == "waits for members: 2 of 3 exist", summary(pods)
			})
		}
		w.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: pg-%d, namespace: default, labels: {gang: pg}}, spec: {schedulerName: gpu-scheduler, schedulingGroup: {podGroupName: pg}, containers: [{name: main, image: pause, resources: {limits: {nvidia.com/gpu: 8}}}]}}`, i))
	}
	w.running("gang", "pg", 3)
}

// TestPluginGroups: a PodGroup of scheduler-plugins, with the name its scheduler has.
func TestPluginGroups(t *testing.T) {
	w := newWorld(t)
	pod := func(i int) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: co-%d, namespace: default, labels: {scheduling.x-k8s.io/pod-group: co}}, spec: {schedulerName: scheduler-plugins-scheduler, containers: [{name: main, image: pause, resources: {limits: {nvidia.com/gpu: 8}}}]}}`, i)
	}
	w.apply(pod(0))
	w.waiting("scheduling.x-k8s.io/pod-group", "co", 1, `metadata.labels[scheduling.x-k8s.io/pod-group]: PodGroup "default/co" does not exist`)
	w.judge.expect("co", 2, label("scheduling.x-k8s.io/pod-group", "co"))
	w.apply(`{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: co, namespace: default}, spec: {minMember: 2}}`)
	w.waiting("scheduling.x-k8s.io/pod-group", "co", 1, "waits for members: 1 of 2 exist")
	w.apply(pod(1))
	w.running("scheduling.x-k8s.io/pod-group", "co", 2)
}

// TestGuides: the manifests of the guides run as written.
func TestGuides(t *testing.T) {
	for _, tt := range []struct {
		page, operator, key, value string
		pods                       int
	}{
		{"kuberay.md", "kuberay", rayCluster, "ray", 3},
		{"jobset.md", "jobset", jobSet, "training", 5},
		{"leaderworkerset.md", "lws", lws, "llm", 6},
	} {
		t.Run(tt.page, func(t *testing.T) {
			w := newWorld(t, tt.operator)
			data, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", tt.page))
			if err != nil {
				t.Fatal(err)
			}
			_, manifest, _ := strings.Cut(string(data), "```yaml\n")
			manifest, _, _ = strings.Cut(manifest, "```")
			w.apply(manifest)
			w.running(tt.key, tt.value, tt.pods)
		})
	}
}
