package bench

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/local"
)

// Names of the contenders, as --contenders and the report spell them.
const (
	Ceiling       = "ceiling"
	KubeScheduler = "kube-scheduler"
	Tangram       = "tangram"
	// TangramAsked is Tangram while questions are asked (--ask).
	TangramAsked = "tangram-asked"
	// TangramRecording is Tangram while it records what it is told and decides.
	TangramRecording = "tangram-recording"
)

// contender is something that binds pods, and how to start it.
type contender struct {
	name string
	// schedulerName is what its pods carry.
	schedulerName string
	// program is its file in Config.Bin; empty for this program itself.
	program string
	// records says that its pods must carry a record.
	records bool
	// asked: questions are asked meanwhile; it runs only then.
	asked bool
	// optional: it runs only when it is named.
	optional bool
	// scheme is how it serves /readyz.
	scheme string
	// args are its arguments; it may write files into the site's folder.
	args func(site) ([]string, error)
}

// site is where a contender runs.
type site struct {
	// dir is the contender's own folder.
	dir string
	// kubeconfig is an administrator's. All contenders use the same, so that the
	// API server does the same to let each in.
	kubeconfig string
	// port is free on 127.0.0.1.
	port int
	// self is the command line that starts this benchmark's command.
	self []string
}

// contenders are all there are, in the order of the report.
func contenders() []contender {
	return []contender{
		{name: Ceiling, schedulerName: "no-thought-binder", scheme: "http", args: binderArgs},
		{name: KubeScheduler, schedulerName: "default-scheduler", program: "kube-scheduler", scheme: "https", args: kubeSchedulerArgs},
		{name: Tangram, schedulerName: names.SchedulerName, program: "gpu-scheduler", scheme: "https", records: true, args: tangramArgs},
		{name: TangramAsked, schedulerName: names.SchedulerName, program: "gpu-scheduler", scheme: "https", records: true, asked: true, optional: true, args: tangramArgs},
		{name: TangramRecording, schedulerName: names.SchedulerName, program: "gpu-scheduler", scheme: "https", records: true, optional: true, args: recordingArgs},
	}
}

// contenderNames are those that run when none is named.
func contenderNames() []string {
	var all []string
	for _, c := range contenders() {
		if !c.optional {
			all = append(all, c.name)
		}
	}
	return all
}

func contenderByName(name string) (contender, bool) {
	for _, c := range contenders() {
		if c.name == name {
			return c, true
		}
	}
	return contender{}, false
}

// binderArgs starts this program again, so that the ceiling's CPU is counted
// apart from the load client's, as any other contender's is.
func binderArgs(s site) ([]string, error) {
	return append(s.self[1:len(s.self):len(s.self)], binderUse,
		"--kubeconfig", s.kubeconfig,
		"--address", "127.0.0.1:"+strconv.Itoa(s.port)), nil
}

// kubeSchedulerConfig is the default configuration except for the client's rate limit:
// its default of 50 requests per second would dominate the measurement.
const kubeSchedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: %q
  qps: 5000
  burst: 5000
leaderElection:
  leaderElect: false
profiles:
- schedulerName: default-scheduler
`

func kubeSchedulerArgs(s site) ([]string, error) {
	file := filepath.Join(s.dir, "kube-scheduler.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, kubeSchedulerConfig, s.kubeconfig), 0o600); err != nil {
		return nil, fmt.Errorf("configure kube-scheduler: %w", err)
	}
	return append([]string{"--config", file}, servingArgs(s)...), nil
}

// servingArgs are common to everything built on kube-scheduler's command.
func servingArgs(s site) []string {
	return []string{"--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(s.port)}
}

// tangramArgs runs the configuration that Tangram ships.
func tangramArgs(s site) ([]string, error) { return schedulerArgs(s, config.Scheduler()) }

// recordingArgs is tangramArgs with a recording as large as tangram up keeps.
func recordingArgs(s site) ([]string, error) {
	return schedulerArgs(s, config.WithRecording(config.Scheduler(), 64))
}

// schedulerArgs runs gpu-scheduler. --kubeconfig overrides the connection of its configuration.
func schedulerArgs(s site, settings []byte) ([]string, error) {
	file := filepath.Join(s.dir, "gpu-scheduler.yaml")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		return nil, fmt.Errorf("configure gpu-scheduler: %w", err)
	}
	return append([]string{"--config", file, "--kubeconfig", s.kubeconfig, "--leader-elect=false", "--query-listen=127.0.0.1:0",
		// The benchmark reads the lock times, on loopback and without a certificate.
		"--authorization-always-allow-paths", "/healthz,/readyz,/livez,/metrics,/debug/*"}, servingArgs(s)...), nil
}

// start starts the contender at a site and waits until it says that it is ready.
func (c *contender) start(ctx context.Context, cluster *local.Cluster, s site, bin string) (*local.Process, error) {
	args, err := c.args(s)
	if err != nil {
		return nil, err
	}
	path := s.self[0]
	if c.program != "" {
		path = filepath.Join(bin, c.program)
	}
	url := fmt.Sprintf("%s://127.0.0.1:%d/readyz", c.scheme, s.port)
	return cluster.Run(ctx, local.Program{
		Name: c.name, Path: path, Args: args,
		Ready: func(ctx context.Context) error { return probe(ctx, url) },
	})
}

// probe asks a contender whether its caches are filled. The certificate is one
// that the contender made for itself a second ago, so there is nothing to verify.
func probe(ctx context.Context, url string) error {
	body, err := get(ctx, url)
	if err != nil {
		return err
	}
	return body.Close()
}

// get reads a page of a contender.
func get(ctx context.Context, url string) (io.ReadCloser, error) {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return response.Body, nil
}
