package agent

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// What the agent may cost before something is badly wrong. The goal is 1 % of a core and
// 50 MiB (docs/gpu-report.md has the figures of real devices).
const (
	mostCPU    = 5.0 // percent of a core
	mostMemory = 150 // MiB
)

// cost measures an agent that serves 8 GPUs, with the settings that it has by default,
// for a minute, scraped every 15 s as Prometheus would.
func cost(n *node) {
	n.start(n.args("simulated", "--serve", "--sample-interval=10s")...)
	n.offers(gpu, 8)
	time.Sleep(5 * time.Second) // the start is not what it costs
	begin, ticks := time.Now(), n.ticks()
	memory, own := 0, 0
	for range 4 {
		time.Sleep(15 * time.Second)
		if _, err := n.get("/metrics"); err != nil {
			n.t.Error(err)
		}
		memory, own = max(memory, n.status("VmRSS")), max(own, n.status("RssAnon"))
	}
	cpu := float64(n.ticks()-ticks) / 100 / time.Since(begin).Seconds() * 100
	n.t.Logf("gpu-agent, 8 simulated GPUs: %.2f %% of a core, at most %d MiB resident (%d MiB of them its own, the rest pages of its file)", cpu, memory, own)
	if cpu > mostCPU || memory > mostMemory {
		n.t.Errorf("want at most %v %% and %d MiB", mostCPU, mostMemory)
	}
}

// ticks is the processor time of the agent in hundredths of a second.
func (n *node) ticks() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.agent.Pid()))
	if err != nil {
		n.t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		n.t.Fatalf("%q", text)
	}
	return user + system
}

// status is a size that the kernel says of the agent, in MiB.
func (n *node) status(name string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.agent.Pid()))
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib int
		if _, err := fmt.Sscanf(line, name+": %d kB", &kib); err == nil {
			return kib / 1024
		}
	}
	n.t.Fatalf("no %s", name)
	return 0
}
