package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/await"
	"github.com/tangram-dev/tangram/test/cluster"
)

// localCluster drives bin/tangram as a person does: by its commands and what they
// print.
type localCluster struct {
	cluster.Commands
	t   *testing.T
	dir string
}

func newLocalCluster(t *testing.T) *localCluster {
	t.Helper()
	bin := cluster.Bin(t, "tangram", "gpu-scheduler", "gpu-controller", "gpu-agent", "kube-controller-manager", "kwok", "kubectl")
	c := &localCluster{t: t, dir: filepath.Join(t.TempDir(), "state")}
	c.Commands = cluster.Commands{Bin: bin, Kubeconfig: filepath.Join(c.dir, "kubeconfig")}
	t.Cleanup(func() {
		c.tangram("down", "--dir", c.dir) // a no-op unless the test failed half way
		if t.Failed() {
			t.Logf("tangram.log:\n%s", c.log())
		}
	})
	return c
}

// tangram runs a command to its end and returns what it printed.
func (c *localCluster) tangram(args ...string) (string, error) {
	c.t.Helper()
	r := c.Run("tangram", args...)
	if r.Code != 0 {
		return r.Out + r.Err, errors.New(r.String())
	}
	return r.Out + r.Err, nil
}

// kubectl is what kubectl printed. Its warnings are left out.
func (c *localCluster) kubectl(args ...string) (string, error) {
	c.t.Helper()
	r := c.Kubectl("", args...)
	if r.Code != 0 {
		return r.Out, errors.New(r.String())
	}
	return r.Out, nil
}

// mustPrint runs kubectl until it prints what is wanted: other processes act in
// their own time.
func (c *localCluster) mustPrint(want string, args ...string) {
	c.t.Helper()
	c.until(fmt.Sprintf("kubectl %s prints %s", strings.Join(args, " "), want), func() (bool, string) {
		r := c.Kubectl("", args...)
		return r.Code == 0 && r.Out == want, r.String()
	})
}

// until waits for what other processes do in their own time.
func (c *localCluster) until(what string, look func() (ok bool, seen string)) {
	c.t.Helper()
	await.Eventually(c.t, what, cluster.Limit, look)
}

// log is what the process that keeps the cluster alive has logged.
func (c *localCluster) log() string {
	text, _ := os.ReadFile(filepath.Join(c.dir, "logs", "tangram.log"))
	return string(text)
}

// owner is the process that keeps the cluster alive.
func (c *localCluster) owner() int {
	c.t.Helper()
	owner, running, err := local.Running(c.dir)
	if err != nil || !running {
		c.t.Fatalf("nothing runs in %s: %v", c.dir, err)
	}
	return owner.PID
}

// children returns the live child processes of pid by the name of their program.
func (c *localCluster) children(pid int) map[string]int {
	c.t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		c.t.Fatal(err)
	}
	found := map[string]int{}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		// pid (name) state ppid ...; the name may hold spaces and is cut short.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[1] != strconv.Itoa(pid) || fields[0] == "Z" {
			continue
		}
		exe, err := os.Readlink(filepath.Join(filepath.Dir(path), "exe"))
		if err != nil {
			continue
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			c.t.Fatal(err)
		}
		found[filepath.Base(exe)] = child
	}
	return found
}

// mustBeGone waits until none of the processes is left.
func (c *localCluster) mustBeGone(pids ...int) {
	c.t.Helper()
	await.Complete(c.t, "processes end", cluster.Limit, func() string {
		var left []string
		for _, pid := range pids {
			// A zombie has no command line; which process reaps it depends on the machine.
			if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && len(line) > 0 {
				left = append(left, strings.ReplaceAll(string(line[:min(len(line), 80)]), "\x00", " "))
			}
		}
		return strings.Join(left, "; ")
	})
}

func pidsOf(owner int, children map[string]int) []int {
	pids := []int{owner}
	for _, pid := range children {
		pids = append(pids, pid)
	}
	return pids
}

