// Package diagnose tests `tangram diagnose` and `tangram migrate` on a real API server:
// nodes that are broken in one way each, and gpu-scheduler with configurations that were
// translated from other schedulers'.
package diagnose

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/cli"
	"github.com/tangram-dev/tangram/internal/diagnose"
	"github.com/tangram-dev/tangram/test/cluster"
)

const nodes = `
pools:
- {name: n, count: 4, gpu: {model: A100-80GB, count: 8}}
`

type world struct{ *cluster.World }

func start(t *testing.T) *world {
	t.Helper()
	return &world{cluster.ForTest(t, cluster.Options{
		Programs:  []string{"gpu-scheduler"},
		Manifests: cluster.Manifests(),
		Fleet:     nodes,
	})}
}

// tangram runs the command as a user of a kubeconfig would.
func (w *world) tangram(kubeconfig string, args ...string) (code int, out, errOut string) {
	w.T.Helper()
	var a, b bytes.Buffer
	args = append([]string{"tangram"}, args...)
	if kubeconfig != "" {
		args = append(args, "--kubeconfig", kubeconfig)
	}
	code = cli.Main(context.Background(), args, strings.NewReader(""), &a, &b)
	return code, a.String(), b.String()
}

// status writes a GPUNode's status, as an agent would.
func (w *world) status(node string, s v1alpha1.GPUNodeStatus) {
	w.T.Helper()
	patch, err := json.Marshal(map[string]any{"status": s})
	w.Must(err)
	w.Patch(cluster.GPUNodes, node, string(patch), "status")
}

// well is the status of a node with which nothing is wrong.
func well() v1alpha1.GPUNodeStatus {
	now := metav1.Now()
	s := v1alpha1.GPUNodeStatus{MeasuredAt: &now, Conditions: []metav1.Condition{
		{Type: v1alpha1.DriverReady, Status: metav1.ConditionTrue, Reason: "Answers", Message: "driver 580.1", LastTransitionTime: now},
	}}
	for i := range int32(8) {
		temperature, used, watts := int32(50), int64(100), int32(90)
		s.Devices = append(s.Devices, v1alpha1.DeviceStatus{Index: i, Health: v1alpha1.Healthy, TemperatureCelsius: &temperature, MemoryUsedMiB: &used, PowerWatts: &watts})
	}
	return s
}

// pod puts a pod with one GPU on a node, with a record of a device, as if it were bound.
func (w *world) pod(name, node string, device int) {
	w.T.Helper()
	text, err := record.Encode(record.Record{Node: node, Containers: []record.Container{{Name: "main", Resource: names.ResourceNVIDIA, Devices: []record.Device{{Index: device}}}}})
	w.Must(err)
	w.Create(cluster.Pod(name, 1, cluster.Annotate(names.AnnotationDevices, text), func(p *v1.Pod) { p.Spec.NodeName = node }))
}

func TestOnACluster(t *testing.T) {
	w := start(t)
	w.Apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: default}}")
	w.breakNodes()
	t.Run("diagnose", func(t *testing.T) { (&world{w.In(t)}).diagnose(t) })
	t.Run("migrate", func(t *testing.T) { (&world{w.In(t)}).migrate(t) })
	t.Run("check", func(t *testing.T) { (&world{w.In(t)}).check(t) })
}

// breakNodes: n-0 is well; n-1 has a failed device, a link that is down and a hot device; n-2
// is not visible to kubelet, was last measured an hour ago, and two pods hold one device; n-3
// is cordoned and has no GPUNode.
func (w *world) breakNodes() {
	w.T.Helper()
	w.status("n-0", well())
	w.Patch(cluster.GPUNodes, "n-0", `{"spec":{"driver":{"version":"580.1","cuda":"13.0"}}}`)
	sick := well()
	xid, hot := int32(79), int32(91)
	sick.Devices[3] = v1alpha1.DeviceStatus{Index: 3, Health: v1alpha1.Failed, Cause: "OffTheBus", Reason: "XID 79 (GPU has fallen off the bus)", LastXID: &xid}
	sick.Devices[4] = v1alpha1.DeviceStatus{Index: 4, Health: v1alpha1.Degraded, Cause: "NVLinkDown", Reason: "11 of 12 NVLinks are up"}
	sick.Devices[5].TemperatureCelsius = &hot
	w.status("n-1", sick)
	old := well()
	hour := metav1.NewTime(time.Now().Add(-time.Hour))
	old.MeasuredAt = &hour
	w.status("n-2", old)
	w.Patch(cluster.Nodes, "n-2", `{"status":{"capacity":{"nvidia.com/gpu":"0"},"allocatable":{"nvidia.com/gpu":"0"}}}`, "status")
	w.pod("first", "n-2", 0)
	w.pod("second", "n-2", 0)
	w.Remove(cluster.GPUNodes, "n-3")
	// A real node, on which an agent must run.
	w.Patch(cluster.Nodes, "n-2", `{"metadata":{"annotations":{"kwok.x-k8s.io/node":null}}}`)
	w.Patch(cluster.Nodes, "n-3", `{"spec":{"unschedulable":true}}`)
}

