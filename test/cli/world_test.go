// Package cli tests the command line as its users run it: the program itself, in a shell's
// place, against a local cluster that tangram up started. All tests share that cluster and
// only ask it.
package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tangram-dev/tangram/test/cluster"
)

// demoCluster is a local cluster and the folder in which it was started: commands run there
// find it without a kubeconfig, as a user that has set nothing.
type demoCluster struct{ cluster.Commands }

var shared cluster.Shared[*demoCluster]

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// demo is the cluster, with the sample workloads decided.
func demo(t *testing.T) *demoCluster {
	t.Helper()
	bin := cluster.Bin(t, "tangram", "gpu-scheduler", "gpu-controller", "gpu-agent", "kube-controller-manager", "kwok", "kubectl")
	return shared.Get(t, func() *demoCluster {
		dir, err := os.MkdirTemp("", "tangram-cli-")
		if err != nil {
			t.Fatal(err)
		}
		env := []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home")}
		c := &demoCluster{cluster.Commands{Bin: bin, Dir: dir, Env: env, Kubeconfig: filepath.Join(dir, ".tangram", "kubeconfig")}}
		c.must(t, []string{"up", "--detach", "--demo"})
		return c
	})
}

// End ends the cluster as users do; logs of a failure are kept.
func (c *demoCluster) End(failed bool) error {
	if r := c.run("down"); r.Code != 0 {
		return errors.New(r.String())
	}
	if failed {
		return nil
	}
	return os.RemoveAll(c.Dir)
}

// run runs tangram.
func (c *demoCluster) run(args ...string) cluster.Result { return c.Run("tangram", args...) }

// must runs tangram, which has to succeed and to print all of some texts.
func (c *demoCluster) must(t *testing.T, args []string, texts ...string) cluster.Result {
	t.Helper()
	return c.Must(t, texts, "tangram", args...)
}

// kubectl runs kubectl as the administrator, which has to succeed, and returns what it prints.
func (c *demoCluster) kubectl(t *testing.T, in string, args ...string) string {
	t.Helper()
	r := c.Kubectl(in, args...)
	if r.Code != 0 {
		t.Fatal(r)
	}
	return r.Out
}
