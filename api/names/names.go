// Package names holds the words Tangram shares with other programs: scheduler profile and plugin names, labels,
// annotations and resource names. It imports nothing, so every package may import it.
package names

// Group is the API group of Tangram's own objects and the prefix of its labels and annotations.
const Group = "tangram.dev"

// Scheduler profiles. All run the same plugins, so that manifests written for any of them run unchanged: Volcano's,
// KAI's, Koordinator's, HAMi's, and that of requirement document 002.
const (
	SchedulerName        = "gpu-scheduler"
	VolcanoSchedulerName = "volcano"
	KAISchedulerName     = "kai-scheduler"
	KoordSchedulerName   = "koord-scheduler"
	HAMiSchedulerName    = "hami-scheduler"
	CustomSchedulerName  = "custom-scheduler"
)

// KAISchedulerNames are the schedulers whose pods may use KAI's and Run:ai's words without a prefix.
var KAISchedulerNames = []string{KAISchedulerName, "runai-scheduler"}

// Plugins, as a KubeSchedulerConfiguration names them.
const (
	PluginFilter  = "GPUFilter"
	PluginScore   = "GPUScore"
	PluginReserve = "GPUReserve"
	PluginBind    = "GPUBind"
	// PluginClaims takes the place of kube-scheduler's own DynamicResources.
	PluginClaims = "GPUClaims"
	// PluginPriority is seed 002's policy, which works without the others.
	PluginPriority = "GPUPriority"
)

// Pod annotations.
const (
	// AnnotationDevices is the record: the devices each container was given,
	// written with the Binding itself. Its format is docs/formats/record.md.
	AnnotationDevices = Group + "/devices"
	// AnnotationClaims is what was planned for the pod's ResourceClaims, in the record's
	// format, for people: what was allocated is in the claims' status.
	AnnotationClaims = Group + "/claim-devices"
	// AnnotationCharged is the queue that was charged for the pod, written with its
	// Binding: a running pod stays charged to it, whatever its labels say later.
	AnnotationCharged = Group + "/charged-queue"
	// AnnotationPlacement is in which direction nodes and devices are filled: binpack
	// or spread. On a Namespace it is for the pods in it that say nothing.
	AnnotationPlacement = Group + "/placement"
	// AnnotationAffinity are rules on which other pods may be on the pod's devices and node.
	AnnotationAffinity = Group + "/device-affinity"
	// AnnotationTopology is how close the pod's GPUs, and a gang's members, must be:
	// required=LEVEL and preferred=LEVEL, comma-separated.
	AnnotationTopology = Group + "/topology"
	// AnnotationNUMABind is HAMi's word for GPUs of one NUMA node: true or false.
	AnnotationNUMABind = "nvidia.com/numa-bind"
	// AnnotationUseModel and AnnotationAvoidModel are comma-separated GPU models
	// the pod insists on or refuses (HAMi's and Volcano's words).
	AnnotationUseModel   = "nvidia.com/use-gputype"
	AnnotationAvoidModel = "nvidia.com/nouse-gputype"
	// AnnotationUseUUID and AnnotationAvoidUUID name devices by UUID.
	AnnotationUseUUID   = "nvidia.com/use-gpuuuid"
	AnnotationAvoidUUID = "nvidia.com/nouse-gpuuuid"
	// AnnotationUseIndex names devices by their index on the node.
	AnnotationUseIndex = "volcano.sh/gpu-index"
	// AnnotationAvoidUnhealthy on a Node lists devices, by index or UUID, that are not to
	// be used; on a pod, UUIDs that its owner knows to be unhealthy.
	AnnotationAvoidUnhealthy = "volcano.sh/gpu-unhealthy-ids"
)

// Annotations of the ConfigMap in which the scheduler keeps what it has learned.
const (
	// StateName is its name, unless the configuration says otherwise.
	StateName = "tangram-state"
	// AnnotationSavedBy is the replica that wrote it last, AnnotationSavedAt when.
	AnnotationSavedBy = Group + "/saved-by"
	AnnotationSavedAt = Group + "/saved-at"
)

