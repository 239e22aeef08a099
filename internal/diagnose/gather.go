package diagnose

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Objects are what the API server has about one node.
type Objects struct {
	Node *v1.Node
	// GPUNode may be nil; Defined: the cluster has the kind.
	GPUNode *v1alpha1.GPUNode
	Defined bool
	Pods    []*v1.Pod                   // those on the node
	Slices  []resourceapi.ResourceSlice // those of the node; nil where the cluster does not have the kind
}

// FactsOf are the facts that objects tell.
func FactsOf(o Objects, now time.Time) *Facts {
	f := &Facts{Now: now, Node: nodeFacts(o.Node), Defined: o.Defined}
	byUID := map[string]string{}
	for _, p := range o.Pods {
		byUID[string(p.UID)] = p.Namespace + "/" + p.Name
		switch {
		case isAgent(p):
			f.Agents = append(f.Agents, programOf(p))
		case isPlugin(p):
			f.Plugins = append(f.Plugins, programOf(p))
		}
		if p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed {
			f.Pods = append(f.Pods, podFacts(p))
		}
	}
	slices.SortFunc(f.Pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	if o.GPUNode != nil {
		f.GPUs = gpuFacts(o.Node, o.GPUNode, byUID)
	}
	if o.Slices != nil {
		f.Slices = []Slice{}
	}
	for _, s := range o.Slices {
		f.Slices = append(f.Slices, Slice{
			Name: s.Name, Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Devices: len(s.Spec.Devices),
			Generation: s.Spec.Pool.Generation, Count: s.Spec.Pool.ResourceSliceCount,
		})
	}
	return f
}

const annotationSimulated = "kwok.x-k8s.io/node" // on nodes whose kubelet KWOK plays

func nodeFacts(n *v1.Node) Node {
	out := Node{
		Name: n.Name, Unschedulable: n.Spec.Unschedulable, Labels: n.Labels,
		Maintenance: n.Annotations[names.AnnotationMaintenance],
		Simulated:   n.Annotations[annotationSimulated] != "",
		Capacity:    gpuAmounts(n.Status.Capacity), Allocatable: gpuAmounts(n.Status.Allocatable),
	}
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type == v1.NodeReady:
			out.Ready, out.ReadyMessage, out.ReadySince = string(c.Status), c.Message, c.LastTransitionTime.Time
		case c.Status == v1.ConditionTrue:
			out.Pressures = append(out.Pressures, string(c.Type)+": "+c.Message)
		}
	}
	for _, t := range n.Spec.Taints { // a mark without the taint is of what an operator put back
		if t.Key == names.TaintIsolated {
			out.isolate(t.Value, n.Annotations[names.AnnotationIsolated])
		}
	}
	return out
}

// isolate reads gpu-controller's mark of a node that it keeps new pods off: the cause, in
// words if the mark has them, and whether gpu-controller set the cordon, as is assumed of a
// mark that cannot be read.
func (n *Node) isolate(cause, mark string) {
	var m struct { // of core/recovery.Mark
		Why      string `json:"why"`
		Cordoned bool   `json:"cordoned"` // it was not cordoned before
	}
	readable := json.Unmarshal([]byte(mark), &m) == nil
	n.Isolated = cmp.Or(cause, "cause unknown")
	if readable && m.Why != "" {
		n.Isolated += ": " + m.Why
	}
	n.OwnCordon = n.Unschedulable && readable && !m.Cordoned
}

// gpuAmounts are the extended resources of GPUs that are counted by the piece, and not 0.
func gpuAmounts(list v1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, q := range list {
		if dialect.CountsDevices(string(name)) && !q.IsZero() {
			out[string(name)] = q.Value()
		}
	}
	return out
}

func gpuFacts(node *v1.Node, gn *v1alpha1.GPUNode, byUID map[string]string) *GPUs {
	g := &GPUs{Cordoned: gn.Spec.Cordoned, MeasuredAt: ptr.Deref(gn.Status.MeasuredAt, metav1.Time{}).Time}
	if d := gn.Spec.Driver; d != nil {
		g.Driver, g.CUDA = d.Version, d.CUDA
	}
	if a := gn.Spec.Agent; a != nil {
		g.AgentVersion, g.Serving = a.Version, a.Mode == v1alpha1.Serving
	}
	if s := gn.Spec.Sharing; s != nil {
		g.Replicas, g.Renamed = int(s.Replicas), s.Renamed
	}
	for _, c := range gn.Status.Conditions {
		if c.Type == v1alpha1.DriverReady {
			g.DriverReady, g.DriverMessage = string(c.Status), c.Message
		}
	}
	linked := map[int32]bool{}
	for _, l := range gn.Spec.Links {
		if l.Class == "NVLink" || l.Class == "NVSwitch" {
			for _, index := range l.Between {
				linked[index] = true
			}
		}
	}
	for _, d := range gn.Spec.Devices {
		out := deviceFacts(&d, statusOf(gn, &d), byUID)
		out.Linked = linked[d.Index]
		g.Devices = append(g.Devices, out)
	}
	if _, err := dialect.Inventory(node, gn); err != nil {
		g.Problem = err.Error()
	}
	return g
}

