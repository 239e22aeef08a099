package dialect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/core/model"
)

// KAI's and Run:ai's words for a part of a GPU: annotations about one container, the first unless another is named.
const (
	kaiFraction  = "gpu-fraction"                // of a card's memory: 0.5
	kaiMemory    = "gpu-memory"                  // MiB of each card
	kaiDevices   = "gpu-fraction-num-devices"    // on how many cards, each as much
	kaiContainer = "gpu-fraction-container-name" // which container has them
	kaiCompute   = "gpu-sm-percentage"           // of each card's compute

	// Words that ask for more than a share.
	kaiFractionLimit = "gpu-fraction.limit"
	kaiMemoryLimit   = "gpu-memory.limit"
	kaiCores         = "gpu-sm-cores"

	// kaiShare is the name of such a part in the record: kubelet knows no resource for it.
	kaiShare v1.ResourceName = "kai.scheduler/gpu-fraction"

	// labelNodePool partitions a cluster: pods with it run on nodes with the same value.
	labelNodePool = "kai.scheduler/node-pool"
)

func readKAI(pod *v1.Pod, c *v1.Container, path string) (*ask, error) {
	if !asksKAI(pod) || usesHAMi(&words{c: c, path: path}) && SpeaksKAI(pod) {
		// In the second case the words were translated when the pod was created
		// (config/admission/kai.yaml), so that kubelet allocates the devices.
		return nil, nil
	}
	name, err := kaiHolder(pod)
	if err != nil || c.Name != name {
		return nil, err
	}
	return kaiAsk(pod)
}

// kaiWishes refuses words that ask for more than a share: they cannot be given.
func kaiWishes(pod *v1.Pod, _ *model.Request) error {
	return refuse(pod.Annotations, kaiFractionLimit, kaiMemoryLimit, kaiCores)
}

// SpeaksKAI says whether a pod was written for KAI or Run:ai: it names their scheduler or
// has a label or an annotation of theirs. Only then words without a prefix are theirs.
func SpeaksKAI(pod *v1.Pod) bool {
	if slices.Contains(names.KAISchedulerNames, pod.Spec.SchedulerName) {
		return true
	}
	for _, words := range []map[string]string{pod.Labels, pod.Annotations} {
		for key := range words {
			if strings.HasPrefix(key, "kai.scheduler/") || strings.HasPrefix(key, "runai/") {
				return true
			}
		}
	}
	return false
}

// asksKAI says whether a pod asks for a part of a GPU in these words. gpu-memory has no prefix: in
// pods that were not written for KAI it counts only where no container asks for devices.
func asksKAI(pod *v1.Pod) bool {
	_, fraction := pod.Annotations[kaiFraction]
	_, memory := pod.Annotations[kaiMemory]
	_, devices := pod.Annotations[kaiDevices]
	return fraction || (memory || devices) && (SpeaksKAI(pod) || !asksByResource(pod))
}

// asksByResource says whether a container asks for devices by an extended resource.
func asksByResource(pod *v1.Pod) bool {
	found, domains := false, DeviceDomains()
	_ = eachContainer(pod, func(c *v1.Container, _ string, _ model.Phase) error {
		for _, name := range named(c, "") {
			domain, _, _ := strings.Cut(string(name), "/")
			found = found || slices.Contains(domains, domain)
		}
		return nil
	})
	return found
}

