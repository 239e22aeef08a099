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
	"sync"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/internal/local"
)

// patience bounds a command: all answer in a second or two.
const patience = time.Minute

// cluster is a local cluster and the folder in which it was started: commands run there
// find it without a kubeconfig.
type cluster struct {
	bin, dir string
}

var shared struct {
	sync.Mutex
	cluster *cluster
	err     error
}

// TestMain ends the cluster after the last test.
func TestMain(m *testing.M) {
	code := m.Run()
	if c := shared.cluster; c != nil {
		if r := c.run("down"); r.code != 0 {
			fmt.Fprintln(os.Stderr, r)
			code = 1
		}
		if code == 0 { // logs of a failure are kept
			_ = os.RemoveAll(c.dir)
		}
	}
	os.Exit(code)
}

// demo is the cluster, with the sample workloads decided.
func demo(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short, and this test starts a control plane")
	}
	bin := os.Getenv("TANGRAM_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", "bin")
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	err = local.RequirePrograms(bin, "tangram", "gpu-scheduler", "gpu-controller", "gpu-agent", "etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kubectl")
	if err != nil {
		if os.Getenv("TANGRAM_BIN") != "" {
			t.Fatal(err) // make has built them: a skip would hide a broken build
		}
		t.Skipf("skipped: %v", err)
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil && shared.err == nil {
		shared.cluster, shared.err = start(bin)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

func start(bin string) (*cluster, error) {
	dir, err := os.MkdirTemp("", "tangram-cli-")
	if err != nil {
		return nil, err
	}
	c := &cluster{bin: bin, dir: dir}
	if r := c.runFor(3*time.Minute, "up", "--detach", "--demo"); r.code != 0 {
		return nil, errors.New(r.String())
	}
	return c, nil
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
func (c *cluster) run(args ...string) result { return c.runFor(patience, args...) }

func (c *cluster) runFor(limit time.Duration, args ...string) result {
	return c.program(limit, "", filepath.Join(c.bin, "tangram"), args...)
}

func (c *cluster) program(limit time.Duration, in, path string, args ...string) result {
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
func (c *cluster) environment() []string {
	return []string{"PATH=" + c.bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + filepath.Join(c.dir, "home")}
}

// kubectl runs kubectl as the administrator.
func (c *cluster) kubectl(t *testing.T, in string, args ...string) string {
	t.Helper()
	r := c.program(patience, in, filepath.Join(c.bin, "kubectl"), append([]string{"--kubeconfig", filepath.Join(c.dir, ".tangram", "kubeconfig")}, args...)...)
	if r.code != 0 {
		t.Fatal(r)
	}
	return strings.TrimSpace(r.out)
}

// must runs a command that has to succeed, and to print all of some texts.
func (c *cluster) must(t *testing.T, args []string, texts ...string) result {
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
