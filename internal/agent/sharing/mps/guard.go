package mps

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Kind is what the Guard found.
type Kind string

// The kinds.
const (
	// OverMemory: a container uses more memory than it was promised. MPS limits each
	// process; this is about all processes of the container together.
	OverMemory Kind = "OverMemory"
	// Tampered: a process began with an environment that allows it more than the
	// container was given.
	Tampered Kind = "Tampered"
	// Bypass: a process uses the GPU without the daemon, so without limits.
	Bypass Kind = "Bypass"
)

// Finding is one container that has more than its share, or tries to.
type Finding struct {
	Kind  Kind
	GPU   string
	Share Share
	PID   int
	// Detail says what was promised and what is used.
	Detail string
	// Ended: the client was ended. Err says why not, where that was tried.
	Ended bool
	Err   error
}

// GuardOptions are the settings of a Guard.
type GuardOptions struct {
	// Proc is /proc of the node; default /proc.
	Proc string
	// SlackMiB is how much a container may use beyond its promise: memory that the driver
	// takes for each client counts too. Default 512.
	SlackMiB int64
	// Strikes is how many checks in a row must find a container over its memory before
	// its client is ended. Default 2: one sample may be from between free and allocate.
	Strikes int
	// Container names the container of a pod that has a runtime's container ID; false
	// when unknown. Needed only for pods that have several shares of one GPU. May be nil.
	Container func(podUID, containerID string) (string, bool)
	// Owner is the container of a process; nil for OwnerOf.
	Owner func(pid int) (Owner, bool)
}

// Guard watches that containers use what they were promised. It is for one goroutine.
type Guard struct {
	manager *Manager
	options GuardOptions
	strikes map[string]int // by GPU and allocation
	// told are findings about processes that were reported, so that each is reported
	// once.
	told map[toldKey]bool
}

type toldKey struct {
	gpu  string
	pid  int
	kind Kind
}

// NewGuard makes a Guard over a Manager's shares.
func NewGuard(manager *Manager, options GuardOptions) *Guard {
	options.Proc = cmp.Or(options.Proc, "/proc")
	options.SlackMiB = cmp.Or(options.SlackMiB, 512)
	options.Strikes = cmp.Or(options.Strikes, 2)
	if options.Owner == nil {
		options.Owner = func(pid int) (Owner, bool) {
			owner, ok, err := OwnerOf(options.Proc, pid)
			return owner, ok && err == nil // an error: the process is gone
		}
	}
	return &Guard{manager: manager, options: options, strikes: map[string]int{}, told: map[toldKey]bool{}}
}

// Check compares a sample of all GPUs with the shares, ends what is over its memory and
// returns what is new, sorted by GPU and process.
func (g *Guard) Check(ctx context.Context, samples []device.Sample) []Finding {
	shares := g.manager.Shares()
	strikes, told := map[string]int{}, map[toldKey]bool{}
	var out []Finding
	for _, sample := range samples {
		if sample.Err != nil || len(shares[sample.UUID]) == 0 {
			continue
		}
		check := gpuCheck{Guard: g, gpu: sample.UUID, strikesNow: strikes, toldNow: told}
		// Without the list of clients, bypassing cannot be told.
		check.clients, check.clientsErr = g.manager.control(sample.UUID).clients(ctx)
		out = append(out, check.run(ctx, sample.Processes, shares[sample.UUID])...)
	}
	// What is not seen now is forgotten: process IDs are given again.
	g.strikes, g.told = strikes, told
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.PID, b.PID)) })
	return out
}

// gpuCheck is the check of one GPU.
type gpuCheck struct {
	*Guard
	gpu        string
	clients    map[int]int
	clientsErr error
	strikesNow map[string]int
	toldNow    map[toldKey]bool
}

func (c *gpuCheck) run(ctx context.Context, processes []device.Process, shares []Share) (out []Finding) {
	used := map[string][]device.Process{}
	for _, process := range processes {
		share, ok := c.shareOf(process.PID, shares)
		if !ok {
			continue
		}
		used[share.Allocation] = append(used[share.Allocation], process)
		out = append(out, c.process(process, share)...)
	}
	for _, share := range shares {
		if finding, over := c.memory(ctx, share, used[share.Allocation]); over {
			out = append(out, finding)
		}
	}
	return out
}

