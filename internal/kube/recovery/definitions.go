package recovery

import "github.com/tangram-dev/tangram/internal/metrictable"

const causes = "NodeNotReady, DriverNotReady, AgentSilent, DeviceDegraded, DeviceFailed, Maintenance, OverMemory"

// Definitions of the metrics of gpu-controller.
var (
	nodeHealth = metrictable.Metric{
		Name: "tangram_node_health", Type: metrictable.Gauge, Unit: "nodes",
		Labels: []metrictable.Label{{Name: "state", Values: "healthy, degraded, isolated, lost"}},
		Help: "Nodes with GPUs by state. lost: not ready. isolated: gpu-controller keeps new pods off it, maintenance included. " +
			"degraded: a device is sick or isolated, the driver or the agent does not answer.",
		Source: "Node, GPUNode", StandsFor: []string{"003 node_health_status"},
	}
	deviceHealth = metrictable.Metric{
		Name: "tangram_device_health", Type: metrictable.Gauge, Unit: "devices",
		Labels: []metrictable.Label{{Name: "state", Values: "healthy, suspect, degraded, failed"}},
		Help:   "Devices by the state that their agents report.", Source: "GPUNode",
	}
	isolations = metrictable.Metric{
		Name: "tangram_isolations_total", Type: metrictable.Counter, Unit: "isolations",
		Labels: []metrictable.Label{{Name: "kind", Values: "device, node"}, {Name: "cause", Values: causes}},
		Help:   "Devices and nodes that new pods were kept off.", Source: "recovery", StandsFor: []string{"003 gpu_error_rate"},
	}
	suppressed = metrictable.Metric{
		Name: "tangram_isolations_suppressed_total", Type: metrictable.Counter, Unit: "isolations",
		Labels: []metrictable.Label{{Name: "cause", Values: causes}},
		Help:   "Devices and nodes that look sick and were left alone, because more would have been isolated at once than the limits allow.", Source: "recovery",
	}
	recoveries = metrictable.Metric{
		Name: "tangram_recoveries_total", Type: metrictable.Counter, Unit: "recoveries",
		Labels: []metrictable.Label{{Name: "result", Values: "device-released, node-released, agent-restarted, lifted-by-operator, verification-failed"}},
		Help:   "Steps of recovery that were taken.", Source: "recovery", StandsFor: []string{"003 recovery_attempts"},
	}
	detection = metrictable.Metric{
		Name: "tangram_detection_seconds", Type: metrictable.Histogram, Unit: "seconds",
		Help:   "From when a fault began, as agent or control plane say, until it was acted on.",
		Source: "recovery",
	}
	recoveryTime = metrictable.Metric{
		Name: "tangram_recovery_seconds", Type: metrictable.Histogram, Unit: "seconds",
		Labels: []metrictable.Label{{Name: "kind", Values: "workload, device, node"}},
		Help: "From when a fault was acted on. workload: until no affected pod was left there, the mean time to recovery of the service. " +
			"device, node: until it was back in service, which for hardware includes the agent's quiet times.",
		Source: "recovery", StandsFor: []string{"003 mttr (workload)"},
	}
	mtbf = metrictable.Metric{
		Name: "tangram_mtbf_hours", Type: metrictable.Gauge, Unit: "hours",
		Help:   "Mean time between failures of a device: hours in service of all devices, divided by isolations of devices for faults; without any, the hours themselves. Kept over restarts.",
		Source: "recovery", StandsFor: []string{"003 mtbf"},
	}
	evictions = metrictable.Metric{
		Name: "tangram_evictions_total", Type: metrictable.Counter, Unit: "pods",
		Labels: []metrictable.Label{{Name: "cause", Values: causes}, {Name: "result", Values: "evicted, refused (by a PodDisruptionBudget), failed"}},
		Help:   "Pods that gpu-controller asked to evict.", Source: "recovery",
	}
	schedulerSilence = metrictable.Metric{
		Name: "tangram_scheduler_lease_age_seconds", Type: metrictable.Gauge, Unit: "seconds",
		Help: "How long ago the scheduler's lease was last seen to be renewed; 0 without a lease.", Source: "Lease",
	}
	leading = metrictable.Metric{
		Name: "tangram_controller_leader", Type: metrictable.Gauge, Unit: "",
		Help: "1 in the replica that works, 0 in the others.", Source: "Lease",
	}
)

// Table is the metrics of gpu-controller, for docs/reference/metrics.md.
func Table() metrictable.Table {
	return metrictable.Table{
		Program: component, Where: "HTTPS on --listen, path /metrics, for those who may get the non-resource URL /metrics",
		Metrics: []metrictable.Metric{nodeHealth, deviceHealth, isolations, suppressed, recoveries, detection, recoveryTime, mtbf, evictions, schedulerSilence, leading},
	}
}