// statusOf is a device's status; without one, or when it is of another card, it is healthy.
func statusOf(gn *v1alpha1.GPUNode, d *v1alpha1.Device) *v1alpha1.DeviceStatus {
	for _, s := range gn.Status.Devices {
		if s.Index == d.Index && (s.UUID == "" || d.UUID == "" || s.UUID == d.UUID) {
			return &s
		}
	}
	return &v1alpha1.DeviceStatus{Health: v1alpha1.Healthy}
}

func deviceFacts(d *v1alpha1.Device, s *v1alpha1.DeviceStatus, byUID map[string]string) Device {
	out := Device{
		Index: int(d.Index), UUID: d.UUID, Vendor: d.Vendor, Model: d.Model, MemoryMiB: d.MemoryMiB, NVLinks: int(d.NVLinks),
		Health: string(s.Health), Cause: s.Cause, Reason: s.Reason, Since: ptr.Deref(s.Since, metav1.Time{}).Time,
		XID: int(ptr.Deref(s.LastXID, -1)), Temperature: int(ptr.Deref(s.TemperatureCelsius, -1)),
		Watts: int(ptr.Deref(s.PowerWatts, -1)), UsedMiB: ptr.Deref(s.MemoryUsedMiB, -1),
	}
	if m := d.MIG; m != nil {
		out.MIG, out.Cut, out.Instances = true, m.Enabled || len(m.Instances) > 0, map[string]int{}
		for _, in := range m.Instances {
			out.Instances[in.Profile]++
			if in.Owned {
				out.Owned++
			}
		}
	}
	for _, o := range s.OverMemory {
		out.Over = append(out.Over, Over{Pod: cmp.Or(byUID[o.PodUID], "with UID "+o.PodUID), Used: o.UsedMiB, GivenM: o.GivenMiB})
	}
	return out
}

// isAgent says whether a pod is gpu-agent, by the chart's label.
func isAgent(p *v1.Pod) bool {
	return p.Labels["app.kubernetes.io/name"] == "gpu-agent" && ofDaemonSet(p)
}

// pluginNames are parts of the names of device plugins of GPUs.
var pluginNames = []string{"nvidia-device-plugin", "hami-device-plugin", "vgpu-device-plugin", "volcano-device-plugin", "gpushare-device-plugin", "ascend-device-plugin", "amdgpu-device-plugin", "intel-gpu-plugin"}

func isPlugin(p *v1.Pod) bool {
	return ofDaemonSet(p) && slices.ContainsFunc(pluginNames, func(n string) bool { return strings.Contains(p.Name, n) })
}

// ofDaemonSet: a tenant's pod may have any label and name.
func ofDaemonSet(p *v1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "DaemonSet"
}

func programOf(p *v1.Pod) Program {
	out := Program{Name: p.Namespace + "/" + p.Name}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			out.Ready = c.Status == v1.ConditionTrue
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		out.Restarts += int(c.RestartCount)
		if w := c.State.Waiting; w != nil {
			out.Waiting = w.Reason
		}
	}
	return out
}

func podFacts(p *v1.Pod) Pod {
	out := Pod{
		Name: p.Namespace + "/" + p.Name, Started: p.Status.Phase == v1.PodRunning, ByClaim: len(p.Spec.ResourceClaims) > 0,
		DeleteBy: ptr.Deref(p.DeletionTimestamp, metav1.Time{}).Time,
	}
	_, out.Ours = p.Annotations[names.AnnotationCharged]
	r, err := dialect.Request(p)
	out.Asks = r != nil
	if err != nil {
		out.AskError = err.Error()
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			out.BoundAt = c.LastTransitionTime.Time
		}
	}
	text, ok := p.Annotations[names.AnnotationDevices]
	if !ok {
		return out
	}
	rec, err := record.Decode(text)
	if err == nil && rec.Node != p.Spec.NodeName {
		err = errors.New("it names node " + rec.Node)
	}
	if err != nil {
		out.RecordError = err.Error()
		return out
	}
	out.Record = true
	for _, c := range rec.Containers {
		for _, d := range c.Devices {
			h := Held{Index: d.Index, UUID: d.UUID, Whole: d.MemoryMiB == 0 && d.ComputeMilli == 0 && !d.Turn && d.MIG == ""}
			if !slices.Contains(out.Held, h) { // init containers hold what containers get
				out.Held = append(out.Held, h)
			}
		}
	}
	return out
}
