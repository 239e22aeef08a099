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

	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/lab/local"
)

// startLimit is how long a cluster of a test may take to start: it takes seconds on a quiet
// machine.
const startLimit = 3 * time.Minute

// Cluster is a control plane with what Options say, and the administrator's clients, which
// have no rate limit.
type Cluster struct {
	*local.Cluster
	// Bin is the folder of the programs.
	Bin     string
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// temporary: the cluster made its folder. accounts: every namespace gets a service
	// account, without which it takes no pods.
	temporary, accounts bool
}

// Start starts a cluster, within a few minutes at the longest. The caller ends it.
func Start(o Options) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	c := &Cluster{Bin: o.Kubernetes.Bin, temporary: o.Kubernetes.Dir == "", accounts: o.Kubernetes.ControllerManager}
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

// connect makes the administrator's clients.
func (c *Cluster) connect() (err error) {
	if c.Client, err = kubernetes.NewForConfig(c.RESTConfig()); err != nil {
		return err
	}
	c.Dynamic, err = dynamic.NewForConfig(c.RESTConfig())
	return err
}

// fill brings to a control plane what Options say.
func (c *Cluster) fill(ctx context.Context, o Options) error {
	if err := c.connect(); err != nil {
		return err
	}
	for _, doc := range o.Manifests {
		if err := c.ApplyManifests(ctx, doc); err != nil {
			return err
		}
	}
	if err := c.defineKinds(ctx, o.Operators); err != nil {
		return err
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
	for _, op := range o.Operators {
		if _, err := c.RunOperator(ctx, op); err != nil {
			return err
		}
	}
	return nil
}

// End kills all processes of the cluster and removes the folder that Start made, except
// after a failure: its logs are kept then.
func (c *Cluster) End(failed bool) error {
	err := c.Discard()
	if err == nil && c.temporary && !failed {
		err = os.RemoveAll(c.Dir())
	}
	return err
}

// EndIf ends a cluster whose setup failed, and returns the cause; without an error it does
// nothing.
func (c *Cluster) EndIf(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(err, c.End(true))
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
