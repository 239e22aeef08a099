package audit

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/core/explain"
)

// Version is the version of the format. Fields may be added to it; one that changes its
// meaning makes a new version.
const Version = 1

// Kinds of decisions.
const (
	Start  = "start"  // a pod was bound to a node, with its devices
	Evict  = "evict"  // a pod was told to leave its node
	Refuse = "refuse" // a gang, or a pod that comes alone, does not start now
)

// Entry is one decision. Fields that do not apply are left out.
type Entry struct {
	Version   int       `json:"version"`             // of the format
	Time      time.Time `json:"time"`                // of the decision, as RFC 3339 with microseconds, UTC
	Kind      string    `json:"kind"`                // start, evict or refuse
	Scheduler string    `json:"scheduler,omitempty"` // the scheduler name that the pod asked for
	// Namespace, Pod and UID are the pod's; of a refusal the gang's first waiting pod.
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	// Gang is the gang's name; the pod's own for a pod that comes alone. Members is how many
	// of its pods a refusal is about.
	Gang    string   `json:"gang,omitempty"`
	Members int      `json:"members,omitempty"`
	Queue   string   `json:"queue,omitempty"`   // the queue that is charged, or in which the gang waits
	Node    string   `json:"node,omitempty"`    // where the pod was bound, or what it was told to leave
	Devices []Device `json:"devices,omitempty"` // those the pod was given, or held
	// Reason is a code: of a refusal why the gang waits, of an eviction what for
	// (Preempted, Contested). A start has none.
	Reason  string      `json:"reason,omitempty"`
	Class   string      `json:"class,omitempty"`   // what a refused gang waits for: capacity, quota, members, turn or owner
	Never   bool        `json:"never,omitempty"`   // no change of running pods, cordons, taints or queues would let it start
	Message string      `json:"message,omitempty"` // the reason in words
	For     string      `json:"for,omitempty"`     // the gang for which a pod was evicted
	Numbers *Numbers    `json:"numbers,omitempty"` // that go with the reason
	Nodes   []NodeCount `json:"nodes,omitempty"`   // why nodes were refused, by cause
}

// Device is a device, or a part of one.
type Device struct {
	Container string `json:"container"` // that has it
	// Index on the node, and UUID where it is known.
	Index int    `json:"index"`
	UUID  string `json:"uuid,omitempty"`
	// MemoryMiB and ComputeMilli are a share's.
	MemoryMiB    int64  `json:"memoryMiB,omitempty"`
	ComputeMilli int    `json:"computeMilli,omitempty"`
	MIG          string `json:"mig,omitempty"` // a slice's profile
}

// Numbers are what a reason is about; which of them count depends on its code.
type Numbers struct {
	// Need members must start together, Exist of them there are, Placed found a place.
	Need   int `json:"need,omitempty"`
	Exist  int `json:"exist,omitempty"`
	Placed int `json:"placed,omitempty"`
	// Resource that a quota is about: Want is asked for, of Limit in all, of which Used is
	// in use. GPUs and CPUs in thousandths, memory in MiB.
	Resource string `json:"resource,omitempty"`
	Want     int64  `json:"want,omitempty"`
	Limit    int64  `json:"limit,omitempty"`
	Used     int64  `json:"used,omitempty"`
	Ahead    int    `json:"ahead,omitempty"` // how many gangs are before this one
}

// NodeCount is a cause for which nodes were refused.
type NodeCount struct {
	// Code of the cause, and on how many nodes.
	Code  string `json:"code"`
	Nodes int    `json:"nodes"`
	// Need is what was asked for, Best what the best of the nodes has, in the cause's unit.
	Need   int64  `json:"need,omitempty"`
	Best   int64  `json:"best,omitempty"`
	Detail string `json:"detail,omitempty"` // the label, model, taint, resource or filter
}

// Of begins an entry about a pod.
func Of(kind string, pod *v1.Pod, now time.Time) Entry {
	return Entry{
		Version: Version, Time: now.UTC().Truncate(time.Microsecond), Kind: kind, Scheduler: pod.Spec.SchedulerName,
		Namespace: pod.Namespace, Pod: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName,
	}
}

// DevicesOf are the devices of a record.
func DevicesOf(r record.Record) (out []Device) {
	for _, c := range r.Containers {
		for _, d := range c.Devices {
			out = append(out, Device{c.Name, d.Index, d.UUID, d.MemoryMiB, d.ComputeMilli, d.MIG})
		}
	}
	return out
}

const maxDetail = 1024 // bounds what of a filter's or an owner's words is kept

// Because adds why a gang waits.
func (e *Entry) Because(r *explain.Reason) {
	e.Reason, e.Class, e.Never, e.Message = r.Code.String(), strings.ToLower(r.Class().String()), r.Never, cut(r.String())
	e.Numbers = &Numbers{r.Need, r.Exist, r.Placed, r.Resource, r.Want, r.Limit, r.Used, r.Ahead}
	if *e.Numbers == (Numbers{}) {
		e.Numbers = nil
	}
	for _, l := range r.Nodes.Lines() {
		e.Nodes = append(e.Nodes, NodeCount{l.Code.String(), l.Nodes, l.Need, l.Best, cut(l.Detail)})
	}
}

func cut(s string) string { return s[:min(len(s), maxDetail)] }
