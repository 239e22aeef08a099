package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
)

// TestRealGPU runs claims on one GPU, whole, cut and shared: gpu-agent with --dra, a real
// kubelet and containerd, Tangram's scheduler. It prints what containers see. hack/gpu-dra.sh
// runs it on a real GPU that is not in use (TANGRAM_GPU=nvml); otherwise the GPU is simulated.
func TestRealGPU(t *testing.T) {
	backend := cmp.Or(os.Getenv("TANGRAM_GPU"), "simulated")
	m := require(t)
	if err := local.RequirePrograms(m.bin, "gpu-agent", "gpu-scheduler"); err != nil {
		t.Fatal(err)
	}
	before := gpuState(t)
	t.Logf("The GPU before:\n%s", before)
	cluster := startCluster(t)
	if err := cluster.ApplyManifests(t.Context(), config.AgentDRA()); err != nil {
		t.Fatal(err)
	}
	w := newAgentWorldIn(t, cluster)
	w.startScheduler()
	flags := []string{"--dra", "--quiet-percent=0"}
	agent := w.startRealAgent(backend, flags...)
	t.Cleanup(func() {
		eventually(t, time.Minute, "the GPU is as it was", func(context.Context) error {
			if after := gpuState(t); after != before {
				return fmt.Errorf("before:\n%s\nnow:\n%s", before, after)
			}
			return nil
		})
		t.Logf("The GPU after:\n%s", gpuState(t))
	})
	var pool []resourceapi.Device
	t.Cleanup(func() {
		if pool == nil {
			w.show()
		}
	})
	pool = w.awaitPool(func(d resourceapi.Device) bool { return strings.HasPrefix(d.Name, "gpu-") })
	for _, d := range pool {
		t.Logf("published: %s %v", d.Name, capacity(d))
	}

	// part runs what does not depend on the parts before it, whether or not they failed.
	part := func(name string, run func(t *testing.T, w *agentWorld)) {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			t.Cleanup(w.endAll)
			t.Cleanup(func() {
				if t.Failed() {
					w.show() // before it is all given back
				}
			})
			run(t, w)
		})
	}
	part("whole", func(_ *testing.T, w *agentWorld) {
		w.claim("whole", gpuClass, 1, "", "")
		w.Create(w.realPod("whole"))
		w.print("whole")
	})
	part("MIG on demand", func(t *testing.T, w *agentWorld) {
		profile, least := "", resource.Quantity{}
		for _, d := range pool {
			memory := d.Capacity["memory"].Value
			if p := d.Attributes["profile"].StringValue; p != nil && !strings.Contains(*p, "+") && (profile == "" || memory.Cmp(least) < 0) {
				profile, least = *p, memory
			}
		}
		if profile == "" {
			t.Skip("no MIG profile is published")
		}
		selector := fmt.Sprintf(`device.attributes["gpu.tangram.dev"].profile == %q`, profile)
		for _, name := range []string{"mig-a", "mig-b"} {
			w.claim(name, migClass, 1, selector, "")
			w.Create(w.realPod(name))
		}
		w.print("mig-a")
		w.print("mig-b")
		t.Logf("The GPU with %s twice:\n%s", profile, gpuState(t))
	})
	w.stop(agent)
	part("shares", func(t *testing.T, w *agentWorld) {
		w.startRealAgent(backend, append(flags, "--mig-on-demand=false", "--shares-per-gpu=4", "--isolation="+isolation(backend))...)
		shared := w.awaitPool(func(d resourceapi.Device) bool {
			return d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
		})
		t.Logf("published: %s %v, several at once", shared[0].Name, capacity(shared[0]))
		for _, name := range []string{"share-a", "share-b"} {
			w.claim(name, gpuClass, 1, "", "16Gi")
			w.Create(w.realPod(name))
		}
		w.print("share-a")
		w.print("share-b")
	})
}

// isolation is what enforces shares: simulated devices have nothing to enforce.
func isolation(backend string) string {
	if backend == "nvml" {
		return "mps"
	}
	return "none"
}

