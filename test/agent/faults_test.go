package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// TestFaults takes things away from agents, each on a node of its own, at the same time.
func TestFaults(t *testing.T) {
	w := newWorld(t)
	var gfd = map[string]string{"nvidia.com/gpu.count": "99", "nvidia.com/gpu.replicas": "7", "nvidia.com/gpu.product": "GFD-says"}
	for _, c := range []struct {
		pool, what string
		labels     map[string]string
		run        func(*node)
	}{
		{"nodriver", "driver missing", nil, driverMissing},
		{"unloaded", "driver unloaded and loaded again", nil, driverUnloaded},
		{"hang", "a device whose calls hang", nil, deviceHangs},
		{"xid", "an error of the driver", nil, driverError},
		{"kubelet", "kubelet gone and back", nil, kubeletGone},
		{"starting", "kubelet starts and knows no pods yet", nil, kubeletStarts},
		{"apiserver", "API server gone and back", nil, apiServerGone},
		{"mps", "MPS daemon killed", nil, mpsDaemonKilled},
		{"mig", "MIG busy", nil, migBusy},
		{"topology", "kubelet with Topology Manager", nil, topologyManager},
		{"disk", "disk full", nil, diskFull},
		{"observer", "observer beside another device plugin", gfd, observes},
		{"other", "told to serve beside another device plugin", gfd, yields},
		{"cost", "cost at 8 GPUs", nil, cost},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			c.run(w.newNode(t, c.pool, c.labels))
		})
	}
}

// driverMissing: on this machine there is no driver. The agent says so and stays; when it
// is to serve, it ends, unless failOnInitError is off.
func driverMissing(n *node) {
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		n.t.Skip("skipped: this machine has a driver")
	}
	n.start(n.args("nvml")...)
	n.condition(v1alpha1.DriverReady, "False", "NoDriver")
	n.logs("GPU driver cannot be used; will retry")
	n.event("Node", n.name, "GPUDriverNotReady")
	n.shows(0, "tangram_agent_driver_answering")
	n.counts("tangram_agent_backend_calls_total", `call="inventory"`, `result="no_driver"`)
	code, out := n.ends(n.args("nvml", "--serve", "--listen=")...)
	if code != 1 || !strings.Contains(out, "failOnInitError") || !strings.Contains(out, "no GPU driver") {
		n.t.Errorf("with --serve: exit code %d, %s", code, out)
	}
	n.start(n.args("nvml", "--serve", "--fail-on-init-error=false")...)
	n.shows(1, "tangram_agent_serving")
	n.shows(0, "tangram_agent_driver_answering")
}

// ends runs the agent to its end.
func (n *node) ends(args ...string) (code int, out string) {
	n.t.Helper()
	return runToEnd(n.t, n.Bin, args...)
}

func runToEnd(t *testing.T, bin string, args ...string) (code int, out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "gpu-agent"), args...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	stop := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), text.String()
}

// driverUnloaded: devices are failed while the driver is away, and healthy with it.
func driverUnloaded(n *node) {
	n.start(n.args("simulated")...)
	n.condition(v1alpha1.DriverReady, "True", "")
	n.fault("device=all,no-driver")
	n.event("Node", n.name, "GPUDriverNotReady") // the next look at the inventory is within a minute
	n.condition(v1alpha1.DriverReady, "False", "NoDriver")
	n.health(0, v1alpha1.Failed)
	n.logs("GPU driver cannot be used; will retry")
	n.shows(0, "tangram_agent_driver_answering")
	n.fault("")
	n.condition(v1alpha1.DriverReady, "True", "")
	n.event("Node", n.name, "GPUDriverReady")
	n.health(0, v1alpha1.Healthy)
	n.shows(1, "tangram_agent_driver_answering")
}

