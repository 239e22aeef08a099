package migrate

import (
	"strings"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// advised is what to do about a word that Tangram does not know. None of these words is in
// dialect.Words: a test fails for one that is.
type advised struct {
	kind dialect.WordKind
	name string // with a * at the end for all that begin so
	do   string
}

const (
	notNeeded = "nothing: it has no effect here, and none is needed"
	systemOwn = "nothing: the other system's own note; it goes with that system"
)

var advice = []advised{
	// Volcano
	{dialect.Annotation, "volcano.sh/sla-waiting-time", "GPUQueue.patience of the scheduler's configuration, for all gangs alike"},
	{dialect.Annotation, "volcano.sh/hierarchy", "write spec.parent of the Queue"},
	{dialect.Annotation, "volcano.sh/hierarchy-weights", "write spec.parent and spec.weight of the Queues"},
	{dialect.Annotation, "volcano.sh/cooldown-time", "write tangram.dev/min-runtime with the same duration, as an annotation of the pods"},
	{dialect.Label, "volcano.sh/cooldown-time", "write annotation tangram.dev/min-runtime with the same duration"},
	{dialect.Annotation, "volcano.sh/revocable-zone", "taint the nodes outside their hours; pods that may go there tolerate the taint"},
	{dialect.Annotation, "volcano.sh/jdb-min-available", "write a PodDisruptionBudget with minAvailable"},
	{dialect.Annotation, "volcano.sh/jdb-max-unavailable", "write a PodDisruptionBudget with maxUnavailable"},
	{dialect.Annotation, "volcano.sh/numa-topology-policy", "write tangram.dev/topology: required=numa"},
	{dialect.Annotation, "volcano.sh/topology-decision", systemOwn},
	{dialect.Annotation, "volcano.sh/task-topology-*", "describe the tasks as subgroups with a level (docs/guides/hierarchical-gangs.md), or write tangram.dev/device-affinity"},
	{dialect.Annotation, "volcano.sh/task-priority", "write priorityClassName of the pods"},
	{dialect.Label, "volcano.sh/task-priority", "write priorityClassName of the pods"},
	{dialect.Annotation, "volcano.sh/resource-strategy-*", "write tangram.dev/placement: binpack or spread"},
	{dialect.Annotation, "volcano.sh/qos-level", "none: Tangram does not colocate by QoS levels"},
	{dialect.Label, "volcano.sh/preemptable", "write it as an annotation"},
	{dialect.Label, "volcano.sh/nodegroup-name", "an ordinary label of nodes: name it in nodeSelector"},
	{dialect.Annotation, "volcano.sh/job-forwarding", "none: one cluster"},
	{dialect.Annotation, "volcano.sh/job-type", notNeeded},
	{dialect.Label, "volcano.sh/job-type", notNeeded},
	{dialect.Annotation, "volcano.sh/gpu-assigned", systemOwn},
	// KAI, Run:ai
	{dialect.Annotation, "kai.scheduler/skip-podgrouper", notNeeded},
	{dialect.Label, "kai.scheduler/skip-podgrouper", notNeeded},
	{dialect.Annotation, "kai.scheduler/numa-placement-observed", systemOwn},
	{dialect.Annotation, "kai.scheduler/segment-topology-preferred-placement", "describe segments as subGroups of a PodGroup (scheduling.run.ai), each with its topologyConstraint"},
	{dialect.Annotation, "mps", "none: how shares are enforced is the agent's setting (--isolation)"},
	{dialect.Label, "runai-gpu-group", systemOwn},
	{dialect.Annotation, "runai-calculated-status", systemOwn},
	{dialect.Annotation, "run.ai/reserve_for_gpu_index", systemOwn},
	{dialect.Annotation, "received-resource-type", systemOwn},
	// HAMi
	{dialect.Annotation, "hami.io/webhook", notNeeded},
	{dialect.Label, "hami.io/webhook", "nothing: there is no webhook; a pod is Tangram's by its schedulerName"},
	{dialect.Annotation, "hami.io/numa-alignment", "write nvidia.com/numa-bind: \"true\", or tangram.dev/topology: required=numa"},
	{dialect.Annotation, "hami.io/mutex.lock", systemOwn},
	{dialect.Annotation, "hami.io/node-handshake*", systemOwn},
	{dialect.Annotation, "hami.io/node-nvidia-score", "links come from a GPUNode, or are unknown"},
	{dialect.Annotation, "nvidia.com/priority", "write a PriorityClass"},
	// Koordinator
	{dialect.Label, "koordinator.sh/qosClass", "none: Tangram does not colocate by QoS classes"},
	{dialect.Label, "koordinator.sh/priority", "write priorityClassName of the pods"},
	{dialect.Label, "koordinator.sh/gpu-isolation-provider", "none: the agent's own isolation counts (--isolation), or koordlet's"},
	{dialect.Annotation, "scheduling.koordinator.sh/reservation-affinity", "none: Reservations are not read; GPUQueue.reservations keeps nodes for gangs by themselves"},
	{dialect.Annotation, "scheduling.koordinator.sh/resource-spec", "none: CPUs are bound by kubelet's CPU manager"},
	{dialect.Annotation, "scheduling.koordinator.sh/*", "none"},
	{dialect.Label, "quota.scheduling.koordinator.sh/*", "describe the quota as a Queue: spec.parent, deserved (min), capability (max), weight (shared-weight)"},
	{dialect.Annotation, "quota.scheduling.koordinator.sh/*", "describe the quota as a Queue: spec.parent, deserved (min), capability (max), weight (shared-weight)"},
	{dialect.Resource, "koordinator.sh/*", "kube-scheduler counts it where nodes publish it; it is not allocated together with GPUs"},
	// Kueue
	{dialect.Label, "kueue.x-k8s.io/queue-name", "stays Kueue's while Kueue runs; without it write tangram.dev/queue with the ClusterQueue's name (tangram migrate says which)"},
	{dialect.Annotation, "kueue.x-k8s.io/queue-name", "stays Kueue's while Kueue runs; without it write label tangram.dev/queue with the ClusterQueue's name"},
	{dialect.Label, "kueue.x-k8s.io/priority-class", "stays Kueue's while Kueue runs; without it write priorityClassName of the pods"},
	{dialect.Label, "kueue.x-k8s.io/max-exec-time-seconds", "write activeDeadlineSeconds of the Job, and tangram.dev/runtime for backfill"},
	{dialect.Label, "kueue.x-k8s.io/*", systemOwn},
	{dialect.Annotation, "kueue.x-k8s.io/podset-unconstrained-topology", notNeeded},
	{dialect.Annotation, "kueue.x-k8s.io/podset-slice-size", "slices of a pod set are kept by Kueue's topology-aware scheduling only"},
	{dialect.Annotation, "kueue.x-k8s.io/podset-group-name", "describe pod sets that must be close as one gang with a level"},
	{dialect.Annotation, "kueue.x-k8s.io/*", systemOwn},
}

// kindAdvice is about kinds of other systems that Tangram does not read, by group/kind.
var kindAdvice = map[string]string{
	"batch.volcano.sh/CronJob":                  "write a CronJob of Kubernetes whose pods are a gang (labels tangram.dev/gang, gang-size), or one that creates Volcano Jobs",
	"flow.volcano.sh/JobFlow":                   "write dependencies as dependsOn of one Job's tasks, or use a workflow engine",
	"flow.volcano.sh/JobTemplate":               "write Jobs",
	"nodeinfo.volcano.sh/Numatopology":          "not needed: NodeResourceTopology objects are read",
	"datadependency.volcano.sh/*":               "none: one cluster",
	"shard.volcano.sh/*":                        "none: one scheduler serves all nodes",
	"config.volcano.sh/*":                       "none: Tangram does not colocate",
	"kai.scheduler/SchedulingShard":             "tangram migrate reads it: settings of the scheduler's configuration",
	"kai.scheduler/Config":                      "tangram migrate reads it: settings of the scheduler's configuration",
	"scheduling.run.ai/BindRequest":             "KAI's own note: it goes with KAI",
	"kueue.x-k8s.io/ClusterQueue":               "tangram migrate -o queues writes a Queue for it, or keep Kueue before Tangram (docs/guides/kueue.md)",
	"kueue.x-k8s.io/LocalQueue":                 "tangram migrate -o queues: annotation tangram.dev/namespaces of the Queue",
	"kueue.x-k8s.io/Cohort":                     "tangram migrate -o queues writes a Queue with children for it",
	"kueue.x-k8s.io/ResourceFlavor":             "tangram migrate -o queues: quota by GPU model; labels as nodeSelector of the pods",
	"kueue.x-k8s.io/Workload":                   "Kueue's own note: it goes with Kueue",
	"kueue.x-k8s.io/WorkloadPriorityClass":      "write PriorityClasses",
	"kueue.x-k8s.io/AdmissionCheck":             "keep Kueue for admission checks (docs/guides/kueue.md)",
	"kueue.x-k8s.io/*":                          "keep Kueue for it (docs/guides/kueue.md, multikueue.md)",
	"scheduling.sigs.k8s.io/ElasticQuota":       "write a Queue: min is deserved, max is capability",
	"scheduling.koordinator.sh/Reservation":     "none: GPUQueue.reservations keeps nodes for gangs by themselves",
	"scheduling.koordinator.sh/Device":          "not needed: GPUNode describes devices",
	"scheduling.koordinator.sh/PodMigrationJob": "none: pods that run are not moved",
	"slo.koordinator.sh/*":                      "none: Tangram does not colocate by QoS classes",
	"config.koordinator.sh/*":                   "none: pods are not changed by a webhook; write the words into the manifests",
	"quota.koordinator.sh/*":                    "write a Queue with children",
	"analysis.koordinator.sh/*":                 "none",
	"scheduling.x-k8s.io/ElasticQuota":          "write a Queue: min is deserved, max is capability",
}

// fieldAdvice is about fields of kinds that Tangram reads which have no effect, by group/kind
// and path.
var fieldAdvice = map[string]map[string]string{
	"scheduling.volcano.sh/Queue": {
		"spec.affinity.**":       "write the node group as nodeSelector or affinity of the pods",
		"spec.type":              notNeeded,
		"spec.extendClusters":    "none: one cluster",
		"spec.extendClusters.**": "none: one cluster",
		"spec.dequeueStrategy":   "write annotation tangram.dev/order: " + arbiter.PolicyChoice() + "; backfill and reservations decide what passes a job that does not fit",
	},
	"batch.volcano.sh/Job": {
		"spec.tasks[].topologyPolicy": "write annotation tangram.dev/topology: required=numa in the task's template",
		"spec.plugins.tensorflow":     "write TF_CONFIG in the template; plugin svc makes the host names (VC_<TASK>_HOSTS)",
		"spec.plugins.mpi":            "plugins ssh and svc make keys and host names; write the host file in the launcher's command from /etc/volcano",
		"spec.plugins.ray":            "use a RayCluster (KubeRay): it is a gang by itself",
		"spec.plugins.hcclrank":       "write the rank table in the template",
	},
	"scheduling.run.ai/Queue": {
		"spec.displayName": notNeeded,
	},
	"scheduling.run.ai/PodGroup": {
		"spec.stalenessGracePeriod":                    "nothing to do: a gang that lost members gets them back first, it is not ended",
		"spec.markUnschedulable":                       notNeeded,
		"spec.schedulingBackoff":                       notNeeded,
		"spec.topologyConstraint.topology":             "nothing to do: the levels of all Topology objects count, by their node labels",
		"spec.subGroups[].topologyConstraint.topology": "nothing to do: the levels of all Topology objects count, by their node labels",
		"spec.backoffLimit":                            notNeeded,
	},
	"scheduling.sigs.k8s.io/PodGroup": {
		"spec.scheduleTimeoutSeconds": "nothing to do: a gang that waits holds nothing",
		"spec.minResources.**":        notNeeded,
	},
	"scheduling.x-k8s.io/PodGroup": {
		"spec.scheduleTimeoutSeconds": "nothing to do: a gang that waits holds nothing",
		"spec.minResources.**":        notNeeded,
	},
}

// asHere are values of fields without effect that mean what Tangram does anyway: definitions
// set them on every object.
var asHere = map[string]map[string]string{
	"scheduling.volcano.sh/Queue": {"spec.dequeueStrategy": "traverse"},
}

// adviseKind is what to do about a kind that is not read.
func adviseKind(group, kind string) string {
	if do, ok := kindAdvice[group+"/"+kind]; ok {
		return do
	}
	return kindAdvice[group+"/*"]
}

// adviseField is what to do about a field without effect; empty when nothing is known of it.
func adviseField(group, kind, path string) string {
	for pattern, do := range fieldAdvice[group+"/"+kind] {
		if k := (dialect.KnownKind{Fields: []string{pattern}}); k.Knows(path) {
			return do
		}
	}
	return ""
}

// adviseWord is what to do about a word; empty when nothing is known of it. Whole names go
// before beginnings.
func adviseWord(kind dialect.WordKind, name string) string {
	do := ""
	for _, a := range advice {
		if a.kind != kind {
			continue
		}
		if a.name == name {
			return a.do
		}
		if begin, ok := strings.CutSuffix(a.name, "*"); ok && do == "" && strings.HasPrefix(name, begin) {
			do = a.do
		}
	}
	return do
}
