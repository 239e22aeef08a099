package dialect

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/topology"
)

// WordKind is where a manifest writes a word.
type WordKind string

// The kinds of words.
const (
	Label      WordKind = "label"
	Annotation WordKind = "annotation"
	Resource   WordKind = "resource" // of requests and limits
)

// Effect is what a word does.
type Effect string

// The effects.
const (
	// Reads: it counts, as the guides say.
	Reads Effect = "read"
	// Writes: Tangram writes it for others to read; what people write there does not count.
	Writes Effect = "written"
	// Refuses: a pod with it is refused, since it cannot mean the same.
	Refuses Effect = "refused"
	// Ignores: it has no effect; a pod with it is told so.
	Ignores Effect = "ignored"
)

// Word is a name that this package knows.
type Word struct {
	Kind WordKind
	// Name is the whole name; one * stands for any characters but none, and case does
	// not matter before and after it.
	Name   string
	Effect Effect
	// Note says what to do instead, of words that are refused or ignored.
	Note string
}

// Words are all labels, annotations and resources that this package reads, refuses or
// writes. They are what `tangram migrate check` takes for known: a word that a vocabulary
// reads needs a row here, or TestWords fails.
func Words() []Word {
	out := slices.Concat(
		listed(Label, Reads,
			names.LabelQueue, names.LabelWorkload, names.LabelGang, names.LabelGangSize, names.LabelGangGroup, names.LabelJobID,
			names.LabelPlaceholder, names.LabelPlaceholderGang,
			// Of nodes: where agents run (the chart), and of the local cluster.
			names.LabelAgent, names.LabelPool, names.Group+"/local-runner",
			names.LabelAccelerator, names.LabelGPUCount, names.LabelGPUMemory, names.LabelInterconnect,
			names.LabelNVIDIAProduct, names.LabelNVIDIACount, names.LabelNVIDIAMemory, names.LabelAMDProduct,
			replicasLabel, sharingLabel, mpsLabel,
			names.LabelPluginGroup, names.LabelKAIQueue, names.LabelRunaiQueue, names.LabelRunaiProject, names.LabelKoordQuota,
			labelNodePool, KAISubgroup, kaiPreemptibility, kaiPriorityClass,
			koordGroupLabel, koordLightName, koordLightMin, koordVendor,
			labelKueueGroup, cgpuCountLabel, labelVolcanoJob, groveGang, groveClique,
			labelJobSet, labelReplicatedJob, labelLWS, labelLWSGroup, labelLWSWorker,
			labelRayCluster, labelRayGroup, labelKubeflowJob, labelKubeflowType,
			tierPrefix+"*"),
		listed(Annotation, Reads,
			names.AnnotationDevices, names.AnnotationClaims, names.AnnotationCharged,
			names.AnnotationPlacement, names.AnnotationAffinity, names.AnnotationTopology, names.AnnotationNUMABind,
			names.AnnotationUseModel, names.AnnotationAvoidModel, names.AnnotationUseUUID, names.AnnotationAvoidUUID,
			names.AnnotationUseIndex, names.AnnotationAvoidUnhealthy,
			names.AnnotationRuntime, names.AnnotationMinRuntime, names.AnnotationPreemptible, names.AnnotationQuota, names.AnnotationUser,
			names.AnnotationGangGroups, names.AnnotationMaintenance, names.AnnotationIsolated, names.AnnotationVerifies, names.AnnotationKept,
			names.AnnotationPlaceholderFor, names.AnnotationSavedAt, names.AnnotationSavedBy,
			names.AnnotationSimulatedFaults, names.AnnotationSimulatedLost, names.AnnotationSimulatedUtilization, names.AnnotationSimulatedMemory,
			annotationOrder, annotationAging, annotationNamespaces,
			names.AnnotationVolcanoGroup, names.AnnotationKubeGroup, names.AnnotationVolcanoQueue, names.AnnotationVolcanoJobQueue,
			names.AnnotationVolcanoTask, names.AnnotationVolcanoPreemptable,
			volcanoMode, volcanoRegister, volcanoUse, volcanoAvoid, volcanoTopologyMode, volcanoTopologyTier,
			hamiMode, hamiRegister, hamiCordon, hamiNodePolicy, hamiDevicePolicy,
			ascendMode, "hami.io/use-*-uuid", "hami.io/no-use-*-uuid", "hami.io/node-register-*",
			kaiFraction, kaiMemory, kaiDevices, kaiContainer, kaiCompute, kaiGroupName, kaiMinMember, kaiPreemptionDelay,
			kaiRequired, kaiPreferred,
			koordGang, koordMin, koordTotal, koordMode, koordWait, koordGangs, koordHint,
			annotationKueueTotal, annotationKueueParent, annotationKueueFast, kueueRequired, kueuePreferred,
			jobSetExclusive, jobSetBySelector, jobIndex, annotationLWSSize, annotationLWSExclusive),
		listed(Resource, Reads,
			string(nvidiaGPU), names.ResourceAMD, names.ResourceIntel, names.ResourceGPUMemory,
			string(hamiMemory), string(hamiPercent), string(hamiCores), slicePrefix+"*", string(sharedGPU), string(vGPU),
			string(volcanoMemory), string(volcanoCards), string(volcanoVCards), string(volcanoVMemory), string(volcanoVPercent), string(volcanoVCores),
			string(cgpuMemory), string(cgpuCards), string(cgpuCore), string(cgpuCorePercent),
			string(koordGPU), string(koordCore), string(koordMemory), string(koordRatio), string(koordShared),
			ascendPrefix+"*", string(ascendCore), modelPrefix+"*"),
		listed(Annotation, Writes,
			"hami.io/vgpu-node", "hami.io/vgpu-time", "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated", "hami.io/bind-phase", "hami.io/bind-time",
			"hami.io/*-devices-to-allocate", "hami.io/*-devices-allocated", "huawei.com/Ascend*", string(ascendCore),
			"volcano.sh/vgpu-node", "volcano.sh/vgpu-time", "volcano.sh/vgpu-ids-new", "volcano.sh/devices-to-allocate", "volcano.sh/bind-phase", "volcano.sh/bind-time",
			"volcano.sh/predicate-time", koordAllocated,
			// gpu-controller, on what it makes for a Volcano Job.
			"volcano.sh/job-name", "volcano.sh/task-index", "volcano.sh/job-version", "volcano.sh/job-retry-count", "volcano.sh/template-uid"),
		listed(Label, Writes,
			"volcano.sh/job-namespace", "volcano.sh/task-spec", "volcano.sh/task-index", "volcano.sh/queue-name", "volcano.sh/partition-id"),
	)
	for _, l := range topology.DefaultLevels() {
		out = append(out, Word{Label, l.Label, Reads, ""})
	}
	for _, b := range kaiBeyond {
		out = append(out, Word{Annotation, b.annotation, Refuses, b.why})
	}
	for _, key := range kaiConstraints {
		out = append(out, Word{Annotation, key, Refuses, noSegments})
	}
	for _, key := range []string{koordJoint, koordPartition} {
		out = append(out, Word{Annotation, key, Refuses, noJointDevices})
	}
	out = append(out,
		Word{Annotation, kaiTopologyName, Ignores, "nothing to do: the levels of all Topology objects count, by their node labels"},
		Word{Annotation, koordNetwork, Refuses, noNetworkSpec},
		Word{Annotation, kueueSlice, Refuses, noSlices})
	return append(out, ignored...)
}