// TestLocalCluster is a newcomer's first hour: up, look, try, break, down, again.
func TestLocalCluster(t *testing.T) {
	t.Parallel()
	c := newLocalCluster(t)
	begin := time.Now()
	out, err := c.tangram("up", "--detach", "--demo", "--dir", c.dir)
	if err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	t.Logf("up with the demo took %v (goal: under 20 s)\n%s", time.Since(begin).Round(100*time.Millisecond), out)
	for _, want := range []string{"etcd ready", "kube-apiserver ready", "fleet ready", "ml-training-job-", "too-large waits: ", "export KUBECONFIG=" + c.dir} {
		if !strings.Contains(out, want) {
			t.Errorf("up does not print %q", want)
		}
	}
	children := c.children(c.owner())
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kwok", "gpu-agent", "gpu-scheduler", "gpu-controller"} {
		if children[name] == 0 {
			t.Errorf("%s does not run; what runs is %v", name, children)
		}
	}

	c.checkFleet()
	c.checkTelemetry()
	c.checkFault()
	c.checkIdentities()
	c.checkPods()
	c.checkVolcanoJob()
	c.checkNoScheduler()
	out, err = c.tangram("up", "--dir", c.dir)
	if err == nil || !strings.Contains(out, fmt.Sprintf("already running (pid %d, since ", c.owner())) ||
		!strings.Contains(out, "stop it with tangram down --dir "+c.dir) {
		t.Errorf("the second up: %v\n%s", err, out)
	}
	for _, name := range []string{"kube-apiserver", "etcd", "gpu-scheduler", "gpu-controller", "gpu-agent", "kube-controller-manager", "kwok"} {
		c.checkRestart(name)
	}
	c.checkShortPod()

	owner := c.owner()
	pids := pidsOf(owner, c.children(owner))
	if out, err := c.tangram("down", "--dir", c.dir); err != nil || !strings.HasPrefix(out, "stopped (") {
		t.Fatalf("down: %v\n%s", err, out)
	}
	c.mustBeGone(pids...)
	if out, err := c.tangram("down", "--dir", c.dir); err != nil || !strings.HasPrefix(out, "nothing runs in ") {
		t.Errorf("the second down: %v\n%s", err, out)
	}
	c.checkForeground()
	c.checkKilledOutright()
}

