package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/test/chaos/checker"
)

// bindByHand is a second binder on the same nodes: it binds pods to devices that are
// free, to devices that are held, and without a record, in turn.
func (f *faults) bindByHand(ctx context.Context) error {
	nodes := f.w.loadNodes()
	for range 3 + f.random.IntN(4) {
		node, mode, pick := nodes[f.random.IntN(len(nodes))], f.random.IntN(3), f.random.IntN(1<<20)
		free, held := f.w.checker.FreeDevices(node)
		candidates := [][]int{free, held, nil}[mode]
		record := ""
		switch {
		case mode == 2 && len(free) == 0:
			continue // more than the node has is refused by a kubelet
		case mode < 2 && len(candidates) == 0:
			continue
		case mode < 2:
			record = f.recordFor(node, candidates[pick%len(candidates)])
		}
		f.hand++
		how := []string{"free", "held", "no-record"}[mode]
		if err := f.bindOne(ctx, fmt.Sprintf("hand-%d", f.hand), node, how, record); err != nil && !apierrors.IsNotFound(err) {
			f.w.checker.Note(time.Now(), fmt.Sprintf("binding by hand failed: %v", err))
		}
		time.Sleep(300 * time.Millisecond)
	}
	return nil
}

// recordFor is the record of a pod with one whole device.
func (f *faults) recordFor(node string, index int) string {
	uuid := facts(f.w.fleet).Nodes[node].Devices[index].UUID
	return fmt.Sprintf(`{"version":1,"node":%q,"containers":[{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":%d,"uuid":%q}]}]}`, node, index, uuid)
}

func (f *faults) bindOne(ctx context.Context, name, node, how, record string) error {
	u := &unit{runtime: time.Duration(5+f.random.IntN(20)) * time.Second, profile: "by-hand"}
	u.Name, u.Minimum, u.Pods = name, 1, []checker.Ask{{Whole: 1}}
	p := u.pod(0)
	p.Name = name
	p.Labels[checker.LabelHand] = how
	pods := f.w.client.CoreV1().Pods(namespaced())
	if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return err
	}
	b := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespaced()}, Target: v1.ObjectReference{Kind: "Node", Name: node}}
	if record != "" {
		b.Annotations = map[string]string{checker.AnnotationRecord: record}
	}
	return pods.Bind(ctx, b, metav1.CreateOptions{})
}

// deleteHandBound takes away what was bound by hand, and what waits of it.
func (w *world) deleteHandBound(ctx context.Context) bool {
	left := 0
	for _, p := range w.checker.Pods() {
		if p.Hand && !strings.HasPrefix(p.Name, "pulse-") {
			left++
			_ = w.client.CoreV1().Pods(namespaced()).Delete(ctx, p.Name, metav1.DeleteOptions{}) // asked again until it is gone
		}
	}
	return left == 0
}
