package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// kubeconfig points to a port without a listener.
const kubeconfig = `apiVersion: v1
kind: Config
current-context: none
clusters: [{name: none, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
users: [{name: none, user: {}}]
`

// process is an agent that runs.
type process struct {
	cmd    *exec.Cmd
	log    string
	listen string
	began  time.Time
	exited chan struct{}
}

// start starts an agent and waits until it has looked at the hardware.
func (t *trial) start(ctx context.Context, name string, arguments ...string) (*process, error) {
	dir := filepath.Join(t.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(config, []byte(kubeconfig), 0o600); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &process{log: filepath.Join(dir, "log"), listen: listener.Addr().String(), began: time.Now(), exited: make(chan struct{})}
	if err := listener.Close(); err != nil {
		return nil, err
	}
	output, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	p.cmd = exec.CommandContext(ctx, t.agent, append([]string{"--listen", p.listen, "--kubeconfig", config,
		"--state-dir", filepath.Join(dir, "state"), "--kubelet-dir", filepath.Join(dir, "kubelet")}, arguments...)...)
	if arguments[0] == "--backend=nvml" {
		p.cmd.Args = append(p.cmd.Args, "--node", "x")
	}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // running asks how it is
		close(p.exited)
	}()
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(50 * time.Millisecond) {
		if _, err = p.get("/readyz"); err == nil {
			return p, nil
		}
		if !p.running() {
			break
		}
	}
	p.stop()
	said, _ := os.ReadFile(p.log)
	return nil, fmt.Errorf("the agent is not ready: %w: %s", err, said)
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// stop ends the agent; it may have ended before.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.exited
}

func (p *process) get(path string) (string, error) {
	answer, err := http.Get("http://" + p.listen + path)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return string(text), err
}

// scrape reads all series of the agent, by name and labels as they are written.
func (p *process) scrape() (map[string]float64, error) {
	text, err := p.get("/metrics")
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if cut := strings.LastIndex(line, " "); cut > 0 && line[0] != '#' {
			value, err := strconv.ParseFloat(line[cut+1:], 64)
			if err != nil {
				return nil, fmt.Errorf("/metrics: %q: %w", line, err)
			}
			out[line[:cut]] = value
		}
	}
	return out, nil
}

// memory is what a process has resident.
type memory struct{ anonymous, file int64 } // KiB

func (m memory) String() string {
	return fmt.Sprintf("%.1f MiB are resident: %.1f of its own and %.1f of files", float64(m.anonymous+m.file)/1024, float64(m.anonymous)/1024, float64(m.file)/1024)
}

func (p *process) memory() (m memory, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		var into *int64
		switch fields[0] {
		case "RssAnon:":
			into = &m.anonymous
		case "RssFile:":
			into = &m.file
		default:
			continue
		}
		if *into, err = strconv.ParseInt(fields[1], 10, 64); err != nil {
			return m, err
		}
	}
	return m, nil
}

// parts says whose a process's own memory is, in MiB.
func (p *process) parts() (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", p.cmd.Process.Pid))
	if err != nil {
		return "", err
	}
	names := []string{"Go's heap", "C's heap", "data of the program", "data of libraries", "the rest (Go's tables, threads' heaps and stacks)"}
	var sums [5]int64 // KiB
	at := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case fields[0] == "Anonymous:":
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return "", err
			}
			sums[at] += kib
		case strings.HasSuffix(fields[0], ":") || len(fields) < 5:
		case fields[len(fields)-1] == "[heap]":
			at = 1
		case strings.HasSuffix(fields[len(fields)-1], filepath.Base(p.cmd.Path)):
			at = 2
		case strings.Contains(fields[len(fields)-1], ".so"):
			at = 3
		case strings.HasPrefix(fields[0], "7"): // where the kernel puts what asks for no place
			at = 4
		default: // Go asks for a place elsewhere
			at = 0
		}
	}
	var out []string
	for i, name := range names {
		out = append(out, fmt.Sprintf("%s %.1f", name, float64(sums[i])/1024))
	}
	return strings.Join(out, ", "), nil
}

// processor is the processor time that a process has used.
func (p *process) processor() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, err // ticks: a hundredth of a second
}

// evict drops a file from the page cache, so that it is read again as it is needed.
func evict(path string) error {
	file, err := os.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Sync(); err != nil { // what is not on the disk cannot be dropped
		return err
	}
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	if _, _, failed := syscall.Syscall6(syscall.SYS_FADVISE64, file.Fd(), 0, 0, dontNeed, 0, 0); failed != 0 {
		return failed
	}
	return nil
}
