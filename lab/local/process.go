package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	stopGrace      = 5 * time.Second
	readyInterval  = 50 * time.Millisecond
	readyTimeout   = 2 * time.Minute // a loaded 2-core machine, not a healthy one
	prepareTimeout = 30 * time.Second
	logLinesQuoted = 15
)

// restartPolicy says when a crashed process is started again: after a pause that
// doubles from first, but not more than limit times within window; limit 0 means any
// number of times, with a pause that stops growing.
type restartPolicy struct {
	first  time.Duration
	limit  int
	window time.Duration
}

// After five restarts, which take at least six seconds, another will not help.
var defaultRestartPolicy = restartPolicy{first: 200 * time.Millisecond, limit: 5, window: 30 * time.Second}

// Program is something to run beside the control plane.
type Program struct {
	// Name names the process in messages and its log file.
	Name string
	// Path is the executable.
	Path string
	// Args are its arguments, without the program itself.
	Args []string
	// Env is added to this process's environment, as "KEY=value".
	Env []string
	// Restart says whether to start it again when it exits by itself.
	Restart bool
	// Prepare, if not nil, runs before every start, the first as well as restarts.
	Prepare func(context.Context) error
	// Ready returns nil once the program serves; nil means ready when started. It
	// is polled, each time with a context of its own.
	Ready func(context.Context) error
}

// Process is a program being kept alive. Its methods are safe for concurrent use.
type Process struct {
	program Program
	policy  restartPolicy
	log     string
	spawn   func(*exec.Cmd) error
	report  func(format string, args ...any)
	onFail  func(error)

	stopping chan struct{} // closed when the process is being stopped
	done     chan struct{} // closed once it neither runs nor will run again

	mu       sync.Mutex
	stopped  bool
	cmd      *exec.Cmd // the run in progress; nil between runs and after the last
	pid      int
	restarts int
	recent   []time.Time
	exit     error // why it ended, unless it was stopped
}

// Pid is the process id of the current run, or of the last one.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// Restarts counts how often the process was started again after a crash.
func (p *Process) Restarts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.restarts
}

// Log is the path of the process's log file, which all runs of one cluster share.
func (p *Process) Log() string { return p.log }

// Name is the program's name.
func (p *Process) Name() string { return p.program.Name }

// Done is closed once the process has ended and will not be restarted.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal to the run in progress and does not wait for its effect: a
// process that dies of it is restarted if it may be. Between two runs it is an error.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	cmd := p.cmd
	p.mu.Unlock()
	if cmd == nil {
		return fmt.Errorf("signal %s: it does not run", p.program.Name)
	}
	if err := cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal %s: %w", p.program.Name, err)
	}
	return nil
}

// Kill ends the process at once (SIGKILL), for good, and waits for its end.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

// Stop asks the process to end (SIGTERM), kills it when it does not within a few
// seconds, and waits for its end. Stopping an ended process is no error.
func (p *Process) Stop() error { return p.end(syscall.SIGTERM) }

func (p *Process) end(sig syscall.Signal) error {
	p.mu.Lock()
	if !p.stopped {
		p.stopped = true
		close(p.stopping)
	}
	cmd := p.cmd
	p.mu.Unlock()

	if cmd != nil {
		if err := send(cmd, sig); err != nil {
			return fmt.Errorf("stop %s: %w", p.program.Name, err)
		}
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopGrace):
	}
	if cmd != nil {
		if err := send(cmd, syscall.SIGKILL); err != nil {
			return fmt.Errorf("kill %s: %w", p.program.Name, err)
		}
	}
	<-p.done
	return nil
}

