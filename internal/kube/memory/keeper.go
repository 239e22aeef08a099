package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/state"
)

// Key is the ConfigMap's key that has the state.
const Key = "state.json"

// maxAhead is how far in the future a state may have been saved: clocks of replicas differ
// by less.
const maxAhead = time.Hour

// Keeper reads and writes the state of one scheduler. Its methods are called by one
// goroutine at a time.
type Keeper struct {
	Client          kubernetes.Interface
	Namespace, Name string
	// Identity is who writes, for people who look at the object.
	Identity string
	MayWrite func() error // MayWrite says why this process may not write now: it may not lead any more
	Clock    func() time.Time

	// object is the object as it was last read or written; nil: unknown.
	object  *v1.ConfigMap
	written []byte // what was last written, without times
	problem string // what was last logged of writes
}

// Load reads the state; nil when there is none that can be used, which is logged and
// nothing else.
func (k *Keeper) Load(ctx context.Context) *state.State {
	logger := klog.FromContext(ctx).WithValues("configMap", klog.KRef(k.Namespace, k.Name))
	object, err := k.Client.CoreV1().ConfigMaps(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		logger.Error(err, "Saved state not read: balances of queues, runtimes and the mix of requests are learned anew")
		return nil
	}
	there, text := false, ""
	if err == nil {
		k.object = object
		text, there = object.Data[Key]
	}
	if !there {
		logger.Info("No saved state: balances of queues, runtimes and the mix of requests are learned anew")
		return nil
	}
	s, err := state.Decode([]byte(text))
	if now := k.Clock(); err == nil && s.At > now.Add(maxAhead).UnixNano() {
		err = fmt.Errorf("at: %s is in the future", time.Unix(0, s.At).UTC().Format(time.RFC3339))
	}
	if err != nil {
		logger.Error(err, "Saved state ignored: balances of queues, runtimes and the mix of requests are learned anew")
		return nil
	}
	logger.Info("Saved state restored", "age", k.Clock().Sub(time.Unix(0, s.At)).Round(time.Millisecond).String(), "queues", len(s.Learned.Queues.Queues),
		"runtimes", len(s.Runtimes), "classes", len(s.Learned.Mix.Classes))
	return s
}

// Save writes the state, unless nothing has changed but the time. A failure is logged when
// it is another one than the last.
func (k *Keeper) Save(ctx context.Context, s *state.State) error {
	err := k.save(ctx, s)
	logger := klog.FromContext(ctx).WithValues("configMap", klog.KRef(k.Namespace, k.Name))
	switch {
	case err == nil && k.problem != "":
		logger.Info("State saved again")
		k.problem = ""
	case err != nil && kind(err) != k.problem:
		k.problem = kind(err)
		logger.Error(err, "State not saved: what was learned since the last time would be lost in a restart")
	}
	return err
}

// kind is equal for failures that are alike: the message may have times in it.
func kind(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return fmt.Sprintf("%T", err)
}

func (k *Keeper) save(ctx context.Context, s *state.State) error {
	text, left, err := s.Encode()
	if err != nil {
		return err
	}
	bare := *s
	bare.At, bare.Learned.Queues.At = 0, 0
	timeless, _, err := bare.Encode()
	if err != nil || bytes.Equal(timeless, k.written) {
		return err
	}
	if left != (state.Left{}) {
		klog.FromContext(ctx).V(2).Info("Not all that was learned is saved: the object is bounded", "leftOut", left)
	}
	if err := k.write(ctx, text); err != nil {
		k.object = nil // another wrote it, or is it gone? The next time it is read again.
		return err
	}
	k.written = timeless
	return nil
}

// write replaces the object's state. The version in the write makes a late write of a
// former leader fail: a process writes as soon as it leads.
func (k *Keeper) write(ctx context.Context, text []byte) error {
	maps := k.Client.CoreV1().ConfigMaps(k.Namespace)
	if err := k.MayWrite(); err != nil {
		return err
	}
	if k.object == nil {
		var err error
		if k.object, err = maps.Get(ctx, k.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return k.create(ctx, text)
		} else if err != nil {
			return err
		}
	}
	object := k.object.DeepCopy()
	k.fill(object, text)
	if err := k.MayWrite(); err != nil {
		return err
	}
	done, err := maps.Update(ctx, object, metav1.UpdateOptions{})
	if err == nil {
		k.object = done
	}
	return err
}

// create makes the object where the scheduler has the right to; config/rbac.yaml gives it
// none, and makes the object itself.
func (k *Keeper) create(ctx context.Context, text []byte) error {
	object := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name}}
	k.fill(object, text)
	done, err := k.Client.CoreV1().ConfigMaps(k.Namespace).Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		return errors.New("the ConfigMap does not exist, and this scheduler may not create it; make it without data: kubectl -n " +
			k.Namespace + " create configmap " + k.Name)
	}
	if err == nil {
		k.object = done
	}
	return err
}

func (k *Keeper) fill(object *v1.ConfigMap, text []byte) {
	object.Data, object.BinaryData = map[string]string{Key: string(text)}, nil
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, names.AnnotationSavedBy, k.Identity)
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, names.AnnotationSavedAt, k.Clock().UTC().Format(time.RFC3339))
}
