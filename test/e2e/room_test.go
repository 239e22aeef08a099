package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestWaitingRoom: pods of all kinds come, are edited, go and come again under the same
// names while the leader is killed: pods that the engine places and that it does not, pods
// that become the one or the other by an edit, by their Job, by a claim or a DeviceClass that
// comes late or changes. In the end everything that can run is bound and nothing else waits,
// no device was ever given twice, and the counts of what waits are right; when all are
// deleted, nothing is left. TANGRAM_SEED repeats a run's choices.
func TestWaitingRoom(t *testing.T) {
	t.Parallel()
	r := newRoomWorld(t)
	const workers, rounds = 8, 350
	var done atomic.Int64
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(r.seed, uint64(i)))
			for range rounds {
				if s := r.slots[i+workers*rng.IntN(len(r.slots)/workers)]; s.kind.never || rng.IntN(10) > 0 {
					s.act(rng)
				} else {
					r.flipClass(rng)
				}
				done.Add(1)
				time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
			}
		})
	}
	r.Eventually("a quarter of it happened", func() (bool, string) { n := done.Load(); return n > workers*rounds/4, fmt.Sprint(n) })
	gated, inside, pending, err := r.counts(r.leader)
	t.Logf("when the leader is killed: %d gated, %d in the queue, %d wait for the engine; %v", gated, inside, pending, err)
	r.Must(r.leader.Kill())
	all.Wait()
	gated, inside, pending, err = r.counts(r.standby)
	t.Logf("when everything has happened: %d gated, %d in the queue, %d wait for the engine; %v", gated, inside, pending, err)
	r.leader, r.standby = r.standby, r.replica()
	r.settle()
	r.checkAll()
}

// slot is where pods of one name come and go. One goroutine uses it.
type slot struct {
	world *roomWorld
	kind  *kind
	n     int
}

func (s *slot) name() string { return fmt.Sprintf("%s-%d", s.kind.name, s.n) }

// pods are the names of its pods.
func (s *slot) pods() (out []string) {
	for i := range max(1, s.kind.size) {
		out = append(out, fmt.Sprintf("%s-%d", s.name(), i))
	}
	return out
}

// act does something with one of its pods.
func (s *slot) act(rng *rand.Rand) {
	name := s.pods()[rng.IntN(len(s.pods()))]
	there := s.world.Find(name)
	switch n := rng.IntN(10); {
	case there == nil:
		if rng.IntN(2) == 0 {
			s.requisites()
		}
		s.create(name)
	case n < 4 && len(s.kind.edits) > 0:
		s.patch(name, s.kind.edits[rng.IntN(len(s.kind.edits))])
	case n < 6:
		s.requisites()
	case n < 7 && s.kind.name == "queued": // another scheduler binds it
		b := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, UID: there.UID}, Target: v1.ObjectReference{Kind: "Node", Name: s.world.anyNode}}
		s.world.check(s.world.Client.CoreV1().Pods("default").Bind(context.Background(), b, metav1.CreateOptions{}))
	case n < 8:
		s.delete(name)
	default: // at once another of the same name
		s.delete(name)
		s.create(name)
	}
}

func (s *slot) create(name string) {
	p := pod(name, 1)
	if s.n%2 == 1 {
		p.Spec.SchedulerName = "default-scheduler"
	}
	if s.kind.make != nil {
		s.kind.make(p, s.n)
	}
	if s.kind.claim != "" {
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: &name}}
	}
	if s.kind.job {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: s.name(), UID: "j", Controller: &yes}}
	}
	_, err := s.world.Client.CoreV1().Pods("default").Create(context.Background(), p, metav1.CreateOptions{})
	s.world.check(err)
}

// requisites makes the claim or the Job that its pod names.
func (s *slot) requisites() {
	ctx := context.Background()
	if s.kind.claim != "" {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: s.pods()[0]}, Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: s.kind.claim, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
		}}}}}
		_, err := s.world.Client.ResourceV1().ResourceClaims("default").Create(ctx, c, metav1.CreateOptions{})
		s.world.check(err)
	}
	if s.kind.job {
		one := int32(1)
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: s.name()}, Spec: batchv1.JobSpec{Parallelism: &one, Completions: &one, Template: v1.PodTemplateSpec{Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "main", Image: "pause"}},
		}}}}
		_, err := s.world.Client.BatchV1().Jobs("default").Create(ctx, j, metav1.CreateOptions{})
		s.world.check(err)
	}
}

func (s *slot) patch(name, patch string) {
	_, err := s.world.Client.CoreV1().Pods("default").Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) { // a bound pod's gates cannot be lifted
		s.world.check(err)
	}
}