func (w *world) diagnose(t *testing.T) {
	kubeconfig := w.Kubeconfig()
	code, out, errOut := w.tangram(kubeconfig, "diagnose", "n-0")
	if code != 0 || strings.Contains(out, "fail") || strings.Contains(out, "warn") {
		t.Errorf("n-0: exit %d\n%s%s", code, out, errOut)
	}
	for node, want := range map[string]map[string]diagnose.State{
		"n-1": {"devices": diagnose.Fail, "xid": diagnose.Fail, "links": diagnose.Fail, "temperature": diagnose.Fail, "ecc": diagnose.OK, "plugin": diagnose.OK, "allocations": diagnose.OK},
		"n-2": {"published": diagnose.Fail, "plugin": diagnose.Fail, "allocations": diagnose.Fail, "agent": diagnose.Fail, "temperature": diagnose.Unknown, "labels": diagnose.OK},
		"n-3": {"published": diagnose.Unknown, "cordons": diagnose.Warn, "agent": diagnose.Warn, "plugin": diagnose.OK},
	} {
		code, out, errOut := w.tangram(kubeconfig, "diagnose", node, "-o", "json")
		var r diagnose.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%s: %v\n%s%s", node, err, out, errOut)
		}
		wantCode := 0
		for check, state := range want {
			if state == diagnose.Fail {
				wantCode = 20
			}
			for _, x := range r.Results {
				if x.Check == check && x.State != state {
					t.Errorf("%s: %s is %s, want %s: %s", node, check, x.State, state, x.Seen)
				}
			}
		}
		if code != wantCode {
			t.Errorf("%s: exit %d, want %d: %s", node, code, wantCode, errOut)
		}
	}
	code, out, errOut = w.tangram(kubeconfig, "diagnose", "--all")
	if code != 20 || strings.Count(out, "n-") != 4 || !strings.Contains(out, "4 nodes with GPUs, 2 of them fail") {
		t.Errorf("--all: exit %d\n%s%s", code, out, errOut)
	}
	if code, _, errOut = w.tangram(kubeconfig, "diagnose", "nosuch"); code != 3 || !strings.Contains(errOut, `"nosuch" not found`) {
		t.Errorf("nosuch: exit %d, %s", code, errOut)
	}
	if code, _, errOut = w.tangram(kubeconfig, "diagnose"); code != 2 {
		t.Errorf("without a node: exit %d, %s", code, errOut)
	}
	stranger, err := w.KubeconfigFor("stranger")
	w.Must(err)
	if code, out, errOut = w.tangram(stranger, "diagnose", "n-0"); code != 4 || out != "" {
		t.Errorf("without rights: exit %d, %s%s", code, out, errOut)
	}
}

// migrate starts gpu-scheduler with what other configurations amount to; a pod of their
// scheduler's name is bound.
func (w *world) migrate(t *testing.T) {
	testdata := filepath.Join("..", "..", "internal", "migrate", "testdata")
	for _, c := range []struct {
		name, profile string
		files         []string
	}{
		{"volcano", "volcano", []string{"volcano-scheduler.conf"}},
		{"kai", "my-kai", []string{"kai.yaml"}},
		{"hami", "hami-scheduler", []string{"hami-values.yaml", "hami-device.yaml"}},
		{"kueue", "gpu-scheduler", []string{"kueue.yaml"}},
	} {
		args := []string{"migrate", "-o", "config"}
		for _, f := range c.files {
			args = append(args, "-f", filepath.Join(testdata, f))
		}
		code, conf, errOut := w.tangram("", args...)
		if code != 0 {
			t.Fatalf("%s: exit %d, %s", c.name, code, errOut)
		}
		p := w.Scheduler([]byte(conf))
		name := "of-" + c.name
		w.Create(cluster.Pod(name, 1, func(p *v1.Pod) { p.Spec.SchedulerName = c.profile }))
		w.Bound(name)
		w.Must(p.Stop())
	}
	code, queues, errOut := w.tangram("", "migrate", "-f", filepath.Join(testdata, "kueue.yaml"), "-o", "queues")
	if code != 0 {
		t.Fatalf("queues: exit %d, %s", code, errOut)
	}
	if err := w.ApplyManifests(context.Background(), []byte(queues)); err != nil {
		t.Errorf("the API server refuses queues: %v\n%s", err, queues)
	}
	code, queues, _ = w.tangram("", "migrate", "-f", filepath.Join(testdata, "kai.yaml"), "-o", "queues")
	if err := w.ApplyManifests(context.Background(), []byte(queues)); err != nil || code != 0 {
		t.Errorf("exit %d, the API server refuses queues: %v\n%s", code, err, queues)
	}
}

// check reads the cluster itself: its manifests, and the configuration that it has.
func (w *world) check(t *testing.T) {
	manifest := `
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: strict, annotations: {volcano.sh/hierarchy: root/strict}}
spec: {weight: 2, dequeueStrategy: fifo}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: volcano-scheduler-configmap, namespace: default}
data:
  volcano-scheduler.conf: |
    actions: "allocate, backfill"
    tiers:
    - plugins:
      - name: tdm
`
	w.Apply(manifest)
	code, out, errOut := w.tangram(w.Kubeconfig(), "migrate", "check")
	for _, want := range []string{"metadata.annotations[volcano.sh/hierarchy]", "spec.dequeueStrategy", "words are known"} {
		if code != 20 || !strings.Contains(out, want) {
			t.Errorf("check: exit %d, no %s in\n%s%s", code, want, out, errOut)
		}
	}
	code, out, errOut = w.tangram(w.Kubeconfig(), "migrate")
	if code != 0 || !strings.Contains(out, "tdm") || !strings.Contains(out, "no counterpart") {
		t.Errorf("migrate: exit %d\n%s%s", code, out, errOut)
	}
	stranger, err := w.KubeconfigFor("stranger")
	w.Must(err)
	if code, out, errOut = w.tangram(stranger, "migrate", "check"); code == 0 || !strings.Contains(errOut, "may not list") {
		t.Errorf("without rights: exit %d, %s%s", code, out, errOut)
	}
}
