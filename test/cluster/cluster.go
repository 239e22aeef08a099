package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tangram-dev/tangram/internal/fleet"
	"github.com/tangram-dev/tangram/internal/local"
)

// startLimit is how long a cluster of a test may take to start: it takes seconds on a quiet
// machine.
const startLimit = 3 * time.Minute

// Options say what a cluster consists of, in the order in which it comes.
type Options struct {
	// Kubernetes says which components run, and where their programs are (Bin). Without a
	// Dir the cluster gets a new folder among the temporary ones, which End removes.
	Kubernetes local.Options
	// Manifests are applied in this order.
	Manifests [][]byte
	// Fleet is a fleet file (YAML): Nodes and GPUNodes that nothing measures. None when empty.
	Fleet string
	// Tangram are the components that start, in this order.
	Tangram []local.Component
}

// Cluster is a control plane with what Options say, and the administrator's clients, which
// have no rate limit.
type Cluster struct {
	*local.Cluster
	// Bin is the folder of the programs.
	Bin     string
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// temporary: the cluster made its folder.
	temporary bool
}

// Start starts a cluster, within a few minutes at the longest. The caller ends it.
func Start(o Options) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	c := &Cluster{Bin: o.Kubernetes.Bin, temporary: o.Kubernetes.Dir == ""}
	var err error
	if c.temporary {
		program := strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")
		if o.Kubernetes.Dir, err = os.MkdirTemp("", "tangram-"+program+"-"); err != nil {
			return nil, err
		}
	}
	if c.Cluster, err = local.Start(ctx, o.Kubernetes); err != nil {
		return nil, err
	}
	if err := c.fill(ctx, o); err != nil {
		return nil, c.EndIf(err)
	}
	return c, nil
}

// fill brings to a control plane what belongs on it.
func (c *Cluster) fill(ctx context.Context, o Options) error {
	var err error
	if c.Client, err = kubernetes.NewForConfig(c.RESTConfig()); err != nil {
		return err
	}
	if c.Dynamic, err = dynamic.NewForConfig(c.RESTConfig()); err != nil {
		return err
	}
	for _, doc := range o.Manifests {
		if err := c.ApplyManifests(ctx, doc); err != nil {
			return err
		}
	}
	if o.Fleet != "" {
		f, err := fleet.Parse("fleet.yaml", []byte(o.Fleet))
		if err != nil {
			return err
		}
		if err := c.CreateFleet(ctx, f); err != nil {
			return err
		}
	}
	for _, p := range o.Tangram {
		if _, err := c.Launch(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// ForTest starts a cluster that ends with the test. Of a test that failed it shows what the
// programs of Tangram and the operators said last.
func ForTest(t testing.TB, o Options) *Cluster {
	t.Helper()
	o.Kubernetes.Dir = t.TempDir()
	c, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.logTails(t)
		}
		if err := c.End(t.Failed()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// logTails shows the end of the logs of all programs that are not Kubernetes' own.
func (c *Cluster) logTails(t testing.TB) {
	const lines = 20
	for _, p := range c.Processes() {
		if name := p.Name(); strings.HasPrefix(name, "gpu-") || strings.HasPrefix(name, "operator-") {
			t.Logf("%s:\n%s", name, local.LastLines(p.Log(), lines))
		}
	}
}

// End kills whatever runs in the cluster and removes the folder that Start made, except
// after a failure: its logs are kept then.
func (c *Cluster) End(failed bool) error {
	err := c.Discard()
	if err == nil && c.temporary && !failed {
		err = os.RemoveAll(c.Dir())
	}
	return err
}

// EndIf ends a cluster that did not become what it should be, and returns why it did not;
// without an error it does nothing.
func (c *Cluster) EndIf(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(err, c.End(true))
}
