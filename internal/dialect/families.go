package dialect

import (
	"slices"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/topology"
)

// otherFamilies are the words for everything but devices: gangs, queues, placement, topology, nodes.
var otherFamilies = []family{
	{
		name: "Tangram", system: "tangram", domains: []string{names.Group},
		words: slices.Concat(
			granting(QueueRight, labelWords(names.LabelQueue)),
			granting(UserRight, annotationWords(names.AnnotationUser)),
			granting(ExemptionRight, annotationWords(names.AnnotationPreemptible, names.AnnotationMinRuntime)),
			labelWords(names.LabelWorkload, names.LabelGang, names.LabelGangSize, names.LabelGangGroup, names.LabelJobID,
				names.LabelPlaceholder, names.LabelPlaceholderGang),
			annotationWords(names.AnnotationDevices, names.AnnotationClaims, names.AnnotationCharged,
				names.AnnotationPlacement, names.AnnotationAffinity, names.AnnotationTopology,
				names.AnnotationRuntime, names.AnnotationQuota, names.AnnotationGangGroups,
				names.AnnotationMaintenance, names.AnnotationIsolated, names.AnnotationVerifies, names.AnnotationKept,
				names.AnnotationPlaceholderFor, names.AnnotationSavedAt, names.AnnotationSavedBy,
				names.AnnotationSimulatedFaults, names.AnnotationSimulatedLost, names.AnnotationSimulatedUtilization, names.AnnotationSimulatedMemory,
				names.AnnotationOrder, names.AnnotationAging, names.AnnotationNamespaces),
			// Limits of queues and quotas count a GPU model by this name.
			[]Word{{Kind: Resource, Name: modelPrefix + "*", Effect: Reads}},
		),
	},
	{
		name: "nodes",
		words: slices.Concat(
			labelWords(names.LabelAgent, names.LabelPool, names.Group+"/local-runner",
				names.LabelAccelerator, names.LabelGPUCount, names.LabelGPUMemory, names.LabelInterconnect,
				names.LabelNVIDIAProduct, names.LabelNVIDIACount, names.LabelNVIDIAMemory, names.LabelAMDProduct,
				replicasLabel, sharingLabel, mpsLabel, tierPrefix+"*"),
			levelWords(),
		),
	},
	{
		name: "Volcano", system: "volcano", domains: []string{"volcano.sh"},
		words: slices.Concat(
			granting(QueueRight, annotationWords(names.AnnotationVolcanoQueue, names.AnnotationVolcanoJobQueue)),
			granting(ExemptionRight, annotationWords(names.AnnotationVolcanoPreemptable)),
			annotationWords(names.AnnotationVolcanoGroup, names.AnnotationKubeGroup, names.AnnotationVolcanoTask, volcanoTopologyMode, volcanoTopologyTier),
			labelWords(labelVolcanoJob),
			// gpu-controller writes these on what it makes for a Volcano Job.
			listed(Annotation, Writes, "volcano.sh/job-name", "volcano.sh/task-index", "volcano.sh/job-version", "volcano.sh/job-retry-count", "volcano.sh/template-uid"),
			listed(Label, Writes, "volcano.sh/job-namespace", "volcano.sh/task-spec", "volcano.sh/task-index", "volcano.sh/queue-name", "volcano.sh/partition-id"),
		),
	},
	{
		name: "KAI and Run:ai, gangs", system: "kai", domains: []string{"kai.scheduler", "run.ai", "runai"},
		words: slices.Concat(
			granting(QueueRight, labelWords(names.LabelKAIQueue, names.LabelRunaiQueue, names.LabelRunaiProject)),
			granting(PriorityRight, labelWords(kaiPriorityClass)),
			granting(ExemptionRight, labelWords(kaiPreemptibility)),
			labelWords(labelNodePool, KAISubgroup),
			annotationWords(kaiGroupName, kaiMinMember, kaiPreemptionDelay, kaiRequired, kaiPreferred),
			refusedWords(noSegments, kaiSegmentSize, kaiSegmentTopology),
			[]Word{
				{Kind: Annotation, Name: kaiTopologyName, Effect: Ignores, Note: "nothing to do: the levels of all Topology objects count, by their node labels"},
				{Kind: Annotation, Name: "kai.scheduler/staleness-grace-period", Effect: Ignores, Note: "nothing to do: a gang that lost members gets them back first, it is not ended"},
				{Kind: Label, Name: "kai.scheduler/task-priority", Effect: Ignores, Note: "nothing to do: members of a gang start together"},
			},
		),
	},
	{
		name: "Koordinator, gangs", system: "koordinator", domains: []string{"koordinator.sh", koordGroupLabel},
		words: slices.Concat(
			granting(QueueRight, labelWords(names.LabelKoordQuota)),
			labelWords(koordGroupLabel, koordLightName, koordLightMin),
			annotationWords(koordGang, koordMin, koordTotal, koordMode, koordWait, koordGangs),
			refusedWords(noNetworkSpec, koordNetwork),
		),
	},
	{
		name: "Kueue", system: "kueue", domains: []string{"kueue.x-k8s.io"},
		words: slices.Concat(
			labelWords(labelKueueGroup),
			annotationWords(annotationKueueTotal, annotationKueueParent, annotationKueueFast, kueueRequired, kueuePreferred),
			refusedWords(noSlices, kueueSlice),
		),
	},
	{name: "scheduler-plugins", words: labelWords(names.LabelPluginGroup)},
	{name: "Grove", words: labelWords(groveGang, groveClique)},
	{name: "Job", words: annotationWords(jobIndex)},
	{name: "JobSet", words: slices.Concat(labelWords(labelJobSet, labelReplicatedJob), annotationWords(jobSetExclusive, jobSetBySelector))},
	{name: "LeaderWorkerSet", words: slices.Concat(labelWords(labelLWS, labelLWSGroup, labelLWSWorker), annotationWords(annotationLWSSize, annotationLWSExclusive))},
	{name: "KubeRay", words: labelWords(labelRayCluster, labelRayGroup)},
	{name: "training-operator", words: labelWords(labelKubeflowJob, labelKubeflowType)},
}

// families is the whole table.
var families = slices.Concat(deviceFamilies, otherFamilies)

// levelWords are the node labels of the default levels of domains.
func levelWords() []Word {
	var out []Word
	for _, l := range topology.DefaultLevels() {
		out = append(out, labelWords(l.Label)...)
	}
	return out
}
