package e2e

import (
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/lab/local"
)

// What the tests of the holes share.

// claiming makes a pod use a PersistentVolumeClaim.
func claiming(claim string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
}

// starts creates a pod and waits until it is bound. How long that takes is only logged.
func (w *world) starts(p *v1.Pod) {
	w.T.Helper()
	begin := time.Now()
	w.Create(p)
	w.Bound(p.Name)
	w.T.Logf("pod %s was bound after %s", p.Name, time.Since(begin).Round(time.Millisecond))
}

// logLines are the lines of a process's log, from an offset in bytes on.
func (w *world) logLines(p *local.Serving, from int64) (lines []string, size int64) {
	w.T.Helper()
	data, err := os.ReadFile(p.Log())
	w.Must(err)
	return strings.Split(string(data[min(from, int64(len(data))):]), "\n"), int64(len(data))
}
