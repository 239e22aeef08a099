package recovery

import (
	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// memory is the GPU memory of one pod, in MiB.
type memory struct{ used, given int64 }

// overMemory are the pods that use more than they were given, as the agents say, by UID.
func overMemory(nodes map[string]*v1alpha1.GPUNode) map[string]memory {
	out := map[string]memory{}
	for _, gn := range nodes {
		for _, d := range gn.Status.Devices {
			for _, o := range d.OverMemory {
				m := out[o.PodUID]
				out[o.PodUID] = memory{m.used + o.UsedMiB, m.given + o.GivenMiB}
			}
		}
	}
	return out
}
