package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Commands runs programs as a person does, and keeps what they print.
type Commands struct {
	// Bin is the folder of the programs; Dir the folder in which they run, the test's own
	// when empty.
	Bin, Dir string
	// Env is their environment; the test's own when nil.
	Env []string
	// Kubeconfig is given to kubectl.
	Kubeconfig string
}

// Result is what a command did.
type Result struct {
	Command string
	// Code is the exit code; -1 when it did not start, or not end in time.
	Code     int
	Out, Err string
}

func (r Result) String() string {
	return fmt.Sprintf("%s: exit code %d\n%s%s", r.Command, r.Code, r.Out, r.Err)
}

// commandLimit is how long a command may take: tangram up takes a minute on a busy machine.
const commandLimit = 3 * time.Minute

// Run runs a program of Bin, or one with a path, to its end.
func (c Commands) Run(program string, args ...string) Result { return c.Feed("", program, args...) }

// Feed is Run with a standard input.
func (c Commands) Feed(in, program string, args ...string) Result {
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	path := program
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.Bin, program)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	cmd.Stdin = strings.NewReader(in)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	r := Result{Command: filepath.Base(program) + " " + strings.Join(args, " "), Out: out.String(), Err: problems.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		r.Code, r.Err = -1, err.Error()
	}
	return r
}

// Must runs a program that has to succeed, and to print all of some texts.
func (c Commands) Must(t testing.TB, texts []string, program string, args ...string) Result {
	t.Helper()
	r := c.Run(program, args...)
	if r.Code != 0 {
		t.Fatal(r)
	}
	for _, text := range texts {
		if !strings.Contains(r.Out, text) {
			t.Errorf("%q is not in what is printed:\n%s", text, r)
		}
	}
	return r
}

// Kubectl runs kubectl as the administrator; what it prints is trimmed.
func (c Commands) Kubectl(in string, args ...string) Result {
	r := c.Feed(in, "kubectl", append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
	r.Out = strings.TrimSpace(r.Out)
	return r
}

// Apply creates objects from manifests, with kubectl.
func (c Commands) Apply(t testing.TB, manifests string) {
	t.Helper()
	if r := c.Kubectl(manifests, "apply", "-f", "-"); r.Code != 0 {
		t.Error(r)
	}
}
