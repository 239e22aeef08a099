package recovery

import "github.com/tangram-dev/tangram/internal/metrictable"

var byCause = metrictable.By("cause", "NodeNotReady, DriverNotReady, AgentSilent, DeviceDegraded, DeviceFailed, Maintenance, OverMemory")

// Definitions of the metrics of gpu-controller.
var (
	nodeHealth = metrictable.NewGauge("tangram_node_health", "nodes", "Node, GPUNode",
		"Nodes with GPUs by state. lost: not ready. isolated: gpu-controller keeps new pods off it, maintenance included. "+
			"degraded: a device is sick or isolated, the driver or the agent does not answer.",
		metrictable.By("state", "healthy, degraded, isolated, lost")).For("003 node_health_status")
	deviceHealth = metrictable.NewGauge("tangram_device_health", "devices", "GPUNode",
		"Devices by the state that their agents report.", metrictable.By("state", "healthy, suspect, degraded, failed"))
	isolations = metrictable.NewCounter("tangram_isolations_total", "isolations", "recovery",
		"Devices and nodes that new pods were kept off.", metrictable.By("kind", "device, node"), byCause).For("003 gpu_error_rate")
	suppressed = metrictable.NewCounter("tangram_isolations_suppressed_total", "isolations", "recovery",
		"Devices and nodes that look sick and were left alone, because more would have been isolated at once than the limits allow.", byCause)
	recoveries = metrictable.NewCounter("tangram_recoveries_total", "recoveries", "recovery",
		"Steps of recovery that were taken.",
		metrictable.By("result", "device-released, node-released, agent-restarted, lifted-by-operator, verification-failed")).For("003 recovery_attempts")
	detection = metrictable.NewHistogram("tangram_detection_seconds", "seconds", "recovery",
		"From when a fault began, as agent or control plane say, until it was acted on.")
	recoveryTime = metrictable.NewHistogram("tangram_recovery_seconds", "seconds", "recovery",
		"From when a fault was acted on. workload: until no affected pod was left there, the mean time to recovery of the service. "+
			"device, node: until it was back in service, which for hardware includes the agent's quiet times.",
		metrictable.By("kind", "workload, device, node")).For("003 mttr (workload)")
	mtbf = metrictable.NewGauge("tangram_mtbf_hours", "hours", "recovery",
		"Mean time between failures of a device: hours in service of all devices, divided by isolations of devices for faults; without any, the hours themselves. Kept over restarts.").For("003 mtbf")
	evictions = metrictable.NewCounter("tangram_evictions_total", "pods", "recovery",
		"Pods that gpu-controller asked to evict.", byCause, metrictable.By("result", "evicted, refused (by a PodDisruptionBudget), failed"))
	schedulerSilence = metrictable.NewGauge("tangram_scheduler_lease_age_seconds", "seconds", "Lease",
		"How long ago the scheduler's lease was last seen to be renewed; 0 without a lease.")
	leading = metrictable.NewGauge("tangram_controller_leader", "", "Lease", "1 in the replica that works, 0 in the others.")
)

// Table is the metrics of gpu-controller, for docs/reference/metrics.md.
func Table() metrictable.Table {
	return metrictable.Table{
		Program: component, Where: "HTTPS on --listen, path /metrics, for those who may get the non-resource URL /metrics",
		Metrics: []metrictable.Metric{nodeHealth, deviceHealth, isolations, suppressed, recoveries, detection, recoveryTime, mtbf, evictions, schedulerSilence, leading},
	}
}