// Autoscaling (docs/guides/autoscaling.md).
const (
	// DemandName is the ConfigMap in DemandNamespace by which the scheduler tells
	// gpu-controller what autoscalers are asked for.
	DemandName      = "tangram-demand"
	DemandNamespace = "kube-system"
	// PlaceholderNamespace is where gpu-controller makes placeholders unless told otherwise.
	PlaceholderNamespace = "tangram-system"
	// ReasonWaitingForNodes is the reason of the condition PodScheduled of pods for which
	// placeholders stand: an autoscaler must not count both.
	ReasonWaitingForNodes = "WaitingForNodes"
	// LabelPlaceholder, on a pod, says that it stands for another one and never runs;
	// LabelPlaceholderGang is equal for those that stand for one gang.
	LabelPlaceholder     = Group + "/placeholder"
	LabelPlaceholderGang = Group + "/placeholder-gang"
	// AnnotationPlaceholderFor, on such a pod, is namespace/name of the one it stands for.
	AnnotationPlaceholderFor = Group + "/placeholder-for"
	// GatePlaceholder is the scheduling gate of such pods, PlaceholderScheduler their
	// scheduler, which does not exist.
	GatePlaceholder      = Group + "/placeholder"
	PlaceholderScheduler = "tangram-placeholder"
	// AnnotationKept, on a Node, names the annotations that gpu-controller has set there so
	// that autoscalers leave the node alone, separated by commas.
	AnnotationKept = Group + "/kept"

	// Karpenter's and cluster-autoscaler's words for nodes and pods that must stay.
	AnnotationDoNotDisrupt      = "karpenter.sh/do-not-disrupt"
	AnnotationScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled" // on a Node
	AnnotationSafeToEvict       = "cluster-autoscaler.kubernetes.io/safe-to-evict"       // on a pod
)

// Health and recovery (docs/guides/recovery.md).
const (
	// AnnotationMaintenance, on a Node, is when it is to be emptied: START, or START/END.
	// START is a time (RFC 3339) or now; END is a time, or a duration after START.
	AnnotationMaintenance = Group + "/maintenance"
	// AnnotationIsolated is gpu-controller's mark of what it has isolated: on a Node one,
	// on a GPUNode one for each device.
	AnnotationIsolated = Group + "/isolated"
	// TaintIsolated keeps new pods off a node that gpu-controller has isolated; its value is the cause.
	TaintIsolated = Group + "/isolated"
	// CordonedBy begins the entries of a GPUNode's spec.cordoned that are gpu-controller's
	// own; the device follows. All others are operators'.
	CordonedBy = "gpu-controller:"
	// AnnotationVerifies, on a test pod, is the device that it verifies.
	AnnotationVerifies = Group + "/verifies"
)

// Annotations that steer simulated devices; real ones ignore them.
const (
	// AnnotationSimulatedFaults, on a GPUNode, lists what is wrong with its devices:
	// device=3,xid=79;device=all,hang.
	AnnotationSimulatedFaults = Group + "/simulated-faults"
	// AnnotationSimulatedLost, on a Node, keeps the local cluster from making it ready.
	AnnotationSimulatedLost = Group + "/simulated-lost"
	// AnnotationSimulatedUtilization, on a pod, is how busy it keeps what it was given, in percent: 0 to 100.
	AnnotationSimulatedUtilization = Group + "/simulated-utilization"
	// AnnotationSimulatedMemory, on a pod, is how much memory it uses of each device that
	// it was given a share of, in MiB.
	AnnotationSimulatedMemory = Group + "/simulated-memory"
)

// Extended resources of whole GPUs, and the minimum memory that goes with them.
const (
	ResourceNVIDIA    = "nvidia.com/gpu"        // whole GPUs; turns on nodes that sell those under this name
	ResourceAMD       = "amd.com/gpu"           // whole GPUs
	ResourceIntel     = "gpu.intel.com/i915"    // whole GPUs
	ResourceGPUMemory = "nvidia.com/gpu-memory" // memory of all the container's GPUs together, at least
)

// Node labels that describe a node's GPUs: the seeds' own and GPU Feature Discovery's.
const (
	LabelAccelerator  = "accelerator"      // model, such as nvidia-tesla-v100
	LabelGPUCount     = "gpu-count"        // how many GPUs the node has
	LabelGPUMemory    = "gpu-memory"       // memory of one GPU, such as 32Gi
	LabelInterconnect = "gpu-interconnect" // how GPUs are linked, such as nvlink

	LabelNVIDIAProduct = "nvidia.com/gpu.product"   // model, as GPU Feature Discovery spells it
	LabelNVIDIACount   = "nvidia.com/gpu.count"     // how many GPUs the node has
	LabelNVIDIAMemory  = "nvidia.com/gpu.memory"    // memory of one GPU in MiB
	LabelAMDProduct    = "amd.com/gpu.product-name" // model, as AMD's node labeller spells it
)