func (c *localCluster) checkFleet() {
	c.t.Helper()
	nodes, gpus := fleet.Default().Size()
	c.mustPrint(strconv.Itoa(nodes), "get", "nodes", "-o", `go-template={{len .items}}`)
	c.mustPrint(strings.TrimSpace(strings.Repeat("True ", nodes)), "get", "nodes",
		"-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
	out, err := c.kubectl("get", "gpunodes", "-o", "jsonpath={.items[*].spec.devices[*].uuid}")
	if err != nil {
		c.t.Fatal(err)
	}
	uuids := strings.Fields(out)
	slices.Sort(uuids)
	if got := len(slices.Compact(uuids)); got != gpus {
		c.t.Errorf("%d different devices, want %d", got, gpus)
	}
	c.mustPrint("nvidia-tesla-v100 8 256Gi", "get", "node", "dgx1-0", "-o",
		`jsonpath={.metadata.labels.accelerator} {.status.allocatable.nvidia\.com/gpu} {.status.allocatable.nvidia\.com/gpu-memory}`)
}

// checkTelemetry: the devices of running pods are busy, warm and in use, the others are
// not, and the agent says when it measured.
func (c *localCluster) checkTelemetry() {
	c.t.Helper()
	devices, err := c.kubectl("get", "pods", "-n", "ml-team", "-l", "app=ml-training", "-o", `jsonpath={.items[0].spec.nodeName}`)
	if err != nil {
		c.t.Fatal(err)
	}
	const values = `jsonpath={range .status.devices[*]}{.utilizationPercent} {.memoryUsedMiB} {.temperatureCelsius} {.powerWatts}{"\n"}{end}`
	c.until("the devices of "+devices+" follow the pod", func() (bool, string) {
		out, err := c.kubectl("get", "gpunode", devices, "-o", values)
		if err != nil {
			return false, err.Error()
		}
		busy, idle := 0, 0
		for line := range strings.Lines(out) {
			var utilization, memory, temperature, power int
			if n, err := fmt.Sscan(line, &utilization, &memory, &temperature, &power); n != 4 || err != nil {
				return false, out
			}
			switch {
			case utilization > 40 && memory > 1000 && temperature > 20 && power > 20:
				busy++
			case utilization == 0 && memory == 0:
				idle++
			}
		}
		return busy > 0 && idle > 0, out
	})
}

// checkFault: a device that is broken by command is no longer healthy, and says why.
func (c *localCluster) checkFault() {
	c.t.Helper()
	if out, err := c.tangram("fault", "t4-3", "--device", "1", "--gone", "--dir", c.dir); err != nil || out != "t4-3: device=1,gone\n" {
		c.t.Fatalf("fault: %v\n%s", err, out)
	}
	c.until("device 1 of t4-3 is not healthy", func() (bool, string) {
		out, err := c.kubectl("get", "gpunode", "t4-3", "-o", "jsonpath={.status.devices[?(@.index==1)].health} {.status.devices[?(@.index==1)].reason}")
		health, reason, _ := strings.Cut(out, " ")
		return err == nil && health != "" && health != "Healthy" && reason != "", out
	})
	if out, err := c.tangram("fault", "t4-3", "--device", "2", "--gone", "--dir", c.dir); err == nil || !strings.Contains(out, "--device: t4-3 has 2 devices, there is no 2") {
		c.t.Errorf("fault of a device that is not there: %v\n%s", err, out)
	}
	if out, err := c.tangram("fault", "t4-3", "--clear", "--dir", c.dir); err != nil || out != "t4-3: no faults\n" {
		c.t.Errorf("fault: %v\n%s", err, out)
	}
}

// checkIdentities: each program may do its work and nothing else.
func (c *localCluster) checkIdentities() {
	c.t.Helper()
	for _, tt := range []struct {
		program     string
		may, mayNot []string
	}{
		{"gpu-scheduler", []string{"list gpunodes", "watch nodes", "create pods --subresource=binding", "update leases/gpu-scheduler -n kube-system"}, []string{"delete nodes", "get secrets", "patch gpunodes"}},
		{"gpu-controller", nil, []string{"delete nodes", "list secrets", "patch pods", "create pods --subresource=binding"}},
		{"gpu-agent", []string{"patch gpunodes --subresource=status", "create gpunodes", "patch nodes", "patch pods", "watch pods"}, []string{"delete gpunodes", "delete nodes", "create pods", "delete pods", "list secrets"}},
	} {
		can := func(what string) []string {
			return append([]string{"auth", "can-i", "--as=system:tangram:" + tt.program}, strings.Fields(what)...)
		}
		for _, what := range tt.may {
			c.mustPrint("yes", can(what)...)
		}
		for _, what := range tt.mayNot {
			if out, err := c.kubectl(can(what)...); err == nil || out != "no" {
				c.t.Errorf("%s may %s: %s, %v", tt.program, what, out, err)
			}
		}
	}
	// A plain build says v0.0.0-master, and clients that compare versions misbehave.
	if out, err := c.kubectl("get", "--raw", "/version"); err != nil || !strings.Contains(out, `"gitVersion": "v1.`) {
		c.t.Errorf("version: %v\n%s", err, out)
	}
}

// checkPods: simulated pods run, end after the time they announce, and go when
// deleted.
func (c *localCluster) checkPods() {
	c.t.Helper()
	c.checkShortPod()
	if out, err := c.kubectl("delete", "deployment", "inference-service", "-n", "ml-team", "--timeout=30s"); err != nil {
		c.t.Errorf("delete: %v\n%s", err, out)
	}
	c.mustPrint("0", "get", "pods", "-n", "ml-team", "-l", "app=inference-service", "-o", "go-template={{len .items}}")
}

// checkVolcanoJob: a manifest written for Volcano runs as it is.
func (c *localCluster) checkVolcanoJob() {
	c.t.Helper()
	if out, err := c.kubectl("apply", "-f", filepath.Join("..", "..", "examples", "documents", "000", "4.3.1-gang.yaml")); err != nil {
		c.t.Fatalf("apply: %v\n%s", err, out)
	}
	c.mustPrint("Running 4", "get", "vcjob", "gang-job", "-o", "jsonpath={.status.state.phase} {.status.running}")
	c.mustPrint("Open", "get", "queue", "default", "-o", "jsonpath={.status.state}")
	// The queue that manifest names comes with the cluster.
	if out, err := c.kubectl("apply", "-f", filepath.Join("..", "..", "examples", "documents", "004", "07-multi-gpu.yaml")); err != nil {
		c.t.Fatalf("apply: %v\n%s", err, out)
	}
	c.mustPrint("Running 1", "get", "vcjob", "multi-gpu-training", "-o", "jsonpath={.status.state.phase} {.status.running}")
	if out, err := c.kubectl("delete", "vcjob", "gang-job", "--timeout=30s"); err != nil {
		c.t.Errorf("delete: %v\n%s", err, out)
	}
	c.mustPrint("0", "get", "pods", "-l", "volcano.sh/job-name=gang-job", "-o", "go-template={{len .items}}")
}

// checkNoScheduler: pods that name no scheduler start, with GPUs and without; those with
// GPUs have their devices like all others.
func (c *localCluster) checkNoScheduler() {
	c.t.Helper()
	for name, limits := range map[string]string{"plain": "{}", "plain-gpu": `{"nvidia.com/gpu":"1"}`} {
		c.Apply(c.t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"`+name+`"},"spec":{"containers":[{"name":"c","image":"none","resources":{"limits":`+limits+`}}]}}`)
		c.mustPrint("Running default-scheduler", "get", "pod", name, "-o", "jsonpath={.status.phase} {.spec.schedulerName}")
	}
	record := `jsonpath={.metadata.annotations.tangram\.dev/devices}`
	if out, err := c.kubectl("get", "pod", "plain-gpu", "-o", record); err != nil || !strings.Contains(out, `"nvidia.com/gpu"`) {
		c.t.Errorf("record of plain-gpu: %v\n%s", err, out)
	}
	c.mustPrint("", "get", "pod", "plain", "-o", record)
}

func (c *localCluster) checkShortPod() {
	c.t.Helper()
	const manifest = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"short","annotations":{"tangram.dev/runtime":"1s"}},
		"spec":{"schedulerName":"gpu-scheduler","containers":[{"name":"c","image":"none","resources":{"limits":{"nvidia.com/gpu":"1"}}}]}}`
	c.Apply(c.t, manifest)
	c.mustPrint("Succeeded", "get", "pod", "short", "-o", "jsonpath={.status.phase}")
	if out, err := c.kubectl("delete", "pod", "short", "--timeout=30s"); err != nil {
		c.t.Errorf("delete: %v\n%s", err, out)
	}
}

// checkRestart kills a component and expects another in its place, and a line in the log.
func (c *localCluster) checkRestart(name string) {
	c.t.Helper()
	owner := c.owner()
	before := c.children(owner)[name]
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
	want := name + " exited (signal: killed), restarted"
	c.until(name+" is restarted and the log says so", func() (bool, string) {
		after := c.children(owner)[name]
		return after != 0 && after != before && strings.Contains(c.log(), want), c.log()
	})
	c.mustPrint("ok", "get", "--raw", "/readyz")
}

// foreground starts up without --detach and returns it once it has printed text.
func (c *localCluster) foreground(text string) (cmd *exec.Cmd, output func() string) {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "output")
	file, err := os.Create(path)
	if err != nil {
		c.t.Fatal(err)
	}
	defer file.Close()
	cmd = exec.Command(filepath.Join(c.Bin, "tangram"), "up", "--dir", c.dir)
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	output = func() string {
		data, err := os.ReadFile(path)
		if err != nil {
			c.t.Fatal(err)
		}
		return string(data)
	}
	c.until("up prints "+text, func() (bool, string) { return strings.Contains(output(), text), output() })
	return cmd, output
}

