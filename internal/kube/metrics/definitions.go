package metrics

import "github.com/tangram-dev/tangram/internal/metrictable"

// Labels that several metrics have.
var (
	byQueue       = metrictable.By("queue", "names of Queues; other")
	byVictimQueue = metrictable.By("queue", "the victim's; names of Queues; other")
	byNamespace   = metrictable.By("namespace", "namespaces; other")
	byModel       = metrictable.By("model", "GPU models, normalised, such as a100-80gb-sxm4; unknown; other")
	byLevel       = metrictable.By("level", "target, alert")
)

// Definitions of all metrics of gpu-scheduler.
var (
	SchedulingDuration = metrictable.NewHistogram("tangram_scheduling_duration_seconds", "seconds", "engine step; GPUReserve, GPUGang, GPUBind",
		"Time that a pod which was bound spent in each phase. queue: from its creation until the step that placed it, waiting for quota and capacity included. "+
			"plan: that step. reserve: from the step until its devices are reserved in its scheduling cycle. permit: waiting for the other members of its gang. "+
			"bind: until its Binding is written. decision: plan to bind, what the scheduler itself takes. total: queue to bind.",
		metrictable.By("phase", "queue, plan, reserve, permit, bind, decision, total")).For("003 gpu_scheduler_latency (decision)", "003 scheduling_latency (decision)", "003 latency (decision)", "003 resource_allocation_time (total)")
	SchedulingAttempts = metrictable.NewCounter("tangram_scheduling_attempts_total", "pods", "GPUBind; reasons that the engine gives",
		"Attempts to place a pod, by what came of them. scheduled: its Binding was written. unschedulable: it has to wait; counted once for each reason code that it waits for, one after the other, and not while it goes on waiting; and whenever kube-scheduler's filters refuse a planned node (Filtered, Rejected). "+
			"error: it had a place and was not bound.",
		metrictable.By("result", "scheduled, unschedulable, error"), metrictable.By("reason", "empty when scheduled; else a reason code (docs/reference/reasons.md), or what failed: Bind, Place, Lease, Cycle")).For("003 success_rate", "003 scheduling_success_rate: scheduled / (scheduled + error)")
	SchedulingRetries = metrictable.NewCounter("tangram_scheduling_retries_total", "pods", "engine",
		"Releases of pods that were taken back, so that the pod has to be placed again.")
	SchedulingSlow = metrictable.NewCounter("tangram_scheduling_slow_total", "pods", "GPUBind",
		"Pods whose decision phase took longer than a threshold. A decision above both is counted under both. They are logged with their phases, at most ten per minute.",
		metrictable.By("threshold", "100ms, 200ms")).For("003 high_latency")
	PendingPods = metrictable.NewGauge("tangram_pending_pods", "pods", "engine",
		"Pods that wait to be placed.", byQueue).For("003 queue_depth")
	PendingGangs = metrictable.NewGauge("tangram_pending_gangs", "gangs", "engine",
		"Gangs with members that wait to be placed; a single pod is a gang of one.", byQueue).For("003 queue_depth")
	PendingOldest = metrictable.NewGauge("tangram_pending_oldest_seconds", "seconds", "engine",
		"How long ago the oldest of the gangs that wait was submitted; 0 when none waits.", byQueue)
	Conflicts = metrictable.NewCounter("tangram_conflicts_total", "conflicts", "engine, GPUReserve, GPUGang, GPUBind",
		"Conflicts over what a pod was given.",
		metrictable.By("kind", "record: two pods' records name one device; place: a pod lost its place between two steps of its cycle; binding: the API server refused a Binding; lease: a write was withheld because the lease was too old")).For("003 conflicts")
	Vetoes = metrictable.NewCounter("tangram_vetoes_total", "nodes", "scheduling cycle",
		"Nodes that a filter of kube-scheduler refused although the engine had planned a pod there.",
		metrictable.By("plugin", "names of kube-scheduler's filter plugins; other"))
	LockSeconds = metrictable.NewHistogram("tangram_engine_lock_seconds", "seconds", "engine",
		"Time for which the engine's lock was held, by the question or step it was held for.",
		metrictable.By("for", "the question or step: step, reserved, confirm, query, metrics, ..."))
	CheckFailures = metrictable.NewCounter("tangram_engine_check_failures_total", "checks", "engine",
		"Self-checks that found the engine's state to differ from the API's, by what differs.", metrictable.By("check", "full, periodic"))
	GPUs = metrictable.NewGauge("tangram_gpus", "GPUs", "engine's ledger; idle from GPUNode telemetry",
		"GPUs by what they are doing; the states are disjoint and their sum is the fleet. Shared devices count by fractions. idle_allocated: held, but measured idle for the configured time. "+
			"failed: the device failed, or its node is not ready. degraded: not healthy, but not failed. cordoned: not held, and kept from new work by an operator, the device or its node.",
		metrictable.By("vendor", "nvidia, amd, intel, ascend"), byModel, metrictable.By("state", "free, allocated, idle_allocated, failed, cordoned, degraded")).For("003 gpu_resources", "003 gpu_utilization (allocated part)")
	FragmentationRatio = metrictable.NewGauge("tangram_gpu_fragmentation_ratio", "ratio 0..1", "engine's ledger, waiting gangs and requests seen lately",
		"Part of the free GPUs that neither a waiting nor a typical request can use: tangram_unusable_free_gpus / free GPUs; 0 when none is free.").For("003 gpu_fragmentation_rate", "003 fragmentation_rate")
	UnusableFree = metrictable.NewGauge("tangram_unusable_free_gpus", "GPUs", "engine's ledger, waiting gangs and requests seen lately",
		"Free GPUs, fractions counted, that no request can use which waits or is typical (one in a hundred of those seen lately): too few of them on their node, too little left of them, or CPU, memory or model do not suit.")
	QueueGPUs = metrictable.NewGauge("tangram_queue_gpus", "GPUs", "engine's queue tree",
		"GPUs of a queue, queues below it included, so that root is all of them. deserved, guarantee and capability are what the Queue says, and absent where it says nothing. entitled is its fair share now.",
		byQueue, metrictable.By("kind", "used, deserved, guarantee, capability, entitled"))
	QueueShareRatio = metrictable.NewGauge("tangram_queue_share_ratio", "ratio", "engine's queue tree",
		"What a queue uses of GPUs, divided by what it is entitled to; absent while it is entitled to none.", byQueue)
	NamespaceQuota = metrictable.NewGauge("tangram_namespace_quota_gpus", "GPUs", "engine's queue tree",
		"GPUs of a namespace with a quota (annotation tangram.dev/quota).", byNamespace, metrictable.By("kind", "used, hard"))
	QueueWait = metrictable.NewHistogram("tangram_queue_wait_seconds", "seconds", "GPUBind",
		"Time from the creation of a pod until it was bound.", byQueue).For("003 resource_allocation_time")
	Preemptions = metrictable.NewCounter("tangram_preemptions_total", "pods", "eviction API",
		"Pods that were evicted for others.",
		byVictimQueue, metrictable.By("cause", "priority: for a pod of the same queue; reclaim: for a queue below its share"))
	LostHours = metrictable.NewCounter("tangram_lost_gpu_hours_total", "GPU hours", "eviction API",
		"GPU hours that evicted pods had used until they were evicted: lost unless they kept checkpoints.", byVictimQueue)
	Reservations       = metrictable.NewGauge("tangram_reservations", "gangs", "engine", "Gangs for which nodes are kept.")
	ExpectedStartError = metrictable.NewHistogram("tangram_expected_start_error_seconds", "seconds", "engine",
		"How far the start of a gang with a reservation was from the first start time it was promised.",
		metrictable.By("direction", "early, late"))
	GPUHours = metrictable.NewCounter("tangram_gpu_hours_total", "GPU hours", "engine's ledger",
		"GPU hours that pods held, from Binding to end, fractions by fraction. Counted by the leader alone, so that replicas can be added up.",
		byQueue, byNamespace, metrictable.By("user", "users of pods; empty; other"), byModel)
	Cost = metrictable.NewCounter("tangram_cost_total", "currency of the price table", "engine's ledger, price table",
		"GPU hours times the price of the model. Models without a price cost nothing here: see tangram_unpriced_gpu_hours_total.",
		byQueue, byNamespace, metrictable.By("user", "users of pods; empty; other"), byModel).For("001 price per hour")
	UnpricedHours = metrictable.NewCounter("tangram_unpriced_gpu_hours_total", "GPU hours", "engine's ledger, price table",
		"GPU hours of models that the price table does not name; absent where there is no price table.", byModel)
	Price = metrictable.NewGauge("tangram_gpu_hour_price", "currency of the price table", "price table",
		"Price of an hour of one GPU, as configured.",
		metrictable.By("model", "models of the price table"), metrictable.By("currency", "the price table's")).For("001 price per hour")
	Leader = metrictable.NewGauge("tangram_leader", "0 or 1", "lease",
		"Whether this process leads: it decides and binds. Without leader election always 1.")
	AvailableRatio = metrictable.NewGauge("tangram_scheduler_available_ratio", "ratio 0..1", "lease, Bindings",
		"Part of the last 30 days, or of the time since this process started, in which some replica held a fresh lease and, while it was this one, could write to the API server.").For("003 availability", "003 uptime")
	TargetCompletion = metrictable.NewGauge("tangram_target_completion_ratio", "ratio 0..1", "configuration",
		"Configured target for the part of pods that succeed.", byLevel).For("003 training_job_completion_rate: 95, 90")
	TargetInference = metrictable.NewGauge("tangram_target_inference_latency_seconds", "seconds", "configuration",
		"Configured target for the 95th percentile of inference latency. The scheduler does not see requests: the serving program's own histogram, named in the configuration, is compared with it.",
		byLevel, metrictable.By("metric", "the histogram that holds the latency, as configured; may be empty")).For("003 inference_latency: 100, 150")
	TargetAllocation = metrictable.NewGauge("tangram_target_allocation_seconds", "seconds", "configuration",
		"Configured target for the 95th percentile of tangram_queue_wait_seconds.", byLevel).For("003 resource_allocation_time: 30, 60")
	FoldedUsage = metrictable.NewCounter("tangram_usage_folded_total", "holdings", "this package",
		"Holdings of pods whose GPU hours are counted under \"other\" because there are too many combinations of queue, namespace, user and model.")
	Folded = metrictable.NewCounter("tangram_label_values_folded_total", "observations", "this package",
		"Observations that were counted under \"other\" because a label had too many values.", metrictable.By("label", "queue, plugin"))
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