// deviceHangs: the device is sold no more, the others are.
func deviceHangs(n *node) {
	n.start(n.args("simulated", "--serve")...)
	n.offers(gpu, 8)
	n.condition(v1alpha1.DriverReady, "True", "")
	n.fault("device=2,hang")
	n.offers(gpu, 7)
	n.gpuNode("has one sick device", func(g *v1alpha1.GPUNode) string {
		for _, d := range g.Status.Devices {
			if (d.Health == v1alpha1.Healthy) == (d.Index == 2) {
				return fmt.Sprintf("device %d is %s", d.Index, d.Health)
			}
		}
		return ""
	})
	n.logs("Health of a device changed")
	n.counts("tangram_agent_device_health", `gpu="2"`, `state="Degraded"`)
	n.shows(1, "tangram_agent_driver_answering")
	n.pod("hang-other", gpu, 1)
	if _, err := n.kubelet.give("hang-other", gpu, n.uuid(3)); err != nil {
		n.t.Errorf("a container on another device while one hangs: %v", err)
	}
	n.fault("")
	n.offers(gpu, 8)
	n.health(2, v1alpha1.Healthy)
}

// driverError: a change of health is an event on the node, a condition, a metric and a log
// line.
func driverError(n *node) {
	n.start(n.args("simulated", "--quiet-percent=100")...)
	n.condition(v1alpha1.DriverReady, "True", "")
	n.fault("device=3,xid=79")
	if text := n.event("Node", n.name, "GPUFailed"); !strings.Contains(text, "GPU 3") || !strings.Contains(text, "XID 79") {
		n.t.Errorf("event %q", text)
	}
	n.logs("XID 79")
	n.counts("tangram_agent_health_changes_total", `state="Failed"`)
	n.counts("DCGM_EXP_XID_ERRORS_TOTAL", `gpu="3"`, `xid="79"`)
	n.condition(v1alpha1.DevicesHealthy, "False", "")
}

// kubeletGone: the agent serves again when kubelet is back.
func kubeletGone(n *node) {
	n.start(n.args("simulated", "--serve")...)
	n.offers(gpu, 8)
	n.shows(1, "tangram_agent_kubelet_answering")
	n.kubelet.stop()
	n.shows(0, "tangram_agent_kubelet_answering")
	n.logs("Could not compare records with kubelet's devices; will retry")
	if err := n.kubelet.start(); err != nil {
		n.t.Fatal(err)
	}
	n.offers(gpu, 8)
	n.shows(1, "tangram_agent_kubelet_answering")
	n.pod("after", gpu, 1)
	if _, err := n.kubelet.give("after", gpu, n.uuid(0)); err != nil {
		n.t.Errorf("a container after kubelet came back: %v", err)
	}
}

// kubeletStarts: a kubelet that has just started, or whose container runtime is away, lists
// no pods. What their containers use stays, for an agent that starts then, too.
func kubeletStarts(n *node) {
	control := n.mpsControl()
	args := n.args("simulated", "--serve", "--mps-control="+control,
		"--config-file="+n.file("config.yaml", "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n"))
	n.start(args...)
	ids := n.offers(gpu, 16)
	slices.Sort(ids)
	uuid, _, _ := strings.Cut(ids[0], "::")
	n.pod("heard", gpu, 1, record.Device{Index: n.index(uuid), UUID: uuid, Turn: true})
	answer, err := n.kubelet.give("heard", gpu, ids[0])
	if err != nil {
		n.t.Fatal(err)
	}
	n.running("heard")
	pid := filepath.Join(n.dir, "state", "mps", uuid, "pipe", mpsControl+".pid")
	daemon := n.pidIn(pid)
	n.t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGKILL) })
	stays := func(what string) {
		n.t.Helper()
		n.cdi(answer.CdiDevices[0].Name)
		if err := syscall.Kill(daemon, 0); err != nil || n.pidIn(pid) != daemon {
			n.t.Errorf("%s: the MPS daemon of a container that runs has ended: %v", what, err)
		}
	}
	held := n.kubelet.forget("heard")
	n.logs("Ended allocations are not collected: kubelet does not list all pods yet")
	stays("the agent runs")
	if err := n.agent.Stop(); err != nil {
		n.t.Fatal(err)
	}
	n.start(args...)
	n.logs("Ended allocations are not collected: kubelet does not list all pods yet")
	stays("the agent starts")
	n.pod("next", gpu, 1, record.Device{Index: n.index(uuid), UUID: uuid, Turn: true})
	n.offers(gpu, 16)
	if _, err := n.kubelet.give("next", gpu, ids[1]); err == nil || !strings.Contains(err.Error(), "not known yet") {
		n.t.Errorf("a container is started before it is known what others use: %v", err)
	}
	n.kubelet.hear("heard", held)
	if _, err := n.kubelet.give("next", gpu, ids[1]); err != nil {
		n.t.Errorf("kubelet has heard of all pods: %v", err)
	}
	stays("kubelet has heard of the pod")
}

