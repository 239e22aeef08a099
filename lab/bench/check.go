package bench

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
)

// expectation is what a valid result looks like.
type expectation struct {
	// pods are the names of all pods that must be bound.
	pods []string
	// gpusPerPod is what each of them asks for.
	gpusPerPod int
	// capacity maps a node to its GPUs.
	capacity map[string]int
	// records demands a record on every pod, in which no device occurs twice.
	records bool
}

// maxProblems is how many problems of one kind are reported.
const maxProblems = 5

// checkResult compares the pods that the API holds at the end with what was
// asked for. It returns the number of nodes that pods are on and the problems, in
// the order of pod names. A fast scheduler that double-books has not been fast.
func checkResult(want expectation, pods []corev1.Pod) (nodesUsed int, problems []string) {
	byName := make(map[string]*corev1.Pod, len(pods))
	for i := range pods {
		byName[pods[i].Name] = &pods[i]
	}
	var missing, unbound problemList
	used := map[string]int{}
	books := deviceBooks{holder: map[string]string{}}
	for _, name := range slices.Sorted(slices.Values(want.pods)) {
		pod, ok := byName[name]
		switch {
		case !ok:
			missing.addf("pod %s does not exist", name)
			continue
		case pod.Spec.NodeName == "":
			unbound.addf("pod %s is not bound%s", name, why(pod))
			continue
		}
		used[pod.Spec.NodeName] += want.gpusPerPod
		if want.records {
			books.enter(pod, want.gpusPerPod)
		}
	}
	var overfull problemList
	for _, node := range slices.Sorted(maps.Keys(used)) {
		capacity, ok := want.capacity[node]
		switch {
		case !ok:
			overfull.addf("node %s is not one of the fleet", node)
		case used[node] > capacity:
			overfull.addf("node %s has %d GPUs and %d are taken", node, capacity, used[node])
		}
	}
	for _, l := range []problemList{missing, unbound, overfull, books.problems} {
		problems = append(problems, l.texts()...)
	}
	return len(used), problems
}

// why is the scheduler's own reason for not placing a pod, where it gave one.
func why(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Message != "" {
			return ": " + c.Message
		}
	}
	return ""
}

// deviceBooks collects the holder of each device, from the records.
type deviceBooks struct {
	// holder maps a device to the pod that holds it. A device goes by its index on
	// its node and, where the record has one, by its UUID in the whole cluster:
	// either one twice is double-booking.
	holder   map[string]string
	problems problemList
}

func (b *deviceBooks) enter(pod *corev1.Pod, gpus int) {
	text, ok := pod.Annotations[names.AnnotationDevices]
	if !ok {
		b.problems.addf("pod %s has no annotation %s", pod.Name, names.AnnotationDevices)
		return
	}
	r, err := record.Decode(text)
	if err != nil {
		b.problems.addf("pod %s: annotation %s: %v", pod.Name, names.AnnotationDevices, err)
		return
	}
	if r.Node != pod.Spec.NodeName {
		b.problems.addf("pod %s is on node %s and its record on %s", pod.Name, pod.Spec.NodeName, r.Node)
	}
	held := 0
	for _, c := range r.Containers {
		for _, d := range c.Devices {
			held++
			b.hold(fmt.Sprintf("device %d of node %s", d.Index, r.Node), pod.Name)
			if d.UUID != "" {
				b.hold("device "+d.UUID, pod.Name)
			}
		}
	}
	if held != gpus {
		b.problems.addf("pod %s asked for %d GPUs and its record has %d", pod.Name, gpus, held)
	}
}

func (b *deviceBooks) hold(device, pod string) {
	if first, taken := b.holder[device]; taken {
		b.problems.addf("%s is held by pod %s and by pod %s", device, first, pod)
		return
	}
	b.holder[device] = pod
}

// problemList keeps the first problems and counts the rest.
type problemList struct {
	first []string
	count int
}

func (l *problemList) addf(format string, args ...any) {
	if l.count++; l.count <= maxProblems {
		l.first = append(l.first, fmt.Sprintf(format, args...))
	}
}

func (l *problemList) texts() []string {
	if more := l.count - len(l.first); more > 0 {
		return append(l.first, fmt.Sprintf("and %d more like the last", more))
	}
	return l.first
}
