package e2e

import (
	"testing"

	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/examples"
)

// TestSeedJobs: the Volcano Jobs of the requirement documents run, and their queue counts
// them. test/examples has all manifests, and where their pods go.
func TestSeedJobs(t *testing.T) {
	t.Parallel()
	w := newJobWorld(t)
	w.Controller()
	w.publish("a100-6", map[string]string{"volcano.sh/gpu-memory": "655360", "volcano.sh/gpu-number": "8"}, nil)
	w.publish("plain-0", map[string]string{"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "32768", "volcano.sh/vgpu-cores": "100"}, map[string]string{
		"volcano.sh/node-vgpu-register": "GPU-v,10,32768,NVIDIA-Tesla V100,true,hami-core:",
	})
	// The queue, then those on parts of cards: one node sells parts, and whole cards,
	// which are to be had everywhere, would take it.
	for _, path := range []string{"queue.yaml", "004/03-gpu-sharing.yaml", "004/05-vgpu.yaml"} {
		w.Apply(string(examples.Document(path)))
	}
	w.running("gpu-sharing-job", 2)
	for _, path := range []string{
		"000/4.2.3-gpu-job.yaml", "000/4.3.1-gang.yaml", "001/13-gang-job.yaml", "004/07-multi-gpu.yaml", "004/07-multi-node.yaml",
	} {
		w.Apply(string(examples.Document(path)))
	}
	w.Apply(w.Guide("jobs.md")[0])
	// As in document 001, beside a Job that makes a PodGroup of its own.
	w.Apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: distributed-training}, spec: {minMember: 4, minResources: {nvidia.com/gpu: 32}, queue: default}}")
	for name, pods := range map[string]int{
		"gpu-job": 1, "gang-job": 4, "pytorch-distributed": 4, "multi-gpu-training": 1, "distributed-gpu-training": 4,
		"gpu-sharing-job": 2, "vgpu-training": 1, "train": 3,
	} {
		w.running(name, pods)
		w.reaches(name, batch.Running)
	}
	w.CheckRecords()
	w.Eventually("the PodGroup without members may have them", func() (bool, string) {
		phase := w.group("distributed-training").Status.Phase
		return phase == scheduling.PodGroupInqueue, string(phase)
	})
	w.Eventually("the queue counts them", func() (bool, string) {
		st := w.queue("training")
		gpus := st.Allocated["nvidia.com/gpu"]
		return st.Running == 5 && gpus.MilliValue() == 36_225, gpus.String() // shares count by their part
	})
}
