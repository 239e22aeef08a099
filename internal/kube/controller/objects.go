package controller

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/internal/kube/controller/blueprint"
)

// objects maintains what jobs need besides pods: services, hosts, keys, volume claims.
type objects struct {
	kube kubernetes.Interface

	mu sync.Mutex
	// done is the generation for which a job's objects were last applied. It only saves
	// requests: losing it costs one request per object.
	done map[types.UID]int64
}

func newObjects(kube kubernetes.Interface) *objects {
	return &objects{kube: kube, done: map[types.UID]int64{}}
}

const doneLimit = 10000 // bounds the entries of deleted jobs

// ensure applies the job's objects after a change of its spec, or always with sure:
// before pods are created that need them.
func (o *objects) ensure(ctx context.Context, job *batch.Job, plugins []blueprint.Plugin, sure bool) error {
	o.mu.Lock()
	known := o.done[job.UID] == job.Generation
	o.mu.Unlock()
	if known && !sure {
		return nil
	}
	list := blueprint.Claims(job)
	for _, p := range plugins {
		list = append(list, p.Objects()...)
	}
	for _, object := range list {
		if err := o.one(ctx, job, object); err != nil {
			kind := strings.TrimPrefix(fmt.Sprintf("%T", object.Want), "*v1.")
			return fmt.Errorf("make %s %s: %w", kind, object.Want.GetName(), err)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.done) >= doneLimit {
		clear(o.done)
	}
	o.done[job.UID] = job.Generation
	return nil
}

func (o *objects) one(ctx context.Context, job *batch.Job, object blueprint.Object) error {
	core := o.kube.CoreV1()
	switch want := object.Want.(type) {
	case *v1.Service:
		return apply(ctx, job, object, core.Services(job.Namespace), want, nil)
	case *networking.NetworkPolicy:
		return apply(ctx, job, object, o.kube.NetworkingV1().NetworkPolicies(job.Namespace), want, nil)
	case *v1.PersistentVolumeClaim:
		return apply(ctx, job, object, core.PersistentVolumeClaims(job.Namespace), want, nil)
	case *v1.ConfigMap:
		return apply(ctx, job, object, core.ConfigMaps(job.Namespace), want, func(there *v1.ConfigMap) bool {
			same := equality.Semantic.DeepEqual(there.Data, want.Data)
			there.Data = want.Data
			return !same
		})
	case *v1.Secret:
		return apply(ctx, job, object, core.Secrets(job.Namespace), want, func(there *v1.Secret) bool {
			before := maps.Clone(there.Data)
			if there.Data == nil {
				there.Data = map[string][]byte{}
			}
			maps.Copy(there.Data, want.Data) // the keys made once stay
			return !equality.Semantic.DeepEqual(before, there.Data)
		})
	}
	return fmt.Errorf("no plugin may make a %T", object.Want)
}

// writer is what the typed clients have in common.
type writer[T any] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, o metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, o metav1.UpdateOptions) (T, error)
}

// apply creates an object, or lets change, if not nil, modify the existing one. An object
// that the job does not control is left alone, with an error, unless it is a claim that the
// user has created under the name the job gives.
func apply[T metav1.Object](ctx context.Context, job *batch.Job, object blueprint.Object, w writer[T], want T, change func(T) bool) error {
	there, err := w.Get(ctx, want.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if object.Once != nil {
			if err := object.Once(); err != nil {
				return err
			}
		}
		if _, err = w.Create(ctx, want, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	case err != nil:
		return err
	}
	if !metav1.IsControlledBy(there, job) {
		if _, claim := any(there).(*v1.PersistentVolumeClaim); claim {
			return nil
		}
		return fmt.Errorf("it exists and is not part of job %s", job.Name)
	}
	if change == nil || !change(there) {
		return nil
	}
	_, err = w.Update(ctx, there, metav1.UpdateOptions{})
	return err
}