// apiServerGone: containers of known pods start meanwhile, and what kubelet decided
// otherwise is in the record once the API server is back.
func apiServerGone(n *node) {
	g := n.throughGate()
	n.start(n.args("simulated", "--serve", "--quiet-percent=100")...)
	n.offers(gpu, 8)
	n.shows(1, "tangram_agent_api_server_answering")
	n.pod("known", gpu, 1, record.Device{Index: 1, UUID: n.uuid(1)})
	if _, err := n.kubelet.give("known", gpu, n.uuid(1)); err != nil {
		n.t.Fatal(err)
	}
	n.pod("moved", gpu, 1, record.Device{Index: 4, UUID: n.uuid(4)})
	time.Sleep(time.Second) // for the watch; nothing shows when the agent has seen the pod
	g.down()
	away := time.Now()
	n.shows(0, "tangram_agent_api_server_answering")
	n.counts("tangram_agent_api_server_failures_total")
	for range 2 { // a container that starts, and starts again
		if _, err := n.kubelet.give("known", gpu, n.uuid(1)); err != nil {
			n.t.Errorf("a container of a known pod: %v", err)
		}
	}
	if _, err := n.kubelet.give("moved", gpu, n.uuid(6)); err != nil {
		n.t.Errorf("a container that kubelet gave another device: %v", err)
	}
	n.logs("connection refused")
	time.Sleep(time.Until(away.Add(15 * time.Second))) // an outage is what is tested
	if got := n.offers(gpu, 8); len(got) != 8 {
		n.t.Error("devices are no longer offered")
	}
	if err := g.up(); err != nil {
		n.t.Fatal(err)
	}
	n.shows(1, "tangram_agent_api_server_answering")
	n.await("record", func() string {
		r := n.record("moved")
		if len(r.Containers) == 1 && len(r.Containers[0].Devices) == 1 && r.Containers[0].Devices[0].UUID == n.uuid(6) {
			return ""
		}
		return fmt.Sprintf("is still %+v", r)
	})
	n.counts("tangram_agent_records_corrected_total")
	n.fault("device=5,xid=79") // what is new is written and read again
	n.health(5, v1alpha1.Failed)
}

// migBusy: a device that a process uses is not cut; it is when it is free.
func migBusy(n *node) {
	n.start(n.args("simulated", "--serve", "--mig-strategy=mixed")...)
	n.offers(gpu, 8)
	const slice = "nvidia.com/mig-1g.10gb"
	n.pod("hog", gpu, 1, record.Device{Index: 0, UUID: n.uuid(0)}) // kubelet knows nothing of it
	n.phase("hog", v1.PodRunning)
	n.counts("DCGM_FI_DEV_GPU_UTIL", `gpu="0"`) // it runs
	id := n.uuid(0) + "::mig-1g.10gb@2"
	n.await("slices", func() string {
		if slices.Contains(n.kubelet.healthy(slice), id) {
			return ""
		}
		return fmt.Sprintf("%s is not offered: %v", id, n.kubelet.healthy(slice))
	})
	n.pod("slice", slice, 1, record.Device{Index: 0, UUID: n.uuid(0), MIG: "1g.10gb", Start: 2})
	_, err := n.kubelet.give("slice", slice, id)
	if err == nil || !strings.Contains(err.Error(), "in use") {
		n.t.Errorf("on a device in use: %v", err)
	}
	n.counts("tangram_agent_mig_actions_total", `action="create"`, `result="busy"`)
	n.logs("Refused devices to a container")
	n.phase("hog", v1.PodSucceeded)
	n.await("the slice", func() string { // kubelet tries again and again
		if _, err := n.kubelet.give("slice", slice, id); err != nil {
			return err.Error()
		}
		return ""
	})
	n.counts("tangram_agent_mig_actions_total", `action="create"`, `result="ok"`)
	n.gpuNode("has the instance", func(g *v1alpha1.GPUNode) string {
		for _, d := range g.Spec.Devices {
			if d.Index == 0 && d.MIG != nil && len(d.MIG.Instances) == 1 {
				return ""
			}
		}
		return "has it not"
	})
}

