package checker

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Labels that the load puts on its pods: what the checker knows of a pod beside its
// spec and its record.
const (
	// LabelUnit names what a pod was created for: a single pod, a gang, a job.
	LabelUnit = "chaos.tangram.dev/unit"
	// LabelMinimum is how many pods of the unit must run together.
	LabelMinimum = "chaos.tangram.dev/minimum"
	// LabelQueue is the queue the unit was submitted to.
	LabelQueue = "chaos.tangram.dev/queue"
	// LabelHand marks a pod that the second binder binds by hand.
	LabelHand = "chaos.tangram.dev/by-hand"
	// LabelPulse marks the small pods that show that bindings flow.
	LabelPulse = "chaos.tangram.dev/pulse"
)

// Pod is what the checker knows of one pod.
type Pod struct {
	UID, Name       string
	Unit, Queue     string
	Minimum         int
	Hand, Pulse     bool
	Node, Record    string
	Phase           v1.PodPhase
	Terminating     bool
	Ask             Ask
	Init            map[string]bool // names of init containers
	ResourceVersion string
}

// Ask is what a pod's GPU container asks for: whole devices, one share, or one slice.
// Pool, if any, is where the load lets it go; a pod as the API delivers it has none.
type Ask struct {
	Pool       string
	Whole      int
	ShareMiB   int64
	ShareMilli int
	Profile    string
}

// FromAPI reads a pod as the API server delivers it.
func FromAPI(p *v1.Pod) Pod {
	minimum, err := strconv.Atoi(p.Labels[LabelMinimum])
	if err != nil {
		minimum = 1
	}
	out := Pod{
		UID: string(p.UID), Name: p.Name, Unit: p.Labels[LabelUnit], Queue: p.Labels[LabelQueue], Minimum: minimum,
		Hand: p.Labels[LabelHand] != "", Pulse: p.Labels[LabelPulse] != "",
		Node: p.Spec.NodeName, Record: p.Annotations[AnnotationRecord],
		Phase: p.Status.Phase, Terminating: p.DeletionTimestamp != nil,
		Init: map[string]bool{}, ResourceVersion: p.ResourceVersion,
	}
	for _, c := range p.Spec.InitContainers {
		out.Init[c.Name] = true
	}
	for _, c := range p.Spec.Containers {
		if a := askOf(c.Resources.Limits); a != (Ask{}) {
			out.Ask = a
		}
	}
	return out
}

func askOf(limits v1.ResourceList) Ask {
	amount := func(name string) int64 {
		q := limits[v1.ResourceName(name)]
		return q.Value()
	}
	const gpu, memory, cores, slice = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/mig-"
	for name := range limits {
		if profile, ok := strings.CutPrefix(string(name), slice); ok {
			return Ask{Profile: profile}
		}
	}
	if amount(memory) > 0 || amount(cores) > 0 {
		return Ask{ShareMiB: amount(memory), ShareMilli: 10 * int(amount(cores))}
	}
	return Ask{Whole: int(amount(gpu))}
}

func (a Ask) String() string {
	switch {
	case a.Whole > 0:
		return fmt.Sprintf("%d GPUs", a.Whole)
	case a.Profile != "":
		return "a slice " + a.Profile
	}
	return fmt.Sprintf("a share of %d MiB and %d thousandths", a.ShareMiB, a.ShareMilli)
}

// devices is on how many devices the ask lies.
func (a Ask) devices() int {
	if a.Whole > 0 {
		return a.Whole
	}
	if a != (Ask{}) {
		return 1
	}
	return 0
}

// ended says whether the pod's containers are over.
func (p Pod) ended() bool { return p.Phase == v1.PodSucceeded || p.Phase == v1.PodFailed }

// holds says whether the pod occupies what it was given.
func (p Pod) holds() bool { return p.Node != "" && !p.ended() }
