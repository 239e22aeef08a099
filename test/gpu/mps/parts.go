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

// The two shares: 70 and 30 % of compute and of memory.
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
	alone, err := t.together(ctx, order{seconds: t.seconds})
	if err != nil {
		return err
	}
	t.note("alone", alone)
	sliced, err := t.together(ctx, order{seconds: t.seconds}, order{seconds: t.seconds})
	if err != nil {
		return err
	}
	t.note("two without MPS", sliced)

	env, end, err := t.start(ctx)
	if err != nil {
		return err
	}
	defer end()
	for _, part := range []func(context.Context, [2][]string) error{
		t.throughput, t.memory, t.users, t.readOnlyPipe, t.evasion, t.guard, t.recovery,
	} {
		if err := part(ctx, env); err != nil {
			return err
		}
	}
	return nil
}

// start gives both shares and returns the environment of each.
func (t *trial) start(ctx context.Context) (env [2][]string, end func(), err error) {
	t.died, t.ready = make(chan mps.Death, 8), make(chan string, 8)
	t.manager, err = mps.New(mps.Options{
		Control: t.control, StateDir: t.state, MultiUser: true, HealthEvery: time.Second, Exclusive: mps.SMI("nvidia-smi"),
		Hooks: mps.Hooks{Died: func(d mps.Death) { t.died <- d }, Ready: func(gpu string) { t.ready <- gpu }},
	})
	if err != nil {
		return env, nil, err
	}
	// There is no container here, so a link stands for the mount.
	if err := os.Symlink(filepath.Join(t.state, t.gpu.UUID, "pipe"), mps.ContainerPipe); err != nil {
		return env, nil, err
	}
	end = func() {
		if err := t.manager.Keep(context.Background(), nil); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		t.manager.Close()
		t.note("compute mode after", t.computeMode(context.Background()))
		if err := os.Remove(mps.ContainerPipe); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	large, small := t.shares()
	began := time.Now()
	for i, share := range []mps.Share{large, small} {
		edits, err := t.manager.Add(ctx, t.gpu, share)
		if err != nil {
			end()
			return env, nil, err
		}
		env[i] = edits.Env
		if i == 0 {
			t.note("seconds to first share", time.Since(began).Seconds())
		}
	}
	<-t.ready
	t.note("compute mode shared", t.computeMode(ctx))
	t.note("environment", env)
	_, err = t.manager.Add(ctx, t.gpu, mps.Share{Allocation: "third", Namespace: "test", Pod: "third", Container: "main", ComputeMilli: 10})
	t.expect(errors.Is(err, mps.ErrOvercommitted), "a third share of 1 % is refused")
	t.note("third share", fmt.Sprint(err))
	return env, end, nil
}

func (t *trial) throughput(ctx context.Context, env [2][]string) error {
	each, err := t.together(ctx, order{env: env[0], seconds: t.seconds})
	if err != nil {
		return err
	}
	t.note("70 % alone", each)
	both, err := t.together(ctx, order{env: env[0], seconds: t.seconds}, order{env: env[1], seconds: t.seconds})
	if err != nil {
		return err
	}
	t.note("70 % and 30 % at once", both)
	ratio := both[0].TFLOPS / max(both[1].TFLOPS, 0.001)
	t.note("ratio", ratio)
	t.expect(ratio > 1.8 && ratio < 2.9, "the throughput of 70 and 30 % is about 7 to 3")
	return nil
}

// memory: what fits into the larger limit and not into the smaller.
func (t *trial) memory(ctx context.Context, env [2][]string) error {
	amount := t.gpu.MemoryMiB * 4 / 10
	got, err := t.together(ctx, order{env: env[0], allocate: amount}, order{env: env[1], allocate: amount})
	if err != nil {
		return err
	}
	t.note("allocation in each", got)
	t.expect(got[0].Allocated && !got[1].Allocated, "40 % of memory is given to the 70 % share and refused to the 30 % share")
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
		t.note("read-only pipe folder", err.Error())
		return nil
	}
	t.note("read-only pipe folder", got[0])
	return nil
}

// users: root and another user at the same time, with one server.
func (t *trial) users(ctx context.Context, env [2][]string) error {
	got, err := t.together(ctx, order{env: env[0], seconds: t.seconds}, order{env: env[1], seconds: t.seconds, user: 65534})
	if err != nil {
		return err
	}
	t.note("two users", got)
	t.expect(got[0].TFLOPS > 0 && got[1].TFLOPS > 0, "clients of two users run at the same time")
	return nil
}

// evasion: what a process gets that changes its own environment.
func (t *trial) evasion(ctx context.Context, env [2][]string) error {
	raised := replace(env[1], "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100")
	unset := []string{} // CUDA looks for the daemon at its default place
	elsewhere := replace(env[1], "CUDA_MPS_PIPE_DIRECTORY=/nonexistent")
	for _, try := range []struct {
		name string
		env  []string
	}{{"percentage raised", raised}, {"variables unset", unset}, {"daemon avoided", elsewhere}} {
		got, err := t.together(ctx, order{env: try.env, seconds: 1})
		if err != nil {
			return err
		}
		t.note("evasion: "+try.name, got[0])
		if try.name == "daemon avoided" {
			t.expect(got[0].TFLOPS == 0, "a process that avoids the daemon gets nothing")
		} else {
			t.expect(got[0].SMs > 0 && got[0].SMs < 110, "a process that raises its percentage gets at most the largest share")
		}
	}
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
			findings = append(findings, fmt.Sprintf("%s: %s, ended %v, %v", f.Kind, f.Detail, f.Ended, f.Err))
			ended = ended || f.Ended
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.note("guard findings", findings)
	t.note("guard seconds", time.Since(began).Seconds())
	t.note("guard memory assumed", assumed)
	t.expect(ended, "a client over its promised memory is ended")
	if ended {
		t.note("guard: the client", c.end())
	}
	return nil
}

// recovery: the daemon is killed under two clients.
func (t *trial) recovery(ctx context.Context, env [2][]string) error {
	var clients []*client
	for _, e := range env {
		c, err := t.begin(ctx, order{env: e, seconds: 3 * t.seconds})
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
		t.note("daemon killed: seen after s", time.Since(began).Seconds())
		t.note("daemon killed: reason", death.Reason.Error())
		t.note("daemon killed: containers", len(death.Shares))
	case <-time.After(30 * time.Second):
		return errors.New("the daemon's death was not seen")
	}
	select {
	case <-t.ready:
		t.note("daemon killed: back after s", time.Since(began).Seconds())
	case <-time.After(time.Minute):
		return fmt.Errorf("the daemon did not come back: %w", t.manager.Ready(t.gpu.UUID))
	}
	for i, c := range clients {
		t.note(fmt.Sprintf("daemon killed: client %d", i), c.end())
	}
	again, err := t.together(ctx, order{env: env[0], seconds: t.seconds}, order{env: env[1], seconds: t.seconds})
	if err != nil {
		return err
	}
	t.note("after recovery", again)
	t.expect(again[0].TFLOPS > 0 && again[1].TFLOPS > 0, "new clients run after the daemon came back")
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
