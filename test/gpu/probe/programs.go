package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// smi runs nvidia-smi.
func (p *probe) smi(args ...string) (string, error) {
	out, err := exec.CommandContext(p.ctx, "nvidia-smi", args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("nvidia-smi %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

// query asks nvidia-smi for values of the probed GPU by its names for them.
func (p *probe) query(names ...string) (map[string]string, error) {
	out, err := p.smi("-i", p.gpu.UUID, "--query-gpu="+strings.Join(names, ","), "--format=csv,noheader,nounits")
	if err != nil {
		return nil, err
	}
	values := strings.Split(strings.TrimSpace(out), ", ")
	if len(values) != len(names) {
		return nil, fmt.Errorf("nvidia-smi answered %d values to %d names: %s", len(values), len(names), out)
	}
	answers := map[string]string{}
	for i, name := range names {
		answers[name] = values[i]
	}
	return answers, nil
}

// line finds "name : value" in nvidia-smi's long answer.
func line(text, name string) string {
	found := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(name) + `\s*:\s*(.*?)\s*$`).FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return found[1]
}

// result is what load reports.
type result struct {
	CUDA           string
	Devices        int
	Name, UUID     string
	SMs            int
	MemoryMiB      int64
	ContextSeconds float64
	AllocateMiB    int64
	Allocated      bool
	AllocateError  string
	Start          float64 // Unix seconds
	FirstKernel    float64 // Unix seconds
	TFLOPS         float64
	Seconds        float64
	PID            int
	Error          string
}

// job is a load that runs.
type job struct {
	command *exec.Cmd
	out     bytes.Buffer
	ready   chan struct{} // closed when the first kernel has run, or the job ended
	stderr  bytes.Buffer
}

// start starts load on a device or MIG instance; empty for the default one.
func (p *probe) start(ctx context.Context, visible string, args ...string) (*job, error) {
	command := exec.CommandContext(ctx, p.load, args...)
	command.Env = os.Environ()
	if visible != "" {
		command.Env = append(command.Env, "CUDA_VISIBLE_DEVICES="+visible)
	}
	return launch(command)
}

func launch(command *exec.Cmd) (*job, error) {
	j := &job{command: command, ready: make(chan struct{})}
	command.Stdout = &j.out
	errors, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(j.ready)
		lines := bufio.NewScanner(errors)
		for lines.Scan() {
			if lines.Text() == "ready" {
				return
			}
			fmt.Fprintln(&j.stderr, lines.Text())
		}
	}()
	return j, nil
}

// wait waits for the job's end and its report. A report that says an error is an error.
func (j *job) wait() (result, error) {
	<-j.ready
	failed := j.command.Wait()
	var r result
	if err := json.Unmarshal(j.out.Bytes(), &r); err != nil {
		return r, fmt.Errorf("load wrote %q (%v): %s", j.out.String(), failed, j.stderr.String())
	}
	if failed != nil {
		return r, fmt.Errorf("load: %w: %s", failed, r.Error)
	}
	return r, nil
}

// work runs load to its end.
func (p *probe) work(visible string, args ...string) (result, error) {
	j, err := p.start(p.ctx, visible, args...)
	if err != nil {
		return result{}, err
	}
	return j.wait()
}
