package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// outcome is what the load generator reports, as far as it is used here.
type outcome struct {
	SMs           int     `json:"sms"`
	TFLOPS        float64 `json:"tflops"`
	AllocateMiB   int64   `json:"allocateMiB,omitempty"`
	Allocated     bool    `json:"allocated,omitempty"`
	AllocateError string  `json:"allocateError,omitempty"`
	Error         string  `json:"error,omitempty"`
	// Ended is how the process ended when it did not exit with 0.
	Ended string `json:"ended,omitempty"`
}

// client is one load generator that runs.
type client struct {
	cmd *exec.Cmd
	out string
}

// order is what a client is to do.
type order struct {
	env      []string // besides the program's own
	seconds  int
	allocate int64 // MiB
	user     uint32
	// readOnly makes the daemon's folder read-only for the client, as
	// mps.Options.ReadOnlyPipe does in a container.
	readOnly bool
}

// readOnlyScript makes its first argument a read-only mount and runs the rest.
const readOnlyScript = `mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"`

// begin starts a client.
func (t *trial) begin(ctx context.Context, o order) (*client, error) {
	dir, err := os.MkdirTemp("", "tangram-mps-client")
	if err != nil {
		return nil, err
	}
	// Clients of other users write there too.
	if err := os.Chmod(dir, 0o777); err != nil {
		return nil, err
	}
	c := &client{out: filepath.Join(dir, "out.json")}
	line := []string{t.load, "-seconds", fmt.Sprint(o.seconds), "-allocate-mib", fmt.Sprint(o.allocate), "-out", c.out}
	if o.readOnly {
		line = append([]string{"unshare", "-m", "sh", "-c", readOnlyScript, "sh", filepath.Join(t.state, t.gpu.UUID, "pipe")}, line...)
	}
	c.cmd = exec.CommandContext(ctx, line[0], line[1:]...)
	c.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CUDA_") })
	c.cmd.Env = append(c.cmd.Env, o.env...)
	if o.user != 0 {
		c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: o.user, Gid: o.user}}
	}
	return c, c.cmd.Start()
}

// end waits for a client and returns what it reports.
func (c *client) end() outcome {
	var out outcome
	err := c.cmd.Wait()
	data, readErr := os.ReadFile(c.out)
	if readErr == nil {
		readErr = json.Unmarshal(data, &out)
	}
	if readErr != nil && out.Error == "" {
		out.Error = readErr.Error()
	}
	if err != nil {
		out.Ended = err.Error()
	}
	_ = os.RemoveAll(filepath.Dir(c.out)) // a leftover in the temporary folder is harmless
	return out
}

// together runs clients at the same time.
func (t *trial) together(ctx context.Context, orders ...order) ([]outcome, error) {
	var clients []*client
	for _, o := range orders {
		c, err := t.begin(ctx, o)
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
	}
	var out []outcome
	for _, c := range clients {
		out = append(out, c.end())
	}
	return out, nil
}

// problem is what a client says it lacked; empty when it ended well.
func (o outcome) problem() string {
	if o.Error != "" {
		return o.Error
	}
	return o.Ended
}

// ask sends a command to the daemon and returns its answer, or how it failed.
func (t *trial) ask(ctx context.Context, command string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.control)
	cmd.Env = append(os.Environ(), "CUDA_MPS_PIPE_DIRECTORY="+filepath.Join(t.state, t.gpu.UUID, "pipe"))
	cmd.Stdin = strings.NewReader(command + "\n")
	said, err := cmd.CombinedOutput()
	answer := strings.TrimSpace(string(said))
	if err != nil {
		answer += fmt.Sprintf(" (%v)", err)
	}
	return answer
}
