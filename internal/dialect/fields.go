package dialect

import (
	"slices"
	"strings"
)

// KnownKind is a kind of another project that Tangram reads, with the fields that have an effect.
type KnownKind struct {
	Group, Kind string
	// Fields are paths: [] stands for any entry of a list, ** at the end for everything below.
	Fields []string
}

// KnownKinds are the kinds whose fields `tangram migrate check` knows. Readers of objects in
// this package, and gpu-controller for Volcano Jobs and Commands, read these fields and no
// others (TestFields, and TestVolcanoTypes of internal/migrate).
func KnownKinds() []KnownKind {
	topology := func(at string) []string {
		return []string{at + ".mode", at + ".highestTierAllowed", at + ".highestTierName"}
	}
	policies := func(at string) []string {
		return []string{at + ".action", at + ".event", at + ".events", at + ".exitCode", at + ".timeout"}
	}
	kaiTopology := func(at string) []string {
		return []string{at + ".requiredTopologyLevel", at + ".preferredTopologyLevel"}
	}
	levels := []string{"spec.levels[].nodeLabel", "spec.levels[].alias"}
	return []KnownKind{
		{Queues.Group, "Queue", []string{
			"spec.parent", "spec.weight", "spec.priority", "spec.reclaimable", "spec.capability.**", "spec.deserved.**", "spec.guarantee.resource.**",
		}},
		{PodGroups.Group, "PodGroup", slices.Concat([]string{
			"spec.minMember", "spec.minTaskMember.**", "spec.queue", "spec.priorityClassName", "spec.minResources.**",
			"spec.subGroupPolicy[].name", "spec.subGroupPolicy[].subGroupSize", "spec.subGroupPolicy[].minSubGroups",
			"spec.subGroupPolicy[].labelSelector.**", "spec.subGroupPolicy[].matchLabelKeys",
		}, topology("spec.networkTopology"), topology("spec.subGroupPolicy[].networkTopology"))},
		{"batch.volcano.sh", "Job", slices.Concat([]string{
			"spec.schedulerName", "spec.minAvailable", "spec.queue", "spec.maxRetry", "spec.ttlSecondsAfterFinished", "spec.priorityClassName",
			"spec.minSuccess", "spec.runningEstimate", "spec.volumes[].mountPath", "spec.volumes[].volumeClaimName", "spec.volumes[].volumeClaim.**",
			"spec.plugins.svc", "spec.plugins.env", "spec.plugins.ssh", "spec.plugins.pytorch",
			"spec.tasks[].name", "spec.tasks[].replicas", "spec.tasks[].minAvailable", "spec.tasks[].template.**", "spec.tasks[].maxRetry",
			"spec.tasks[].dependsOn.name", "spec.tasks[].dependsOn.iteration",
			"spec.tasks[].partitionPolicy.totalPartitions", "spec.tasks[].partitionPolicy.partitionSize", "spec.tasks[].partitionPolicy.minPartitions",
		}, policies("spec.policies[]"), policies("spec.tasks[].policies[]"),
			topology("spec.networkTopology"), topology("spec.tasks[].partitionPolicy.networkTopology"))},
		{"bus.volcano.sh", "Command", []string{"action", "target.**", "reason", "message"}},
		{HyperNodes.Group, "HyperNode", []string{
			"spec.tier", "spec.tierName", "spec.members[].type", "spec.members[].selector.exactMatch.name",
			"spec.members[].selector.regexMatch.pattern", "spec.members[].selector.labelMatch.**",
		}},
		{KAIQueues.Group, "Queue", []string{
			"spec.parentQueue", "spec.priority", "spec.preemptMinRuntime", "spec.reclaimMinRuntime",
			"spec.resources.cpu.quota", "spec.resources.cpu.limit", "spec.resources.cpu.overQuotaWeight",
			"spec.resources.memory.quota", "spec.resources.memory.limit", "spec.resources.memory.overQuotaWeight",
			"spec.resources.gpu.quota", "spec.resources.gpu.limit", "spec.resources.gpu.overQuotaWeight",
		}},
		{KAIGroups.Group, "PodGroup", slices.Concat([]string{
			"spec.queue", "spec.priorityClassName", "spec.minMember", "spec.minSubGroup", "spec.preemptibility", "spec.preemptionDelay",
			"spec.subGroups[].name", "spec.subGroups[].parent", "spec.subGroups[].minMember", "spec.subGroups[].minSubGroup",
		}, kaiTopology("spec.topologyConstraint"), kaiTopology("spec.subGroups[].topologyConstraint"))},
		{KAITopologies.Group, "Topology", levels},
		{KueueTopologies.Group, "Topology", levels},
		{KoordGroups.Group, "PodGroup", []string{"spec.minMember"}},
		{PluginGroups.Group, "PodGroup", []string{"spec.minMember"}},
	}
}

// Knows says whether a field has an effect; path has [] for entries of lists, as in Fields.
func (k *KnownKind) Knows(path string) bool {
	return slices.ContainsFunc(k.Fields, func(f string) bool { return matchField(f, path) })
}

func matchField(pattern, path string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(path, ".")
	for i, w := range want {
		switch {
		case w == "**":
			return true
		case i >= len(have) || w != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}