// topologyManager: while a slice of a GPU is held, the GPU and slices that overlap it are
// offered to kubelet as unhealthy, and again as healthy when the slice is free. Health itself
// does not change.
func topologyManager(n *node) {
	n.start(n.args("simulated", "--serve", "--mig-strategy=mixed", "--topology-manager")...)
	n.offers(gpu, 8)
	const small, large = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
	smalls, larges := len(n.offers(small, 8*7)), len(n.offers(large, 8*2))
	id := n.uuid(0) + "::mig-1g.10gb@2"
	n.pod("aligned", small, 1, record.Device{Index: 0, UUID: n.uuid(0), MIG: "1g.10gb", Start: 2})
	if _, err := n.kubelet.give("aligned", small, id); err != nil {
		n.t.Fatal(err)
	}
	if ids := n.offers(gpu, 7); slices.Contains(ids, n.uuid(0)) {
		n.t.Errorf("%s is offered whole, and a slice of it is held: %v", n.uuid(0), ids)
	}
	n.offers(small, smalls) // kubelet knows by itself that the held one is taken
	if ids := n.offers(large, larges-1); slices.Contains(ids, n.uuid(0)+"::mig-3g.40gb@0") {
		n.t.Errorf("a slice that overlaps the held one is offered: %v", ids)
	}
	n.health(0, v1alpha1.Healthy)
	n.kubelet.forget("aligned")
	n.phase("aligned", v1.PodSucceeded)
	n.offers(gpu, 8)
	n.offers(large, larges)
}

// diskFull: no container starts without its CDI file, the health of devices is still
// published; with room again all goes on.
func diskFull(n *node) {
	for _, dir := range []string{"state", "cdi"} {
		path := filepath.Join(n.dir, dir)
		if err := os.Mkdir(path, 0o755); err != nil {
			n.t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "size=64k"); err != nil {
			n.t.Skipf("SKIPPED: this machine does not let us mount: %v", err)
		}
		n.t.Cleanup(func() {
			if err := syscall.Unmount(path, 0); err != nil {
				n.t.Error(err)
			}
		})
	}
	n.start(n.args("simulated", "--serve", "--quiet-percent=100")...)
	n.t.Cleanup(func() { _ = n.agent.Stop() }) // before the folders go
	n.offers(gpu, 8)
	var fillers []string
	for _, dir := range []string{"state", "cdi"} {
		path := filepath.Join(n.dir, dir, "filler")
		if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			n.t.Fatalf("the folder is not full: %v", err)
		}
		fillers = append(fillers, path)
	}
	n.pod("full", gpu, 1, record.Device{Index: 0, UUID: n.uuid(0)})
	if _, err := n.kubelet.give("full", gpu, n.uuid(0)); err == nil || !strings.Contains(err.Error(), "no space left") {
		n.t.Errorf("with a full disk: %v", err)
	}
	n.counts("tangram_agent_failed_file_writes_total", `file="allocation"`)
	n.fault("device=5,xid=79")
	n.health(5, v1alpha1.Failed)
	n.offers(gpu, 7)
	n.counts("tangram_agent_failed_file_writes_total", `file="health"`)
	n.logs("Could not save the health of devices")
	n.logs("no space left on device")
	for _, f := range fillers {
		if err := os.Remove(f); err != nil {
			n.t.Fatal(err)
		}
	}
	n.await("the container", func() string {
		if _, err := n.kubelet.give("full", gpu, n.uuid(0)); err != nil {
			return err.Error()
		}
		return ""
	})
	n.fault("device=5,xid=79; device=6,xid=79")
	n.health(6, v1alpha1.Failed)
	n.await("the file of health", func() string {
		text, err := os.ReadFile(filepath.Join(n.dir, "state", "health.json"))
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(string(text), n.uuid(6)) {
			return "lacks the device"
		}
		return ""
	})
}

