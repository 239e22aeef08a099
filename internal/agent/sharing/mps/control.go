package mps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// control talks to one daemon, by running the same program with a command on its input.
type control struct {
	path, pipe string
	within     time.Duration
}

// errNotAsked: the question could not be asked, which says nothing about the daemon.
var errNotAsked = errors.New("cannot run the control program")

// ask sends a command and returns the answer, without spaces around it.
func (c control) ask(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, c.path)
	cmd.Env = append(environment(), envPipe+"="+c.pipe)
	cmd.Stdin = strings.NewReader(command + "\n")
	cmd.Stdout, cmd.Stderr = &out, &out
	// A child that keeps the output open must not keep us.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("MPS control: %s: %w: %w", command, errNotAsked, err)
	}
	err := cmd.Wait()
	answer := strings.TrimSpace(out.String())
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("MPS control: %s: no answer within %v", command, c.within)
	case err != nil:
		return "", fmt.Errorf("MPS control: %s: %w: %s", command, err, shorten(answer))
	}
	return answer, nil
}

// servers are the process IDs of the daemon's servers.
func (c control) servers(ctx context.Context) ([]int, error) {
	answer, err := c.ask(ctx, "get_server_list")
	return numbers(answer), err
}

// clients are the process IDs of all clients, each with its server's.
func (c control) clients(ctx context.Context) (map[int]int, error) {
	servers, err := c.servers(ctx)
	if err != nil {
		return nil, err
	}
	out := map[int]int{}
	for _, server := range servers {
		answer, err := c.ask(ctx, fmt.Sprintf("get_client_list %d", server))
		if err != nil {
			return nil, err
		}
		for _, client := range numbers(answer) {
			out[client] = server
		}
	}
	return out, nil
}

// limit makes the daemon, and the servers it has, allow no client more than l. Clients
// that are connected keep what they have.
func (c control) limit(ctx context.Context, l limits) error {
	commands := []string{
		"set_default_active_thread_percentage " + percent(l.milli),
		fmt.Sprintf("set_default_device_pinned_mem_limit 0 %dM", l.memoryMiB),
	}
	servers, err := c.servers(ctx)
	if err != nil {
		return err
	}
	for _, server := range servers {
		commands = append(commands,
			fmt.Sprintf("set_active_thread_percentage %d %s", server, percent(l.milli)),
			fmt.Sprintf("set_device_pinned_mem_limit %d 0 %dM", server, l.memoryMiB))
	}
	for _, command := range commands {
		if _, err := c.ask(ctx, command); err != nil {
			return err
		}
	}
	// Refusals are words on the output; the number that was set is the proof.
	answer, err := c.ask(ctx, "get_default_active_thread_percentage")
	if err != nil {
		return err
	}
	if set, err := strconv.ParseFloat(answer, 64); err == nil && math.Abs(set*10-float64(l.milli)) > 5 {
		return fmt.Errorf("MPS control: percentage is %s after setting %s", answer, percent(l.milli))
	}
	if answer, err = c.ask(ctx, "get_default_device_pinned_mem_limit 0"); err != nil {
		return err
	}
	// It answers in whole G, rounded down.
	if set, ok := parseMemoryLimit("0=" + answer); ok && (set > l.memoryMiB || set <= l.memoryMiB-1024) {
		return fmt.Errorf("MPS control: memory limit is %s after setting %dM", answer, l.memoryMiB)
	}
	return nil
}

// errNotClient: the process is no client of the daemon.
var errNotClient = errors.New("not a client of the MPS daemon")

// terminate ends a client's use of the GPU. The process itself goes on, and every
// further call of CUDA fails in it.
func (c control) terminate(ctx context.Context, client int) error {
	clients, err := c.clients(ctx)
	if err != nil {
		return err
	}
	server, ok := clients[client]
	if !ok {
		return fmt.Errorf("process %d: %w", client, errNotClient)
	}
	answer, err := c.ask(ctx, fmt.Sprintf("terminate_client %d %d", server, client))
	if err != nil {
		return err
	}
	if clients, err = c.clients(ctx); err != nil {
		return err
	}
	if _, still := clients[client]; still {
		return fmt.Errorf("MPS control: process %d is still a client: %s", client, shorten(answer))
	}
	return nil
}

// numbers returns the lines of an answer that are process IDs.
func numbers(answer string) (out []int) {
	for line := range strings.Lines(answer) {
		if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && n > 0 {
			out = append(out, n)
		}
	}
	return out
}

// environment is the agent's own without what would point CUDA elsewhere.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "CUDA_MPS_") || strings.HasPrefix(variable, "CUDA_VISIBLE_DEVICES=")
	})
}

// shorten keeps the end of a text, where the reason is.
func shorten(text string) string {
	const most = 500
	if len(text) > most {
		return "..." + text[len(text)-most:]
	}
	return text
}
