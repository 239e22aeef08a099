package recovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/recovery"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// startTest creates a pod that is bound to the node from the start, with a record that
// names the device: the scheduler keeps off a device that is isolated, so it cannot be the
// one to place it. Kubelet and the device plugin treat it as any other pod; a serving
// agent gives it the device of its record.
func (r *Recovery) startTest(ctx context.Context, a recovery.Action) error {
	obj, ok, err := r.Sources.GPUNodes.GetByKey(a.Node)
	if err != nil || !ok {
		return err
	}
	for _, d := range obj.(*v1alpha1.GPUNode).Spec.Devices {
		if idOf(d) != a.Device {
			continue
		}
		pod, err := r.testPod(a.Node, a.Device, d)
		if err != nil {
			return err
		}
		_, err = r.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		if err == nil {
			klog.FromContext(ctx).Info("Test pod created", "node", a.Node, "device", a.Device, "pod", klog.KObj(pod))
		}
		return err
	}
	return nil
}

func (r *Recovery) testPod(node, id string, d v1alpha1.Device) (*v1.Pod, error) {
	name := dialect.ResourceOf(model.Vendor(d.Vendor))
	if name == "" {
		return nil, fmt.Errorf("verify: it is not known how to ask for a device of %s", d.Vendor)
	}
	text, err := record.Encode(record.Record{Node: node, Containers: []record.Container{{
		Name: "test", Resource: string(name), Devices: []record.Device{{Index: int(d.Index), UUID: d.UUID}},
	}}})
	if err != nil {
		return nil, err
	}
	no, deadline, grace := false, int64(r.Settings.Verify.Timeout.Seconds()), int64(0)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Settings.Verify.Namespace, Name: testName(node, id),
			Labels:      map[string]string{"app.kubernetes.io/name": "gpu-verify", "app.kubernetes.io/managed-by": component},
			Annotations: map[string]string{names.AnnotationVerifies: id, names.AnnotationDevices: text, names.AnnotationRuntime: "1s"},
		},
		Spec: v1.PodSpec{
			NodeName: node, SchedulerName: names.SchedulerName, RestartPolicy: v1.RestartPolicyNever, AutomountServiceAccountToken: &no,
			ActiveDeadlineSeconds: &deadline, TerminationGracePeriodSeconds: &grace,
			Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists}},
			Containers: []v1.Container{{
				Name: "test", Image: r.Settings.Verify.Image, Command: r.Settings.Verify.Command,
				Resources:       v1.ResourceRequirements{Limits: v1.ResourceList{name: *resource.NewQuantity(1, resource.DecimalSI)}},
				SecurityContext: &v1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}}},
			}},
		},
	}, nil
}

// testName is the same for a node and device, so that there is one test at a time.
func testName(node, device string) string {
	sum := sha256.Sum256([]byte(node + "/" + device))
	return "gpu-verify-" + hex.EncodeToString(sum[:8])
}

// testOf is how a test pod does. One that was given another device proves nothing.
func testOf(p *v1.Pod, id string) *recovery.Test {
	t := &recovery.Test{Started: p.CreationTimestamp.Time}
	switch p.Status.Phase {
	case v1.PodSucceeded:
		t.Outcome = recovery.TestPassed
	case v1.PodFailed:
		t.Outcome, t.Why = recovery.TestFailed, p.Status.Reason+" "+p.Status.Message
		for _, c := range p.Status.ContainerStatuses {
			if s := c.State.Terminated; s != nil {
				t.Why = fmt.Sprintf("exit code %d %s %s", s.ExitCode, s.Reason, s.Message)
			}
		}
	default:
		return t
	}
	rec, err := record.Decode(p.Annotations[names.AnnotationDevices])
	if err != nil || len(rec.Containers) != 1 || len(rec.Containers[0].Devices) != 1 {
		t.Outcome, t.Why = recovery.TestFailed, "its record cannot be read"
	} else if d := rec.Containers[0].Devices[0]; d.UUID != id && strconv.Itoa(d.Index) != id {
		t.Outcome, t.Why = recovery.TestFailed, fmt.Sprintf("kubelet gave it device %d (%s)", d.Index, d.UUID)
	}
	return t
}

func (r *Recovery) endTest(ctx context.Context, a recovery.Action) error {
	err := r.Client.CoreV1().Pods(r.Settings.Verify.Namespace).Delete(ctx, testName(a.Node, a.Device), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
