package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/examples"
	"github.com/tangram-dev/tangram/internal/cli/see"
	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/lab/operators"
)

const (
	schedulerProgram  = "gpu-scheduler"
	controllerProgram = "gpu-controller"
	agentProgram      = "gpu-agent"
	fleetFile         = "fleet.yaml"       // in the state directory: the last --fleet
	agentFleetFile    = "agent-fleet.yaml" // beside it: what the agent simulates
	firstJobFile      = "first-job.yaml"   // beside it: the namespace and the job of examples/demo to begin with
)

// session is one run of tangram up.
type session struct {
	options upOptions
	out     io.Writer
	cluster *local.Cluster // nil until the control plane serves

	serving    map[string][]int // loopback ports of our programs that serve metrics, by program
	prometheus string           // URL of Prometheus; empty without --monitoring
	page       *see.Page        // the web page; nil until it is served
	// beforeStop, if not nil, ends what this process does in the cluster.
	beforeStop func()
}

func newSession(o upOptions, out io.Writer) *session {
	return &session{options: o, out: out, serving: map[string][]int{}}
}

func (s *session) say(format string, args ...any) {
	fmt.Fprintf(s.out, format+"\n", args...) // progress only: a failed write has no remedy
}

// start brings everything up, in order, saying what it does.
func (s *session) start(ctx context.Context) error {
	begin := time.Now()
	nodes, err := s.loadFleet()
	if err != nil {
		return err
	}
	if err := local.RequirePrograms(s.options.bin, schedulerProgram, controllerProgram, agentProgram, "kubectl"); err != nil {
		return err
	}
	if s.options.monitoring {
		if err := requireMonitoring(s.options.bin); err != nil {
			return err
		}
	}
	if err := operators.Require(s.options.bin, s.options.operators...); err != nil {
		return fmt.Errorf("--operators: %w", err)
	}
	cluster, err := local.Start(ctx, local.Options{
		Dir: s.options.dir, Bin: s.options.bin, Out: s.out, ControllerManager: true, KWOK: true,
	})
	if err != nil {
		return err
	}
	s.cluster = cluster
	if err := s.prepare(ctx, nodes); err != nil {
		return err
	}
	if err := s.startScheduler(ctx); err != nil {
		return err
	}
	if err := s.startController(ctx); err != nil {
		return err
	}
	for _, name := range s.options.operators {
		if _, err := operators.Run(ctx, name, operators.Options{Cluster: cluster, Bin: s.options.bin}); err != nil {
			return err
		}
	}
	if s.options.monitoring {
		if err := s.startMonitoring(ctx); err != nil {
			return err
		}
	}
	if s.options.demo {
		if err := s.runDemo(ctx); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	if err := s.startPage(); err != nil {
		return err
	}
	// In a file of its own: there may be no checkout of the repository.
	if err := os.WriteFile(filepath.Join(s.options.dir, firstJobFile), bytes.Join(examples.Demo()[:2], []byte("---\n")), 0o600); err != nil {
		return err
	}
	s.say("\nTangram is up (%s).", local.Elapsed(begin))
	s.sayNextSteps()
	s.openPage()
	return nil
}

// nodeFleet is a fleet and the file it was read from.
type nodeFleet struct {
	*fleet.Fleet
	file []byte
}

// prepare makes what the scheduler expects to find: API, permissions, nodes that an
// agent has described.
func (s *session) prepare(ctx context.Context, nodes nodeFleet) error {
	begin := time.Now()
	all := [][]byte{config.CRDs(), config.VolcanoCRDs(), config.RBAC(), config.ControllerRBAC(), config.AgentRBAC()}
	if s.options.dra {
		all = append(all, config.AgentDRA())
	}
	for _, docs := range all {
		if err := s.cluster.ApplyManifests(ctx, docs); err != nil {
			return err
		}
	}
	// Its manifest sets no field, so a queue that was changed since stays as it is.
	if err := s.cluster.ApplyManifests(ctx, examples.Document("queue.yaml")); err != nil {
		return err
	}
	s.say("CRDs, RBAC and the queue training applied (%s)", local.Elapsed(begin))
	if err := s.cluster.PruneFleet(ctx, nodes.Fleet); err != nil {
		return err
	}
	if err := s.cluster.CreateNodes(ctx, nodes.Fleet); err != nil {
		return err
	}
	if err := s.startAgent(ctx, nodes); err != nil {
		return err
	}
	if err := s.awaitSlices(ctx, nodes); err != nil {
		return err
	}
	return s.keepFleet()
}

// loadFleet reads the file given by the flag, else the one used last time: its nodes
// are in the state directory.
func (s *session) loadFleet() (nodeFleet, error) {
	path := s.options.fleet
	kept := filepath.Join(s.options.dir, fleetFile)
	if path == "" {
		if _, err := os.Stat(kept); err != nil {
			return nodeFleet{fleet.Default(), fleet.DefaultFile()}, nil
		}
		s.say("fleet: as last time (%s); --fleet FILE sets another", kept)
		path = kept
	}
	return readFleet(path)
}

func readFleet(path string) (nodeFleet, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nodeFleet{}, err
	}
	parsed, err := fleet.Parse(short(path), data)
	return nodeFleet{parsed, data}, err
}

