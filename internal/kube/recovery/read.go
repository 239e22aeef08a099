package recovery

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/health"
	"github.com/tangram-dev/tangram/core/recovery"
	"github.com/tangram-dev/tangram/internal/dialect"
)

const systemPriority = 2_000_000_000 // the smallest priority of Kubernetes' system classes

// fleet is what the informers show, as core wants it.
func (r *Recovery) fleet(now time.Time) recovery.Fleet {
	var f recovery.Fleet
	gpuNodes := map[string]*v1alpha1.GPUNode{}
	for _, obj := range r.Sources.GPUNodes.List() {
		gn := obj.(*v1alpha1.GPUNode)
		gpuNodes[gn.Name] = gn
	}
	agents, tests := map[string]string{}, map[string]*recovery.Test{}
	pods := r.Sources.Pods.List()
	for _, obj := range pods {
		p := obj.(*v1.Pod)
		if r.isAgent(p) {
			agents[p.Spec.NodeName] = string(p.UID)
		}
		if r.isTest(p) && p.DeletionTimestamp == nil {
			device := p.Annotations[names.AnnotationVerifies]
			tests[p.Spec.NodeName+"/"+device] = testOf(p, device)
		}
	}
	has := map[string]bool{}
	for _, obj := range r.Sources.Nodes.List() {
		node := obj.(*v1.Node)
		gn := gpuNodes[node.Name]
		if gn == nil && !sellsGPUs(node) {
			continue
		}
		has[node.Name] = true
		f.Nodes = append(f.Nodes, r.node(node, gn, agents[node.Name], tests, now))
	}
	over := overMemory(gpuNodes)
	known := make(map[types.UID]readPod, len(r.read))
	for _, obj := range pods {
		p := obj.(*v1.Pod)
		if p.Spec.NodeName == "" || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed || r.isTest(p) {
			continue
		}
		read, ok := r.read[p.UID]
		if !ok || read.version != p.ResourceVersion {
			read = readPod{p.ResourceVersion, r.pod(p)}
		}
		known[p.UID] = read
		pod := read.pod
		if !has[pod.Node] && pod.Gang == "" {
			continue
		}
		if pod.Gang != "" {
			if pod.GangMin = r.gangMin(p); pod.GangMin == 0 {
				pod.Gang = ""
			}
		}
		pod.UsedMiB, pod.GivenMiB = over[pod.UID].used, over[pod.UID].given
		f.Pods = append(f.Pods, pod)
	}
	r.read = known
	f.Scheduler = r.scheduler
	return f
}

// readPod is what was read of a pod in one version.
type readPod struct {
	version string
	pod     recovery.Pod
}

// sellsGPUs says whether a node without a GPUNode has GPUs.
func sellsGPUs(n *v1.Node) bool {
	for name, q := range n.Status.Capacity {
		if !q.IsZero() && dialect.CountsDevices(string(name)) {
			return true
		}
	}
	return false
}

// isAgent says whether a pod is the agent of its node: with the labels, and a DaemonSet's.
func (r *Recovery) isAgent(p *v1.Pod) bool {
	if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || p.Namespace != r.Settings.Agent.Namespace {
		return false
	}
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "DaemonSet" && r.Settings.selector.Matches(labels.Set(p.Labels))
}

// isTest says whether a pod is a test pod. Elsewhere the annotation means nothing: a tenant
// could write it.
func (r *Recovery) isTest(p *v1.Pod) bool {
	return p.Annotations[names.AnnotationVerifies] != "" && p.Namespace == r.Settings.Verify.Namespace
}

func (r *Recovery) node(n *v1.Node, gn *v1alpha1.GPUNode, agent string, tests map[string]*recovery.Test, now time.Time) recovery.Node {
	out := recovery.Node{Name: n.Name, Unschedulable: n.Spec.Unschedulable, DriverReady: true}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			out.Ready, out.NotReadySince = c.Status == v1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	out.Tainted = slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == names.TaintIsolated })
	if text := n.Annotations[names.AnnotationIsolated]; text != "" {
		out.Mark = &recovery.Mark{}
		if err := json.Unmarshal([]byte(text), out.Mark); err != nil { // an operator edited it: it is ours all the same
			out.Mark = &recovery.Mark{Cause: recovery.NodeNotReady, Why: "isolated earlier", Began: now, Detected: now}
		}
	}
	if text := n.Annotations[names.AnnotationMaintenance]; text != "" {
		var since time.Time
		if out.Mark != nil && out.Mark.Cause == recovery.UnderRepair {
			since = out.Mark.Began
		}
		m, err := maintenanceOf(text, since, now)
		if err != nil {
			r.once("maintenance/"+n.Name+"/"+text, func() {
				r.event(n, v1.EventTypeWarning, "InvalidMaintenance", fmt.Sprintf("metadata.annotations[%s]: %s", names.AnnotationMaintenance, err))
			})
		}
		out.Maintenance = m
	}
	if gn == nil {
		return out
	}
	out.Agent = recovery.Agent{Pod: agent}
	switch {
	case gn.Spec.Agent == nil || len(gn.Spec.Devices) == 0: // nothing is measured
	case gn.Status.MeasuredAt == nil:
		out.Agent.Heartbeat = "never" // it may have died before it could
	default:
		out.Agent.Heartbeat = gn.Status.MeasuredAt.UTC().String()
	}
	for _, c := range gn.Status.Conditions {
		if c.Type == v1alpha1.DriverReady && c.Status == metav1.ConditionFalse {
			out.DriverReady, out.DriverSince = false, c.LastTransitionTime.Time
			out.Agent.Heartbeat = "" // without a driver nothing is measured
		}
	}
	marks := marksOf(gn)
	for _, d := range gn.Spec.Devices {
		out.Devices = append(out.Devices, device(gn, d, marks, tests))
	}
	for _, entry := range gn.Spec.Cordoned { // of cards that were replaced
		id, ours := strings.CutPrefix(entry, names.CordonedBy)
		if ours && !slices.ContainsFunc(gn.Spec.Devices, func(d v1alpha1.Device) bool { return idOf(d) == id }) {
			out.Replaced = append(out.Replaced, id)
		}
	}
	return out
}