// interrupt presses Ctrl-C and waits for the end.
func (c *localCluster) interrupt(cmd *exec.Cmd) error {
	c.t.Helper()
	pids := pidsOf(cmd.Process.Pid, c.children(cmd.Process.Pid))
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		c.t.Fatal(err)
	}
	err := cmd.Wait()
	c.mustBeGone(pids...)
	return err
}

// checkForeground: what was there before is there again, and Ctrl-C ends it all.
func (c *localCluster) checkForeground() {
	c.t.Helper()
	cmd, output := c.foreground("Ctrl-C ends it.")
	c.mustPrint("ml-training-job", "get", "job", "ml-training-job", "-n", "ml-team", "-o", "jsonpath={.metadata.name}")
	c.checkShortPod()
	if err := c.interrupt(cmd); err != nil || !strings.Contains(output(), "stopped (") {
		c.t.Errorf("after Ctrl-C: %v\n%s", err, output())
	}
}

// checkKilledOutright: not even SIGKILL leaves a process behind.
func (c *localCluster) checkKilledOutright() {
	c.t.Helper()
	if out, err := c.tangram("up", "--detach", "--dir", c.dir); err != nil {
		c.t.Fatalf("up: %v\n%s", err, out)
	}
	owner := c.owner()
	pids := pidsOf(owner, c.children(owner))
	if len(pids) < 6 {
		c.t.Errorf("only %d processes", len(pids))
	}
	if err := syscall.Kill(owner, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
	c.mustBeGone(pids...)
}

// TestLocalClusterThatCannotStart: what is wrong is said, and nothing stays.
func TestLocalClusterThatCannotStart(t *testing.T) {
	t.Parallel()
	c := newLocalCluster(t)
	fleet := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(fleet, []byte("pools:\n- name: a\n  count: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, extra := range [][]string{nil, {"--detach"}} {
		out, err := c.tangram(append([]string{"up", "--dir", c.dir, "--fleet", fleet}, extra...)...)
		if err == nil || !strings.Contains(out, `fleet.yaml:3: pools[0].count: the text "none", want a number`) {
			t.Errorf("up with a bad fleet %v: %v\n%s", extra, err, out)
		}
	}
	out, err := c.tangram("up", "--dir", c.dir, "--bin", t.TempDir())
	if err == nil || !strings.Contains(out, "make build") {
		t.Errorf("up without programs: %v\n%s", err, out)
	}

	cmd, output := c.foreground("etcd ready")
	if err := c.interrupt(cmd); err == nil || !strings.Contains(output(), "interrupted") {
		t.Errorf("up interrupted while it starts: %v\n%s", err, output())
	}

	bin := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kubectl", "gpu-controller", "gpu-agent"} {
		if err := os.Symlink(filepath.Join(c.Bin, name), filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	broken := "#!/bin/sh\necho the plugin is broken\nexit 3\n"
	if err := os.WriteFile(filepath.Join(bin, "gpu-scheduler"), []byte(broken), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err = c.tangram("up", "--detach", "--dir", c.dir, "--bin", bin)
	if err == nil || !strings.Contains(out, "gpu-scheduler keeps crashing (exit status 3)") || !strings.Contains(out, "the plugin is broken") {
		t.Errorf("up with a broken scheduler: %v\n%s", err, out)
	}
	if owner, running, err := local.Running(c.dir); running || err != nil {
		t.Errorf("still running: %+v, %v", owner, err)
	}
}
