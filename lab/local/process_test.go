package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lines is an Out that a test may read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(data)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func openTest(t *testing.T) (*Cluster, *lines) {
	t.Helper()
	out := &lines{}
	c, err := open(Options{Dir: t.TempDir(), Out: out})
	if err != nil {
		t.Fatal(err)
	}
	c.policy.first = time.Millisecond
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c, out
}

// eventually waits for what another process does in its own time.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("not within 20 s: %s", what)
}

// isAlive counts a zombie as dead: which process reaps it depends on the machine.
func isAlive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X"
}

func contents(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

func TestCrashedProcessIsRestarted(t *testing.T) {
	c, out := openTest(t)
	p, err := c.Run(t.Context(), program("sleeper", roleSleep))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "first line", func() bool { return contents(t, p.Log()) != "" })
	first := p.Pid()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "restart", func() bool { return p.Restarts() == 1 })
	if p.Pid() == first {
		t.Error("same process id after a restart")
	}
	eventually(t, "report", func() bool {
		return strings.Contains(out.String(), "sleeper exited (signal: killed), restarted")
	})
	eventually(t, "both runs in one log", func() bool { return strings.Count(contents(t, p.Log()), "sleeping") == 2 })
}

func TestCrashLoopIsGivenUp(t *testing.T) {
	c, _ := openTest(t)
	p, err := c.Run(t.Context(), program("broken", roleCrash))
	if err != nil {
		t.Fatal(err) // no Ready: it counts as ready once started
	}
	err = <-c.Failed()
	for _, want := range []string{"broken keeps crashing (exit status 3)", "5 restarts within 30s", "cannot go on: the reason"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
	<-p.Done()
	if got := p.Restarts(); got != 5 {
		t.Errorf("restarts = %d, want 5", got)
	}
}

func TestRestartedHoweverOften(t *testing.T) {
	c, err := open(Options{Dir: t.TempDir(), KeepRestarting: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	c.policy.first = time.Millisecond
	p, err := c.Run(t.Context(), program("broken", roleCrash))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tenth restart", func() bool { return p.Restarts() >= 10 })
	select {
	case err := <-c.Failed():
		t.Error(err)
	default:
	}
}

func TestSignalledProcessIsRestarted(t *testing.T) {
	c, _ := openTest(t)
	p, err := c.Run(t.Context(), program("sleeper", roleSleep))
	if err != nil {
		t.Fatal(err)
	}
	first := p.Pid()
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := p.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if p.Pid() != first || !isAlive(first) {
		t.Error("a process that was stopped and continued is another, or is gone")
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its restart", func() bool { return p.Restarts() == 1 && p.Pid() != first })
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGKILL); err == nil {
		t.Error("a process that has ended was signalled")
	}
}

func TestRunSaysWhyAProgramDidNotGetReady(t *testing.T) {
	c, _ := openTest(t)
	broken := program("broken", roleCrash)
	broken.Restart = false
	broken.Ready = func(context.Context) error { return errors.New("connection refused") }
	_, err := c.Run(t.Context(), broken)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"broken: exited (exit status 3)", "cannot go on: the reason"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

func TestRunStopsWaitingWithItsContext(t *testing.T) {
	c, _ := openTest(t)
	ctx, cancel := context.WithCancel(t.Context())
	sleeper := program("sleeper", roleSleep)
	sleeper.Ready = func(context.Context) error {
		cancel()
		return errors.New("connection refused")
	}
	_, err := c.Run(ctx, sleeper)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error = %v, want the cancellation and the last refusal", err)
	}
	if p := c.Process("sleeper"); isAlive(p.Pid()) {
		t.Error("the program that did not get ready still runs")
	}
}

func TestEndingAProcess(t *testing.T) {
	tests := []struct {
		name, role string
		end        func(*Process) error
	}{
		{name: "stop", role: roleSleep, end: (*Process).Stop},
		{name: "kill", role: roleSleep, end: (*Process).Kill},
		{name: "stop one that ignores SIGTERM", role: roleStubborn, end: (*Process).Stop},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, out := openTest(t)
			p, err := c.Run(t.Context(), program("program", tt.role))
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "first line", func() bool { return contents(t, p.Log()) != "" })
			for range 2 { // the second time there is nothing left to do
				if err := tt.end(p); err != nil {
					t.Fatal(err)
				}
			}
			if isAlive(p.Pid()) {
				t.Error("still alive")
			}
			if p.Restarts() != 0 || strings.Contains(out.String(), "exited") {
				t.Errorf("ended on demand, yet restarted %d times and reported %q", p.Restarts(), out)
			}
		})
	}
}

func TestStopEndsGrandchildrenAndRefusesMore(t *testing.T) {
	c, _ := openTest(t)
	p, err := c.Run(t.Context(), program("forker", roleFork))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "grandchild", func() bool { return strings.Contains(contents(t, p.Log()), "\n") })
	grandchild, err := strconv.Atoi(strings.TrimSpace(contents(t, p.Log())))
	if err != nil {
		t.Fatal(err)
	}
	if !isAlive(grandchild) {
		t.Fatal("no grandchild to begin with")
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "grandchild's end", func() bool { return !isAlive(grandchild) })
	if _, err := c.Run(t.Context(), program("late", roleSleep)); err == nil {
		t.Error("a stopped cluster started a program")
	}
}

// TestDiscard: programs that would not stop when asked end at once, too.
func TestDiscard(t *testing.T) {
	c, _ := openTest(t)
	var all []*Process
	for name, role := range map[string]string{"sleeper": roleSleep, "stubborn": roleStubborn} {
		p, err := c.Run(t.Context(), program(name, role))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, name+" runs", func() bool { return contents(t, p.Log()) != "" })
		all = append(all, p)
	}
	begin := time.Now()
	if err := c.Discard(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took >= stopGrace {
		t.Errorf("took %s: it waited for a program that ignores being asked", took)
	}
	for _, p := range all {
		select {
		case <-p.Done():
		default:
			t.Errorf("%s still runs", p.Name())
		}
	}
	if _, err := c.Run(t.Context(), program("late", roleSleep)); err == nil {
		t.Error("a program was started in a discarded cluster")
	}
	if err := errors.Join(c.Discard(), c.Stop()); err != nil {
		t.Error(err)
	}
}

// Killing the supervisor must not leave a control plane behind.
func TestChildrenDieWithAKilledParent(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), roleVar+"="+roleParent)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if !isAlive(child) {
		t.Fatal("the child died while its parent lived")
	}
	if _, err := open(Options{Dir: dir}); !errors.As(err, new(*RunningError)) {
		t.Errorf("open of a directory in use = %v, want a RunningError", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stdout)
	_ = cmd.Wait() // "signal: killed", by us
	eventually(t, "the child's end", func() bool { return !isAlive(child) })

	c, err := open(Options{Dir: dir})
	if err != nil {
		t.Fatalf("the directory stays locked after its owner's death: %v", err)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

func TestLogOfTheLastStartIsKept(t *testing.T) {
	c, _ := openTest(t)
	for range 2 {
		p, err := c.Run(t.Context(), program("sleeper", roleSleep))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "first line", func() bool { return contents(t, p.Log()) != "" })
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(contents(t, p.Log()), "sleeping"); got != 1 {
			t.Errorf("log has %d starts, want 1", got)
		}
	}
	if contents(t, c.Process("sleeper").Log()+".1") == "" {
		t.Error("the log of the first start is gone")
	}
}
