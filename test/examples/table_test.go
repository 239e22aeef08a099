package examples

// documents says of every manifest of the requirement documents where its pods go. Names of
// nodes begin with their pool's in examples/documents/fleet.yaml.
var documents = []row{
	// Document 000
	{file: "000/2.1.2-gpu-pod.yaml", pods: []pods{
		{name: "gpu-pod", count: 1, nodes: anywhere, holds: "1 GPU"},
		{name: "gpu-pod-2", count: 1, nodes: anywhere, holds: "2 GPUs"},
		{name: "gpu-pod-4", count: 1, nodes: anywhere, holds: "4 GPUs"},
	}},
	{file: "000/3.2.1-affinity.yaml", pods: []pods{
		{name: "by-model", count: 1, nodes: "k80", holds: "1 GPU"},
		{name: "apart-*", count: 3, nodes: anywhere, holds: "1 GPU", spread: differentNodes},
		{name: "beside", count: 1, nodes: anywhere, holds: nothing},
	}},
	{file: "000/3.2.2-preemption.yaml", pods: []pods{
		{name: "urgent-*", count: 1, nodes: "busy", holds: "4 GPUs"},
		{name: "batch-*", count: 1, waits: "1 has too few free GPUs (0 of 4)"},
	}},
	{file: "000/4.2.2-volcano-scheduler-configmap.yaml", check: nothingToRun},
	{file: "000/4.2.2-scheduler.yaml", check: schedulerStarts},
	{file: "000/4.2.3-gpu-job.yaml", pods: []pods{{name: "gpu-job-*", count: 1, nodes: anywhere, holds: "1 GPU"}}},
	{file: "000/4.3.1-gang.yaml", pods: []pods{{name: "gang-job-*", count: 4, nodes: anywhere, holds: "1 GPU"}}},
	{file: "000/5.2.2-priority.yaml", pods: []pods{{name: "high-priority", count: 1, nodes: anywhere, holds: "1 GPU"}}},

	// Document 001
	{file: "001/01-resource-types.yaml", pods: []pods{
		{name: "nvidia", count: 1, nodes: anywhere, holds: "1 GPU"},
		{name: "amd", count: 1, nodes: "mi300x", holds: "1 GPU"},
		{name: "intel", count: 1, nodes: "max1550", holds: "1 GPU"},
		{name: "mig", count: 1, nodes: "a100-40", holds: "slice 1g.5gb"},
		{name: "shared", count: 1, nodes: "shared", holds: "turn"},
		{name: "vgpu", count: 1, nodes: "vgpu", holds: "turn"},
	}},
	{file: "001/04-gpu-training.yaml", pods: []pods{{name: "gpu-training", count: 1, nodes: "dgx1|gpu-node", holds: "2 GPUs"}}},
	{file: "001/08-device-plugin.yaml", pods: []pods{
		{name: "nvidia-device-plugin-daemonset-*", each: func(labels map[string]string) bool { return labels["nvidia.com/gpu.product"] != "" }, holds: nothing},
	}},
	{file: "001/09-time-slicing.yaml", pods: []pods{
		{name: "nvidia-device-plugin-time-slicing-*", count: 1, nodes: "sliced", holds: nothing},
		{name: "turns-*", count: 8, nodes: "sliced", holds: "turn", cards: 2},
	}},
	{file: "001/10-mig.yaml", pods: []pods{{name: "seven-small-*", count: 7, nodes: "a100", holds: "slice 1g.10gb", cards: 1}}},
	{file: "001/11-cgpu.yaml", pods: []pods{
		{name: "cgpu-pod", count: 1, nodes: "cgpu", holds: "4096 MiB"},
		{name: "cgpu-full-isolation", count: 1, nodes: "cgpu", holds: "8192 MiB, 50 % compute"},
	}},
	{file: "001/12-kubelet.yaml", check: kubeletReads},
	{file: "001/12-topology.yaml", pods: []pods{{name: "gpu-topology-aware", count: 1, nodes: anywhere, holds: "2 GPUs"}}, check: oneNUMANode},
	{file: "001/13-gang-podgroup.yaml", pods: []pods{{name: "distributed-training-*", count: 4, nodes: anywhere, holds: "8 GPUs", spread: differentNodes}}},
	{file: "001/13-gang-job.yaml", pods: []pods{{name: "pytorch-distributed-*", count: 4, nodes: anywhere, holds: "8 GPUs", spread: differentNodes}}},

	// Document 002
	{file: "002/02-gpu-job.yaml", pods: []pods{{name: "gpu-job", count: 1, nodes: anywhere, holds: "2 GPUs"}}},
	{file: "002/04-scheduler.yaml", check: schedulerStarts},
	// After the seven of document 001, which would come in between.
	{file: "002/05-mig.yaml", after: "001/10-mig.yaml", pods: []pods{
		{name: "small-*", count: 3, nodes: "a100", holds: "slice 1g.10gb"},
		{name: "large", count: 1, nodes: "a100", holds: "slice 2g.20gb"},
	}, check: oneCard},
	{file: "002/06-barrier.yaml", pods: []pods{
		{name: "parameter-server", count: 1, nodes: anywhere, holds: nothing},
		{name: "worker-*", count: 2, nodes: anywhere, holds: "1 GPU"},
		{name: "incomplete-*", count: 2, waits: "waits for members: 2 of 3 exist"},
	}},
	{file: "002/09-raycluster.yaml", pods: []pods{
		{name: "ray-gpu-head-*", count: 1, nodes: anywhere, holds: "1 GPU"},
		{name: "ray-gpu-workers-worker-*", count: 3, nodes: anywhere, holds: "1 GPU"},
	}},

	// Document 003
	{file: "003/2.1-node.yaml", check: nodeIsReady},
	{file: "003/2.2-gpu-training-job.yaml", pods: []pods{{name: "gpu-training-job", count: 1, nodes: "dgx1|gpu-node", holds: "4 GPUs"}}},
	{file: "003/2.3-multi-gpu-job.yaml", pods: []pods{{name: "multi-gpu-job", count: 1, nodes: "dgx1|gpu-node|a100|a100-40", holds: "8 GPUs"}}},
	{file: "003/3.2-device-plugin.yaml", pods: []pods{
		{name: "nvidia-device-plugin-daemonset-*", each: func(labels map[string]string) bool {
			return labels["accelerator"] == "nvidia-tesla-v100" || labels["accelerator"] == "nvidia-tesla-a100" || labels["accelerator"] == "nvidia-tesla-t4"
		}, holds: nothing},
	}},
	{file: "003/4.3-scheduler.yaml", check: schedulerStarts},
	{file: "003/5.1-training-job.yaml", pods: []pods{{name: "ml-training-job-*", count: 1, nodes: "dgx1|gpu-node", holds: "4 GPUs"}}},
	{file: "003/5.2-inference-service.yaml", pods: []pods{{name: "inference-service-*", count: 3, nodes: "t4", holds: "1 GPU"}}, check: serviceHasThree},
	{file: "003/6.2-scheduler-metrics.yaml", check: schedulerStarts},
	{file: "003/6.3-monitoring.yaml", check: alertsAreKnown},
	{file: "003/7.1-rbac.yaml", check: rightsAreGranted},
	{file: "003/7.2-quota.yaml", check: quotaCounts},
	{file: "003/8.1-recovery-job.yaml", pods: []pods{{name: "gpu-node-recovery-*", count: 1, nodes: "a10", holds: nothing}}},
	{file: "003/8.2-scheduler.yaml", pods: []pods{{name: "gpu-scheduler-*", count: 2, nodes: anywhere, holds: nothing, spread: differentNodes}}, check: schedulerStarts},
	{file: "003/8.2-scheduler-basic.yaml", pods: []pods{{name: "gpu-scheduler-*", count: 1, nodes: anywhere, holds: nothing}}, check: schedulerStarts},

	// Document 004
	{file: "004/02-ascend.yaml", pods: []pods{{name: "vnpu", count: 1, nodes: "ascend", holds: "6144 MiB, 25 % compute"}}},
	{file: "004/03-gpu-sharing.yaml", pods: []pods{{name: "gpu-sharing-job-*", count: 2, nodes: "volcano-share", holds: "4096 MiB"}}},
	{file: "004/03-scheduler.yaml", check: schedulerStarts},
	{file: "004/04-gpu-number.yaml", pods: []pods{{name: "gpu-number-pod", count: 1, nodes: "volcano-share", holds: "1 GPU"}}},
	{file: "004/04-scheduler.yaml", check: schedulerStarts},
	{file: "004/05-scheduler.yaml", check: schedulerStarts},
	{file: "004/05-vgpu.yaml", pods: []pods{{name: "vgpu-training-*", count: 1, nodes: "volcano-vgpu", holds: "4096 MiB"}}},
	{file: "004/06-gpu-type.yaml", pods: []pods{
		{name: "specific-gpu-pod", count: 1, nodes: "a100|a100-40|dgx1|gpu-node", holds: "1 GPU"},
		{name: "no-t4", count: 1, nodes: "a100|a100-40|h100|dgx1|gpu-node|k80", holds: "1 GPU"},
		{name: "cards-0-and-2", count: 1, nodes: anywhere, holds: "2 GPUs", indexes: "0,2"},
	}},
	{file: "004/07-multi-gpu.yaml", pods: []pods{{name: "multi-gpu-training-*", count: 1, nodes: anywhere, holds: "4 GPUs"}}},
	{file: "004/07-multi-node.yaml", pods: []pods{{name: "distributed-gpu-training-*", count: 4, nodes: anywhere, holds: "2 GPUs"}}},
	{file: "004/08-scheduler-binpack.yaml", check: schedulerStarts},
	{file: "004/08-scheduler-spread.yaml", check: schedulerStarts},
	{file: "004/09-unhealthy.yaml", pods: []pods{
		{name: "healthy-cards", count: 1, nodes: "a10", holds: "3 GPUs", indexes: "0,2,3"},
		{name: "one-too-many", count: 1, waits: "1 has too few healthy GPUs (3 of 4)"},
	}},
}
