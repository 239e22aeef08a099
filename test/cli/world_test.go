// Package cli tests the command line as its users run it: the program itself, in a shell's
// place, against a local cluster that tangram up started. All tests share that cluster and
// only ask it.
package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/test/cluster"
)

// patience bounds a command: all answer in a second or two.
const patience = time.Minute

// demoCluster is a local cluster and the folder in which it was started: commands run there
// find it without a kubeconfig.
type demoCluster struct {
	bin, dir string
}

var shared cluster.Shared[*demoCluster]

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// demo is the cluster, with the sample workloads decided.
func demo(t *testing.T) *demoCluster {
	t.Helper()
	bin := cluster.Bin(t, "tangram", "gpu-scheduler", "gpu-controller", "gpu-agent", "kube-controller-manager", "kwok", "kubectl")
	return shared.Get(t, func() (*demoCluster, error) { return start(bin) })
}

func start(bin string) (*demoCluster, error) {
	dir, err := os.MkdirTemp("", "tangram-cli-")
	if err != nil {
		return nil, err
	}
	c := &demoCluster{bin: bin, dir: dir}
	if r := c.runFor(3*time.Minute, "up", "--detach", "--demo"); r.code != 0 {
		return nil, errors.New(r.String())
	}
	return c, nil
}

// End ends the cluster as users do; logs of a failure are kept.
func (c *demoCluster) End(failed bool) error {
	if r := c.run("down"); r.code != 0 {
		return errors.New(r.String())
	}
	if failed {
		return nil
	}
	return os.RemoveAll(c.dir)
}

// result is what a command did.
type result struct {
	args        []string
	code        int
	out, errOut string
}

func (r result) String() string {
	return fmt.Sprintf("tangram %s: exit code %d\n%s%s", strings.Join(r.args, " "), r.code, r.out, r.errOut)
}

// run runs a command in the folder of the cluster, as a user without any configuration.
func (c *demoCluster) run(args ...string) result { return c.runFor(patience, args...) }

func (c *demoCluster) runFor(limit time.Duration, args ...string) result {
	return c.program(limit, "", filepath.Join(c.bin, "tangram"), args...)
}

func (c *demoCluster) program(limit time.Duration, in, path string, args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = c.dir, c.environment()
	cmd.Stdin = strings.NewReader(in)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	r := result{args: args, out: out.String(), errOut: errOut.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		r.code, r.errOut = -1, err.Error()
	}
	return r
}

// environment is that of a user who has set nothing.
func (c *demoCluster) environment() []string {
	return []string{"PATH=" + c.bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + filepath.Join(c.dir, "home")}
}

// kubectl runs kubectl as the administrator.
func (c *demoCluster) kubectl(t *testing.T, in string, args ...string) string {
	t.Helper()
	r := c.program(patience, in, filepath.Join(c.bin, "kubectl"), append([]string{"--kubeconfig", filepath.Join(c.dir, ".tangram", "kubeconfig")}, args...)...)
	if r.code != 0 {
		t.Fatal(r)
	}
	return strings.TrimSpace(r.out)
}

// must runs a command that has to succeed, and to print all of some texts.
func (c *demoCluster) must(t *testing.T, args []string, texts ...string) result {
	t.Helper()
	r := c.run(args...)
	if r.code != 0 {
		t.Fatal(r)
	}
	for _, text := range texts {
		if !strings.Contains(r.out, text) {
			t.Errorf("%q is not in what is printed:\n%s", text, r)
		}
	}
	return r
}
