package agent

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tangram-dev/tangram/api/record"
)

const mpsControl = "nvidia-cuda-mps-control"

// TestMain: the test binary is also a fake nvidia-cuda-mps-control, by the name it is
// called by.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == mpsControl {
		os.Exit(fakeMPS())
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // tests wait, mostly
		panic(err)
	}
	os.Exit(m.Run())
}

func fakeMPS() int {
	pipe := os.Getenv("CUDA_MPS_PIPE_DIRECTORY")
	socket := filepath.Join(pipe, "control")
	if !slices.Contains(os.Args, "-f") { // a command for the daemon
		conn, err := net.Dial("unix", socket)
		if err != nil {
			fmt.Println("Cannot find MPS control daemon process")
			return 1
		}
		defer conn.Close()
		command, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if err != nil {
			return 1
		}
		if _, err := io.WriteString(conn, command); err != nil {
			return 1
		}
		if _, err := io.Copy(os.Stdout, conn); err != nil {
			return 1
		}
		return 0
	}
	os.Remove(socket) // of a daemon that was killed
	l, err := net.Listen("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.WriteFile(filepath.Join(pipe, mpsControl+".pid"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return 1
	}
	percent := "100.0"
	for {
		conn, err := l.Accept()
		if err != nil {
			return 1
		}
		command, _ := bufio.NewReader(conn).ReadString('\n')
		words := strings.Fields(command)
		if len(words) == 0 {
			conn.Close()
			continue
		}
		switch words[0] {
		case "get_server_list":
			fmt.Fprintln(conn, os.Getpid())
		case "set_default_active_thread_percentage":
			percent = words[1] + ".0"
		case "get_default_active_thread_percentage":
			fmt.Fprintln(conn, percent)
		case "quit":
			return 0
		}
		conn.Close()
	}
}

// mpsControl is the path of the fake.
func (n *node) mpsControl() string {
	n.t.Helper()
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	control := filepath.Join(n.dir, mpsControl)
	if err := os.Symlink(self, control); err != nil {
		n.t.Fatal(err)
	}
	return control
}

// mpsDaemonKilled: turns of a device get their percents; when the daemon is killed, the
// pods are told, and it runs again.
func mpsDaemonKilled(n *node) {
	control := n.mpsControl()
	n.start(n.args("simulated", "--serve", "--mps-control="+control,
		"--config-file="+n.file("config.yaml", "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2, percents: [70, 30]}]}}\n"))...)
	ids := n.offers(gpu, 16)
	slices.Sort(ids)
	uuid, _, _ := strings.Cut(ids[0], "::")
	index := n.index(uuid)
	for turn, percent := range []string{"70", "30"} {
		pod := "mps-" + percent
		n.pod(pod, gpu, 1, record.Device{Index: index, UUID: uuid, Turn: true})
		answer, err := n.kubelet.give(pod, gpu, fmt.Sprintf("%s::%d", uuid, turn))
		if err != nil {
			n.t.Fatal(err)
		}
		spec := n.cdi(answer.CdiDevices[0].Name)
		if want := "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=" + percent; !strings.Contains(spec, want) {
			n.t.Errorf("turn %d: the CDI file has no %s:\n%s", turn, want, spec)
		}
		if want := map[string]string{"70": "57344M", "30": "24576M"}[percent]; !strings.Contains(spec, want) {
			n.t.Errorf("turn %d: the CDI file has no memory limit %s:\n%s", turn, want, spec)
		}
	}
	files, err := filepath.Glob(filepath.Join(n.dir, "state", "mps", "*", "pipe", mpsControl+".pid"))
	if err != nil || len(files) != 1 {
		n.t.Fatalf("pid files %v, %v", files, err)
	}
	pid := n.pidIn(files[0])
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		n.t.Fatal(err)
	}
	n.counts("tangram_agent_mps_actions_total", `action="died"`)
	if text := n.event("Pod", "mps-70", "MPSDaemonDied"); !strings.Contains(text, uuid) {
		n.t.Errorf("event %q does not name the GPU", text)
	}
	n.event("Pod", "mps-30", "MPSDaemonDied")
	n.logs("MPS daemon")
	n.shows(2, "tangram_agent_mps_actions_total", `action="start"`, `result="ok"`)
	n.t.Cleanup(func() { _ = syscall.Kill(n.pidIn(files[0]), syscall.SIGKILL) }) // agents leave it for their containers
	if now := n.pidIn(files[0]); now == pid {
		n.t.Errorf("the daemon is still %d", pid)
	}
}

func (n *node) pidIn(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		n.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 2 {
		n.t.Fatalf("%s: %q", path, text)
	}
	return pid
}
