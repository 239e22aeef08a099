package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/internal/local"
)

// What the tests of the holes share.

// namespace creates a namespace.
func (w *world) namespace(name string) {
	w.t.Helper()
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := w.client.CoreV1().Namespaces().Create(context.Background(), ns, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// inNamespace puts a pod into a namespace.
func inNamespace(name string) func(*v1.Pod) { return func(p *v1.Pod) { p.Namespace = name } }

// needing adds a request, and the limit that extended resources need, to a pod.
func needing(name, amount string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		r := &p.Spec.Containers[0].Resources
		if r.Requests == nil {
			r.Requests = v1.ResourceList{}
		}
		if strings.Contains(name, "/") {
			r.Limits[v1.ResourceName(name)] = resource.MustParse(amount)
		}
		r.Requests[v1.ResourceName(name)] = resource.MustParse(amount)
	}
}

// claiming makes a pod use a PersistentVolumeClaim.
func claiming(claim string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
}

// createAll creates many pods, several at a time.
func (w *world) createAll(pods []*v1.Pod) {
	w.t.Helper()
	queue := make(chan *v1.Pod)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for p := range queue {
				if _, err := w.client.CoreV1().Pods(p.Namespace).Create(context.Background(), p, metav1.CreateOptions{}); err != nil {
					w.t.Errorf("create %s: %v", p.Name, err)
				}
			}
		})
	}
	for _, p := range pods {
		queue <- p
	}
	close(queue)
	workers.Wait()
}

// find is a pod of any namespace; nil when it is gone.
func (w *world) find(namespace, name string) *v1.Pod {
	p, err := w.client.CoreV1().Pods(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return p
}

// startsWithin creates a pod, waits until it is bound and returns how long that took.
func (w *world) startsWithin(limit time.Duration, p *v1.Pod) time.Duration {
	w.t.Helper()
	start := time.Now()
	w.create(p)
	w.eventually("pod "+p.Name+" starts", limit, func() (bool, string) {
		now := w.get(p.Name)
		return now.Spec.NodeName != "", waitsFor(now)
	})
	return time.Since(start)
}

// scheduled is a pod's PodScheduled condition; the zero value when there is none.
func scheduled(p *v1.Pod) v1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c
		}
	}
	return v1.PodCondition{}
}

// notesOn are the notes of all events about an object, whatever their reason.
func (w *world) notesOn(kind, name string) []string {
	w.t.Helper()
	list, err := w.client.EventsV1().Events("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		if e.Regarding.Kind == kind && e.Regarding.Name == name {
			out = append(out, e.Type+" "+e.Reason+": "+e.Note)
		}
	}
	return out
}

// patchPod applies a merge patch to a pod of the default namespace.
func (w *world) patchPod(name, patch string) {
	w.t.Helper()
	if _, err := w.client.CoreV1().Pods("default").Patch(context.Background(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// cpuTime is the processor time a process has used so far.
func (w *world) cpuTime(p *local.Process) time.Duration {
	w.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
	if err != nil {
		w.t.Skipf("skipped: %v", err) // only Linux tells
	}
	// After the name, which ends with the last ")", utime and stime are fields 12 and 13.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * (time.Second / 100)
}

// logLines are the lines of a process's log, from an offset in bytes on.
func (w *world) logLines(p *local.Process, from int64) (lines []string, size int64) {
	w.t.Helper()
	data, err := os.ReadFile(p.Log())
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Split(string(data[min(from, int64(len(data))):]), "\n"), int64(len(data))
}
