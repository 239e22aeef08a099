package devicemanager

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
)

// cluster is an API server of pods: client-go's fake, with resource versions that mean
// something and a look at every record that is written.
type cluster struct {
	t      *testing.T
	client *fake.Clientset

	mu      sync.Mutex
	version int
	away    bool // every call fails
	writes  int  // of records
	tell    func(string, ...any)
	judge   func(pods []*v1.Pod, written *v1.Pod) error
	wrong   error
}

var podKind = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, client: fake.NewClientset(), version: 1}
	c.client.PrependReactor("patch", "pods", c.patch)
	return c
}

func (c *cluster) patch(a ktesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := a.(ktesting.PatchAction)
	if c.away {
		return true, nil, apierrors.NewServiceUnavailable("the test says so")
	}
	var patch struct {
		Metadata struct {
			UID             types.UID
			ResourceVersion string
			Annotations     map[string]*string
		}
	}
	if err := json.Unmarshal(p.GetPatch(), &patch); err != nil {
		return true, nil, apierrors.NewBadRequest(err.Error())
	}
	obj, err := c.client.Tracker().Get(podKind, p.GetNamespace(), p.GetName())
	if err != nil {
		return true, nil, err
	}
	pod := obj.(*v1.Pod).DeepCopy()
	if pod.UID != patch.Metadata.UID || pod.ResourceVersion != patch.Metadata.ResourceVersion {
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, pod.Name, fmt.Errorf("version %s is not %s", patch.Metadata.ResourceVersion, pod.ResourceVersion))
	}
	for k, v := range patch.Metadata.Annotations {
		if v == nil {
			delete(pod.Annotations, k)
		} else {
			pod.Annotations[k] = *v
		}
	}
	c.version++
	pod.ResourceVersion = strconv.Itoa(c.version)
	if err := c.client.Tracker().Update(podKind, pod, pod.Namespace); err != nil {
		return true, nil, err
	}
	c.writes++
	if c.tell != nil {
		c.tell("written for %s: %s", pod.Name, pod.Annotations[names.AnnotationDevices])
	}
	if c.judge != nil && c.wrong == nil {
		c.wrong = c.judge(c.pods(), pod)
	}
	return true, pod, nil
}

// pods are all pods.
func (c *cluster) pods() (out []*v1.Pod) {
	list, err := c.client.Tracker().List(podKind, v1.SchemeGroupVersion.WithKind("Pod"), metav1.NamespaceAll)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range list.(*v1.PodList).Items {
		out = append(out, &list.(*v1.PodList).Items[i])
	}
	return out
}

func (c *cluster) create(pod *v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	pod.ResourceVersion = strconv.Itoa(c.version)
	if err := c.client.Tracker().Create(podKind, pod.DeepCopy(), pod.Namespace); err != nil {
		c.t.Fatal(err)
	}
}

// run says that a container runs, as its kubelet reports it; init containers before it
// have ended.
func (c *cluster) run(pod *v1.Pod, container string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	obj, err := c.client.Tracker().Get(podKind, pod.Namespace, pod.Name)
	if err != nil {
		c.t.Fatal(err)
	}
	now := obj.(*v1.Pod).DeepCopy()
	now.Status = v1.PodStatus{Phase: v1.PodRunning}
	for i := range now.Spec.InitContainers {
		s := v1.ContainerStatus{Name: now.Spec.InitContainers[i].Name, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
		if s.Name != container && !sidecar(&now.Spec.InitContainers[i]) {
			s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}
		}
		now.Status.InitContainerStatuses = append(now.Status.InitContainerStatuses, s)
		if s.Name == container {
			break
		}
	}
	for _, x := range now.Spec.Containers {
		if len(now.Status.InitContainerStatuses) > 0 && now.Status.InitContainerStatuses[len(now.Status.InitContainerStatuses)-1].Name == container {
			break
		}
		now.Status.ContainerStatuses = append(now.Status.ContainerStatuses, v1.ContainerStatus{Name: x.Name, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}})
		if x.Name == container {
			break
		}
	}
	c.version++
	now.ResourceVersion = strconv.Itoa(c.version)
	if err := c.client.Tracker().Update(podKind, now, now.Namespace); err != nil {
		c.t.Fatal(err)
	}
}

// finish ends a pod, as its kubelet reports it.
func (c *cluster) finish(pod *v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.client.Tracker().Delete(podKind, pod.Namespace, pod.Name); err != nil {
		c.t.Fatal(err)
	}
}

func recordOf(pod *v1.Pod) *record.Record {
	text, ok := pod.Annotations[names.AnnotationDevices]
	if !ok {
		return nil
	}
	r, err := record.Decode(text)
	if err != nil {
		return &record.Record{Node: "invalid: " + err.Error()}
	}
	return &r
}