// others is what another device plugin offers: NVIDIA's IDs look like ours.
func (n *node) others() {
	n.kubelet.mu.Lock()
	defer n.kubelet.mu.Unlock()
	for i := range 8 {
		n.kubelet.foreign = append(n.kubelet.foreign, &podresources.ContainerDevices{ResourceName: gpu, DeviceIds: []string{fmt.Sprintf("GPU-%08d", i)}})
	}
}

// observes: the agent serves nothing and leaves the labels of others as they are.
func observes(n *node) {
	n.others()
	n.start(n.args("simulated")...)
	n.staysOut()
}

// yields: an agent that was told to serve sees that another plugin does, says so and observes.
func yields(n *node) {
	n.others()
	n.start(n.args("simulated", "--serve", "--shares-per-gpu=4", "--isolation=none")...)
	n.logs("The agent does not serve, it only observes: another device plugin offers 8 healthy devices of nvidia.com/gpu")
	n.staysOut()
	if text := n.event("Node", n.name, "GPUAgentObserves"); !strings.Contains(text, gpu) {
		n.t.Errorf("event %q", text)
	}
}

func (n *node) staysOut() {
	n.t.Helper()
	g := n.gpuNode("is there", func(g *v1alpha1.GPUNode) string {
		if len(g.Spec.Devices) != 8 || g.Spec.Agent == nil {
			return "has no inventory"
		}
		return ""
	})
	if g.Spec.Agent.Mode != v1alpha1.Observing || g.Spec.Sharing != nil {
		n.t.Errorf("GPUNode: mode %s, sharing %+v", g.Spec.Agent.Mode, g.Spec.Sharing)
	}
	n.shows(0, "tangram_agent_serving")
	n.await("labels", func() string {
		node, err := n.Client.CoreV1().Nodes().Get(n.t.Context(), n.name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if node.Labels["accelerator"] == "" {
			return "our own are not there yet"
		}
		for key, want := range map[string]string{"nvidia.com/gpu.count": "99", "nvidia.com/gpu.replicas": "7", "nvidia.com/gpu.product": "GFD-says"} {
			if node.Labels[key] != want {
				n.t.Errorf("label %s is %q, want %q", key, node.Labels[key], want)
			}
		}
		return ""
	})
	if c := n.kubelet.registered(); c != 0 {
		n.t.Errorf("%d registrations with kubelet", c)
	}
	sockets, err := filepath.Glob(filepath.Join(n.dir, "kubelet", "device-plugins", "tangram-*"))
	if err != nil || len(sockets) != 0 {
		n.t.Errorf("sockets %v, %v", sockets, err)
	}
}

// uuid is that of a device, by index.
func (n *node) uuid(index int) (out string) {
	n.t.Helper()
	n.gpuNode("has devices", func(g *v1alpha1.GPUNode) string {
		for _, d := range g.Spec.Devices {
			if int(d.Index) == index {
				out = d.UUID
				return ""
			}
		}
		return "lacks the device"
	})
	return out
}

// index is that of a device, by UUID.
func (n *node) index(uuid string) int {
	for i := range 8 {
		if n.uuid(i) == uuid {
			return i
		}
	}
	n.t.Fatalf("no device %s", uuid)
	return 0
}

// cdi is the text of the specification of a CDI device.
func (n *node) cdi(name string) string {
	n.t.Helper()
	_, id, _ := strings.Cut(name, "=")
	files, err := filepath.Glob(filepath.Join(n.dir, "cdi", "*"+id+"*"))
	if err != nil || len(files) != 1 {
		n.t.Fatalf("CDI files of %s: %v, %v", name, files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}