// keepFleet remembers the fleet for the next start.
func (s *session) keepFleet() error {
	if s.options.fleet == "" {
		return nil
	}
	data, err := os.ReadFile(s.options.fleet)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.options.dir, fleetFile), data, 0o600)
}

// startAgent runs gpu-agent, which stands for the agents of all nodes, and returns once
// it has described them.
func (s *session) startAgent(ctx context.Context, nodes nodeFleet) error {
	path := filepath.Join(s.options.dir, agentFleetFile)
	if err := os.WriteFile(path, nodes.file, 0o600); err != nil {
		return err
	}
	flags := []string{"--backend=simulated", "--fleet=" + path}
	if s.options.dra {
		flags = append(flags, "--dra")
	}
	agent, err := s.cluster.Launch(ctx, local.Component{Name: agentProgram, Restart: true, Flags: flags})
	if err != nil {
		return err
	}
	s.serving[agentProgram] = []int{agent.Port}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-agent.Done():
			cancel(fmt.Errorf("%s has ended; see %s", agentProgram, agent.Log()))
		case <-ctx.Done():
		}
	}()
	if err := s.cluster.AwaitFleet(ctx, nodes.Fleet); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

func (s *session) startScheduler(ctx context.Context) error {
	path := filepath.Join(s.options.dir, "scheduler.yaml")
	// No other scheduler runs here; what it decides can be done again (tangram dump, tangram replay).
	settings := config.WithRecording(config.SchedulerForAll(), 64)
	if s.options.monitoring {
		var err error
		if settings, err = s.withPrices(settings); err != nil {
			return err
		}
	}
	if err := os.WriteFile(path, settings, 0o600); err != nil {
		return err
	}
	// One scheduler needs no election, and starts sooner without.
	scheduler, err := s.cluster.Launch(ctx, local.Component{
		Name: schedulerProgram, Answers: true, Restart: true, Ready: "/readyz", Flags: []string{"--config=" + path, "--leader-elect=false"},
	})
	if err != nil {
		return err
	}
	s.serving[schedulerProgram] = []int{scheduler.Port}
	return nil
}

// startController runs gpu-controller, which creates the pods of Volcano Jobs.
func (s *session) startController(ctx context.Context) error {
	controller, err := s.cluster.Launch(ctx, local.Component{Name: controllerProgram, Restart: true, Ready: "/readyz", Flags: []string{"--leader-elect=false"}})
	if err != nil {
		return err
	}
	s.serving[controllerProgram] = []int{controller.Port}
	return nil
}

// sayNextSteps ends with what a newcomer can do now. Each line works as it is printed, from
// the directory that tangram up was started in.
func (s *session) sayNextSteps() {
	s.say("\nNext, in a shell:\n\n  export KUBECONFIG=%s", s.cluster.Kubeconfig())
	for _, step := range s.nextSteps() {
		s.say("  %-58s # %s", step.command, step.what)
	}
	s.say("")
	if s.prometheus != "" {
		s.say("Prometheus is at %s; without pages for a browser, so ask it with Grafana or\n  %s query instant %s 'ALERTS'",
			s.prometheus, short(filepath.Join(s.options.bin, "promtool")), s.prometheus)
	}
	s.say("Logs are in %s.", filepath.Join(s.options.dir, "logs"))
	s.say("The web page is at %s", s.page.URL)
	s.sayHowToEnd()
}

// nextStep is a command to try, and what it shows.
type nextStep struct{ command, what string }

func (s *session) nextSteps() []nextStep {
	tangram, kubectl := short(filepath.Join(s.options.bin, "tangram")), short(filepath.Join(s.options.bin, "kubectl"))
	if s.options.demo {
		return []nextStep{
			{fmt.Sprintf("%s why too-large -n %s", tangram, demoNamespace), "why it waits, and what would help"},
			{fmt.Sprintf("%s explain llm-pretraining-worker-0 -n %s", tangram, demoNamespace), "why it runs where it runs"},
			{fmt.Sprintf("%s jobs -n %s", tangram, demoNamespace), "what runs and what waits"},
			{tangram + " top", "the fleet, live"},
		}
	}
	return []nextStep{
		{fmt.Sprintf("%s apply -f %s", kubectl, short(filepath.Join(s.options.dir, firstJobFile))), "a job that wants four linked GPUs"},
		{fmt.Sprintf("%s why ml-training-job -n %s", tangram, demoNamespace), "whether it runs, and why not"},
		{fmt.Sprintf("%s jobs -n %s", tangram, demoNamespace), "what runs and what waits"},
		{tangram + " top", "the fleet, live"},
	}
}

func (s *session) sayHowToEnd() {
	if s.options.worker {
		s.say("End it with: %s down --dir %s", short(filepath.Join(s.options.bin, "tangram")), s.options.dir)
	} else {
		s.say("Ctrl-C ends it.")
	}
}

// short is the path as seen from the working directory when it lies below.
func short(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil || !filepath.IsLocal(rel) {
		return path
	}
	return rel
}
