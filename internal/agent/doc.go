// Package agent is gpu-agent: what the scheduler decided is what the container gets, and
// what the node has is what the scheduler knows. It wires the parts below it for one
// node, or for all nodes of a simulated fleet; none of the parts knows another.
//
//	device     what hardware is, behind one interface; the back end is nvml, or a Simulator
//	config     NVIDIA's configuration file, flags, variables: settings out
//	health     events and samples in, the state of each device out (core/health decides)
//	publish    all of that as GPUNode, node labels and events
//	records    what pods should get (their records) and what they got (kubelet); corrections
//	grant      what kubelet's calls are answered with, and refused
//	plugin     kubelet's device plugin protocol
//	dra        ResourceSlices, and claims: kubelet's DRA plugin protocol
//	sharing    MIG instances, MPS daemons, limits, CDI files: what makes a share real
//	export     Prometheus, by DCGM's names
//
// The way of a container: plugin (GetPreferredAllocation) -> grant -> records: the IDs of
// the pod's record. plugin (Allocate) -> grant: free, and the name of a CDI device.
// plugin (PreStartContainer) -> grant -> records: which pod it is -> sharing: instance,
// daemon, CDI file. Afterwards records compares with kubelet, and corrects.
//
// The way of a claim: dra (NodePrepareResources) -> records: no container holds the device
// -> dra: noted -> sharing: instance, CDI file.
//
// Reading order: agent.go (one node), inventory.go (what is there), others.go (another device
// plugin on the node), serve.go (the device plugin), claims.go (the DRA driver), sales.go
// (settings to what is sold), holders.go (which pod uses what), overmemory.go (pods above their
// share of memory), command.go, simulator.go, fleet.go and lean.go (the program).
package agent
