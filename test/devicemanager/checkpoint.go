package devicemanager

import (
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"
)

// checkpoints is kubelet's checkpoint manager, with a look at what is written.
//
// Kubelet copies which containers have which devices under a lock, and writes the copy without it.
// An answer to Allocate and a message of a device plugin make two such copies at the same
// time, and the older one may be written last. Kubelet's next life then does not know of
// the pod that was given devices in between: while its containers run it is admitted with
// no devices at all, and for as long as it lives.
type checkpoints struct {
	checkpointmanager.CheckpointManager
	k       *kubelet
	manager *devicemanager.ManagerImpl

	mu   sync.Mutex
	last map[[2]string]bool // containers in what was written last
}

// watchCheckpoints puts itself between kubelet's device manager and its file.
func watchCheckpoints(k *kubelet, m *devicemanager.ManagerImpl) {
	field := reflect.ValueOf(m).Elem().FieldByName("checkpointManager")
	field = reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
	field.Set(reflect.ValueOf(&checkpoints{CheckpointManager: field.Interface().(checkpointmanager.CheckpointManager), k: k, manager: m}))
}

// CreateCheckpoint writes, but not what is older than what was written last: that is
// counted. With k.writing the test decides instead.
func (c *checkpoints) CreateCheckpoint(key string, what checkpointmanager.Checkpoint) error {
	now := map[[2]string]bool{}
	entries, _ := what.(checkpoint.DeviceManagerCheckpoint).GetData()
	for _, e := range entries {
		now[[2]string{e.PodUID, e.ContainerName}] = true
	}
	if c.k.writing != nil {
		done := c.k.writing(now)
		c.mu.Lock()
		defer c.mu.Unlock()
		defer done()
		return c.CheckpointManager.CreateCheckpoint(key, what)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for container := range c.last {
		if !now[container] && len(c.manager.GetDevices(container[0], container[1])) > 0 {
			c.k.overtaken.Add(1)
			return nil
		}
	}
	c.last = now
	return c.CheckpointManager.CreateCheckpoint(key, what)
}

// forget takes a pod out of the checkpoint of a kubelet that is stopped.
func (k *kubelet) forget(pod *v1.Pod) error {
	store, err := checkpointmanager.NewCheckpointManager(filepath.Join(k.dir, "plugins"))
	if err != nil {
		return err
	}
	const name = "kubelet_internal_checkpoint"
	have := checkpoint.New(nil, nil)
	if err := store.GetCheckpoint(name, have); err != nil {
		return err
	}
	entries, registered := have.GetData()
	entries = slices.DeleteFunc(entries, func(e checkpoint.PodDevicesEntry) bool { return e.PodUID == string(pod.UID) })
	return store.CreateCheckpoint(name, checkpoint.New(entries, registered))
}