// idOf is how a device is called here: by its UUID, unless an entry of spec.cordoned could
// not hold it.
func idOf(d v1alpha1.Device) string {
	if d.UUID == "" || len(d.UUID)+len(names.CordonedBy) > 128 {
		return strconv.Itoa(int(d.Index))
	}
	return d.UUID
}

func device(gn *v1alpha1.GPUNode, d v1alpha1.Device, marks map[string]*recovery.Mark, tests map[string]*recovery.Test) recovery.Device {
	id := idOf(d)
	out := recovery.Device{ID: id, Mark: marks[id], Test: tests[gn.Name+"/"+id]}
	for _, s := range gn.Status.Devices {
		if s.Index != d.Index || s.UUID != "" && d.UUID != "" && s.UUID != d.UUID {
			continue
		}
		switch s.Health {
		case v1alpha1.Healthy, "":
		case v1alpha1.Suspect:
			out.State = health.Suspect
		case v1alpha1.Degraded:
			out.State = health.Degraded
		default:
			out.State = health.Failed
		}
		out.Reason = s.Reason
		if s.Since != nil {
			out.Since = s.Since.Time
		}
	}
	for _, entry := range gn.Spec.Cordoned {
		switch {
		case entry == names.CordonedBy+id:
			out.Isolated = true
		case entry == d.UUID || entry == strconv.Itoa(int(d.Index)):
			out.Cordoned = true
		}
	}
	return out
}

// marksOf are the marks of a GPUNode's devices. What cannot be read is as if it was not
// there: the entries of spec.cordoned say what is isolated.
func marksOf(gn metav1.Object) map[string]*recovery.Mark {
	marks := map[string]*recovery.Mark{}
	if text := gn.GetAnnotations()[names.AnnotationIsolated]; text != "" {
		if json.Unmarshal([]byte(text), &marks) != nil {
			return map[string]*recovery.Mark{}
		}
	}
	return marks
}

// pod is what is read of a pod alone.
func (r *Recovery) pod(p *v1.Pod) recovery.Pod {
	out := recovery.Pod{
		UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Leaving: p.DeletionTimestamp != nil,
		Critical: p.Spec.Priority != nil && *p.Spec.Priority >= systemPriority || slices.Contains(r.Settings.Evict.Protected, p.Namespace),
	}
	if owner := metav1.GetControllerOf(p); owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node") || p.Annotations[v1.MirrorPodAnnotationKey] != "" {
		out.Fixed = true
	}
	if m, err := dialect.MembershipOf(p); err == nil {
		out.Gang = m.Key
	}
	claims, _ := dialect.Claims(p) // the scheduler reports what is wrong with a record
	for _, c := range claims {
		out.GPUs = out.GPUs || c.Count > 0 || len(c.Devices) > 0 || len(c.Parts) > 0
	}
	rec, err := record.Decode(p.Annotations[names.AnnotationDevices])
	if err != nil || rec.Node != p.Spec.NodeName {
		return out
	}
	for _, c := range rec.Containers {
		for _, d := range c.Devices {
			for _, id := range []string{d.UUID, strconv.Itoa(d.Index)} {
				if id != "" && !slices.Contains(out.Devices, id) {
					out.Devices = append(out.Devices, id)
				}
			}
		}
	}
	return out
}

// gangMin is how many members the gang of a pod needs; 0 when that is not known here: then
// its owner decides what becomes of the others.
func (r *Recovery) gangMin(p *v1.Pod) int {
	m, err := dialect.MembershipOf(p)
	switch {
	case err != nil:
		return 0
	case p.Labels[names.LabelGang] != "":
		return m.Size
	case m.PodGroup != "":
		if obj, ok, err := r.Sources.PodGroups.GetByKey(m.PodGroup); err == nil && ok && m.Groups.Group == scheduling.GroupName {
			return int(max(1, obj.(*scheduling.PodGroup).Spec.MinMember))
		}
	}
	return 0
}
