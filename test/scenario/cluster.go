package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/internal/local"
)

const (
	schedulerProgram = "gpu-scheduler"
	schedulerUser    = "system:tangram:gpu-scheduler" // as config/rbac.yaml names it
	startTimeout     = 2 * time.Minute
)

// clusterEngine is a real API server with gpu-scheduler beside it. All files
// share one: between files the objects are deleted, the processes stay.
type clusterEngine struct {
	bin       string
	cluster   *local.Cluster
	scheduler *local.Process

	client   kubernetes.Interface
	gpuNodes dynamic.ResourceInterface
	// objects are of kinds that the client has no types for.
	objects dynamic.Interface
	// written are the objects other than pods as the API server returned them: only the
	// story writes those.
	written *State
	classes map[string]bool
	// pods and events follow the API server; a list would wait up to 100 ms for
	// it to be sure that nothing is missing.
	pods, events cache.SharedIndexInformer
	// known is the state the scheduler was last seen to agree with.
	known *State
	// asked counts questions, for their pods' names.
	asked int
}

// BinDir finds the folder of the programs: $TANGRAM_BIN, or bin beside the go.mod
// above the working directory.
func BinDir() (string, error) {
	if dir := os.Getenv("TANGRAM_BIN"); dir != "" {
		return dir, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "bin"), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory; set TANGRAM_BIN")
		}
		dir = parent
	}
}

// NewCluster starts the control plane and the scheduler, and ends them with the
// test. It skips the test, and says why, when programs are missing or in -short.
func NewCluster(t *testing.T) Engine {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: -short, and this engine starts a control plane")
	}
	bin, err := BinDir()
	if err == nil {
		err = local.RequirePrograms(bin, "etcd", "kube-apiserver", schedulerProgram)
	}
	switch {
	case err != nil && os.Getenv("TANGRAM_BIN") != "":
		t.Fatal(err) // make has built them: a skip would hide a broken build
	case err != nil:
		t.Skipf("SKIPPED: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	cluster, err := local.Start(ctx, local.Options{Dir: t.TempDir(), Bin: bin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p := cluster.Process(schedulerProgram); t.Failed() && p != nil {
			t.Logf("the scheduler's last words:\n%s", lastLines(p.Log(), 20))
		}
		if err := cluster.Discard(); err != nil {
			t.Error(err)
		}
	})
	c := &clusterEngine{bin: bin, cluster: cluster, known: newState(), written: newState(), classes: map[string]bool{}}
	if err := c.prepare(ctx); err != nil {
		t.Fatal(err)
	}
	watching, stop := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(c.client, 0)
	t.Cleanup(func() {
		stop()
		factory.Shutdown()
	})
	c.pods, c.events = factory.Core().V1().Pods().Informer(), factory.Events().V1().Events().Informer()
	factory.StartWithContext(watching)
	factory.WaitForCacheSyncWithContext(ctx)
	return c
}

func lastLines(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// prepare connects, and makes what the scheduler expects to find.
func (c *clusterEngine) prepare(ctx context.Context) error {
	connection := c.cluster.RESTConfig()
	connection.QPS = -1 // the test is the only client that matters
	var err error
	if c.client, err = kubernetes.NewForConfig(connection); err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(connection)
	if err != nil {
		return err
	}
	c.gpuNodes, c.objects = objects.Resource(v1alpha1.GPUNodes), objects
	for _, docs := range [][]byte{config.CRDs(), config.VolcanoCRDs(), NodeTopologyCRD, config.RBAC()} {
		if err := c.cluster.ApplyManifests(ctx, docs); err != nil {
			return err
		}
	}
	if err := c.namespace(ctx, askNamespace); err != nil {
		return err
	}
	const where = "      reservations: 1\n" // among GPUQueue's arguments
	settings := bytes.Replace(config.Scheduler(), []byte(where), fmt.Appendf(nil, "      reportEvery: %v\n%s", reportEvery, where), 1)
	if err := os.WriteFile(c.configFile(), settings, 0o600); err != nil {
		return err
	}
	return c.startScheduler(ctx)
}

func (c *clusterEngine) configFile() string { return filepath.Join(c.cluster.Dir(), "scheduler.yaml") }

func (c *clusterEngine) startScheduler(ctx context.Context) error {
	kubeconfig, err := c.cluster.KubeconfigFor(schedulerUser)
	if err != nil {
		return err
	}
	port, err := local.FreePort()
	if err != nil {
		return err
	}
	ready, err := c.cluster.ReadyAt(port, "/healthz")
	if err != nil {
		return err
	}
	c.scheduler, err = c.cluster.Run(ctx, local.Program{
		Name: schedulerProgram, Path: filepath.Join(c.bin, schedulerProgram), Ready: ready,
		Args: append(c.cluster.ServeArgs(port, kubeconfig), "--config="+c.configFile(), "--leader-elect=false"),
	})
	return err
}

func (c *clusterEngine) Name() string            { return "cluster" }
func (c *clusterEngine) Patience() time.Duration { return 30 * time.Second }
func (c *clusterEngine) Now() time.Time          { return time.Now() }

func (c *clusterEngine) Tick(ctx context.Context, d time.Duration) error { return sleep(ctx, d) }

// Restart kills the scheduler. The new one knows nothing, so everything is asked.
func (c *clusterEngine) Restart(ctx context.Context) error {
	if err := c.scheduler.Kill(); err != nil {
		return err
	}
	c.known = newState()
	return c.startScheduler(ctx)
}

// Reset deletes all objects and waits until the scheduler has seen that.
func (c *clusterEngine) Reset(ctx context.Context) error {
	if err := c.wipe(ctx); err != nil {
		return fmt.Errorf("wipe: %w", err)
	}
	return c.Settle(ctx)
}