// delete deletes a pod and its claim: there is no controller to do it.
func (s *slot) delete(name string) {
	ctx, now := context.Background(), int64(0)
	s.world.check(s.world.Client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	if s.kind.claim == "" {
		return
	}
	claims := s.world.Client.ResourceV1().ResourceClaims("default")
	for {
		s.world.check(claims.Delete(ctx, name, metav1.DeleteOptions{}))
		if _, err := claims.Patch(ctx, name, types.MergePatchType, []byte(freed), metav1.PatchOptions{}); apierrors.IsNotFound(err) {
			return
		}
	}
}

// settle lets everything run that can.
func (r *roomWorld) settle() {
	r.T.Helper()
	r.class("nic", nicDriver)
	for i := range 18 {
		r.Delete(fmt.Sprint("filler-", i))
	}
	for _, s := range r.slots {
		s.requisites()
		for _, name := range s.pods() {
			for _, edit := range s.kind.edits[max(0, len(s.kind.edits)-2):] {
				s.patch(name, edit)
			}
			if r.Find(name) == nil {
				s.create(name)
				for _, edit := range s.kind.edits {
					s.patch(name, edit)
				}
			}
		}
	}
}

// checkAll checks that what can run is bound, and that the rest is counted; then that
// nothing is left of pods that are gone.
func (r *roomWorld) checkAll() {
	r.T.Helper()
	waits, managed := 0, 0
	kinds := map[string]*kind{}
	for _, s := range r.slots {
		for _, name := range s.pods() {
			kinds[name] = s.kind
		}
		if s.kind.never {
			waits++
		}
		if s.kind.managed {
			managed++
		}
	}
	r.Eventually("everything that can run is bound", func() (bool, string) {
		var stuck []string
		pods := r.AllPods()
		for _, p := range pods {
			if k := kinds[p.Name]; k != nil && (p.Spec.NodeName == "") != k.never {
				stuck = append(stuck, fmt.Sprintf("%s on %q: %s", p.Name, p.Spec.NodeName, cluster.Waiting(&p)))
			}
		}
		return len(stuck) == 0 && len(pods) == len(kinds), fmt.Sprintf("%d of %d pods, %d are wrong: %s", len(pods), len(kinds), len(stuck), strings.Join(stuck[:min(len(stuck), 6)], "; "))
	})
	r.counted(waits, managed)
	// A standby places nothing.
	if n := r.Attempts(r.standby); n > 0 {
		r.T.Errorf("the standby tried %d times to place a pod", n)
	}
	if twice := r.doubles.ever(); len(twice) > 0 {
		r.T.Errorf("devices that were held twice: %v", twice)
	}
	r.claimedOnce()
	for _, p := range []*local.Serving{r.leader, r.standby} {
		lines, _ := r.logLines(p, 0)
		for _, line := range lines {
			if strings.Contains(line, "kept out of the scheduling queue") || strings.Contains(line, "is queued again") || strings.Contains(line, "panic") {
				r.T.Error(line)
			}
		}
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := i; j < len(r.slots); j += 8 {
				for _, name := range r.slots[j].pods() {
					r.slots[j].delete(name)
					r.slots[j].patch(name, freed)
				}
			}
		})
	}
	all.Wait()
	r.counted(0, 0)
}

// claimedOnce checks that no device is in two claims, or in a claim and in another pod's
// record. Each pod's claim has its name.
func (r *roomWorld) claimedOnce() {
	r.T.Helper()
	holder, claimed := map[string]string{}, 0
	hold := func(device, pod string) {
		if other := holder[device]; other != "" && other != pod {
			r.T.Errorf("device %s is held by %s and %s", device, other, pod)
		}
		holder[device] = pod
	}
	list, err := r.Client.ResourceV1().ResourceClaims("default").List(context.Background(), metav1.ListOptions{})
	r.Must(err)
	for _, c := range list.Items {
		if c.Status.Allocation == nil {
			continue
		}
		for _, d := range c.Status.Allocation.Devices.Results {
			claimed++
			if d.Driver == gpuDriver { // as records have it
				hold(d.Pool+"/"+strings.TrimPrefix(d.Device, "dev-"), c.Name)
			} else {
				hold(d.Driver+"/"+d.Pool+"/"+d.Device, c.Name)
			}
		}
	}
	if claimed == 0 {
		r.T.Error("no claim is allocated")
	}
	for _, p := range r.AllPods() {
		for _, device := range wholeDevices(&p) {
			hold(device, p.Name)
		}
	}
}
