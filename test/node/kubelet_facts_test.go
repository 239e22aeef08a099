package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const factResource = "example.com/fact"

// facts is a device plugin that works as the agent does: Allocate names a CDI device,
// PreStartContainer writes its specification.
type facts struct {
	node *Node

	mu      sync.Mutex
	starts  []start
	refuse  bool
	edits   []string // environment of every specification
	deviced string   // folder of the device nodes
}

// start is what was known when PreStartContainer was called.
type start struct {
	ids    []string
	owners []string // "pod/container" that podresources lists for exactly these IDs
	saved  []string // the same from kubelet's checkpoint, with the pod's UID
}

func (f *facts) allocate(ids []string) (*deviceplugin.ContainerAllocateResponse, error) {
	return &deviceplugin.ContainerAllocateResponse{
		CdiDevices: []*deviceplugin.CDIDevice{{Name: "example.com/allocation=" + key(ids)}},
		Envs:       map[string]string{"FROM_PLUGIN": "plugin", "SET_BY_ALL": "plugin"},
	}, nil
}

func key(ids []string) string {
	return strings.Join(slices.Sorted(slices.Values(ids)), "-")
}

func (f *facts) prestart(ids []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts = append(f.starts, start{ids: slices.Sorted(slices.Values(ids)), owners: f.owners(ids), saved: f.saved(ids)})
	if f.refuse {
		return errors.New("refused by the test")
	}
	var nodes []map[string]any
	for _, id := range ids {
		nodes = append(nodes, map[string]any{"path": "/dev/" + id, "hostPath": filepath.Join(f.deviced, id)})
	}
	spec, err := json.Marshal(map[string]any{
		"cdiVersion": "0.6.0", "kind": "example.com/allocation",
		"devices": []any{map[string]any{"name": key(ids), "containerEdits": map[string]any{"deviceNodes": nodes, "env": f.edits}}},
	})
	if err != nil {
		return err
	}
	file := filepath.Join(f.node.CDIDir(), "example-"+key(ids)+".json")
	if err := os.WriteFile(file+".new", spec, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// owners asks podresources, from inside PreStartContainer.
func (f *facts) owners(ids []string) []string {
	list, err := f.node.PodResources().List(context.Background(), &podresources.ListPodResourcesRequest{})
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for _, p := range list.PodResources {
		for _, c := range p.Containers {
			var has []string
			for _, d := range c.Devices {
				if d.ResourceName == factResource {
					has = append(has, d.DeviceIds...)
				}
			}
			if len(has) > 0 && key(has) == key(ids) {
				found = append(found, p.Name+"/"+c.Name)
			}
		}
	}
	return found
}

// saved reads kubelet's checkpoint, from inside PreStartContainer.
func (f *facts) saved(ids []string) []string {
	data, err := os.ReadFile(filepath.Join(f.node.KubeletDir(), "device-plugins", "kubelet_internal_checkpoint"))
	if err != nil {
		return []string{err.Error()}
	}
	var checkpoint struct {
		Data struct {
			PodDeviceEntries []struct {
				PodUID, ContainerName, ResourceName string
				DeviceIDs                           map[string][]string
			}
		}
	}
	if err := json.Unmarshal(data, &checkpoint); err != nil {
		return []string{err.Error()}
	}
	var found []string
	for _, e := range checkpoint.Data.PodDeviceEntries {
		var has []string
		for _, ids := range e.DeviceIDs {
			has = append(has, ids...)
		}
		if key(has) == key(ids) {
			found = append(found, e.PodUID+"/"+e.ContainerName)
		}
	}
	return found
}

func (f *facts) take() []start {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := f.starts
	f.starts = nil
	return taken
}

func (f *facts) setRefuse(refuse bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = refuse
}

// Kubelet believes what the harness tells it about NUMA nodes, and aligns accordingly.
func TestTopologyManagerFacts(t *testing.T) {
	t.Parallel()
	n := Start(t, Options{Cluster: startCluster(t), Name: "facts-0", NUMANodes: 2})
	plugin := &fakePlugin{
		prestart: func([]string) error { return nil },
		allocate: func(ids []string) (*deviceplugin.ContainerAllocateResponse, error) {
			return &deviceplugin.ContainerAllocateResponse{Envs: map[string]string{"IDS": key(ids)}}, nil
		},
	}
	for i := range 8 {
		plugin.devices = append(plugin.devices, &deviceplugin.Device{
			ID: fmt.Sprint(i), Health: deviceplugin.Healthy,
			Topology: &deviceplugin.TopologyInfo{Nodes: []*deviceplugin.NUMANode{{ID: int64(numaOf(i))}}},
		})
	}
	for _, c := range []Kubelet{{"best-effort", "container"}, {"single-numa-node", "pod"}} {
		t.Run(c.TopologyPolicy+" by "+c.TopologyScope, func(t *testing.T) {
			n := n.In(t)
			n.RestartKubelet(c)
			plugin.serve(t, n, factResource)
			topologyWorld{
				Node: n, t: t,
				pod: func(name string, devices ...int64) *v1.Pod {
					return n.Pod(name, nil, func(p *v1.Pod) {
						p.Spec.Containers = nil
						for i, d := range devices {
							p.Spec.Containers = append(p.Spec.Containers, Container([]string{"main", "second"}[i], map[string]int64{factResource: d}, "look", "sleep"))
						}
					})
				},
				numa: func(pod *v1.Pod, container string) []int {
					var at []int
					for _, id := range strings.Split(n.LookInto(pod, container).Values("IDS")[0], "-") {
						i, err := strconv.Atoi(id)
						if err != nil {
							t.Fatal(err)
						}
						at = append(at, numaOf(i))
					}
					return at
				},
			}.check(c.TopologyPolicy, c.TopologyScope)
		})
	}
}

// makeNodes makes character device nodes with numbers of their own: memory devices that
// every kernel has, so that they can be opened.
func makeNodes(t *testing.T, folder string, names ...string) {
	t.Helper()
	minors := []uint32{3, 5, 7, 8, 9} // null, zero, full, random, urandom
	for i, name := range names {
		path := filepath.Join(folder, name)
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minors[i]))); err != nil {
			t.Skipf("skipped: this machine does not let us make device nodes: %v", err)
		}
	}
}