// startRealAgent starts an agent for the machine's GPUs, or for simulated ones.
func (w *agentWorld) startRealAgent(backend string, flags ...string) *local.Process {
	w.t.Helper()
	if backend != "nvml" {
		return w.startAgent(agentOptions{fleet: `pools: [{name: real, count: 1, gpu: {model: H200, count: 1, mig: true}}]`,
			flags: append(flags, "--simulated-memory="+w.Dir("memory"))})
	}
	w.runs++
	return w.run(w.t, w.agentProgram(fmt.Sprintf("gpu-agent-%d", w.runs), append([]string{"--backend=nvml"}, flags...)...))
}

// gpuState is what must be as before when all is over.
func gpuState(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("nvidia-smi"); err != nil {
		return "no nvidia-smi"
	}
	var out strings.Builder
	for _, args := range [][]string{{"-L"}, {"--query-gpu=uuid,mig.mode.current,mig.mode.pending,compute_mode,persistence_mode", "--format=csv,noheader"}} {
		text, err := exec.Command("nvidia-smi", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("nvidia-smi %v: %v: %s", args, err, text)
		}
		out.Write(text)
	}
	return strings.TrimSpace(out.String())
}

// awaitPool waits until the node publishes a device of a kind, and returns all of that kind.
func (w *agentWorld) awaitPool(is func(resourceapi.Device) bool) (out []resourceapi.Device) {
	w.t.Helper()
	eventually(w.t, time.Minute, "the node's devices are published", func(ctx context.Context) error {
		out = nil
		list, err := w.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, s := range list.Items {
			for _, d := range s.Spec.Devices {
				if is(d) {
					out = append(out, d)
				}
			}
		}
		if len(out) == 0 {
			return fmt.Errorf("none in %d slices", len(list.Items))
		}
		return nil
	})
	return out
}

func capacity(d resourceapi.Device) string {
	var out []string
	for _, name := range []resourceapi.QualifiedName{"memory", "multiprocessors", "cores"} {
		if c, ok := d.Capacity[name]; ok {
			out = append(out, fmt.Sprintf("%s %s", name, c.Value.String()))
		}
	}
	return strings.Join(out, ", ")
}

// claim makes a ResourceClaim; memory: what is asked for of a device that several may have.
func (w *agentWorld) claim(name, class string, count int64, selector, memory string) {
	w.t.Helper()
	exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
	if selector != "" {
		exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}}
	}
	if memory != "" {
		exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}}
	}
	_, err := w.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Create(context.Background(), &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpus", Exactly: exactly}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// realPod is a pod for Tangram's scheduler that uses the claim of its name and prints what it
// sees with the machine's own programs: of the machine it has the files, and no devices.
func (w *agentWorld) realPod(name string) *v1.Pod {
	look := `echo "--- nvidia-smi -L"; nvidia-smi -L 2>&1
echo "--- /dev"; ls -l /dev/nvidia* /dev/nvidia-caps 2>&1
echo "--- env"; env | grep -E 'NVIDIA|CUDA|MPS' | sort
if [ -x /tangram/load ]; then echo "--- CUDA"; /tangram/load -seconds 1 -allocate-mib 1024 2>&1; fi
echo "--- done"; sleep 600 & wait`
	return w.Pod(name, nil, func(p *v1.Pod) {
		p.Spec.NodeName, p.Spec.SchedulerName, p.Spec.HostNetwork = "", names.SchedulerName, true
		c := &p.Spec.Containers[0]
		c.Command, c.Args = []string{"/usr/bin/bash", "-c", "trap 'exit 0' TERM\n" + look}, nil
		c.Env = append(c.Env, v1.EnvVar{Name: "PATH", Value: "/usr/local/nvidia/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"})
		c.Resources.Claims = []v1.ResourceClaim{{Name: "gpus"}}
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimName: &name}}
		mount := func(host, at string) {
			if _, err := os.Stat(host); err != nil {
				return
			}
			volume := "v" + strconv.Itoa(len(p.Spec.Volumes))
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: volume, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: host}}})
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: volume, MountPath: at, ReadOnly: true})
		}
		for _, path := range []string{"/usr", "/lib", "/lib64", "/etc/ld.so.cache"} {
			mount(path, path)
		}
		mount(filepath.Join(w.bin, "tools"), "/tangram")
	})
}

