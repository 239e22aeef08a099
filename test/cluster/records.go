package cluster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
)

// CheckRecords fails the test unless every bound GPU pod of the cluster has a valid record
// and no whole device is held by two live pods. It returns how many devices are held.
func (w *World) CheckRecords() int {
	w.T.Helper()
	holder := map[string]string{}
	for _, p := range w.AllPods() {
		if p.Spec.NodeName == "" || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		rec, err := record.Decode(p.Annotations[names.AnnotationDevices])
		if err != nil {
			w.T.Errorf("pod %s: %v", p.Name, err)
			continue
		}
		if rec.Node != p.Spec.NodeName {
			w.T.Errorf("pod %s is bound to %s, recorded on %s", p.Name, p.Spec.NodeName, rec.Node)
		}
		for _, c := range rec.Containers {
			for _, d := range c.Devices {
				key := fmt.Sprintf("%s/%d", rec.Node, d.Index)
				if other, taken := holder[key]; taken && other != p.Name && d.MemoryMiB == 0 && d.MIG == "" {
					w.T.Errorf("device %s is held by %s and %s", key, other, p.Name)
				}
				holder[key] = p.Name
			}
		}
	}
	return len(holder)
}
