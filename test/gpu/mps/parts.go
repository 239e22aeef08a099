package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mps"
)

// shares are two: 70 and 30 % of compute and of memory.
func (t *trial) shares() (large, small mps.Share) {
	large = mps.Share{Allocation: "large", Namespace: "test", Pod: "large", PodUID: "uid-large", Container: "main",
		ComputeMilli: 700, MemoryMiB: t.gpu.MemoryMiB * 7 / 10}
	small = mps.Share{Allocation: "small", Namespace: "test", Pod: "small", PodUID: "uid-small", Container: "main",
		ComputeMilli: 300, MemoryMiB: t.gpu.MemoryMiB * 3 / 10}
	return large, small
}

// run runs all parts. An error ends it; what is not as promised does not.
func (t *trial) run(ctx context.Context) error {
	if err := t.discover(ctx); err != nil {
		return err
	}
	if err := t.publish(); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(t.state) }() // a leftover below /run is harmless
	alone, err := t.together(ctx, order{seconds: t.seconds})
	if err != nil {
		return err
	}
	sliced, err := t.together(ctx, order{seconds: t.seconds}, order{seconds: t.seconds})
	if err != nil {
		return err
	}
	t.alone = alone[0].TFLOPS

	env, end, err := t.start(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := t.throughput(ctx, env, alone, sliced); err != nil {
		return err
	}
	for _, part := range []func(context.Context, [2][]string) error{
		t.memory, t.users, t.readOnlyPipe, t.evasion, t.answers, t.guard, t.recovery,
	} {
		if err := part(ctx, env); err != nil {
			return err
		}
	}
	return nil
}