// What the agent's design takes for granted about kubelet and containerd, with a
// device plugin of 30 lines in the agent's place.
func TestKubeletFacts(t *testing.T) {
	t.Parallel()
	n := Start(t, Options{Cluster: startCluster(t), Name: "facts-0"})
	f := &facts{node: n, deviced: n.Dir("nodes"), edits: []string{"NVIDIA_VISIBLE_DEVICES=void", "SET_BY_ALL=cdi", "ADDED=cdi"}}
	makeNodes(t, f.deviced, "fact0", "fact1", "fact2", "fact3")
	plugin := &fakePlugin{allocate: f.allocate, prestart: f.prestart}
	for i := range 4 {
		plugin.devices = append(plugin.devices, &deviceplugin.Device{ID: fmt.Sprintf("fact%d", i), Health: deviceplugin.Healthy})
	}
	old := plugin.serve(t, n, factResource)

	t.Run("PreStartContainer comes before the container, and podresources then names it", func(t *testing.T) {
		n := n.In(t)
		n.Create(n.Pod("named", map[string]int64{factResource: 2}))
		seen := n.Look("named")
		starts := f.take()
		if len(starts) != 1 {
			t.Fatalf("%d calls of PreStartContainer for one container", len(starts))
		}
		if s := starts[0]; !slices.Equal(s.owners, []string{"named/main"}) || !slices.Equal(s.saved, []string{string(n.Get("named").UID) + "/main"}) {
			t.Errorf("PreStartContainer of %v: podresources named %v, the checkpoint %v", s.ids, s.owners, s.saved)
		}
		var got []string
		for _, d := range seen.Given() {
			got = append(got, filepath.Base(d.Path))
			if d.Open != "" {
				t.Errorf("%s cannot be opened: %s", d.Path, d.Open)
			}
		}
		// The specification was written in that call: the runtime must have read it anew.
		if want := starts[0].ids; !slices.Equal(got, want) {
			t.Errorf("the container sees %v, its specification has %v", got, want)
		}
		n.Delete("named")
	})

	t.Run("whose environment wins", func(t *testing.T) {
		n := n.In(t)
		f.take()
		n.Create(n.Pod("env", map[string]int64{factResource: 1}, func(p *v1.Pod) {
			p.Spec.Containers[0].Env = []v1.EnvVar{
				{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}, {Name: "FROM_PLUGIN", Value: "pod"}, {Name: "SET_BY_ALL", Value: "pod"},
			}
		}))
		seen := n.Look("env")
		for name, want := range map[string]string{
			"NVIDIA_VISIBLE_DEVICES": "void", // CDI over the pod's own
			"FROM_PLUGIN":            "pod",  // the pod's own over the device plugin's
			"SET_BY_ALL":             "cdi",
			"ADDED":                  "cdi",
		} {
			if got := seen.Values(name); !slices.Equal(got, []string{want}) {
				t.Errorf("%s is %q, want %q once", name, got, want)
			}
		}
		n.Delete("env")
	})

	t.Run("a refusal by PreStartContainer is tried again", func(t *testing.T) {
		n := n.In(t)
		f.take()
		f.setRefuse(true)
		n.Create(n.Pod("refused", map[string]int64{factResource: 1}))
		n.AwaitPod("refused", "waits", func(p *v1.Pod) bool {
			reason, message := Waiting(p, "main")
			return reason == "CreateContainerConfigError" && strings.Contains(message, "refused by the test")
		})
		f.setRefuse(false)
		n.Look("refused")
		if tries := len(f.take()); tries < 2 {
			t.Errorf("%d calls of PreStartContainer", tries)
		}
		n.Delete("refused")
	})

	t.Run("a restarted container has PreStartContainer again", func(t *testing.T) {
		n := n.In(t)
		f.take()
		n.Create(n.Pod("again", map[string]int64{factResource: 1}, func(p *v1.Pod) {
			p.Spec.RestartPolicy = v1.RestartPolicyOnFailure
			p.Spec.Containers[0].Args = []string{"look", "exit=1"}
		}))
		n.AwaitPod("again", "was restarted", func(p *v1.Pod) bool {
			return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].RestartCount > 0
		})
		if starts := f.take(); len(starts) < 2 || !slices.Equal(starts[0].ids, starts[1].ids) {
			t.Errorf("calls of PreStartContainer: %+v", starts)
		}
		n.Delete("again")
	})

	t.Run("podresources leaves out init containers, the checkpoint does not", func(t *testing.T) {
		n := n.In(t)
		f.take()
		n.Create(n.Pod("init", nil, func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{Container("first", map[string]int64{factResource: 2}, "look")}
			p.Spec.Containers = []v1.Container{Container("main", map[string]int64{factResource: 1}, "look", "sleep")}
		}))
		n.Look("init")
		starts := f.take()
		if len(starts) != 2 {
			t.Fatalf("%d calls of PreStartContainer for an init container and a container", len(starts))
		}
		uid := string(n.Get("init").UID)
		if s := starts[0]; len(s.owners) != 0 || !slices.Equal(s.saved, []string{uid + "/first"}) {
			t.Errorf("the init container: podresources named %v, the checkpoint %v", s.owners, s.saved)
		}
		if s := starts[1]; !slices.Equal(s.owners, []string{"init/main"}) || !slices.Contains(starts[0].ids, s.ids[0]) {
			t.Errorf("the container got %v after its init container %v; podresources named %v", s.ids, starts[0].ids, s.owners)
		}
		n.Delete("init")
	})

	t.Run("with an old device plugin kubelet gives up the new one", func(t *testing.T) {
		n := n.In(t)
		latest := plugin.serve(t, n, factResource)
		old.end()
		select {
		case <-latest.lost:
		case <-time.After(30 * time.Second):
			t.Fatal("the new plugin's stream goes on: the agent need not register again")
		}
		n.AwaitDevices(factResource, 0)
		plugin.serve(t, n, factResource)
	})
}
