package replica

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/api/query"
)

// makers are manifests that make N times pods of TEMPLATE, with the field of the template.
var makers = map[string]struct{ manifest, field string }{
	"Job":             {`{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {parallelism: N, template: TEMPLATE}}`, "spec.template"},
	"Deployment":      {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {replicas: N, selector: {matchLabels: {app: x}}, template: TEMPLATE}}`, "spec.template"},
	"ReplicaSet":      {`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: x}, spec: {replicas: N, selector: {matchLabels: {app: x}}, template: TEMPLATE}}`, "spec.template"},
	"StatefulSet":     {`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x}, spec: {replicas: N, podManagementPolicy: Parallel, serviceName: s, selector: {matchLabels: {app: x}}, template: TEMPLATE}}`, "spec.template"},
	"JobSet":          {`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: x}, spec: {replicatedJobs: [{name: a, replicas: N, template: {spec: {parallelism: N, template: TEMPLATE}}}]}}`, "spec.replicatedJobs[0].template.spec.template"},
	"Volcano Job":     {`{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: x}, spec: {schedulerName: volcano, tasks: [{name: a, replicas: N, template: TEMPLATE}]}}`, "spec.tasks[0].template"},
	"RayCluster":      {`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: x}, spec: {headGroupSpec: {template: TEMPLATE}, workerGroupSpecs: [{groupName: w, replicas: N, template: TEMPLATE}]}}`, "spec.workerGroupSpecs[0].template"},
	"LeaderWorkerSet": {`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: x}, spec: {replicas: 1, leaderWorkerTemplate: {size: N, workerTemplate: TEMPLATE}}}`, "spec.leaderWorkerTemplate.workerTemplate"},
	"PyTorchJob":      {`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: x}, spec: {pytorchReplicaSpecs: {Worker: {replicas: N, template: TEMPLATE}}}}`, "spec.pytorchReplicaSpecs.Worker.template"},
}

// template is a pod template with so many containers, and a text of a length.
func template(containers, long int) string {
	var list []string
	for i := range containers {
		list = append(list, fmt.Sprintf("{name: c%d}", i))
	}
	return fmt.Sprintf("{metadata: {labels: {app: x}, annotations: {a: %s}}, spec: {schedulerName: gpu-scheduler, containers: [%s]}}", strings.Repeat("x", long), strings.Join(list, ", "))
}

func of(manifest, template string, n int) []byte {
	return []byte(strings.NewReplacer("TEMPLATE", template, "N}", fmt.Sprint(n)+"}", "N,", fmt.Sprint(n)+",").Replace(manifest))
}

// expanded reads a manifest, without a simulation.
func expanded(ctx context.Context, t *testing.T, manifest []byte) (*reader, *problem) {
	t.Helper()
	objects, err := parse(manifest)
	must(t, err)
	x, err := NewRun(world(1), DefaultLimits())
	must(t, err)
	r := &reader{ctx: ctx, replica: x.Replica, namespace: "default", queues: true}
	return r, r.read(objects)
}

// TestLargeTemplates: pods of a large template are refused before they are made, whatever
// makes them, and so are too many containers.
func TestLargeTemplates(t *testing.T) {
	for name, k := range makers {
		for what, tt := range map[string]struct{ template, field string }{
			"long":            {template(1, 100_000), k.field},
			"many containers": {template(maxContainers, 0), k.field},
			"more containers": {template(maxContainers+1, 0), k.field + ".spec.containers"},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				r, problem := expanded(t.Context(), t, of(k.manifest, tt.template, 1000))
				if name == "RayCluster" && what == "more containers" {
					tt.field = "spec.headGroupSpec.template.spec.containers"
				}
				if problem != nil || len(r.refused) != 1 || r.refused[0].Field != tt.field || len(r.pods) > 0 || r.bytes > maxBytes {
					t.Errorf("problem %v, refused %+v, %d pods of %d bytes", problem, r.refused, len(r.pods), r.bytes)
				}
			})
		}
	}
	r, problem := expanded(t.Context(), t, []byte(`{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {schedulerName: gpu-scheduler, containers: [`+strings.Repeat("{name: c},", maxContainers+1)+`]}}`))
	if problem != nil || len(r.refused) != 1 || r.refused[0].Field != "spec.containers" {
		t.Errorf("problem %v, refused %+v", problem, r.refused)
	}
	if r, problem := expanded(t.Context(), t, of(makers["Job"].manifest, template(2, 1000), MaxPods)); problem != nil || len(r.pods) != MaxPods {
		t.Errorf("as many as may be: problem %v, refused %+v", problem, r.refused)
	}
}

// TestTooManyStops: beyond the most pods, and when the caller is gone, nothing more is made.
func TestTooManyStops(t *testing.T) {
	r, problem := expanded(t.Context(), t, of(makers["JobSet"].manifest, template(1, 0), 4999)) // 25 million
	if problem == nil || !strings.Contains(problem.message, "5000 pods") || r.serial > 2*MaxPods {
		t.Errorf("problem %v after %d objects", problem, r.serial)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, k := range makers {
		r, problem := expanded(gone, t, of(k.manifest, template(1, 0), 70))
		if problem == nil || len(r.pods) > 0 || r.serial > 5 {
			t.Errorf("%s: problem %v, %d pods after %d objects", name, problem, len(r.pods), r.serial)
		}
	}
	none := `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: x}, spec: {replicatedJobs: [{name: a, replicas: 5000, template: {spec: {parallelism: 0, template: TEMPLATE}}}]}}`
	if r, problem := expanded(gone, t, of(none, template(1, 0), 0)); problem == nil || r.serial > 5 {
		t.Errorf("jobs without pods: problem %v after %d objects", problem, r.serial)
	}
}

// TestAliases: aliases are written out as far as that is small; a long text that many
// aliases stand for is refused, with its line, before memory is used.
func TestAliases(t *testing.T) {
	small := "metadata: {name: x, labels: &l {app: x}, annotations: *l}\napiVersion: v1\nkind: Service"
	if objects, err := parse([]byte(small)); err != nil || objects[0].GetAnnotations()["app"] != "x" {
		t.Errorf("small: %v", err)
	}
	long := "apiVersion: v1\nkind: Service\na: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a,", 1000) + "]"
	nested := "apiVersion: v1\nkind: Service\na: &a " + strings.Repeat("x", 1000) + "\nb: &b [" + strings.Repeat("*a,", 80) + "]\nc: [" + strings.Repeat("*b,", 80) + "]"
	half := "apiVersion: v1\nkind: Service\na: &a " + strings.Repeat("x", 10_000) + "\nb: [" + strings.Repeat("*a,", 200) + "]\n---\n"
	for name, tt := range map[string]struct{ manifest, says string }{
		"long": {long, "document 1: line 4"}, "nested": {nested, "document 1: line 5"}, "of several": {half + half + half, "document 3: line 4"},
	} {
		began := time.Now()
		_, err := stateOf(world(1)).WhatIf(t.Context(), Question{Manifest: []byte(tt.manifest)})
		var e *query.Error
		if !errors.As(err, &e) || e.Status != 400 || e.Field != "manifest" || !strings.Contains(e.Message, tt.says) || time.Since(began) > 30*time.Second {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}