// start gives both shares and returns the environment of each.
func (t *trial) start(ctx context.Context) (env [2][]string, end func(), err error) {
	// There is no container here, so a link stands for the mount.
	if err := os.Symlink(filepath.Join(t.state, t.gpu.UUID, "pipe"), mps.ContainerPipe); err != nil {
		return env, nil, err
	}
	end = func() {
		if t.manager != nil {
			if err := t.manager.Keep(context.Background(), nil); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			t.manager.Close()
		}
		mode := t.computeMode(context.Background())
		t.s.Check(mode == "Default", "after the last share the daemon is stopped and the compute mode is %s again", mode)
		if err := os.Remove(mps.ContainerPipe); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	began := time.Now()
	if env, err = t.give(ctx, true); err != nil {
		t.s.Check(false, "the daemon runs with -multiuser-server: %v", err)
		began = time.Now()
		if env, err = t.give(ctx, false); err != nil {
			end()
			return env, nil, err
		}
	} else {
		t.s.Check(true, "the daemon runs with -multiuser-server")
	}
	t.s.Printf("- from the request for the first share to both given, daemon and server started: %s", time.Since(began).Round(time.Millisecond))
	mode := t.computeMode(ctx)
	t.s.Check(mode == "Exclusive_Process", "while it is shared, the compute mode is %s", mode)
	t.s.Printf("- environments: `%s` and `%s`", strings.Join(env[0], " "), strings.Join(env[1], " "))
	_, err = t.manager.Add(ctx, t.gpu, mps.Share{Allocation: "third", Namespace: "test", Pod: "third", Container: "main", ComputeMilli: 10})
	t.s.Check(errors.Is(err, mps.ErrOvercommitted), "a third share, of 1 %%, is refused: %v", err)
	return env, end, nil
}

// give starts a manager and gives both shares.
func (t *trial) give(ctx context.Context, multiUser bool) (env [2][]string, err error) {
	if t.manager != nil {
		if err := t.manager.Keep(ctx, nil); err != nil {
			return env, err
		}
		t.manager.Close()
	}
	t.died, t.ready = make(chan mps.Death, 8), make(chan string, 8)
	t.manager, err = mps.New(mps.Options{
		Control: t.control, StateDir: t.state, MultiUser: multiUser, HealthEvery: time.Second, Exclusive: mps.SMI("nvidia-smi"),
		Hooks: mps.Hooks{Died: func(d mps.Death) { t.died <- d }, Ready: func(gpu string) { t.ready <- gpu }},
	})
	if err != nil {
		return env, err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	large, small := t.shares()
	for i, share := range []mps.Share{large, small} {
		edits, err := t.manager.Add(ctx, t.gpu, share)
		if err != nil {
			return env, err
		}
		env[i] = edits.Env
	}
	<-t.ready
	return env, nil
}

func (t *trial) throughput(ctx context.Context, env [2][]string, alone, sliced []outcome) error {
	var each []outcome
	for _, e := range env {
		one, err := t.together(ctx, order{env: e, seconds: t.seconds})
		if err != nil {
			return err
		}
		each = append(each, one...)
	}
	both, err := t.together(ctx, order{env: env[0], seconds: t.seconds}, order{env: env[1], seconds: t.seconds})
	if err != nil {
		return err
	}
	t.s.Printf("\nThroughput of the CUDA program (32 bit multiply-adds on every SM it is given), %d s each:", t.seconds)
	t.s.Table("run", "client", "SMs", "TFLOP/s", "% of alone without MPS", "error")
	for _, run := range []struct {
		name    string
		clients []string
		got     []outcome
	}{
		{"alone, without MPS", []string{"whole GPU"}, alone},
		{"two at once, without MPS", []string{"first", "second"}, sliced},
		{"one at a time, with MPS", []string{"70 %", "30 %"}, each},
		{"two at once, with MPS", []string{"70 %", "30 %"}, both},
	} {
		for i, got := range run.got {
			t.s.Row(run.name, run.clients[i], fmt.Sprint(got.SMs), fmt.Sprintf("%.1f", got.TFLOPS), fmt.Sprintf("%.0f", 100*got.TFLOPS/max(t.alone, 0.001)), got.problem())
		}
	}
	t.s.Printf("")
	for i, share := range []float64{0.7, 0.3} {
		part := both[i].TFLOPS / max(t.alone, 0.001)
		t.s.Check(part > share-0.05 && part < share+0.03, "the share of %.0f %% gets %.0f %% of the GPU's throughput while the other works", 100*share, 100*part)
	}
	return nil
}

// memory: what fits into the larger limit and not into the smaller.
func (t *trial) memory(ctx context.Context, env [2][]string) error {
	amount := t.gpu.MemoryMiB * 4 / 10
	got, err := t.together(ctx, order{env: env[0], allocate: amount}, order{env: env[1], allocate: amount})
	if err != nil {
		return err
	}
	t.s.Check(got[0].Allocated && !got[1].Allocated && got[1].AllocateError != "",
		"an allocation of %d MiB (40 %% of the memory): the 70 %% share got it (%v), the 30 %% share did not (%s)", amount, got[0].Allocated, got[1].AllocateError)
	return nil
}

// publish copies the load generator to where every user may run it.
func (t *trial) publish() error {
	data, err := os.ReadFile(t.load)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(t.state, 0o755); err != nil {
		return err
	}
	t.load = filepath.Join(t.state, "load")
	return os.WriteFile(t.load, data, 0o755)
}

// readOnlyPipe: whether a client works when it cannot change the daemon's folder.
func (t *trial) readOnlyPipe(ctx context.Context, env [2][]string) error {
	got, err := t.together(ctx, order{env: env[0], seconds: 1, readOnly: true})
	if err != nil {
		return err
	}
	t.s.Check(got[0].TFLOPS > 0, "a client works with a read-only pipe folder: %.1f TFLOP/s %s", got[0].TFLOPS, got[0].problem())
	return nil
}

// users: root and another user at the same time, with one server.
func (t *trial) users(ctx context.Context, env [2][]string) error {
	got, err := t.together(ctx, order{env: env[0], seconds: t.seconds}, order{env: env[1], seconds: t.seconds, user: 65534})
	if err != nil {
		return err
	}
	t.s.Check(got[0].TFLOPS > 0 && got[1].TFLOPS > 0, "clients of two users at the same time: root's %.1f TFLOP/s %s, user 65534's %.1f TFLOP/s %s",
		got[0].TFLOPS, got[0].problem(), got[1].TFLOPS, got[1].problem())
	return nil
}

// evasion: what a process gets that changes its own environment.
func (t *trial) evasion(ctx context.Context, env [2][]string) error {
	t.s.Printf("\nA process of the 30 %% share that changes its environment before it uses CUDA:")
	t.s.Table("change", "SMs", "TFLOP/s", "error", "promised", "")
	for _, try := range []struct {
		name, promised string
		env            []string
		ok             func(outcome) bool
	}{
		{"percentage raised to 100", "at most the largest share", replace(env[1], "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100"),
			func(o outcome) bool { return o.SMs > 0 && o.TFLOPS < 0.75*t.alone }},
		{"all variables unset", "at most the largest share", nil, func(o outcome) bool { return o.SMs > 0 && o.TFLOPS < 0.75*t.alone }},
		{"pipe folder elsewhere, to avoid the daemon", "nothing", replace(env[1], "CUDA_MPS_PIPE_DIRECTORY=/nonexistent"),
			func(o outcome) bool { return o.TFLOPS == 0 }},
	} {
		got, err := t.together(ctx, order{env: try.env, seconds: 1})
		if err != nil {
			return err
		}
		t.s.Row(try.name, fmt.Sprint(got[0].SMs), fmt.Sprintf("%.1f", got[0].TFLOPS), got[0].problem(), try.promised, t.s.Count(try.ok(got[0])))
	}
	t.s.Printf("")
	return nil
}

// answers shows the daemon's own words, which the agent reads.
func (t *trial) answers(ctx context.Context, env [2][]string) error {
	c, err := t.begin(ctx, order{env: env[1], seconds: 20})
	if err != nil {
		return err
	}
	defer func() { _ = c.cmd.Process.Kill() }() // it has ended when all is well
	listed := func() (server string, ok bool) {
		for _, server := range strings.Fields(t.ask(ctx, "get_server_list")) {
			for _, client := range strings.Fields(t.ask(ctx, "get_client_list "+server)) {
				if client == fmt.Sprint(c.cmd.Process.Pid) {
					return server, true
				}
			}
		}
		return "", false
	}
	server, ok := "", false
	for began := time.Now(); !ok && time.Since(began) < 10*time.Second; time.Sleep(50 * time.Millisecond) {
		server, ok = listed()
	}
	if !ok {
		t.s.Check(false, "the client %d is in the daemon's list: servers %q", c.cmd.Process.Pid, t.ask(ctx, "get_server_list"))
		return nil
	}
	t.s.Printf("What the daemon answers (server %s, client %d of the 30 %% share):\n\n```", server, c.cmd.Process.Pid)
	for _, command := range []string{
		"get_server_list", "get_client_list " + server, "ps", "get_default_active_thread_percentage", "get_active_thread_percentage " + server,
		"get_default_device_pinned_mem_limit 0", "get_device_pinned_mem_limit " + server + " 0", "set_default_active_thread_percentage nonsense",
		fmt.Sprintf("terminate_client %s %d", server, c.cmd.Process.Pid),
	} {
		began := time.Now()
		answer := t.ask(ctx, command)
		t.s.Printf("> %s    (%s)\n%s", command, time.Since(began).Round(time.Millisecond), answer)
	}
	_, still := listed()
	t.s.Printf("```\n")
	began := time.Now()
	got := c.end()
	t.s.Check(!still && got.problem() != "", "terminate_client: in the list at once after: %v; the program ended %s later with %q", still, time.Since(began).Round(time.Millisecond), got.problem())
	t.s.Printf("- once more for the same client: %q", t.ask(ctx, fmt.Sprintf("terminate_client %s %d", server, c.cmd.Process.Pid)))
	return nil
}

// guard: a client of the 30 % share raises its memory limit and uses it.
func (t *trial) guard(ctx context.Context, env [2][]string) error {
	amount := t.gpu.MemoryMiB * 4 / 10
	c, err := t.begin(ctx, order{env: replace(env[1], fmt.Sprintf("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=%dM", t.gpu.MemoryMiB)), seconds: 60, allocate: amount})
	if err != nil {
		return err
	}
	defer func() { _ = c.cmd.Process.Kill() }() // it has ended when all is well
	guard := mps.NewGuard(t.manager, mps.GuardOptions{Owner: func(pid int) (mps.Owner, bool) {
		return mps.Owner{PodUID: "uid-small"}, pid == c.cmd.Process.Pid
	}})
	began := time.Now()
	var findings []string
	ended, assumed := false, false
	for ctx.Err() == nil && !ended && time.Since(began) < 30*time.Second {
		processes, err := t.processes(ctx)
		if err != nil {
			return err
		}
		if _, listed := processes[c.cmd.Process.Pid]; !listed && time.Since(began) > 10*time.Second {
			// Some virtual machines list no processes.
			processes[c.cmd.Process.Pid], assumed = amount, true
		}
		var sample device.Sample
		sample.UUID = t.gpu.UUID
		for pid, mib := range processes {
			sample.Processes = append(sample.Processes, device.Process{PID: pid, MemoryMiB: mib})
		}
		for _, f := range guard.Check(ctx, []device.Sample{sample}) {
			findings = append(findings, fmt.Sprintf("%s: %s, ended %v, error %v", f.Kind, f.Detail, f.Ended, f.Err))
			ended = ended || f.Ended
		}
		time.Sleep(500 * time.Millisecond) // the pause of the agent's samples, shortened
	}
	t.s.Check(ended && !assumed, "a client that raises its own limit and allocates 40 %% of the memory with a share of 30 %% is ended by the Guard, %s after its start (a check every 0.5 s): %s",
		time.Since(began).Round(100*time.Millisecond), strings.Join(findings, "; "))
	if assumed {
		t.s.Printf("- nvidia-smi did not list the client: its memory was assumed")
	}
	if ended {
		got := c.end()
		t.s.Check(got.problem() != "", "and its program ends with %q", got.problem())
	}
	return nil
}

// recovery: the daemon is killed under two clients.
func (t *trial) recovery(ctx context.Context, env [2][]string) error {
	var clients []*client
	for _, e := range env {
		c, err := t.begin(ctx, order{env: e, seconds: 2 * t.seconds})
		if err != nil {
			return err
		}
		clients = append(clients, c)
	}
	time.Sleep(2 * time.Second) // both work
	data, err := os.ReadFile(filepath.Join(t.state, t.gpu.UUID, "pipe", "nvidia-cuda-mps-control.pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return err
	}
	began := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	select {
	case death := <-t.died:
		t.s.Check(len(death.Shares) == 2, "the daemon is killed under two clients: seen after %s (%v), %d containers told", time.Since(began).Round(time.Millisecond), death.Reason, len(death.Shares))
	case <-time.After(30 * time.Second):
		return errors.New("the daemon's death was not seen")
	}
	select {
	case <-t.ready:
		t.s.Check(true, "and back after %s", time.Since(began).Round(time.Millisecond))
	case <-time.After(40 * time.Second):
		return fmt.Errorf("the daemon did not come back: %w", t.manager.Ready(t.gpu.UUID))
	}
	for i, c := range clients {
		t.s.Printf("- what became of client %d: %q", i+1, c.end().problem())
	}
	again, err := t.together(ctx, order{env: env[0], seconds: 2}, order{env: env[1], seconds: 2})
	if err != nil {
		return err
	}
	t.s.Check(again[0].TFLOPS > 0 && again[1].TFLOPS > 0, "new clients of the same shares, with the same environment: %.1f TFLOP/s %s and %.1f TFLOP/s %s",
		again[0].TFLOPS, again[0].problem(), again[1].TFLOPS, again[1].problem())
	return nil
}

// processes are the memory of each process on the GPU in MiB.
func (t *trial) processes(ctx context.Context) (map[int]int64, error) {
	said, err := smi(ctx, "-i", t.gpu.UUID, "--query-compute-apps=pid,used_memory")
	if err != nil {
		return nil, err
	}
	out := map[int]int64{}
	for line := range strings.Lines(said) {
		pid, mib, _ := strings.Cut(strings.TrimSpace(line), ", ")
		p, pidErr := strconv.Atoi(pid)
		m, memoryErr := strconv.ParseInt(mib, 10, 64)
		if pidErr == nil && memoryErr == nil {
			out[p] = m
		}
	}
	return out, nil
}

// replace sets one variable.
func replace(env []string, variable string) []string {
	name, _, _ := strings.Cut(variable, "=")
	out := []string{variable}
	for _, v := range env {
		if !strings.HasPrefix(v, name+"=") {
			out = append(out, v)
		}
	}
	return out
}