// kaiHolder is the container that has the part.
func kaiHolder(pod *v1.Pod) (string, error) {
	name, ok := pod.Annotations[kaiContainer]
	if !ok {
		if len(pod.Spec.Containers) == 0 {
			return "", nil
		}
		return pod.Spec.Containers[0].Name, nil
	}
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if slices.ContainsFunc(list, func(c v1.Container) bool { return c.Name == name }) {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s: the pod has no container %q", annotation(kaiContainer), name)
}

// kaiAsk reads the amounts.
func kaiAsk(pod *v1.Pod) (*ask, error) {
	a := &ask{vendor: model.NVIDIA, resource: kaiShare, count: 1, part: model.Part{Kind: model.Share}, field: annotation(kaiFraction)}
	fraction, hasFraction := pod.Annotations[kaiFraction]
	memory, hasMemory := pod.Annotations[kaiMemory]
	switch {
	case hasFraction && hasMemory:
		return nil, fmt.Errorf("%s: given beside %s", annotation(kaiMemory), annotation(kaiFraction))
	case hasFraction:
		milli, ok := thousandths(fraction)
		if !ok {
			return nil, fmt.Errorf("%s: %q is not a fraction like 0.5, from 0.001 to below 1; whole GPUs are %s", annotation(kaiFraction), fraction, names.ResourceNVIDIA)
		}
		a.part.MemoryMilli = milli
	case hasMemory:
		mib, err := strconv.ParseInt(memory, 10, 64)
		if err != nil || mib < 1 || mib > maxMiB {
			return nil, fmt.Errorf("%s: %q is not a number of MiB from 1 to %d", annotation(kaiMemory), memory, maxMiB)
		}
		a.part.Memory, a.field = model.MiB(mib), annotation(kaiMemory)
	default:
		return nil, fmt.Errorf("%s: given without %s or %s", annotation(kaiDevices), kaiFraction, kaiMemory)
	}
	cards, err := numberIn(pod.Annotations, kaiDevices, annotation(kaiDevices), maxCount)
	if err != nil {
		return nil, err
	}
	percent, err := numberIn(pod.Annotations, kaiCompute, annotation(kaiCompute), 100)
	a.count, a.part.Milli = max(1, cards), percent*10
	return a, err
}

// recordedShare is what a bound pod of KAI's holds, by its record: its annotations can be edited, and
// what it was given stays. nil when the record is not about such a part.
func recordedShare(pod *v1.Pod) *model.Request {
	text, ok := pod.Annotations[names.AnnotationDevices]
	if !ok || !strings.Contains(text, string(kaiShare)) {
		return nil
	}
	rec, err := record.Decode(text)
	if err != nil || rec.Node != pod.Spec.NodeName {
		return nil
	}
	out := &model.Request{Vendor: model.NVIDIA, Priority: priority(pod)}
	given := map[string][]record.Device{}
	for _, c := range rec.Containers {
		if c.Resource == string(kaiShare) {
			given[c.Name] = c.Devices
		}
	}
	_ = eachContainer(pod, func(c *v1.Container, _ string, phase model.Phase) error {
		share := model.Container{Name: c.Name, Phase: phase}
		if devices := given[c.Name]; len(devices) > 0 {
			share.Resource, share.Count = string(kaiShare), len(devices)
			share.Part = model.Part{Kind: model.Share, Memory: model.MiB(devices[0].MemoryMiB), Milli: devices[0].ComputeMilli}
		}
		out.Containers = append(out.Containers, share)
		return nil
	})
	if out.Count() == 0 {
		return nil
	}
	return out
}

// thousandths reads a fraction above 0 and below 1, rounded down so that equal parts of a card fit together.
func thousandths(text string) (int, bool) {
	q, err := ParseQuantity(text)
	if err != nil || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	micro := q.ScaledValue(resource.Micro)
	if micro >= 1e6 {
		return 0, false
	}
	milli := int(micro / 1000)
	return milli, milli > 0
}

// readPool reads the node pool of a pod.
func readPool(pod *v1.Pod, r *model.Request) {
	if pool := pod.Labels[labelNodePool]; pool != "" {
		r.Attributes = append(r.Attributes, model.Want{Key: labelNodePool, Values: []string{pool}})
	}
}

// Words of KAI that restrict where pods may be, and that cannot be kept.
const (
	kaiSegmentSize     = "kai.scheduler/segment-size"
	kaiSegmentTopology = "kai.scheduler/segment-topology-required-placement"
)

const noSegments = "segments are not supported; describe them as subGroups of a PodGroup (scheduling.run.ai), each with its topologyConstraint"

// refuse is an error about the first of the annotations that is there, with the table's note.
func refuse(words map[string]string, keys ...string) error {
	for _, key := range keys {
		if _, ok := words[key]; ok {
			w, _ := FindWord(Annotation, key)
			return fmt.Errorf("%s: %s", annotation(key), w.Note)
		}
	}
	return nil
}
