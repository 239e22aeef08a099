package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

const loopback = "127.0.0.1"

// Options say what to start, and where.
type Options struct {
	// Dir holds the state: objects, keys, logs, kubeconfigs. It is made if needed;
	// what an earlier cluster left there is used again.
	Dir string
	// Bin is the folder of the control plane's programs, as make build leaves it.
	Bin string
	// Out gets one line per thing that happens; nil for none.
	Out io.Writer
	// ControllerManager starts kube-controller-manager: without it there are no
	// service accounts, no Deployments or Jobs, and no node life cycle.
	ControllerManager bool
	// KubeScheduler starts kube-scheduler, for pods that name no other: without it only
	// pods of a scheduler that the caller starts are placed.
	KubeScheduler bool
	// KWOK starts KWOK, which plays the kubelets of simulated nodes.
	KWOK bool
	// APIServer are further arguments for kube-apiserver.
	APIServer []string
	// KeepRestarting restarts processes that may be restarted however often they
	// crash, for runs that kill them on purpose.
	KeepRestarting bool
}

// Cluster is a running control plane. Its methods are safe for concurrent use.
type Cluster struct {
	dir    string
	bin    string
	lock   *os.File
	spawn  *spawner
	policy restartPolicy
	failed chan error

	authority *authority
	admin     *rest.Config
	server    string

	outMu sync.Mutex
	out   io.Writer

	mu        sync.Mutex
	processes []*Process // in starting order
	stopped   bool
}

// Start brings up a control plane and returns once it serves. ctx bounds the start
// only. When Start fails, it has stopped all processes that it had started.
//
// A directory that another process works on gives a *RunningError.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := RequirePrograms(o.Bin, neededPrograms(o)...); err != nil {
		return nil, err
	}
	c, err := open(o)
	if err != nil {
		return nil, err
	}
	if err := c.startComponents(ctx, o); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// open takes possession of the state directory; nothing runs yet.
func open(o Options) (*Cluster, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	bin, err := filepath.Abs(o.Bin)
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{"", "pki", "logs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	held, err := lock(dir, time.Now())
	if err != nil {
		return nil, err
	}
	policy := defaultRestartPolicy
	if o.KeepRestarting {
		policy.limit = 0
	}
	return &Cluster{
		dir: dir, bin: bin, out: o.Out, lock: held,
		spawn:  newSpawner(),
		policy: policy,
		failed: make(chan error, 1),
	}, nil
}

// Dir is the absolute path of the state directory.
func (c *Cluster) Dir() string { return c.dir }

// Failed yields an error once a component crashed so often that it was given up.
// The cluster is of no use then; the caller should Stop it.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Process returns the process of that name, or nil.
func (c *Cluster) Process(name string) *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// Processes lists what runs, in starting order.
func (c *Cluster) Processes() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Process(nil), c.processes...)
}

// Run starts a program beside the control plane and returns once it is ready. Its
// output goes to Dir/logs/<name>.log; the log of an earlier run of that name is
// kept with the suffix ".1". ctx bounds the wait for readiness, not the program's
// life: that ends with the Process or with the Cluster. A program that does not
// get ready is stopped.
func (c *Cluster) Run(ctx context.Context, program Program) (*Process, error) {
	begin := time.Now()
	p := &Process{
		program:  program,
		log:      filepath.Join(c.dir, "logs", program.Name+".log"),
		policy:   c.policy,
		spawn:    c.spawn.start,
		report:   c.say,
		onFail:   c.fail,
		stopping: make(chan struct{}),
		done:     make(chan struct{}),
	}
	if err := os.Rename(p.log, p.log+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err := p.prepare(); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", program.Name, err)
	}
	if err := c.register(p); err != nil {
		return nil, err
	}
	if err := p.awaitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", program.Name, err), p.Stop())
	}
	c.say("%s ready (%s)", program.Name, Elapsed(begin))
	return p, nil
}

// register starts the process unless the cluster is being stopped: nothing may be
// started behind Stop's back.
func (c *Cluster) register(p *Process) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return fmt.Errorf("start %s: the cluster is stopped", p.Name())
	}
	if err := p.start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name(), err)
	}
	c.processes = append(c.processes, p)
	go p.supervise()
	return nil
}

// Stop ends everything in reverse starting order and waits for it. The state
// directory can be used again. Stopping twice is no error.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil
	}
	c.stopped = true
	var errs []error
	for i := len(c.processes) - 1; i >= 0; i-- {
		errs = append(errs, c.processes[i].Stop())
	}
	c.spawn.close()
	return errors.Join(append(errs, c.lock.Close())...)
}

// Discard ends all processes at once (SIGKILL) and waits for them: for a cluster whose state
// is not needed any more. Tests end theirs so, because a kube-apiserver that is asked to stop
// takes more than a second to let go of its clients. Discarding a stopped cluster is no
// error.
func (c *Cluster) Discard() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil
	}
	c.stopped = true
	errs := make([]error, len(c.processes))
	var ending sync.WaitGroup
	for i, p := range c.processes {
		ending.Go(func() { errs[i] = p.Kill() })
	}
	ending.Wait()
	c.spawn.close()
	return errors.Join(append(errs, c.lock.Close())...)
}

func (c *Cluster) fail(err error) {
	select {
	case c.failed <- err:
	default: // one reason to stop is enough
	}
}

// say writes one line to Out.
func (c *Cluster) say(format string, args ...any) {
	if c.out == nil {
		return
	}
	c.outMu.Lock()
	defer c.outMu.Unlock()
	fmt.Fprintf(c.out, format+"\n", args...)
}

// Elapsed is the time since begin, for a progress line.
func Elapsed(begin time.Time) string {
	return fmt.Sprintf("%.1fs", time.Since(begin).Seconds())
}

// RequirePrograms returns an error that names every program missing in the folder,
// and the remedy.
func RequirePrograms(bin string, names ...string) error {
	var missing []string
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(bin, name)); err != nil || !info.Mode().IsRegular() {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s lacks %s: run make build, or name the folder that has them with --bin",
		bin, strings.Join(missing, ", "))
}