// send treats a process that ended meanwhile as signalled.
func send(cmd *exec.Cmd, sig syscall.Signal) error {
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// prepare runs the program's preparation, which ends when the process is stopped.
func (p *Process) prepare() error {
	if p.program.Prepare == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), prepareTimeout)
	defer cancel()
	go func() {
		select {
		case <-p.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return p.program.Prepare(ctx)
}

// start begins one run. It fails once the process is being stopped.
func (p *Process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return errors.New("the process is being stopped")
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close() // the child has its own descriptor
	cmd := exec.Command(p.program.Path, p.program.Args...)
	cmd.Env = append(os.Environ(), p.program.Env...)
	cmd.Dir = filepath.Dir(p.log)
	cmd.Stdout, cmd.Stderr = out, out
	if err := p.spawn(cmd); err != nil {
		return err
	}
	p.cmd, p.pid = cmd, cmd.Process.Pid
	return nil
}

// supervise waits for the run in progress to end and starts the next, until the process
// is stopped, may not be restarted, or crashed too often.
func (p *Process) supervise() {
	defer close(p.done)
	for {
		exit := p.wait()
		if p.isStopped() {
			return
		}
		if !p.program.Restart {
			p.report("%s exited (%s)", p.program.Name, describeExit(exit))
			p.giveUp(fmt.Errorf("exited (%s)", describeExit(exit)))
			return
		}
		pause, again := p.mayRestart(time.Now())
		if !again {
			err := fmt.Errorf("%s keeps crashing (%s): %d restarts within %v; its last lines (%s):\n%s",
				p.program.Name, describeExit(exit), p.policy.limit, p.policy.window, p.log, LastLines(p.log, logLinesQuoted))
			p.giveUp(err)
			p.onFail(err)
			return
		}
		select {
		case <-p.stopping:
			return
		case <-time.After(pause):
		}
		if err := p.prepare(); err != nil {
			p.report("%s exited (%s); before its restart: %v", p.program.Name, describeExit(exit), err)
		}
		if err := p.start(); err != nil {
			if p.isStopped() {
				return
			}
			err = fmt.Errorf("restart %s: %w", p.program.Name, err)
			p.giveUp(err)
			p.onFail(err)
			return
		}
		p.mu.Lock()
		p.restarts++
		p.mu.Unlock()
		p.report("%s exited (%s), restarted", p.program.Name, describeExit(exit))
	}
}

// wait ends with the run in progress and clears away what it may have forked.
func (p *Process) wait() error {
	p.mu.Lock()
	cmd := p.cmd
	p.mu.Unlock()
	err := cmd.Wait()
	p.mu.Lock()
	p.cmd = nil
	p.mu.Unlock()
	// The group outlives its leader while it has members. ESRCH is the usual case.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return err
}

// mayRestart says whether to start again, and after which pause.
func (p *Process) mayRestart(now time.Time) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.recent[:0]
	for _, t := range p.recent {
		if now.Sub(t) < p.policy.window {
			kept = append(kept, t)
		}
	}
	p.recent = kept
	if p.policy.limit > 0 && len(p.recent) >= p.policy.limit {
		return 0, false
	}
	const doublings = 4 // 3.2 seconds by default: those of a limit of five
	pause := p.policy.first << min(len(p.recent), doublings)
	p.recent = append(p.recent, now)
	return pause, true
}

func (p *Process) isStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

func (p *Process) giveUp(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exit = err
}

// awaitReady polls the program's Ready until it answers nil.
func (p *Process) awaitReady(ctx context.Context) error {
	if p.program.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		attempt, cancelAttempt := context.WithTimeout(ctx, 5*time.Second)
		err := p.program.Ready(attempt)
		cancelAttempt()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			p.mu.Lock()
			exit := p.exit
			p.mu.Unlock()
			return fmt.Errorf("%w; its last lines (%s):\n%s", orStopped(exit), p.log, LastLines(p.log, logLinesQuoted))
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w (%w); its last lines (%s):\n%s",
				ctx.Err(), err, p.log, LastLines(p.log, logLinesQuoted))
		case <-time.After(readyInterval):
		}
	}
}

func orStopped(err error) error {
	if err == nil {
		return errors.New("stopped before it was ready")
	}
	return err
}

func describeExit(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}