// ignored are words without effect that a pod is told about.
var ignored = []Word{
	{Annotation, "kai.scheduler/staleness-grace-period", Ignores, "nothing to do: a gang that lost members gets them back first, it is not ended"},
	{Label, "kai.scheduler/task-priority", Ignores, "nothing to do: members of a gang start together"},
	{Resource, "nvidia.com/priority", Ignores, "write a PriorityClass: what a card's compute is worth to its containers is not ranked"},
}

func listed(kind WordKind, effect Effect, words ...string) []Word {
	out := make([]Word, len(words))
	for i, w := range words {
		out[i] = Word{Kind: kind, Name: w, Effect: effect}
	}
	return out
}

// Matches says whether the row is about a name.
func (w *Word) Matches(name string) bool {
	begin, end, pattern := strings.Cut(w.Name, "*")
	if !pattern {
		return w.Name == name
	}
	rest, ok := cutPrefixFold(name, begin)
	return ok && len(rest) > len(end) && strings.EqualFold(rest[len(rest)-len(end):], end)
}

// FindWord is the row of a word; names without a pattern go before.
func FindWord(kind WordKind, name string) (Word, bool) {
	return findWord(Words(), kind, name)
}

func findWord(words []Word, kind WordKind, name string) (found Word, ok bool) {
	for _, w := range words {
		if w.Kind != kind || !w.Matches(name) {
			continue
		}
		if w.Name == name {
			return w, true
		}
		if !ok {
			found, ok = w, true
		}
	}
	return found, ok
}

// SpeaksKAI says whether a pod was written for KAI or Run:ai: only then words without a
// prefix are theirs.
func SpeaksKAI(pod *v1.Pod) bool { return speaksKAI(pod) }
