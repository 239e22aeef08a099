package records

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/names"
)

// PodWriter reads and patches the pods of a namespace.
type PodWriter interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*v1.Pod, error)
	Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, o metav1.PatchOptions, sub ...string) (*v1.Pod, error)
}

// CorrectorOptions say how records are kept true.
type CorrectorOptions struct {
	Book *Book
	Pods func(namespace string) PodWriter
	// Every is how often all records are compared without a call of kubelet's; 0 means
	// 30 s. Soon is how long after such a call they are; 0 means 200 ms.
	Every, Soon time.Duration
	// Corrected hears of each record that was written, Problem of each new problem of a pod,
	// once until it changes, Failed of each round that could not be finished. They may be nil.
	Corrected func(Correction)
	Problem   func(Problem)
	Failed    func(error)
}

// Corrector keeps the records of a node's pods true. What could not be written, because
// the API server was away, is found again in the next round: nothing is kept but what
// kubelet and the pods themselves say.
type Corrector struct {
	o    CorrectorOptions
	poke chan struct{}

	mu   sync.Mutex
	told map[types.UID]Problem
}

// NewCorrector prepares; Run starts it.
func NewCorrector(o CorrectorOptions) *Corrector {
	o.Every, o.Soon = cmp.Or(o.Every, 30*time.Second), cmp.Or(o.Soon, 200*time.Millisecond)
	return &Corrector{o: o, poke: make(chan struct{}, 1), told: map[types.UID]Problem{}}
}

// Look asks for a round soon. It does not wait.
func (c *Corrector) Look() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// Run compares and corrects until the context ends. After a round that failed it tries
// again, at first soon and then every Every.
func (c *Corrector) Run(ctx context.Context) {
	retry := c.o.Soon
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		case <-c.poke:
			if !waited(ctx, c.o.Soon) { // several calls in a row are one round
				return
			}
		}
		next := c.o.Every
		if _, err := c.Round(ctx); err != nil && ctx.Err() == nil {
			retry = min(2*retry, c.o.Every)
			next = retry
			klog.FromContext(ctx).Info("Could not compare records with kubelet's devices; will retry", "node", c.o.Book.o.Node, "in", next, "err", err)
			if c.o.Failed != nil {
				c.o.Failed(err)
			}
		} else {
			retry = c.o.Soon
		}
		wait.Reset(next)
	}
}

// Round compares once and returns how many records were written. An error says that
// something is left to do.
func (c *Corrector) Round(ctx context.Context) (int, error) {
	b := c.o.Book
	listing, err := b.list(ctx)
	if err != nil {
		return 0, err
	}
	pods := b.o.Pods.List()
	b.forget(pods)
	corrections, problems := b.facts().plan(pods, listing)
	c.tell(append(problems, b.forgotten(listing)...))
	for n, x := range corrections {
		// The order matters, so nothing is written after a write that failed.
		if err := c.write(ctx, x); err != nil {
			return n, err
		}
	}
	return len(corrections), nil
}

// write changes one record, if the pod is still the one that was looked at.
func (c *Corrector) write(ctx context.Context, x Correction) error {
	var value any
	if x.Record != "" {
		value = x.Record
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	pods := c.o.Pods(x.Pod.Namespace)
	pod := c.o.Book.latest(x.Pod)
	var after *v1.Pod
	for try := 0; ; try++ {
		// A pod that changed meanwhile may have another record, so the version must be the
		// one that was looked at.
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": pod.UID, "resourceVersion": pod.ResourceVersion,
			"annotations": map[string]any{names.AnnotationDevices: value},
		}})
		if err == nil {
			after, err = pods.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "gpu-agent"})
		}
		if err == nil {
			break
		}
		if apierrors.IsNotFound(err) {
			return nil // it is gone, and so is its record
		}
		err = fmt.Errorf("correct the record of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		if !apierrors.IsConflict(errors.Unwrap(err)) || try == 3 {
			return err
		}
		// Mostly kubelet wrote the status. The record itself must be as it was.
		now, failed := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(failed) || failed == nil && now.UID != pod.UID {
			return nil
		}
		if failed != nil || now.Annotations[names.AnnotationDevices] != pod.Annotations[names.AnnotationDevices] {
			return err
		}
		pod = now
	}
	c.o.Book.wrote(after)
	klog.FromContext(ctx).Info("Record corrected", "pod", klog.KObj(pod), "why", x.Why, "before", pod.Annotations[names.AnnotationDevices], "after", x.Record)
	if c.o.Corrected != nil {
		c.o.Corrected(x)
	}
	return nil
}

// tell reports problems that are new, and forgets those that are over.
func (c *Corrector) tell(problems []Problem) {
	c.mu.Lock()
	now := map[types.UID]Problem{}
	var fresh []Problem
	for _, p := range problems {
		if before, ok := c.told[p.Pod.UID]; !ok || before.Message != p.Message {
			fresh = append(fresh, p)
		}
		now[p.Pod.UID] = p
	}
	c.told = now
	c.mu.Unlock()
	for _, p := range fresh {
		klog.Background().Info("Record cannot be corrected", "pod", klog.KObj(p.Pod), "reason", p.Reason, "problem", p.Message)
		if c.o.Problem != nil {
			c.o.Problem(p)
		}
	}
}
