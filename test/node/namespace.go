package node

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// namespace is the mount and the process namespace of one node, alive as long as its
// holder.
type namespace struct {
	holder *exec.Cmd
	stdin  io.Closer
}

// newNamespace starts the holder, which arranges the node's file system.
func newNamespace(program, folder string, numaNodes int) (*namespace, error) {
	for _, sub := range []string{"kubelet", "log"} {
		if err := os.MkdirAll(filepath.Join(folder, sub), 0o755); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(program, folder, fmt.Sprint(numaNodes))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Setpgid: true}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("make namespaces: %w", err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		stdin.Close()
		return nil, errors.Join(errors.New("make namespaces: the holder said "+fmt.Sprintf("%q", line)), cmd.Wait())
	}
	return &namespace{holder: cmd, stdin: stdin}, nil
}

// close ends everything that lives in the namespaces and waits for it.
func (n *namespace) close() error {
	return errors.Join(n.stdin.Close(), n.holder.Wait())
}

// start starts a command inside. Its parent is this process, as with cmd.Start.
func (n *namespace) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	go func() {
		// Never unlocked: the thread has changed sides, and ends with this goroutine.
		runtime.LockOSThread()
		if err := n.enter(); err != nil {
			result <- fmt.Errorf("enter the node's namespaces: %w", err)
			return
		}
		result <- cmd.Start()
	}()
	return <-result
}

// enter moves the calling thread into the mount namespace, and its future children
// into the process namespace.
func (n *namespace) enter() error {
	// Threads share their root and working directory until they say otherwise, and one
	// that shares cannot change its mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(n.holder.Process.Pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Setns(fd, unix.CLONE_NEWPID|unix.CLONE_NEWNS)
}

// process is one run of a program inside.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// run starts a program whose output is appended to a log file.
func (n *namespace) run(log, program string, env []string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own descriptor
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := n.start(cmd); err != nil {
		return nil, err
	}
	p := &process{name: filepath.Base(program), log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	return p, nil
}

// stop asks the process to end, and kills it when it does not within a few seconds.
func (p *process) stop() {
	p.end(syscall.SIGTERM)
}

func (p *process) end(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig) // an error says that it has ended
	select {
	case <-p.done:
		return
	case <-time.After(10 * time.Second):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// awaitReady asks until ready answers nil.
func (p *process) awaitReady(limit time.Duration, ready func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it was ready (%v); its last lines (%s):\n%s", p.name, p.cmd.ProcessState, p.log, tail(p.log, 25))
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after %v: %w; its last lines (%s):\n%s", p.name, limit, err, p.log, tail(p.log, 25))
		}
	}
}