// print waits until a pod has looked, and prints what it saw and what its claim has.
func (w *agentWorld) print(name string) {
	w.t.Helper()
	pod := w.AwaitRunning(name)
	var text string
	eventually(w.t, podLimit, "pod "+name+" has looked", func(context.Context) (err error) {
		if text, err = w.Output(pod, "main"); err == nil && !strings.Contains(text, "--- done") {
			err = fmt.Errorf("it has printed %q", text)
		}
		return err
	})
	c, err := w.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range c.Status.Allocation.Devices.Results {
		w.t.Logf("claim %s: device %s %v", name, r.Device, r.ConsumedCapacity)
	}
	w.t.Logf("pod %s sees:\n%s", name, text)
	if !strings.Contains(text, " /dev/nvidia0\n") || !strings.Contains(text, "NVIDIA_VISIBLE_DEVICES=void") {
		w.t.Errorf("pod %s does not see its GPU", name)
	}
}

// endAll deletes all pods, waits until the agent has given all back, and deletes all claims.
func (w *agentWorld) endAll() {
	w.t.Helper()
	defer w.deallocate() // also when waiting fails, so that the next part can begin
	pods, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range pods.Items {
		w.Delete(p.Name)
	}
	w.awaitUnprepared()
}

// deallocate deletes all claims. There is no kube-controller-manager, which does it otherwise:
// a claim that stays allocated holds its GPU, also while it is being deleted.
func (w *agentWorld) deallocate() {
	w.t.Helper()
	ctx, claims := context.Background(), w.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault)
	list, err := claims.List(ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		c := &list.Items[i]
		c.Status = resourceapi.ResourceClaimStatus{}
		if c, err = claims.UpdateStatus(ctx, c, metav1.UpdateOptions{}); err != nil {
			w.t.Fatal(err)
		}
		c.Finalizers = nil
		if _, err = claims.Update(ctx, c, metav1.UpdateOptions{}); err != nil {
			w.t.Fatal(err)
		}
		if err := claims.Delete(ctx, c.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			w.t.Fatal(err)
		}
	}
}

// show prints what tells why a claim gets no device or a pod does not run: which pod holds what, what
// the node publishes, and the ends of the logs.
func (w *agentWorld) show() {
	w.t.Helper()
	ctx := context.Background()
	var out strings.Builder
	if list, err := w.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{}); err != nil {
		fmt.Fprintln(&out, err)
	} else {
		for _, c := range list.Items {
			fmt.Fprintf(&out, "claim %s: deleted %v, status %s\n", c.Name, c.DeletionTimestamp, compact(c.Status))
		}
	}
	if list, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{}); err != nil {
		fmt.Fprintln(&out, err)
	} else {
		for i := range list.Items {
			p := &list.Items[i]
			fmt.Fprintf(&out, "pod %s: deleted %v, %s%s\n", p.Name, p.DeletionTimestamp, describe(p), w.events(ctx, p.Name))
		}
	}
	if list, err := w.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{}); err != nil {
		fmt.Fprintln(&out, err)
	} else {
		for _, s := range list.Items {
			fmt.Fprintf(&out, "slice %s: generation %d, %d slices, %d counter sets\n", s.Name, s.Spec.Pool.Generation, s.Spec.Pool.ResourceSliceCount, len(s.Spec.SharedCounters))
			for _, d := range s.Spec.Devices {
				fmt.Fprintf(&out, "  %s %s %s\n", d.Name, capacity(d), compact(d.Taints))
			}
		}
	}
	if n, err := w.gpuNode(); err != nil {
		fmt.Fprintln(&out, err)
	} else {
		fmt.Fprintf(&out, "GPUNode: spec %s\nstatus %s\n", compact(n.Spec), compact(n.Status))
	}
	fmt.Fprintf(&out, "the agent's claims: %s\n", tail(filepath.Join(w.Dir("agent"), "claims.json"), 60))
	for _, p := range w.started {
		fmt.Fprintf(&out, "%s:\n%s\n", p.Name(), tail(p.Log(), 30))
	}
	w.t.Logf("%s\nThe GPU now:\n%s", out.String(), gpuState(w.t))
}

func compact(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
