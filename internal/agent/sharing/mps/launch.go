package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pidFile is written by the daemon into its pipe folder.
const pidFile = "nvidia-cuda-mps-control.pid"

// dir is the folder of a GPU's daemon, pipe and logs are below it.
func (o Options) dir(gpu string) string  { return filepath.Join(o.StateDir, gpu) }
func (o Options) pipe(gpu string) string { return filepath.Join(o.dir(gpu), "pipe") }
func (o Options) logs(gpu string) string { return filepath.Join(o.dir(gpu), "log") }

// process is a running daemon.
type process struct {
	pid int
	// exited is closed when it ends; nil for a daemon that an earlier agent started,
	// which is no child of ours.
	exited <-chan struct{}
	// status says how it ended; read after exited.
	status *string
}

// launch returns a daemon that answers: the one that runs, or a new one.
func (d *daemon) launch(ctx context.Context) (*process, error) {
	if p := d.adopt(ctx); p != nil {
		d.options.Log.Info("MPS daemon taken over", "gpu", d.gpu.UUID, "pid", p.pid)
		return p, nil
	}
	kill(strays(d.options.Control, d.control.pipe))
	if d.options.Exclusive != nil {
		if err := d.options.Exclusive(ctx, d.gpu.UUID, true); err != nil {
			return nil, fmt.Errorf("set compute mode EXCLUSIVE_PROCESS: %w", err)
		}
	}
	if err := d.folders(); err != nil {
		return nil, err
	}
	return d.start(ctx)
}

// adopt finds a daemon that an earlier agent started and that answers.
func (d *daemon) adopt(ctx context.Context) *process {
	data, err := os.ReadFile(filepath.Join(d.control.pipe, pidFile))
	if err != nil {
		return nil
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || !isDaemon(pid, d.options.Control, d.control.pipe) {
		return nil
	}
	if _, err := d.control.servers(ctx); err != nil {
		return nil
	}
	return &process{pid: pid}
}

// folders makes the pipe and log folders anew. Servers and clients of other users pass
// through them.
func (d *daemon) folders() error {
	pipe, logs := d.control.pipe, d.options.logs(d.gpu.UUID)
	// The folder itself stays: containers have it mounted and must find the new daemon
	// in it.
	entries, err := os.ReadDir(pipe)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(pipe, entry.Name())); err != nil {
			return err
		}
	}
	mode := os.FileMode(0o755)
	if !d.options.MultiUser {
		// Then servers run as the clients' users and make files there.
		mode = 0o777 | os.ModeSticky
	}
	for _, dir := range []struct {
		path string
		mode os.FileMode
	}{{d.options.StateDir, 0o755}, {d.options.dir(d.gpu.UUID), 0o755}, {pipe, mode}, {logs, mode}} {
		if err := os.MkdirAll(dir.path, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(dir.path, dir.mode); err != nil { // whatever the umask is
			return err
		}
	}
	return nil
}

// start runs a new daemon and waits until it answers.
func (d *daemon) start(ctx context.Context) (*process, error) {
	// A file, not a pipe: the daemon outlives the agent.
	path := filepath.Join(d.options.logs(d.gpu.UUID), "output")
	output, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	arguments := []string{"-f"}
	if d.options.MultiUser {
		arguments = append(arguments, "-multiuser-server")
	}
	cmd := exec.Command(d.options.Control, arguments...)
	cmd.Env = append(environment(), "CUDA_VISIBLE_DEVICES="+d.gpu.UUID,
		envPipe+"="+d.control.pipe, envLog+"="+d.options.logs(d.gpu.UUID))
	cmd.Stdout, cmd.Stderr = output, output
	// Signals to the agent's group are not for the daemon.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited, status := make(chan struct{}), new(string)
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		*status = cmd.ProcessState.String()
		close(exited)
	}()
	p := &process{pid: cmd.Process.Pid, exited: exited, status: status}
	if err := d.answers(ctx, p); err != nil {
		kill([]int{p.pid})
		<-exited
		said, _ := os.ReadFile(path)
		return nil, fmt.Errorf("%w: %s", err, shorten(strings.TrimSpace(string(said))))
	}
	d.options.Log.Info("MPS daemon started", "gpu", d.gpu.UUID, "pid", p.pid)
	return p, nil
}

// answers waits until a new daemon answers.
func (d *daemon) answers(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, d.options.StartWithin)
	defer cancel()
	var last error
	for {
		if _, last = d.control.servers(ctx); last == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("daemon ended at once (%s)", *p.status)
		case <-ctx.Done():
			return fmt.Errorf("daemon not ready within %v: %w", d.options.StartWithin, last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
