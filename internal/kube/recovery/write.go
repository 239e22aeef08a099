package recovery

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/recovery"
)

// act does one action and tells about it.
func (r *Recovery) act(ctx context.Context, a recovery.Action) error {
	if a.Do != recovery.EvictPods { // several calls, each with its own
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	switch a.Do {
	case recovery.IsolateDevice, recovery.ReleaseDevice, recovery.MarkDevice:
		return r.device(ctx, a)
	case recovery.IsolateNode, recovery.ReleaseNode, recovery.MarkNode:
		return r.writeNode(ctx, a)
	case recovery.EvictPods:
		return r.evict(ctx, a)
	case recovery.RestartAgent:
		return r.restartAgent(ctx, a)
	case recovery.StartTest:
		return r.startTest(ctx, a)
	case recovery.EndTest:
		return r.endTest(ctx, a)
	}
	return fmt.Errorf("unknown action %s", a.Do)
}

// reasons of events, by action.
var reasons = map[recovery.Do]string{
	recovery.IsolateDevice: "GPUIsolated", recovery.ReleaseDevice: "GPUReleased", recovery.MarkDevice: "GPUIsolationLifted",
	recovery.IsolateNode: "NodeIsolated", recovery.ReleaseNode: "NodeReleased", recovery.MarkNode: "NodeIsolationChanged",
}

// device writes our entry of spec.cordoned and our mark, in one patch of the version that
// was read: no entry of an operator can get lost.
func (r *Recovery) device(ctx context.Context, a recovery.Action) error {
	nodes := r.Objects.Resource(v1alpha1.GPUNodes)
	var written *unstructured.Unstructured
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		gn, err := nodes.Get(ctx, a.Node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		cordoned, _, err := unstructured.NestedStringSlice(gn.Object, "spec", "cordoned")
		if err != nil {
			return err
		}
		patch, err := devicePatch(gn, cordoned, a)
		if err != nil {
			return err
		}
		written, err = nodes.Patch(ctx, a.Node, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: component})
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	klog.FromContext(ctx).Info("GPU "+string(a.Do), "node", a.Node, "device", a.Device, "why", a.Why)
	r.Metrics.did(a)
	kind := v1.EventTypeNormal
	if a.Do == recovery.IsolateDevice {
		kind = v1.EventTypeWarning
	}
	r.event(written, kind, reasons[a.Do], a.Why)
	r.nodeEvent(a.Node, kind, reasons[a.Do], a.Why)
	return nil
}

const component = "gpu-controller" // the controller's name in what it writes

// devicePatch changes our entry and our mark of one device.
func devicePatch(gn metav1.Object, cordoned []string, a recovery.Action) ([]byte, error) {
	entry := names.CordonedBy + a.Device
	marks := marksOf(gn)
	switch a.Do {
	case recovery.IsolateDevice:
		if !slices.Contains(cordoned, entry) {
			cordoned = append(cordoned, entry)
		}
		marks[a.Device] = a.Mark
	case recovery.ReleaseDevice:
		cordoned = slices.DeleteFunc(slices.Clone(cordoned), func(e string) bool { return e == entry })
		delete(marks, a.Device)
	case recovery.MarkDevice:
		marks[a.Device] = a.Mark
	}
	var mark, list any
	if len(marks) > 0 {
		text, err := json.Marshal(marks)
		if err != nil {
			return nil, err
		}
		mark = string(text)
	}
	if len(cordoned) > 0 {
		list = cordoned
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": gn.GetResourceVersion(), "annotations": map[string]any{names.AnnotationIsolated: mark}},
		"spec":     map[string]any{"cordoned": list},
	})
}

// writeNode cordons, taints and marks a node, or takes that back, in one patch of the
// version that was read.
func (r *Recovery) writeNode(ctx context.Context, a recovery.Action) error {
	nodes := r.Client.CoreV1().Nodes()
	var written *v1.Node
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n, err := nodes.Get(ctx, a.Node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		patch, err := nodePatch(n, a)
		if err != nil {
			return err
		}
		written, err = nodes.Patch(ctx, a.Node, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: component})
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	klog.FromContext(ctx).Info("Node "+string(a.Do), "node", a.Node, "why", a.Why)
	r.Metrics.did(a)
	kind := v1.EventTypeNormal
	if a.Do == recovery.IsolateNode && a.Cause != recovery.UnderRepair {
		kind = v1.EventTypeWarning
	}
	r.event(written, kind, reasons[a.Do], a.Why)
	return nil
}

// nodePatch is made of the node as it is: what is cordoned already stays so afterwards.
func nodePatch(n *v1.Node, a recovery.Action) ([]byte, error) {
	taints := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t v1.Taint) bool { return t.Key == names.TaintIsolated })
	spec := map[string]any{}
	var mark any
	var had recovery.Mark
	if text := n.Annotations[names.AnnotationIsolated]; text != "" {
		_ = json.Unmarshal([]byte(text), &had) // of one that cannot be read, nothing is ours
	}
	switch a.Do {
	case recovery.IsolateNode, recovery.MarkNode:
		m := *a.Mark
		if a.Do == recovery.IsolateNode {
			m.Cordoned = !n.Spec.Unschedulable || had.Cordoned && !had.Lifted
			spec["unschedulable"] = true
		}
		if a.Do == recovery.IsolateNode || !m.Lifted {
			taints = append(taints, v1.Taint{Key: names.TaintIsolated, Value: string(a.Cause), Effect: v1.TaintEffectNoSchedule})
		}
		text, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		mark = string(text)
	case recovery.ReleaseNode:
		if a.Mark.Cordoned && had.Cordoned {
			spec["unschedulable"] = nil
		}
	}
	spec["taints"] = taints
	if len(taints) == 0 {
		spec["taints"] = nil
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion, "annotations": map[string]any{names.AnnotationIsolated: mark}},
		"spec":     spec,
	})
}

// restartAgent deletes the agent's pod; its DaemonSet makes another.
func (r *Recovery) restartAgent(ctx context.Context, a recovery.Action) error {
	p := r.podOf(a.Pods[0])
	if p == nil || !r.isAgent(p) {
		return nil
	}
	err := r.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
	if err := unlessGone(err); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Agent restarted", "node", a.Node, "pod", klog.KObj(p), "why", a.Why)
	r.Metrics.did(a)
	r.event(p, v1.EventTypeWarning, "GPUAgentRestarted", strings.TrimSpace(a.Why))
	r.nodeEvent(a.Node, v1.EventTypeWarning, "GPUAgentRestarted", a.Why)
	return nil
}

// podOf is a pod by its UID; nil when it is gone.
func (r *Recovery) podOf(uid string) *v1.Pod {
	read, ok := r.read[types.UID(uid)]
	if !ok {
		return nil
	}
	obj, ok, err := r.Sources.Pods.GetByKey(read.pod.Namespace + "/" + read.pod.Name)
	if err != nil || !ok || string(obj.(*v1.Pod).UID) != uid {
		return nil
	}
	return obj.(*v1.Pod)
}

// unlessGone drops the error that an object, or that of a precondition's UID, is not there.
func unlessGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
