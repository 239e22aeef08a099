package metrics

import "github.com/tangram-dev/tangram/internal/metrictable"

// Values of labels that several metrics have.
const (
	queues     = "names of Queues; other"
	namespaces = "namespaces; other"
	models     = "GPU models, normalised, such as a100-80gb-sxm4; unknown; other"
)

// Definitions of all metrics of gpu-scheduler.
var (
	SchedulingDuration = metrictable.Metric{
		Name: "tangram_scheduling_duration_seconds", Type: metrictable.Histogram, Unit: "seconds",
		Labels: []metrictable.Label{{Name: "phase", Values: "queue, plan, reserve, permit, bind, decision, total"}},
		Help: "Time that a pod which was bound spent in each phase. queue: from its creation until the step that placed it, waiting for quota and capacity included. " +
			"plan: that step. reserve: from the step until its devices are reserved in its scheduling cycle. permit: waiting for the other members of its gang. " +
			"bind: until its Binding is written. decision: plan to bind, what the scheduler itself takes. total: queue to bind.",
		Source:    "engine step; GPUReserve, GPUGang, GPUBind",
		StandsFor: []string{"003 gpu_scheduler_latency (decision)", "003 scheduling_latency (decision)", "003 latency (decision)", "003 resource_allocation_time (total)"},
	}
	SchedulingAttempts = metrictable.Metric{
		Name: "tangram_scheduling_attempts_total", Type: metrictable.Counter, Unit: "pods",
		Labels: []metrictable.Label{{Name: "result", Values: "scheduled, unschedulable, error"}, {Name: "reason", Values: "empty when scheduled; else a reason code (docs/reference/reasons.md), or what failed: Bind, Place, Lease, Cycle"}},
		Help: "Attempts to place a pod, by what came of them. scheduled: its Binding was written. unschedulable: it has to wait; counted once for each reason code that it waits for, one after the other, and not while it goes on waiting; and whenever kube-scheduler's filters refuse a planned node (Filtered, Rejected). " +
			"error: it had a place and was not bound.",
		Source: "GPUBind; reasons that the engine gives", StandsFor: []string{"003 success_rate", "003 scheduling_success_rate: scheduled / (scheduled + error)"},
	}
	SchedulingRetries = metrictable.Metric{
		Name: "tangram_scheduling_retries_total", Type: metrictable.Counter, Unit: "pods",
		Help: "Releases of pods that were taken back, so that the pod has to be placed again.", Source: "engine",
	}
	SchedulingSlow = metrictable.Metric{
		Name: "tangram_scheduling_slow_total", Type: metrictable.Counter, Unit: "pods",
		Labels: []metrictable.Label{{Name: "threshold", Values: "100ms, 200ms"}},
		Help:   "Pods whose decision phase took longer than a threshold. A decision above both is counted under both. They are logged with their phases, at most ten per minute.",
		Source: "GPUBind", StandsFor: []string{"003 high_latency"},
	}
	PendingPods = metrictable.Metric{
		Name: "tangram_pending_pods", Type: metrictable.Gauge, Unit: "pods",
		Labels: []metrictable.Label{{Name: "queue", Values: queues}},
		Help:   "Pods that wait to be placed.", Source: "engine", StandsFor: []string{"003 queue_depth"},
	}
	PendingGangs = metrictable.Metric{
		Name: "tangram_pending_gangs", Type: metrictable.Gauge, Unit: "gangs",
		Labels: []metrictable.Label{{Name: "queue", Values: queues}},
		Help:   "Gangs with members that wait to be placed; a single pod is a gang of one.", Source: "engine", StandsFor: []string{"003 queue_depth"},
	}
	PendingOldest = metrictable.Metric{
		Name: "tangram_pending_oldest_seconds", Type: metrictable.Gauge, Unit: "seconds",
		Labels: []metrictable.Label{{Name: "queue", Values: queues}},
		Help:   "How long ago the oldest of the gangs that wait was submitted; 0 when none waits.", Source: "engine",
	}
	Conflicts = metrictable.Metric{
		Name: "tangram_conflicts_total", Type: metrictable.Counter, Unit: "conflicts",
		Labels: []metrictable.Label{{Name: "kind", Values: "record: two pods' records name one device; place: a pod lost its place between two steps of its cycle; binding: the API server refused a Binding; lease: a write was withheld because the lease was too old"}},
		Help:   "Conflicts over what a pod was given.", Source: "engine, GPUReserve, GPUGang, GPUBind", StandsFor: []string{"003 conflicts"},
	}
	Vetoes = metrictable.Metric{
		Name: "tangram_vetoes_total", Type: metrictable.Counter, Unit: "nodes",
		Labels: []metrictable.Label{{Name: "plugin", Values: "names of kube-scheduler's filter plugins; other"}},
		Help:   "Nodes that a filter of kube-scheduler refused although the engine had planned a pod there.", Source: "scheduling cycle",
	}
	LockSeconds = metrictable.Metric{
		Name: "tangram_engine_lock_seconds", Type: metrictable.Histogram, Unit: "seconds",
		Labels: []metrictable.Label{{Name: "for", Values: "the question or step: step, reserved, confirm, query, metrics, ..."}},
		Help:   "Time for which the engine's lock was held, by the question or step it was held for.", Source: "engine",
	}
	CheckFailures = metrictable.Metric{
		Name: "tangram_engine_check_failures_total", Type: metrictable.Counter, Unit: "checks",
		Labels: []metrictable.Label{{Name: "check", Values: "full, periodic"}},
		Help:   "Self-checks that found the engine's state to differ from the API's, by what differs.", Source: "engine",
	}
	GPUs = metrictable.Metric{
		Name: "tangram_gpus", Type: metrictable.Gauge, Unit: "GPUs",
		Labels: []metrictable.Label{{Name: "vendor", Values: "nvidia, amd, intel, ascend"}, {Name: "model", Values: models}, {Name: "state", Values: "free, allocated, idle_allocated, failed, cordoned, degraded"}},
		Help: "GPUs by what they are doing; the states are disjoint and their sum is the fleet. Shared devices count by fractions. idle_allocated: held, but measured idle for the configured time. " +
			"failed: the device failed, or its node is not ready. degraded: not healthy, but not failed. cordoned: not held, and kept from new work by an operator, the device or its node.",
		Source: "engine's ledger; idle from GPUNode telemetry", StandsFor: []string{"003 gpu_resources", "003 gpu_utilization (allocated part)"},
	}
	FragmentationRatio = metrictable.Metric{
		Name: "tangram_gpu_fragmentation_ratio", Type: metrictable.Gauge, Unit: "ratio 0..1",
		Help: "Part of the free GPUs that neither a waiting nor a typical request can use: tangram_unusable_free_gpus / free GPUs; 0 when none is free.", Source: "engine's ledger, waiting gangs and requests seen lately",
		StandsFor: []string{"003 gpu_fragmentation_rate", "003 fragmentation_rate"},
	}
	UnusableFree = metrictable.Metric{
		Name: "tangram_unusable_free_gpus", Type: metrictable.Gauge, Unit: "GPUs",
		Help: "Free GPUs, fractions counted, that no request can use which waits or is typical (one in a hundred of those seen lately): too few of them on their node, too little left of them, or CPU, memory or model do not suit.", Source: "engine's ledger, waiting gangs and requests seen lately",
	}
	QueueGPUs = metrictable.Metric{
		Name: "tangram_queue_gpus", Type: metrictable.Gauge, Unit: "GPUs",
		Labels: []metrictable.Label{{Name: "queue", Values: queues}, {Name: "kind", Values: "used, deserved, guarantee, capability, entitled"}},
		Help:   "GPUs of a queue, queues below it included, so that root is all of them. deserved, guarantee and capability are what the Queue says, and absent where it says nothing. entitled is its fair share now.", Source: "engine's queue tree",
	}
	QueueShareRatio = metrictable.Metric{
		Name: "tangram_queue_share_ratio", Type: metrictable.Gauge, Unit: "ratio",
		Labels: []metrictable.Label{{Name: "queue", Values: queues}},
		Help:   "What a queue uses of GPUs, divided by what it is entitled to; absent while it is entitled to none.", Source: "engine's queue tree",
	}
	NamespaceQuota = metrictable.Metric{
		Name: "tangram_namespace_quota_gpus", Type: metrictable.Gauge, Unit: "GPUs",
		Labels: []metrictable.Label{{Name: "namespace", Values: namespaces}, {Name: "kind", Values: "used, hard"}},
		Help:   "GPUs of a namespace with a quota (annotation tangram.dev/quota).", Source: "engine's queue tree",
	}
	QueueWait = metrictable.Metric{
		Name: "tangram_queue_wait_seconds", Type: metrictable.Histogram, Unit: "seconds",
		Labels: []metrictable.Label{{Name: "queue", Values: queues}},
		Help:   "Time from the creation of a pod until it was bound.", Source: "GPUBind", StandsFor: []string{"003 resource_allocation_time"},
	}
	Preemptions = metrictable.Metric{
		Name: "tangram_preemptions_total", Type: metrictable.Counter, Unit: "pods",
		Labels: []metrictable.Label{{Name: "queue", Values: "the victim's; " + queues}, {Name: "cause", Values: "priority: for a pod of the same queue; reclaim: for a queue below its share"}},
		Help:   "Pods that were evicted for others.", Source: "eviction API",
	}
	LostHours = metrictable.Metric{
		Name: "tangram_lost_gpu_hours_total", Type: metrictable.Counter, Unit: "GPU hours",
		Labels: []metrictable.Label{{Name: "queue", Values: "the victim's; " + queues}},
		Help:   "GPU hours that evicted pods had used until they were evicted: lost unless they kept checkpoints.", Source: "eviction API",
	}
	Reservations = metrictable.Metric{
		Name: "tangram_reservations", Type: metrictable.Gauge, Unit: "gangs",
		Help: "Gangs for which nodes are kept.", Source: "engine",
	}
	ExpectedStartError = metrictable.Metric{
		Name: "tangram_expected_start_error_seconds", Type: metrictable.Histogram, Unit: "seconds",
		Labels: []metrictable.Label{{Name: "direction", Values: "early, late"}},
		Help:   "How far the start of a gang with a reservation was from the first start time it was promised.", Source: "engine",
	}
	GPUHours = metrictable.Metric{
		Name: "tangram_gpu_hours_total", Type: metrictable.Counter, Unit: "GPU hours",
		Labels: usageLabels, Help: "GPU hours that pods held, from Binding to end, fractions by fraction. Counted by the leader alone, so that replicas can be added up.", Source: "engine's ledger",
	}
	Cost = metrictable.Metric{
		Name: "tangram_cost_total", Type: metrictable.Counter, Unit: "currency of the price table",
		Labels: usageLabels, Help: "GPU hours times the price of the model. Models without a price cost nothing here: see tangram_unpriced_gpu_hours_total.", Source: "engine's ledger, price table", StandsFor: []string{"001 price per hour"},
	}
	UnpricedHours = metrictable.Metric{
		Name: "tangram_unpriced_gpu_hours_total", Type: metrictable.Counter, Unit: "GPU hours",
		Labels: []metrictable.Label{{Name: "model", Values: models}},
		Help:   "GPU hours of models that the price table does not name; absent where there is no price table.", Source: "engine's ledger, price table",
	}
	Price = metrictable.Metric{
		Name: "tangram_gpu_hour_price", Type: metrictable.Gauge, Unit: "currency of the price table",
		Labels: []metrictable.Label{{Name: "model", Values: "models of the price table"}, {Name: "currency", Values: "the price table's"}},
		Help:   "Price of an hour of one GPU, as configured.", Source: "price table", StandsFor: []string{"001 price per hour"},
	}
	Leader = metrictable.Metric{
		Name: "tangram_leader", Type: metrictable.Gauge, Unit: "0 or 1",
		Help: "Whether this process leads: it decides and binds. Without leader election always 1.", Source: "lease",
	}
	AvailableRatio = metrictable.Metric{
		Name: "tangram_scheduler_available_ratio", Type: metrictable.Gauge, Unit: "ratio 0..1",
		Help: "Part of the last 30 days, or of the time since this process started, in which some replica held a fresh lease and, while it was this one, could write to the API server.", Source: "lease, Bindings",
		StandsFor: []string{"003 availability", "003 uptime"},
	}
	TargetCompletion = metrictable.Metric{
		Name: "tangram_target_completion_ratio", Type: metrictable.Gauge, Unit: "ratio 0..1",
		Labels: targetLabels, Help: "Configured target for the part of pods that succeed.", Source: "configuration", StandsFor: []string{"003 training_job_completion_rate: 95, 90"},
	}
	TargetInference = metrictable.Metric{
		Name: "tangram_target_inference_latency_seconds", Type: metrictable.Gauge, Unit: "seconds",
		Labels: []metrictable.Label{targetLabels[0], {Name: "metric", Values: "the histogram that holds the latency, as configured; may be empty"}},
		Help:   "Configured target for the 95th percentile of inference latency. The scheduler does not see requests: the serving program's own histogram, named in the configuration, is compared with it.", Source: "configuration", StandsFor: []string{"003 inference_latency: 100, 150"},
	}
	TargetAllocation = metrictable.Metric{
		Name: "tangram_target_allocation_seconds", Type: metrictable.Gauge, Unit: "seconds",
		Labels: targetLabels, Help: "Configured target for the 95th percentile of tangram_queue_wait_seconds.", Source: "configuration", StandsFor: []string{"003 resource_allocation_time: 30, 60"},
	}
	FoldedUsage = metrictable.Metric{
		Name: "tangram_usage_folded_total", Type: metrictable.Counter, Unit: "holdings",
		Help: "Holdings of pods whose GPU hours are counted under \"other\" because there are too many combinations of queue, namespace, user and model.", Source: "this package",
	}
	Folded = metrictable.Metric{
		Name: "tangram_label_values_folded_total", Type: metrictable.Counter, Unit: "observations",
		Labels: []metrictable.Label{{Name: "label", Values: "queue, plugin"}},
		Help:   "Observations that were counted under \"other\" because a label had too many values.", Source: "this package",
	}
)

var (
	usageLabels  = []metrictable.Label{{Name: "queue", Values: queues}, {Name: "namespace", Values: namespaces}, {Name: "user", Values: "users of pods; empty; other"}, {Name: "model", Values: models}}
	targetLabels = []metrictable.Label{{Name: "level", Values: "target, alert"}}
)

// Table is all metrics of gpu-scheduler.
func Table() metrictable.Table {
	return metrictable.Table{
		Program: "gpu-scheduler", Where: "kube-scheduler's secure port (`--secure-port`, 10259), path `/metrics`; a token must allow `get` on that path",
		Metrics: []metrictable.Metric{
			SchedulingDuration, SchedulingAttempts, SchedulingRetries, SchedulingSlow, PendingPods, PendingGangs, PendingOldest, Conflicts, Vetoes, LockSeconds, CheckFailures,
			GPUs, FragmentationRatio, UnusableFree, QueueGPUs, QueueShareRatio, NamespaceQuota, QueueWait, Preemptions, LostHours, Reservations, ExpectedStartError,
			GPUHours, Cost, UnpricedHours, Price, Leader, AvailableRatio, TargetCompletion, TargetInference, TargetAllocation, FoldedUsage, Folded,
		},
	}
}