// Pod labels.
const (
	// LabelQueue names the queue of a pod without a PodGroup.
	LabelQueue = Group + "/queue"
	// LabelWorkload says what kind of work a pod does: training, inference or development.
	LabelWorkload = "workload-type"
)

// Gangs: pod labels that make a gang of plain pods, and what pods say of their runs.
const (
	// LabelGang names a pod's gang, in its namespace; LabelGangSize is how many
	// members it has. Without LabelGang the pods of one controller are a gang.
	LabelGang     = Group + "/gang"
	LabelGangSize = Group + "/gang-size"
	// LabelGangGroup is the subgroup of its gang that a pod is in; AnnotationGangGroups, on
	// the gang's pods or on its PodGroup, says which subgroups there are.
	LabelGangGroup       = Group + "/gang-group"
	AnnotationGangGroups = Group + "/gang-groups"
	// AnnotationRuntime is how long a pod is expected to run, as a Go duration.
	AnnotationRuntime = Group + "/runtime"
	// AnnotationMinRuntime is how long a pod is left alone once it runs.
	AnnotationMinRuntime = Group + "/min-runtime"
	// AnnotationPreemptible says whether others may take the pod's place: true (default) or false.
	AnnotationPreemptible = Group + "/preemptible"
	// AnnotationQuota, on a Namespace, is how much its pods may use at once: resource=amount, comma-separated.
	AnnotationQuota = Group + "/quota"
	// AnnotationUser is the user that a pod counts for where a queue takes users in turn.
	AnnotationUser = Group + "/user"
	// LabelJobID is requirement document 002's barrier: pods with the same value start together.
	LabelJobID = "job-id"
)

// Annotations of a Queue for what Volcano's type has no field for (docs/concepts/queues.md).
const (
	// AnnotationOrder is the order of the queue's jobs, one of those that
	// docs/concepts/queues.md lists; absent: by priority.
	AnnotationOrder = Group + "/order"
	// AnnotationAging is how long a job waits before it goes ahead of that order, as a Go
	// duration; negative: never.
	AnnotationAging = Group + "/aging"
	// AnnotationNamespaces are the namespaces whose pods the queue takes, comma-separated.
	AnnotationNamespaces = Group + "/namespaces"
)

// Nodes.
const (
	// LabelAgent is for GPU nodes that no other label shows to be one: with the value true
	// the chart's agent runs there.
	LabelAgent = Group + "/gpu-agent"
	// LabelPool is on simulated Nodes and GPUNodes and names their pool of the fleet file.
	LabelPool = Group + "/pool"
)

// Volcano's words on pods.
const (
	AnnotationVolcanoGroup       = "scheduling.volcano.sh/group-name" // the pod's PodGroup
	AnnotationKubeGroup          = "scheduling.k8s.io/group-name"     // the same
	LabelPluginGroup             = "scheduling.x-k8s.io/pod-group"    // PodGroups of scheduler-plugins
	AnnotationVolcanoQueue       = "scheduling.volcano.sh/queue-name" // the pod's queue
	AnnotationVolcanoJobQueue    = "volcano.sh/queue-name"            // on the pods of a Volcano Job
	AnnotationVolcanoTask        = "volcano.sh/task-spec"             // the task of a Volcano Job that the pod is of
	AnnotationVolcanoPreemptable = "volcano.sh/preemptable"           // whether others may take the pod's place: true or false
)

// Others' words for queues, on pods and on the objects that own them.
const (
	LabelKAIQueue     = "kai.scheduler/queue" // KAI's
	LabelRunaiQueue   = "runai/queue"         // Run:ai's
	LabelRunaiProject = "project"             // Run:ai's; counts for KAI's schedulers only
	// LabelKoordQuota is Koordinator's label for a pod's quota, which is a queue here.
	LabelKoordQuota = "quota.scheduling.koordinator.sh/name"
)

// Plugins of queues and gangs.
const (
	PluginQueue = "GPUQueue"
	PluginGang  = "GPUGang"
)
