package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/internal/kube/controller/blueprint"
	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

const podsAtOnce = 16 // bounds the concurrent requests of one job

// podsPerReconcile bounds how many pods one reconcile creates, so that a job of thousands of
// pods can be counted, changed and aborted while they are created.
const podsPerReconcile = 500

// createPods creates the pods of empty slots. AlreadyExists is success: names are
// fixed, so it is the same pod. The first is created alone: if it is rejected, so are
// the others.
func (j *jobs) createPods(ctx context.Context, job *batch.Job, spec *lifecycle.Spec, plugins []blueprint.Plugin, slots []lifecycle.Slot) error {
	if len(slots) == 0 {
		return nil
	}
	create := func(slot lifecycle.Slot) error {
		err := j.createPod(ctx, job, blueprint.Pod(job, spec, slot, plugins))
		if err == nil {
			j.unseen.made(job, slot, j.now())
		}
		return err
	}
	if err := create(slots[0]); err != nil {
		return err
	}
	rest := slots[1:]
	errs := make([]error, len(rest))
	workqueue.ParallelizeUntil(ctx, podsAtOnce, len(rest), func(i int) { errs[i] = create(rest[i]) })
	return firstOf(errs)
}

func (j *jobs) createPod(ctx context.Context, job *batch.Job, pod *v1.Pod) error {
	pods := j.clients.kube.CoreV1().Pods(pod.Namespace)
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err == nil {
		return nil
	} else if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	there, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !metav1.IsControlledBy(there, job) {
		return fmt.Errorf("pod %s exists and is not part of this job", pod.Name)
	}
	return nil
}

// deletePods deletes exactly these pods, not later ones of the same name.
func (j *jobs) deletePods(ctx context.Context, job *batch.Job, list []lifecycle.Pod) error {
	errs := make([]error, len(list))
	workqueue.ParallelizeUntil(ctx, podsAtOnce, len(list), func(i int) {
		p := &list[i]
		err := j.clients.kube.CoreV1().Pods(job.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs[i] = fmt.Errorf("delete pod %s: %w", p.Name, err)
		}
	})
	return firstOf(errs)
}

// firstOf is one error for many that likely have the same cause.
func firstOf(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w (and %d more)", errs[0], len(errs)-1)
}

// ensureGroup creates or updates the job's PodGroup, or deletes it once the job takes
// no more part in scheduling.
func (j *jobs) ensureGroup(ctx context.Context, job *batch.Job, spec *lifecycle.Spec, plan lifecycle.Plan) error {
	groups := j.clients.podGroups(job.Namespace)
	name := blueprint.GroupName(job)
	there, ok := get[*scheduling.PodGroup](j.sources.podGroups, job.Namespace+"/"+name)
	switch {
	case !plan.Group && ok:
		return unlessGone(groups.Delete(ctx, name, metav1.DeleteOptions{}))
	case !plan.Group || ok && lifecycle.Final(job.Status.State.Phase):
		return nil
	}
	want := blueprint.PodGroup(job, spec, lifecycle.Released(job, j.sources.podsOf(job)))
	if !ok {
		_, err := groups.Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil // the informer is behind; its event enqueues the job again
		}
		return err
	}
	if !metav1.IsControlledBy(there, job) {
		return errors.New("PodGroup " + name + " is not part of this job")
	}
	if equality.Semantic.DeepEqual(there.Spec, want.Spec) {
		return nil
	}
	next := there.DeepCopy()
	next.Spec = want.Spec
	_, err := groups.Update(ctx, next, metav1.UpdateOptions{})
	return err
}
