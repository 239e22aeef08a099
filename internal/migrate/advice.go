package migrate

import "github.com/tangram-dev/tangram/core/arbiter"

const (
	notNeeded = "nothing: it has no effect here, and none is needed"
	systemOwn = "nothing: the other system's own note; it goes with that system"
)

// advice is what to do about words, kinds and fields that Tangram does not read, by path:
// annotation/NAME, label/NAME, resource/NAME, kind/GROUP/KIND, field/GROUP/KIND/PATH, written
// as those of rules. The first that matches counts. A test fails for one that is read.
var advice = []struct{ path, do string }{
	// Volcano
	{"annotation/volcano.sh/sla-waiting-time", "GPUQueue.patience of the scheduler's configuration, for all gangs alike"},
	{"annotation/volcano.sh/hierarchy", "write spec.parent of the Queue"},
	{"annotation/volcano.sh/hierarchy-weights", "write spec.parent and spec.weight of the Queues"},
	{"annotation/volcano.sh/cooldown-time", "write tangram.dev/min-runtime with the same duration, as an annotation of the pods"},
	{"label/volcano.sh/cooldown-time", "write annotation tangram.dev/min-runtime with the same duration"},
	{"annotation/volcano.sh/revocable-zone", "taint the nodes outside their hours; pods that may go there tolerate the taint"},
	{"annotation/volcano.sh/jdb-min-available", "write a PodDisruptionBudget with minAvailable"},
	{"annotation/volcano.sh/jdb-max-unavailable", "write a PodDisruptionBudget with maxUnavailable"},
	{"annotation/volcano.sh/numa-topology-policy", "write tangram.dev/topology: required=numa"},
	{"annotation/volcano.sh/topology-decision|gpu-assigned", systemOwn},
	{"annotation/volcano.sh/task-topology-*", "describe the tasks as subgroups with a level (docs/guides/hierarchical-gangs.md), or write tangram.dev/device-affinity"},
	{"annotation|label/volcano.sh/task-priority", "write priorityClassName of the pods"},
	{"annotation/volcano.sh/resource-strategy-*", "write tangram.dev/placement: binpack or spread"},
	{"annotation/volcano.sh/qos-level", "none: Tangram does not colocate by QoS levels"},
	{"label/volcano.sh/preemptable", "write it as an annotation"},
	{"label/volcano.sh/nodegroup-name", "an ordinary label of nodes: name it in nodeSelector"},
	{"annotation/volcano.sh/job-forwarding", "none: one cluster"},
	{"annotation|label/volcano.sh/job-type", notNeeded},
	// KAI, Run:ai
	{"annotation|label/kai.scheduler/skip-podgrouper", notNeeded},
	{"annotation/kai.scheduler/numa-placement-observed", systemOwn},
	{"annotation/kai.scheduler/segment-topology-preferred-placement", "describe segments as subGroups of a PodGroup (scheduling.run.ai), each with its topologyConstraint"},
	{"annotation/mps", "none: how shares are enforced is the agent's setting (--isolation)"},
	{"label/runai-gpu-group", systemOwn},
	{"annotation/run.ai/reserve_for_gpu_index", systemOwn},
	{"annotation/runai-calculated-status|received-resource-type", systemOwn},
	// HAMi
	{"annotation/hami.io/webhook", notNeeded},
	{"label/hami.io/webhook", "nothing: there is no webhook; a pod is Tangram's by its schedulerName"},
	{"annotation/hami.io/numa-alignment", "write nvidia.com/numa-bind: \"true\", or tangram.dev/topology: required=numa"},
	{"annotation/hami.io/mutex.lock|node-handshake*", systemOwn},
	{"annotation/hami.io/node-nvidia-score", "links come from a GPUNode, or are unknown"},
	{"annotation/nvidia.com/priority", "write a PriorityClass"},
	// Koordinator
	{"label/koordinator.sh/qosClass", "none: Tangram does not colocate by QoS classes"},
	{"label/koordinator.sh/priority", "write priorityClassName of the pods"},
	{"label/koordinator.sh/gpu-isolation-provider", "none: the agent's own isolation counts (--isolation), or koordlet's"},
	{"annotation/scheduling.koordinator.sh/reservation-affinity", "none: Reservations are not read; GPUQueue.reservations keeps nodes for gangs by themselves"},
	{"annotation/scheduling.koordinator.sh/resource-spec", "none: CPUs are bound by kubelet's CPU manager"},
	{"annotation/scheduling.koordinator.sh/*", "none"},
	{"label|annotation/quota.scheduling.koordinator.sh/*", "describe the quota as a Queue: spec.parent, deserved (min), capability (max), weight (shared-weight)"},
	{"resource/koordinator.sh/*", "kube-scheduler counts it where nodes publish it; it is not allocated together with GPUs"},
	// Kueue
	{"label/kueue.x-k8s.io/queue-name", "stays Kueue's while Kueue runs; without it write tangram.dev/queue with the ClusterQueue's name (tangram migrate says which)"},
	{"annotation/kueue.x-k8s.io/queue-name", "stays Kueue's while Kueue runs; without it write label tangram.dev/queue with the ClusterQueue's name"},
	{"label/kueue.x-k8s.io/priority-class", "stays Kueue's while Kueue runs; without it write priorityClassName of the pods"},
	{"label/kueue.x-k8s.io/max-exec-time-seconds", "write activeDeadlineSeconds of the Job, and tangram.dev/runtime for backfill"},
	{"annotation/kueue.x-k8s.io/podset-unconstrained-topology", notNeeded},
	{"annotation/kueue.x-k8s.io/podset-slice-size", "slices of a pod set are kept by Kueue's topology-aware scheduling only"},
	{"annotation/kueue.x-k8s.io/podset-group-name", "describe pod sets that must be close as one gang with a level"},
	{"label|annotation/kueue.x-k8s.io/*", systemOwn},
	// Kinds that are not read.
	{"kind/batch.volcano.sh/CronJob", "write a CronJob of Kubernetes whose pods are a gang (labels tangram.dev/gang, gang-size), or one that creates Volcano Jobs"},
	{"kind/flow.volcano.sh/JobFlow", "write dependencies as dependsOn of one Job's tasks, or use a workflow engine"},
	{"kind/flow.volcano.sh/JobTemplate", "write Jobs"},
	{"kind/nodeinfo.volcano.sh/Numatopology", "not needed: NodeResourceTopology objects are read"},
	{"kind/datadependency.volcano.sh/*", "none: one cluster"},
	{"kind/shard.volcano.sh/*", "none: one scheduler serves all nodes"},
	{"kind/config.volcano.sh/*", "none: Tangram does not colocate"},
	{"kind/kai.scheduler/SchedulingShard|Config", "tangram migrate reads it: settings of the scheduler's configuration"},
	{"kind/scheduling.run.ai/BindRequest", "KAI's own note: it goes with KAI"},
	{"kind/kueue.x-k8s.io/ClusterQueue", "tangram migrate -o queues writes a Queue for it, or keep Kueue before Tangram (docs/guides/kueue.md)"},
	{"kind/kueue.x-k8s.io/LocalQueue", "tangram migrate -o queues: annotation tangram.dev/namespaces of the Queue"},
	{"kind/kueue.x-k8s.io/Cohort", "tangram migrate -o queues writes a Queue with children for it"},
	{"kind/kueue.x-k8s.io/ResourceFlavor", "tangram migrate -o queues: quota by GPU model; labels as nodeSelector of the pods"},
	{"kind/kueue.x-k8s.io/Workload", "Kueue's own note: it goes with Kueue"},
	{"kind/kueue.x-k8s.io/WorkloadPriorityClass", "write PriorityClasses"},
	{"kind/kueue.x-k8s.io/AdmissionCheck", "keep Kueue for admission checks (docs/guides/kueue.md)"},
	{"kind/kueue.x-k8s.io/*", "keep Kueue for it (docs/guides/kueue.md, multikueue.md)"},
	{"kind/scheduling.sigs.k8s.io|scheduling.x-k8s.io/ElasticQuota", "write a Queue: min is deserved, max is capability"},
	{"kind/scheduling.koordinator.sh/Reservation", "none: GPUQueue.reservations keeps nodes for gangs by themselves"},
	{"kind/scheduling.koordinator.sh/Device", "not needed: GPUNode describes devices"},
	{"kind/scheduling.koordinator.sh/PodMigrationJob", "none: pods that run are not moved"},
	{"kind/slo.koordinator.sh/*", "none: Tangram does not colocate by QoS classes"},
	{"kind/config.koordinator.sh/*", "none: pods are not changed by a webhook; write the words into the manifests"},
	{"kind/quota.koordinator.sh/*", "write a Queue with children"},
	{"kind/analysis.koordinator.sh/*", "none"},
	// Fields without effect of kinds that are read.
	{"field/scheduling.volcano.sh/Queue/spec.affinity*", "write the node group as nodeSelector or affinity of the pods"},
	{"field/scheduling.volcano.sh/Queue/spec.type", notNeeded},
	{"field/scheduling.volcano.sh/Queue/spec.extendClusters*", "none: one cluster"},
	{"field/scheduling.volcano.sh/Queue/spec.dequeueStrategy", "write annotation tangram.dev/order: " + arbiter.PolicyChoice() + "; backfill and reservations decide what passes a job that does not fit"},
	{"field/batch.volcano.sh/Job/spec.tasks[].topologyPolicy", "write annotation tangram.dev/topology: required=numa in the task's template"},
	{"field/batch.volcano.sh/Job/spec.plugins.tensorflow", "write TF_CONFIG in the template; plugin svc makes the host names (VC_<TASK>_HOSTS)"},
	{"field/batch.volcano.sh/Job/spec.plugins.mpi", "plugins ssh and svc make keys and host names; write the host file in the launcher's command from /etc/volcano"},
	{"field/batch.volcano.sh/Job/spec.plugins.ray", "use a RayCluster (KubeRay): it is a gang by itself"},
	{"field/batch.volcano.sh/Job/spec.plugins.hcclrank", "write the rank table in the template"},
	{"field/scheduling.run.ai/Queue/spec.displayName", notNeeded},
	{"field/scheduling.run.ai/PodGroup/spec.stalenessGracePeriod", "nothing to do: a gang that lost members gets them back first, it is not ended"},
	{"field/scheduling.run.ai/PodGroup/spec.markUnschedulable|spec.schedulingBackoff|spec.backoffLimit", notNeeded},
	{"field/scheduling.run.ai/PodGroup/spec.topologyConstraint.topology|spec.subGroups[].topologyConstraint.topology", "nothing to do: the levels of all Topology objects count, by their node labels"},
	{"field/scheduling.sigs.k8s.io|scheduling.x-k8s.io/PodGroup/spec.scheduleTimeoutSeconds", "nothing to do: a gang that waits holds nothing"},
	{"field/scheduling.sigs.k8s.io|scheduling.x-k8s.io/PodGroup/spec.minResources*", notNeeded},
}

// asHere are values of fields without effect that mean what Tangram does; definitions set them by default.
var asHere = map[string]string{"scheduling.volcano.sh/Queue/spec.dequeueStrategy": "traverse"}

// advise is what to do about a path; empty when nothing is known of it.
func advise(path string) string {
	for _, a := range advice {
		if matches(a.path, path) {
			return a.do
		}
	}
	return ""
}