// shareOf finds the share of the container that a process belongs to.
func (c *gpuCheck) shareOf(pid int, shares []Share) (Share, bool) {
	owner, ok := c.options.Owner(pid)
	if !ok {
		return Share{}, false
	}
	candidates := slices.DeleteFunc(slices.Clone(shares), func(s Share) bool { return s.PodUID != owner.PodUID })
	if c.options.Container != nil {
		if name, known := c.options.Container(owner.PodUID, owner.ContainerID); known {
			candidates = slices.DeleteFunc(candidates, func(s Share) bool { return s.Container != name })
		}
	}
	if len(candidates) != 1 {
		return Share{}, false
	}
	return candidates[0], true
}

// process checks one process of a share's container.
func (c *gpuCheck) process(process device.Process, share Share) (out []Finding) {
	report := func(kind Kind, detail string) {
		key := toldKey{c.gpu, process.PID, kind}
		if c.toldNow[key] = true; !c.told[key] {
			out = append(out, Finding{Kind: kind, GPU: c.gpu, Share: share, PID: process.PID, Detail: detail})
		}
	}
	if _, client := c.clients[process.PID]; !client && c.clientsErr == nil {
		report(Bypass, "uses the GPU and is no client of the MPS daemon")
	}
	variables, err := readEnvironment(c.options.Proc, process.PID)
	if err != nil {
		return out // gone
	}
	if what := tampered(variables, share); what != "" {
		report(Tampered, what)
	}
	return out
}

// tampered says which variable allows more than the share; empty for none. What allows
// less is a container's own choice.
func tampered(variables map[string]string, share Share) string {
	if pipe := variables[envPipe]; pipe != ContainerPipe {
		return fmt.Sprintf("%s is %q, was given %q", envPipe, pipe, ContainerPipe)
	}
	if share.ComputeMilli > 0 {
		value := variables[envPercent]
		if set, err := strconv.ParseFloat(value, 64); err != nil || math.IsNaN(set) || set <= 0 || set*10 > float64(share.ComputeMilli)+0.5 {
			return fmt.Sprintf("%s is %q, was given %q", envPercent, value, percent(share.ComputeMilli))
		}
	}
	if share.MemoryMiB > 0 {
		value, given := variables[envMemory], memoryLimit(share.MemoryMiB)
		if set, ok := parseMemoryLimit(value); !ok || set > share.MemoryMiB {
			return fmt.Sprintf("%s is %q, was given %q", envMemory, value, given)
		}
	}
	return ""
}

// parseMemoryLimit reads the limit of device 0 in MiB.
func parseMemoryLimit(value string) (int64, bool) {
	for _, part := range strings.Split(value, ",") {
		index, amount, _ := strings.Cut(strings.TrimSpace(part), "=")
		if index != "0" || amount == "" {
			continue
		}
		digits, unit := amount[:len(amount)-1], amount[len(amount)-1]
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/1024 {
			return 0, false
		}
		switch unit {
		case 'M', 'm':
			return n, true
		case 'G', 'g':
			return n * 1024, true
		}
		return 0, false
	}
	return 0, false
}

// memory checks what all processes of a share's container use together, and ends the
// largest when that is too much for too long.
func (c *gpuCheck) memory(ctx context.Context, share Share, processes []device.Process) (Finding, bool) {
	if share.MemoryMiB == 0 || len(processes) == 0 {
		return Finding{}, false
	}
	var sum int64
	largest := processes[0]
	for _, process := range processes {
		sum += process.MemoryMiB
		if process.MemoryMiB > largest.MemoryMiB {
			largest = process
		}
	}
	if sum <= share.MemoryMiB+c.options.SlackMiB {
		return Finding{}, false
	}
	key := c.gpu + " " + share.Allocation
	if c.strikesNow[key] = c.strikes[key] + 1; c.strikesNow[key] < c.options.Strikes {
		return Finding{}, false
	}
	finding := Finding{Kind: OverMemory, GPU: c.gpu, Share: share, PID: largest.PID,
		Detail: fmt.Sprintf("%d processes use %d MiB, promised %d MiB", len(processes), sum, share.MemoryMiB)}
	finding.Err = c.manager.control(c.gpu).terminate(ctx, largest.PID)
	if finding.Ended = finding.Err == nil; finding.Ended {
		c.strikesNow[key] = 0
		return finding, true
	}
	// What cannot be ended is reported once, not with every check.
	told := toldKey{c.gpu, largest.PID, OverMemory}
	c.toldNow[told] = true
	return finding, !c.told[told]
}
